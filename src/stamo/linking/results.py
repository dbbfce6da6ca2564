"""What linking gives: plain values that turn into JSON records.

Named tuples, because many are made: they cost a fifth of a frozen dataclass. The linker makes them
when they are asked for, see `stamo.linking.columns`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

Link = tuple[int, int, str | None, float]
"""Start and end of a mention, its entity, and the confidence in that."""


class ScoredCandidate(NamedTuple):
    """A candidate entity of a mention."""

    entity: str
    confidence: float
    """Calibrated probability that this candidate is right."""
    score: float
    """g(e; m), 0 where there is a single candidate and nothing to rank.

    It ranks the candidates of one mention and means nothing across mentions."""
    prior: float
    """P(e | m) of the knowledge base."""
    id: str = ""
    """What the entity is called elsewhere, such as Q29584; empty where it is not known."""
    type: str = ""
    """What a packed entity is, as it was declared: person, event; mostly empty."""
    url: str = ""
    """Where a packed entity is described, as it was declared; mostly empty."""


class Contribution(NamedTuple):
    """What one score Ψ adds to the lead of the best candidate over the runner-up."""

    name: str
    best: float
    """The score of the best candidate."""
    runner_up: float
    """The score of the runner-up, 0 when there is none."""
    lead: float
    """How much of the lead g(best) - g(runner-up) goes away when this score is made the same for
    all candidates of the mention."""


class Reason(NamedTuple):
    """One thing that speaks for or against a packed entity."""

    part: str
    """What it is part of: words, single entities, words next to the name, ..."""
    name: str
    """The word or entity; empty where the part speaks as a whole."""
    weight: float
    """What it adds to the log odds; negative where it speaks against."""


class LinkedMention(NamedTuple):
    """A mention with its entity; `entity` is None (NIL) when nothing was confident enough."""

    surface: str
    start: int
    end: int
    entity: str | None
    confidence: float
    """Calibrated probability that the best candidate is right, 0 without a candidate."""
    candidates: tuple[ScoredCandidate, ...] = ()
    """The best candidates, the best first."""
    why: tuple[Contribution, ...] = ()
    """Each score's part in the decision, when asked for."""
    without_packs: str | None = None
    """What the mention would be linked to without entity packs, where a pack knows its name."""
    in_pack: bool = False
    """Whether a pack knows the mention's name."""
    reasons: tuple[Reason, ...] = ()
    """Words, neighbours and entities for and against `reasons_for`, the weightiest first."""
    reasons_for: str = ""
    """The packed entity that `reasons` speak of; empty where they were not asked for."""

    @property
    def id(self) -> str:
        """What its entity is called elsewhere; empty for NIL and where it is not known."""
        return self._chosen.id if self._chosen else ""

    @property
    def _chosen(self) -> ScoredCandidate | None:
        return next((c for c in self.candidates if c.entity == self.entity), None)

    @property
    def runner_up(self) -> ScoredCandidate | None:
        """The second-best candidate."""
        return self.candidates[1] if len(self.candidates) > 1 else None

    def to_record(self, *, all_candidates: bool = True) -> dict[str, Any]:
        """Return plain values for JSON, with or without the candidates that did not win."""
        record = mention_record(
            self.start, self.end, self.surface, self.entity, round(self.confidence, 4), self.id
        )
        if self._chosen and self.in_pack:
            declared = {"type": self._chosen.type, "url": self._chosen.url}
            record |= {name: value for name, value in declared.items() if value}
        if all_candidates:
            second = self.runner_up
            record["runner_up"] = None if second is None else _named(second)
            record["candidates"] = [
                _named(c) | {"score": round(c.score, 4), "prior": round(c.prior, 4)}
                for c in self.candidates
            ]
        if self.in_pack:
            record["without_packs"] = self.without_packs
        if self.why:
            record["why"] = {
                c.name: {
                    "best": round(c.best, 4),
                    "runner_up": round(c.runner_up, 4),
                    "lead": round(c.lead, 4),
                }
                for c in self.why
            }
        if self.reasons:
            record["reasons_for"] = self.reasons_for
            record["reasons"] = [
                reason._asdict() | {"weight": round(reason.weight, 4)} for reason in self.reasons
            ]
        return record


def mention_record(
    start: int, end: int, surface: str, entity: str | None, confidence: float, id: str = ""
) -> dict[str, Any]:
    """Return the fields that the record of every mention has."""
    return {
        "start": start,
        "end": end,
        "surface": surface,
        "entity": entity,
        "id": id or None,
        "confidence": confidence,
    }


def _named(candidate: ScoredCandidate) -> dict[str, Any]:
    known = {"id": candidate.id} if candidate.id else {}
    return {"entity": candidate.entity, **known, "confidence": round(candidate.confidence, 4)}


@dataclass(frozen=True, slots=True)
class LinkedDocument:
    """A document, or a part of a long one, with its linked mentions; or why it has none."""

    id: str
    text: str
    mentions: Sequence[LinkedMention] = ()
    """In the order of the text."""
    error: str | None = None
    """What was wrong with the document; the others of its batch are linked all the same."""
    part: int | None = None
    """Number of the part when a long document comes in parts."""
    offset: int = 0
    """Where `text` starts in the whole document; mentions count from the document's start."""

    @property
    def surfaces(self) -> Sequence[str]:
        """The text of each mention."""
        made: Sequence[str] | None = getattr(self.mentions, "surfaces", None)
        return [mention.surface for mention in self.mentions] if made is None else made

    def links(self) -> Iterable[Link]:
        """Return what each mention is linked to, without its candidates."""
        if hasattr(self.mentions, "links"):
            links: Iterable[Link] = self.mentions.links()
            return links
        return ((m.start, m.end, m.entity, m.confidence) for m in self.mentions)

    def to_record(self, *, all_candidates: bool = True) -> dict[str, Any]:
        """Return plain values for JSON; the text itself stays out."""
        record: dict[str, Any] = {"id": self.id}
        if self.part is not None:
            record |= {"part": self.part, "offset": self.offset, "length": len(self.text)}
        if self.error is not None:
            return record | {"error": self.error}
        if not all_candidates and hasattr(self.mentions, "records"):
            record["mentions"] = self.mentions.records()  # of columns, without a value for each
        else:
            records = (m.to_record(all_candidates=all_candidates) for m in self.mentions)
            record["mentions"] = list(records)
        return record


def merge_parts(linked: Iterable[LinkedDocument]) -> Iterator[LinkedDocument]:
    """Join the parts of long documents again."""
    waiting: list[LinkedDocument] = []
    for part in linked:
        if waiting and not part.part:
            yield _merge(waiting)
            waiting = []
        waiting.append(part)
    if waiting:
        yield _merge(waiting)


def _merge(parts: list[LinkedDocument]) -> LinkedDocument:
    if len(parts) == 1:
        return replace(parts[0], part=None)
    return LinkedDocument(
        parts[0].id,
        "".join(part.text for part in parts),
        tuple(mention for part in parts for mention in part.mentions),
        error=next((part.error for part in parts if part.error is not None), None),
    )
