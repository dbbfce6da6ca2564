"""Find an emerging entity's aliases in text, and rule out documents without them unparsed.

A candidate mention is an alias between two word boundaries of the tokenizer, with any white space
between its words. `AliasMatcher.find` is exact. The three `may_be_in_*` tests look at raw bytes and
may say yes too often, never no where `find` would have found a mention in the parsed document, so
most of a crawl is left out at the speed of a substring search (`corpus.alias_bytes`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

from stamo.corpus.alias_bytes import AliasBytes, AliasRuns
from stamo.corpus.tokenizer import tokenize
from stamo.corpus.types import Mention
from stamo.errors import SettingsError
from stamo.system.arrays import Int64

# JSON may write any ASCII character as \u00XX, which hides it from a search of the bytes.
_JSON_ASCII_ESCAPE = re.compile(rb"\\u00[2-7]")
# The same for HTML: numeric references to digits and letters.
_HTML_ASCII_ESCAPE = re.compile(
    rb"&#(?:0*(?:4[89]|[5-9]\d|1[012]\d)(?!\d)|[xX]0*[3-7][0-9a-fA-F](?![0-9a-fA-F]))"
)
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
        ordered = sorted(self.aliases, key=lambda alias: (-len(alias), alias))
        return [
            (a, _pattern(a, self.casefold), AliasBytes.of(a, self.casefold).anchor) for a in ordered
        ]

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
        # Ignoring case, "k" also matches the Kelvin sign; the tests on raw bytes would miss that.
        return not self.casefold or needle in match.group().encode("utf-8", "replace").lower()

    def may_be_in_text(self, raw: bytes) -> bool:
        """Tell whether UTF-8 text may contain an alias."""
        return self._may_be_in(raw)

    def may_be_in_json(self, raw: bytes) -> bool:
        r"""Tell whether lines of JSON may contain an alias, written plainly or with \u escapes."""
        test = _json_test(raw)
        return self._may_be_in(raw) or any(map(test, self._firsts)) or _hides_ascii(raw)

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
        if not "".join(self._firsts).isascii() or b"\0" in raw or _HTML_ASCII_ESCAPE.search(raw):
            return True
        return any(self._may_be_in(r, as_words=False) for r in (raw, _without_tags(raw)))

    def _may_be_in(self, raw: bytes, *, as_words: bool = True) -> bool:
        folded = raw.lower() if self.casefold else raw
        return self._runs.are_in(folded, as_words=as_words) or any(
            first.encode() in raw for first in self._firsts
        )


def longest_mentions(spans: Iterable[tuple[int, int, str]]) -> list[Mention]:
    """Return spans of aliases in order and without overlaps; of two at one place the longer."""
    mentions: list[Mention] = []
    for start, end, alias in sorted(spans, key=lambda span: (span[0], -span[1], span[2])):
        if not mentions or start >= mentions[-1].end:
            mentions.append(Mention(alias, start, end))
    return mentions


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
        return sorted(self._always | of_stems | {self._owners[place] for place in found})


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
