"""Find internal links in wikitext and say what each of them leads to."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

from stamo.build.site import LANGUAGE_CODES, Site, decode_references, fold_prefix
from stamo.corpus.tokenizer import DOTTED_I

SHELTERED = "\x01"
"""Stands before text that was sheltered from parsing; `reveal` undoes both."""
OPEN = "\x02"
"""Stands before the anchor of a link to an article."""
CLOSE = "\x03"
"""Stands after the anchor of a link to an article."""
PLACEHOLDER = "\x04"
"""Stands where markup was cut out; a reader does not see it."""

_SPECIAL = "[]{}|<>'&=*#:;_-"
# Characters that mean nothing to any step, not even white space.
_SHELTER = dict(zip(map(ord, _SPECIAL), [5, 6, *range(0x0E, 0x1C)], strict=True))
_REVEAL: dict[int, int | None] = {code: sign for sign, code in _SHELTER.items()}
_REVEAL[ord(SHELTERED)] = None


def shelter(text: str) -> str:
    """Write literal text so that no step takes any of it for markup."""
    return SHELTERED + text.translate(_SHELTER)


def reveal(text: str) -> str:
    """Give sheltered text its own characters back."""
    return text.translate(_REVEAL) if SHELTERED in text else text


def reveal_rest(text: str) -> str:
    """Give what is left of sheltered text its own characters back, even without its first sign."""
    # Few signs of few kinds: one look for each kind is faster than one at each character.
    for code, sign in _REVEAL.items():
        if chr(code) in text:
            text = text.replace(chr(code), "" if sign is None else chr(sign))
    return text


ARTICLE = ""
"""The kind of a link that leads to an article of this wiki."""
SUBPAGE = "subpage"
"""The kind of a link that is relative to the page it stands on, as in `[[/History]]`."""
BRACKETS = "[["
"""The kind of brackets that are no link."""
VANISHING = frozenset({"file", "category", "language"})
"""Kinds of links that leave nothing in the running text."""

_CACHE_LIMIT = 1 << 16
_MAX_TITLE_BYTES = 255

# One link the way MediaWiki sees it: every "[[" starts one and swallows what it can; a "[[" that
# starts no link is matched alone, so that "[[[x]]]" is no link here either. All inner repeats are
# possessive and stop at the next "[[": the time is linear whatever the page contains.
_LINK = r"""
    \[\[
    (?:
        ([^\[\]{{}}|<>\n]++)                # target
        (?:\|(                              # label
            (?:
                [^\[\]]++
                | \[[^\[\]]*+\](?!\](?!\])) # a pair of single brackets
                | \[(?!\[)
                | \](?!\])
            )*+
        ))?+
        \]\]
        ({trail})                           # letters that join the anchor
        |
    )
"""

# Scripts without spaces between words: what follows the link there is the next word.
_UNSPACED = r"\u0e00-\u0fff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3040-\u31ff\u3400-\u9fff"
_UNSPACED += r"\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
_ANY_LETTERS = rf"(?:[^\W\d_{_UNSPACED}]|[\u0900-\u0dff])*+"
_TRAILS = dict.fromkeys(["en", "simple", "ja", "th", "hi", "id", "ms", "war", "ceb"], "[a-z]*+")
_TRAILS |= dict.fromkeys(["zh", "yue", "wuu", "gan", "lzh", "zh-classical", "zh-yue"], "")

# Most targets are words, digits and harmless signs: nothing in them has to be looked at.
_MAX_SIMPLE = 100
_HARMLESS = r"[A-Za-z0-9,.()'!\-\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f]"
_SIMPLE_LINES = re.compile(rf"(?:([A-Za-z0-9]{_HARMLESS}*+(?: {_HARMLESS}++)*+)(?=\n)|[^\n]*+)\n")
# The same with a prefix: nothing behind it can change what the prefix says.
_PREFIXED = re.compile(r"([A-Za-z][A-Za-z-]{0,30}+):[^\W_][^\x04%&]*+")
_PERCENT = re.compile(r"%[0-9a-fA-F]{2}")
_ILLEGAL = re.compile(r"[\[\]{}|<>\x00-\x1f\x7f\ufffd]|~~~|^\.{1,2}$|(?:^|/)\.{1,2}(?:/|$)")
_PROTOCOL = re.compile(r"\s*(?:https?|ftps?|gopher|irc|news|mailto|telnet):", re.IGNORECASE)
_ASIDE = re.compile(r"(.+?)\s*(?:\([^()]*\)|（[^（）]*）)$", re.DOTALL)


class Target(NamedTuple):
    """What the part of a link before the pipe means."""

    kind: str
    """`ARTICLE`, `SUBPAGE`, or the reason why it is no link to an article."""
    title: str
    """Normalised title without section; empty unless the link leads to an article."""
    shown: str
    """What a reader sees when the link has no label; still wikitext."""


@lru_cache(maxsize=32)
def link_pattern(language: str) -> re.Pattern[str]:
    """Compile the pattern of a link: three groups (target, label, trail), or none matched."""
    trail = _TRAILS.get(language, _ANY_LETTERS)
    return re.compile(_LINK.format(trail=trail), re.VERBOSE)


@lru_cache(maxsize=32)
def file_pattern(site: Site) -> re.Pattern[str]:
    """Compile the pattern of the beginning of a link to a file."""
    names = [name for name, key in site.namespaces.items() if key == 6]
    choices = "|".join(re.escape(name).replace(r"\ ", "[ _]+") for name in sorted(names))
    return re.compile(rf"\[\[[ _]*+(?i:{choices})[ _]*+:")


@lru_cache(maxsize=4)
def targets_of(site: Site) -> Targets:
    """Return the shared table of targets of a wiki."""
    return Targets(site)


class Targets(dict[str, tuple[str, str, str]]):
    """Raw target -> the fields of its `Target`, kept within a bound for the next time."""

    def __init__(self, site: Site) -> None:
        super().__init__()
        self.site = site
        self._kind_by_prefix: dict[str, str] = {}

    def __missing__(self, raw: str) -> tuple[str, str, str]:
        if (found := _PREFIXED.fullmatch(raw)) and (kind := self._kind_of(found[1])):
            return kind, "", raw.strip()  # seldom seen twice, so it is not kept
        target = resolve(raw, self.site)
        if len(raw) <= _MAX_TITLE_BYTES:  # so that the number of entries bounds the memory
            if len(self) >= _CACHE_LIMIT:
                self.clear()
            self[raw] = target
        return target

    def _kind_of(self, prefix: str) -> str:
        """Say why a plain prefix leads to no article; an empty string when that is not enough."""
        kind = self._kind_by_prefix.get(prefix)
        if kind is None:
            if len(self._kind_by_prefix) >= _CACHE_LIMIT:
                self._kind_by_prefix.clear()
            kind = self._kind_by_prefix[prefix] = resolve(f"{prefix}:x", self.site).kind
        return "" if kind in (SUBPAGE, "broken") else kind


def simple_titles(raws: list[str | None], site: Site) -> list[str]:
    """Give the titles of targets that mean just what they say; an empty string for any other.

    One pattern over all targets of a page is several times faster than one look at each.
    """
    if not raws:
        return []
    joined = "\n".join([raw or "" for raw in raws])
    plain: list[str] = _SIMPLE_LINES.findall(joined + "\n")
    if max(map(len, plain)) > _MAX_SIMPLE:
        plain = [name if len(name) <= _MAX_SIMPLE else "" for name in plain]
    if not site.case_first:
        return plain
    if site.language in DOTTED_I:
        return [site.raise_first(name) for name in plain]
    # All begin with a letter or digit of ASCII, where small letters stand behind capital ones.
    return [name[0].upper() + name[1:] if name > "[" else name for name in plain]


def resolve(raw: str, site: Site) -> Target:
    """Say what the part of a link before the pipe leads to."""
    shown = raw.strip()
    if _PROTOCOL.match(raw):
        return Target("broken", "", f"[{shown}]")  # an external link in double brackets
    title = _decode(reveal(shown)).replace("_", " ").lstrip()
    if PLACEHOLDER in title:
        return Target("broken", "", shown)
    escaped = title.startswith(":")
    if escaped:
        title, shown = title[1:].lstrip(), shown.lstrip("_ ")[1:].lstrip()
    if ":" in title:
        kind = _outside(title, site, escaped)
        if kind:
            return Target(kind, "", shown)
    page, hash_sign, _ = title.partition("#")
    page = site.normalise_title(page)
    if not page:
        return Target("section" if hash_sign else "broken", "", shown)
    if _ILLEGAL.search(page) and not page.startswith("../"):
        return Target("broken", "", shown)
    if len(page.encode("utf-8", "replace")) > _MAX_TITLE_BYTES:
        return Target("broken", "", shown)
    return Target(SUBPAGE if page.startswith(("/", "../")) else ARTICLE, page, shown)


def _decode(title: str) -> str:
    """Undo percent-encoding and character references, in the order MediaWiki does."""
    if "%" in title and _PERCENT.search(title):
        title = unquote(title, errors="replace")
    return decode_references(title)


def _outside(title: str, site: Site, escaped: bool) -> str:
    """Name the reason why a title with a colon is no article, or return an empty string."""
    prefix, _, rest = title.partition(":")
    prefix = fold_prefix(prefix)
    key = site.namespaces.get(prefix, 0)
    if key and rest.strip():
        if escaped or key not in (6, 14):
            return "other namespace"
        return "file" if key == 6 else "category"
    if key == 0 and prefix in site.interwiki:
        return "language" if prefix in LANGUAGE_CODES and not escaped else "interwiki"
    return "broken" if key else ARTICLE


def join_subpage(page: str, link: str) -> str:
    """Resolve `/x` and `../x` against the page they stand on.

    Args:
        page: Title of the page; where it is empty the link stays as it is.
        link: Normalised target that starts with a slash or with dots.
    """
    if not page:
        return link
    if link.startswith("/"):
        return page + link.rstrip("/")
    parts = page.split("/")
    while link.startswith("../") and len(parts) > 1:
        parts.pop()
        link = link[3:]
    return "/".join([*parts, link.strip("/")] if link else parts)


def pipe_trick(shown: str, site: Site) -> str:
    """Shorten a target as `[[target|]]` is shown: no prefix, no brackets, nothing after a comma."""
    prefix, colon, rest = shown.partition(":")
    folded = fold_prefix(prefix)
    if colon and (folded in site.namespaces or folded in site.interwiki):
        shown = rest.strip()
    if len(shown) > _MAX_TITLE_BYTES:
        return shown
    aside = _ASIDE.match(shown)
    if aside:
        return aside[1]
    return shown.partition(", ")[0]
