"""Find an emerging entity's aliases in text, and rule out documents without them unparsed.

A candidate mention is an alias between two word boundaries of the tokenizer, with any white space
between its words. `AliasMatcher.find` is exact. The three `may_be_in_*` tests look at raw bytes and
may say yes too often, never no where `find` would have found a mention in the parsed document, so
most of a crawl is left out at the speed of a substring search.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from ahocorasick_rs import BytesAhoCorasick, Implementation, MatchKind

from stamo.corpus.tokenizer import tokenize
from stamo.corpus.types import Mention
from stamo.errors import SettingsError
from stamo.system.files import Bools, Int64

MAX_SEARCHES = 3
"""So few needles are looked for one by one."""
PACKED = 64
"""So many needles are looked for at once by vector instructions (Teddy)."""
MAX_PACKED = 6 * PACKED
"""More needles than these are left to one automaton, whose speed hardly depends on their number."""
_ASCII_RUN = re.compile(r"[A-Za-z0-9]+")
_IS_ALNUM = np.array([chr(code).isascii() and chr(code).isalnum() for code in range(256)])
_BACKSLASH = ord("\\")
_NOTHING = np.zeros((0, 3), dtype=np.int64)
_LONGEST_ESCAPE = len(r"\u0000")
_GAP = rb"(?:\\[bfnrt]|\\u[0-9a-fA-F]{4}|[^A-Za-z0-9])+"
# Such a needle may begin inside an escape and hide another that begins right behind it.
_AS_ESCAPE = re.compile(rb"[A-F][0-9A-Fa-f]{0,3}[A-Z]")


@dataclass(frozen=True)
class AliasBytes:
    """A name by its stretches of ASCII letters and digits, in their order."""

    runs: tuple[bytes, ...]
    anchor: bytes
    """The longest one: that is the rarest, as a rule; empty for a name without any."""
    whole: re.Pattern[bytes] | None
    """All of them with nothing but other signs between, for a plain name of several."""
    is_whole: tuple[bool, bool]
    """Whether the anchor begins, and ends, with the word. Beside a letter outside of ASCII it does
    not: decomposed, "é" begins with an "e"."""

    @classmethod
    def of(cls, alias: str, casefold: bool) -> AliasBytes:
        """Take a name apart."""
        text = unicodedata.normalize("NFC", alias)
        found = list(_ASCII_RUN.finditer(text))
        runs = tuple((m[0].lower() if casefold else m[0]).encode() for m in found)
        longest = max(found, key=lambda m: len(m[0]), default=None)
        start, end = longest.span() if longest else (0, 0)
        left, right = text[:start][-1:], text[end:][:1]
        whole = re.compile(_GAP.join(runs)) if text.isascii() and len(runs) > 1 else None
        anchor = max(runs, key=len, default=b"")
        return cls(runs, anchor, whole, (left.isascii(), right.isascii()))

    def fits(self) -> Bools:
        """Tell which bytes may stand two before and two behind the anchor, shape (2, 256)."""
        allowed = np.ones((2, 256), dtype=np.bool_)
        at = self.runs.index(self.anchor)
        if self.whole is not None and at > 0:
            allowed[0] = ~_IS_ALNUM
            allowed[0, self.runs[at - 1][-1]] = True
        if self.whole is not None and at < len(self.runs) - 1:
            allowed[1] = ~_IS_ALNUM
            allowed[1, self.runs[at + 1][0]] = True
        return allowed

    def may_be_in(self, raw: bytes, first: int, last: int) -> bool:
        """Tell whether the rest may be there, in a stretch of bytes with the anchor in it."""
        if self.whole is not None:
            return self.whole.search(raw, first, last) is not None
        return len(self.runs) == 1 or all(raw.find(run, first, last) >= 0 for run in self.runs)


class AliasRuns:
    """Tell which of many names may stand in bytes; names without any ASCII run are left out."""

    def __init__(self, aliases: Sequence[str], casefold: bool) -> None:
        self._names = [AliasBytes.of(alias, casefold) for alias in aliases]
        places: dict[bytes, list[int]] = {}
        for place, name in enumerate(self._names):
            if name.runs:
                places.setdefault(name.anchor, []).append(place)
        self._by_anchor = list(places.values())
        some = [[self._names[place] for place in group] for group in self._by_anchor]
        n = len(some)
        # Of the names with one anchor, what any of them allows.
        self._is_whole = np.array(
            [[all(name.is_whole[side] for name in group) for group in some] for side in (0, 1)],
            dtype=np.bool_,
        ).reshape(2, n)
        self._fits = np.array(
            [np.any([name.fits() for name in group], axis=0) for group in some], dtype=np.bool_
        ).reshape(n, 2, 256)
        self._needles = _Needles(list(places), np.logical_and(*self._is_whole))

    def found_in(self, raw: bytes, ends: Int64 | None = None) -> Iterator[tuple[int, int]]:
        """Yield which names may be in which stretches of the bytes, the stretches in order.

        Args:
            raw: The bytes.
            ends: Where each stretch ends, at a line break, of which the first name is enough; all
                bytes are one stretch without, of which every name is wanted.
        """
        anchors, starts = self._matches(raw)
        if not len(anchors):
            return
        edges = np.array([len(raw)], dtype=np.int64) if ends is None else ends
        rows = np.searchsorted(edges, starts, side="right")
        done = -1
        for key in np.unique(rows * max(len(self._by_anchor), 1) + anchors).tolist():
            row, anchor = divmod(key, len(self._by_anchor))
            if row == done:
                continue
            first = int(edges[row - 1]) + 1 if row else 0
            last = int(edges[row]) if row < len(edges) else len(raw)
            for place in self._by_anchor[anchor]:
                if self._names[place].may_be_in(raw, first, last):
                    yield row, place
                    done = row if ends is not None else -1

    def are_parts_in(self, raw: bytes) -> bool:
        """Tell whether all parts of any name may be in the bytes, also inside of words."""
        return any(
            all(run in raw for run in self._names[place].runs)
            for anchor in self._needles.present(raw)
            for place in self._by_anchor[anchor]
        )

    def _matches(self, raw: bytes) -> tuple[Int64, Int64]:
        """Return the anchors that stand in the bytes, and where.

        Parts of longer words are left out, and those beside which no part of their name stands.
        """
        found = self._needles.places(raw)
        anchors, starts, ends = found[:, 0], found[:, 1], found[:, 2]
        if not len(found):
            return anchors, starts
        codes = np.frombuffer(raw, dtype=np.uint8)
        last = len(codes) - 1
        plain = np.ones(len(starts), dtype=np.bool_)
        # "\n" in JSON is a line break, not an "n"; one more sign may stand behind it.
        for back in range(1, _LONGEST_ESCAPE + 2):
            plain &= codes[np.maximum(starts - back, 0)] != _BACKSLASH
        before = _IS_ALNUM[codes[starts - 1]] & (starts > 0) & plain
        behind = _IS_ALNUM[codes[np.minimum(ends, last)]] & (ends <= last)
        cut = before & self._is_whole[0][anchors] | behind & self._is_whole[1][anchors]
        follows = self._fits[anchors, 0, codes[np.maximum(starts - 2, 0)]] | (starts < 2) | ~plain
        is_escaped = codes[np.minimum(ends, last)] == _BACKSLASH
        leads = self._fits[anchors, 1, codes[np.minimum(ends + 1, last)]] | is_escaped
        good = ~cut & follows & leads
        return anchors[good], starts[good]


class _Needles:
    """Find needles in bytes; `are_whole` tells of each whether it counts only as a whole word."""

    def __init__(self, needles: list[bytes], are_whole: Bools) -> None:
        self._needles = needles
        self._packed: list[tuple[Int64, BytesAhoCorasick]] = []
        rest = list(range(len(needles)))
        if len(needles) <= MAX_SEARCHES:
            self._overlapping = None
            return
        if len(needles) <= MAX_PACKED:
            packed = [i for i in rest if are_whole[i] and _is_packable(needles[i])]
            packed.sort(key=lambda i: needles[i])  # alike ones together are told apart faster
            rest = sorted(set(rest) - set(packed))
            for i in range(0, len(packed), PACKED):
                self._packed.append(_automaton(needles, packed[i : i + PACKED], longest=True))
        self._overlapping = _automaton(needles, rest) if rest else None

    def places(self, raw: bytes) -> Int64:
        """Return number, start and end of what is there; in longer words, not all of it."""
        if len(self._needles) <= MAX_SEARCHES:
            found = [_NOTHING]
            for number in self.present(raw):
                needle = self._needles[number]
                starts = np.fromiter((m.start() for m in re.finditer(needle, raw)), np.int64)
                numbers = np.full(len(starts), number)
                found.append(np.stack((numbers, starts, starts + len(needle)), axis=1))
            return np.concatenate(found)
        found = [
            _numbered(numbers, automaton.find_matches_as_indexes(raw))
            for numbers, automaton in self._packed
        ]
        if self._overlapping:
            # Overlaps count: "Art" of one name stands inside "Artemis" of another.
            numbers, automaton = self._overlapping
            matches = automaton.find_matches_as_indexes(raw, overlapping=True)
            found.append(_numbered(numbers, matches))
        return np.concatenate(found)

    def present(self, raw: bytes) -> list[int]:
        """Return the numbers of what is there, also inside of words."""
        if len(self._needles) <= MAX_SEARCHES:
            return [i for i, needle in enumerate(self._needles) if needle in raw]
        matches = self._all.find_matches_as_indexes(raw, overlapping=True)
        return sorted({number for number, _, _ in matches})

    @cached_property
    def _all(self) -> BytesAhoCorasick:
        return _automaton(self._needles, range(len(self._needles)))[1]


def _is_packable(needle: bytes) -> bool:
    """Tell whether the first match is enough, of whole words, and the first letter is rare.

    Where a whole word stands no other match of letters and digits covers its start, unless one
    that begins in an escape.
    """
    return needle[:1].isupper() and len(needle) > 2 and not _AS_ESCAPE.match(needle)


def _automaton(
    needles: Sequence[bytes], numbers: Sequence[int], *, longest: bool = False
) -> tuple[Int64, BytesAhoCorasick]:
    kind = MatchKind.LeftmostLongest if longest else MatchKind.Standard
    some = [needles[number] for number in numbers]
    # A DFA is faster than the other kinds; the names of a hundred entities take about 1 MB.
    automaton = BytesAhoCorasick(some, matchkind=kind, implementation=Implementation.DFA)
    return np.array(numbers, dtype=np.int64), automaton


def _numbered(numbers: Int64, matches: Sequence[tuple[int, int, int]]) -> Int64:
    found = np.array(matches, dtype=np.int64).reshape(-1, 3)
    found[:, 0] = numbers[found[:, 0]]
    return found


# JSON may write any ASCII character as \u00XX, which hides it from a search of the bytes.
_JSON_ASCII_ESCAPE = re.compile(rb"\\u00[2-7]")
# The same for HTML: numeric references to digits and letters.
_HTML_ASCII_ESCAPE = re.compile(
    rb"&#(?:0*(?:4[89]|[5-9]\d|1[012]\d)(?!\d)|[xX]0*[3-7][0-9a-fA-F](?![0-9a-fA-F]))"
)
_HTML_BLOCK = 1 << 20
_HTML_TAG = re.compile(rb"<[!/?a-zA-Z][^>]*>")


class AliasMatcher:
    """Find aliases at word boundaries.

    Args:
        aliases: The surface forms to look for.
        casefold: Whether "REY" and "rey" are mentions of the alias "Rey" too.
        stems: What texts hold that are not to be ruled out, wherever it stands: the beginnings of
            other forms of the aliases, which somebody else finds.
    """

    def __init__(
        self, aliases: Sequence[str], *, casefold: bool = False, stems: Sequence[str] = ()
    ) -> None:
        if not aliases or any(not alias.strip() for alias in aliases):
            raise SettingsError("Matching needs at least one alias, and no alias may be empty.")
        self.aliases = tuple(aliases)
        self.casefold = casefold
        self.stems = tuple(stems)
        odd = [a for a in self.aliases if not AliasBytes.of(a, casefold).runs]
        firsts = (character for a in odd for character in _first_characters(a, casefold))
        # Found one by one, also inside of words.
        self._firsts = list(dict.fromkeys([*firsts, *self.stems]))
        self._runs = AliasRuns(self.aliases, casefold)

    @cached_property
    def _patterns(self) -> list[tuple[str, re.Pattern[str], bytes]]:
        # Longest first: of two aliases at one place, the longer is the mention.
        patterns = []
        for alias in sorted(self.aliases, key=lambda alias: (-len(alias), alias)):
            spellings = (r"\s+".join(map(re.escape, form.split())) for form in _spellings(alias))
            pattern = re.compile("|".join(spellings), re.IGNORECASE if self.casefold else 0)
            patterns.append((alias, pattern, AliasBytes.of(alias, self.casefold).anchor))
        return patterns

    def find(self, text: str) -> list[Mention]:
        """Return the candidate mentions in order, without overlaps.

        The surface of a mention is the alias as declared, also where the text writes it with
        another case or white space: it is what the knowledge base and theta know.
        """
        spans = [
            (match.start(), match.end(), alias)
            for alias, pattern, needle in self._patterns
            for match in pattern.finditer(text)
            if is_word_boundary(text, match.start())
            and is_word_boundary(text, match.end())
            and self._is_plain(match, needle)
        ]
        return longest_mentions(spans)

    def _is_plain(self, match: re.Match[str], needle: bytes) -> bool:
        # Ignoring case, "k" also matches the Kelvin sign, and "ß" "\u1e9e"; the tests on raw bytes
        # would miss that.
        if not self.casefold:
            return True
        if not needle:
            return match.group().startswith(tuple(self._firsts))
        return needle in match.group().encode("utf-8", "replace").lower()

    def may_be_in_text(self, raw: bytes, *, as_words: bool = True) -> bool:
        """Tell whether UTF-8 text may contain an alias, as whole words where bytes can tell."""
        folded = raw.lower() if self.casefold else raw
        if as_words:
            is_found = next(self._runs.found_in(folded), None) is not None
        else:
            is_found = self._runs.are_parts_in(folded)
        return is_found or any(first.encode() in raw for first in self._firsts)

    def may_be_in_json(self, raw: bytes) -> bool:
        r"""Tell whether lines of JSON may contain an alias, written plainly or with \u escapes."""
        return self.may_be_in_text(raw) or self._may_hide_in_json(raw)

    def lines_in_json(self, raw: bytes, ends: Int64) -> list[int] | None:
        r"""Tell which of many lines of JSON may contain an alias, in one look at all of them.

        Args:
            raw: The lines.
            ends: Where each ends, at its line break, shape (n,).

        Returns:
            Numbers of lines, ascending; None where escapes or other scripts ask for a look at each.
        """
        if self._may_hide_in_json(raw):
            return None
        found = self._runs.found_in(raw.lower() if self.casefold else raw, ends)
        return list(dict.fromkeys(row for row, _ in found))

    def _may_hide_in_json(self, raw: bytes) -> bool:
        """Tell whether a search for runs of ASCII may miss an alias: other scripts, and escapes."""
        if _JSON_ASCII_ESCAPE.search(raw) or any(first.encode() in raw for first in self._firsts):
            return True
        lowered = raw.lower() if self._firsts else b""
        return any(_json_escape(first) in lowered for first in self._firsts)

    def may_be_in_html(self, raw: bytes) -> bool:
        """Tell whether an HTML page may contain an alias, also one cut by tags or as references."""
        # Other scripts have too many spellings on the web (encodings, references) to rule out.
        if not "".join(self._firsts).isascii() or b"\0" in raw or _HTML_ASCII_ESCAPE.search(raw):
            return True
        # Behind the last ">" no tag ends, and one that begins there is looked for to the end.
        end, begin, pieces = raw.rfind(b">") + 1, 0, list[bytes]()
        while begin < end:  # a megabyte at a time: a page of tags only takes much memory at once
            cut = raw.rfind(b">", begin, begin + _HTML_BLOCK) + 1 or raw.find(b">", begin) + 1
            pieces.append(_HTML_TAG.sub(b"", raw[begin:cut]))
            begin = cut
        untagged = b"".join([*pieces, raw[end:]])
        return any(self.may_be_in_text(part, as_words=False) for part in (raw, untagged))


def longest_mentions(spans: Iterable[tuple[int, int, str]]) -> list[Mention]:
    """Return spans of aliases in order and without overlaps; of two at one place the longer."""
    mentions: list[Mention] = []
    for start, end, alias in sorted(spans, key=lambda span: (span[0], -span[1], span[2])):
        if not mentions or start >= mentions[-1].end:
            mentions.append(Mention(alias, start, end))
    return mentions


class AliasGroups:
    """Tell which of many entities a text may mention, by their aliases, in one look.

    Args:
        groups: The aliases of each entity.
        casefold: Whether case is ignored.
        stems: What a text with other forms of the aliases of each entity holds.
    """

    def __init__(
        self,
        groups: Sequence[Sequence[str]],
        *,
        casefold: bool = False,
        stems: Sequence[Sequence[str]] = (),
    ) -> None:
        self._casefold = casefold
        self._stems = [(number, stem) for number, some in enumerate(stems) for stem in some]
        self._n_groups = len(groups)
        pairs = [(alias, number) for number, group in enumerate(groups) for alias in group]
        self._owners = [number for _, number in pairs]
        self._runs = AliasRuns([alias for alias, _ in pairs], casefold)
        # Nothing is known beforehand of names without a letter or digit of ASCII.
        self._always = {
            number for alias, number in pairs if not AliasBytes.of(alias, casefold).runs
        }

    def of(self, text: str) -> list[int]:
        """Return the numbers of the entities that the text may mention, ascending."""
        if self._n_groups == 1:
            return [0]
        raw = text.encode("utf-8", "replace")
        found = self._runs.found_in(raw.lower() if self._casefold else raw)
        of_stems = {number for number, stem in self._stems if stem in text}
        return sorted(self._always | of_stems | {self._owners[place] for _, place in found})


def is_word_boundary(text: str, index: int) -> bool:
    """Tell whether the tokenizer would not join the characters on either side of `index`."""
    if not 0 < index < len(text):
        return True
    pair = text[index - 1 : index + 1]
    if pair.isascii():
        return not pair.isalnum()
    _, starts, ends = tokenize(pair)
    return not (len(starts) == 1 and int(ends[0] - starts[0]) == 2)


def _spellings(alias: str) -> list[str]:
    """List the alias with composed and with decomposed accents: text comes in both forms."""
    forms = [alias, unicodedata.normalize("NFC", alias), unicodedata.normalize("NFD", alias)]
    return list(dict.fromkeys(forms))


def _first_characters(alias: str, casefold: bool) -> list[str]:
    """List what the first character may be, for an alias without any ASCII letter or digit."""
    firsts = [form.strip()[0] for form in _spellings(alias)]
    if casefold:
        firsts += [variant for c in firsts for variant in (c.lower()[0], c.upper()[0])]
    return list(dict.fromkeys(firsts))


def _json_escape(characters: str) -> bytes:
    """Return what JSON in ASCII writes, in small letters."""
    escaped = characters.encode("utf-16-be").hex()
    units = [escaped[i : i + 4] for i in range(0, len(escaped), 4)]
    written = (chr(int(u, 16)) if int(u, 16) < 0x80 else f"\\u{u}" for u in units)
    return "".join(written).lower().encode()
