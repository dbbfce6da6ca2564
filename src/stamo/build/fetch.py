"""Fetch the dump of a wiki from Wikimedia or a mirror of it, and check it.

An address is made of the wiki's short name and a date; the list of checksums beside the dump says
which date is the latest. What was transferred before an interruption is kept and completed.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from stamo import __version__
from stamo.errors import DumpError
from stamo.system.files import DISK_FULL

MIRROR = "STAMO_MIRROR"
"""The environment variable with the address of a mirror."""
WIKIMEDIA = "https://dumps.wikimedia.org"
LATEST = "latest"
_WIKI = re.compile(r"[a-z][a-z0-9_]*wik(i|tionary|iquote|ibooks|isource|inews|iversity|ivoyage)")
_KIND = "pages-articles-multistream.xml.bz2"
_SECONDS = 60
_TRIES = 4
"""How often in a row a transfer may bring nothing."""
_BLOCK = 1 << 20
_MAX_LIST = 1 << 22


def is_wiki(source: Path) -> bool:
    """Tell whether a source is the short name of a wiki, such as simplewiki, and no file."""
    return _WIKI.fullmatch(str(source)) is not None and not source.exists()


def fetch_dump(wiki: str, folder: Path, date: str, report: Callable[[float], None]) -> Path:
    """Bring the articles of a wiki into a folder and return the file.

    Args:
        wiki: Its short name.
        folder: Where the dump is, or will be.
        date: Year, month and day of the dump, such as 20260101, or `LATEST`.
        report: Told which share is there.

    Raises:
        DumpError: The mirror has no such dump or cannot be reached, or the file is not the one
            that it announces.
    """
    base = f"{os.environ.get(MIRROR, WIKIMEDIA).rstrip('/')}/{wiki}"
    name = f"{wiki}-{date}-{_KIND}"
    instead = f"bring {base}/{date}/{name} here by other means and run `stamo build {name} KB`"
    try:
        with _open(f"{base}/{date}/{wiki}-{date}-sha1sums.txt") as answer:
            sums = answer.read(_MAX_LIST).decode("utf-8", "replace")
        line = re.search(rf"^([0-9a-f]{{40}}) +({wiki}-(\d{{8}})-{re.escape(_KIND)})$", sums, re.M)
        if line is None:
            raise DumpError(
                f"The dump of {wiki} ({date}) does not list its articles, so it may still be "
                f"written; name an earlier one with --date, see {base}/."
            )
        sha1, name, date = line.groups()
        path, partial = folder / name, folder / f"{name}.part"
        if not path.exists():
            _transfer(f"{base}/{date}/{name}", partial, report)
    except HTTPError as error:
        said = f"The mirror has no dump of {wiki} ({date})" if error.code == 404 else str(error)
        raise DumpError(f"{said}; check the name and the date at {base}/, or {instead}.") from error
    except (OSError, HTTPException) as error:
        if isinstance(error, OSError) and (error.filename or error.errno in DISK_FULL):
            raise
        why = getattr(error, "reason", None) or error
        raise DumpError(f"{base} cannot be reached ({why}); {instead}.") from error
    found = path if path.exists() else partial
    with found.open("rb") as file:
        is_right = hashlib.file_digest(file, "sha1").hexdigest() == sha1
    if not is_right:
        found.unlink()
        raise DumpError(
            f"{found.name} was damaged on its way: its checksum is not the one that {base}/{date}/ "
            "announces; it was removed, run the same command again."
        )
    return found.replace(path)


def _open(url: str, start: int = 0) -> Any:
    headers = {"User-Agent": f"stamo/{__version__}"} | (
        {"Range": f"bytes={start}-"} if start else {}
    )
    return urlopen(Request(url, headers=headers), timeout=_SECONDS)


def _transfer(url: str, partial: Path, report: Callable[[float], None]) -> None:
    """Append to a file until it is as long as the server says, whatever breaks off in between."""
    n_failed, size, problem = 0, None, OSError("it ends early")
    while n_failed < _TRIES:
        there = partial.stat().st_size if partial.exists() else 0
        before = there
        try:
            with _open(url, there) as answer, partial.open("ab") as file:
                if answer.status != 206 and there:  # a server that cannot start in the middle
                    there = file.truncate(0)
                size = there + int(answer.headers["Content-Length"])
                while block := answer.read(_BLOCK):
                    file.write(block)
                    there += len(block)
                    report(there / size)
        except HTTPError as error:
            if error.code != 416:  # it is as long already
                raise
            return
        except (OSError, HTTPException) as error:
            problem = error if isinstance(error, OSError) else OSError(str(error))
            if problem.errno in DISK_FULL:
                raise
        if there == size:
            return
        n_failed = 0 if there > before else n_failed + 1
    raise problem
