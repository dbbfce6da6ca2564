"""Other letters for the same name: 中國 and 中国, ايران and ایران, ＪＲ and JR.

Texts are searched again with their letters replaced one by one, so that every place stays.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from stamo.linking.form_lists import affix_lists

CodeTable = NDArray[np.uint32]
"""For each code point of the basic plane, the one to write instead."""

_SIZE = 0x10000
_HAN = (0x3400, 0x9FFF)
_WIDE = range(0xFF01, 0xFF5F)
_WIDE_SHIFT = 0xFEE0
_CHINESE = frozenset({"zh", "yue", "wuu", "gan", "lzh"})


@cache
def other_letters(language: str) -> tuple[CodeTable, ...]:
    """Return the ways to rewrite texts for a knowledge base in a language, most often none.

    Traditional and simplified Chinese need the package opencc; without it they stay apart.
    """
    tables = []
    if pairs := affix_lists()["letters"].get(language):
        tables += [_table(p[0], p[1]) for p in _both_ways(pairs.split())]
    if language in _CHINESE:
        tables += _chinese()
    if language in _CHINESE | {"ja", "ko"}:
        tables.append(_narrow())
    return tuple(tables)


def _both_ways(pairs: list[str]) -> list[tuple[str, str]]:
    """Return the letters to replace and those to write, one way and the other."""
    first, second = ("".join(pair[i] for pair in pairs) for i in (0, 1))
    return [(second, first), (first, second)]


def _table(letters: str, written: str) -> CodeTable:
    table = np.arange(_SIZE, dtype=np.uint32)
    table[[ord(letter) for letter in letters]] = [ord(letter) for letter in written]
    return table


def _narrow() -> CodeTable:
    table = np.arange(_SIZE, dtype=np.uint32)
    table[_WIDE.start : _WIDE.stop] -= np.uint32(_WIDE_SHIFT)
    return table


def _chinese() -> list[CodeTable]:
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
            w if len(w) == 1 and ord(w) < _SIZE else letter
            for letter, w in zip(han, written, strict=True)
        ]
        tables.append(_table(han, "".join(same)))
    return tables
