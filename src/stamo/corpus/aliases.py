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
from collections.abc import Callable, Sequence

from ahocorasick_rs import BytesAhoCorasick, Implementation

from stamo.corpus.tokenizer import tokenize
from stamo.corpus.types import Mention
from stamo.errors import SettingsError

# JSON may write any ASCII character as \u00XX, which hides it from a search of the bytes.
_JSON_ASCII_ESCAPE = re.compile(rb"\\u00[2-7]")
# The same for HTML: numeric references to digits and letters.
_HTML_ASCII_ESCAPE = re.compile(
    rb"&#(?:0*(?:4[89]|[5-9]\d|1[012]\d)(?!\d)|[xX]0*[3-7][0-9a-fA-F](?![0-9a-fA-F]))"
)
_HTML_TAG = re.compile(rb"<[!/?a-zA-Z][^>]*>")
_ASCII_RUN = re.compile(r"[A-Za-z0-9]+")


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
        self._needles = [_needle(alias, casefold) for alias in ordered]
        self._odd = [_first_characters(alias, casefold) for alias in ordered]
        odd = (odd for needle, odd in zip(self._needles, self._odd, strict=True) if not needle)
        self._firsts = list(dict.fromkeys(character for some in odd for character in some))
        self._search = _Needles([needle for needle in self._needles if needle])

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
        lowered: list[bytes] = []

        def holds(character: str) -> bool:
            if character.encode() in raw:
                return True
            if not lowered:
                lowered.append(raw.lower())
            return _json_escape(character) in lowered[0]

        return self._may_be_in(raw, holds) or _JSON_ASCII_ESCAPE.search(raw) is not None

    def may_be_in_html(self, raw: bytes) -> bool:
        """Tell whether an HTML page may contain an alias, also one cut by tags or as references."""
        # Other scripts have too many spellings on the web (encodings, references) to rule out.
        if self._may_be_in(raw, lambda character: True) or b"\0" in raw:
            return True
        if _HTML_ASCII_ESCAPE.search(raw):
            return True
        return self._may_be_in(_HTML_TAG.sub(b"", raw), lambda character: True)

    def _may_be_in(self, raw: bytes, holds: Callable[[str], bool]) -> bool:
        folded = raw.lower() if self.casefold else raw
        return self._search.is_in(folded) or any(map(holds, self._firsts))


class _Needles:
    """Some byte strings to look for: one by one while they are few, else in one automaton."""

    def __init__(self, needles: Sequence[bytes]) -> None:
        self._needles = tuple(dict.fromkeys(needles))
        many = len(self._needles) > MAX_SEARCHES
        # A DFA is a quarter faster than the other kinds; hundreds of names take a few hundred kB.
        self._automaton = (
            BytesAhoCorasick(self._needles, implementation=Implementation.DFA) if many else None
        )

    def is_in(self, raw: bytes) -> bool:
        if self._automaton is None:
            return any(needle in raw for needle in self._needles)
        return bool(self._automaton.find_matches_as_indexes(raw))


class AliasGroups:
    """Tell which of many entities a text may mention, by their aliases, in one look.

    Args:
        groups: The aliases of each entity.
        casefold: Whether case is ignored.
    """

    def __init__(self, groups: Sequence[Sequence[str]], *, casefold: bool = False) -> None:
        self._casefold = casefold
        self._n_groups = len(groups)
        self._always: list[int] = []
        owners: dict[bytes, list[int]] = {}
        for number, aliases in enumerate(groups):
            needles = {_needle(alias, casefold) for alias in aliases}
            if b"" in needles:
                self._always.append(number)
                continue
            for needle in needles:
                owners.setdefault(needle, []).append(number)
        self._owners = list(owners.values())
        self._automaton = (
            BytesAhoCorasick(list(owners), implementation=Implementation.DFA) if owners else None
        )

    def of(self, text: str) -> list[int]:
        """Return the numbers of the entities that the text may mention, ascending."""
        if self._n_groups == 1:
            return [0]
        found = set(self._always)
        if self._automaton is not None:
            raw = text.encode("utf-8", "replace")
            raw = raw.lower() if self._casefold else raw
            # Overlaps count: "Art" of one entity stands inside "Artemis" of another.
            for place, _, _ in self._automaton.find_matches_as_indexes(raw, overlapping=True):
                found.update(self._owners[place])
        return sorted(found)


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


def _needle(alias: str, casefold: bool) -> bytes:
    """Choose the part of an alias that stands as plain ASCII in every spelling; may be empty."""
    runs = _ASCII_RUN.findall(unicodedata.normalize("NFC", alias))
    needle = max(runs, key=len, default="")
    return (needle.lower() if casefold else needle).encode()


def _first_characters(alias: str, casefold: bool) -> list[str]:
    """List what the first character may be, for an alias without any ASCII letter or digit."""
    firsts = [form.strip()[0] for form in _spellings(alias)]
    if casefold:
        firsts += [variant for c in firsts for variant in (c.lower()[0], c.upper()[0])]
    return list(dict.fromkeys(firsts))


def _json_escape(character: str) -> bytes:
    unit = character.encode("utf-16-be")[:2].hex()
    return f"\\u{unit}".encode()
