"""What we list of languages: affixes, endings, stems that change, and letters that are swapped.

For other letters of the same name (中國 and 中国, ايران and ایران, ＪＲ and JR) texts are searched
again with their letters replaced one by one, so that every place stays.
"""

from __future__ import annotations

import tomllib
import unicodedata
from collections.abc import Iterator
from functools import cache
from importlib import resources

import numpy as np

from stamo.linking.texts import TABLE_SIZE, CodeArray

_SAME = {"bs": "hr", "sh": "hr"}
"""Languages whose endings are those of another."""
LETTER_CLASSES = {"V": "aeiouyäöõü", "C": "bcdfghjklmnprstvz"}
"""In a list, such a capital is any of these letters, the same in a name and in its form."""

_HAN = (0x3400, 0x9FFF)
_WIDE = range(0xFF01, 0xFF5F)
_WIDE_SHIFT = 0xFEE0
_CHINESE = frozenset({"zh", "yue", "wuu", "gan", "lzh"})


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


@cache
def other_letters(language: str) -> tuple[CodeArray, ...]:
    """Return the ways to rewrite texts for a knowledge base in a language, most often none.

    Traditional and simplified Chinese need the package opencc; without it they stay apart.
    """
    tables = []
    if pairs := affix_lists()["letters"].get(language):
        first, second = map("".join, zip(*pairs.split(), strict=True))
        tables += [_table(second, first), _table(first, second)]
    if language in _CHINESE:
        tables += _chinese()
    if language in _CHINESE | {"ja", "ko"}:
        wide = map(chr, _WIDE)
        tables.append(_table("".join(wide), "".join(chr(code - _WIDE_SHIFT) for code in _WIDE)))
    return tuple(tables)


def _table(letters: str, written: str) -> CodeArray:
    table = np.arange(TABLE_SIZE, dtype=np.uint32)
    table[[ord(letter) for letter in letters]] = [ord(letter) for letter in written]
    return table


def _chinese() -> list[CodeArray]:
    try:
        from opencc import OpenCC
    except ImportError:
        return []
    han = "".join(map(chr, range(_HAN[0], _HAN[1] + 1)))
    tables = []
    for direction in ("t2s", "s2t"):
        convert = OpenCC(direction).convert
        written = [convert(letter) for letter in han]
        same = [
            w if len(w) == 1 and ord(w) < TABLE_SIZE else letter
            for letter, w in zip(han, written, strict=True)
        ]
        tables.append(_table(han, "".join(same)))
    return tables
