"""The staged tables: what a source becomes before it is counted, whatever its kind."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

import pyarrow as pa
import pyarrow.parquet as pq

from stamo.build.engine import BuildState
from stamo.build.extract import STAGED_TABLES, Extract
from stamo.system.closing import Closing


class StagedWriter(Closing):
    """Append to the staged tables of a build, each one file."""

    def __init__(self, build: BuildState, tables: Sequence[str] = tuple(STAGED_TABLES)) -> None:
        with ExitStack() as stack:
            self._writers = {
                name: stack.enter_context(
                    # Titles, names and texts hardly repeat: a dictionary is no gain.
                    pq.ParquetWriter(
                        build.staged_table(name),
                        STAGED_TABLES[name],
                        compression="lz4",
                        use_dictionary=False,
                    )
                )
                for name in tables
            }
            self._stack = stack.pop_all()

    def append(self, name: str, batch: pa.RecordBatch) -> None:
        """Write rows of a table behind those already there."""
        if len(batch):
            self._writers[name].write_batch(batch)

    def append_extract(self, part: Extract) -> None:
        """Write what one chunk of a dump holds."""
        for name, batch in (("page", part.pages), ("text", part.texts), ("link", part.links)):
            self.append(name, batch)

    def close(self) -> None:
        """End the files."""
        self._stack.close()
