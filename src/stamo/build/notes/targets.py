"""What a link in a note leads to, as far as the link itself tells."""

from __future__ import annotations

import posixpath
import re
from typing import NamedTuple
from urllib.parse import unquote

NOTE_SUFFIXES = (".md", ".markdown")
ROOT = "/"
"""Begins a target that is a path below the root; any other target is the name of a note."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*+:|//")
_ATTACHED = re.compile(
    r"\.(?:avif|bmp|canvas|csv|docx?|gif|heic|html?|jpe?g|json|m4a|mp3|mp4|ogg|pdf|png|pptx?|svg|"
    r"tex|tiff?|txt|wav|webm|webp|xlsx?|ya?ml|zip)$",
    re.IGNORECASE,
)
_REDIRECTS = "!redirects "


class NoteTarget(NamedTuple):
    """What the target of a link means."""

    kind: str
    """"" for a link to a note, "redirect" for a name of this one, or why it is no link."""
    goal: str = ""
    """A path below the root that begins with a slash, or the name of a note."""
    shown: str = ""
    """What a reader sees where the link has no label."""


def note_target(written: str) -> NoteTarget:
    """Say what `[[written]]` or `[[written|label]]` leads to."""
    name = written.strip().removesuffix("\\").rstrip()  # in a table the bar is escaped
    if name.startswith(_REDIRECTS):
        return NoteTarget("redirect", name.removeprefix(_REDIRECTS).strip())
    if name.startswith("!"):
        return NoteTarget("file")
    name, _, section = name.partition("#")
    name = without_suffix(name.strip().removeprefix("./"))
    if not name:
        return NoteTarget("own page", shown=section.strip("^# "))
    if _ATTACHED.search(name):
        return NoteTarget("file")
    return NoteTarget("", name.lstrip(ROOT) or name, name.rpartition("/")[2])


def path_target(written: str, folder: str) -> NoteTarget:
    """Say what `[label](written)` on a note of a folder leads to."""
    path, _, _ = written.strip().partition("#")
    if not path:
        return NoteTarget("own page")
    if _SCHEME.match(path):
        return NoteTarget("outside")
    path = unquote(path.partition("?")[0])
    if _ATTACHED.search(path):
        return NoteTarget("file")
    below = path.lstrip("/") if path.startswith("/") else posixpath.join(folder, path)
    whole = posixpath.normpath(below)
    if whole.startswith("..") or whole == ".":
        return NoteTarget("out of the folder")
    return NoteTarget("", ROOT + whole)


def without_suffix(name: str) -> str:
    """Return a path without the ending of a note."""
    for suffix in NOTE_SUFFIXES:
        if name.lower().endswith(suffix):
            return name[: -len(suffix)]
    return name
