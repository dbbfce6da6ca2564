"""Markdown to plain text, with the exact span of each link to another note.

As with wikitext, links become their labels between two marks, styling is removed, and at last the
marks tell where each label came to stand. Every pattern is possessive or stops at the sign that it
starts with: the time is linear whatever a note contains.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from stamo.build.dump.site import decode_references
from stamo.build.notes.targets import NoteTarget, note_target, path_target
from stamo.build.wikitext.clean import CleanPage, finish_page
from stamo.build.wikitext.marks import CLOSE, OPEN, is_sheltered, reveal_rest, shelter
from stamo.build.wikitext.style import sanitise

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


@dataclass(frozen=True)
class CleanNote:
    """The running text of a note with its links, whose targets are still as they are written."""

    page: CleanPage
    redirects: list[str]
    """Other names that the text gives its note, as in `[[!redirects Groups]]`."""


def clean_note(markdown: str, folder: str = "") -> CleanNote:
    """Reduce Markdown to the running text and the links to other notes.

    Args:
        markdown: A note without its front matter; any string will do.
        folder: Where the note stands below its root, against which links to files are resolved.
    """
    blocks = _Blocks.of(sanitise(markdown))
    text = blocks.text
    for opening, closing in _UNSEEN:
        text = _cut_between(text, opening, closing)
    text = _CODE.sub(lambda match: shelter(match[2]), text)
    text = _ESCAPE.sub(lambda match: shelter(match[1]), text)
    text = _IMAGE.sub("", _EMBED.sub("", text))
    reading = _Reading(folder, blocks.definitions)
    text = _style(_LINK.sub(reading.replace, text))
    marked = reveal_rest(text) if is_sheltered(text) else text
    page = finish_page(marked, reading.targets, [], reading.n_dropped)
    return CleanNote(page, reading.redirects)


@dataclass
class _Blocks:
    """The running text of a note, gathered line by line."""

    definitions: dict[str, str] = field(default_factory=dict)
    """The targets of `[label][name]`, by name in small letters."""
    _parts: list[str] = field(default_factory=list)
    _fence: str = ""
    _in_list: bool = False
    _joins: bool = False
    """Whether the next line goes on with the same paragraph."""

    @classmethod
    def of(cls, text: str) -> _Blocks:
        """Read a note."""
        blocks = cls()
        for line in text.split("\n"):
            if not blocks._is_code(line):
                blocks._add(line)
        return blocks

    @property
    def text(self) -> str:
        """Paragraphs, headings and items, one a line, without their marks and without code."""
        return "".join(self._parts)

    def _is_code(self, line: str) -> bool:
        fence = _FENCE.match(line)
        if self._fence:
            if fence and fence[1].startswith(self._fence) and not fence[2].strip():
                self._fence = ""
            return True
        if fence:
            self._fence, self._joins = fence[1], False
            return True
        is_indented = line.startswith(("    ", "\t")) and bool(line.strip())
        return is_indented and not (self._joins or self._in_list)

    def _add(self, line: str) -> None:
        if not line.strip() or _RULE.match(line):
            self._parts.append("\n")
            self._joins = False
            return
        if found := _DEFINITION.match(line):
            self.definitions.setdefault(found[1].casefold(), found[2] or found[3] or "")
            return
        is_indented = line.startswith(("  ", "\t"))
        self._in_list = bool(_LIST_ITEM.match(line)) or (
            self._in_list and (is_indented or self._joins)
        )
        marks = _MARKS.match(line) or _FOOTNOTE.match(line)
        rest = _BLOCK_ID.sub("", line[marks.end() if marks else 0 :].strip())
        goes_on = self._joins and not marks and not rest.startswith("|")
        self._parts.append(f" {rest}" if goes_on else f"\n{rest}")
        is_heading = line.lstrip().startswith("#") and marks is not None
        self._joins = not (is_heading or rest.startswith("|") or line.endswith("  "))


@dataclass
class _Reading:
    """A note while its links are read."""

    folder: str
    definitions: dict[str, str]
    targets: list[str] = field(default_factory=list)
    redirects: list[str] = field(default_factory=list)
    n_dropped: Counter[str] = field(default_factory=Counter)

    def replace(self, match: re.Match[str]) -> str:
        """Return what stands in the place of a link."""
        name, shown, label, long, short, other, definition = match.groups()
        if name is not None:
            return self._note_link(name, shown)
        if label is not None:
            return self._mark(path_target(long if long is not None else short, self.folder), label)
        if other is not None:
            goal = self.definitions.get((definition or other).casefold())
            return match[0] if goal is None else self._mark(path_target(goal, self.folder), other)
        return ""

    def _note_link(self, name: str, shown: str | None) -> str:
        target = note_target(name)
        if target.kind == "redirect":
            self.redirects.append(target.goal)
            return ""
        return self._mark(target, target.shown if shown is None else shown)

    def _mark(self, target: NoteTarget, label: str) -> str:
        label = label.strip()
        if target.kind:
            self.n_dropped[target.kind] += 1
            return "" if target.kind == "file" else label
        self.targets.append(target.goal)
        return f"{OPEN}{label}{CLOSE}"


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


def _style(text: str) -> str:
    text = _EMPHASIS.sub("", _TAG.sub("", text))
    return _BREAKS.sub("\n\n", _TRAILING.sub("", decode_references(text))).strip()
