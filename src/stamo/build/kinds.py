"""The kinds of sources of a knowledge base; imported by the command line before all else."""

from __future__ import annotations

from enum import StrEnum


class SourceKind(StrEnum):
    """The kinds of sources."""

    dump = "dump"
    notes = "notes"
    entities = "entities"
