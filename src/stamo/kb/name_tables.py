"""Write the names of a knowledge base in the forms that find them: the part that workers do.

The database is not imported here: a worker that only writes names would pay for it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stamo.kb.matching import NameMatcher
from stamo.kb.names import MATCHER
from stamo.kb.parallel import give_back_memory
from stamo.kb.storage import StringTable


def write_matcher(result: Path, names: pa.ChunkedArray, numbers: NDArray[np.int32]) -> None:
    """Write what finds the given aliases in texts."""
    give_back_memory()  # what reading the dump has left
    NameMatcher.build(names.to_pylist(), numbers).save(result, MATCHER)
    give_back_memory()


def write_strings(result: Path, name: str, strings: pa.ChunkedArray) -> None:
    """Write a table of strings in which each has its place as its number."""
    give_back_memory()
    StringTable.build(result, name, strings.to_pylist())
    give_back_memory()
