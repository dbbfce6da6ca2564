"""What was labelled: every answer with who changed what, and how far labellers agree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from operator import eq

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
        checks: What runs that did not see a label say of its mention.
    """
    said: dict[MentionPlace, list[str]] = defaultdict(list)
    for event in events:
        answer = describe_choice(event.choice, entity)
        said[_place(event)].append(f"{event.labeller}, {event.at:%Y-%m-%d %H:%M}: {answer}")
    entries = []
    for event in current:
        target, document = event.target, documents.get(event.target.document)
        text, span, index = target.surface, (0, len(target.surface)), None
        for i, mention in enumerate(document.mentions if document else ()):
            if document and (mention.start, mention.end) == (target.start, target.end):
                text, span, index = document.text, (target.start, target.end), i
        answer, check = describe_choice(event.choice, entity), (checks or {}).get(_place(event))
        said_otherwise = check is not None and check.is_entity != (answer == entity)
        entries.append(
            LabelEntry(
                document=target.document,
                mention=index,
                title=(document.title if document else None) or target.document,
                shown=cut_context(text, *span, ENTRY_WIDTH),
                choice=event.choice,
                answer=answer,
                labeller=event.labeller,
                at=f"{event.at:%Y-%m-%d %H:%M}",
                said=tuple(said[_place(event)]),
                check=check,
                differs=said_otherwise and event.choice != SKIP,
            )
        )
    return entries[::-1]


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
            mine, theirs = ([choices[who][place] for place in both] for who in (first, second))
            n, n_same = len(both), sum(map(eq, mine, theirs))
            by_chance = sum(mine.count(x) * theirs.count(x) for x in set(mine)) / n**2
            kappa = None if by_chance == 1 else (n_same / n - by_chance) / (1 - by_chance)
            pairs.append(LabellerPair(first, second, n, n_same, kappa))
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


def _place(event: LabelEvent) -> MentionPlace:
    return event.target.document, event.target.start
