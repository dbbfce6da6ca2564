"""What a practitioner does instead: a frozen sentence encoder, and a classifier or a threshold.

The classifier sees the sentence of a mention as one vector, the threshold one sentence more on each
side: what serves each of them best on the development entities.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.special import expit

from stamo.errors import need
from stamo.features.mentions import FlatCorpus, Lexicon
from stamo.kb.base import KnowledgeBase
from stamo.system.files import Bools, Float32, Float64, Int32, Int64

Phrase = tuple[int, ...]
"""The distinct words of a phrase, ascending."""


@dataclass(frozen=True)
class Phrasebook:
    """The phrases that articles have of entities, as words."""

    sources: tuple[tuple[FlatCorpus, Mapping[int, int]], ...]
    """Documents, and the number of the one about each entity; the first source that has one
    counts; the first are the dump's articles."""
    titles: Sequence[str]
    """Of the dump's articles."""
    lexicon: Lexicon
    most: int = 300
    """Phrases of one entity at most: first those of its article, in order."""

    @classmethod
    def of(cls, kb: KnowledgeBase, *documents: tuple[FlatCorpus, Sequence[str]]) -> Phrasebook:
        """Index documents with their titles, the dump's articles first, by what they are about."""
        sources = []
        for flat, titles in documents:
            about = kb.entity_ids(list(titles)).tolist() if titles else []
            sources.append((flat, {entity: i for i, entity in enumerate(about) if entity >= 0}))
        return cls(tuple(sources), documents[0][1], Lexicon.of(kb))

    def phrases(self, entity: int, masked: Int32) -> list[Phrase]:
        """Return the distinct phrases of an entity without masked words."""
        texts: list[str] = []
        for corpus, number_by_entity in self.sources:
            if entity in number_by_entity:
                number = number_by_entity[entity]
                first, last = np.searchsorted(corpus.documents, [number, number + 1])
                texts = [corpus.surface_table[i] for i in corpus.surfaces[first:last]]
                break
        articles, _ = self.sources[0]
        linking = np.unique(articles.documents[articles.entities == entity])
        texts += [self.titles[i] for i in linking.tolist()]
        found = dict.fromkeys(self.phrase(text, masked) for text in texts)
        return [phrase for phrase in found if phrase][: self.most]

    def phrase(self, text: str, masked: Int32) -> Phrase:
        """Return the distinct words of a text that say something."""
        words = self.lexicon.encode(text)[0]
        return tuple(sorted(set(words.tolist()) - set(masked.tolist())))


def keyphrase_scores(
    documents: Sequence[Int32],
    phrases: Mapping[int, Sequence[Phrase]],
    word_weight: Float64,
    own: Sequence[Phrase] = (),
) -> dict[int, Float64]:
    """Score every document for every entity.

    Args:
        documents: Words of each document in order, -1 where a word is masked.
        phrases: The phrases of each entity.
        word_weight: How much each word of the vocabulary says, (V,).
        own: The phrase of each document's own title, which does not count in it.

    Returns:
        For each entity the score of every document, (D,).
    """
    distinct = sorted({phrase for of_entity in phrases.values() for phrase in of_entity})
    if not distinct or not documents:
        return {entity: np.zeros(len(documents)) for entity in phrases}
    scores = _phrase_scores(documents, distinct, word_weight)
    place = {phrase: i for i, phrase in enumerate(distinct)}
    for d, phrase in enumerate(own):
        if phrase in place:
            scores[d, place[phrase]] = 0.0
    return {
        entity: scores[:, [place[p] for p in of_entity]].sum(axis=1)
        for entity, of_entity in phrases.items()
    }


def _phrase_scores(
    documents: Sequence[Int32], phrases: Sequence[Phrase], word_weight: Float64
) -> Float64:
    """Return the score of each phrase in each document, (D, P)."""
    words = np.unique([word for phrase in phrases for word in phrase])
    length = [len(phrase) for phrase in phrases]
    column = np.searchsorted(words, [word for phrase in phrases for word in phrase])
    row = np.repeat(np.arange(len(phrases)), length)
    inside = sparse.csr_matrix((np.ones(len(row)), (row, column)), (len(phrases), len(words)))
    weight = word_weight[words]
    present = np.stack([np.isin(words, document) for document in documents])
    n_matched = np.asarray(present.astype(np.float64) @ inside.T)  # (D, P)
    share = np.asarray((present * weight) @ inside.T) / np.asarray(inside @ weight)
    cover = np.ones(n_matched.shape)
    places = [_places(document, words) for document in documents]
    for d, p in zip(*np.nonzero(n_matched > 1), strict=True):
        found = [places[d][word] for word in phrases[p] if word in places[d]]
        cover[d, p] = shortest_cover(found)
    return np.asarray(n_matched / cover * share**2)


def _places(document: Int32, words: Int64) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for i in np.flatnonzero(np.isin(document, words)).tolist():
        found.setdefault(int(document[i]), []).append(i)
    return found


def shortest_cover(places: Sequence[Sequence[int]]) -> int:
    """Return the length of the shortest stretch with one place of every list."""
    merged = sorted((place, kind) for kind, of_kind in enumerate(places) for place in of_kind)
    last = [-1] * len(places)
    n_seen, best = 0, merged[-1][0] - merged[0][0] + 1
    for place, kind in merged:
        n_seen += last[kind] < 0
        last[kind] = place
        if n_seen == len(places):
            best = min(best, place - min(last) + 1)
    return best


def rarity(kb: KnowledgeBase) -> Float64:
    """Return the weight of each word: minus the logarithm of its share of running text, (V,)."""
    counts = np.maximum(np.asarray(kb.word_counts, dtype=np.float64), 1.0)
    return np.asarray(-np.log(counts / counts.sum()))


THRESHOLD = 0.31
"""Cosine above which a context is about the entity: the best on the development entities."""
SLOPE = 25.0
"""Log odds by which a whole unit of cosine counts; it orders nothing and decides nothing."""


def regression_probabilities(vectors: Float32, labelled: Bools, positive: Bools) -> Float64:
    """Fit a logistic regression on labelled contexts; return the probability of every context.

    Both kinds of labels weigh the same: without that it finds next to nothing where the entity is
    rare (macro F1 .08 and not .53 with twenty labels).

    Args:
        vectors: Contexts, (n, d).
        labelled: Which of them are labelled, (n,).
        positive: Which of these mean the entity, (n,).

    Raises:
        MissingExtraError: scikit-learn is not installed.
    """
    kinds = np.unique(positive[labelled])
    if len(kinds) < 2:  # nothing to tell apart: all are what the labels are
        return np.full(len(vectors), float(kinds.any()))
    linear = need("sklearn.linear_model", "bench", package="scikit-learn")
    model = linear.LogisticRegression(class_weight="balanced", max_iter=1000)
    model.fit(vectors[labelled], positive[labelled])
    return np.asarray(model.predict_proba(vectors)[:, 1], dtype=np.float64)


def description_probabilities(vectors: Float32, description: Float32) -> Float64:
    """Return how likely each context is about what a description says, by a fixed threshold.

    Args:
        vectors: Contexts of unit length, (n, d).
        description: The description of the entity, of unit length, (d,).
    """
    return np.asarray(expit(SLOPE * ((vectors @ description).astype(np.float64) - THRESHOLD)))
