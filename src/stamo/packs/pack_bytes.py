"""The bytes of an entity pack: read without trust, written without surprise, its arrays checked."""

from __future__ import annotations

import hashlib
import json
import math
import re
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from stamo.corpus.types import MAX_NAME
from stamo.errors import PackError

PACK_FORMAT = "stamo-pack"
PACK_VERSION = 1
PACK_SUFFIX = ".stamo"
MAX_PACK_BYTES = 8 * 2**20
MAX_TEXT = 20_000

Record = dict[str, Any]
Tensors = dict[str, NDArray[Any]]

_DTYPES = {"F32", "I32", "U8"}


def is_plain(value: object, depth: int) -> bool:
    """Tell whether a value is made of finite numbers and texts, nested at most `depth` deep."""
    if isinstance(value, bool | int) or value is None:
        return True
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, str):
        return is_text(value, MAX_TEXT)
    if depth and isinstance(value, Mapping):
        return all(is_text(k, MAX_NAME) and is_plain(v, depth - 1) for k, v in value.items())
    return bool(depth) and isinstance(value, list) and all(is_plain(v, depth - 1) for v in value)


def content_hash(record: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> str:
    """Return the hash of a record and its arrays."""
    digest = hashlib.sha256(json.dumps(record, sort_keys=True).encode())
    for name in sorted(tensors):
        values = tensors[name]
        digest.update(f"\n{name} {values.dtype.str} {values.shape}\n".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()


def read_bytes(path: Path) -> bytes:
    """Read a file, one byte further than a pack may be long."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_PACK_BYTES + 1)
    except OSError as error:
        raise PackError(
            f"The pack {path.name!r} cannot be read ({error.strerror}); check its path."
        ) from error


def to_bytes(record: Record, tensors: Tensors) -> bytes:
    """Return a file's content; the checksum covers all of it."""
    whole = {"sha256": content_hash(record, tensors), "pack": record}
    # One key keeps the order of the bytes fixed.
    return bytes(save(tensors, {"stamo": json.dumps(whole, sort_keys=True)}))


def parse_bytes(data: bytes) -> tuple[Record, Tensors]:
    """Return the record and the arrays of a file.

    Raises:
        PackError: It is damaged or something else; the message goes on behind the file's name.
    """
    if len(data) > MAX_PACK_BYTES:
        raise PackError(f"it has more than {MAX_PACK_BYTES} bytes.")
    whole = _strict_json(_metadata(data))
    try:
        tensors = load(data)
    except (SafetensorError, ValueError, KeyError, OverflowError, MemoryError) as error:
        raise PackError(f"its arrays cannot be read ({error}).") from error
    record = whole.get("pack")
    if not isinstance(record, dict) or record.get("format") != PACK_FORMAT:
        raise PackError("it is a safetensors file of something else.")
    if record.get("version") != PACK_VERSION:
        raise PackError(f"it is not of format version {PACK_VERSION}; learn the entity again.")
    if content_hash(record, tensors) != whole.get("sha256"):
        raise PackError("its content does not match its checksum; copy it again.")
    return record, tensors


def _metadata(data: bytes) -> str:
    size = int.from_bytes(data[:8], "little")
    if len(data) < 10 or size > len(data) - 8:
        raise PackError("it is cut short or not a safetensors file.")
    header = _strict_json(data[8 : 8 + size])
    entries = [entry for name, entry in header.items() if name != "__metadata__"]
    if any(not isinstance(entry, dict) or entry.get("dtype") not in _DTYPES for entry in entries):
        raise PackError("it holds arrays of another type than a pack has.")
    metadata = header.get("__metadata__")
    text = metadata.get("stamo") if isinstance(metadata, dict) else None
    if not isinstance(text, str):
        raise PackError("it is a safetensors file of something else.")
    return text


def _strict_json(text: str | bytes) -> dict[str, Any]:
    """Parse an object; refuse what is not JSON although Python reads it (NaN, 1e999)."""

    def refuse(constant: str) -> float:
        raise ValueError(f"{constant} is no number")

    def finite(digits: str) -> float:
        value = float(digits)
        return value if math.isfinite(value) else refuse(digits)

    try:
        value = json.loads(text, parse_constant=refuse, parse_float=finite)
        if not isinstance(value, dict):
            raise ValueError("not an object")
        json.dumps(value).encode()
    except (ValueError, RecursionError) as error:
        raise PackError("its header is damaged.") from error
    return value


def is_text(text: object, limit: int) -> bool:
    """Tell whether a value is a text that can be written and shown."""
    if not isinstance(text, str) or len(text) > limit:
        return False
    # A lone surrogate cannot be written; "Cc" are control characters.
    return not any(unicodedata.category(c) in ("Cs", "Cc") and c not in "\n\t" for c in text)


def is_line(text: object, limit: int) -> bool:
    """Tell whether a value is a text of one line."""
    return is_text(text, limit) and "\n" not in str(text) and "\t" not in str(text)


MAX_VALUE = 1e6
MAX_GROUP = 1_000_000
"""Values of one group."""

NEIGHBOURS, DIMENSIONS = "neighbours", "dimensions"
"""The sizes of a pack that the shapes of its groups depend on."""

_VIEWED: dict[str, str | int] = {"words": DIMENSIONS, "context": DIMENSIONS, "entities": NEIGHBOURS}
_VIEWED |= {"about": 1, "longer-name": 2, "bias": 1}
SHAPES: Mapping[str, str | int] = {
    **{f"{kind}-{view}": n for kind in ("evidence", "none") for view, n in _VIEWED.items()},
    "evidence-scale": 1,
    "decision-shift": 1,
    "keyphrase": NEIGHBOURS,
    "name": 0,
    "surface": 0,
}
"""How many values a known group has: a number, or one of the pack's sizes."""

SENTENCE_GROUPS = ("evidence-sentence", "none-sentence")
"""Groups whose size is that of the encoder, which is only known where it is installed."""
RESERVED = frozenset({"prior", "neighbours", "titles", "relatedness", "embedding"})
"""The arrays that are fields of a pack."""
OWN_FIELDS = frozenset({"prior", "relatedness", "embedding"})
"""The groups of θ(e*) that are fields of a pack; all others are stored by name."""
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,40}")


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
    missing = {"evidence-scale", "evidence-bias"} - set(groups)
    if missing and any(name.startswith("evidence-") for name in groups):
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
