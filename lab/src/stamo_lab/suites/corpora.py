"""The documents of a suite, annotated and flattened once, and kept beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stamo.build.export import MENTION_TYPE
from stamo.corpus.tokenizer import lower, tokenize, word_spans
from stamo.corpus.types import Document
from stamo.features.mentions import (
    Article,
    FlatCorpus,
    Lexicon,
    flatten_articles,
    iterate_articles,
)
from stamo.kb.base import KnowledgeBase
from stamo.system.files import Bools, Int32, Int64

DOCUMENTS, FLAT_DOCUMENTS, FLAT_ARTICLES = "documents.parquet", "documents.npz", "articles.npz"
DOCUMENTS_PER_BATCH = 256
_TEXTS = (("id", pa.string()), ("title", pa.string()), ("text", pa.string()))
DOCUMENT_SCHEMA = pa.schema([*_TEXTS, ("mentions", pa.list_(MENTION_TYPE))])

OnDocuments = Callable[[int], None]


LEAST_PRIOR = 0.97
"""P(e | m) on the dump's anchors from which on a name counts as unambiguous."""
LEAST_LINK_PROBABILITY = 0.2
"""Share of the articles with the name that link it."""
LEAST_LINKED_ARTICLES, LEAST_LENGTH = 2, 3
"""Articles that link the name, and its characters."""


@dataclass(frozen=True)
class Names:
    """Unambiguous names with the entity each one means."""

    surfaces: tuple[str, ...]
    aliases: Int32
    entities: Int32

    def by_entity(self) -> dict[int, list[str]]:
        """Return the names of each entity."""
        names: dict[int, list[str]] = {}
        for surface, entity in zip(self.surfaces, self.entities.tolist(), strict=True):
            names.setdefault(entity, []).append(surface)
        return names


def unambiguous_names(kb: KnowledgeBase, least_link_probability: float) -> Names:
    """Choose the names that practically always mean one entity.

    Only capitalised names are taken: without that a common word that is rarely linked could pass.
    Scripts without capitals pass as they are.
    """
    everything = np.arange(kb.n_aliases)
    linked_articles = kb.link_probability * kb.alias_documents
    often = kb.link_probability >= least_link_probability
    often &= linked_articles >= LEAST_LINKED_ARTICLES
    chosen = everything[often]
    candidates, priors = kb.by_alias.batch(chosen, 1)
    chosen = chosen[(priors[:, 0] >= LEAST_PRIOR) & (candidates[:, 0] >= 0)]
    candidates, _ = kb.by_alias.batch(chosen, 1)
    surfaces = kb.aliases(chosen)
    keep = [len(s) >= LEAST_LENGTH and not s[0].islower() and not s[0].isdigit() for s in surfaces]
    rows = np.flatnonzero(keep)
    kept = tuple(surfaces[i] for i in rows)
    return Names(kept, chosen[rows].astype(np.int32), candidates[rows, 0].astype(np.int32))


class NameFinder:
    """Finds names in text: longest match at word boundaries."""

    def __init__(self, kb: KnowledgeBase, names: Names) -> None:
        self._matcher = kb.matcher
        self._entities = np.full(kb.n_aliases, -1, dtype=np.int32)
        self._wanted = np.zeros(kb.n_aliases, dtype=np.bool_)
        self._wanted[names.aliases] = True
        # A name such as "Yahoo!" hides what stands inside it, but is no mention itself.
        self._entities[names.aliases] = np.where(_is_word(names.surfaces), names.entities, -1)

    def find(self, text: str) -> tuple[Int32, Int32, Int32]:
        """Return start, end and entity of every name in a text, in order."""
        found = self._matcher.find(text, self._wanted)
        entities = self._entities[found.names]
        whole = entities >= 0
        return found.starts[whole], found.ends[whole], entities[whole]


def _is_word(names: Sequence[str]) -> Bools:
    """Tell which names begin and end with a word."""
    starts, ends = word_spans(lower("\n".join(names)))
    lengths = np.fromiter(map(len, names), np.int64, len(names))
    last = np.cumsum(lengths + 1) - 1
    return np.isin(last - lengths, starts) & np.isin(last, ends)


def words_of_names(names: Iterator[str] | list[str]) -> set[str]:
    """Return all words of some names, lower-cased: what must be masked in contexts."""
    return {word for name in names for word in tokenize(lower(name))[0]}


@dataclass(frozen=True)
class SuiteCorpus:
    """Flattened documents of a suite."""

    flat: FlatCorpus
    titles: tuple[str, ...]
    counted: Bools
    """Documents that the knowledge base's statistics were counted on: their own links are left
    out of the rivals' relatedness when they serve as test documents."""

    @cached_property
    def pairs(self) -> Int64:
        """The distinct (document, entity) pairs, ordered by document."""
        linked = self.flat.entities >= 0
        pairs = np.stack([self.flat.documents[linked], self.flat.entities[linked]], axis=1)
        return np.unique(pairs.astype(np.int64), axis=0)

    @cached_property
    def _place(self) -> Mapping[str, int]:
        return {surface: i for i, surface in enumerate(self.flat.surface_table)}

    def has_text(self, aliases: Iterable[str]) -> Bools:
        """Return which mentions have one of some texts, (N,)."""
        return np.isin(self.flat.surfaces, [self._place[a] for a in aliases if a in self._place])


@dataclass(frozen=True)
class Corpora:
    """The flattened documents of a suite, and the dump's articles."""

    web: SuiteCorpus
    wiki: SuiteCorpus


def _annotate(
    documents: Iterable[Document],
    kb: KnowledgeBase,
    finder: NameFinder | None,
    writer: pq.ParquetWriter,
    titles: list[str],
    on_documents: OnDocuments,
) -> Iterator[Article]:
    """Find names in documents, or take the links that they carry; write and yield them so."""
    left = iter(documents)
    while batch := list(islice(left, DOCUMENTS_PER_BATCH)):
        rows = []
        for document in batch:
            text = document.text
            found = finder.find(text) if finder else _linked(document, kb)
            spans = zip(*(part.tolist() for part in found), strict=True)
            yield (text, *found)
            mentions = [dict(zip(("start", "end", "entity"), span, strict=True)) for span in spans]
            titles.append(document.title or "")
            rows.append(
                {"id": document.id, "title": titles[-1], "text": text, "mentions": mentions}
            )
        writer.write_table(pa.Table.from_pylist(rows, DOCUMENT_SCHEMA))
        on_documents(len(titles))


def _linked(document: Document, kb: KnowledgeBase) -> tuple[Int32, Int32, Int32]:
    mentions = [m for m in document.mentions if m.entity is not None]
    entities = kb.entity_ids([str(m.entity) for m in mentions])
    known = entities >= 0
    starts = np.array([m.start for m in mentions], dtype=np.int32)
    ends = np.array([m.end for m in mentions], dtype=np.int32)
    return starts[known], ends[known], entities[known]


def write_corpora(
    directory: Path,
    kb: KnowledgeBase,
    documents: Iterable[Document],
    least_link_probability: float | None,
    *,
    on_documents: OnDocuments = lambda n: None,
) -> Corpora:
    """Annotate and flatten the documents and the articles, and write both into a suite."""
    least, lexicon, titles = least_link_probability, Lexicon.of(kb), list[str]()
    finder = None if least is None else NameFinder(kb, unambiguous_names(kb, least))
    with pq.ParquetWriter(directory / DOCUMENTS, DOCUMENT_SCHEMA, compression="zstd") as writer:
        marked = _annotate(documents, kb, finder, writer, titles, on_documents)
        flat = flatten_articles(marked, lexicon)
    wiki = flatten_articles(iterate_articles(kb, held_out=None), lexicon)
    wiki_titles, held_out = list[str](), list[bool]()
    for batch in kb.articles(columns=["title", "held_out"]):
        wiki_titles += batch["title"].to_pylist()
        held_out += batch["held_out"].to_pylist()
    corpora = Corpora(
        SuiteCorpus(flat, tuple(titles), np.zeros(flat.n_documents, dtype=bool)),
        SuiteCorpus(wiki, tuple(wiki_titles), ~np.array(held_out, dtype=bool)),
    )
    _save_flat(directory / FLAT_DOCUMENTS, corpora.web)
    _save_flat(directory / FLAT_ARTICLES, corpora.wiki)
    return corpora


def load_corpora(directory: Path) -> Corpora:
    """Load the flattened documents of a suite."""
    return Corpora(_load_flat(directory / FLAT_DOCUMENTS), _load_flat(directory / FLAT_ARTICLES))


_ARRAYS = ("words", "word_offsets", "documents", "before", "after", "surfaces", "entities")


def _save_flat(path: Path, corpus: SuiteCorpus) -> None:
    arrays = {name: getattr(corpus.flat, name) for name in _ARRAYS}
    with path.open("wb") as file:
        np.savez(
            file,
            **arrays,
            counted=corpus.counted,
            surface_table=_pack(corpus.flat.surface_table),
            titles=_pack(corpus.titles),
        )


def _load_flat(path: Path) -> SuiteCorpus:
    with np.load(path, allow_pickle=False) as file:
        flat = FlatCorpus(
            **{name: file[name] for name in _ARRAYS}, surface_table=_unpack(file["surface_table"])
        )
        return SuiteCorpus(flat, _unpack(file["titles"]), file["counted"])


def _pack(texts: Sequence[str]) -> NDArray[np.uint8]:
    return np.frombuffer("".join(t.replace("\0", " ") + "\0" for t in texts).encode(), np.uint8)


def _unpack(packed: NDArray[np.uint8]) -> tuple[str, ...]:
    return tuple(packed.tobytes().decode().split("\0")[:-1])
