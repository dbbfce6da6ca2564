"""Turn what is left of wikitext after cutting into plain text: styling, tags, lines, spaces.

A pattern whose first sign is rare and stands alone before a look-ahead is searched at the speed of
that sign; two signs together, or a frequent one, take several times as long.
"""

import re

from stamo.build.dump.site import decode_references
from stamo.build.wikitext.marks import CLOSE, OPEN, PLACEHOLDER

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
