"""The line that a person wrote about an entity: its words, and their direction."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from stamo.corpus.tokenizer import tokenize
from stamo.corpus.types import EmergingEntity
from stamo.kb.base import KnowledgeBase
from stamo.system.arrays import Float64

_IN_BRACKETS = re.compile(r"\s*\([^()]*\)")


def about_words(entity: EmergingEntity, kb: KnowledgeBase) -> Mapping[str, float]:
    """Return the content words of the line but the names, with their rarity from 0 to 1."""
    names = {fold_word(word) for alias in entity.aliases for word in tokenize(alias)[0]}
    words = sorted({*tokenize(f"{entity.about} {qualifier(entity)}")[0]})
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


def whole_name(entity: EmergingEntity) -> str:
    """Return the name without what stands in brackets, or "" where no alias is shorter."""
    name = _IN_BRACKETS.sub(" ", entity.id).strip()
    return name if min(map(len, entity.aliases)) < len(name) else ""


def qualifier(entity: EmergingEntity) -> str:
    """Return what stands in brackets after the name: "spacecraft" of "Dawn (spacecraft)"."""
    return " ".join(part.strip(" ()") for part in _IN_BRACKETS.findall(entity.id))


def about_vector(entity: EmergingEntity, kb: KnowledgeBase) -> Float64:
    """Return the mean of the line's words less the background, at unit norm, (Q,)."""
    ids = kb.words.find_many(tokenize(entity.about)[0])
    ids = ids[ids >= 0]
    weights = kb.word_weights[ids].astype(np.float64)
    if weights.sum() <= 0:
        return np.zeros(kb.dimensions)
    mean = weights @ np.asarray(kb.word_vectors[ids], dtype=np.float64) / weights.sum()
    direction = mean - kb.background
    return np.asarray(direction / max(float(np.linalg.norm(direction)), 1e-9))


def fold_word(word: str) -> str:
    """Fold case and the commonest plural: "Rockets" and "rocket" are one word of a line."""
    folded = word.casefold()
    return folded[:-1] if folded.endswith("s") and len(folded) > 3 else folded
