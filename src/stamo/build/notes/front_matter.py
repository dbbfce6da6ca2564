"""The front matter of a note: the few of its lines that say what the note is called.

    ---
    title: Project Falcon
    aliases: [Falcon, "Falcon, the project"]
    ---

Read by its lines, as people and programs write them; nothing of YAML beyond that is known, so no
text can make it build anything.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from itertools import islice

MAX_FRONT_MATTER = 1 << 16
MAX_NOTE_ALIASES = 1000
_FENCE = "---"
_KEY = re.compile(r"(title|aliases|alias)[ \t]*:(?:[ \t]+(.*))?$", re.IGNORECASE)
_ITEM = re.compile(r"[ \t]*-[ \t]+(.*)$")
_PART = re.compile(r"""[ \t]*("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^,]*)[ \t]*(?:,|$)""")
_COMMENT = re.compile(r"(?:^|[ \t])#.*$")


@dataclass
class FrontMatter:
    """What a note says of itself."""

    title: str = ""
    aliases: list[str] = field(default_factory=list)


def split_front_matter(text: str) -> tuple[FrontMatter, str]:
    """Return the front matter of a note and the rest; without an end in time it is text."""
    first, _, rest = text.partition("\n")
    if first.rstrip() != _FENCE:
        return FrontMatter(), text
    place = len(first) + 1
    for line in rest[:MAX_FRONT_MATTER].splitlines(keepends=True):
        place += len(line)
        if line.rstrip() in (_FENCE, "..."):
            head = text[len(first) + 1 : place - len(line)]
            return _parse(head.splitlines()), text[place:]
    return FrontMatter(), text


def _parse(lines: list[str]) -> FrontMatter:
    found = FrontMatter()
    in_aliases = False
    for line in lines:
        key = _KEY.match(line)
        item = _ITEM.match(line) if in_aliases else None
        if key:
            value = (key[2] or "").strip()
            in_aliases = key[1].lower() != "title" and not value
            if key[1].lower() == "title":
                found.title = _scalar(value)
            else:
                found.aliases += _values(value)
        elif item:
            found.aliases.append(_scalar(item[1].strip()))
        elif line.strip() and not line.lstrip().startswith("#"):
            in_aliases = False
    found.aliases = [alias for alias in found.aliases if alias][:MAX_NOTE_ALIASES]
    return found


def _values(text: str) -> list[str]:
    """Return the values of `[a, b]`, or of `a, b` as older notes have it."""
    if text.startswith("["):
        text = _COMMENT.sub("", text[1:]) if "]" not in text else text[1 : text.rindex("]")]
    elif text[:1] in ('"', "'"):
        return [_scalar(text)]
    parts = islice(_PART.finditer(text), MAX_NOTE_ALIASES)
    return [_scalar(part[1].strip()) for part in parts]


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
