"""What a knowledge base is built from: a dump, a folder of notes or a table of entities."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from stamo.build.dump.site import Site
from stamo.build.kinds import SourceKind
from stamo.build.settings import BuildSettings
from stamo.build.wikitext.magic_words import LANGUAGE_CODES
from stamo.errors import DumpError, SettingsError

_COMPRESSED = frozenset({".bz2", ".gz", ".xz", ".zst"})
_TABLES = frozenset({".csv", ".jsonl", ".ndjson", ".tsv"})
_CODE = re.compile(r"[a-z]{2,3}(-[a-z0-9]{2,8}){0,3}")
DUMP_HELD_OUT = 0.1


@dataclass(frozen=True)
class Source:
    """Something to build from."""

    path: Path
    kind: SourceKind

    @classmethod
    def of(cls, path: Path, kind: str | None = None) -> Source:
        """Tell what a path holds: a folder is notes, .csv, .tsv and .jsonl are tables of entities.

        Raises:
            DumpError: Notes are not in a folder, or something else is one.
        """
        named = Path(path.stem) if path.suffix.lower() in _COMPRESSED else path
        if kind is not None:
            chosen = SourceKind(kind)
        elif path.is_dir():
            chosen = SourceKind.notes
        else:
            is_table = named.suffix.lower() in _TABLES
            chosen = SourceKind.entities if is_table else SourceKind.dump
        if (chosen is SourceKind.notes) != path.is_dir():
            there = "a folder" if path.is_dir() else "no folder"
            raise DumpError(
                f"{str(path)!r} is {there}; notes are given as a folder, dumps and tables as a "
                "file."
            )
        return cls(path, chosen)

    @property
    def is_dump(self) -> bool:
        """Whether it is a dump, which says most of what is to know itself."""
        return self.kind is SourceKind.dump

    def held_out(self, settings: BuildSettings) -> float:
        """Return the share of articles to hold out: of a dump a tenth, unless another is set."""
        if settings.held_out is not None:
            return settings.held_out
        return DUMP_HELD_OUT if self.is_dump else 0.0

    def check(self, settings: BuildSettings) -> None:
        """Refuse settings that another kind of source has.

        Raises:
            SettingsError: One is set.
        """
        code = (settings.language or "en").casefold()
        if code not in LANGUAGE_CODES and not _CODE.fullmatch(code):
            raise SettingsError(
                f"{settings.language!r} is no language code; give one such as pl or pt-br."
            )
        if self.is_dump:
            return
        if settings.index is not None or settings.disambiguation_templates:
            raise SettingsError(
                "--index and --disambiguation-template go with a dump; leave them out for notes "
                "and tables."
            )
        if self.kind is SourceKind.entities and (self.held_out(settings) or settings.ids):
            raise SettingsError(
                "A table of entities has no article to hold out, and its ids are its own column; "
                "leave --held-out and --ids out."
            )


def plain_site(language: str) -> Site:
    """Return the rules of titles where no wiki gives any: they stay as they are written."""
    return Site(language=language, case_first=False, namespaces={}, interwiki=frozenset())
