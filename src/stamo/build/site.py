"""What a dump says of its own wiki: language, case rule, namespaces, and how titles are written."""

from __future__ import annotations

import html
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources

from stamo.corpus.tokenizer import DOTTED_I, capital
from stamo.corpus.types import compose_name
from stamo.errors import SettingsError

_DATA = tomllib.loads(
    (resources.files("stamo.build") / "magic_words.toml").read_text(encoding="utf-8")
)


def _names(text: str) -> frozenset[str]:
    return frozenset(" ".join(name.split()).casefold() for name in text.split(",")) - {""}


LANGUAGE_CODES = frozenset(_DATA["language_codes"].split())
"""Prefixes of the Wikipedias in other languages; a bare `[[fr:X]]` is a language link."""

SISTER_PROJECTS = frozenset(_DATA["sister_projects"].split())
"""Prefixes of sister projects and of other sites that Wikipedia's interwiki table knows."""

FILE_ALIASES: dict[str, list[str]] = _DATA["file_aliases"]
"""Older names of the file namespace, which articles keep using and siteinfo does not list."""

CATEGORY_NAMES: dict[str, list[str]] = _DATA["category_names"]
"""Names of the category namespace, for dumps without siteinfo."""

CANONICAL_NAMESPACES: dict[str, int] = _DATA["namespaces"]
"""Names and numbers of the namespaces that every wiki knows."""

REDIRECT_WORDS = _names(_DATA["redirect_words"])
"""Words that follow `#` on the first line of a redirect."""

DISAMBIGUATION_TEMPLATES = _names(_DATA["disambiguation_templates"])
"""Case-folded names of the templates that mark a page as a list of meanings."""

DISAMBIGUATION_SUFFIXES = _names(_DATA["disambiguation_suffixes"])
"""Case-folded words that stand in brackets at the end of a disambiguation page's title."""


_HEADER_LIMIT = 1 << 18  # a real siteinfo is about 3 kB; more than this is no header

_SITEINFO = re.compile(r"<siteinfo\b[^<>]*>(.*?)(?:</siteinfo|<page\b|\Z)", re.DOTALL)
_NAMESPACE = re.compile(r"<namespace\b([^<>]*?)(?:/>|>([^<>]*)</namespace)")
_KEY = re.compile(r"""\bkey\s*=\s*["']?(-?\d{1,9})""")
_DATABASE = re.compile(r"<dbname>\s*([a-z0-9_-]{1,60})\s*</dbname>")
_CASE = re.compile(r"<case>\s*([a-z-]{1,40})\s*</case>")
_LANGUAGE = re.compile(r"""<mediawiki\b[^<>]*?\bxml:lang\s*=\s*["']([\w-]{1,40})""")

# Only the references XML itself knows: a name from a DTD stays as it is and is never expanded.
_XML_REFERENCE = re.compile(r"&(?:amp|lt|gt|quot|apos|#\d{1,7}|#[xX][0-9a-fA-F]{1,6});")
_REFERENCE = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")

# Left-to-right and right-to-left marks are invisible; MediaWiki drops them from titles as well.
_MARKS = dict.fromkeys([0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xFEFF])


def decode_references(text: str) -> str:
    """Replace character references that end in a semicolon (`&amp;`, `&#39;`, `&nbsp;`)."""
    if "&" not in text:
        return text
    return _REFERENCE.sub(lambda match: html.unescape(match[0]), text)


@dataclass(frozen=True)
class Site:
    """The rules of one wiki, enough to read its titles and links."""

    language: str = "en"
    """Language code of the wiki (`xml:lang` of the dump)."""
    case_first: bool = True
    """Whether the first letter of a title is always upper case (`first-letter`)."""
    namespaces: Mapping[str, int] = field(default_factory=CANONICAL_NAMESPACES.copy)
    """Case-folded prefix -> namespace key; the canonical English names are always among them."""
    interwiki: frozenset[str] = LANGUAGE_CODES | SISTER_PROJECTS
    """Case-folded prefixes that lead out of this wiki."""
    name: str = ""
    """What the wiki's database is called (`dbname`), where the dump says it."""

    @property
    def database(self) -> str:
        """Return the name of the wiki's database, such as enwiki."""
        return self.name or f"{self.language.replace('-', '_')}wiki"

    def __hash__(self) -> int:
        # Asked for several times on each page, so it leaves the rest to the comparison.
        return hash((self.language, self.case_first, len(self.namespaces)))

    @classmethod
    def parse(cls, header: bytes, language: str | None = None) -> Site:
        """Read the head of a dump, up to and including `</siteinfo>`.

        Whatever is missing keeps its default, so a dump without siteinfo reads as English.

        Args:
            header: The first bytes of the XML; only 256 kB of them are looked at.
            language: The language of a dump that does not say it.

        Raises:
            SettingsError: The dump says that its language is another.
        """
        text = header[:_HEADER_LIMIT].decode("utf-8", errors="replace")
        declared = _LANGUAGE.search(text)
        code = declared[1].casefold() if declared else (language or "en").casefold()
        if language and code != language.casefold():
            raise SettingsError(
                f"The dump says that its language is {code}, not {language}; leave --language out."
            )
        siteinfo = _SITEINFO.search(text)
        body = siteinfo[1] if siteinfo else ""
        case, database = _CASE.search(body), _DATABASE.search(body)
        namespaces = CANONICAL_NAMESPACES.copy()
        primary = code.partition("-")[0]
        namespaces.update(dict.fromkeys(FILE_ALIASES.get(primary, ()), 6))
        namespaces.update(dict.fromkeys(CATEGORY_NAMES.get(primary, ()), 14))
        if code == "en":
            namespaces.update({"wp": 4, "wt": 5})
        namespaces.update(_read_namespaces(body))
        return cls(
            language=code,
            case_first=case is None or case[1] == "first-letter",
            namespaces=namespaces,
            interwiki=(LANGUAGE_CODES | SISTER_PROJECTS) - namespaces.keys(),
            name=database[1] if database else "",
        )

    def normalise_title(self, title: str) -> str:
        """Write a title the one way the wiki itself writes it.

        Decodes references, turns underscores into spaces, collapses white space, drops invisible
        marks, composes accents (NFC), and raises the first letter where the wiki does so.
        """
        title = " ".join(decode_references(title).replace("_", " ").split())
        if not title.isascii():
            title = compose_name(title.translate(_MARKS)).strip()
        return self.raise_first(title)

    def raise_first(self, title: str) -> str:
        """Write the first letter of a title as this wiki does."""
        if not self.case_first:
            return title
        if title.startswith("i") and self.language in DOTTED_I:
            return "\u0130" + title[1:]
        return capital(title)

    def namespace_of(self, title: str) -> tuple[int, str]:
        """Split a title into its namespace key and the rest; a plain title is in namespace 0.

        A prefix that is no namespace belongs to the title, as in "2001: A Space Odyssey".
        """
        prefix, colon, rest = title.partition(":")
        if colon:
            key = self.namespaces.get(fold_prefix(prefix))
            if key:
                return key, self.normalise_title(rest)
        return 0, self.normalise_title(title)


def fold_prefix(prefix: str) -> str:
    """Write a namespace or interwiki prefix as the keys of a `Site` are written."""
    return " ".join(prefix.replace("_", " ").split()).casefold()


def _read_namespaces(siteinfo: str) -> dict[str, int]:
    """Read the `<namespace>` elements; the nameless main namespace is left out."""
    namespaces = {}
    for attributes, name in _NAMESPACE.findall(siteinfo):
        key = _KEY.search(attributes)
        plain = _XML_REFERENCE.sub(lambda match: html.unescape(match[0]), name)
        prefix = fold_prefix(compose_name(plain))
        if key and prefix:
            namespaces[prefix] = int(key[1])
    return namespaces
