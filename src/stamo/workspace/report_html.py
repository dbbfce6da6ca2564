"""The parts of a report as HTML; every text that comes from documents or people is escaped.

The page holds no script and loads nothing: its policy forbids both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from urllib.parse import urlencode

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

PLACE = "data-place"
"""The attribute that names a mention, see `place`."""

STYLE = "\n" + (resources.files("stamo.workspace") / "report.css").read_text(encoding="utf-8")


def page(title: str, body: Iterable[str]) -> str:
    """Return a whole page."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(body)
        + "\n</main>\n</body>\n</html>\n"
    )


def heading(text: str, explanation: str = "") -> str:
    """Return the start of a section."""
    more = f'\n<p class="soft">{escape(explanation)}</p>' if explanation else ""
    return f"<h2>{escape(text)}</h2>{more}"


def cards(values: Sequence[tuple[str, str]]) -> str:
    """Return large numbers with what they count."""
    items = (
        f'<div class="card"><b>{escape(value)}</b><span>{escape(name)}</span></div>'
        for value, name in values
    )
    return f'<div class="cards">{"".join(items)}</div>'


def note(text: str, *, bad: bool = False) -> str:
    """Return a sentence that must not be missed."""
    kind = 'class="note bad" role="alert"' if bad else 'class="note"'
    return f"<div {kind}>{escape(text)}</div>"


def figures(panels: Iterable[tuple[str, str, str]]) -> str:
    """Return drawings side by side where there is room: caption, description and SVG of each."""
    items = (
        f"<figure><figcaption>{escape(caption)}</figcaption>"
        f'<div role="img" aria-label="{escape(description)}">{svg}</div></figure>'
        for caption, description, svg in panels
    )
    return two(*items)


def verdict(kind: str, sentence: str, reasons: Iterable[str]) -> str:
    """Return the sentence that decides, with its reasons."""
    lines = "".join(f"<li>{escape(reason)}</li>" for reason in reasons)
    return (
        f'<section class="verdict {escape(kind)}" aria-label="Verdict">'
        f"<p>{escape(sentence)}</p><ul>{lines}</ul></section>"
    )


def place(workspace: str, document: str, mention: int) -> str:
    """Return an attribute that names a mention; a served report turns it into a link.

    The file by itself has no labelling page to link to.
    """
    query = urlencode({"workspace": workspace, "document": document, "mention": mention})
    return f'{PLACE}="?{escape(query)}"'


def with_links(page: str, address: str) -> str:
    """Make every named mention a link to the labelling page."""
    # No text of a document can hold this: its quotes are escaped.
    return page.replace(f' {PLACE}="?', f' href="{escape(address)}?')


def bars(title: str, rows: Sequence[tuple[str, float]]) -> str:
    """Return names with numbers and a bar for each."""
    most = max([abs(value) for _, value in rows] or [1.0]) or 1.0
    lines = (
        f'<tr><td>{escape(name)}</td><td class="n">{value:.2f}</td>'
        f'<td class="barcell"><span class="bar" style="width:{100 * abs(value) / most:.0f}%">'
        "</span></td></tr>"
        for name, value in rows
    )
    body = "".join(lines) or '<tr><td class="soft">nothing</td></tr>'
    return f'<div class="panel"><h3>{escape(title)}</h3><table>{body}</table></div>'


def two(*panels: str) -> str:
    """Return panels side by side where there is room."""
    return f'<div class="two">{"".join(panels)}</div>'


def quote(before: str, surface: str, after: str) -> str:
    """Return a mention in its context."""
    return (
        f'<span class="quote">{escape(before)}<mark>{escape(surface)}</mark>{escape(after)}</span>'
    )


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], numeric: Sequence[int]) -> str:
    """Return a table; the cells are HTML already, the headings are text."""
    kinds = [' class="n"' if i in numeric else "" for i in range(len(headings))]
    head = "".join(f"<th{k}>{escape(h)}</th>" for k, h in zip(kinds, headings, strict=True))
    lines = []
    for row in rows:
        cells = "".join(f"<td{k}>{cell}</td>" for k, cell in zip(kinds, row, strict=True))
        lines.append(f"<tr>{cells}</tr>")
    body = "".join(lines) or f'<tr><td class="soft" colspan="{len(headings)}">none</td></tr>'
    return f'<div class="panel" tabindex="0"><table><tr>{head}</tr>{body}</table></div>'
