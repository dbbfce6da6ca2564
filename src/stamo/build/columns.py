"""Arrow's columns of numbers from and to numpy.

Arrow's own `to_numpy` and `pa.array` import pandas where it is installed: .3 s of each build.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stamo.system.files import Bools


def numbers_of(column: pa.Array) -> NDArray[Any]:
    """Return numbers without copying them; none may be missing."""
    return np.from_dlpack(column)


def flags_of(column: pa.BooleanArray) -> Bools:
    """Return what is true; nothing may be missing."""
    bits = np.unpackbits(np.frombuffer(column.buffers()[1], np.uint8), bitorder="little")
    return bits[column.offset : column.offset + len(column)].astype(bool)


def column_of(numbers: NDArray[Any]) -> pa.Array:
    """Return numbers as a column."""
    values = pa.py_buffer(np.ascontiguousarray(numbers))
    return pa.Array.from_buffers(pa.from_numpy_dtype(numbers.dtype), len(numbers), [None, values])
