"""What is said of an entity in a line: its words, their direction, and what is like it.

A person may write the line; without one, brackets behind the name speak (`EmergingEntity.line`).

An encoder of English finds any two texts of another language alike: 64 % of unrelated sentences in
French, 78 % in Spanish and all in Russian are above the likeness that only .4 % of English windows
reach; other encoders find all texts alike in any language. So but for ours in English the line is
compared with texts of the knowledge base first.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

import numpy as np

from stamo.corpus.tokenizer import tokenize
from stamo.corpus.types import EmergingEntity
from stamo.features.pile import TextEncoder
from stamo.kb.base import KnowledgeBase
from stamo.system.files import Float64

N_BACKGROUND, BACKGROUND_LENGTH = 16, 440
"""Texts of the knowledge base that a line is compared with, and their characters."""
USUAL_LIKENESS = 0.1
"""What a line of English has to do with any text, at most."""
UNKNOWN_LIKENESS = 0.6
"""The same of other languages, where the knowledge base has no texts."""
MOST_RAISED = 0.4
"""What says nothing lies at most so far between any text and the line itself."""
BLIND = 0.94
"""Raised so far, the encoder finds all texts the same: it knows no letter of the script (Thai)."""
_MAX_REMEMBERED = 1000
_background: dict[tuple[str, str, str], float] = {}


def about_words(entity: EmergingEntity, kb: KnowledgeBase) -> Mapping[str, float]:
    """Return the content words of line and brackets but names, with their rarity from 0 to 1."""
    names = {fold_word(word) for alias in entity.aliases for word in tokenize(alias)[0]}
    words = sorted({*tokenize(f"{entity.line} {entity.qualifier}")[0]})
    ids = kb.words.find_many(words)
    known = ids >= 0
    counts, total = np.ones(len(words)), max(float(kb.word_counts.sum()), 2.0)
    counts[known] = np.maximum(kb.word_counts[ids[known]], 1)
    rarity = 1 - np.log(counts) / np.log(total)
    says = np.ones(len(words), dtype=bool)
    says[known] = kb.word_weights[ids[known]] > 0
    return {
        fold_word(word): float(value)
        for word, value, kept in zip(words, rarity, says, strict=True)
        if kept and fold_word(word) not in names and len(word) > 1
    }


def about_vector(entity: EmergingEntity, kb: KnowledgeBase) -> Float64:
    """Return the mean of the line's words less the background, at unit norm, (Q,).

    It is 0 where none of them is known.
    """
    ids = kb.words.find_many(tokenize(entity.line)[0])
    ids = ids[ids >= 0]
    weights = kb.word_weights[ids].astype(np.float64)
    if weights.sum() <= 0:
        return np.zeros(kb.dimensions)
    mean = weights @ np.asarray(kb.word_vectors[ids], dtype=np.float64) / weights.sum()
    direction = mean - kb.background
    return np.asarray(direction / max(float(np.linalg.norm(direction)), 1e-9))


def neutral_likeness(line: str, encoder: TextEncoder, kb: KnowledgeBase, even: float) -> float:
    """Return the likeness of a text and a line that says nothing.

    Args:
        line: The line about an entity.
        encoder: What compares.
        kb: Its texts are in the language of the line.
        even: What the likeness is with our encoder in English.
    """
    if kb.language in encoder.languages:
        return even
    key = kb.fingerprint, encoder.fingerprint, line
    if key not in _background:
        if len(_background) >= _MAX_REMEMBERED:
            _background.clear()
        texts = _some_texts(kb)
        alike = encoder.encode(texts) @ encoder.encode([line])[0] if texts else UNKNOWN_LIKENESS
        _background[key] = float(np.mean(alike))
    usual = _background[key]
    raised = min(even + usual - USUAL_LIKENESS, usual + MOST_RAISED * (1 - usual))
    return max(raised, even)


def _some_texts(kb: KnowledgeBase) -> list[str]:
    """Return the openings of a few articles, from all over the first of them."""
    for batch in islice(kb.articles(columns=["text"]), 1):
        texts = [text for text in batch["text"].to_pylist() if text.strip()]
        chosen = np.unique(np.linspace(0, len(texts) - 1, N_BACKGROUND).astype(int)).tolist()
        return [texts[i][:BACKGROUND_LENGTH] for i in chosen if texts]
    return []


def fold_word(word: str) -> str:
    """Fold case and the commonest plural: "Rockets" and "rocket" are one word of a line."""
    folded = word.casefold()
    return folded[:-1] if folded.endswith("s") and len(folded) > 3 else folded
