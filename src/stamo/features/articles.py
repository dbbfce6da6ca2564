"""The knowledge base's own articles as a flat corpus, for training and evaluation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from stamo.features.encoding import (
    FlatCorpus,
    Lexicon,
    MarkedText,
    flatten_texts,
    surface_candidates,
)
from stamo.kb.base import KnowledgeBase
from stamo.system.arrays import Int32

if TYPE_CHECKING:
    import pyarrow as pa

Article = tuple[str, Int32, Int32, Int32]
"""Text, and start, end and entity of its mentions."""


def iterate_articles(kb: KnowledgeBase, *, held_out: bool | None) -> Iterator[Article]:
    """Yield the text and the linked mentions of articles, in the dump's order."""
    for batch in kb.articles(held_out=held_out, columns=["text", "mentions"]):
        yield from read_batch(batch)


def read_batch(batch: pa.RecordBatch) -> Iterator[Article]:
    """Yield the texts of a batch with their linked mentions."""
    column = batch["mentions"]
    offsets = column.offsets.to_numpy(zero_copy_only=False)
    starts, ends, entities = (
        column.values.field(name).to_numpy(zero_copy_only=False).astype(np.int32)
        for name in ("start", "end", "entity")
    )
    for i, text in enumerate(batch["text"].to_pylist()):
        rows = slice(offsets[i], offsets[i + 1])
        yield text, starts[rows], ends[rows], entities[rows]


def flatten_held_out(kb: KnowledgeBase) -> FlatCorpus:
    """Flatten the articles that were held out of the knowledge base's counts."""
    return flatten_articles(iterate_articles(kb, held_out=True), Lexicon.of(kb))


def flatten_articles(articles: Iterable[Article], lexicon: Lexicon) -> FlatCorpus:
    """Flatten texts with their linked mentions."""
    return flatten_texts(map(_marked, articles), lexicon)


def _marked(article: Article) -> MarkedText:
    text, starts, ends, _ = article
    spans = zip(starts.tolist(), ends.tolist(), strict=True)
    return *article, [text[a:b] for a, b in spans]


def most_frequent_entities(corpus: FlatCorpus, kb: KnowledgeBase) -> Int32:
    """Return the candidate with the highest prior for every mention: the first pass of linking."""
    if not corpus.n_mentions:
        return np.zeros(0, dtype=np.int32)
    candidates, _ = surface_candidates(corpus, kb, None, 1)
    return np.asarray(candidates[corpus.surfaces, 0])
