"""Words with a meaning of their own in wikitext, by language: prefixes, redirects, templates."""

import tomllib
from importlib import resources

_DATA = tomllib.loads(
    (resources.files("stamo.build.wikitext") / "magic_words.toml").read_text(encoding="utf-8")
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
