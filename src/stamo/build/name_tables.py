"""Write the names of a knowledge base in the forms that find them: the part that workers do.

Names travel from the database to the workers in files, read a few thousand at a time: they are
what grows with an encyclopaedia, so no process holds all of them as objects. The database is not
imported here: a worker that only writes names would pay for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from stamo.kb.manifest import ALIAS_COUNTS, MATCHER
from stamo.kb.matching import NAMES_PER_BATCH, NameMatcher
from stamo.kb.storage import StringTable, open_array
from stamo.system.arrays import Bools, Int32
from stamo.system.closing import Closing
from stamo.system.runtime import give_back_memory

LISTED_FILE = "listed.npy"
"""Says beside the staged aliases which of them the source lists."""
NAME_SCHEMA = pa.schema([("name", pa.string())])


class NameWriter(Closing):
    """Append names to a file that `StagedNames` reads."""

    def __init__(self, path: Path) -> None:
        self._writer = pa.ipc.new_file(str(path), NAME_SCHEMA)
        self.n_names = 0

    def append(self, names: pa.Array) -> None:
        """Write names behind those already there."""
        self.n_names += len(names)
        for first in range(0, len(names), NAMES_PER_BATCH):
            part = names.slice(first, NAMES_PER_BATCH)
            self._writer.write_batch(pa.record_batch([part], schema=NAME_SCHEMA))

    def close(self) -> None:
        """End the file."""
        self._writer.close()


class StagedNames:
    """Names in a file, as often as they are asked for."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def batches(self) -> Iterator[list[str]]:
        """Yield the names, a few thousand at a time."""
        with pa.OSFile(str(self._path)) as source, pa.ipc.open_file(source) as reader:
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)["name"].to_pylist()

    def __iter__(self) -> Iterator[str]:
        for names in self.batches():
            yield from names


def write_matcher(staged: Path, result: Path) -> None:
    """Write what finds the aliases that are linked at least once in texts, or listed.

    The probability of any other alias is 0 however often it occurs.
    """
    give_back_memory()  # what reading the dump has left
    is_wanted = (open_array(result / ALIAS_COUNTS) > 0) | open_array(staged.parent / LISTED_FILE)
    NameMatcher.build_from(_chosen(staged, is_wanted)).save(result, MATCHER)
    give_back_memory()


def _chosen(staged: Path, is_wanted: Bools) -> Iterator[tuple[list[str], Int32]]:
    first = 0
    for names in StagedNames(staged).batches():
        numbers = np.flatnonzero(is_wanted[first : first + len(names)])
        yield [names[i] for i in numbers.tolist()], (first + numbers).astype(np.int32)
        first += len(names)


def write_strings(staged: Path, result: Path, name: str) -> None:
    """Write a table of strings in which each has its place as its number."""
    give_back_memory()
    StringTable.build(result, name, StagedNames(staged))
    give_back_memory()
