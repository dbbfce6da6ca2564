"""Wikitext to plain text, with the exact span of each link to an article.

The work is done by patterns that run over the whole page, see `clean`: first everything is cut out
that is no running text, then links are replaced by their anchors between two marks, then styling is
removed, and at last the marks tell where each anchor came to stand.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, compress
from typing import Any

from stamo.build.site import (
    DISAMBIGUATION_SUFFIXES,
    DISAMBIGUATION_TEMPLATES,
    REDIRECT_WORDS,
    Site,
    decode_references,
    fold_prefix,
)
from stamo.build.wikilinks import (
    ARTICLE,
    BRACKETS,
    CLOSE,
    OPEN,
    PLACEHOLDER,
    SHELTERED,
    SUBPAGE,
    VANISHING,
    file_pattern,
    join_subpage,
    link_pattern,
    pipe_trick,
    reveal,
    reveal_rest,
    shelter,
    simple_titles,
    targets_of,
)

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


_CONTROLS = bytes([*range(9), *range(11, 32), 127])
_UNWANTED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_BLOCKS = "br|p|div|[uod]l|li|d[td]|t[rdh]|table|caption|center|blockquote|hr|h[1-6]|poem"
_TAG = re.compile(rf"</?(?:((?i:{_BLOCKS}))|[a-zA-Z][a-zA-Z0-9]*+)(?:[\s/][^<>\x02\x03]*+)?>")
_EXTERNAL = re.compile(
    r"\[(?:(?:https?|ftps?|gopher|irc|news|telnet):|mailto:|//)[^\s\[\]<>\x02\x03]*+([^\[\]\n]*+)\]",
    re.IGNORECASE,
)
_QUOTES = re.compile(r"'{4,}")
_ELISION = re.compile(r"'''(?<=[^\W\d_]''')(?=[^\W\d_])")
_QUOTE_RUN = re.compile(r"'{2,}")
_BOLD_OR_ITALIC = re.compile(r"'(?=')'++")
_HEADING = re.compile(r"\n(?==)=[^\n]*=[ \t\x04]*+(?=\n|\Z)")
# The line of a table that is never closed goes up to its first link, whose marks must stay.
_BULLET = re.compile(r"\n(?:[*#:;]++|-{4,}+|\{\|[^\n\x02\x03]*+)")
_SWITCH = re.compile(r"__([^\W\d_]{3,30}+)__")
_HOLLOW = re.compile(r"\([\s,;]*+\x04[\s,;\x04]*+\)")
_REFERENCE = re.compile(r"&[#A-Za-z][A-Za-z0-9]{1,31};")
_LOOSE_OPEN = re.compile(rf"{OPEN}(?= )")
_LOOSE_CLOSE = re.compile(rf"{CLOSE}(?<= {CLOSE})")
_BEFORE_CLOSE = re.compile(rf"(?<!\s)(\s++){CLOSE}")
_BEHIND_OPEN = re.compile(rf"{OPEN}(\s++)")
_BREAKS = re.compile(r"\n\n\n+")
_BLANKS = "\xa0\u2009\u202f\u3000"
_INVISIBLES = "\xad\u200b\ufeff"
_PLAIN = re.compile(r"[^<&'\[\]\n\x04\t\xa0]*+")


def sanitise(text: str) -> str:
    """Remove control characters and half characters, which no later step could tell from marks."""
    try:
        encoded = text.encode()
        if len(encoded.translate(None, _CONTROLS)) == len(encoded):
            return text
    except UnicodeEncodeError:
        pass
    return _UNWANTED.sub(_replace_unwanted, text.replace("\r\n", "\n").replace("\r", "\n"))


def _replace_unwanted(match: re.Match[str]) -> str:
    return "\ufffd" if match[0] >= "\ud800" else ""


def plain_label(label: str) -> str:
    """Return the words of a label or target as a reader sees them, on one line."""
    if _PLAIN.fullmatch(label):
        return label.strip() if "  " not in label else " ".join(label.split())
    return " ".join(style(label).split())


def style(text: str) -> str:
    """Remove all styling; anchors stay between their marks.

    Args:
        text: Wikitext without templates, tables, notes, files and links.

    Returns:
        Plain text, lines kept, at most one empty line in a row.
    """
    if "''" in text:
        text = _unquote(text)
    if "[" in text:
        text = _EXTERNAL.sub(_external_label, text)
    if "<" in text:
        text = _TAG.sub(_replace_tag, text)
    # A pattern that begins with a plain line break is searched much faster than one with "^".
    text = _HEADING.sub(_heading_words, "\n" + text)
    text = _BULLET.sub("\n", text)
    if "__" in text:
        text = _SWITCH.sub(_replace_switch, text)
    if "&" in text:
        text = _REFERENCE.sub(_replace_reference, text)
    return _tidy(text)


def _replace_reference(match: re.Match[str]) -> str:
    """Decode a character reference; every kind of white space becomes a space."""
    sign = decode_references(match[0])
    return " " if sign.isspace() else sign


def _tidy(text: str) -> str:
    """Collapse white space; afterwards no anchor starts or ends with it."""
    if PLACEHOLDER in text:
        text = _HOLLOW.sub("", text).replace(PLACEHOLDER, "")
    text = text.replace("\t", " ")
    if not text.isascii():
        # Single replacements are several times faster than one translation of the whole text.
        for sign in _INVISIBLES:
            if sign in text:
                text = text.replace(sign, "")
        for sign in _BLANKS:
            text = text.replace(sign, " ")
    text = _single_spaces(text)
    if _LOOSE_OPEN.search(text) or _LOOSE_CLOSE.search(text):
        text = text.replace(OPEN + " ", " " + OPEN).replace(" " + CLOSE, CLOSE + " ")
        text = _single_spaces(text)
    # Line by line: to search for a space beside a line break takes twice the time.
    text = "\n".join([line.strip(" ") for line in text.split("\n")])
    return _BREAKS.sub("\n\n", text).strip()


def _single_spaces(text: str) -> str:
    """Make one space of several; splitting at pairs looks once where replacing looks thrice."""
    parts = text.split("  ")
    while len(parts) > 1:
        parts = " ".join(parts).split("  ")
    return parts[0]


def _external_label(match: re.Match[str]) -> str:
    return match[1].strip()


def _replace_tag(match: re.Match[str]) -> str:
    return "\n" if match[1] else ""


def _heading_words(match: re.Match[str]) -> str:
    return "\n" + match[0].strip("= \t\n" + PLACEHOLDER)


def _replace_switch(match: re.Match[str]) -> str:
    return match[0] if match[1] != match[1].upper() else ""


def _unquote(text: str) -> str:
    """Remove bold and italic quotes, with MediaWiki's rules for stray apostrophes."""
    if "''''" in text:
        text = _QUOTES.sub(_long_quotes, text)
    if _ELISION.search(text):
        text = "\n".join(_unquote_elision(line) for line in text.split("\n"))
    return _BOLD_OR_ITALIC.sub("", text)


def _long_quotes(match: re.Match[str]) -> str:
    """Four quotes are an apostrophe and bold; more than five are apostrophes, bold and italic."""
    n_quotes = len(match[0])
    return "'" if n_quotes == 4 else PLACEHOLDER.join("'" * (n_quotes - 5))


def _unquote_elision(line: str) -> str:
    """Read `l'''uomo''` as an apostrophe and italic when the quotes of the line do not pair up."""
    lengths = [len(run) for run in _QUOTE_RUN.findall(line)]
    if lengths.count(3) % 2 and lengths.count(2) % 2:
        return _ELISION.sub("'", line, count=1)
    return line


_BREAK = re.compile(r"\n|<br\b[^<>]*+>", re.IGNORECASE)
_REDIRECT = re.compile(r"\s*+#\s*+([^\[\]\n:：#]{2,30}?)\s*+[:：]?\s*+\[\[([^\[\]|\n]++)")
_TEMPLATE_NAME = re.compile(r"\{\{([^{}|<>\[\]]{1,80})")
_ENGLISH_ENDINGS = ("disambig", "disambiguation")  # many wikis have kinds of their own
_TITLE_ASIDE = re.compile(r"[(（]([^()（）]{1,60})[)）]$")


@dataclass(frozen=True, slots=True)
class CleanPage:
    """The running text of a page and its links."""

    text: str
    starts: list[int]
    """Where each link of the running text starts, ascending; links never overlap."""
    ends: list[int]
    """Where each of them ends."""
    surfaces: list[str]
    """What a reader sees of each of them."""
    targets: list[str]
    """The normalised title each of them leads to, without section; redirects are not resolved."""
    other_links: list[tuple[str, str]]
    """(surface, target) of article links elsewhere: tables, captions, templates, notes."""
    n_dropped: Mapping[str, int]
    """Reason -> how many links lead to no article or show nothing."""


def clean(wikitext: str, site: Site, title: str = "") -> CleanPage:
    """Reduce wikitext to the running text and the links to articles.

    Args:
        wikitext: Source of one page; any string will do.
        site: The wiki it belongs to.
        title: Title of the page, against which `[[/subpage]]` is resolved.
    """
    cut: list[str] = []
    text = cut_extensions(sanitise(wikitext), cut)
    # Asked now, since a cut may take the sign of sheltered text and leave some of the text.
    sheltered = SHELTERED in text
    # Notes were taken out whole, so comments inside them are still there.
    cut = [cut_extensions(part, cut) for part in cut]
    text = cut_templates(unwrap_templates(text), cut)
    text = cut_tables(text, cut)
    text = cut_files(text, file_pattern(site), cut)
    n_dropped: Counter[str] = Counter()
    text, targets = _mark_links(text, site, title, n_dropped)
    marked = style(text)
    other_links = _list_links(cut, site, title, n_dropped)
    if sheltered:  # what is revealed may end in white space, which belongs to no anchor
        marked = _BEFORE_CLOSE.sub(rf"{CLOSE}\1", reveal_rest(marked))
        marked = _BEHIND_OPEN.sub(rf"\1{OPEN}", marked)
    return finish_page(marked, targets, other_links, n_dropped)


def finish_page(
    marked: str, targets: list[str], other_links: list[tuple[str, str]], n_dropped: Counter[str]
) -> CleanPage:
    """Take the marks out of a page's text, and links that show nothing out of its links."""
    # Splitting at one sign is five times faster than at a pattern for both.
    parts = marked.replace(CLOSE, OPEN).split(OPEN)
    edges = list(accumulate(map(len, parts)))
    starts, ends, surfaces = edges[0:-1:2], edges[1::2], parts[1::2]
    if "" in surfaces:
        n_dropped["empty"] += surfaces.count("")
        starts = list(compress(starts, surfaces))
        ends = list(compress(ends, surfaces))
        targets = list(compress(targets, surfaces))
        surfaces = list(filter(None, surfaces))
    return CleanPage("".join(parts), starts, ends, surfaces, targets, other_links, +n_dropped)


def _resolve_links(parts: list[Any], site: Site, title: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield for each link its kind, its title, what is shown of it, and the letters that join it.

    `parts` are a text split by `link_pattern`; brackets that are no link have no kind.
    """
    raws = parts[1::4]
    lookup = targets_of(site)
    links = zip(raws, simple_titles(raws, site), parts[2::4], parts[3::4], strict=True)
    for raw, simple, label, trail in links:
        if simple:
            kind, page, shown = ARTICLE, simple, raw
        elif raw is None:
            yield BRACKETS, "", "[[", ""
            continue
        else:
            kind, page, shown = lookup[raw]
            if kind == SUBPAGE:
                kind, page = ARTICLE, join_subpage(title, page)
        if label is None:
            label = shown
        elif not label:
            label = pipe_trick(shown, site)
        yield kind, page, label, trail


def _mark_links(
    text: str, site: Site, title: str, n_dropped: Counter[str]
) -> tuple[str, list[str]]:
    """Replace each link by what a reader sees; anchors of articles stand between marks."""
    parts: list[Any] = link_pattern(site.language).split(text)
    targets: list[str] = []
    pieces: list[str] = []
    for kind, page, label, trail in _resolve_links(parts, site, title):
        if "\n" in label or "<" in label or PLACEHOLDER in label:
            label = _BREAK.sub(" ", label)
            if kind == ARTICLE and not plain_label(label):
                kind = "empty"
        if kind == ARTICLE:
            targets.append(page)
            pieces.append(f"{OPEN}{label}{trail}{CLOSE}")
        elif kind == BRACKETS:
            n_dropped["broken"] += 1
            pieces.append(label)
        else:
            n_dropped[kind] += 1
            # The placeholder keeps a leading "#" or ":" from being read as a list.
            pieces.append(PLACEHOLDER if kind in VANISHING else f"{PLACEHOLDER}{label}{trail}")
    whole = [""] * (2 * len(pieces) + 1)
    whole[0::2] = parts[0::4]
    whole[1::2] = pieces
    return "".join(whole), targets


def _list_links(
    cut: list[str], site: Site, title: str, n_dropped: Counter[str]
) -> list[tuple[str, str]]:
    """List (surface, target) of the article links in the parts that were cut out."""
    if not cut:
        return []
    parts: list[Any] = link_pattern(site.language).split("\n".join(cut))
    found = []
    links = zip(_resolve_links(parts, site, title), parts[4::4], strict=True)
    for (kind, page, label, trail), after in links:
        if kind == BRACKETS:  # a caption with links in it, or brackets without partner
            is_file = file_pattern(site).match("[[" + after[:80])
            n_dropped["file" if is_file else "broken"] += 1
            continue
        if kind != ARTICLE:
            n_dropped[kind] += 1
            continue
        if "{{" in label:
            label = cut_templates(unwrap_templates(label), [])
        surface = reveal(plain_label(label + trail))
        if surface:
            found.append((surface, page))
        else:
            n_dropped["empty"] += 1
    return found


def find_redirect(wikitext: str, site: Site) -> str | None:
    """Return the title a redirect page leads to, or None when the page is no redirect.

    The section of the target is dropped. A target in another namespace keeps its prefix, so that
    the page still counts as a redirect although it leads to no article.
    """
    match = _REDIRECT.match(wikitext)
    if match is None or fold_prefix(match[1]) not in REDIRECT_WORDS:
        return None
    _, target, _ = targets_of(site)[match[2]]
    return target or site.normalise_title(match[2].partition("#")[0].lstrip(" :")) or None


def is_disambiguation(
    wikitext: str, title: str, site: Site, extra_templates: frozenset[str] = frozenset()
) -> bool:
    """Tell whether a page only lists the meanings of its title.

    Args:
        wikitext: Source of the page.
        title: Its title; "(disambiguation)" at its end decides, in many languages.
        site: The wiki it belongs to.
        extra_templates: Names of further templates that mark such pages on this wiki.
    """
    aside = _TITLE_ASIDE.search(title)
    if aside and aside[1].strip().casefold() in DISAMBIGUATION_SUFFIXES:
        return True
    marked = "__DISAMBIG__" in wikitext
    if not marked and "{{" not in wikitext:
        return False
    names = DISAMBIGUATION_TEMPLATES
    if extra_templates:
        names = names.union(map(fold_prefix, extra_templates))
    if not marked and not _has_template(wikitext, names, site):
        return False
    visible = cut_extensions(sanitise(wikitext), [])
    return "__DISAMBIG__" in visible or _has_template(visible, names, site)


def _has_template(wikitext: str, names: frozenset[str], site: Site) -> bool:
    for name in _TEMPLATE_NAME.findall(wikitext):
        folded = fold_prefix(name)
        if ":" in folded:
            prefix, _, rest = folded.partition(":")
            folded = rest.strip() if site.namespaces.get(prefix) == 10 else folded
        if folded in names or (folded.endswith(_ENGLISH_ENDINGS) and not folded.startswith("r ")):
            return True
    return False
