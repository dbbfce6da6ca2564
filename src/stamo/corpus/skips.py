"""What reading leaves out or mends, counted by reason: no document is lost without a trace."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from stamo.errors import CorpusFormatError

MAX_ID_CHARACTERS = 512
NO_MENTION = "contains no alias"
"""The one reason that is no fault: the document does not speak of the entity's names."""


@dataclass(frozen=True, slots=True)
class Skip:
    """One or more records that were left out, or mended and kept."""

    reason: str
    where: str
    """The file and record, for a person to look up."""
    count: int = 1
    kept: bool = False
    """True where the document was mended (cut, characters replaced) and still handed on."""
    advice: str = ""
    """What to do about this one, besides its reason."""

    @property
    def sentence(self) -> str:
        """Say what happened to a person who waits for this document."""
        return f"{self.where}: {self.reason}{self.advice and f'; {self.advice}'}."


class BadRecordError(CorpusFormatError):
    """A record that is no document: its message is a short reason to count it by."""

    def __init__(self, reason: str, advice: str = "") -> None:
        super().__init__(reason)
        self.advice = advice


OnSkip = Callable[[Skip], None]


def ignore_skips(skip: Skip) -> None:
    """Take a skip and do nothing with it."""


@dataclass
class SkipCounter:
    """Count skips by reason; an instance is an `OnSkip`."""

    skipped: Counter[str] = field(default_factory=Counter)
    mended: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    """Where each reason was met first."""

    def __call__(self, skip: Skip) -> None:
        """Count one skip."""
        (self.mended if skip.kept else self.skipped)[skip.reason] += skip.count
        self.examples.setdefault(skip.reason, skip.where)


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """How much of one document is read at most, so that no input can exhaust the memory."""

    max_characters: int = 2_000_000
    """A longer text is cut at the last white space before this length."""
    max_record_bytes: int = 16_000_000
    """A longer JSON line, HTML page or WARC record is left out."""
    max_line_bytes: int | None = None
    """Where it is given, JSON lines may be as long as this."""


def cut_text(text: str, limits: ReadLimits, where: str, on_skip: OnSkip) -> str:
    """Return `text`, cut between two words and counted where it is longer than the limit."""
    if len(text) <= limits.max_characters:
        return text
    on_skip(Skip(f"text cut at {limits.max_characters:,} characters", where, kept=True))
    head = text[: limits.max_characters]
    # Look for white space near the end only: a text without any stays within the limit too.
    tail = max(len(head) - 1000, 1)
    cut = max((head.rfind(space, tail) for space in " \n\t"), default=-1)
    return head[:cut] if cut > 0 else head


def decode_utf8(raw: bytes, where: str, on_skip: OnSkip) -> str:
    """Decode UTF-8; invalid bytes become U+FFFD and are counted."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        on_skip(Skip("invalid UTF-8 replaced", where, kept=True))
        return raw.decode("utf-8", "replace")


def clean_surrogates(text: str) -> str:
    r"""Replace lone surrogates, which JSON escapes can smuggle in and no file can hold."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        # Escapes may also spell a pair one by one, which is a character.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def make_id(place: str, text: str) -> str:
    """Make an id that stays the same on every machine and differs for different texts."""
    digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=6).hexdigest()
    return f"{clean_id(place)}:{digest}"


def clean_id(value: str) -> str:
    """Return a printable id of bounded length; what is cut is replaced by a digest."""
    printable = "".join(c if c.isprintable() else "�" for c in clean_surrogates(value)).strip()
    if len(printable) <= MAX_ID_CHARACTERS:
        return printable
    digest = hashlib.blake2b(printable.encode(), digest_size=6).hexdigest()
    return f"{printable[: MAX_ID_CHARACTERS - 16]}~{digest}"
