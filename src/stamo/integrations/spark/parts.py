"""A folder of parts that appear whole: what a killed run has written, the next one keeps."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from stamo.errors import SettingsError
from stamo.system.files import to_json

PLAN_FILE = "_stamo_plan.json"
"""Says what a folder of parts is made of; readers of Parquet pass over names that begin so."""


class PartFolder:
    """Parquet parts on this machine's disk or at an address such as s3://; made to travel."""

    def __init__(self, address: str) -> None:
        self.address = address if "://" in address else str(Path(address).absolute())
        self._system, self._root = fs.LocalFileSystem(), self.address
        if "://" in address:
            self._system, self._root = fs.FileSystem.from_uri(address)

    def begin(self, plan: dict[str, Any], *, overwrite: bool) -> None:
        """Make the folder, or check that what is there is the beginning of the same.

        Raises:
            SettingsError: It holds something else.
        """
        before = self.plan()
        if before is not None and (overwrite or before != plan):
            if not overwrite:
                raise SettingsError(
                    f"{self.address!r} holds the result of other sources, settings or artifacts; "
                    "add --overwrite to replace it or choose another folder."
                )
            for name in [*self._names(), PLAN_FILE]:
                self._system.delete_file(f"{self._root}/{name}")
        elif before is None and self._is_taken():
            raise SettingsError(
                f"{self.address!r} exists and was not written by stamo, so it is left alone; "
                "choose another folder."
            )
        self._system.create_dir(self._root, recursive=True)
        with self._system.open_output_stream(f"{self._root}/{PLAN_FILE}") as file:
            file.write(to_json(plan))

    def missing(self, n_parts: int) -> list[int]:
        """Return the numbers of the parts that are not there yet."""
        names = set(self._names())
        return [number for number in range(n_parts) if _name(number) not in names]

    def write(self, number: int, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        """Write a part; it is there when it is whole, also where two tasks write the same."""
        beside = f"{self._root}/_{number}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        try:
            with (
                self._system.open_output_stream(beside) as file,
                pq.ParquetWriter(file, schema, compression="zstd") as writer,
            ):
                for batch in batches:
                    writer.write_batch(batch)
            self._system.move(beside, f"{self._root}/{_name(number)}")
        except BaseException:
            self._system.delete_file(beside)
            raise

    def count_rows(self, column: str) -> tuple[int, int]:
        """Count the rows of all parts, and those where a column has a value."""
        n_rows = n_values = 0
        for name in self._names():
            with pq.ParquetFile(self._system.open_input_file(f"{self._root}/{name}")) as part:
                for batch in part.iter_batches(columns=[column]):
                    n_rows += len(batch)
                    n_values += len(batch) - batch.column(0).null_count
        return n_rows, n_values

    def sweep(self) -> None:
        """Remove what killed tasks have left."""
        for info in self._system.get_file_info(fs.FileSelector(self._root)):
            if info.base_name.startswith("_") and info.base_name != PLAN_FILE:
                self._system.delete_file(info.path)

    def _names(self) -> list[str]:
        found = self._system.get_file_info(fs.FileSelector(self._root, allow_not_found=True))
        return sorted(i.base_name for i in found if i.base_name.startswith("part-"))

    def _is_taken(self) -> bool:
        inside = fs.FileSelector(self._root, allow_not_found=True)
        is_file = self._system.get_file_info(self._root).type == fs.FileType.File
        return is_file or bool(self._system.get_file_info(inside))

    def plan(self) -> Any:
        """Return what the folder is made of, None where nothing was begun."""
        try:
            with self._system.open_input_stream(f"{self._root}/{PLAN_FILE}") as file:
                return json.loads(file.read())
        except (OSError, ValueError):
            return None


def _name(number: int) -> str:
    return f"part-{number:06}.parquet"
