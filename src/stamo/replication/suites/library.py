"""The documents of a suite as text, and what stands around their mentions.

Every method sees contexts without the words of a conflated group's names; so the words are cut out
of texts too, whatever the vocabulary knows of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from stamo.corpus.tokenizer import tokenize
from stamo.errors import SuiteError
from stamo.features.encoding import FlatCorpus
from stamo.features.surroundings import Surroundings
from stamo.replication.suites.store import stable_hash
from stamo.system.arrays import Int32, Int64

N_AROUND = 300
"""Characters on either side of a mention that views of the text may look at."""


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

    def renamed(
        self, rows: Int64, name: str, masked: frozenset[str], inside: float
    ) -> Surroundings:
        """Return where mentions stand after all of them were renamed to one shared name.

        Args:
            rows: The mentions.
            name: What stands in their place.
            masked: Words to cut out of the text around them, lower-cased.
            inside: Share of the mentions of several words that stay inside a longer name: only
                their first or their last word is renamed.
        """
        parts = []
        for row in rows.tolist():
            before, own, after = self.around(row, N_AROUND)
            before, after = cut_words(before, masked), cut_words(after, masked)
            is_inside = stable_hash(f"inside {row}", 1000) < 1000 * inside
            first, last = rest_of_name(own) if is_inside else ("", "")
            parts.append((f"{before} {first}".rstrip() + " ", name, f" {last} {after}"))
        return _joined(parts)


def rest_of_name(name: str) -> tuple[str, str]:
    """Return the words before and after the one that is renamed: by lot the first or the last."""
    words = name.split()
    if len(words) < 2:
        return "", ""
    is_first = stable_hash(f"renamed {name}", 2)
    return ("", " ".join(words[1:])) if is_first else (" ".join(words[:-1]), "")


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
