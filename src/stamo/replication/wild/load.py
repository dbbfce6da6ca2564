"""A problem of real text as arrays: its pile encoded once, with the row of each judged mention."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace

import numpy as np

from stamo.corpus.types import Corpus
from stamo.features.encoding import EMERGING, OTHER, UNKNOWN
from stamo.features.pile import Pile, TextEncoder
from stamo.kb.base import KnowledgeBase
from stamo.learning.learn import encode_pile
from stamo.learning.loop import Task
from stamo.replication.wild.suite import WildProblem, WildSuite
from stamo.system.arrays import Bools, Int32, Int64

_END_OF_SENTENCE = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]?[A-Z0-9])|\n+")
CHARACTERS_BESIDE = 400
"""Of each sentence on either side: a table has no full stops."""


@dataclass(frozen=True)
class LoadedWild:
    """The task of one problem, without any label, and what was judged of its pile."""

    problem: WildProblem
    corpus: Corpus
    task: Task
    rows: Int64  # (n,) mention of the pile that was judged
    gold: Bools  # (n,) whether it means the entity
    senses: Int32  # (n,) the emerging entity, a known candidate, or neither

    @property
    def pile(self) -> Pile:
        """The candidate mentions."""
        return self.task.pile

    def label(self, chosen: Int64) -> Task:
        """Return the task with some of the judged mentions labelled, and all that share their vote.

        Args:
            chosen: Places among the judged mentions.
        """
        _, vote, _ = self.pile.votes
        gold_of_vote = np.full(int(vote.max(initial=0)) + 1, UNKNOWN, dtype=np.int64)
        gold_of_vote[vote[self.rows[chosen]]] = self.senses[chosen]
        gold = gold_of_vote[vote].astype(np.int32)
        pile = replace(self.pile, mentions=replace(self.pile.mentions, gold=gold))
        labels = (gold == EMERGING)[:, None].astype(np.float32)
        return replace(self.task, pile=pile, labels=labels, labelled=gold != UNKNOWN)

    def windows(self, n_beside: int) -> list[str]:
        """Return the sentence of each judged mention, with some sentences on each side."""
        documents = {document.id: document for document in self.corpus}
        found = []
        for judged in self.problem.judged:
            document = documents[judged.document]
            mention = document.mentions[judged.mention]
            found.append(sentence_window(document.text, mention.start, mention.end, n_beside))
        return found


def load_wild(
    suite: WildSuite,
    number: int,
    kb: KnowledgeBase,
    encoder: TextEncoder | None = None,
    *,
    about: bool = True,
) -> LoadedWild:
    """Read and encode the pile of one problem, with or without the line about its entity."""
    problem, corpus = suite.problems[number], suite.corpus(number)
    entity = problem.entity if about else replace(problem.entity, about="")
    task = encode_pile([entity], corpus, kb, suite.trained, encoder=encoder)
    row_by_key = {
        key: row
        for row, key in enumerate(
            (document.id, index)
            for document in corpus
            for index, mention in enumerate(document.mentions)
            if mention.surface in problem.aliases
        )
    }
    rows = np.array([row_by_key[j.document, j.mention] for j in problem.judged], dtype=np.int64)
    gold = np.array([j.is_entity for j in problem.judged], dtype=bool)
    named = kb.entity_ids([j.sense for j in problem.judged])
    known = (task.pile.mentions.candidates[rows] == named[:, None]).any(axis=1) & (named >= 0)
    senses = np.where(gold, EMERGING, np.where(known, named, OTHER)).astype(np.int32)
    return LoadedWild(problem, corpus, task, rows, gold, senses)


def sentence_window(text: str, start: int, end: int, n_beside: int = 1) -> str:
    """Return the sentence of a mention, with some sentences on each side."""
    most = CHARACTERS_BESIDE * (n_beside + 1)
    first, last = max(0, start - 2 * most), min(len(text), end + 2 * most)
    ends = (match.end() + first for match in _END_OF_SENTENCE.finditer(text[first:last]))
    cuts = [first, *ends, last]
    low = cuts[max(0, bisect_right(cuts, start) - 1 - n_beside)]
    high = cuts[min(len(cuts) - 1, bisect_left(cuts, end) + n_beside)]
    return text[max(low, start - most) : min(high, end + most)].strip()
