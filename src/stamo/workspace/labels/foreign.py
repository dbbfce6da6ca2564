"""Labels from elsewhere: what another tool or a table says, brought into the log."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from stamo.corpus.types import Document
from stamo.errors import CorpusFormatError
from stamo.workspace.labels.events import LabelTarget
from stamo.workspace.labels.store import LabelStore


@dataclass(frozen=True, slots=True)
class ForeignLabel:
    """What a file says of a mention."""

    target: LabelTarget
    choice: str
    labeller: str
    at: datetime
    since: datetime
    """When the file first may have said so; what the log says later is known already."""


def add_changes(store: LabelStore, labels: Iterable[ForeignLabel]) -> int:
    """Add each label that differs from what holds; return how many, all of them or none.

    An old file does not bring back what was changed or undone here since.
    """
    with store.together():
        holds = {_place(e.labeller, e.target): e.choice for e in store.current_by_labeller()}
        said = {(_place(e.labeller, e.target), e.choice): e.at for e in store.events()}
        n_changes = 0
        for label in labels:
            place, choice = _place(label.labeller, label.target), store.kept_as(label.choice)
            last_said = said.get((place, choice))
            is_known = last_said is not None and last_said >= label.since
            if holds.get(place) != choice and not is_known:
                store.add(label.target, choice, labeller=label.labeller, at=label.at)
                holds[place] = choice
                n_changes += 1
        return n_changes


def find_target(document: Document, start: int, end: int) -> LabelTarget:
    """Return the candidate mention of a document at a place, or the longer one around it.

    Other tools mark "Sandy" where the candidate is "Hurricane Sandy".

    Raises:
        CorpusFormatError: There is none.
    """
    around = None
    for index, mention in enumerate(document.mentions):
        if (mention.start, mention.end) == (start, end):
            return LabelTarget.of(document.id, index, mention)
        if mention.entity is None and mention.start <= start < end <= mention.end:
            around = LabelTarget.of(document.id, index, mention)
    if around is not None:
        return around
    raise CorpusFormatError(
        f"its region {start}-{end} is no candidate mention of the document {document.id!r}."
    )


def _place(labeller: str, target: LabelTarget) -> tuple[str, str, int, int]:
    return labeller, target.document, target.start, target.end
