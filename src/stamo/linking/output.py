"""Linked documents for other programs: JSON lines, CSV, NIF, HTML, and tables of Arrow.

Each format turns one document, or one part of a long one, into bytes; what stands around all of
them is its head and tail.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson

from stamo.corpus.nif import (
    EMERGING_IRI,
    NOT_IN_KB,
    NifPhrase,
    context_iri,
    entity_iri,
    format_nif,
)
from stamo.corpus.reading import ReadChunk
from stamo.errors import MissingExtraError, SettingsError
from stamo.linking.linker import Linker, map_batches
from stamo.linking.results import LinkedDocument, LinkedMention
from stamo.system.files import inert_cell

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


LINK_COLUMNS = (
    "id",
    "start",
    "end",
    "surface",
    "entity",
    "entity_id",
    "confidence",
    "runner_up",
    "runner_up_confidence",
    "error",
)
"""What a row of a table says of one mention, or of a document that could not be linked."""

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.7 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
article { white-space: pre-wrap; overflow-wrap: anywhere; border-top: 1px solid #8888; }
h2 { font-size: 1rem; } .error { color: #c22; }
mark { border-radius: .3em; padding: .1em .3em; color: inherit; background: #7aa2f755; }
mark.emerging { background: #9ece6a77; } mark.nil { background: #8883; }
mark small { font-size: .72em; margin-left: .4em; opacity: .85; }
"""
_HEAD = f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Linked text</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>{_STYLE}</style></head><body>
<h1>Linked text</h1>
"""


@dataclass(frozen=True, slots=True)
class LinkFormat:
    """How linked documents are written."""

    render: Callable[[LinkedDocument], bytes]
    """Writes one document; it can be handed to another process."""
    head: bytes = b""
    tail: bytes = b""


def link_format(
    name: str, emerging: Collection[str] = (), *, all_candidates: bool = False
) -> LinkFormat:
    """Return a format by its name: `jsonl`, `csv`, `nif` or `html`.

    Args:
        name: The format.
        emerging: The entities of packs, which NIF and HTML tell from known ones.
        all_candidates: Whether JSON lines list every candidate.

    Raises:
        SettingsError: There is no such format.
    """
    new = frozenset(emerging)
    formats = {
        "jsonl": LinkFormat(partial(linked_to_jsonl, all_candidates=all_candidates)),
        "csv": LinkFormat(linked_to_csv, ",".join(LINK_COLUMNS).encode() + b"\r\n"),
        "nif": LinkFormat(partial(linked_to_nif, emerging=new)),
        "html": LinkFormat(
            partial(linked_to_html, emerging=new), _HEAD.encode(), b"</body></html>\n"
        ),
    }
    if name not in formats:
        raise SettingsError(f"There is no format {name!r}; choose one of {', '.join(formats)}.")
    return formats[name]


def write_links(
    linker: Linker,
    sources: Iterable[ReadChunk],
    out: BinaryIO,
    name: str,
    n_workers: int = 1,
    *,
    all_candidates: bool = False,
) -> tuple[int, int]:
    """Link a stream of documents and write each batch at once.

    Args:
        linker: The linker, with or without entity packs.
        sources: What to link.
        out: Where to write.
        name: A format, see `link_format`.
        n_workers: Processes; 1 is the calling process itself.
        all_candidates: Whether JSON lines list every candidate.

    Returns:
        How many documents or parts were linked, and how many could not be.
    """
    emerging = [pack.entity.id for pack in linker.packs]
    form = link_format(name, emerging, all_candidates=all_candidates)
    counts = [0, 0]

    def link(batch: Sequence[ReadChunk]) -> list[tuple[bytes, bool]]:
        return [(form.render(one), one.error is None) for one in linker.link_batch(batch)]

    if n_workers > 1:
        linker.warm_up()
    out.write(form.head)
    for pieces in map_batches(link, sources, linker.settings, n_workers):
        for piece, is_linked in pieces:
            out.write(piece)
            counts[not is_linked] += 1
        out.flush()
    out.write(form.tail)
    return counts[0], counts[1]


def linked_to_jsonl(linked: LinkedDocument, *, all_candidates: bool = False) -> bytes:
    """Write a document as a line of JSON."""
    record = linked.to_record(all_candidates=all_candidates)
    try:
        return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)
    except orjson.JSONEncodeError:
        # A lone surrogate has no UTF-8 form; as an escape it stays valid JSON.
        text = json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n"
        return text.encode("utf-8", "backslashreplace")


def linked_to_csv(linked: LinkedDocument) -> bytes:
    """Write the mentions of a document as rows of CSV; no text in them is computed as a formula."""
    text = io.StringIO()
    csv.writer(text).writerows(
        ["" if value is None else inert_cell(value) for value in row] for row in _rows(linked)
    )
    return text.getvalue().encode("utf-8", "replace")


def linked_to_nif(linked: LinkedDocument, emerging: Collection[str] = ()) -> bytes:
    """Write a document as a NIF context, a part of a long one as a context of its own.

    A document that could not be linked is told in a comment.
    """
    name = linked.id if linked.part is None else f"{linked.id}?part={linked.part}"
    if linked.error is not None:
        return "# {}\n".format(" ".join(linked.error.split())).encode("utf-8", "replace")
    at_start = [
        m._replace(start=m.start - linked.offset, end=m.end - linked.offset)
        for m in linked.mentions
    ]
    phrases = nif_phrases(at_start, emerging)
    return format_nif([(context_iri(name, len(linked.text)), linked.text, phrases)])


def nif_phrases(
    mentions: Iterable[LinkedMention], emerging: Collection[str] = ()
) -> list[NifPhrase]:
    """Return mentions as phrases: known entities of DBpedia, emerging ones, and those of none."""
    phrases = []
    for m in mentions:
        if m.entity is None:
            phrases.append(NifPhrase(m.start, m.end, entity_iri(m.surface, NOT_IN_KB), None))
            continue
        iri = entity_iri(m.entity, EMERGING_IRI) if m.entity in emerging else entity_iri(m.entity)
        phrases.append(NifPhrase(m.start, m.end, iri, m.confidence))
    return phrases


def linked_to_html(linked: LinkedDocument, emerging: Collection[str] = ()) -> bytes:
    """Write a document as a piece of a page, its entities marked inline."""
    marked = []
    for text, mention in linked.pieces():
        if mention is None:
            marked.append(escape(text))
            continue
        kind, label = "nil", "NIL"
        if mention.entity is not None:
            kind = "emerging" if mention.entity in emerging else "known"
            label = f"{mention.entity} {mention.confidence:.2f}"
        inside = f"{escape(text)}<small>{escape(label)}</small>"
        marked.append(f'<mark class="{kind}">{inside}</mark>')
    body = f"<article>{''.join(marked)}</article>"
    if linked.error is not None:
        body = f'<p class="error">{escape(linked.error)}</p>'
    return f"<h2>{escape(linked.name)}</h2>\n{body}\n".encode("utf-8", "replace")


def _rows(linked: LinkedDocument) -> list[tuple[Any, ...]]:
    """Return a document's rows of `LINK_COLUMNS`."""
    if linked.error is not None:
        return [(linked.id, *[None] * (len(LINK_COLUMNS) - 2), linked.error)]
    return [
        (
            linked.id,
            m.start,
            m.end,
            m.surface,
            m.entity,
            m.id or None,
            round(m.confidence, 4),
            m.runner_up.entity if m.runner_up else None,
            round(m.runner_up.confidence, 4) if m.runner_up else None,
            None,
        )
        for m in linked.mentions
    ]


def to_arrow(linked: Iterable[LinkedDocument]) -> pa.Table:
    """Return the mentions of linked documents as a table of Arrow, one row each.

    A document that could not be linked is a row with its `error`.
    """
    import pyarrow as pa

    text, number, share = pa.string(), pa.int64(), pa.float64()
    kinds = (text, number, number, text, text, text, share, text, share, text)
    rows = [row for document in linked for row in _rows(document)]
    columns = list(zip(*rows, strict=True)) or [()] * len(LINK_COLUMNS)
    arrays = [pa.array(c, type=k) for c, k in zip(columns, kinds, strict=True)]
    return pa.table(arrays, names=list(LINK_COLUMNS))


def to_pandas(linked: Iterable[LinkedDocument]) -> pd.DataFrame:
    """Return the mentions of linked documents as a data frame, one row each.

    Raises:
        MissingExtraError: pandas is not installed.
    """
    try:
        import pandas  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("pandas", "pandas", "A data frame") from error
    return to_arrow(linked).to_pandas()
