"""The blocks of Markdown: which lines are text, and which belong together."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

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


@dataclass
class Blocks:
    """The running text of a note, gathered line by line."""

    definitions: dict[str, str] = field(default_factory=dict)
    """The targets of `[label][name]`, by name in small letters."""
    _parts: list[str] = field(default_factory=list)
    _fence: str = ""
    _in_list: bool = False
    _joins: bool = False
    """Whether the next line goes on with the same paragraph."""

    @classmethod
    def of(cls, text: str) -> Blocks:
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
