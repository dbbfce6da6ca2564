"""Label events: who chose what for which mention, and how they are written as plain values."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from stamo.corpus.types import Mention
from stamo.errors import CorpusFormatError

EMERGING_CHOICE = "@emerging"
NONE = "@none"
SKIP = "@skip"
UNDO = "@undo"
MAX_CHARACTERS = 2000
FIRST_YEAR, LAST_YEAR = 1970, 2200


@dataclass(frozen=True, slots=True)
class Choice:
    """One candidate entity that a person may choose."""

    choice: str
    """What is kept: a title of the knowledge base, or `@emerging`."""
    entity: str
    line: str = ""
    """A line of what is known of it."""

    @property
    def emerging(self) -> bool:
        """Whether it is the emerging entity."""
        return self.choice == EMERGING_CHOICE


@dataclass(frozen=True, slots=True)
class LabelTarget:
    """The mention that is labelled."""

    document: str
    mention: int
    """Its index in the document's mentions when it was labelled."""
    surface: str
    start: int
    end: int

    @classmethod
    def of(cls, document: str, index: int, mention: Mention) -> LabelTarget:
        """Name a mention of a document."""
        return cls(document, index, mention.surface, mention.start, mention.end)


@dataclass(frozen=True, slots=True)
class LabelEvent:
    """One line of the log: a label, or the undoing of one."""

    uid: str
    """The same in every copy of the log, so that logs can be joined."""
    labeller: str
    at: datetime
    target: LabelTarget
    choice: str
    """An entity's title, `@emerging`, `@none`, `@skip`, or `@undo`."""
    undoes: str | None = None
    """The uid of the event that is undone."""


def describe_choice(choice: str, entity: str) -> str:
    """Return what people read for a choice; `entity` is the name of the emerging entity."""
    words = {EMERGING_CHOICE: entity, NONE: "none of these", SKIP: "skipped", UNDO: "taken back"}
    return words.get(choice, choice)


def to_timestamp(at: datetime) -> str:
    """Write a time as text that sorts by time.

    Raises:
        CorpusFormatError: It has no time zone, or is no time at which anybody labelled.
    """
    if at.tzinfo is None:
        raise CorpusFormatError(f"The time {at} of a label has no time zone; give UTC.")
    if not FIRST_YEAR <= at.year < LAST_YEAR:
        raise CorpusFormatError(
            f"The time of a label is in the year {at.year}; give one from {FIRST_YEAR} to "
            f"{LAST_YEAR - 1}."
        )
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def check_label(target: LabelTarget, choice: str, labeller: str) -> None:
    """Check the values of a label.

    Raises:
        CorpusFormatError: A value is empty, too long or out of range.
    """
    texts = {"labeller": labeller, "choice": choice, "document id": target.document}
    texts["surface"] = target.surface
    for name, text in texts.items():
        if not isinstance(text, str) or not text.strip() or len(text) > MAX_CHARACTERS:
            raise CorpusFormatError(
                f"The {name} of a label is {str(text)[:40]!r}; give a text of 1 to "
                f"{MAX_CHARACTERS} characters."
            )
    try:
        "".join(texts.values()).encode()
    except UnicodeEncodeError:
        raise CorpusFormatError("A label holds a character that no file can hold.") from None
    numbers = (target.mention, target.start, target.end)
    if any(type(number) is not int or not 0 <= number < 1 << 62 for number in numbers):
        raise CorpusFormatError(f"A label names the mention {numbers}; give whole numbers from 0.")
    if target.start >= target.end:
        raise CorpusFormatError(
            f"A label's mention starts at {target.start} and ends at {target.end}; "
            "the end must come later."
        )


def event_to_json(event: LabelEvent) -> dict[str, Any]:
    """Return the plain values of an event; `event_from_json` reads them back."""
    record: dict[str, Any] = {"uid": event.uid, "labeller": event.labeller}
    record["at"] = to_timestamp(event.at)
    record |= asdict(event.target)
    record["choice"] = event.choice
    if event.undoes is not None:
        record["undoes"] = event.undoes
    return record


def event_from_json(record: Any) -> LabelEvent:
    """Check and convert the plain values of an event.

    Raises:
        CorpusFormatError: They do not have this form.
    """
    names = ("document", "mention", "surface", "start", "end")
    if not isinstance(record, dict):
        raise CorpusFormatError("A label event is an object, as `stamo labels export` writes it.")
    missing = [n for n in (*names, "at", "uid", "labeller", "choice") if n not in record]
    if missing:
        raise CorpusFormatError(
            f"A label event lacks {', '.join(map(repr, missing))}; it is what "
            "`stamo labels export --as jsonl` writes."
        )
    try:
        target = LabelTarget(*(record[name] for name in names))
        at = datetime.fromisoformat(record["at"])
        undoes = record.get("undoes")
        event = LabelEvent(record["uid"], record["labeller"], at, target, record["choice"], undoes)
    except (TypeError, ValueError, AttributeError) as error:
        raise CorpusFormatError(f"A label event holds a value that is none ({error}).") from error
    check_event(event)
    return event


def check_event(event: LabelEvent) -> None:
    """Check all values of an event that comes from elsewhere.

    Raises:
        CorpusFormatError: A value is empty, too long or out of range.
    """
    check_label(event.target, event.choice, event.labeller)
    to_timestamp(event.at)
    uids = [event.uid] if event.undoes is None else [event.uid, event.undoes]
    if any(not isinstance(uid, str) or not 1 <= len(uid) <= 64 for uid in uids):
        raise CorpusFormatError(
            "A label event has no valid uid; give a text of 1 to 64 characters."
        )
    if (event.choice == UNDO) != (event.undoes is not None):
        raise CorpusFormatError("An undo must name the event that it undoes, and only an undo may.")
