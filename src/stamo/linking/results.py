"""What linking gives: plain values that turn into JSON records.

Named tuples, because many are made: they cost a fifth of a frozen dataclass. What the linker gives
are columns of whole batches; values are made only of the documents that are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stamo.corpus.types import EmergingEntity
from stamo.system.files import Float32, Int32, Int64

if TYPE_CHECKING:
    from stamo.kb.base import KnowledgeBase


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
        if self.in_pack:
            record |= declared_fields(self._chosen)
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


def declared_fields(candidate: ScoredCandidate | None) -> dict[str, Any]:
    """Return what a pack declares of its entity, in the record of a mention that means it."""
    declared = {"type": candidate.type, "url": candidate.url} if candidate else {}
    return {name: value for name, value in declared.items() if value}


def _named(candidate: ScoredCandidate) -> dict[str, Any]:
    known = {"id": candidate.id} if candidate.id else {}
    return {"entity": candidate.entity, **known, "confidence": round(candidate.confidence, 4)}


@dataclass(frozen=True)
class Ranking:
    """The best S candidates of M mentions, the best first; padded with -1 and 0."""

    candidates: Int32  # (M, S)
    scores: NDArray[np.floating]  # (M, S) g(e; m)
    priors: NDArray[np.floating]  # (M, S)
    shares: NDArray[np.floating]  # (M, S) P(e | m, the entity is a candidate)
    psi: Float32  # (M, 2, n) scores of the best two candidates; n is 0 without explanation
    leads: Float32  # (M, n) what each score adds to the lead of the best


NO_PACK = -2
"""Stands for what a mention would be linked to without packs where no pack knows its name."""

PackReasons = tuple[str, tuple[Contribution, ...], tuple[Reason, ...]]
"""A packed entity, what each part adds to its log odds, and what speaks for and against it."""


@dataclass(frozen=True)
class MentionColumns:
    """The linked mentions of a batch, ordered by document and start.

    Entities are numbers of the knowledge base; the entities of packs are counted on behind them.
    """

    surfaces: list[str]
    starts: Int64  # (M,) places in the whole document
    ends: Int64  # (M,)
    linked: Int32  # (M,) the entity, -1 for none (NIL)
    sure: NDArray[np.floating]  # (M,) confidence in the best candidate
    confidence: NDArray[np.floating]  # (M, S) of each candidate, 0 where there is none
    ranking: Ranking
    """The candidates, the best first."""
    without: Int32  # (M,) what it would be linked to without packs, or `NO_PACK`
    kb: KnowledgeBase
    score_names: tuple[str, ...] = ()
    """The n scores of explanations."""
    packed: tuple[EmergingEntity, ...] = ()
    """The entities of packs."""
    reasons: Mapping[int, PackReasons] = field(default_factory=dict)
    """Why a mention means the entity of a pack or not, by row, where that was asked for."""

    def named(self, numbers: Int32) -> dict[int, ScoredCandidate]:
        """Return entities by their numbers, what they are scored still to be filled in."""
        numbers, n = np.unique(numbers), self.kb.n_entities
        ids = numbers[(numbers >= 0) & (numbers < n)]
        known = zip(ids.tolist(), self.kb.titles(ids), self.kb.external_ids(ids), strict=True)
        named = {i: ScoredCandidate(title, 0.0, 0.0, 0.0, id) for i, title, id in known}
        for i in numbers[numbers >= n].tolist():
            e = self.packed[i - n]
            named[i] = ScoredCandidate(e.id, 0.0, 0.0, 0.0, e.external_id, e.type, e.url)
        return named

    @cached_property
    def mentions(self) -> list[LinkedMention]:
        """The values of all mentions."""
        ranking, made = self.ranking, list[LinkedMention]()
        arrays = (ranking.candidates, self.confidence, ranking.scores, ranking.priors)
        more = (self.starts, self.ends, self.sure, ranking.psi, ranking.leads)
        shown = self.named(ranking.candidates)
        title = {number: candidate.entity for number, candidate in shown.items()}
        columns = [array.tolist() for array in (*arrays, *more, self.linked, self.without)]
        rows = zip(self.surfaces, *columns, strict=True)
        for row, (surface, ids, shares, scores, priors, start, end, sure, *rest) in enumerate(rows):
            candidates = tuple(
                shown[e]._replace(confidence=c, score=g, prior=prior)
                for e, c, g, prior in zip(ids, shares, scores, priors, strict=True)
                if e >= 0
            )
            psi, leads, linked, without = rest
            why = tuple(map(Contribution, self.score_names, *psi, leads))
            name, why, reasons = self.reasons.get(row, ("", why, ()))
            place, packs = (surface, start, end), (title.get(without), without != NO_PACK)
            entity = title.get(linked)
            made.append(LinkedMention(*place, entity, sure, candidates, why, *packs, reasons, name))
        return made

    @cached_property
    def records(self) -> list[dict[str, Any]]:
        """The records of all mentions without candidates; values are made only to explain."""
        if self.score_names or self.reasons:
            return [mention.to_record(all_candidates=False) for mention in self.mentions]
        named = self.named(np.append(self.linked, self.without))
        chosen = [named.get(number) for number in self.linked.tolist()]
        records = list(
            map(
                mention_record,
                self.starts.tolist(),
                self.ends.tolist(),
                self.surfaces,
                [one and one.entity for one in chosen],
                np.round(self.sure.astype(np.float64), 4).tolist(),
                [one.id if one else "" for one in chosen],
            )
        )
        for row in np.flatnonzero(self.without != NO_PACK).tolist():
            without = named.get(int(self.without[row]))
            records[row] |= declared_fields(chosen[row])
            records[row]["without_packs"] = without and without.entity
        return records


@dataclass(frozen=True, eq=False, repr=False)
class MentionRows(Sequence[LinkedMention]):
    """The mentions of one document: a stretch of the columns of its batch, used like a tuple."""

    columns: MentionColumns
    rows: slice

    @cached_property
    def _values(self) -> tuple[LinkedMention, ...]:
        return tuple(self.columns.mentions[self.rows])

    def __len__(self) -> int:
        return int(self.rows.stop - self.rows.start)

    def __getitem__(self, index: Any) -> Any:
        return self._values[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple | MentionRows) and self._values == tuple(other)

    def __repr__(self) -> str:
        return repr(self._values)

    def __reduce__(self) -> tuple[Any, ...]:
        # To another process go the values of one document, not the columns of its batch.
        return tuple, (self._values,)


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
    def name(self) -> str:
        """What a person reads above it: its id, and which part of a long document it is."""
        return self.id if self.part is None else f"{self.id}, part {self.part + 1}"

    def pieces(self) -> Iterator[tuple[str, LinkedMention | None]]:
        """Yield the text in pieces, each with its mention; None stands beside what lies between."""
        place = 0
        for mention in self.mentions:
            start, end = mention.start - self.offset, mention.end - self.offset
            yield self.text[place:start], None
            yield self.text[start:end], mention
            place = end
        yield self.text[place:], None

    def to_record(self, *, all_candidates: bool = True) -> dict[str, Any]:
        """Return plain values for JSON; the text itself stays out."""
        record: dict[str, Any] = {"id": self.id}
        if self.part is not None:
            record |= {"part": self.part, "offset": self.offset, "length": len(self.text)}
        if self.error is not None:
            return record | {"error": self.error}
        if not all_candidates and isinstance(self.mentions, MentionRows):
            return record | {"mentions": self.mentions.columns.records[self.mentions.rows]}
        records = [mention.to_record(all_candidates=all_candidates) for mention in self.mentions]
        return record | {"mentions": records}


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
