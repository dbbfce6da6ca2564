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

    def begin(self, plan: dict[str, Any], *, overwrite: bool) -> None:
        """Make the folder, or check that what is there is the beginning of the same.

        Raises:
            SettingsError: It holds something else.
        """
        system, root = self._system()
        before = self.plan()
        if before is not None and (overwrite or before != plan):
            if not overwrite:
                raise SettingsError(
                    f"{self.address!r} holds the result of other sources, settings or artifacts; "
                    "add --overwrite to replace it or choose another folder."
                )
            for name in [*self._names(), PLAN_FILE]:
                system.delete_file(f"{root}/{name}")
        elif before is None and self._is_taken():
            raise SettingsError(
                f"{self.address!r} exists and was not written by stamo, so it is left alone; "
                "choose another folder."
            )
        system.create_dir(root, recursive=True)
        with system.open_output_stream(f"{root}/{PLAN_FILE}") as file:
            file.write(to_json(plan))

    def missing(self, n_parts: int) -> list[int]:
        """Return the numbers of the parts that are not there yet."""
        names = set(self._names())
        return [number for number in range(n_parts) if _name(number) not in names]

    def write(self, number: int, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        """Write a part; it is there when it is whole, also where two tasks write the same."""
        system, root = self._system()
        beside = f"{root}/_{number}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        try:
            with (
                system.open_output_stream(beside) as file,
                pq.ParquetWriter(file, schema, compression="zstd") as writer,
            ):
                for batch in batches:
                    writer.write_batch(batch)
            system.move(beside, f"{root}/{_name(number)}")
        except BaseException:
            system.delete_file(beside)
            raise

    def count_rows(self, column: str) -> tuple[int, int]:
        """Count the rows of all parts, and those where a column has a value."""
        system, root = self._system()
        n_rows = n_values = 0
        for name in self._names():
            with pq.ParquetFile(system.open_input_file(f"{root}/{name}")) as part:
                for batch in part.iter_batches(columns=[column]):
                    n_rows += len(batch)
                    n_values += len(batch) - batch.column(0).null_count
        return n_rows, n_values

    def sweep(self) -> None:
        """Remove what killed tasks have left."""
        system, root = self._system()
        for info in system.get_file_info(fs.FileSelector(root)):
            if info.base_name.startswith("_") and info.base_name != PLAN_FILE:
                system.delete_file(info.path)

    def _names(self) -> list[str]:
        system, root = self._system()
        found = system.get_file_info(fs.FileSelector(root, allow_not_found=True))
        return sorted(i.base_name for i in found if i.base_name.startswith("part-"))

    def _is_taken(self) -> bool:
        system, root = self._system()
        kind = system.get_file_info(root).type
        return kind == fs.FileType.File or bool(
            system.get_file_info(fs.FileSelector(root, allow_not_found=True))
        )

    def plan(self) -> Any:
        """Return what the folder is made of, None where nothing was begun."""
        system, root = self._system()
        try:
            with system.open_input_stream(f"{root}/{PLAN_FILE}") as file:
                return json.loads(file.read())
        except (OSError, ValueError):
            return None

    def _system(self) -> tuple[Any, str]:
        if "://" in self.address:
            return fs.FileSystem.from_uri(self.address)  # type: ignore[no-any-return]
        return fs.LocalFileSystem(), self.address


def _name(number: int) -> str:
    return f"part-{number:06}.parquet"
