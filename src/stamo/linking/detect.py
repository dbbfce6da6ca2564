"""Mention detection: all names that are often enough links, the longest first.

A name is detected where it stands as whole words. Its exact case comes first; a sentence's first
word may have gained a capital, and a stretch in capitals may hide a name in title case. Common
words are kept out by the link probability: "will" names a document, but is hardly ever a link.
What is found in small letters counts only where the name is a link often and is never one in small
letters, as "london" and "microsoft" are, but not "love", "apple" or "may". "bbc" is BBC, as that is
how the word is mostly written; "who" is not WHO.

Names are found by the mapped matcher of the knowledge base, so a detector is ready at once. Which
of the names are worth a mention is decided when a text first holds them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from stamo.corpus.tokenizer import DOTTED_I, begins_small, lower, tokenize
from stamo.errors import SettingsError
from stamo.kb.base import KnowledgeBase, normalise_surface
from stamo.kb.matching import PLAIN_SIGNS, NameMatcher
from stamo.linking.haystack import make_haystack
from stamo.linking.names import RepeatedNames
from stamo.linking.texts import CodeArray, Detected, JoinedTexts
from stamo.system.files import Bools, Float64, Int32, Int64

if TYPE_CHECKING:
    from stamo.linking.forms import AliasForms, NameStarts, WordForms


LEFT_ALONE = frozenset({"en", "simple"})
"""Languages whose names are written the same wherever they stand."""

MentionChoice = Literal["auto", "given", "detect"]


@dataclass(frozen=True)
class LinkerSettings:
    """How text is linked."""

    threshold: float = 0.0
    """A mention whose best candidate has a lower confidence is not linked (NIL)."""
    mentions: MentionChoice = "auto"
    """`given` links the mentions that documents bring, `detect` finds them, `auto` finds them in
    documents that bring none."""
    n_passes: int = 2
    """The first pass links by prior; each further one scores all candidates, with the confident
    links of the pass before as entity context. 1 is linking by prior alone."""
    explain: bool = False
    """Report why: what each score adds to the lead of the best candidate."""
    batch_size: int = 64
    """Documents linked together."""
    window: int = 100_000
    """Characters linked together; longer texts are cut at the ends of paragraphs or sentences."""
    link_probability: float = 0.1
    """A name is detected when at least this share of the articles that contain it link it."""

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise SettingsError(f"The threshold is {self.threshold}; it is a share from 0 to 1.")
        if min(self.n_passes, self.batch_size) < 1:
            raise SettingsError(
                "Linking needs at least one pass and one document in a batch, not "
                f"{self.n_passes} and {self.batch_size}."
            )
        if self.window < 1000:
            raise SettingsError(
                f"A window of {self.window} characters gives too little context; use 1000 or more."
            )
        if not 0 <= self.link_probability <= 1:
            raise SettingsError(
                f"The least link probability is {self.link_probability}; it is a share from 0 to 1."
            )


LEAST_FOR_SMALL = 0.5
"""The least link probability of names that begin with a small letter: common nouns mostly."""
EXTRA_PRIORITY = 2.0
"""Above every link probability."""
EXTRA_FORM_PRIORITY = 3.5
"""Above every name as it is written, below an extra alias as it is written."""
LEAST_LINK_PROBABILITY = 0.25
"""What a name needs to be found in small letters."""
LEAST_INITIALS_SHARE = 0.1
"""Articles with a name in capitals for each time that the word is written in any case."""
_UNDECIDED, _WANTED, _UNWANTED = range(3)
_LETTER = re.compile(r"[^\W\d_]")
_POSSESSIVE = "'s"
"""Not part of a name that is linked more often without it: "Macy's" is one, "China's" is not."""


class MentionDetector:
    """Finds the names of a knowledge base, and extra ones, in texts."""

    def __init__(
        self, kb: KnowledgeBase, link_probability: float = 0.1, extra_aliases: Sequence[str] = ()
    ) -> None:
        """Prepare the search.

        Args:
            kb: Its aliases are looked for, those with a sufficient link probability.
            link_probability: What is sufficient.
            extra_aliases: Names that are always looked for.
        """
        self._kb, self._least = kb, link_probability
        undecided = np.append(np.zeros(kb.n_aliases, np.uint8), np.uint8(_UNWANTED))
        self._wanted = _Verdicts(self._is_mention, undecided)
        self._fit_for_small_letters = _Verdicts(
            partial(fit_for_small_letters, kb), undecided.copy()
        )
        self._repeated = RepeatedNames(kb)
        self._letters: tuple[CodeArray, ...] = ()
        self._forms: WordForms | None = None
        self._name_starts: NameStarts | None = None
        self._extra_forms: AliasForms | None = None
        if kb.language not in LEFT_ALONE:
            from stamo.linking.forms import WordForms, find_alias_forms, learn_name_starts
            from stamo.linking.letters import form_rules, other_letters

            self._forms, self._letters = WordForms(kb, form_rules(kb)), other_letters(kb.language)
            self._name_starts = learn_name_starts(kb)
            self._extra_forms = find_alias_forms(extra_aliases, kb)
        self._extras: NameMatcher | None = None
        if extra_aliases:
            self._extra_ids = kb.alias_ids(extra_aliases)
            plain = [normalise_surface(name).translate(PLAIN_SIGNS) for name in extra_aliases]
            self._extras = NameMatcher.build(plain)
            self._extras_wanted = np.array([bool(tokenize(name)[0]) for name in plain], np.bool_)

    def detect(self, joined: JoinedTexts, counting: Bools | None = None) -> Detected:
        """Find the mentions of a batch of texts.

        Args:
            joined: The texts.
            counting: Which extra aliases count in each text, shape (texts, extra aliases); by
                default all do in all.
        """
        haystack = make_haystack(joined, self._letters, dotted_i=self._kb.language in DOTTED_I)
        found = self._kb.matcher.find_all(haystack.tokens, self._wanted)
        begin, end, aliases = found.starts, found.ends, found.names
        named = np.full(len(aliases), -1, np.int32)
        priority = self._kb.link_probability[aliases].astype(np.float64)
        if self._extras is not None:
            more = self._extras.find_all(haystack.tokens, self._extras_wanted)
            first, last, names = more.starts, more.ends, more.names
            # An extra alias that the knowledge base knows too is found once, as an extra one.
            known = np.flatnonzero(np.isin(aliases, self._extra_ids))
            if counting is not None:
                counts = counting[joined.document_of(haystack.origin[first]), names]
                first, last, names = first[counts], last[counts], names[counts]
                texts = joined.document_of(haystack.origin[begin[known]])
                same = self._extra_ids == aliases[known][:, None]  # (known, extra aliases)
                known = known[(same & counting[texts]).any(axis=1)]
            other = np.delete(np.arange(len(aliases)), known)
            begin, end = np.append(begin[other], first), np.append(end[other], last)
            aliases = np.append(aliases[other], self._extra_ids[names])
            named = np.append(named[other], names)
            priority = np.append(priority[other], np.full(len(names), EXTRA_PRIORITY))
        starts, ends = haystack.origin[begin], haystack.origin[end - 1] + 1
        # With its first letter made small, a sentence's start is only good for names at its start.
        misplaced = haystack.is_sentence[begin] & (starts != haystack.variant_at[begin])
        small = np.flatnonzero(haystack.is_small[begin])
        if len(small):
            misplaced[small] = ~self._fit_for_small_letters[aliases[small]]
        if self._name_starts is not None:
            misplaced |= self._name_starts.begin_inside(joined, starts, ends, named >= 0)
        rows = np.flatnonzero(~misplaced)
        exact = haystack.variant_at[begin] < 0
        priority = (priority + 2.0 * exact)[rows]
        every = Detected(starts, ends, aliases, named).take(rows)
        if self._forms is not None:
            # Names of the knowledge base inside words come last; a form of an extra alias is before
            # whatever else the word may be, but the alias itself.
            inside = self._forms.find(joined)
            inside = inside.take(self._wanted[inside.aliases])
            parts, ranks = [every, inside], [self._kb.link_probability[inside.aliases] - 1.0]
            if self._extra_forms is not None:
                extra = self._extra_forms.find(joined)
                if counting is not None:
                    extra = extra.take(counting[joined.document_of(extra.starts), extra.extras])
                parts.append(extra)
                ranks.append(np.full(len(extra), EXTRA_FORM_PRIORITY))
            every, priority = Detected.join(parts), np.concatenate([priority, *ranks])
        every = every.take(resolve_overlaps(every.starts, every.ends, priority))
        return self._repeated.add_to(joined, every)

    def _is_mention(self, aliases: Int32) -> Bools:
        """Tell which names are mentions wherever they stand as whole words."""
        kb = self._kb
        result = kb.link_probability[aliases] >= self._least
        likely = aliases[result]
        names = kb.aliases(likely)
        owned = np.flatnonzero([name.endswith(_POSSESSIVE) for name in names])
        owners = kb.alias_ids([names[i].removesuffix(_POSSESSIVE) for i in owned.tolist()])
        counts = np.where(owners >= 0, kb.alias_counts[owners], 0)
        small = np.fromiter(map(begins_small, names), bool, len(names))
        least_small = np.where(small, LEAST_FOR_SMALL, 0.0)
        searchable = np.fromiter(map(is_searchable, names), bool, len(names))
        searchable[owned] &= kb.alias_counts[likely[owned]] >= counts
        result[result] = searchable & (kb.link_probability[likely] >= least_small)
        return np.asarray(result)


@dataclass(frozen=True, eq=False)
class _Verdicts:
    """What was decided of names, when each was first met."""

    decide: Callable[[Int32], Bools]
    known: NDArray[np.uint8]  # (names + 1,) the last one stands for what is none of them

    def __getitem__(self, names: Int32, /) -> Bools:
        known = self.known[names]
        new = np.unique(names[known == _UNDECIDED])
        if len(new):
            self.known[new] = np.where(self.decide(new), _WANTED, _UNWANTED)
            known = self.known[names]
        return np.asarray(known == _WANTED)


def fit_for_small_letters(kb: KnowledgeBase, aliases: Int32) -> Bools:
    """Tell which names may be found in small letters, shape (n,)."""
    names = kb.aliases(aliases)
    # No common word has full stops inside, so "u.s." needs no more than "U.S." does.
    dotted = np.fromiter(("." in name[:-1] and " " not in name for name in names), bool, len(names))
    likely = dotted | (kb.link_probability[aliases] >= LEAST_LINK_PROBABILITY)
    initials = [i for i, name in enumerate(names) if len(name) > 1 and name.isupper()]
    small = [lower(name) for name in names]
    # Names in capitals are what their letters mostly are; none is known to be without word counts.
    is_written_so = np.zeros(len(initials), dtype=np.bool_)
    if kb.dimensions:
        words = kb.word_ids([small[i] for i in initials])
        counts = np.where(words >= 0, kb.word_counts[np.maximum(words, 0)], 0)
        is_written_so = kb.alias_documents[aliases[initials]] >= LEAST_INITIALS_SHARE * counts
    likely[initials] &= dotted[initials] | is_written_so
    return np.asarray(likely & (kb.alias_ids(small) < 0))


def is_searchable(name: str) -> bool:
    """Tell whether a name can be looked for in text.

    One without a letter ("!!!", "1984") would be found wherever its signs stand, and a single
    letter of a script that has capitals in every abbreviation.
    """
    if len(name) > 1:
        return _LETTER.search(name) is not None
    return name.isalpha() and name.lower() == name.upper()


def resolve_overlaps(starts: Int64, ends: Int64, priority: Float64) -> Int64:
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


def _take_greedily(ranked: Int64, starts: Int64, ends: Int64) -> Int64:
    """Take spans in the given order, each that overlaps none taken before."""
    taken: list[tuple[int, int, int]] = []
    for row, start, end in zip(
        ranked.tolist(), starts[ranked].tolist(), ends[ranked].tolist(), strict=True
    ):
        if all(end <= other_start or other_end <= start for _, other_start, other_end in taken):
            taken.append((row, start, end))
    return np.array([row for row, _, _ in taken], dtype=np.int64)
