"""Decide what workspaces keep of the documents that wait in them, many workspaces at once.

    document ─▶ all mentions ─longer name?─▶ copy? ─▶ link the other mentions ─▶ kept

What is the same for all runs over the documents of all workspaces together: a hundred of them with
a document or two each cost no more than one with as many documents.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from stamo.corpus.duplicates import UInt32, minhash
from stamo.corpus.parts import Part
from stamo.corpus.types import Document, Mention
from stamo.errors import WorkspaceError
from stamo.kb.base import KnowledgeBase
from stamo.linking.detection import MentionDetector
from stamo.linking.linker import Linker, batched
from stamo.linking.settings import LinkerSettings
from stamo.linking.texts import join_texts
from stamo.models.store import TrainedModel
from stamo.workspace.intake import CollectSettings, Intake

MAX_TOGETHER = 2_000_000
"""Characters of documents after which no further workspace is added to those decided together."""

Spans = list[tuple[int, int]]
_Found = tuple[Intake, Document]
"""A document with all its mentions, and who wants it."""


class Decider:
    """Finds and links the mentions of documents for all workspaces of a pass."""

    def __init__(
        self,
        intakes: Sequence[Intake],
        kb: KnowledgeBase,
        trained: TrainedModel,
        settings: CollectSettings,
    ) -> None:
        choice = LinkerSettings(batch_size=settings.batch_size, mentions="given")
        self._linker = Linker(kb, trained, settings=choice)
        self._least = settings.context_confidence
        names = dict.fromkeys(alias for intake in intakes for alias in intake.entity.aliases)
        self._detector = MentionDetector(kb, choice.detection, tuple(names))
        self._is_alias = {
            intake: np.array([name in intake.aliases for name in names]) for intake in intakes
        }

    def decide(self, intakes: Sequence[Intake]) -> Iterator[tuple[Intake, list[Document]]]:
        """Yield each workspace with the documents that it keeps of those that wait in it."""
        for group in _groups(intakes):
            kept: dict[Intake, list[Document]] = {intake: [] for intake in group}
            for intake, document in self._link(self._without_copies(self._with_mentions(group))):
                kept[intake].append(document)
            yield from kept.items()

    def _with_mentions(self, intakes: Sequence[Intake]) -> Iterator[_Found]:
        """Find all mentions; an alias inside a longer name that is known is no candidate."""
        waiting = [(i, document, found) for i in intakes for document, found in i.waiting]
        every_span = self._detect([(intake, document) for intake, document, _ in waiting])
        for (intake, document, candidates), spans in zip(waiting, every_span, strict=True):
            yield (
                intake,
                replace(document, mentions=join_mentions(document.text, candidates, spans)),
            )

    def _detect(self, wanted: Sequence[_Found]) -> Iterator[Spans]:
        """Yield the spans of all names in each document, those of its workspace included."""
        done = 0
        parts = (Part(document) for _, document in wanted)
        for batch in batched(parts, self._linker.settings.batch_size, self._linker.window):
            some = wanted[done : done + len(batch)]
            done += len(batch)
            joined = join_texts([document.text for _, document in some])
            is_alias = np.stack([self._is_alias[intake] for intake, _ in some])
            found = self._detector.detect(joined, is_alias)
            documents = joined.document_of(found.starts)
            starts = joined.local(documents, found.starts).tolist()
            ends = joined.local(documents, found.ends).tolist()
            edges = np.searchsorted(documents, np.arange(len(some) + 1)).tolist()
            for begin, end in pairwise(edges):
                yield list(zip(starts[begin:end], ends[begin:end], strict=True))

    def _without_copies(self, found: Iterator[_Found]) -> Iterator[_Found]:
        signatures: dict[str, UInt32] = {}
        for intake, document in found:
            if intake.has_candidate(document):
                if document.text not in signatures:  # another workspace may want it too
                    signatures[document.text] = minhash(document.text)
                if intake.is_new(document, signatures[document.text]):
                    yield intake, document

    def _link(self, found: Iterator[_Found]) -> Iterator[_Found]:
        """Link the mentions that are no candidates; those without a sure link are left out."""
        waiting = list(found)
        shown = (_as_written(document) for _, document in waiting)
        linked = self._linker.link_documents(shown)
        for (intake, document), result in zip(waiting, linked, strict=True):
            if result.error is not None:
                raise WorkspaceError(f"Linking {document.id!r} failed: {result.error}")
            sure = {
                (start, end): entity
                for start, end, entity, confidence in result.links()
                if entity is not None and confidence >= self._least
            }
            aliases = intake.aliases
            mentions = tuple(
                m if m.surface in aliases else Mention(m.surface, *span, sure[span])
                for m in document.mentions
                if (span := (m.start, m.end)) in sure or m.surface in aliases
            )
            yield intake, replace(document, mentions=mentions)


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


def join_mentions(
    text: str, candidates: Sequence[Mention], others: Sequence[tuple[int, int]]
) -> tuple[Mention, ...]:
    """Join candidate mentions with the spans of all names that were detected.

    A candidate that lies inside a longer name is left out ("Rey" in "Rey Island"), and so is a
    name that overlaps a candidate otherwise. Both are in order and free of overlaps.
    """
    starts, ends = [s for s, _ in others], [e for _, e in others]
    kept: list[Mention] = []
    hidden: set[int] = set()
    for candidate in candidates:
        first = bisect_right(ends, candidate.start)
        over = list(range(first, bisect_left(starts, candidate.end, lo=first)))
        length = candidate.end - candidate.start
        if any(
            starts[i] <= candidate.start
            and candidate.end <= ends[i]
            and ends[i] - starts[i] > length
            for i in over
        ):
            continue
        kept.append(candidate)
        hidden.update(over)
    free = [Mention(text[s:e], s, e) for i, (s, e) in enumerate(others) if i not in hidden]
    return tuple(sorted([*kept, *free], key=lambda m: (m.start, m.end)))


def _as_written(document: Document) -> Document:
    # A candidate's surface is the declared alias; linking wants what the text says.
    text = document.text
    mentions = tuple(
        m if m.surface == (said := text[m.start : m.end]) else replace(m, surface=said)
        for m in document.mentions
    )
    return document if mentions == document.mentions else replace(document, mentions=mentions)
