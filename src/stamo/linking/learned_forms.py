"""What a wiki's own links teach of how its language writes names into words."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

import numpy as np

from stamo.corpus.tokenizer import lower, word_spans
from stamo.features.articles import iterate_articles
from stamo.kb.base import KnowledgeBase

N_ARTICLES, N_ENTITIES = 2000, 5000
"""How much of a knowledge base is looked at to learn from."""
MIN_SEEN = 2
"""Different entities that must show an affix or a change."""
MAX_AFFIX, MAX_ENDING = 6, 4
MAX_CHANGE = 4
"""Letters before an ending in which a stem may change."""
MIN_STEM = 3
"""Letters that a form shares with its name; two where a script has syllables or no vowels."""

Change = tuple[str, str]
"""What a form has, and what the name has instead."""


def linked_affixes(kb: KnowledgeBase) -> tuple[frozenset[str], frozenset[str]]:
    """Find what stands before and after links in the same word."""
    before: Counter[tuple[str, int]] = Counter()
    after: Counter[tuple[str, int]] = Counter()
    for text, starts, ends, entities in islice(iterate_articles(kb, held_out=False), N_ARTICLES):
        lowered = lower(text)
        word_starts, word_ends = word_spans(lowered)
        for start, end, entity in zip(
            starts.tolist(), ends.tolist(), entities.tolist(), strict=True
        ):
            i = int(np.searchsorted(word_ends, start, side="right"))
            j = int(np.searchsorted(word_ends, end, side="left"))
            if i < len(word_starts) and 0 < start - word_starts[i] <= MAX_AFFIX:
                before[lowered[word_starts[i] : start], entity] += 1
            if j < len(word_starts) and word_starts[j] < end < word_ends[j] <= end + MAX_AFFIX:
                after[lowered[end : word_ends[j]], entity] += 1
    return _often(before), _often(after)


def _often(seen: Counter[tuple[str, int]]) -> frozenset[str]:
    """Return the affixes that stand beside several entities."""
    counts = Counter(affix for affix, _ in seen)
    return frozenset(affix for affix, n in counts.items() if n >= MIN_SEEN)


def changed_words(kb: KnowledgeBase) -> list[tuple[int, Change]]:
    """Return the ends in which words of titles and of links to them differ, by entity.

    Names of several words are compared word by word: `[[Nový Most|Novém Mostě]]` shows two.
    """
    found = []
    for entity in range(min(kb.n_entities, N_ENTITIES)):
        title = kb.title(entity).split(" ")
        for form, n in kb.aliases_of(entity):
            words = form.split(" ")
            if n and len(words) == len(title):
                changes = (_change(*pair) for pair in zip(words, title, strict=True))
                found += [(entity, change) for change in changes if change is not None]
    return list(dict.fromkeys(found))


def changed_endings(changes: Iterable[tuple[int, Change]]) -> dict[str, tuple[str, ...]]:
    """Return which endings of forms stand for which endings of names, the most seen first."""
    return _often_changed(change for _, change in changes if max(map(len, change)) <= MAX_ENDING)


def changed_stems(
    changes: Iterable[tuple[int, Change]], endings: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """Return which ends of stems in forms stand for which in names.

    Praze of Praha has the ending of Ostravě of Ostrava, if e stands for a, behind a stem that has z
    for h. Several entities must show the change of the stem, behind whatever endings.
    """
    stems = {
        (entity, stem)
        for entity, change in changes
        for stem in islice(_stem_changes(change, endings), 1)
    }
    return _often_changed(stem for _, stem in stems)


def _stem_changes(change: Change, endings: Mapping[str, tuple[str, ...]]) -> Iterator[Change]:
    """Yield what is left of a change without known endings, the shortest first."""
    form, name = change
    for n in range(len(form), -1, -1):
        for other in endings.get(form[len(form) - n :], ()):
            stem, name_stem = form[: len(form) - n], name.removesuffix(other)
            if name.endswith(other) and stem and name_stem and stem[-1] != name_stem[-1]:
                yield stem, name_stem


def _often_changed(changes: Iterable[Change]) -> dict[str, tuple[str, ...]]:
    often: dict[str, list[str]] = {}
    for (form, name), n in Counter(changes).most_common():
        if n >= MIN_SEEN:
            often.setdefault(form, []).append(name)
    return {form: tuple(names) for form, names in often.items()}


def _is_word(name: str) -> bool:
    """Tell whether a name is letters alone, with the vowel signs that the scripts of India have."""
    return all(sign.isalpha() or unicodedata.category(sign).startswith("M") for sign in name)


def _change(form: str, title: str) -> Change | None:
    """Return the ends in which two words differ, None when they are no forms of one name."""
    if form == title or not (_is_word(form) and _is_word(title)):
        return None
    shared = next(
        (i for i, (a, b) in enumerate(zip(form, title, strict=False)) if a != b),
        min(len(form), len(title)),
    )
    ending, other = form[shared:], title[shared:]
    is_form = shared >= MIN_STEM and max(len(ending), len(other)) <= MAX_ENDING + MAX_CHANGE
    return (ending, other) if is_form else None
