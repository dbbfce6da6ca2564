"""From a folder of Markdown notes to the staged tables of a build.

Notes are listed, each is cleaned in a worker, then links find their notes. The order here is that
of a note's way: its file, its front matter, its Markdown, its links, and the note that each means.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from stamo.build.counting import MAX_SURFACE
from stamo.build.dump import CHUNK_BYTES
from stamo.build.site import Site, decode_references
from stamo.build.staging import (
    Build,
    Extract,
    Listed,
    Rows,
    as_written,
    choose_titles,
    settle_articles,
    tidy_title,
)
from stamo.build.wikilinks import CLOSE, OPEN, SHELTERED, reveal_rest, shelter
from stamo.build.wikitext import CleanPage, finish_page, sanitise
from stamo.corpus.reading import list_files
from stamo.errors import DumpError
from stamo.kb.manifest import SourceFile
from stamo.system.processes import without_garbage_collection
from stamo.system.streams import UTF_16_MARKS

MAX_NOTE_BYTES = 8 << 20
NOTES_PER_CHUNK = 1000
NOTE_SUFFIXES = (".md", ".markdown")

NoteFile = tuple[int, str, Path]
"""The position of a note, its path below the root with slashes and its ending, and its file."""


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


def read_notes(build: Build) -> Site:
    """Read each note of a folder once, in workers; when all are known, links find theirs."""
    files = list_notes(build.path, build.skipped)
    site = build.plain_site(filter(None, map(_body_of, files)))
    notes: list[Note] = []
    with as_written(build) as written:
        for found, extract in build.map(partial(extract_notes, site=site), _chunks(files)):
            written.append("text", extract.texts)
            written.append("link", extract.links)
            notes += found
            build.skipped.update(extract.skipped)
            build.report(notes[-1].position / len(files) if notes else None)
    # The manifest has the bytes of the notes, and a hash over their paths and hashes.
    lines = "".join(f"{note.sha256} {note.below}\n" for note in notes)
    digest = hashlib.sha256(lines.encode()).hexdigest()
    size = sum(note.size for note in notes)
    build.described["notes"] = SourceFile(build.path.resolve().name, size, digest)
    chosen = choose_titles([note.listed for note in notes])
    titles = {note.position: title for note, title in zip(notes, chosen, strict=True)}
    articles = {note.position: note.listed for note in notes}
    settle_articles(build, articles, titles, written, NoteIndex(notes, titles, site).title)
    return site


def list_notes(root: Path, skipped: Counter[str]) -> list[NoteFile]:
    """List the notes below a folder in the order of their paths; hidden files are left alone.

    Raises:
        DumpError: There is none.
    """
    notes: list[NoteFile] = []
    for found in list_files([root]):
        below = Path(found.path).relative_to(root).as_posix()
        fault = found.fault
        if not fault and not below.lower().endswith(NOTE_SUFFIXES):
            fault = "file that is no Markdown"
        if not fault and below != below.encode("utf-8", "replace").decode():
            fault = "file name that is not UTF-8"
        if fault:
            skipped[fault] += 1
        else:
            notes.append((len(notes), below, Path(found.path)))
    if not notes:
        raise DumpError(
            f"There is no Markdown note in {str(root)!r}; give a folder with .md files."
        )
    return notes


def _chunks(files: Sequence[NoteFile]) -> Iterator[list[NoteFile]]:
    """Group notes into work of about one size."""
    group: list[NoteFile] = []
    n_bytes = 0
    for file in files:
        group.append(file)
        with suppress(OSError):  # its reader says why
            n_bytes += min(file[2].stat().st_size, MAX_NOTE_BYTES)
        if n_bytes >= CHUNK_BYTES or len(group) == NOTES_PER_CHUNK:
            yield group
            group, n_bytes = [], 0
    if group:
        yield group


def extract_notes(files: Sequence[NoteFile], site: Site) -> tuple[list[Note], Extract]:
    """Read and clean some notes; runs in a worker."""
    rows = Rows()
    notes: list[Note] = []
    with without_garbage_collection():
        for file in files:
            note = _extract_note(file, site, rows)
            if isinstance(note, str):
                rows.skipped[note] += 1
            else:
                notes.append(note)
        return notes, rows.extract()


def _extract_note(file: NoteFile, site: Site, rows: Rows) -> Note | str:
    """Add a note to the rows, or say why it is left out."""
    position, path_below, path = file
    data, text = _read(path)
    if data is None:
        return text
    below = without_suffix(path_below)
    title, aliases, body = split_front_matter(text)
    title = tidy_title(title, site)
    if not title or len(title) > MAX_SURFACE:
        title = tidy_title(PurePosixPath(below).name, site)
    if not title:
        return "note without a title"
    folder = str(PurePosixPath(path_below).parent).removeprefix(".")
    page, redirects = clean_note(body, folder)
    names = (tidy_title(name, site) for name in (*aliases, *redirects))
    rows.add_links(page, position)
    rows.texts.append((position, position + 1, "", page.text, False))
    listed = Listed(title, (folder, below), tuple(filter(None, names)))
    return Note(position, below, folder, listed, len(data), hashlib.sha256(data).hexdigest())


def _body_of(file: NoteFile) -> str:
    """Return the text of a note without its front matter, nothing where it cannot be read."""
    data, text = _read(file[2])
    return split_front_matter(text)[2] if data is not None else ""


def _read(path: Path) -> tuple[bytes | None, str]:
    """Return the bytes and the text of a note; None and why it is left out where it is no text."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_NOTE_BYTES + 1)
        if len(data) > MAX_NOTE_BYTES:
            return None, f"note of more than {MAX_NOTE_BYTES >> 20} MiB"
        text = data.decode("utf-16" if data.startswith(UTF_16_MARKS) else "utf-8-sig")
    except OSError as error:
        return None, f"note that cannot be opened ({error.strerror})"
    except UnicodeDecodeError:
        return None, "note that is not UTF-8"
    if "\0" in text:
        return None, "note that is a binary file"
    return data, text.replace("\r\n", "\n")


def without_suffix(name: str) -> str:
    """Return a path without the ending of a note."""
    for suffix in NOTE_SUFFIXES:
        if name.lower().endswith(suffix):
            return name[: -len(suffix)]
    return name


# Front matter

MAX_FRONT_MATTER = 1 << 16
MAX_NOTE_ALIASES = 1000
_KEY = re.compile(r"(title|aliases|alias)[ \t]*:(?:[ \t]+(.*))?$", re.IGNORECASE)
_ITEM = re.compile(r"[ \t]*-[ \t]+(.*)$")
_VALUE = re.compile(r"""[ \t]*("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^,]*)[ \t]*(?:,|$)""")
_COMMENT = re.compile(r"(?:^|[ \t])#.*$")


def split_front_matter(text: str) -> tuple[str, list[str], str]:
    """Return the title and the aliases that a note gives itself, and its body.

    Front matter without an end in time is text.
    """
    first, _, rest = text.partition("\n")
    head: list[str] = []
    if first.rstrip() == "---":
        place = len(first) + 1
        for line in rest[:MAX_FRONT_MATTER].splitlines(keepends=True):
            place += len(line)
            if line.rstrip() in ("---", "..."):
                return *_parse_front_matter(head), text[place:]
            head.append(line)
    return "", [], text


def _parse_front_matter(lines: list[str]) -> tuple[str, list[str]]:
    title = ""
    aliases: list[str] = []
    in_aliases = False
    for line in "".join(lines).splitlines():
        key = _KEY.match(line)
        item = _ITEM.match(line) if in_aliases else None
        if key:
            value = (key[2] or "").strip()
            in_aliases = key[1].lower() != "title" and not value
            if key[1].lower() == "title":
                title = _scalar(value)
            else:
                aliases += _values(value)
        elif item:
            aliases.append(_scalar(item[1].strip()))
        elif line.strip() and not line.lstrip().startswith("#"):
            in_aliases = False
    return title, [alias for alias in aliases if alias][:MAX_NOTE_ALIASES]


def _values(text: str) -> list[str]:
    """Return the values of `[a, b]`, or of `a, b` as older notes have it."""
    if text.startswith("["):
        text = _COMMENT.sub("", text[1:]) if "]" not in text else text[1 : text.rindex("]")]
    elif text[:1] in ('"', "'"):
        return [_scalar(text)]
    return [_scalar(one[1].strip()) for one in islice(_VALUE.finditer(text), MAX_NOTE_ALIASES)]


def _scalar(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] == '"':
        try:
            return str(json.loads(text))
        except ValueError:
            return text[1:-1]
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    plain = _COMMENT.sub("", text).strip()
    return "" if plain in (">", "|", ">-", "|-") else plain


# Markdown

_FENCE = re.compile(r"[ \t>]*+(`{3,}|~{3,})([^`\n]*)$")
_MARKS = re.compile(
    r"(?:[ \t]*+(?:>|(?:[-*+]|\d{1,9}[.)]|\#{1,6}|\[[ xX]\])(?=[ \t])))++[ \t]*+"
    r"(?:\[![\w-]{1,40}\][+-]?[ \t]*+)?+"
)
_LIST_ITEM = re.compile(r"[ \t>]*+(?:[-*+]|\d{1,9}[.)])[ \t]")
_RULE = re.compile(r"[ \t]*+(?:(?:[-=*_][ \t]*+){3,}+|[|:][|: \t-]*+)$")
_DEFINITION = re.compile(r" {0,3}\[([^\[\]\n^][^\[\]\n]{0,199})\]:[ \t]*+(?:<([^<>\n]*+)>|(\S++))")
_FOOTNOTE = re.compile(r" {0,3}\[\^[^\[\]\n]{1,100}\]:[ \t]*+")
_BLOCK_ID = re.compile(r"(?<=[ \t])\^[\w-]++$")
_UNSEEN = (("<!--", "-->"), ("%%", "%%"), ("$$", "$$"), ("<pre", "</pre>"),
           ("<script", "</script>"), ("<style", "</style>"), ("<svg", "</svg>"))  # fmt: skip
"""What begins and ends a stretch that is no running text."""
_CODE = re.compile(r"(?<!`)(`{1,3})(?!`)([^`\n]{1,2000})\1(?!`)")
_ESCAPE = re.compile(r"\\([\[\]{}<>'&=*#:;_-])")
_EMBED = re.compile(r"!\[\[[^\[\]\n]*+\]\]")
_GOAL = r"""\([ \t]*+(?:<([^<>\n]*+)>|([^\s()<>]*+(?:\([^\s()]*+\)[^\s()<>]*+)*+))
    (?:[ \t]++(?:"[^"\n]*+"|'[^'\n]*+'))?+[ \t]*+\)"""
_IMAGE = re.compile(rf"!\[[^\[\]\n]*+\]{_GOAL}", re.VERBOSE)
_LINK = re.compile(
    rf"""\[\[([^\[\]\n|]++)(?:\|([^\[\]\n]*+))?\]\]   # [[target|label]]
    | \[([^\[\]\n^][^\[\]\n]*+)\]{_GOAL}              # [label](target)
    | \[([^\[\]\n^][^\[\]\n]*+)\]\[([^\[\]\n]*+)\]    # [label][definition]
    | \[\^[^\[\]\n]{{1,100}}\]                        # [^footnote]
    """,
    re.VERBOSE,
)
_TAG = re.compile(
    r"</?(?:a|abbr|article|aside|b|big|blockquote|br|center|cite|code|del|details|div|em|figcaption|"
    r"figure|font|h[1-6]|hr|i|iframe|img|ins|kbd|li|mark|nav|ol|p|q|s|section|small|span|strong|sub|"
    r"summary|sup|table|tbody|td|th|thead|tr|u|ul|video|audio)(?=[\s/>])[^<>\n\x02\x03]{0,500}+>",
    re.IGNORECASE,
)
_EMPHASIS = re.compile(
    r"\*\*|__|~~|==|(?<![\w*])\*++(?=\S)|(?<=[^\s*])\*++(?!\w)"
    r"|(?<![\w_])_++(?=\S)|(?<=[^\s_])_++(?!\w)"
)
_TRAILING = re.compile(r"(?<![ \t])[ \t]++(?=\n)")
_BREAKS = re.compile(r"\n{3,}")


def clean_note(markdown: str, folder: str = "") -> tuple[CleanPage, list[str]]:
    """Reduce Markdown to the running text and the links to other notes.

    Args:
        markdown: A note without its front matter; any string will do.
        folder: Where the note stands below its root, against which links to files are resolved.

    Returns:
        The page, whose targets are still as they are written, and other names that the text gives
        its note, as in `[[!redirects Groups]]`.
    """
    text, definitions = _join_blocks(sanitise(markdown))
    for opening, closing in _UNSEEN:
        text = _cut_between(text, opening, closing)
    text = _CODE.sub(lambda match: shelter(match[2]), text)
    text = _ESCAPE.sub(lambda match: shelter(match[1]), text)
    text = _IMAGE.sub("", _EMBED.sub("", text))
    links = _Links(folder, definitions)
    text = _EMPHASIS.sub("", _TAG.sub("", _LINK.sub(links.replace, text)))
    text = _BREAKS.sub("\n\n", _TRAILING.sub("", decode_references(text))).strip()
    marked = reveal_rest(text) if SHELTERED in text else text
    return finish_page(marked, links.targets, [], links.n_dropped), links.redirects


def _join_blocks(text: str) -> tuple[str, dict[str, str]]:
    """Return paragraphs, headings and items, one a line, without their marks and without code.

    Also the targets of `[label][name]`, by name in small letters.
    """
    definitions: dict[str, str] = {}
    pieces: list[str] = []
    open_fence = ""
    in_list = joins = False  # whether the next line goes on with the same paragraph
    for line in text.split("\n"):
        fence = _FENCE.match(line)
        if open_fence:
            if fence and fence[1].startswith(open_fence) and not fence[2].strip():
                open_fence = ""
            continue
        if fence:
            open_fence, joins = fence[1], False
            continue
        if line.strip() and line.startswith(("    ", "\t")) and not (joins or in_list):
            continue  # code
        if not line.strip() or _RULE.match(line):
            pieces.append("\n")
            joins = False
            continue
        if found := _DEFINITION.match(line):
            definitions.setdefault(found[1].casefold(), found[2] or found[3] or "")
            continue
        goes_on_in_list = in_list and (line.startswith(("  ", "\t")) or joins)
        in_list = bool(_LIST_ITEM.match(line)) or goes_on_in_list
        marks = _MARKS.match(line) or _FOOTNOTE.match(line)
        rest = _BLOCK_ID.sub("", line[marks.end() if marks else 0 :].strip())
        goes_on = joins and not marks and not rest.startswith("|")
        pieces.append(f" {rest}" if goes_on else f"\n{rest}")
        is_heading = line.lstrip().startswith("#") and marks is not None
        joins = not (is_heading or rest.startswith("|") or line.endswith("  "))
    return "".join(pieces), definitions


def _cut_between(text: str, opening: str, closing: str) -> str:
    """Cut out what stands between two signs; without an end a beginning is text."""
    kept: list[str] = []
    place = 0
    while (start := text.find(opening, place)) >= 0:
        end = text.find(closing, start + len(opening))
        if end < 0:
            break
        kept.append(text[place:start])
        place = end + len(closing)
    return "".join([*kept, text[place:]])


# Links

ROOT = "/"
"""Begins a target that is a path below the root; any other target is the name of a note."""
_MAX_STEPS = 8
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*+:|//")
_ATTACHED = re.compile(
    r"\.(?:avif|bmp|canvas|csv|docx?|gif|heic|html?|jpe?g|json|m4a|mp3|mp4|ogg|pdf|png|pptx?|svg|"
    r"tex|tiff?|txt|wav|webm|webp|xlsx?|ya?ml|zip)$",
    re.IGNORECASE,
)
_REDIRECTS = "!redirects "


@dataclass
class _Links:
    """The links of a note while they are replaced by what a reader sees."""

    folder: str
    definitions: dict[str, str]
    targets: list[str] = field(default_factory=list)
    redirects: list[str] = field(default_factory=list)
    n_dropped: Counter[str] = field(default_factory=Counter)

    def replace(self, match: re.Match[str]) -> str:
        """Return what stands in the place of a link."""
        name, shown, label, long, short, other, definition = match.groups()
        if name is not None:
            return self._replace_note_link(name, shown)
        if label is not None:
            return self._mark(*path_target(long if long is not None else short, self.folder), label)
        if other is not None:
            goal = self.definitions.get((definition or other).casefold())
            return match[0] if goal is None else self._mark(*path_target(goal, self.folder), other)
        return ""

    def _replace_note_link(self, written: str, shown: str | None) -> str:
        """Return what stands in the place of `[[written]]` or `[[written|shown]]`."""
        name = written.strip().removesuffix("\\").rstrip()  # in a table the bar is escaped
        if name.startswith(_REDIRECTS):
            self.redirects.append(name.removeprefix(_REDIRECTS).strip())
            return ""
        is_embedded = name.startswith("!")
        name, _, section = name.partition("#")
        name = without_suffix(name.strip().removeprefix("./"))
        if is_embedded or _ATTACHED.search(name):
            return self._mark("file", "", "")
        if not name:
            label = section.strip("^# ") if shown is None else shown
            return self._mark("own page", "", label)
        label = name.rpartition("/")[2] if shown is None else shown
        return self._mark("", name.lstrip(ROOT) or name, label)

    def _mark(self, fault: str, goal: str, label: str) -> str:
        label = label.strip()
        if fault:
            self.n_dropped[fault] += 1
            return "" if fault == "file" else label
        self.targets.append(goal)
        return f"{OPEN}{label}{CLOSE}"


def path_target(written: str, folder: str) -> tuple[str, str]:
    """Return why `[label](written)` on a note of a folder is no link, and the path it leads to."""
    path, _, _ = written.strip().partition("#")
    if not path:
        return "own page", ""
    if _SCHEME.match(path):
        return "outside", ""
    path = unquote(path.partition("?")[0])
    if _ATTACHED.search(path):
        return "file", ""
    below = path.lstrip("/") if path.startswith("/") else posixpath.join(folder, path)
    whole = posixpath.normpath(below)
    if whole.startswith("..") or whole == ".":
        return "out of the folder", ""
    return "", ROOT + whole


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
            if found or not target.lower().endswith(NOTE_SUFFIXES):
                return found
            return tidy_title(PurePosixPath(without_suffix(target)).name, self._site) or None
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
    steps = below.split("/")[-_MAX_STEPS:]
    ends = ["/".join(steps[-n:]) for n in range(1, len(steps) + 1)]
    return ends if ends[-1] == below else [*ends, below]
