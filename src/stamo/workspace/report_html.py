"""The parts of a report as HTML; every text that comes from documents or people is escaped.

The page holds no script and loads nothing: its policy forbids both.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

STYLE = """
:root { color-scheme: light dark; --ink: #0f172a; --soft: #64748b; --line: #e2e8f0; --page: #f8fafc;
  --card: #ffffff; --blue: #2563eb; --bar: #bfdbfe; --bad: #b91c1c; --mark: #fef08a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e2e8f0; --soft: #94a3b8; --line: #334155;
  --page: #0f172a; --card: #1e293b; --blue: #60a5fa; --bar: #1e40af; --bad: #f87171;
  --mark: #854d0e; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 2rem; line-height: 1.15; margin: 0; letter-spacing: -0.02em; }
h2 { font-size: 1.15rem; margin: 2.75rem 0 0.25rem; }
h3 { font-size: 0.95rem; margin: 0 0 0.5rem; color: var(--soft); font-weight: 600; }
p { margin: 0.35rem 0 0.9rem; max-width: 46rem; }
.soft { color: var(--soft); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: 0.75rem;
  margin: 1.5rem 0 0; }
.card, figure, .panel { background: var(--card); border: 1px solid var(--line);
  border-radius: 10px; }
.card { padding: 0.8rem 1rem; } .card b { display: block; font-size: 1.5rem; line-height: 1.25;
  font-variant-numeric: tabular-nums; } .card span { color: var(--soft); font-size: 0.82rem; }
.note { border-left: 4px solid var(--blue); background: var(--card); padding: 0.6rem 1rem;
  margin: 1.25rem 0 0; border-radius: 0 8px 8px 0; } .note.bad { border-color: var(--bad); }
figure { margin: 0.75rem 0; padding: 0.75rem; background: #ffffff; }
figure img { display: block; width: 100%; height: auto; }
.two { display: grid; grid-template-columns: repeat(auto-fit, minmax(20rem, 1fr)); gap: 0.75rem; }
.panel { padding: 0.9rem 1rem; overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; color: var(--soft); font-size: 0.82rem; }
td, th { padding: 0.28rem 0.6rem 0.28rem 0; vertical-align: top;
  border-bottom: 1px solid var(--line); }
tr:last-child td { border-bottom: 0; } .n { text-align: right; white-space: nowrap; }
.bar { display: block; height: 0.5rem; background: var(--bar); border-radius: 3px; min-width: 1px; }
.barcell { width: 38%; vertical-align: middle; }
mark { background: var(--mark); color: inherit; padding: 0 0.15em; border-radius: 3px; }
td:has(.quote) { min-width: 15rem; }
.quote { font-family: ui-serif, Georgia, serif; overflow-wrap: anywhere; }
code { font-size: 0.85em; overflow-wrap: anywhere; }
"""


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
    return f'<div class="note{" bad" if bad else ""}">{escape(text)}</div>'


def figure(data: bytes, description: str) -> str:
    """Return a picture inside the page."""
    encoded = base64.b64encode(data).decode()
    alt = escape(description, quote=True)
    return f'<figure><img alt="{alt}" src="data:image/png;base64,{encoded}"></figure>'


def bars(title: str, rows: Sequence[tuple[str, float]], digits: int = 2) -> str:
    """Return names with numbers and a bar for each."""
    most = max([abs(value) for _, value in rows] or [1.0]) or 1.0
    lines = (
        f'<tr><td>{escape(name)}</td><td class="n">{value:.{digits}f}</td>'
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
    return f'<div class="panel"><table><tr>{head}</tr>{body}</table></div>'
