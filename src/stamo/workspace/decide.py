"""Decide what workspaces keep of the documents that wait in them, many workspaces at once.

    document ─▶ all mentions ─longer name?─▶ copy? ─▶ link the other mentions ─▶ kept

What is the same for all runs over the documents of all workspaces together: a hundred of them with
a document or two each cost no more than one with as many documents.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

import numpy as np

from stamo.corpus.duplicates import UInt32, minhash
from stamo.corpus.parts import Part, split_document
from stamo.corpus.types import Document, Mention, without_overlaps
from stamo.kb.base import KnowledgeBase
from stamo.linking.linker import Linker
from stamo.linking.results import merge_parts
from stamo.linking.settings import LinkerSettings
from stamo.linking.texts import Detected
from stamo.models.store import TrainedModel
from stamo.workspace.intake import COPY, LONGER_NAME, CollectSettings, Intake

LEAST_CONFIDENCE = 0.5
"""Other mentions linked with at least this confidence become entity context."""
MAX_TOGETHER = 2_000_000
"""Characters of documents after which no further workspace is added to those decided together."""


@dataclass(frozen=True)
class _Found:
    """A document that a workspace waits for, in parts, with all names that were found in them."""

    intake: Intake
    document: Document
    candidates: list[Mention]
    parts: Sequence[Part]
    names: Sequence[Detected]

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """The places of all names in the document."""
        return [
            (start + part.offset, end + part.offset)
            for part, some in zip(self.parts, self.names, strict=True)
            for start, end in zip(some.starts.tolist(), some.ends.tolist(), strict=True)
        ]


class Decider:
    """Finds and links the mentions of documents for all workspaces of a pass."""

    def __init__(
        self,
        intakes: Sequence[Intake],
        kb: KnowledgeBase,
        trained: TrainedModel,
        settings: CollectSettings,
    ) -> None:
        names = tuple(dict.fromkeys(a for intake in intakes for a in intake.entity.aliases))
        choice = LinkerSettings(batch_size=settings.batch_size, mentions="detect")
        self._linker = Linker(kb, trained, settings=choice, extra_aliases=names)
        self._is_alias = {
            intake: np.array([name in intake.aliases for name in names]) for intake in intakes
        }

    def decide(self, intakes: Sequence[Intake]) -> Iterator[tuple[Intake, list[Document]]]:
        """Yield each workspace with the documents that it keeps of those that wait in it."""
        for group in _groups(intakes):
            kept: dict[Intake, list[Document]] = {intake: [] for intake in group}
            wanted = list(self._without_copies(self._detect(group)))
            for found, document in zip(wanted, self._link(wanted), strict=True):
                kept[found.intake].append(document)
            yield from kept.items()

    def _detect(self, intakes: Sequence[Intake]) -> Iterator[_Found]:
        """Find all names; an alias inside a longer name that is known is no candidate."""
        waiting = [(i, document, found) for i in intakes for document, found in i.waiting]
        cut = [list(split_document(d, self._linker.window)) for _, d, _ in waiting]
        owners = [intake for (intake, _, _), parts in zip(waiting, cut, strict=True) for _ in parts]
        if not owners:
            return
        is_alias = np.stack([self._is_alias[intake] for intake in owners])
        names = iter(self._linker.detect([part for parts in cut for part in parts], is_alias))
        for (intake, document, candidates), parts in zip(waiting, cut, strict=True):
            some = list(islice(names, len(parts)))
            found = _Found(intake, document, candidates, parts, some)
            yield replace(found, candidates=outside_longer(candidates, found.spans))

    def _without_copies(self, every: Iterator[_Found]) -> Iterator[_Found]:
        signatures: dict[str, UInt32] = {}
        for found in every:
            intake, text = found.intake, found.document.text
            intake.decided[LONGER_NAME] += not found.candidates
            if found.candidates:
                if text not in signatures:  # another workspace may want it too
                    signatures[text] = minhash(text)
                is_new = intake.copies.add(found.document, signatures[text]) is None
                intake.decided[COPY] += not is_new
                if is_new:
                    yield found

    def _link(self, wanted: Sequence[_Found]) -> Iterator[Document]:
        """Link the names that are no candidates; those without a sure link are left out."""
        parts = [part for found in wanted for part in found.parts]
        names = [some for found in wanted for some in found.names]
        linked = merge_parts(self._linker.link_found(parts, names))
        for found, result in zip(wanted, linked, strict=True):
            text = found.document.text
            sure = [
                Mention(text[start:end], start, end, entity)
                for start, end, entity, confidence in result.links()
                if entity is not None and confidence >= LEAST_CONFIDENCE
            ]
            others = without_overlaps(sure, found.candidates)
            mentions = sorted([*found.candidates, *others], key=lambda m: (m.start, m.end))
            yield replace(found.document, mentions=tuple(mentions))


def _groups(intakes: Sequence[Intake]) -> Iterator[list[Intake]]:
    """Put workspaces together until what waits in them is enough to be decided at once."""
    group: list[Intake] = []
    for intake in intakes:
        group.append(intake)
        if sum(one.n_characters for one in group) >= MAX_TOGETHER:
            yield group
            group = []
    if group:
        yield group


def outside_longer(
    candidates: Sequence[Mention], names: Sequence[tuple[int, int]]
) -> list[Mention]:
    """Leave out candidates that lie inside a longer name ("Rey" in "Rey Island").

    Candidates and names are in order, each free of overlaps.
    """
    ends = [end for _, end in names]

    def is_inside(candidate: Mention) -> bool:
        at = bisect_right(ends, candidate.start)
        start, end = names[at] if at < len(names) else (candidate.end, candidate.end)
        return (
            start <= candidate.start
            and candidate.end <= end
            and (end - start > candidate.end - candidate.start)
        )

    return [candidate for candidate in candidates if not is_inside(candidate)]
