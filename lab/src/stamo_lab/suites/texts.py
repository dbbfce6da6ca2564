"""The documents of a suite as text: what stands around mentions, and what describes entities.

Every method sees contexts without the words of a conflated group's names; so the words are cut out
of texts too, whatever the vocabulary knows of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from stamo.corpus.tokenizer import tokenize
from stamo.errors import SuiteError
from stamo.features.mentions import FlatCorpus, Surroundings
from stamo.system.files import Bools, Int32, Int64
from stamo_lab.bert import MENTION, CrossEncoder, Description, Example
from stamo_lab.suites.store import Problem, SetName

if TYPE_CHECKING:
    from stamo_lab.suites.encode import LoadedProblem, SuiteData

N_AROUND = 300
"""Characters on either side of a mention that views of the text may look at."""
_MENTIONS_READ = 16
"""Mentions of one training group to read: many groups teach more than many mentions."""
N_LINKS = 2
"""Contexts that describe a known entity without an article; each one costs like an article."""
LABELLED_IN_TRAINING = (4, 14)
"""How many labelled contexts the emerging entity of a training group has; as with |L| = 20."""


@dataclass(frozen=True)
class Library:
    """The documents of one corpus as text, with the place of every mention."""

    texts: pa.ChunkedArray
    documents: Int32  # (M,)
    starts: Int32  # (M,)
    ends: Int32  # (M,)

    @classmethod
    def of(cls, table: pa.Table, flat: FlatCorpus) -> Library:
        """Take texts and places from a table whose mentions are the rows of a flat corpus."""
        mentions = table["mentions"].combine_chunks()
        spans = mentions.flatten()
        lengths = np.diff(mentions.offsets.to_numpy())
        documents = np.repeat(np.arange(len(table), dtype=np.int32), lengths)
        if not np.array_equal(documents, flat.documents):
            raise SuiteError("Text and mentions of the suite do not agree; make the suite again.")
        starts, ends = (spans.field(name).to_numpy() for name in ("start", "end"))
        return cls(table["text"], documents, starts, ends)

    def around(self, row: int, n_characters: int) -> tuple[str, str, str]:
        """Return whole words before a mention, the mention, and whole words after it."""
        text = self.texts[int(self.documents[row])].as_py()
        start, end = int(self.starts[row]), int(self.ends[row])
        first, last = max(0, start - n_characters), end + n_characters
        before, after = text[first:start], text[end:last]
        if first:
            before = before.partition(" ")[2]
        return before, text[start:end], after.rpartition(" ")[0] if last < len(text) else after

    def beginning(self, document: int, n_characters: int) -> str:
        """Return the first words of a document, without what is left of its tables."""
        lines = self.texts[document].as_py().splitlines()
        text = " ".join(line for line in lines if not line.lstrip().startswith(("|", "!", "{")))
        return text[:n_characters].rpartition(" ")[0] if len(text) > n_characters else text

    def surroundings(self, rows: Int64) -> Surroundings:
        """Return where mentions stand, each in a text of its own."""
        parts = [self.around(row, N_AROUND) for row in rows.tolist()]
        return _joined(parts)

    def renamed(self, rows: Int64, name: str, masked: frozenset[str]) -> Surroundings:
        """Return where mentions stand after all of them were renamed to one shared name.

        `masked` are lower-cased words that are cut out of the text around them.
        """
        parts = []
        for row in rows.tolist():
            before, _, after = self.around(row, N_AROUND)
            before, after = cut_words(before, masked), cut_words(after, masked)
            parts.append((f"{before} ", name, f" {after}"))
        return _joined(parts)


def cut_words(text: str, masked: frozenset[str]) -> str:
    """Remove some lower-cased words from a text, and squeeze its white space."""
    words, starts, ends = tokenize(text)
    kept, place = [], 0
    for word, start, end in zip(words, starts.tolist(), ends.tolist(), strict=True):
        if word in masked:
            kept.append(text[place:start])
            place = end
    return " ".join("".join([*kept, text[place:]]).split())


def _joined(parts: list[tuple[str, str, str]]) -> Surroundings:
    starts = np.array([len(before) for before, _, _ in parts], dtype=np.int32)
    lengths = np.array([len(own) for _, own, _ in parts], dtype=np.int32)
    own = np.arange(len(parts), dtype=np.int32)
    return Surroundings(["".join(part) for part in parts], own, starts, starts + lengths)


@dataclass(frozen=True)
class Texts:
    """Writes contexts and descriptions for one suite."""

    data: SuiteData
    n_characters: int = 600
    """Characters on either side of a mention, and half those of a description; more than the
    encoder can read, which cuts by its own tokens."""

    def contexts(self, name: SetName, rows: Int64, masked: frozenset[str]) -> list[str]:
        """Return the text around each mention of a set; the mention itself is `MENTION`."""
        library = self.data.library(name)
        return [self._context(library, row, masked) for row in rows.tolist()]

    def description(self, entity: int, masked: frozenset[str], unseen: Int64) -> Description:
        """Describe a known entity by the beginning of the article about it.

        Where neither the dump nor the documents hold its article, the contexts of its links in
        the dump describe it, but for links in the documents of the mentions `unseen`.
        """
        libraries = (self.data.wiki_library, self.data.web_library)
        for library, (_, number_by_entity) in zip(
            libraries, self.data.phrasebook.sources, strict=True
        ):
            if entity in number_by_entity:
                text = library.beginning(number_by_entity[entity], 2 * self.n_characters)
                return (cut_words(text, masked),)
        flat = self.data.corpora.wiki.flat
        rows = np.flatnonzero(flat.entities == entity)
        rows = rows[~np.isin(flat.documents[rows], flat.documents[unseen])]
        return tuple(
            self._context(self.data.wiki_library, row, masked) for row in rows.tolist()[:N_LINKS]
        )

    def descriptions(self, problem: Problem, masked: frozenset[str]) -> list[Description]:
        """Describe the rivals of a conflated problem."""
        unseen = problem.rows["test-wiki"]
        return [self.description(entity, masked, unseen) for entity in problem.rivals]

    def from_labels(
        self, loaded: LoadedProblem, labelled: Bools, masked: frozenset[str]
    ) -> Description:
        """Describe the emerging entity by the contexts that are labelled as it."""
        chosen = labelled & loaded.learning.is_emerging
        return tuple(self.contexts("W", loaded.problem.rows["W"][chosen], masked))

    def examples(self, rng: np.random.Generator) -> Iterator[Example]:
        """Yield mentions of the training groups, as they would be met in a problem.

        The first entity of a training group is meant as often as an emerging entity; it is
        described by contexts of its other mentions, the others by their articles.
        """
        for problem in self.data.suite.problems:
            if problem.split == "training":
                yield from self._group_examples(problem, rng)

    def _group_examples(self, problem: Problem, rng: np.random.Generator) -> Iterator[Example]:
        masked = self.data.masked_in_text(problem)
        order = rng.permutation(len(problem.rows["W"]))
        rows, gold = problem.rows["W"][order], problem.gold["W"][order]
        read, others = rows[:_MENTIONS_READ], rows[_MENTIONS_READ:]
        others = others[gold[_MENTIONS_READ:] == 0]
        labelled = others[: rng.integers(*LABELLED_IN_TRAINING)]
        rivals = self.descriptions(problem, masked)
        contexts = self.contexts("W", labelled, masked)
        if not contexts or not all(rivals):
            return
        for context, place in zip(self.contexts("W", read, masked), gold.tolist(), strict=False):
            yield Example(context, (tuple(contexts), *rivals), place)

    def _context(self, library: Library, row: int, masked: frozenset[str]) -> str:
        before, _, after = library.around(row, self.n_characters)
        return f"{cut_words(before, masked)} {MENTION} {cut_words(after, masked)}"


Reader = tuple[CrossEncoder, Texts]
"""A fine-tuned cross-encoder with the texts that it reads."""
