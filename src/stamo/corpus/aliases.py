"""Find an emerging entity's aliases in text, and rule out documents without them unparsed.

A candidate mention is an alias between two word boundaries of the tokenizer, with any white space
between its words. `AliasMatcher.find` is exact. The three `may_be_in_*` tests look at raw bytes and
may say yes too often, never no where `find` would have found a mention in the parsed document, so
most of a crawl is left out at the speed of a substring search; with many aliases one automaton
looks for all of them at once.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from ahocorasick_rs import BytesAhoCorasick, Implementation

from stamo.corpus.tokenizer import tokenize
from stamo.corpus.types import Mention
from stamo.errors import SettingsError
from stamo.system.arrays import Bools, Int64

# JSON may write any ASCII character as \u00XX, which hides it from a search of the bytes.
_JSON_ASCII_ESCAPE = re.compile(rb"\\u00[2-7]")
# The same for HTML: numeric references to digits and letters.
_HTML_ASCII_ESCAPE = re.compile(
    rb"&#(?:0*(?:4[89]|[5-9]\d|1[012]\d)(?!\d)|[xX]0*[3-7][0-9a-fA-F](?![0-9a-fA-F]))"
)
_HTML_TAG = re.compile(rb"<[!/?a-zA-Z][^>]*>")
_ASCII_RUN = re.compile(r"[A-Za-z0-9]+")
_IS_ALNUM = np.array([chr(code).isascii() and chr(code).isalnum() for code in range(256)])
_BACKSLASH = ord("\\")
_LONGEST_ESCAPE = len(r"\u0000")


MAX_SEARCHES = 3
"""More needles than these are looked for by an automaton: it costs as much as about three."""


class AliasMatcher:
    """Find aliases at word boundaries.

    Args:
        aliases: The surface forms to look for.
        casefold: Whether "REY" and "rey" are mentions of the alias "Rey" too.
    """

    def __init__(self, aliases: Sequence[str], *, casefold: bool = False) -> None:
        if not aliases or any(not alias.strip() for alias in aliases):
            raise SettingsError("Matching needs at least one alias, and no alias may be empty.")
        self.aliases = tuple(aliases)
        self.casefold = casefold
        # Longest first: of two aliases at one place, the longer is the mention.
        ordered = sorted(self.aliases, key=lambda alias: (-len(alias), alias))
        self._patterns = [(alias, _pattern(alias, casefold)) for alias in ordered]
        self._needles = [max(_runs(a, casefold), key=len, default=b"") for a in ordered]
        odd = [
            _first_characters(alias, casefold) for alias in ordered if not _runs(alias, casefold)
        ]
        self._firsts = list(dict.fromkeys(character for some in odd for character in some))
        self._runs = _AliasRuns(ordered, casefold)

    def find(self, text: str) -> list[Mention]:
        """Return the candidate mentions in order, without overlaps.

        The surface of a mention is the alias as declared, also where the text writes it with
        another case or white space: it is what the knowledge base and theta know.
        """
        spans = [
            (match.start(), -match.end(), alias)
            for (alias, pattern), needle in zip(self._patterns, self._needles, strict=True)
            for match in pattern.finditer(text)
            if is_word_boundary(text, match.start())
            and is_word_boundary(text, match.end())
            and self._is_plain(match, needle)
        ]
        mentions: list[Mention] = []
        last = 0
        for start, minus_end, alias in sorted(spans):
            if start >= last:
                last = -minus_end
                mentions.append(Mention(alias, start, last))
        return mentions

    def _is_plain(self, match: re.Match[str], needle: bytes) -> bool:
        # Ignoring case, "k" also matches the Kelvin sign; the tests on raw bytes would miss that.
        return not self.casefold or needle in match.group().encode("utf-8", "replace").lower()

    def may_be_in_text(self, raw: bytes) -> bool:
        """Tell whether UTF-8 text may contain an alias."""
        return self._may_be_in(raw, lambda character: character.encode() in raw)

    def may_be_in_json(self, raw: bytes) -> bool:
        r"""Tell whether lines of JSON may contain an alias, written plainly or with \u escapes."""
        return self._may_be_in(raw, _json_test(raw)) or _hides_ascii(raw)

    def lines_in_json(self, raw: bytes, ends: Int64) -> list[int] | None:
        r"""Tell which of many lines of JSON may contain an alias, in one look at all of them.

        Args:
            raw: The lines.
            ends: Where each ends, at its line break, shape (n,).

        Returns:
            Numbers of lines, ascending; None where escapes or other scripts ask for a look at each.
        """
        if _hides_ascii(raw) or any(map(_json_test(raw), self._firsts)):
            return None
        return self._runs.rows_in(raw.lower() if self.casefold else raw, ends)

    def may_be_in_html(self, raw: bytes) -> bool:
        """Tell whether an HTML page may contain an alias, also one cut by tags or as references."""
        # Other scripts have too many spellings on the web (encodings, references) to rule out.
        if self._firsts or b"\0" in raw or _HTML_ASCII_ESCAPE.search(raw):
            return True
        folded = raw.lower() if self.casefold else raw
        return self._runs.are_in(folded, as_words=False) or self._runs.are_in(
            _without_tags(folded), as_words=False
        )

    def _may_be_in(self, raw: bytes, holds: Callable[[str], bool]) -> bool:
        folded = raw.lower() if self.casefold else raw
        return self._runs.are_in(folded) or any(map(holds, self._firsts))


def _without_tags(html: bytes) -> bytes:
    # Behind the last ">" no tag ends, and each that begins there would be looked for to the end.
    end = html.rfind(b">") + 1
    return _HTML_TAG.sub(b"", html[:end]) + html[end:]


def _hides_ascii(raw: bytes) -> bool:
    return _JSON_ASCII_ESCAPE.search(raw) is not None


def _json_test(raw: bytes) -> Callable[[str], bool]:
    """Return what tells whether a character is in JSON, plainly or as an escape."""
    lowered: list[bytes] = []

    def holds(character: str) -> bool:
        if character.encode() in raw:
            return True
        if not lowered:
            lowered.append(raw.lower())
        return _json_escape(character) in lowered[0]

    return holds


class _AliasRuns:
    """Aliases by their stretches of ASCII letters and digits; an alias needs all of its own.

    They are looked for one by one while they are few, else by one automaton. Aliases without any
    are left out.
    """

    def __init__(self, aliases: Sequence[str], casefold: bool) -> None:
        runs = [_runs(alias, casefold) for alias in aliases]
        self._names = list(dict.fromkeys(run for some in runs for run in some))
        number = {run: i for i, run in enumerate(self._names)}
        self._needed = [frozenset(number[run] for run in some) for some in runs]
        # An alias is thought of when its longest run is met: that is the rarest, as a rule.
        self._by_longest: list[list[int]] = [[] for _ in self._names]
        for place, some in enumerate(runs):
            if some:
                self._by_longest[number[max(some, key=len)]].append(place)
        self._is_whole = _are_whole(aliases, number, casefold)
        many = len(self._names) > MAX_SEARCHES
        # A DFA is faster than the other kinds; the names of a hundred entities take about 1 MB.
        self._automaton = (
            BytesAhoCorasick(self._names, implementation=Implementation.DFA) if many else None
        )

    def found_in(self, raw: bytes) -> list[int]:
        """Return the places of the aliases that may be in the bytes of a text."""
        return self._complete(set(np.unique(self._matches(raw)[0]).tolist()))

    def _complete(self, hits: set[int]) -> list[int]:
        """Return the aliases of which all runs were met."""
        return [
            place for hit in hits for place in self._by_longest[hit] if self._needed[place] <= hits
        ]

    def _matches(self, raw: bytes) -> tuple[Int64, Int64]:
        """Return the runs that stand in the bytes, and where, but for parts of longer words."""
        if self._automaton is None:
            rows = [
                (i, m.start(), m.end())
                for i, run in enumerate(self._names)
                for m in re.finditer(re.escape(run), raw)
            ]
        else:
            # Overlaps count: "Art" of one alias stands inside "Artemis" of another.
            rows = self._automaton.find_matches_as_indexes(raw, overlapping=True)
        found = np.array(rows, dtype=np.int64).reshape(-1, 3)
        numbers, starts, ends = found[:, 0], found[:, 1], found[:, 2]
        codes = np.frombuffer(raw, dtype=np.uint8)
        before = _IS_ALNUM[codes[starts - 1]] & (starts > 0)
        for back in range(1, _LONGEST_ESCAPE + 1):  # "\n" in JSON is a line break, not an "n"
            before &= codes[np.maximum(starts - back, 0)] != _BACKSLASH
        after = _IS_ALNUM[codes[np.minimum(ends, len(codes) - 1)]] & (ends < len(codes))
        whole = ~(before & self._is_whole[0][numbers] | after & self._is_whole[1][numbers])
        return numbers[whole], starts[whole]

    def are_in(self, raw: bytes, *, as_words: bool = True) -> bool:
        """Tell whether any alias may be in the bytes, as whole words where bytes can tell."""
        if self._automaton is None:
            hits = {i for i, run in enumerate(self._names) if run in raw}
        elif as_words:
            return bool(self.found_in(raw))
        else:
            matches = self._automaton.find_matches_as_indexes(raw, overlapping=True)
            hits = {number for number, _, _ in matches}
        return bool(self._complete(hits))

    def rows_in(self, raw: bytes, ends: Int64) -> list[int]:
        """Return which stretches of the bytes, given by where they end, may hold an alias."""
        if self._automaton is None and not self.are_in(raw):
            return []
        numbers, starts = self._matches(raw)
        rows = np.searchsorted(ends, starts, side="right")
        hits: dict[int, set[int]] = {}
        # Each run counts once in a row.
        pairs = np.unique(rows * len(self._names) + numbers)
        for row, number in zip(*(p.tolist() for p in divmod(pairs, len(self._names))), strict=True):
            hits.setdefault(row, set()).add(number)
        return [row for row, some in hits.items() if self._complete(some)]


def _are_whole(aliases: Sequence[str], number: Mapping[bytes, int], casefold: bool) -> Bools:
    """Tell of numbered runs whether they are whole words, on the left and right, shape (2, runs).

    Beside a letter outside of ASCII a run is not: decomposed, "é" begins with an "e".
    """
    whole = np.ones((2, len(number)), dtype=np.bool_)
    for alias in aliases:
        text = unicodedata.normalize("NFC", alias)
        for match in _ASCII_RUN.finditer(text):
            run = number.get((match[0].lower() if casefold else match[0]).encode())
            if run is not None:
                whole[0, run] &= text[: match.start()][-1:].isascii()
                whole[1, run] &= text[match.end() :][:1].isascii()
    return whole


class AliasGroups:
    """Tell which of many entities a text may mention, by their aliases, in one look.

    Args:
        groups: The aliases of each entity.
        casefold: Whether case is ignored.
    """

    def __init__(self, groups: Sequence[Sequence[str]], *, casefold: bool = False) -> None:
        self._casefold = casefold
        self._n_groups = len(groups)
        pairs = [(alias, number) for number, group in enumerate(groups) for alias in group]
        self._owners = [number for _, number in pairs]
        self._runs = _AliasRuns([alias for alias, _ in pairs], casefold)
        # Nothing is known beforehand of names without a letter or digit of ASCII.
        self._always = {number for alias, number in pairs if not _runs(alias, casefold)}

    def of(self, text: str) -> list[int]:
        """Return the numbers of the entities that the text may mention, ascending."""
        if self._n_groups == 1:
            return [0]
        raw = text.encode("utf-8", "replace")
        found = self._runs.found_in(raw.lower() if self._casefold else raw)
        return sorted(self._always | {self._owners[place] for place in found})


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


def _pattern(alias: str, casefold: bool) -> re.Pattern[str]:
    spellings = (r"\s+".join(map(re.escape, form.split())) for form in _spellings(alias))
    return re.compile("|".join(spellings), re.IGNORECASE if casefold else 0)


def _runs(alias: str, casefold: bool) -> list[bytes]:
    """List the parts of an alias that stand as plain ASCII in every spelling; perhaps none."""
    runs = _ASCII_RUN.findall(unicodedata.normalize("NFC", alias))
    return [(run.lower() if casefold else run).encode() for run in runs]


def _first_characters(alias: str, casefold: bool) -> list[str]:
    """List what the first character may be, for an alias without any ASCII letter or digit."""
    firsts = [form.strip()[0] for form in _spellings(alias)]
    if casefold:
        firsts += [variant for c in firsts for variant in (c.lower()[0], c.upper()[0])]
    return list(dict.fromkeys(firsts))


def _json_escape(character: str) -> bytes:
    unit = character.encode("utf-16-be")[:2].hex()
    return f"\\u{unit}".encode()
