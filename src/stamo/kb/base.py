"""The knowledge base: read-only, memory-mapped, opened in constant time (but for its tries).

Entities and aliases are int32 numbers inside; titles and surface forms go in and out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from stamo.corpus.tokenizer import capital
from stamo.errors import KnowledgeBaseError, UnknownEntityError
from stamo.kb.candidates import (
    Candidates,
    CandidateTable,
    normalise_surface,
    normalise_surfaces,
)
from stamo.kb.manifest import ARTICLES_FILE, BACKGROUND, ENTITY_VECTORS, MATCHER, Manifest
from stamo.kb.matching import NameMatcher
from stamo.kb.relatedness import Incidence, shared_articles, wlm
from stamo.kb.storage import Csr, StringTable, VectorTable, open_array, save_array
from stamo.kb.words import word_weights
from stamo.system.files import Bools, Float32, Int32, Int64

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Candidates", "KnowledgeBase"]

ARTICLES_PER_BATCH = 256
_EXTERNAL_TABLE = "external_ids"
EXTERNAL_IDS = "external_id_by_entity.npy"
_EXTERNAL_ENTITIES = "entity_by_external_id.npy"


class KnowledgeBase:
    """What entity linking needs to know of the non-emerging entities; see `open`."""

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, path.name
        self.manifest = manifest = Manifest.load(path)
        manifest.verify(path, index_only=True)
        self.fingerprint = manifest.fingerprint
        missing = {"counted articles", "dimensions"} - manifest.counts.keys()
        if missing:
            raise KnowledgeBaseError(
                f"The knowledge base {path.name!r} does not say its number of "
                f"{' and '.join(sorted(missing))}; build it again."
            )
        self.n_documents = int(manifest.counts["counted articles"])
        """|D|: the number of articles that were counted; held-out ones are not."""
        self.dimensions = int(manifest.counts["dimensions"])
        """Q: the length of word and entity vectors, 0 when the build left them out."""
        self.language = str(manifest.site.get("language", "en")).partition("-")[0]
        """The code of its language without its variant."""
        self.has_external_ids = EXTERNAL_IDS in manifest.files
        """Whether the build was given ids, such as those of Wikidata."""

        self._entities = entities = StringTable.open(path, "entities")
        self.title, self.titles = entities.text, entities.texts
        """The title of one entity, and of many."""
        self.document_frequency: Int32 = open_array(path / "document_frequency.npy")
        """|D(e)| of every entity."""
        self.entity_counts: Int32 = open_array(path / "entity_counts.npy")
        """How many links point to every entity."""
        self.has_article: Bools = open_array(path / "has_article.npy")
        """Whether the dump holds an article on the entity."""
        self.n_entities = len(self.document_frequency)

        self._aliases = aliases = StringTable.open(path, "aliases")
        self.alias, self.aliases = aliases.text, aliases.texts
        """The surface form with a number, and those of many."""
        self.names_with_prefix = aliases.with_prefix
        """Up to so many aliases that begin with a text."""
        self.alias_counts: Int32 = open_array(path / "alias_counts.npy")
        """How many links have every alias as their text."""
        self.alias_documents: Int32 = open_array(path / "alias_documents.npy")
        """In how many articles every alias occurs, linked or not."""
        self.link_probability: Float32 = open_array(path / "link_probability.npy")
        """The share of articles that link an alias among those in which it occurs."""
        self.n_aliases = len(self.alias_counts)
        """The number of surface forms that name an entity."""
        self.by_alias = CandidateTable(
            Csr(open_array(path / "alias_indptr.npy"), open_array(path / "alias_entities.npy")),
            open_array(path / "alias_entity_counts.npy"),
            self.alias_counts,
        )
        """The candidates of aliases by their numbers."""
        self.matcher = NameMatcher.open(path, MATCHER)
        """Finds aliases that links use, and titles of several words, as numbers of aliases."""

        documents = open_array(path / "document_indptr.npy"), open_array(path / "documents.npy")
        self._documents = Csr(*documents)
        contents = (open_array(path / f"content_{part}.npy") for part in ("indptr", "entities"))
        self._contents = Csr(*contents)
        if self.dimensions:
            self.words = StringTable.open(path, "words")
            """The vocabulary."""
            self.word_ids = self.words.find_many
            """The number of each word, -1 where it has no vector."""
            self.word_counts: Int64 = open_array(path / "word_counts.npy")
            """How often each word occurs in the counted articles, shape (V,)."""
            self.background: Float32 = open_array(path / BACKGROUND)
            """The mean vector of running text, shape (Q,)."""

    @classmethod
    def open(cls, path: str | Path) -> KnowledgeBase:
        """Open a knowledge base; of its large files only the sizes are looked at.

        Raises:
            KnowledgeBaseError: It is missing, incomplete, corrupted or of another version.
        """
        return cls(Path(path))

    def __repr__(self) -> str:
        return f"<KnowledgeBase {self.name!r}: {self.n_entities} entities>"

    def verify(self) -> None:
        """Compare every file with its hash in the manifest.

        Raises:
            KnowledgeBaseError: A file has changed since the build.
        """
        self.manifest.verify(self.path)

    # Entities

    def entity_id(self, title: str) -> int:
        """Return the number of the entity with a title, or with a redirect to it.

        Raises:
            UnknownEntityError: There is no such title.
        """
        found = int(self.entity_ids([title])[0])
        if found < 0:
            raise UnknownEntityError(
                f"There is no entity {title!r} in {self.name}; check the spelling with `stamo "
                "show`, use a newer dump or declare it as an emerging entity."
            )
        return found

    def entity_ids(self, titles: Sequence[str]) -> Int32:
        """Return the number of each title or redirect, -1 for unknown ones, shape (n,)."""
        names = [normalise_surface(title.replace("_", " ")) for title in titles]
        ids = self._entities.find_many(names)
        for i in np.flatnonzero(ids < 0).tolist():
            ids[i] = self._find_other(names[i])
        return ids

    def _find_other(self, name: str) -> int:
        for title in dict.fromkeys((name, capital(name))):
            redirect = self._redirects[0].find(title)
            found = int(self._redirects[1][redirect]) if redirect >= 0 else -1
            found = self._entities.find(title) if found < 0 else found
            if found >= 0:
                return found
        return -1

    @cached_property
    def _redirects(self) -> tuple[StringTable, Int32]:
        """Redirects, and the entity of each."""
        targets = open_array(self.path / "redirect_targets.npy")
        return StringTable.open(self.path, "redirects"), targets

    # What entities are called elsewhere

    @cached_property
    def _external(self) -> tuple[StringTable, Int32, Int32]:
        """Ids, the number of each entity's id or -1, and the entity of each id."""
        table = StringTable.open(self.path, _EXTERNAL_TABLE)
        files = (EXTERNAL_IDS, _EXTERNAL_ENTITIES)
        by_entity, entities = (open_array(self.path / file) for file in files)
        return table, by_entity, entities

    def external_ids(self, entities: ArrayLike) -> list[str]:
        """Return the id of each entity elsewhere, empty where none is known."""
        numbers = np.asarray(entities, dtype=np.int64)
        if not self.has_external_ids:
            return [""] * len(numbers)
        table, by_entity, _ = self._external
        numbers = np.asarray(by_entity[numbers])
        known = iter(table.texts(numbers[numbers >= 0]))
        return [next(known) if number >= 0 else "" for number in numbers.tolist()]

    def entities_with_ids(self, external_ids: Sequence[str]) -> Int32:
        """Return the entity of each id, -1 where none has it, shape (n,)."""
        if not self.has_external_ids:
            return np.full(len(external_ids), -1, dtype=np.int32)
        table, _, entities = self._external
        numbers = table.find_many(external_ids)
        numbers[numbers >= 0] = entities[numbers[numbers >= 0]]
        return numbers

    # Aliases

    def alias_id(self, surface: str) -> int:
        """Return the number of a surface form, -1 when it names nothing."""
        return self._aliases.find(normalise_surface(surface))

    def alias_ids(self, surfaces: Sequence[str]) -> Int32:
        """Return the number of each surface form, -1 for unknown ones, shape (n,)."""
        return self._aliases.find_many(normalise_surfaces(list(surfaces)))

    def candidates(self, surface: str) -> Candidates:
        """Return E(m) with counts and priors, empty for an unknown surface form."""
        return self.by_alias.single(self.alias_id(surface))

    def candidate_table(
        self, surfaces: Sequence[str], top: int | None = None
    ) -> tuple[Int32, Float32]:
        """Return the candidates of many surface forms; see `CandidateTable.batch`."""
        return self.by_alias.batch(self.alias_ids(surfaces), top)

    def aliases_of(self, entity: int) -> list[tuple[str, int]]:
        """Return the surface forms of an entity with count(e, m), the most used first."""
        indptr, aliases, counts = self._names
        own = slice(*indptr[entity : entity + 2])
        return list(zip(self.aliases(aliases[own]), counts[own].tolist(), strict=True))

    @cached_property
    def _names(self) -> tuple[Int64, Int32, Int32]:
        """Where the names of each entity begin, the names, and how often each is linked to it."""
        files = ("entity_indptr", "entity_aliases", "entity_alias_counts")
        indptr, aliases, counts = (open_array(self.path / f"{file}.npy") for file in files)
        return indptr, aliases, counts

    # Documents

    def documents(self, entity: int) -> Int32:
        """Return D(e), ascending."""
        return self._documents.row(entity)

    def joint_matrix(self, a: ArrayLike, b: ArrayLike) -> Int32:
        """Count the documents shared by every entity of `a` and every entity of `b`."""
        left, right = self.incidence(a), self.incidence(b)
        joint = np.zeros((len(left.lengths), len(right.lengths)), dtype=np.int32)
        rows, columns, joint_counts = shared_articles(left, right)
        joint[rows, columns] = joint_counts
        return joint

    def incidence(
        self, entities: ArrayLike, groups: Int64 | None = None, n_groups: int = 1
    ) -> Incidence:
        """Return which articles link to which entity, one row for each of the n entities.

        Args:
            entities: Entities, shape (n,).
            groups: A number below `n_groups` for each; every group has articles of its own, so
                that rows of different groups share none. None is one group for all.
            n_groups: How many groups there are.

        Returns:
            Rows of articles, numbered below articles * n_groups.
        """
        articles, lengths = self._documents.gather(np.asarray(entities, dtype=np.int64))
        n_articles = max(len(self._contents.indptr) - 1, 1)
        if groups is not None:
            articles = articles + np.repeat(groups * n_articles, lengths)
        return Incidence(articles, lengths, n_articles * n_groups)

    def related(self, entity: int, n: int) -> tuple[Int32, Float32]:
        """Return the n entities most related to one, best first, with their relatedness."""
        shared, _ = self._contents.gather(self.documents(entity).astype(np.int64))
        others, joint = np.unique(shared, return_counts=True)
        others, joint = others[others != entity], joint[others != entity]
        n_one = np.full(len(others), self.document_frequency[entity], dtype=np.int64)
        scores = wlm(n_one, self.document_frequency[others], joint, self.n_documents)
        # Among equals, an entity seen together more often says more.
        best = np.lexsort((others, -joint, -scores))[:n]
        return others[best].astype(np.int32), scores[best]

    # Vectors

    @cached_property
    def word_weights(self) -> Float32:
        """How much each word says in an entity's context, shape (V,)."""
        return word_weights(self.word_counts)

    @cached_property
    def word_vectors(self) -> VectorTable:
        """Word vectors, centred and at unit norm, shape (V, Q)."""
        return self._vectors("word_vectors.npy")

    def entity_vectors(self) -> VectorTable:
        """Return the closed-form entity vectors, shape (n_entities, Q), at unit norm.

        Raises:
            KnowledgeBaseError: The build did not make them.
        """
        return self._vectors(ENTITY_VECTORS)

    def _vectors(self, file: str) -> VectorTable:
        if file not in self.manifest.files:
            raise KnowledgeBaseError(
                f"The knowledge base {self.name!r} has no {file}: it was built without; build it "
                "again with these vectors."
            )
        return VectorTable(open_array(self.path / file))

    def nearest(self, entity: int, n: int) -> tuple[Int32, Float32]:
        """Return the n entities with the most similar vectors, best first, with the cosine."""
        vectors = self.entity_vectors()
        query = vectors[entity]
        if not query.any():  # an entity without context is near nothing
            return np.empty(0, np.int32), np.empty(0, np.float32)
        scores = np.concatenate([block @ query for _, block in vectors.blocks()])
        scores[entity] = -np.inf
        n = min(n, len(scores) - 1)
        top = np.argpartition(-scores, max(n - 1, 0))[:n]
        top = top[np.lexsort((top, -scores[top]))]
        return top.astype(np.int32), scores[top].astype(np.float32)

    # Articles

    def articles(
        self, *, held_out: bool | None = None, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the articles with their linked mentions, batch by batch in the dump's order.

        Args:
            held_out: Only the held-out articles (True), only the others (False) or all (None).
            columns: Which of document, page_id, title, text, mentions and held_out to read.
        """
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        wanted = None if columns is None else list(columns)
        read = None if wanted is None else [*wanted, *({"held_out"} - set(wanted))]
        try:
            with pq.ParquetFile(self.path / ARTICLES_FILE) as file:
                for batch in file.iter_batches(ARTICLES_PER_BATCH, columns=read):
                    if held_out is not None:
                        batch = batch.filter(pc.equal(batch["held_out"], held_out))
                    if len(batch):
                        yield batch if wanted is None else batch.select(wanted)
        except (pa.ArrowException, OSError) as error:
            raise KnowledgeBaseError(
                f"The file {ARTICLES_FILE} of the knowledge base {self.name!r} cannot be read "
                f"({error}); build the knowledge base again."
            ) from error


def save_external_ids(directory: Path, n_entities: int, entities: Int32, ids: Sequence[str]) -> int:
    """Write the id of each of `entities`; an id or an entity that comes again is left out.

    Returns:
        How many entities have an id.
    """
    number_by_id: dict[str, int] = {}
    by_entity = np.full(n_entities, -1, dtype=np.int32)
    firsts: list[int] = []
    for entity, text in zip(entities.tolist(), ids, strict=True):
        if by_entity[entity] < 0 and text not in number_by_id:
            by_entity[entity] = number_by_id[text] = len(firsts)
            firsts.append(entity)
    StringTable.build(directory, _EXTERNAL_TABLE, list(number_by_id))
    save_array(directory / EXTERNAL_IDS, by_entity, np.int32)
    save_array(directory / _EXTERNAL_ENTITIES, np.array(firsts, dtype=np.int32), np.int32)
    return len(firsts)
