"""Names as they are seen in documents: each name once a document, with its context.

A sighting is packed where it is made and unpacked where it is read: most are only kept. Which ones
are kept is drawn by a hash of name and document, so it is the same in whatever order or number of
processes the documents were read; contexts of a later time, and those that fit no known meaning,
are drawn more often (weighted sampling after Efraimidis and Spirakis).

For each name its counts are kept and a bounded sample of its contexts. When there are more names
than allowed, those of the fewest documents that were seen longest ago are forgotten, which is lossy
counting: a name that comes up again and again stays.
"""

from __future__ import annotations

import marshal
import re
from bisect import insort
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import compress, pairwise
from typing import NamedTuple

import numpy as np

from stamo.kb.base import STOP_WORD_FREQUENCY, KnowledgeBase, normalise_surfaces
from stamo.linking.haystack import begins_sentence
from stamo.linking.linker import Linker
from stamo.linking.names import in_documents
from stamo.linking.texts import JoinedTexts, Located, flatten_joined
from stamo.system.files import Bools, Int32, Int64

_YEAR = re.compile(r"(?:19|20)(?<![\d.,][12][90])\d\d(?!\d|[.,]\d)")
"""What stands before it is looked at last: a search is then one for the first digit."""
N_DIGITS = 4
LEAST_SHARE = 0.2
"""A year that so many articles speak of, next to the most frequent year, is still its time."""
LEAST_ARTICLES = 20
"""Fewer articles with a year say nothing about the time of a knowledge base."""
MAX_ARTICLES = 4096
"""Articles that are looked at."""
HORIZON = 30
"""Years beyond the knowledge base that text may speak of; a later one is no date."""
EARLIER, NO_YEAR, LATER = 0, 1, 2
"""A text names only years that the knowledge base knows, none at all, or a later one."""


def last_year(kb: KnowledgeBase) -> int | None:
    """Return the last year that the articles of a knowledge base speak of as a matter of course.

    Few of its articles name a later one: the number falls steeply after the year of the dump.
    None where the articles name no years.
    """
    counts: Counter[int] = Counter()
    n = 0
    for batch in kb.articles(columns=["text"]):
        for text in batch["text"].to_pylist():
            counts.update(set(years(text)))
        n += len(batch)
        if n >= MAX_ARTICLES:
            break
    if not counts or max(counts.values()) < LEAST_ARTICLES:
        return None
    least = LEAST_SHARE * max(counts.values())
    return max(year for year, count in counts.items() if count >= least)


def years(text: str) -> Iterable[int]:
    """Return the years that a text names."""
    return map(int, _YEAR.findall(text))


class NamedYears(NamedTuple):
    """The years that texts name, in order, next to the last year of a knowledge base."""

    places: Int64
    """Document and first character of each year, as one number, (n,)."""
    n_later: Int64
    """How many of the years before each one, and before the end, are later, (n + 1,)."""

    @classmethod
    def of(cls, joined: JoinedTexts, year: int | None) -> NamedYears:
        """Find them; none where the year is unknown."""
        last = (year or 0) + HORIZON
        left, right = joined.codes[:-1], joined.codes[1:]
        begins = (left == ord("1")) & (right == ord("9")) | (left == ord("2")) & (right == ord("0"))
        # Only where one may begin the text is looked at.
        maybe = [] if year is None else np.flatnonzero(begins).tolist()
        matches = ((place, _YEAR.match(joined.text, place)) for place in maybe)
        numbers = ((place, int(match[0])) for place, match in matches if match is not None)
        found = [(place, number) for place, number in numbers if number <= last]
        starts = np.array([place for place, _ in found], dtype=np.int64)
        documents = joined.document_of(starts)
        later = [number > (year or 0) for _, number in found]
        places = _place(documents, joined.local(documents, starts))
        return cls(places, np.cumsum([0, *later]))

    def times_of(self, documents: Int32, begins: Int32, ends: Int32) -> Int64:
        """Return `LATER`, `EARLIER` or `NO_YEAR` for n pieces of the texts, (n,)."""
        first = np.searchsorted(self.places, _place(documents, np.maximum(begins, 0)))
        last = np.searchsorted(self.places + N_DIGITS, _place(documents, ends), side="right")
        last = np.maximum(first, last)
        is_later = self.n_later[last] > self.n_later[first]
        return np.where(first == last, NO_YEAR, np.where(is_later, LATER, EARLIER))


def _place(documents: Int32, places: Int32) -> Int64:
    return documents.astype(np.int64) << 32 | places


SMALL_WORDS = frozenset(
    {"of", "the", "de", "la", "le", "du", "des", "del", "della", "di", "da", "dos"}
    | {"van", "von", "der", "den", "al", "el", "y"}
)
"""Words that are written small inside names."""
MAX_SMALL = max(map(len, SMALL_WORDS))
MAX_NAME_WORDS = 8
"""A longer run is a heading in capitals, not a name."""
MAX_DIGITS = 3
"""A number that belongs to a name is shorter than a year."""
FREQUENT_WORD = 1e-4
"""A word above this share of the text that begins a sentence is hardly part of a name."""
_ARTICLES = frozenset({"the", "a", "an"})


@dataclass(frozen=True)
class CapitalSpans:
    """Runs of capitalised words, as words of the joined texts."""

    first: Int64  # (n,) first word
    last: Int64  # (n,) one past the last word
    opens: Bools  # (n,) whether the run begins a sentence

    def __len__(self) -> int:
        return len(self.first)


def capital_spans(joined: JoinedTexts, frequent: Set[str]) -> CapitalSpans:
    """Find all runs of capitalised words, in the order of the text.

    Args:
        joined: The texts.
        frequent: Frequent words: after an initial's full stop one begins a sentence.
    """
    n = len(joined.words)
    if n == 0:
        none = np.zeros(0, dtype=np.int64)
        return CapitalSpans(none, none, np.zeros(0, np.bool_))
    capital = joined.is_raised
    joins = _joins(joined, capital, frequent)
    begins = np.ones(n, dtype=np.bool_)
    begins[1:] = ~joins
    first = np.flatnonzero(begins)
    last = np.append(first[1:], n)
    wanted = capital[first] & (last - first <= MAX_NAME_WORDS)
    length = joined.ends[last - 1] - joined.starts[first]
    wanted &= length > 1  # a single letter is no name
    first, last = first[wanted], last[wanted]
    return CapitalSpans(first, last, begins_sentence(joined, first))


def _joins(joined: JoinedTexts, capital: Bools, frequent: Set[str]) -> Bools:
    """Tell between which neighbouring words a name goes on, (n - 1,)."""
    gaps = joined.starts[1:] - joined.ends[:-1]
    single = (joined.ends - joined.starts) == 1
    sign = joined.codes[joined.ends[:-1]]
    near = gaps == 1
    space, hyphen = near & (sign == ord(" ")), near & (sign == ord("-"))
    apostrophe = near & ((sign == ord("'")) | (sign == ord("’"))) & single[:-1]
    dot = (sign == ord(".")) & single[:-1]
    letters = dot & near & single[1:]  # "U.S."
    both = capital[:-1] & capital[1:]
    joins = both & (space | hyphen | apostrophe | letters)
    wide = gaps == 3  # "Ernst & Young", "Travel + Leisure"
    middle = joined.codes[np.minimum(joined.ends[:-1] + 1, len(joined.codes) - 1)]
    joins |= both & wide & (sign == ord(" ")) & ((middle == ord("&")) | (middle == ord("+")))
    joins |= both & near & (sign == ord("&"))
    for i in np.flatnonzero(both & dot & (gaps == 2)).tolist():  # "John F. Kennedy"
        # After an initial a name goes on, unless a sentence begins.
        is_blank = joined.codes[joined.ends[i] + 1] == ord(" ")
        joins[i] |= is_blank and joined.words[i + 1] not in frequent
    # "Gamma-ray Space": what a hyphen joins belongs to the name when the name goes on.
    n = len(capital) - 2
    over = capital[:n] & hyphen[:n] & ~capital[1 : n + 1] & space[1:] & capital[2:]
    joins[:n] |= over
    joins[1:] |= over
    first_code = joined.codes[joined.starts]
    short = (joined.ends - joined.starts) <= MAX_DIGITS
    number = (first_code >= ord("0")) & (first_code <= ord("9")) & short
    joins |= capital[:-1] & number[1:] & space
    for width in (1, 2):
        joins[_over_small_words(joined, capital, space, width)] = True
    return np.asarray(joins)


def _over_small_words(joined: JoinedTexts, capital: Bools, space: Bools, width: int) -> Int64:
    """Return the gaps that a name goes over with `width` small words in it; few are looked up."""
    n = max(len(capital) - width - 1, 0)
    short = ~capital & (joined.ends - joined.starts <= MAX_SMALL)
    over = capital[:n] & capital[width + 1 :]
    for i in range(width):
        over &= short[i + 1 : i + 1 + n]
    for i in range(width + 1):
        over &= space[i : i + n]
    words, places = joined.words, np.flatnonzero(over).tolist()
    found = [i for i in places if SMALL_WORDS.issuperset(words[i + 1 : i + 1 + width])]
    return np.add.outer(np.array(found, dtype=np.int64), np.arange(width + 1)).ravel()


class FrequentWords(NamedTuple):
    """The words whose capital may say nothing."""

    frequent: frozenset[str]
    """At a sentence's start."""
    stop_words: frozenset[str]
    """Anywhere."""

    @classmethod
    def of(cls, kb: KnowledgeBase) -> FrequentWords:
        """Let the counts of a knowledge base decide."""
        shares = kb.word_counts / float(kb.word_counts.sum())
        above = (np.flatnonzero(shares > share) for share in (FREQUENT_WORD, STOP_WORD_FREQUENCY))
        return cls(*(frozenset(kb.words.texts(numbers)) for numbers in above))


def trim(
    joined: JoinedTexts,
    runs: CapitalSpans,
    kb: KnowledgeBase,
    words: FrequentWords,
    small: Set[str],
) -> CapitalSpans:
    """Take words from the front of a run that have their capital from the sentence alone.

    So do stop words anywhere ("The", "If"). A single word that begins a sentence is no name that
    could be trusted. What the knowledge base knows as it stands is left alone.

    Args:
        joined: The texts.
        runs: The runs.
        kb: Knows names.
        words: Which words are frequent.
        small: The words that the texts write without a capital.
    """
    first, single = runs.first.copy(), runs.last - runs.first == 1
    begins = list(map(joined.words.__getitem__, first.tolist()))
    is_stop = np.fromiter(map(words.stop_words.__contains__, begins), np.bool_, len(runs))
    places = joined.starts[runs.first]
    space, bracket = (joined.codes.take(places - n, mode="clip") for n in (1, 2))
    follows_bracket = (space == ord(" ")) & (bracket == ord(")")) & (places > 1)
    maybe = runs.opens | follows_bracket
    is_small = _is_one_of(begins, small, maybe)
    # "(Friday) Does Mira": a bracket may end what stands before a sentence.
    opens = runs.opens | (maybe & is_small)
    keep = ~single | ~(opens | is_stop)
    rows = np.flatnonzero(single & is_stop & ~opens)
    keep[rows] = _are_known(joined, first[rows], runs.last[rows], kb)
    # "Users of Mira": what begins a sentence before a small word is hardly part of the name.
    goes_on = joined.is_raised[np.minimum(first + 1, len(joined.words) - 1)]
    is_cut = opens & (is_small | ~goes_on | _is_one_of(begins, words.frequent, opens & ~single))
    rows = np.flatnonzero(~single & (is_cut | is_stop))
    rows = rows[~_are_known(joined, first[rows], runs.last[rows], kb)]
    for i in rows.tolist():
        begin, end = int(first[i]), int(runs.last[i])
        place = _first_name_word(joined, begin + int(is_cut[i]), end, kb, words.stop_words)
        first[i], keep[i] = place, place < end
    return CapitalSpans(first[keep], runs.last[keep], runs.opens[keep])


def _is_one_of(words: Sequence[str], wanted: Set[str], is_asked: Bools) -> Bools:
    """Tell which of the words that are asked for are wanted ones."""
    found = np.zeros(len(words), dtype=np.bool_)
    found[[i for i in np.flatnonzero(is_asked).tolist() if words[i] in wanted]] = True
    return found


def _first_name_word(
    joined: JoinedTexts, begin: int, end: int, kb: KnowledgeBase, stop_words: Set[str]
) -> int:
    """Return the first word from `begin` on that has a capital of its own, `end` for none.

    A stop word in front has none where it belongs to no known name: "The Colbert Report" loses its
    first word, "New York Comic Con" does not.
    """

    def is_known(first: int, last: int) -> bool:
        return kb.alias_id(joined.text[joined.starts[first] : joined.ends[last - 1]]) >= 0

    for place in range(begin, end):
        word = joined.words[place]
        if joined.is_raised[place] and (word not in stop_words or is_known(place, end)):
            return place
        is_pair = word not in _ARTICLES and place + 2 <= end
        if joined.is_raised[place] and is_pair and is_known(place, place + 2):
            return place
    return end


def _are_known(joined: JoinedTexts, first: Int64, last: Int64, kb: KnowledgeBase) -> Bools:
    spans = zip(joined.starts[first].tolist(), joined.ends[last - 1].tolist(), strict=True)
    return np.asarray(kb.alias_ids([joined.text[start:end] for start, end in spans]) >= 0)


@dataclass(frozen=True)
class FoundNames:
    """The M mentions of a batch in order, and their N distinct names."""

    located: Located
    names: list[str]  # N
    aliases: Int32  # (N,) number in the knowledge base, -1 where unknown
    is_capital: Bools  # (M,) is a capitalised run of its own
    is_detected: Bools  # (M,) found by the linker's own detection

    @property
    def documents(self) -> Int32:
        """The document of each mention, (M,)."""
        return self.located.documents

    @property
    def numbers(self) -> Int32:
        """The name of each mention, (M,)."""
        return self.located.corpus.surfaces


def find_names(
    joined: JoinedTexts, linker: Linker, words: FrequentWords, small: Set[str]
) -> FoundNames:
    """Find the names that the linker knows and the capitalised runs that it does not cover.

    Args:
        joined: The texts.
        linker: Knows names.
        words: Which words are frequent.
        small: The words that the texts write without a capital.
    """
    detected = linker.detector.detect(joined)
    runs = trim(joined, capital_spans(joined, words.frequent), linker.kb, words, small)
    starts = joined.starts[runs.first].astype(np.int64)
    ends = joined.ends[runs.last - 1].astype(np.int64)
    # A detected name that holds a run stands for it; inside a longer run it is part of that name.
    place = np.searchsorted(detected.starts, starts, side="right") - 1
    inside = place >= 0
    inside[inside] = detected.ends[place[inside]] >= ends[inside]
    is_capital = np.zeros(len(detected), dtype=np.bool_)
    is_capital[place[inside]] = True
    starts, ends = starts[~inside], ends[~inside]
    # Names that overlap no run; both are in order and free of overlaps.
    before = np.searchsorted(ends, detected.starts, side="right")
    free = before >= np.searchsorted(starts, detected.ends, side="left")
    spans = zip(starts.tolist(), ends.tolist(), strict=True)
    texts = normalise_surfaces([joined.text[start:end] for start, end in spans])
    numbers, names, aliases = _name_table(linker, detected.aliases[free], texts)
    all_starts = np.concatenate([detected.starts[free], starts])
    all_ends = np.concatenate([detected.ends[free], ends])
    order = np.argsort(all_starts, kind="stable")
    all_starts, all_ends, n_free = all_starts[order], all_ends[order], int(free.sum())
    located = flatten_joined(
        joined, all_starts, all_ends, numbers[order], tuple(names), linker.words, aliases=aliases
    )
    return FoundNames(
        located,
        names,
        aliases,
        np.concatenate([is_capital[free], np.ones(len(starts), np.bool_)])[order],
        order < n_free,
    )


def _name_table(
    linker: Linker, detected: Int32, texts: list[str]
) -> tuple[Int32, list[str], Int32]:
    """Number the distinct names of detected aliases and of runs.

    Returns:
        The number of each mention's name, the runs last; the names; their aliases.
    """
    used, place = np.unique(detected, return_inverse=True)
    names = linker.kb.aliases(used)
    index = dict(zip(names, range(len(names)), strict=True))
    numbers = [index.setdefault(text, len(index)) for text in texts]
    more = list(index)[len(names) :]
    return (
        np.concatenate([place, np.array(numbers, dtype=np.int64)]).astype(np.int32),
        names + more,
        np.concatenate([used, linker.kb.alias_ids(more)]).astype(np.int32),
    )


def small_words(joined: JoinedTexts) -> list[set[str]]:
    """Return the words that each text writes without a capital."""
    is_small = (~joined.is_raised).tolist()
    edges = np.searchsorted(joined.starts, joined.offsets).tolist()
    return [
        set(compress(joined.words[begin:end], is_small[begin:end]))
        for begin, end in pairwise(edges)
    ]


N_NEAR_ENTITIES = 8
"""Linked entities near a name that are kept."""


def full_names(documents: Int32, numbers: Int32, names: Sequence[str], aliases: Int32) -> Int32:
    """Return for what name each of M mentions stands in its document, most for their own, (M,).

    Args:
        documents: The document of each mention, ascending, shape (M,).
        numbers: The name of each mention, shape (M,).
        names: The N distinct names.
        aliases: Their numbers in the knowledge base, -1 for unknown ones, shape (N,).
    """
    used = np.unique(numbers).tolist()
    pairs = np.array(list(_shortened(used, names, aliases)), dtype=np.int64).reshape(-1, 2)
    document, short, full = in_documents(pairs[:, 0], pairs[:, 1], documents, numbers)
    if not len(document):
        return numbers
    n = len(names)
    mine = documents.astype(np.int64) * n + numbers
    present, first, counts = np.unique(mine, return_index=True, return_counts=True)
    place = np.searchsorted(present, document * n + full)
    key = document * n + short
    order = np.lexsort((first[place], -counts[place], key))
    shorts, best = np.unique(key[order], return_index=True)
    stands_for = _last_of_chains(shorts, (document * n + full)[order][best])
    place = np.minimum(np.searchsorted(shorts, mine), len(shorts) - 1)
    return np.where(shorts[place] == mine, stands_for[place] % n, numbers).astype(np.int32)


def _shortened(
    used: Sequence[int], names: Sequence[str], aliases: Int32
) -> Iterator[tuple[int, int]]:
    """Yield a name and a longer one that it may be short for, as numbers."""
    number_by_name = {names[i]: i for i in used}
    is_unknown = (aliases < 0).tolist()
    for full in used:
        name = names[full]
        place = name.find(" ")
        while place >= 0:
            parts = (name[place + 1 :], name[:place]) if is_unknown[full] else (name[place + 1 :],)
            for part in parts:
                if part in number_by_name and _is_whole_name(name):
                    yield number_by_name[part], full
            place = name.find(" ", place + 1)


def _is_whole_name(name: str) -> bool:
    """Tell whether all words of a name have capitals, but for those that never do."""
    return not any(word[:1].islower() and word not in SMALL_WORDS for word in name.split(" "))


def _last_of_chains(keys: Int64, values: Int64) -> Int64:
    """Follow values that are keys themselves to the end; each step leads to a longer name."""
    while True:
        place = np.minimum(np.searchsorted(keys, values), len(keys) - 1)
        is_key = keys[place] == values
        if not is_key.any():
            return values
        values = np.where(is_key, values[place], values)


@dataclass(frozen=True)
class DocumentNames:
    """The G names of documents, ordered by document and first mention."""

    documents: Int32  # (G,)
    names: Int32  # (G,) number of the name
    rows: Int64  # (G,) first mention
    n_mentions: Int64  # (G,)
    short: Int64  # (S,) a name of a document...
    short_names: Int64  # (S,) ...and the number of a short name that stands for it there

    @classmethod
    def of(cls, documents: Int32, rows: Int64, own: Int32, full: Int32) -> DocumentNames:
        """Bring mentions together by the name that they stand for.

        Args:
            documents: The document of each mention, ascending, shape (M,).
            rows: The number of each mention, ascending, shape (M,).
            own: The name of each mention, shape (M,).
            full: The name that each mention stands for, shape (M,).
        """
        n = int(full.max(initial=0)) + 1
        keys = documents.astype(np.int64) * n + full
        keys, first, place, counts = np.unique(
            keys, return_index=True, return_inverse=True, return_counts=True
        )
        order = np.argsort(first)
        group_of = np.empty_like(order)
        group_of[order] = np.arange(len(order))
        is_short = np.flatnonzero(own != full)
        pairs = np.unique(group_of[place[is_short]] << 32 | own[is_short])
        return cls(
            documents[first[order]],
            (keys % n)[order].astype(np.int32),
            rows[first[order]],
            counts[order],
            pairs >> 32,
            pairs & 0xFFFFFFFF,
        )

    def includes(self, chosen: Int64, numbers: Int32) -> Bools:
        """Tell which names, (n, k), are those of chosen names of documents, (n,), or short."""
        same = numbers == self.names[chosen][:, None]
        rows = np.flatnonzero(np.isin(chosen, self.short))
        pairs = self.short << 32 | self.short_names
        same[rows] |= np.isin(chosen[rows][:, None] << 32 | numbers[rows], pairs)
        return np.asarray(same)

    def short_by_name(self, texts: list[str]) -> dict[int, tuple[str, ...]]:
        """Return the short names of those names of documents that have any."""
        found: dict[int, list[str]] = {}
        for name, short in zip(self.short.tolist(), self.short_names.tolist(), strict=True):
            found.setdefault(name, []).append(texts[short])
        return {name: tuple(sorted(shorts)) for name, shorts in found.items()}


def companions(
    names: DocumentNames, chosen: Int64, linked: Int32, numbers: Int32, documents: Int32
) -> list[tuple[int, ...]]:
    """Return the entities that other names near the chosen ones are linked to, the nearest first.

    Args:
        names: The names of documents.
        chosen: Which of them, shape (n,).
        linked: The entity that each mention is linked to, -1 for none, shape (M,).
        numbers: The name of each mention, shape (M,).
        documents: The document of each mention, ascending, shape (M,).
    """
    rows = np.flatnonzero(linked >= 0)
    if not len(rows) or not len(chosen):
        return [()] * len(chosen)
    at, document = names.rows[chosen], names.documents[chosen]
    width = np.arange(-N_NEAR_ENTITIES, N_NEAR_ENTITIES + 1)
    near = np.searchsorted(rows, at)[:, None] + width  # (n, 17)
    inside = (near >= 0) & (near < len(rows))
    near = rows[np.clip(near, 0, len(rows) - 1)]
    inside &= documents[near] == document[:, None]
    away = np.where(inside, np.abs(near - at[:, None]), len(linked))
    order = np.argsort(away, axis=1, kind="stable")
    near, inside = (np.take_along_axis(each, order, axis=1) for each in (near, inside))
    inside &= ~names.includes(chosen, numbers[near])
    return _distinct(np.where(inside, linked[near], -1))


def _distinct(entities: Int32) -> list[tuple[int, ...]]:
    """Return the first distinct entities of each row of (n, k), without -1."""
    new = entities >= 0
    for i in range(1, entities.shape[1]):
        new[:, i] &= (entities[:, :i] != entities[:, i : i + 1]).all(axis=1)
    new &= np.cumsum(new, axis=1) <= N_NEAR_ENTITIES
    found = entities[new].tolist()
    ends = np.cumsum(new.sum(axis=1)).tolist()
    return [tuple(found[a:b]) for a, b in zip([0, *ends], ends, strict=False)]


TIME_WEIGHTS = {EARLIER: 0.25, NO_YEAR: 1.0, LATER: 4.0}
"""How much more often contexts of a later time are kept."""
EXPLAINED_WEIGHT = 0.3
"""How much less often a context is kept that fits a known meaning."""
EXPLAINED_FIT = 0.45
"""A known name whose context fits a known meaning at least so well is explained by it."""
KEPT_SHARE = 0.75
"""How much of the allowed names is left after some were forgotten."""
_FORMAT = 2
"""The last format of marshal that does not look for repeated objects, which takes half the time."""

_OWN_YEAR = re.compile(r"[\"”’'»*]{0,2},? ?\((?:[^()\d]{0,30} )?((?:19|20)\d\d)\b")


class Sighting(NamedTuple):
    """One name in one document, at its first mention."""

    name: str
    alias: int
    """The number of the name in the knowledge base, -1 where it is unknown."""
    document: str
    date: str
    start: int
    end: int
    n_mentions: int
    surfaces: tuple[str, ...]
    """Short names that the document uses for it."""
    window: str
    at: int
    """Where the name begins in the window."""
    entities: tuple[int, ...]
    """Linked entities near it, the nearest first."""
    is_common: bool
    """Whether the document writes all words of the name small too."""
    fit: float
    """Cosine of the context with the vector of the known meaning that fits best; 1 where nothing
    is known of the name."""
    time: int
    """Which years the context names: see `stamo.discovery.names`."""
    form: str = ""
    """The longer name that a known name was seen in; empty where it stands alone."""

    @property
    def stop(self) -> int:
        """Where the name ends in the window."""
        return self.at + self.end - self.start

    @property
    def own_year(self) -> int | None:
        """The year in brackets right after a name, as titles have it: "Gravity" (2013)."""
        match = _OWN_YEAR.match(self.window, self.stop)
        return int(match[1]) if match else None


class PackedSighting(NamedTuple):
    """A sighting as it is kept, with what is counted of it."""

    name: str
    alias: int
    n_mentions: int
    drawn_by: float
    """The sightings with the smallest are kept."""
    packed: bytes


def pack(sighting: Sighting) -> PackedSighting:
    """Pack a sighting: there are too many of them to keep each as an object."""
    name, alias, n_mentions = sighting.name, sighting.alias, sighting.n_mentions
    packed = marshal.dumps(tuple(sighting), _FORMAT)
    return PackedSighting(name, alias, n_mentions, draw(sighting), packed)


def unpack(packed: bytes) -> Sighting:
    """Return the sighting that was packed."""
    return Sighting(*marshal.loads(packed))


def draw(sighting: Sighting) -> float:
    """Return by what a context is drawn: the smallest are kept."""
    text = f"{sighting.name}\0{sighting.document}".encode("utf-8", "surrogatepass")
    number = int.from_bytes(blake2b(text, digest_size=8).digest(), "big")
    weight = TIME_WEIGHTS[sighting.time]
    if sighting.alias >= 0 and sighting.fit >= EXPLAINED_FIT:
        weight *= EXPLAINED_WEIGHT
    return float(-(((number + 1) / 2**64) ** (1 / weight)))


class Seen(NamedTuple):
    """What a document, or a part of a long one, holds."""

    document: str
    sightings: list[PackedSighting]
    explained: list[str]
    """Known names whose context fits a known meaning."""
    error: str | None = None


@dataclass(slots=True)
class NameTally:
    """What was seen of one name, where no known meaning explains it."""

    name: str
    alias: int
    n_documents: int = 0
    n_mentions: int = 0
    n_explained: int = 0
    """Documents in which a known meaning fits."""
    last_seen: int = 0
    last_document: str = ""
    sample: list[tuple[float, bytes]] = field(default_factory=list)
    """Packed contexts with what they were drawn by."""

    @property
    def sightings(self) -> list[Sighting]:
        """The kept contexts, in a fixed order."""
        return [unpack(packed) for _, packed in self.sample]

    def add(self, sighting: PackedSighting, document: str, size: int) -> None:
        """Count a sighting, and keep it if it is drawn."""
        _, _, n_mentions, key, packed = sighting
        self.n_mentions += n_mentions
        if document == self.last_document:  # a further part of a long document
            return
        self.last_document = document
        self.n_documents += 1
        if not self.sample:
            self.sample.append((key, packed))
        elif len(self.sample) < size or key <= self.sample[-1][0]:
            insort(self.sample, (key, packed))
            del self.sample[size:]


@dataclass
class Tally:
    """Counts names over a stream."""

    sample_size: int = 40
    """Documents whose context of a name is kept."""
    max_names: int = 300_000
    """Names that are kept at most."""
    names: dict[str, NameTally] = field(default_factory=dict)
    n_documents: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    """What could not be read, by its reason."""
    _last_document: str = ""

    def add(self, seen: Seen) -> None:
        """Count what a document holds."""
        if seen.error is not None:
            self.errors[seen.error] = self.errors.get(seen.error, 0) + 1
            return
        if seen.document != self._last_document:
            self.n_documents += 1
            self._last_document = seen.document
        for sighting in seen.sightings:
            tally = self.names.get(sighting.name)
            if tally is None:
                tally = self.names[sighting.name] = NameTally(sighting.name, sighting.alias)
            tally.last_seen = self.n_documents
            tally.add(sighting, seen.document, self.sample_size)
        for name in seen.explained:
            if name in self.names:  # else nothing is unexplained yet
                self.names[name].n_explained += 1
        if len(self.names) > self.max_names:  # forget the rarest that were seen longest ago
            every = self.names.values()
            ranked = sorted(every, key=lambda t: (-t.n_documents, -t.last_seen, t.name))
            kept = {tally.name for tally in ranked[: int(KEPT_SHARE * self.max_names)]}
            self.names = {name: tally for name, tally in self.names.items() if name in kept}
