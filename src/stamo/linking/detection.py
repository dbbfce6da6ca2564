"""Mention detection: an automaton of all names that are often enough links (longest match first).

A name is detected where it stands as whole words. Its exact case comes first; a sentence's first
word may have gained a capital, and a stretch in capitals may hide a name in title case. Common
words are kept out by the link probability: "will" names a document, but is hardly ever a link.

The automaton lives in memory only, about 175 bytes for each name, and takes about 4 seconds for a
million names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import daachorse
import numpy as np
from numpy.typing import NDArray

from stamo.errors import SettingsError
from stamo.kb.base import KnowledgeBase
from stamo.linking.haystack import make_haystack, mark_names
from stamo.linking.texts import IntArray, JoinedTexts

Ints = NDArray[np.int64]

_LETTER = re.compile(r"[^\W\d_]")


@dataclass(frozen=True)
class DetectionSettings:
    """Which names are looked for in a text."""

    least_link_probability: float = 0.1
    """A name is detected when at least this share of the articles that contain it link it."""
    least_link_probability_small: float = 0.5
    """The same for names that begin with a small letter: a common noun is a name less often."""
    least_count: int = 1
    """A name is detected when at least so many links use it; 2 halves the memory."""
    case_variants: bool = True
    """Find names also at the start of a sentence and in capitals, where case is lost."""

    def __post_init__(self) -> None:
        for share in (self.least_link_probability, self.least_link_probability_small):
            if not 0 <= share <= 1:
                raise SettingsError(
                    f"The least link probability is {share}; it is a share from 0 to 1."
                )


@dataclass(frozen=True)
class Detected:
    """The mentions of a batch in order; places are those of the joined texts."""

    starts: Ints  # (M,)
    ends: Ints  # (M,)
    aliases: IntArray  # (M,) alias of the knowledge base, -1 when only an extra alias matched
    extras: IntArray  # (M,) index into the extra aliases, -1 when none matched

    def __len__(self) -> int:
        return len(self.starts)


class MentionDetector:
    """Finds the names of a knowledge base, and extra ones, in texts."""

    def __init__(
        self,
        kb: KnowledgeBase,
        settings: DetectionSettings = DetectionSettings(),
        extra_aliases: Sequence[str] = (),
    ) -> None:
        """Build the automaton.

        Args:
            kb: Its aliases are looked for, those with a sufficient link probability.
            settings: Which of them.
            extra_aliases: Names that are always looked for.
        """
        self.settings = settings
        self.extra_aliases = tuple(extra_aliases)
        in_kb = kb.alias_ids(self.extra_aliases)
        wanted = np.asarray(kb.link_probability) >= settings.least_link_probability
        wanted &= np.asarray(kb.alias_counts) >= settings.least_count
        wanted[in_kb[in_kb >= 0]] = False
        known = np.flatnonzero(wanted).astype(np.int32)
        names = kb.aliases(known)
        patterns = mark_names([*names, *self.extra_aliases])
        is_name = np.fromiter(map(is_searchable, patterns), bool, len(patterns))
        small = np.fromiter((name[:1].islower() for name in names), bool, len(names))
        least = np.where(small, settings.least_link_probability_small, 0.0)
        is_name[: len(known)] &= np.asarray(kb.link_probability)[known] >= least
        is_name[len(known) :] = ["\x01" in pattern for pattern in patterns[len(known) :]]
        kept = np.flatnonzero(is_name)
        self._aliases = np.concatenate([known, in_kb]).astype(np.int32)[kept]
        extras = np.full(len(patterns), -1, dtype=np.int32)
        extras[len(known) :] = np.arange(len(self.extra_aliases))
        self._extras = extras[kept]
        self._priority = _priority(kb, self._aliases, self._extras)
        chosen = [patterns[i] for i in kept.tolist()]
        # The library refuses an empty set; this pattern cannot occur in a marked text.
        self._automaton = daachorse.CharwiseDoubleArrayAhoCorasick(chosen or ["\x02\x02"])

    def __len__(self) -> int:
        return len(self._aliases)

    def detect(self, joined: JoinedTexts) -> Detected:
        """Find the mentions of a batch of texts."""
        haystack = make_haystack(joined, variants=self.settings.case_variants)
        found = self._automaton.find_overlapping(haystack.text)
        flat = np.fromiter((x for row in found for x in row), np.int64, 3 * len(found))
        begin, end, pattern = flat.reshape(-1, 3).T
        starts, ends = haystack.origin[begin], haystack.origin[end - 1] + 1
        # With its first letter made small, a sentence's start is only good for names at its start.
        misplaced = haystack.is_sentence[begin] & (starts != haystack.variant_at[begin])
        exact = haystack.variant_at[begin] < 0
        rows = np.flatnonzero(~misplaced)
        priority = self._priority[pattern] + 2.0 * exact
        chosen = rows[resolve_overlaps(starts[rows], ends[rows], priority[rows])]
        return Detected(
            starts[chosen],
            ends[chosen],
            self._aliases[pattern[chosen]],
            self._extras[pattern[chosen]],
        )


def is_searchable(pattern: str) -> bool:
    """Tell whether a marked name can be looked for in text.

    One without a letter ("!!!", "1984") would be found wherever its signs stand, and a single
    letter of a script that has capitals in every abbreviation.
    """
    if len(pattern) > len("\x01a\x02"):
        return _LETTER.search(pattern) is not None
    return pattern[1:2].isalpha() and pattern.lower() == pattern.upper()


def _priority(kb: KnowledgeBase, aliases: IntArray, extras: IntArray) -> NDArray[np.float64]:
    probability = np.where(aliases >= 0, kb.link_probability[np.maximum(aliases, 0)], 0.0)
    return np.where(extras >= 0, 2.0, probability) if len(aliases) else probability


def resolve_overlaps(starts: Ints, ends: Ints, priority: NDArray[np.float64]) -> Ints:
    """Choose spans that do not overlap: the longest first, the higher priority among equals.

    Args:
        starts: First character of each span, shape (n,).
        ends: One past its last character.
        priority: Decides between spans of one length.

    Returns:
        The chosen rows, in the order of the text.
    """
    order = np.lexsort((-ends, starts))
    reach = np.maximum.accumulate(ends[order])
    # A group is a stretch of text that overlapping spans cover without a gap.
    opens = np.ones(len(order), dtype=np.bool_)
    opens[1:] = starts[order][1:] >= reach[:-1]
    group = np.empty(len(order), dtype=np.int64)
    group[order] = np.cumsum(opens) - 1
    ranked = np.lexsort((starts, -priority, starts - ends, group))
    firsts = np.flatnonzero(np.diff(group[ranked], prepend=-1))
    best = ranked[firsts]
    edges = np.flatnonzero(np.append(opens, True))
    covers = (starts[best] == starts[order][edges[:-1]]) & (ends[best] == reach[edges[1:] - 1])
    # Where the best span covers its group, nothing else has a place; only the others need a loop.
    chosen = [best[covers]]
    stops = np.append(firsts[1:], len(ranked))
    for i in np.flatnonzero(~covers).tolist():
        chosen.append(_take_greedily(ranked[firsts[i] : stops[i]], starts, ends))
    rows = np.concatenate([np.zeros(0, np.int64), *chosen])
    return rows[np.argsort(starts[rows], kind="stable")]


def _take_greedily(ranked: Ints, starts: Ints, ends: Ints) -> Ints:
    """Take spans in the given order, each that overlaps none taken before."""
    taken: list[tuple[int, int, int]] = []
    for row, start, end in zip(
        ranked.tolist(), starts[ranked].tolist(), ends[ranked].tolist(), strict=True
    ):
        if all(end <= other_start or other_end <= start for _, other_start, other_end in taken):
            taken.append((row, start, end))
    return np.array([row for row, _, _ in taken], dtype=np.int64)
