"""Linked mentions as columns; Python values are made only of the documents that are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from stamo.linking.rank import Ranking
from stamo.linking.results import (
    Contribution,
    Link,
    LinkedMention,
    ScoredCandidate,
    mention_record,
)
from stamo.system.arrays import Int32, Int64


@dataclass(frozen=True)
class MentionColumns:
    """The linked mentions of a batch, ordered by document and start."""

    starts: Int64  # (M,) places in the whole document
    ends: Int64  # (M,)
    ranking: Ranking
    confidence: NDArray[np.floating]  # (M, S) of each candidate, 0 where there is none
    threshold: float
    titles: Callable[[Int32], list[str]]
    external_ids: Callable[[Int32], list[str]] | None = None
    """What entities are called elsewhere, where the knowledge base says it."""
    score_names: tuple[str, ...] = ()
    """The scores of explanations, none without them."""

    @cached_property
    def title_by_id(self) -> dict[int, str]:
        """The titles of all candidates that are shown."""
        ids = np.unique(self.ranking.candidates)
        ids = ids[ids >= 0]
        return dict(zip(ids.tolist(), self.titles(ids), strict=True))

    @cached_property
    def external_id_by_id(self) -> dict[int, str]:
        """The ids elsewhere of all candidates that are shown, where there are any."""
        if self.external_ids is None:
            return {}
        numbers = np.array(list(self.title_by_id), dtype=np.int32)
        return dict(zip(numbers.tolist(), self.external_ids(numbers), strict=True))

    @cached_property
    def ids(self) -> list[str]:
        """What the entity of each mention is called elsewhere, empty where that is unknown."""
        if self.external_ids is None:
            return [""] * len(self.starts)
        known, best = self.external_id_by_id, self.ranking.candidates[:, 0].tolist()
        pairs = zip(best, self.entities, strict=True)
        return [known.get(e, "") if entity is not None else "" for e, entity in pairs]

    @cached_property
    def entities(self) -> list[str | None]:
        """What each mention is linked to."""
        best = self.ranking.candidates[:, 0]
        linked = (best >= 0) & (self.confidence[:, 0] >= self.threshold)
        ids, place = np.unique(np.where(linked, best, -1), return_inverse=True)
        n_none = int(np.searchsorted(ids, 0))
        titles: list[str | None] = [*([None] * n_none), *self.titles(ids[n_none:])]
        return [titles[i] for i in place.tolist()]

    def values(self, rows: slice, surfaces: Sequence[str]) -> Iterator[LinkedMention]:
        """Make the values of some mentions."""
        ranking, title_by_id, elsewhere = self.ranking, self.title_by_id, self.external_id_by_id
        columns = zip(
            surfaces,
            self.starts[rows].tolist(),
            self.ends[rows].tolist(),
            self.entities[rows],
            ranking.candidates[rows].tolist(),
            self.confidence[rows].tolist(),
            ranking.scores[rows].tolist(),
            ranking.priors[rows].tolist(),
            self._whys(rows),
            strict=True,
        )
        for surface, start, end, entity, ids, sure, scores, priors, why in columns:
            shown = tuple(
                ScoredCandidate(title_by_id[e], c, g, p, elsewhere.get(e, ""))
                for e, c, g, p in zip(ids, sure, scores, priors, strict=True)
                if e >= 0
            )
            yield LinkedMention(surface, start, end, entity, sure[0], shown, why)

    def _whys(self, rows: slice) -> list[tuple[Contribution, ...]]:
        psi, leads, names = self.ranking.psi[rows], self.ranking.leads[rows], self.score_names
        if not names:
            return [()] * len(leads)
        pairs = zip(psi.tolist(), leads.tolist(), strict=True)
        return [tuple(map(Contribution, names, *two, lead)) for two, lead in pairs]


class MentionRows(Sequence[LinkedMention]):
    """The mentions of one document: a stretch of the columns of its batch, used like a tuple.

    Args:
        columns: The mentions of the batch.
        rows: Which of them.
        text: The document's text, or its part.
        offset: Where the text starts in the document.
    """

    def __init__(self, columns: MentionColumns, rows: slice, text: str, offset: int) -> None:
        self._columns = columns
        self._rows = rows
        starts, ends = (columns.starts[rows] - offset), (columns.ends[rows] - offset)
        pairs = zip(starts.tolist(), ends.tolist(), strict=True)
        self.surfaces = [text[start:end] for start, end in pairs]

    @cached_property
    def _values(self) -> tuple[LinkedMention, ...]:
        return tuple(self._columns.values(self._rows, self.surfaces))

    def records(self) -> list[dict[str, Any]]:
        """Return the records without candidates; values are made only where they explain."""
        columns, rows = self._columns, self._rows
        if columns.score_names:
            return [mention.to_record(all_candidates=False) for mention in self]
        return list(
            map(
                mention_record,
                columns.starts[rows].tolist(),
                columns.ends[rows].tolist(),
                self.surfaces,
                columns.entities[rows],
                np.round(columns.confidence[rows, 0].astype(np.float64), 4).tolist(),
                columns.ids[rows],
            )
        )

    def links(self) -> Iterator[Link]:
        """Yield what each mention is linked to; no values are made of its candidates."""
        columns, rows = self._columns, self._rows
        return zip(
            columns.starts[rows].tolist(),
            columns.ends[rows].tolist(),
            columns.entities[rows],
            columns.confidence[rows, 0].tolist(),
            strict=True,
        )

    def __len__(self) -> int:
        return len(self.surfaces)

    @overload
    def __getitem__(self, index: int) -> LinkedMention: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[LinkedMention, ...]: ...
    def __getitem__(self, index: int | slice) -> LinkedMention | tuple[LinkedMention, ...]:
        return self._values[index]

    def __iter__(self) -> Iterator[LinkedMention]:
        return iter(self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple | MentionRows) and self._values == tuple(other)

    def __hash__(self) -> int:
        return hash(self._values)

    def __repr__(self) -> str:
        return repr(self._values)

    def __reduce__(self) -> tuple[Any, ...]:
        # To another process go the values of one document, not the columns of its batch.
        return tuple, (self._values,)
