"""What we list of languages: affixes, endings, stems that change, and letters that are swapped."""

from __future__ import annotations

import tomllib
import unicodedata
from collections.abc import Iterator
from functools import cache
from importlib import resources

_SAME = {"bs": "hr", "sh": "hr"}
"""Languages whose endings are those of another."""
LETTER_CLASSES = {"V": "aeiouyäöõü", "C": "bcdfghjklmnprstvz"}
"""In a list, such a capital is any of these letters, the same in a name and in its form."""


@cache
def affix_lists() -> dict[str, dict[str, str]]:
    """Return the affixes and letters of languages that we list."""
    path = resources.files("stamo.linking") / "affixes.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def listed_changes(language: str, kind: str) -> dict[str, list[str]]:
    """Return what the endings or stems of forms are in the names; "-" is none at all.

    Args:
        language: Its code.
        kind: `endings` or `stems`, lists of "name: forms".
    """
    listed = affix_lists().get(_SAME.get(language, language), {}).get(kind, "")
    changes: dict[str, list[str]] = {}
    for group in filter(str.strip, listed.split(";")):
        name, _, forms = unicodedata.normalize("NFC", group).partition(":")
        for form in forms.split():
            for written, stands_for in _of_all_letters(form.strip("-"), name.strip().strip("-")):
                changes.setdefault(written, []).append(stands_for)
    return changes


def _of_all_letters(form: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield a change for each letter of the classes that stand in it."""
    for sign, letters in LETTER_CLASSES.items():
        if sign in form:
            for letter in letters:
                both = (side.replace(sign, letter, 1) for side in (form, name))
                yield from _of_all_letters(*both)
            return
    yield form, name
