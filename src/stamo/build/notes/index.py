"""Which note a link means: by its path, its file's name, its title or another name of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from stamo.build.dump.site import Site
from stamo.build.notes.targets import NOTE_SUFFIXES, ROOT, without_suffix
from stamo.build.staging import Listed, tidy_title

_MAX_PARTS = 8


@dataclass(frozen=True, slots=True)
class Note:
    """A note without its text."""

    position: int
    below: str
    """Its path below the root without its ending."""
    folder: str
    listed: Listed
    size: int
    sha256: str


class NoteIndex:
    """Finds the titles of notes; letters of either case mean the same where no other note does.

    Args:
        notes: All notes.
        titles: Their titles by position.
        site: How titles are written.
    """

    def __init__(self, notes: Sequence[Note], titles: Mapping[int, str], site: Site) -> None:
        self._site = site
        self._folders = {note.position: note.folder for note in notes}
        self._exact: dict[str, str] = {}
        self._folded: dict[str, str] = {}
        # Where several notes answer to a name, the one nearest to the root is meant.
        ordered = sorted(notes, key=lambda note: (note.below.count("/"), note.position))
        self._paths = {note.below: titles[note.position] for note in ordered}
        self._folded_paths = {path.casefold(): title for path, title in self._paths.items()}
        titled = [(note, titles[note.position]) for note in ordered]
        paths = [(end, title) for note, title in titled for end in _path_ends(note.below)]
        own = [(name, title) for note, title in titled for name in (note.listed.title, title)]
        others = [(name, title) for note, title in titled for name in note.listed.names]
        for name, title in (*paths, *own, *others):
            key = tidy_title(name, site)
            self._exact.setdefault(key, title)
            self._folded.setdefault(key.casefold(), title)

    def title(self, target: str, position: int) -> str | None:
        """Return the title that a target on the note of a position means.

        A name that no note has is a title without a note; a path that leads nowhere is None.
        """
        folder = self._folders[position]
        if target.startswith(ROOT):
            found = self._at(without_suffix(target[1:]))
            is_note = target.lower().endswith(NOTE_SUFFIXES)
            stem = PurePosixPath(without_suffix(target)).name
            return found or (tidy_title(stem, self._site) or None if is_note else None)
        key = tidy_title(target, self._site)
        return (
            self._at(f"{folder}/{target}" if folder else target)
            or self._exact.get(key)
            or self._folded.get(key.casefold())
            or key.rpartition("/")[2].strip()
            or None
        )

    def _at(self, path: str) -> str | None:
        return self._paths.get(path) or self._folded_paths.get(path.casefold())


def _path_ends(below: str) -> list[str]:
    """Return the ends by which a path may be called, the shortest first."""
    parts = below.split("/")[-_MAX_PARTS:]
    ends = ["/".join(parts[-n:]) for n in range(1, len(parts) + 1)]
    return ends if ends[-1] == below else [*ends, below]
