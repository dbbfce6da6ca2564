"""From a dump, a folder of notes or a table to the directory of a knowledge base."""

from enum import StrEnum


class SourceKind(StrEnum):
    """The kinds of sources."""

    dump = "dump"
    notes = "notes"
    entities = "entities"
