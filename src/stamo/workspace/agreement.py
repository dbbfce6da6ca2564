"""What was labelled: every answer with who changed what, and how far labellers agree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from stamo.corpus.types import Document
from stamo.workspace.labels import SKIP, LabelEvent, describe_choice
from stamo.workspace.wording import Snippet, cut_context

ENTRY_WIDTH = 90
MentionPlace = tuple[str, int]
"""A document's id and where a mention starts in it."""


@dataclass(frozen=True, slots=True)
class Check:
    """What a run that did not see a label says of its mention."""

    probability: float
    """That it is the entity."""
    is_entity: bool
    """Whether it would be linked to the entity."""


@dataclass(frozen=True, slots=True)
class LabelEntry:
    """One labelled mention."""

    document: str
    mention: int | None
    """Its index now; None where it is not among the documents any more."""
    title: str
    shown: Snippet
    choice: str
    answer: str
    """The choice as people read it."""
    labeller: str
    at: str
    said: tuple[str, ...]
    """Everything said of it, oldest first: who, when, what."""
    check: Check | None
    """None before learning."""
    differs: bool
    """Whether the other labels say otherwise."""

    def matches(self, search: str) -> bool:
        """Say whether a text stands in it, in any case."""
        where = (self.title, self.document, *self.shown, self.answer, self.labeller)
        return search.casefold() in "\n".join(where).casefold()


@dataclass(frozen=True, slots=True)
class LabellerPair:
    """How far two people agree on the mentions that both labelled."""

    first: str
    second: str
    n: int
    n_same: int
    kappa: float | None
    """Cohen's kappa: 1 is full agreement, 0 that of chance; None where there is only one answer."""


@dataclass(frozen=True, slots=True)
class Dispute:
    """A mention that people answered differently."""

    document: str
    start: int
    surface: str
    answers: dict[str, str]
    """The choice of each labeller."""


def list_labels(
    events: Sequence[LabelEvent],
    current: Iterable[LabelEvent],
    documents: Mapping[str, Document],
    entity: str,
    checks: Mapping[MentionPlace, Check] | None = None,
) -> list[LabelEntry]:
    """List what holds now, the newest first, each with all that was said of its mention.

    Args:
        events: The whole log.
        current: What holds now.
        documents: The collected documents by id.
        entity: The name of the emerging entity.
        checks: What left-out runs say of labelled mentions.
    """
    said: dict[MentionPlace, list[str]] = defaultdict(list)
    for event in events:
        line = f"{event.labeller}, {event.at:%Y-%m-%d %H:%M}: "
        said[_place(event)].append(line + describe_choice(event.choice, entity))
    entries = []
    for event in current:
        check = (checks or {}).get(_place(event))
        entries.append(_entry(event, documents.get(event.target.document), entity, said, check))
    return entries[::-1]


def _entry(
    event: LabelEvent,
    document: Document | None,
    entity: str,
    said: Mapping[MentionPlace, list[str]],
    check: Check | None,
) -> LabelEntry:
    target = event.target
    places = [] if document is None else [(m.start, m.end) for m in document.mentions]
    is_there = (target.start, target.end) in places
    text = document.text if document is not None and is_there else target.surface
    start, end = (target.start, target.end) if is_there else (0, len(target.surface))
    answer = describe_choice(event.choice, entity)
    differs = check is not None and event.choice != SKIP and check.is_entity != (answer == entity)
    return LabelEntry(
        document=target.document,
        mention=places.index((target.start, target.end)) if is_there else None,
        title=(document.title if document else None) or target.document,
        shown=cut_context(text, start, end, ENTRY_WIDTH),
        choice=event.choice,
        answer=answer,
        labeller=event.labeller,
        at=f"{event.at:%Y-%m-%d %H:%M}",
        said=tuple(said[_place(event)]),
        check=check,
        differs=differs,
    )


def compare_labellers(labels: Iterable[LabelEvent]) -> list[LabellerPair]:
    """Compare what each labeller's choices are now, pair by pair; skips say nothing."""
    choices: dict[str, dict[MentionPlace, str]] = defaultdict(dict)
    for event in labels:
        if event.choice != SKIP:
            choices[event.labeller][_place(event)] = event.choice
    pairs = []
    for first, second in combinations(sorted(choices), 2):
        both = sorted(choices[first].keys() & choices[second].keys())
        if both:
            answers = [(choices[first][place], choices[second][place]) for place in both]
            n_same = sum(a == b for a, b in answers)
            pairs.append(LabellerPair(first, second, len(both), n_same, _kappa(answers)))
    return pairs


def find_disputes(labels: Iterable[LabelEvent]) -> list[Dispute]:
    """Return the mentions of which labellers say different things now; skips say nothing."""
    events: dict[MentionPlace, list[LabelEvent]] = defaultdict(list)
    for event in labels:
        if event.choice != SKIP:
            events[_place(event)].append(event)
    return [
        Dispute(*place, some[0].target.surface, {e.labeller: e.choice for e in some})
        for place, some in sorted(events.items())
        if len({event.choice for event in some}) > 1
    ]


def _kappa(answers: Sequence[tuple[str, str]]) -> float | None:
    n = len(answers)
    seen = sum(a == b for a, b in answers) / n
    firsts, seconds = zip(*answers, strict=True)
    by_chance = sum(firsts.count(x) * seconds.count(x) for x in set(firsts)) / n**2
    return None if by_chance == 1 else (seen - by_chance) / (1 - by_chance)


def _place(event: LabelEvent) -> MentionPlace:
    return event.target.document, event.target.start
