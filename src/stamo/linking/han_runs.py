"""Names that begin inside a longer word where a script has no spaces: 日本 in 東日本.

Japanese puts Kana between its words, so a Han character right before a name mostly belongs to it;
Chinese has nothing but Han characters, so there it says little. The links of the wiki tell: were
names after a Han character as often names as elsewhere, they would be linked as often. What comes
after a name is left alone, for it may be a suffix: 日本人, 京都生まれ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

import numpy as np

from stamo.features.articles import iterate_articles
from stamo.kb.base import KnowledgeBase
from stamo.linking.learned_forms import N_ARTICLES
from stamo.linking.texts import CodeArray, JoinedTexts
from stamo.system.arrays import Bools, Int32, Int64

HAN_LANGUAGES = frozenset({"ja", "zh"})
LEAST_NAME_SHARE = 0.3
"""A name is inside a word if fewer of those after the same character are names."""
PRIOR_LINKS = 5.0
"""Expected links for which a character counts as all Han characters do."""
_DIGITS = np.array([*b"0123456789", *range(0xFF10, 0xFF1A)], dtype=np.uint32)
_HAN = ((0x3005, 0x3007), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x323AF))


@dataclass(frozen=True)
class NameStarts:
    """After which Han characters names begin."""

    share: float
    """How many of the matches after any Han character are names, by the links."""
    share_by_code: Mapping[int, float]
    """The same after one character, for those that were seen."""

    def begin_inside(
        self, joined: JoinedTexts, starts: Int64, ends: Int64, is_sure: Bools
    ) -> Bools:
        """Tell which matches begin inside a word, (n,); not those that are sure or follow a name.

        Args:
            joined: The texts.
            starts: First character of each match, shape (n,).
            ends: One past its last character.
            is_sure: Matches that are names wherever they stand.
        """
        before = _han_before(joined.codes, starts)
        codes, place = np.unique(before, return_inverse=True)
        shares = [self.share_by_code.get(code, self.share) for code in codes.tolist()]
        inside = (before > 0) & ~is_sure & (np.array(shares)[place] < LEAST_NAME_SHARE)
        if inside.any():
            inside[_follow_names(inside, starts, ends)] = False
        return np.asarray(inside)


def _follow_names(inside: Bools, starts: Int64, ends: Int64) -> list[int]:
    """Return the matches that begin where a name ends; such a match is a name, too.

    In one pass from left to right: a text may be one chain of names.
    """
    name_ends = set(ends[~inside].tolist())
    doubtful = np.flatnonzero(inside)
    doubtful = doubtful[np.argsort(starts[doubtful], kind="stable")]
    found = []
    columns = (doubtful.tolist(), starts[doubtful].tolist(), ends[doubtful].tolist())
    for row, start, end in zip(*columns, strict=True):
        if start in name_ends:
            found.append(row)
            name_ends.add(end)
    return found


def learn_name_starts(kb: KnowledgeBase) -> NameStarts | None:
    """Learn from the articles; None where names have no Han characters, or the language none."""
    if kb.language not in HAN_LANGUAGES:
        return None
    linked: Counter[int] = Counter()
    met: Counter[int] = Counter()
    for text, starts, _, _ in islice(iterate_articles(kb, held_out=False), N_ARTICLES):
        codes = np.frombuffer(text.encode("utf-32-le", "replace"), dtype=np.uint32)
        linked.update(_han_before(codes, starts[_is_han(codes[starts])]).tolist())
        places = kb.matcher.find(text).starts
        met.update(_han_before(codes, places[_is_han(codes[places])]).tolist())
    if not linked[0]:
        return None
    rate = linked.pop(0) / max(met.pop(0), 1)  # of matches after no Han character, all names
    share = min(linked.total() / (met.total() * rate + 1), 1.0)
    by_code = {
        code: (linked[code] + PRIOR_LINKS * share) / (n * rate + PRIOR_LINKS)
        for code, n in met.items()
    }
    return NameStarts(share, by_code)


def _han_before(codes: CodeArray, starts: Int32 | Int64) -> CodeArray:
    """Return the character before each place where two Han characters meet there, else 0.

    One that counts what a number stands before (2002年) belongs to the number.
    """
    before = codes[np.maximum(starts - 1, 0)]
    meets = (starts > 0) & _is_han(before) & _is_han(codes[starts])
    meets &= ~np.isin(codes[np.maximum(starts - 2, 0)], _DIGITS)
    return np.where(meets, before, np.uint32(0))


def _is_han(codes: CodeArray) -> Bools:
    inside = [(codes >= first) & (codes <= last) for first, last in _HAN]
    return np.asarray(np.logical_or.reduce(inside))
