"""The knowledge base: read-only, memory-mapped, opened in constant time (but for its tries).

Entities and aliases are int32 numbers inside; titles and surface forms go in and out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stamo.corpus.tokenizer import capital
from stamo.corpus.types import compose_name
from stamo.errors import KnowledgeBaseError, UnknownEntityError
from stamo.kb.manifest import ARTICLES_FILE, BACKGROUND, ENTITY_VECTORS, MATCHER, Manifest
from stamo.kb.relatedness import Incidence, shared_articles, wlm
from stamo.kb.storage import StringTable, VectorTable, expand, open_array, save_array
from stamo.system.files import Bools, Float32, Float64, Int32, Int64

if TYPE_CHECKING:
    import pyarrow as pa

    from stamo.kb.matching import NameMatcher
    from stamo.kb.search import NameSearch

ARTICLES_PER_BATCH = 256
_EXTERNAL_TABLE = "external_ids"
EXTERNAL_IDS = "external_id_by_entity.npy"
_EXTERNAL_ENTITIES = "entity_by_external_id.npy"

STOP_WORD_FREQUENCY = 1e-3
"""A word above this share of the running text is a stop word: about 100 words in English."""

LEAST_STOP_COUNT = 10
"""A word that occurs no more often is no stop word, however short the text."""

SMOOTHING = 1e-3
"""a in the word weight a / (a + p(w)).

Held-out links hardly distinguish the weights: with a in 1e-2..1e-5, no weights, sqrt or log, the
accuracy on ambiguous mentions stays within 86.3..86.5 % (prior alone 84.4 %).
"""

STOP_FREQUENCY = 2e-3
"""Share of the running text above which a word carries no weight at all."""

_BLOCK_ROWS = 1 << 12


def normalise_surface(surface: str) -> str:
    """Bring a surface form into the form in which aliases are kept: NFC, single spaces."""
    return compose_name(" ".join(surface.split()))


def normalise_surfaces(surfaces: list[str]) -> list[str]:
    """Normalise many surface forms; one look at all of them together tells what needs work."""
    joined = "|".join(surfaces)
    is_tidy = (
        joined.isprintable()  # then a space is the only white space in it
        and "  " not in joined
        and "| " not in joined
        and " |" not in joined
        and joined.strip(" ") == joined
    )
    if is_tidy and joined.isascii():
        return surfaces
    if not is_tidy:
        return list(map(normalise_surface, surfaces))
    return list(map(compose_name, surfaces))


@dataclass(frozen=True, slots=True)
class Candidates:
    """The candidate entities of a mention, the most linked first."""

    ids: Int32
    counts: Int32
    """count(e, m): how often the surface links to the entity."""
    priors: Float32
    """P(e | m); they sum to one."""

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True, eq=False)
class CandidateTable:
    """E(m) and count(e, m) of every alias, or of names that may mean several aliases."""

    _indptr: Int64  # (aliases + 1,) where the candidates of each alias begin
    _entities: Int32
    _counts: NDArray[Any]  # of each of the entities
    _totals: NDArray[Any]  # of each alias

    @property
    def n_candidates(self) -> Int64:
        """How many entities each alias may mean, shape (n_aliases,)."""
        return np.diff(self._indptr)

    def single(self, alias: int) -> Candidates:
        """Return the candidates of one alias, none for -1."""
        begin, end = self._indptr[alias : alias + 2] if alias >= 0 else (0, 0)
        priors = self.batch(np.array([alias]))[1][0, : end - begin]
        return Candidates(self._entities[begin:end], self._counts[begin:end], priors)

    def batch(self, aliases: NDArray[Any], top: int | None = None) -> tuple[Int32, Float32]:
        """Return the candidates of many aliases at once.

        Args:
            aliases: Alias numbers, -1 for unknown ones, shape (n,).
            top: How many candidates to give for each at most; all of them by default.

        Returns:
            Entities, shape (n, C) with no more columns than needed, padded with -1, and their
            priors count / total, or the same for all when no link uses the alias, padded with 0.
        """
        known = np.flatnonzero(np.asarray(aliases) >= 0)
        rows = np.asarray(aliases, dtype=np.int64)[known]
        begin = self._indptr[rows]
        n_all = np.asarray(self._indptr[rows + 1] - begin, dtype=np.int64)
        widest = int(n_all.max(initial=1))
        top = widest if top is None else min(top, widest)
        n_taken = np.minimum(n_all, top)
        places = expand(begin, n_taken)
        total = np.repeat(self._totals[rows], n_taken)
        uniform = np.repeat(1.0 / np.maximum(n_all, 1), n_taken)
        ids = np.full((len(aliases), top), -1, dtype=np.int32)
        priors = np.zeros((len(aliases), top), dtype=np.float32)
        at = np.repeat(known, n_taken), places - np.repeat(begin, n_taken)
        ids[at] = self._entities[places]
        priors[at] = np.where(total > 0, self._counts[places] / np.maximum(total, 1), uniform)
        return ids, priors

    def counts(self, aliases: Int32, entities: Int32) -> Int64:
        """Return count(e, m) for pairs of alias and entity, 0 where either is -1, shape (n,)."""
        known = np.flatnonzero((aliases >= 0) & (entities >= 0))
        begin, end = (self._indptr[aliases[known].astype(np.int64) + i] for i in (0, 1))
        lengths = end - begin
        places = expand(begin, lengths)
        is_meant = self._entities[places] == np.repeat(entities[known], lengths)
        counts = np.where(is_meant, self._counts[places], 0)
        row = np.repeat(known, lengths)
        return np.bincount(row, weights=counts, minlength=len(aliases)).astype(np.int64)

    def mix(
        self, rows: Int64, aliases: Int32, weights: Float64, n_rows: int, top: int
    ) -> CandidateTable:
        """Join the candidates of several aliases, each with a weight, into the rows of a table.

        Args:
            rows: The row that each alias adds to, shape (n,).
            aliases: Alias numbers, shape (n,).
            weights: Each alias adds its priors times this; a row is then divided by its sum.
            n_rows: How many rows there are.
            top: Candidates of each alias that are looked at.

        Returns:
            A table of the rows, the likeliest candidates first, with shares as counts.
        """
        used, place = np.unique(aliases, return_inverse=True)
        ids, priors = self.batch(used, top)
        ids, values = ids[place], priors[place] * weights[:, None]
        real = ids >= 0
        keys = (rows[:, None] * np.int64(1 << 32) + ids)[real]
        found, which = np.unique(keys, return_inverse=True)
        mass = np.bincount(which, weights=values[real], minlength=len(found))
        row = found >> 32
        order = np.lexsort((-mass, row))
        row, mass = row[order], mass[order]
        total = np.bincount(row, weights=mass, minlength=n_rows)
        indptr = np.searchsorted(row, np.arange(n_rows + 1))
        entities = (found[order] & 0xFFFFFFFF).astype(np.int32)
        shares = (mass / np.where(total > 0, total, 1.0)[row]).astype(np.float32)
        return CandidateTable(indptr, entities, shares, np.ones(n_rows, np.float32))


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
        if self.has_external_ids:
            self._external_ids = StringTable.open(path, _EXTERNAL_TABLE)
            self._id_by_entity: Int32 = open_array(path / EXTERNAL_IDS)
            self._entity_by_id: Int32 = open_array(path / _EXTERNAL_ENTITIES)

        self._entities = entities = StringTable.open(path, "entities")
        self.title, self.titles = entities.text, entities.texts
        """The title of one entity, and of many."""
        self._redirects = StringTable.open(path, "redirects")
        self._redirect_targets: Int32 = open_array(path / "redirect_targets.npy")
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
            open_array(path / "alias_indptr.npy"),
            open_array(path / "alias_entities.npy"),
            open_array(path / "alias_entity_counts.npy"),
            self.alias_counts,
        )
        """The candidates of aliases by their numbers."""
        self._name_indptr: Int64 = open_array(path / "entity_indptr.npy")
        self._names: Int32 = open_array(path / "entity_aliases.npy")
        self._name_counts: Int32 = open_array(path / "entity_alias_counts.npy")

        self._document_indptr: Int64 = open_array(path / "document_indptr.npy")
        self._documents: Int32 = open_array(path / "documents.npy")
        self._content_indptr: Int64 = open_array(path / "content_indptr.npy")
        self._contents: Int32 = open_array(path / "content_entities.npy")
        if self.dimensions:
            self.words = StringTable.open(path, "words")
            """The vocabulary."""
            self.word_ids = self.words.find_many
            """The number of each word, -1 where it has no vector."""
            self.word_counts: Int64 = open_array(path / "word_counts.npy")
            """How often each word occurs in the counted articles, shape (V,)."""
            self.background: Float32 = open_array(path / BACKGROUND)
            """The mean vector of running text, shape (Q,)."""
            self.word_vectors = VectorTable(open_array(path / "word_vectors.npy"))
            """Word vectors, centred and at unit norm, shape (V, Q)."""

    @classmethod
    def open(cls, path: str | Path) -> KnowledgeBase:
        """Open a knowledge base; of its large files only the sizes are looked at.

        Raises:
            KnowledgeBaseError: It is missing, incomplete, corrupted or of another version.
        """
        return cls(Path(path))

    def __repr__(self) -> str:
        return f"<KnowledgeBase {self.name!r}: {self.n_entities} entities>"

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
        names = normalise_surfaces([title.replace("_", " ") for title in titles])
        ids = self._entities.find_many(names)
        lost = np.flatnonzero(ids < 0).tolist()
        if lost:
            spelled = [title for i in lost for title in (names[i], capital(names[i]))]
            found = self._entities.find_many(spelled)
            redirects = self._redirects.find_many(spelled)
            is_redirect = redirects >= 0
            found[is_redirect] = self._redirect_targets[redirects[is_redirect]]
            ids[lost] = np.where(found[::2] >= 0, found[::2], found[1::2])
        return ids

    # What entities are called elsewhere

    def external_ids(self, entities: ArrayLike) -> list[str]:
        """Return the id of each entity elsewhere, empty where none is known."""
        numbers = np.asarray(entities, dtype=np.int64)
        if not self.has_external_ids:
            return [""] * len(numbers)
        ids = self._id_by_entity[numbers]
        known = iter(self._external_ids.texts(ids[ids >= 0]))
        return [next(known) if number >= 0 else "" for number in ids.tolist()]

    def entities_with_ids(self, external_ids: Sequence[str]) -> Int32:
        """Return the entity of each id, -1 where none has it, shape (n,)."""
        if not self.has_external_ids:
            return np.full(len(external_ids), -1, dtype=np.int32)
        entities = self._external_ids.find_many(external_ids)
        entities[entities >= 0] = self._entity_by_id[entities[entities >= 0]]
        return entities

    # Aliases

    @cached_property
    def matcher(self) -> NameMatcher:
        """Finds aliases that links use, and titles of several words, as numbers of aliases."""
        from stamo.kb.matching import NameMatcher  # only finding names in texts needs it

        return NameMatcher.open(self.path, MATCHER)

    def search(self, text: str, n: int) -> Int32:
        """Return up to n entities with these words in their names; see `NameSearch.find`."""
        return self._search.find(text, n)

    @cached_property
    def _search(self) -> NameSearch:
        from stamo.kb.search import NameSearch  # only who types a name needs it

        return NameSearch(self.path)

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
        own = slice(*self._name_indptr[entity : entity + 2])
        names = self.aliases(self._names[own])
        return list(zip(names, self._name_counts[own].tolist(), strict=True))

    # Documents

    def documents(self, entity: int) -> Int32:
        """Return D(e), ascending."""
        return self._documents[slice(*self._document_indptr[entity : entity + 2])]

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
        rows = np.asarray(entities, dtype=np.int64)
        begin = self._document_indptr[rows]
        lengths = self._document_indptr[rows + 1] - begin
        articles = self._documents[expand(begin, lengths)]
        n_articles = max(len(self._content_indptr) - 1, 1)
        if groups is not None:
            articles = articles + np.repeat(groups * n_articles, lengths)
        return Incidence(articles, lengths, n_articles * n_groups)

    def related(self, entity: int, n: int) -> tuple[Int32, Float32]:
        """Return the n entities most related to one, best first, with their relatedness."""
        articles = self.documents(entity).astype(np.int64)
        begin = self._content_indptr[articles]
        shared = self._contents[expand(begin, self._content_indptr[articles + 1] - begin)]
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

    def entity_vectors(self) -> VectorTable:
        """Return the closed-form entity vectors, shape (n_entities, Q), at unit norm.

        Raises:
            KnowledgeBaseError: The build did not make them.
        """
        if not self.dimensions:
            raise KnowledgeBaseError(
                f"The knowledge base {self.name!r} has no {ENTITY_VECTORS}: it was built without; "
                "build it again with these vectors."
            )
        return VectorTable(open_array(self.path / ENTITY_VECTORS))

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


def stop_words(word_counts: Int64, frequency: float = STOP_WORD_FREQUENCY) -> Bools:
    """Mark the words so frequent that they say nothing about what a text is about.

    The counts decide, not a list, so that any language works. In a text of a few words a word
    that occurs a few times is a large share of it and may still say much.

    Args:
        word_counts: How often each word of the vocabulary occurs in running text, shape (V,).
        frequency: Share of the running text above which a word is a stop word.

    Returns:
        True for stop words, shape (V,).
    """
    total = int(word_counts.sum())
    return np.asarray(word_counts > max(frequency * total, LEAST_STOP_COUNT))


def word_weights(
    word_counts: Int64, smoothing: float = SMOOTHING, stop_frequency: float = STOP_FREQUENCY
) -> Float32:
    """Weigh words by how much they say: a / (a + p(w)), and nothing for stop words.

    Args:
        word_counts: How often each word occurs in running text, shape (V,).
        smoothing: The constant a; the smaller, the less frequent words count.
        stop_frequency: Share of the running text above which a word is left out.

    Returns:
        Weights in [0, 1], shape (V,).
    """
    probabilities = word_counts / max(int(word_counts.sum()), 1)
    weights = smoothing / (smoothing + probabilities)
    weights[stop_words(word_counts, stop_frequency)] = 0.0
    return weights.astype(np.float32)


def background_vector(
    word_vectors: Float32 | VectorTable, weights: Float32, word_counts: Int64
) -> Float32:
    """Average the words of all running text: the part of a context that says nothing.

    Args:
        word_vectors: Word vectors, shape (V, Q), of which those without mass are not read.
        weights: Word weights, shape (V,).
        word_counts: How often each word occurs, shape (V,).

    Returns:
        The weighted mean vector, shape (Q,); zeros for an empty corpus.
    """
    mass = word_counts * weights.astype(np.float64)
    total = np.zeros(word_vectors.shape[1])
    # Summed block by block without BLAS, whose order of addition depends on its threads.
    for i in range(0, len(mass), _BLOCK_ROWS):
        rows = i + np.flatnonzero(mass[i : i + _BLOCK_ROWS])
        total += (word_vectors[rows] * mass[rows, None]).sum(axis=0)
    return np.asarray(total / max(mass.sum(), 1e-300), dtype=np.float32)


def entity_directions(sums: Float64, mass: Float64, background: Float32) -> Float32:
    """Turn sums of context words into entity vectors: mean minus background, at unit norm.

    Args:
        sums: Weighted sums of word vectors, shape (n, Q).
        mass: Total word weight behind each sum, shape (n,).
        background: Mean vector of running text, shape (Q,).

    Returns:
        Unit vectors, shape (n, Q); zeros where there is no word or nothing but background.
    """
    has_words = mass > 0
    means = sums / np.where(has_words, mass, 1.0)[:, None] - background
    means[~has_words] = 0.0
    norms = np.sqrt((means * means).sum(axis=1))
    # Below this length rounding decides the direction.
    norms[norms < 1e-9] = np.inf
    return np.asarray(means / norms[:, None], dtype=np.float32)


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
