"""The groups of θ(e*) that a pack holds by name: which shape each has, and which need others."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stamo.errors import PackError

MAX_VALUE = 1e6
MAX_GROUP = 1_000_000
"""Values of one group."""

ALIASES, NEIGHBOURS, DIMENSIONS = "aliases", "neighbours", "dimensions"
"""The sizes of a pack that the shapes of its groups depend on."""

SHAPES: Mapping[str, str | int] = {
    "evidence-words": DIMENSIONS,
    "evidence-context": DIMENSIONS,
    "evidence-entities": NEIGHBOURS,
    "evidence-about": 1,
    "evidence-longer-name": 2,
    "none-words": DIMENSIONS,
    "none-context": DIMENSIONS,
    "none-entities": NEIGHBOURS,
    "none-about": 1,
    "none-longer-name": 2,
    "none-bias": 1,
    "evidence-scale": 1,
    "evidence-bias": 1,
    "decision-shift": 1,
    "keyphrase": NEIGHBOURS,
    "name": 0,
    "surface": 0,
}
"""How many values a known group has: a number, or one of the pack's sizes."""

SENTENCE_GROUPS = ("evidence-sentence", "none-sentence")
"""Groups whose size is that of the encoder, which is only known where it is installed."""
ABOUT_GROUPS = ("evidence-about", "none-about")
"""Groups that weigh the line about the entity; without a line there is nothing to weigh."""
WORD_VIEWS = ("neighbours",)
"""Views whose columns are words; a pack names them."""
RESERVED = frozenset({"prior", "neighbours", "titles", "relatedness", "embedding"})
"""The arrays that are fields of a pack."""
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,40}")
_EVIDENCE = "evidence-"
_ALWAYS = frozenset({"evidence-scale", "evidence-bias"})
"""Where there is any evidence, there are these."""


def check_groups(groups: Mapping[str, NDArray[Any]], sizes: Mapping[str, int]) -> None:
    """Refuse groups that a linker could not work with.

    A group that is not in `SHAPES` belongs to an added feature: one row of values.

    Args:
        groups: The values by the name of their group.
        sizes: The sizes of the pack.

    Raises:
        PackError: A name, a shape or a value is out of range, or a group is missing.
    """
    for name, values in groups.items():
        if name in RESERVED or not _NAME.fullmatch(name):
            raise PackError(f"a group has the name {name[:50]!r}; use small letters and digits.")
        n = SHAPES.get(name, values.size)
        size = sizes[n] if isinstance(n, str) else n
        check_array(f"{name!r} group", values, np.float32, (size,))
        if size > MAX_GROUP:
            raise PackError(f"its {name!r} group has {size} values; at most {MAX_GROUP} are read.")
    missing = _ALWAYS - set(groups)
    if missing and any(name.startswith(_EVIDENCE) for name in groups):
        raise PackError(f"it has evidence but no {min(missing)!r}; learn the entity again.")


def check_array(what: str, values: NDArray[Any], dtype: type, shape: tuple[int, ...]) -> None:
    """Refuse an array of another type or shape, or with values that are not finite.

    Raises:
        PackError: The message goes on behind the pack's name.
    """
    if values.dtype != dtype or values.shape != shape:
        raise PackError(
            f"its {what} are {values.dtype} of shape {values.shape}, not {np.dtype(dtype)} of "
            f"shape {shape}; learn the entity again."
        )
    # Written so that NaN fails as well.
    if dtype is np.float32 and not bool((np.abs(values) <= MAX_VALUE).all()):
        raise PackError(f"its {what} hold a value that is not finite; learn the entity again.")
