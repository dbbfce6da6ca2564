"""Cut out of wikitext what is not running text: comments, templates, tables, notes, pictures.

Each function takes the text and a list, returns the text without the cut parts, and appends to the
list the parts whose links are still worth counting. All of them look at each character a bounded
number of times, whatever the brackets do.
"""

import re
from collections.abc import Iterator

from stamo.build.dump.site import decode_references
from stamo.build.wikitext.marks import PLACEHOLDER, shelter

_LITERAL = frozenset({"nowiki", "pre"})
_PARSED = frozenset({"ref", "references", "gallery", "imagemap"})
_OPAQUE = (
    "math|chem|ce|timeline|source|syntaxhighlight|score|hiero|graph|mapframe|maplink|templatedata"
    "|templatestyles|inputbox|categorytree|includeonly|section|charinsert"
)
_NAMES = "|".join([*sorted(_LITERAL | _PARSED), _OPAQUE])
_EXTENSION = re.compile(rf"<(?:(!--)|((?i:{_NAMES}))(?=[\s/>])([^<>]*)>)")
_CLOSING = {name: re.compile(rf"</(?i:{name})\s*+>") for name in _NAMES.split("|")}
_NOWIKI_TAG = re.compile(r"</?(?i:nowiki)\s*+/?>")
# Templates that only dress their last argument: without it the sentence would have a hole.
_WRAPPERS = (
    "lang|langue|lang-[a-z-]+|nowrap|nobr|nobreak|unicode|iast|ipa|polytonic|transl|transliteration"
    "|small|smaller|big|smallcaps|sc|hebrew|arabic|angbr|sic|nihongo2|script|math|mvar"
)
_WRAPPED = re.compile(rf"\{{\{{\s*+(?i:{_WRAPPERS})\s*+\|([^{{}}]{{1,400}}+)\}}\}}")
_PIPE = re.compile(r"\|(?![^\[\]]*\]\])")
_NAMED = re.compile(r"\s*+\w+\s*+=")
# With a rare sign alone in front, a search skips to it and does not stop at every pipe of a link.
_TABLE_START = re.compile(r"\{(?=\|)\|")
_TABLE_STOP = re.compile(r"\}(?<=\|\})")
_TABLE_TAG = re.compile(r"<(?:((?i:table)\b)[^<>]*+|/(?i:table)\s*+)>")
_ROW = re.compile(r"\n\{?+\|[^\n]*+")
_MAX_INDENT = 64
_BRACKETS = re.compile(r"\[\[|\]\]")


def cut_extensions(text: str, cut: list[str]) -> str:
    """Remove comments and extension tags (`<ref>`, `<math>`, ...); keep `<nowiki>` as text."""
    if "<" not in text:
        return text
    pieces: list[str] = []
    position = 0
    unclosed: set[str] = set()
    while match := _EXTENSION.search(text, position):
        start, end = match.span()
        if match[1]:
            close = text.find("-->", end)
            after = len(text) if close < 0 else close + 3
            # A comment that has its line for itself takes one line break along.
            if text[start - 1 : start] == "\n" and text[after : after + 1] == "\n":
                after += 1
            pieces.append(text[position:start])
            position = after
            continue
        name = match[2].lower()
        closing = None
        if not match[3].endswith("/") and name not in unclosed:
            closing = _CLOSING[name].search(text, end)
            if closing is None:
                unclosed.add(name)  # so that the search to the end happens once per name
        content = text[end : closing.start()] if closing else ""
        pieces += (text[position:start], _replace_content(name, content, cut))
        position = closing.end() if closing else end
    if not position:
        return text
    pieces.append(text[position:])
    return "".join(pieces)


def _replace_content(name: str, content: str, cut: list[str]) -> str:
    """Return what stays of an extension tag's content."""
    if name in _LITERAL:
        # `<pre><nowiki>` is common: the inner tag is not shown.
        return shelter(decode_references(_NOWIKI_TAG.sub("", content)))
    if name in _PARSED and content:
        cut.append(content)
    return PLACEHOLDER


def unwrap_templates(text: str) -> str:
    """Replace `{{lang|fr|mot}}`, `{{nowrap|a b}}` and their like by the words they show."""
    return _WRAPPED.sub(_last_argument, text) if "{{" in text else text


def _last_argument(match: re.Match[str]) -> str:
    arguments = [part for part in _PIPE.split(match[1]) if not _NAMED.match(part)]
    return arguments[-1] if arguments else ""


def cut_templates(text: str, cut: list[str]) -> str:
    """Remove `{{templates}}` and `{{{parameters}}}`; braces without a partner stay."""
    if "{{" not in text or "}}" not in text:
        return text
    regions: list[tuple[int, int]] = []
    open_runs: list[tuple[int, int]] = []  # (where the run of braces ends, how many are left)
    for start, end in sorted([*_runs(text, "{"), *_runs(text, "}")]):
        if text[start] == "{":
            open_runs.append((end, end - start))
            continue
        while open_runs and end - start >= 2:
            inner, n_open = open_runs.pop()
            n_pairs = min(n_open, end - start, 3)
            start += n_pairs
            _add_region(regions, inner - n_pairs, start)
            if n_open - n_pairs >= 2:
                open_runs.append((inner - n_pairs, n_open - n_pairs))
    return _cut_regions(text, regions, cut)


def _runs(text: str, sign: str) -> Iterator[tuple[int, int]]:
    """Find where at least two of a sign stand together; much faster than a pattern for both."""
    pair = sign + sign
    start = text.find(pair)
    while start >= 0:
        end = start + 2
        while text.startswith(sign, end):
            end += 1
        yield start, end
        start = text.find(pair, end)


def cut_tables(text: str, cut: list[str]) -> str:
    """Remove tables, both `{| |}` and `<table>`; of an open one only the rows can be told."""
    text = _cut_whole_tables(text, cut)
    # Rows of tables that a template opens or that nobody closes.
    if "\n|" in text or "\n{|" in text:
        cut += _ROW.findall(text)
        text = _ROW.sub(PLACEHOLDER, text)
    return text


def _cut_whole_tables(text: str, cut: list[str]) -> str:
    borders = [(tag.start(), tag.end(), tag[1] is not None) for tag in _TABLE_TAG.finditer(text)]
    marks = [(start.start(), start.end(), True) for start in _TABLE_START.finditer(text)]
    if not marks and not any(opens for _, _, opens in borders):
        return text
    marks += [(stop.end() - 2, stop.end(), False) for stop in _TABLE_STOP.finditer(text)]
    borders += [mark for mark in marks if _starts_line(text, mark[0])]
    regions: list[tuple[int, int]] = []
    stack: list[int] = []
    position = 0
    for start, end, opens in sorted(borders):
        if start < position:  # inside a tag
            continue
        position = end
        if opens:
            stack.append(start)
        elif stack:
            _add_region(regions, stack.pop(), end)
    return _cut_regions(text, regions, cut)


def _starts_line(text: str, position: int) -> bool:
    """Tell whether only indentation stands before a position in its line."""
    floor = max(0, position - _MAX_INDENT)
    line = text.rfind("\n", floor, position) + 1
    return (line > 0 or floor == 0) and not text[line:position].strip(" \t:*#" + PLACEHOLDER)


def cut_files(text: str, opening: re.Pattern[str], cut: list[str]) -> str:
    """Remove links to files with their captions, which may contain links.

    Args:
        text: Wikitext.
        opening: Pattern of the beginning of a link to a file.
        cut: Receives the removed links.
    """
    regions: list[tuple[int, int]] = []
    position = 0
    ends: dict[int, int] | None = None
    while match := opening.search(text, position):
        start = match.start()
        end = None
        if ends is None:
            end, found = _match_brackets(text, start)
            if end is None:
                ends = found  # the whole rest has been looked at: never look again
        if ends is not None:
            end = ends.get(start)
        if end is None:
            position = match.end()
            continue
        if text[end : end + 1] == "]" and text.count("[", start, end) > text.count("]", start, end):
            end += 1
        regions.append((start, end))
        position = end
    return _cut_regions(text, regions, cut)


def _match_brackets(text: str, start: int) -> tuple[int | None, dict[int, int]]:
    """Find the partner of the "[[" at `start`, and on the way those of the inner ones."""
    ends: dict[int, int] = {}
    stack: list[int] = []
    for match in _BRACKETS.finditer(text, start):
        if match[0] == "[[":
            stack.append(match.start())
        elif stack:
            opened = stack.pop()
            ends[opened] = match.end()
            if not stack:
                return ends[start], ends
    return None, ends


def _add_region(regions: list[tuple[int, int]], start: int, end: int) -> None:
    """Append a region that may contain the last ones, so that only outermost ones remain."""
    while regions and regions[-1][0] >= start:
        regions.pop()
    regions.append((start, end))


def _cut_regions(text: str, regions: list[tuple[int, int]], cut: list[str]) -> str:
    if not regions:
        return text
    pieces = []
    position = 0
    for start, end in regions:
        pieces.append(text[position:start])
        cut.append(text[start:end])
        position = end
    pieces.append(text[position:])
    return PLACEHOLDER.join(pieces)
