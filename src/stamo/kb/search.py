"""Find entities by words anywhere in their titles and other names, the most linked first.

Three files beside the arrays of a knowledge base: all words of names one after the other, where
each ends, and for each word the entities that have it in a name, with their links. Words are in
the order of their bytes, so a beginning of a word is one range of rows. They are opened by mapping;
a search costs what its words have in rows. They are made from the rest of the knowledge base and
do not count for its fingerprint; for one without them they are made in a temporary folder.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from stamo.corpus.tokenizer import capital
from stamo.kb.manifest import SEARCH
from stamo.kb.storage import ArrayWriter, StringTable, column_of, open_array
from stamo.system.files import Int32, Int64

FILES = tuple(f"{SEARCH}{name}.npy" for name in ("text", "words", "entities"))
NAMES_AT_ONCE = 65_536
MOST_RANKED = 20_000
"""Rows of a single word that are looked at: the best of them, far more than anybody reads."""
WHOLE_WORD = 4
"""A whole word counts as much as the beginning of one with four times the links."""
_DATABASE: dict[str, Any] = {"memory_limit": "1GB", "threads": 1}
"""Beyond this memory it spills to disk; with one thread its order of rows is fixed."""
_WORD = re.compile(r"[^\W_]+")
_TABLES = """
CREATE TABLE posting (word VARCHAR, entity INT, n INT);
CREATE TABLE alias_word (word VARCHAR, alias INT);
CREATE TABLE candidate (alias INT, entity INT, n INT);
"""
_INDEX = """
CREATE TABLE place AS
SELECT word, entity, CAST(MAX(n) AS INT) AS n
FROM (
  SELECT word, entity, n FROM posting
  UNION ALL
  SELECT word, entity, SUM(n) FROM alias_word JOIN candidate USING (alias) GROUP BY ALL
)
WHERE word <> ''
GROUP BY ALL
"""
"""A word of a title counts for all links of the entity, that of another name for the links of the
names that have it."""


def name_words(text: str) -> list[str]:
    """Return the different words of a name in the form that is compared: no case, no accents."""
    folded = text.casefold()
    if not folded.isascii():
        signs = unicodedata.normalize("NFKD", folded)
        folded = "".join(sign for sign in signs if unicodedata.category(sign)[0] != "M")
    return list(dict.fromkeys(_WORD.findall(folded)))


class NameSearch:
    """Finds entities by words; see `find`."""

    def __init__(self, directory: Path) -> None:
        """Open the index of a knowledge base, or make one that lasts as long as this object."""
        self._entities = StringTable.open(directory, "entities")
        with ExitStack() as stack:
            folder = directory
            if not all((directory / name).exists() for name in FILES):
                made = stack.enter_context(TemporaryDirectory(prefix="stamo-search-"))
                write_search(directory, folder := Path(made))
            # What is mapped stays when its file is removed.
            self._text, self._ends, self._rows = (open_array(folder / name) for name in FILES)

    def find(self, text: str, n: int) -> Int32:
        """Return up to n entities all of whose words begin words of one's names, best first.

        The entity with exactly this title comes first, then those with the most links by such
        names.
        """
        words = name_words(text)
        title = " ".join(text.split())
        first = self._entities.find_many([title, capital(title)])
        if not words:
            return first[first >= 0][:1]
        found = [self._with_word(word) for word in words]
        if len(found) == 1:
            entities, links = found[0]
            if len(links) > MOST_RANKED:
                best = np.argpartition(links, -MOST_RANKED)[-MOST_RANKED:]
                found = [(entities[best], links[best])]
        common = np.unique(found[0][0])
        for entities, _ in found[1:]:
            common = common[np.isin(common, entities)]
        score = np.full(len(common), np.inf)
        for entities, links in found:
            own, is_common = np.zeros(len(common)), np.isin(entities, common)
            np.maximum.at(own, np.searchsorted(common, entities[is_common]), links[is_common])
            score = np.minimum(score, own)
        score[np.isin(common, first)] = np.inf
        return np.asarray(common[np.lexsort((common, -score))[:n]], dtype=np.int32)

    def _with_word(self, word: str) -> tuple[Int32, Int64]:
        """Return entities that have a name with this beginning of a word, and the links of each.

        One that has it in several words comes several times.
        """
        start = word.encode()
        numbers = range(len(self._ends) - 1)
        low = bisect_left(numbers, start, key=self._word)
        high = bisect_left(numbers, start + b"\xff", lo=low, key=self._word)
        begin, end = self._ends[low, 1], self._ends[high, 1]
        entities, links = self._rows[begin:end].T
        links = links.astype(np.int64)
        if low < high and self._word(low) == start:
            links[: self._ends[low + 1, 1] - begin] *= WHOLE_WORD
        return entities, links

    def _word(self, number: int) -> bytes:
        return bytes(self._text[self._ends[number, 0] : self._ends[number + 1, 0]])


def write_search(directory: Path, out: Path) -> None:
    """Make the index of names from the other files of a knowledge base, in bounded memory."""
    import duckdb  # here and below: who searches needs neither
    import pyarrow as pa

    def insert(table: str, columns: str, **values: Any) -> None:
        database.register("rows", pa.table({name: column_of(v) for name, v in values.items()}))
        database.execute(f"INSERT INTO {table} SELECT {columns} FROM rows")

    counts, places = (open_array(directory / f"{n}.npy") for n in ("entity_counts", "alias_indptr"))
    candidates = open_array(directory / "alias_entities.npy")
    links = open_array(directory / "alias_entity_counts.npy")
    each_word = "UNNEST(STRING_SPLIT(words, ' '))"
    with ExitStack() as stack:
        work = stack.enter_context(TemporaryDirectory(dir=out.parent, prefix=".search-"))
        settings = {**_DATABASE, "temp_directory": work}
        database = stack.enter_context(duckdb.connect(config=settings))
        database.execute(_TABLES)
        for numbers, words in _words(directory, "entities"):
            insert(
                "posting", f"{each_word}, entity, n", words=words, entity=numbers, n=counts[numbers]
            )
        for numbers, words in _words(directory, "aliases"):
            first, last = numbers[0], numbers[-1] + 1
            own = slice(places[first], places[last])
            means = np.repeat(numbers, np.diff(places[first : last + 1]))
            insert("alias_word", f"{each_word}, alias", words=words, alias=numbers)
            insert("candidate", "*", alias=means, entity=candidates[own], n=links[own])
        database.execute(_INDEX)
        kinds: Any = ((np.uint8,), (np.int64, 2), (np.int32, 2))
        text, ends, rows = (
            stack.enter_context(ArrayWriter(out / name, *kind))
            for name, kind in zip(FILES, kinds, strict=True)
        )
        ends.append(np.zeros((1, 2)))
        answer = database.execute("SELECT word, COUNT(*) FROM place GROUP BY 1 ORDER BY 1")
        n_rows = 0
        while some := answer.fetchmany(NAMES_AT_ONCE):
            encoded = [word.encode() for word, _ in some]
            sizes = [[len(word), n] for word, (_, n) in zip(encoded, some, strict=True)]
            ends.append(np.add(np.cumsum(sizes, axis=0), [text.n_rows, n_rows]))
            text.append(np.frombuffer(b"".join(encoded), np.uint8))
            n_rows += sum(n for _, n in some)
        ordered = database.sql("SELECT entity, n FROM place ORDER BY word, entity")
        for batch in ordered.to_arrow_reader(NAMES_AT_ONCE):
            rows.append(np.stack([batch["entity"], batch["n"]], axis=1))


def _words(directory: Path, table: str) -> Iterator[tuple[Int32, list[str]]]:
    """Yield the numbers of some strings, and the words of each with spaces between them."""
    strings = StringTable.open(directory, table)
    for start in range(0, len(strings), NAMES_AT_ONCE):
        numbers = np.arange(start, min(start + NAMES_AT_ONCE, len(strings)), dtype=np.int32)
        yield numbers, [" ".join(name_words(name)) for name in strings.texts(numbers)]
