"""Linking measured on documents with gold entities, in the formats of ZELDA and of GERBIL (NIF).

ZELDA has one JSON object a line: `text`, `index` (a list of [start, end] in characters) and
`wikipedia_titles`. Titles go through the knowledge base's redirects; a gold entity that it does not
know cannot be found, so accuracy, recall and F1 are about those that it knows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from stamo.corpus.nif import NOT_IN_KB, parse_nif
from stamo.corpus.reading import BadRecordError, decode, read_whole
from stamo.corpus.types import Document, Mention
from stamo.errors import CorpusFormatError
from stamo.evaluation.intervals import Interval, bootstrap, difference, f1, ratio
from stamo.features.mentions import surface_candidates
from stamo.kb.base import KnowledgeBase
from stamo.linking.detect import LinkerSettings
from stamo.linking.linker import Linker
from stamo.linking.results import LinkedDocument
from stamo.models.store import TrainedModel
from stamo.system.files import Float64, Int32
from stamo.system.streams import ByteStream, in_utf8, read_line_blocks

MAX_NIF_BYTES = 64 << 20
"""Of a file of NIF, and of one line of ZELDA's format."""
Marked = tuple[str, str, Sequence[tuple[tuple[int, int], str]]]
"""Name, text, and places and titles of the mentions of a document."""


@dataclass(frozen=True)
class EndToEnd:
    """What detection and linking together find, against the gold mentions known to the KB."""

    precision: Interval
    """Share of our links that are a gold mention with its entity."""
    precision_on_gold: Interval
    """The same among our links that touch any gold mention: no annotator marks everything."""
    recall: Interval
    f1: Interval
    detection_recall: Interval
    """Share of the gold mentions whose span we detect exactly."""
    n_links: int


@dataclass(frozen=True)
class GoldReport:
    """Results on one file."""

    name: str
    model: str
    n_documents: int
    n_mentions: int
    n_in_kb: int
    """Mentions whose gold entity the knowledge base knows."""
    n_dropped: int
    """Gold mentions left out because they overlap the one before or lie outside the text."""
    candidate_recall: Interval
    prior_alone: Interval
    accuracy: Interval
    gain: Interval
    """Accuracy above prior alone."""
    exact: EndToEnd
    overlapping: EndToEnd
    """The same, but a link counts when its span overlaps the gold mention."""


def read_zelda(path: Path, encoding: str = "") -> tuple[list[Document], int]:
    """Read documents with gold; return also how many mentions were left out.

    A mention that overlaps the one before it or lies outside the text cannot be used.

    Raises:
        CorpusFormatError: A line is not of the format.
    """
    found = []
    for number, line in enumerate(_lines(path, encoding), start=1):
        name = f"{path.name}:{number}"
        try:
            record = json.loads(decode(line))
            text, titles = record["text"], list(record["wikipedia_titles"])
            spans = [(int(start), int(end)) for start, end in record["index"]]
            pairs = sorted(zip(spans, titles, strict=True))
        except BadRecordError as error:
            raise CorpusFormatError(f"{name} is {error}: {error.advice}.") from error
        except (ValueError, KeyError, TypeError) as error:
            raise CorpusFormatError(
                f"{name} is not of ZELDA's format ({error!r}); give text, index and "
                "wikipedia_titles."
            ) from error
        found.append((name, text, pairs))
    return _gold_documents(found)


def read_nif(path: Path, encoding: str = "") -> tuple[list[Document], int]:
    """Read the documents of a NIF file; return also how many mentions were left out.

    Raises:
        CorpusFormatError: The file is not NIF.
        MissingExtraError: rdflib is not installed.
    """
    data = read_whole(_blocks(path, encoding), MAX_NIF_BYTES + 1)
    if len(data) > MAX_NIF_BYTES:
        raise CorpusFormatError(
            f"{path.name} has more than {MAX_NIF_BYTES >> 20} MB; measure on parts of it."
        )
    try:
        found = parse_nif(data)
    except CorpusFormatError as error:
        raise CorpusFormatError(f"{path.name} cannot be read as NIF: {error}") from error
    # A phrase without an entity, or with one of no encyclopaedia, is in no knowledge base.
    pairs = [[((m.start, m.end), m.entity or NOT_IN_KB) for m in d.mentions] for d in found]
    return _gold_documents([(d.id, d.text, p) for d, p in zip(found, pairs, strict=True)])


def _gold_documents(found: Iterable[Marked]) -> tuple[list[Document], int]:
    """Return documents whose mentions carry titles; and how many mentions cannot be used."""
    documents, n_dropped = [], 0
    for name, text, pairs in found:
        mentions: list[Mention] = []
        for (start, end), title in pairs:
            if start < end <= len(text) and start >= (mentions[-1].end if mentions else 0):
                mentions.append(Mention(text[start:end], start, end, title))
        documents.append(Document(name, text, tuple(mentions)))
        n_dropped += len(pairs) - len(mentions)
    return documents, n_dropped


def _blocks(path: Path, encoding: str) -> Iterator[bytes]:
    """Read a file of text in UTF-8, whatever its compression and encoding."""
    if not path.is_file():
        raise CorpusFormatError(f"There is no file {path}; give the path of a test set.")

    def refuse(reason: str) -> None:
        raise CorpusFormatError(f"{path.name} cannot be read: {reason}; copy it again.")

    with path.open("rb") as file:
        try:
            yield from in_utf8(iter(ByteStream(file, on_fault=refuse)), encoding)
        except UnicodeDecodeError:
            reason = f"{path.name} is not in {encoding}; name another encoding."
            raise CorpusFormatError(reason) from None


def _lines(path: Path, encoding: str) -> Iterator[bytes]:
    def refuse() -> None:
        raise CorpusFormatError(f"{path.name} has a line of more than {MAX_NIF_BYTES >> 20} MB.")

    for block in read_line_blocks(_blocks(path, encoding), MAX_NIF_BYTES, refuse):
        yield from block[:-1].split(b"\n")


ReadGold = Callable[[Path], tuple[list[Document], int]]
"""Reads a file with gold; tells also how many mentions were left out."""


def evaluate_gold(
    kb: KnowledgeBase,
    trained: TrainedModel,
    paths: Sequence[Path],
    *,
    settings: LinkerSettings = LinkerSettings(),
    n_samples: int = 1000,
    read: ReadGold = read_zelda,
) -> list[GoldReport]:
    """Measure linking of given mentions and end to end on files; `read` knows their format."""
    given = replace(settings, mentions="given", threshold=0.0)
    ways = (given, replace(given, n_passes=1), replace(settings, mentions="detect"))
    linkers = tuple(Linker(kb, trained, settings=way) for way in ways)
    return [_evaluate_file(path, read(path), linkers, n_samples) for path in paths]


def _evaluate_file(
    path: Path, read: tuple[list[Document], int], linkers: tuple[Linker, ...], n_samples: int
) -> GoldReport:
    (gold, n_dropped), (scorer, first_pass, linker) = read, linkers
    kb = scorer.kb
    targets = [kb.entity_ids([m.entity or "" for m in g.mentions]) for g in gold]
    # By document: right by model, right by prior, gold a candidate, mentions in the KB.
    rows = []
    ways = (scorer.link_documents(gold), first_pass.link_documents(gold))
    for document, target, *linked in zip(gold, targets, *ways, strict=True):
        corpus = scorer.locate([document]).corpus
        candidates, _ = surface_candidates(corpus, kb, corpus.surfaces, None)
        best = ([mention.entity or "" for mention in way.mentions] for way in linked)
        right = [kb.entity_ids(titles) == target for titles in best]
        hits = (*right, (candidates == target[:, None]).any(axis=1), target >= 0)
        rows.append([(hit & (target >= 0)).sum() for hit in hits])
    columns = np.array(rows, dtype=np.float64).reshape(-1, 4)
    found = list(linker.link_documents([replace(g, mentions=()) for g in gold]))
    exact, loose = (
        np.array(
            [_count_found(kb, *one, exact=only) for one in zip(gold, targets, found, strict=True)]
        )
        for only in (True, False)
    )

    def estimate(values: Float64, statistic: Any = ratio) -> Interval:
        return bootstrap(values, statistic, np.random.default_rng(0), n_samples=n_samples)

    return GoldReport(
        name=path.name,
        model=scorer.trained.model.name,
        n_documents=len(gold),
        n_mentions=sum(len(g.mentions) for g in gold),
        n_in_kb=int(columns[:, 3].sum()),
        n_dropped=n_dropped,
        candidate_recall=estimate(columns[:, [2, 3]]),
        prior_alone=estimate(columns[:, [1, 3]]),
        accuracy=estimate(columns[:, [0, 3]]),
        gain=estimate(columns[:, [0, 1, 3]], difference),
        exact=_end_to_end(exact, estimate),
        overlapping=_end_to_end(loose, estimate),
    )


def _count_found(
    kb: KnowledgeBase, gold: Document, target: Int32, found: LinkedDocument, *, exact: bool
) -> list[int]:
    """Count hits, links, gold mentions in the KB, links that touch gold, and gold spans found."""
    links = [m for m in found.mentions if m.entity is not None]
    ids = kb.entity_ids([m.entity or "" for m in links]).tolist()
    spans = [(m.start, m.end) for m in gold.mentions]
    hits, touching, taken = 0, 0, set()
    for link, entity in zip(links, ids, strict=True):
        touched = [i for i, (a, b) in enumerate(spans) if link.start < b and a < link.end]
        touching += bool(touched)
        for i in touched:
            same = spans[i] == (link.start, link.end) or not exact
            if same and target[i] == entity and i not in taken:
                taken.add(i)
                hits += 1
                break
    detected = {(m.start, m.end) for m in found.mentions}
    in_kb = [span for span, entity in zip(spans, target, strict=True) if entity >= 0]
    return [hits, len(links), len(in_kb), touching, sum(span in detected for span in in_kb)]


def _end_to_end(counts: Float64, estimate: Any) -> EndToEnd:
    counts = counts.astype(np.float64).reshape(-1, 5)
    return EndToEnd(
        precision=estimate(counts[:, [0, 1]]),
        precision_on_gold=estimate(counts[:, [0, 3]]),
        recall=estimate(counts[:, [0, 2]]),
        f1=estimate(counts[:, [0, 1, 2]], f1),
        detection_recall=estimate(counts[:, [4, 2]]),
        n_links=int(counts[:, 1].sum()),
    )
