"""The linker: text in, entities out; from files in one call, and in several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stamo.corpus.reading import Chunk, ReadChunk, Unreadable, split_document
from stamo.corpus.types import Document
from stamo.errors import PackError
from stamo.features.base import encode_features
from stamo.features.mentions import UNKNOWN, EncodedMentions, Lexicon, encode, surface_candidates
from stamo.kb.base import KnowledgeBase
from stamo.linking.detect import LinkerSettings, MentionDetector
from stamo.linking.names import MAX_REMEMBERED, known_names, mix_surfaces, name_forms
from stamo.linking.results import (
    NO_PACK,
    LinkedDocument,
    LinkedMention,
    MentionColumns,
    MentionRows,
    Ranking,
    merge_parts,
)
from stamo.linking.texts import (
    MAX_CACHED_WORDS,
    NOTHING_DETECTED,
    Located,
    Remembered,
    content_word,
    flatten_joined,
    join_texts,
)
from stamo.models.base import MASKED, Model
from stamo.models.store import TrainedModel, load_model, without_training
from stamo.packs.pack import PACK_SUFFIX
from stamo.system.files import Bools, Float32, Int64
from stamo.system.processes import (
    Result,
    Workers,
    keep_freed_memory,
    one_thread,
    without_garbage_collection,
)

if TYPE_CHECKING:
    from stamo.features.pile import TextEncoder
    from stamo.linking.packed import PackedEntities
    from stamo.packs.pack import EntityPack

MAX_CANDIDATES = 100
"""Candidates of a mention that are scored, those with the highest priors."""
N_SHOWN = 3
"""Candidates of a mention that are kept, the best first."""
CONTEXT_SHARE = 0.5
"""A scored link is part of the next pass's entity context when it has most of the distribution."""


class Linker:
    """Links the mentions of texts to the entities of a knowledge base.

    Many documents are linked at once: tokenising, searching names, candidates, features and scores
    each run over a whole batch.
    """

    def __init__(
        self,
        kb: KnowledgeBase,
        trained: TrainedModel | None = None,
        packs: Sequence[EntityPack] = (),
        *,
        settings: LinkerSettings = LinkerSettings(),
        extra_aliases: Sequence[str] = (),
        encoder: TextEncoder | None = None,
    ) -> None:
        """Put the parts together.

        Args:
            kb: The knowledge base.
            trained: A model trained with it; None links by prior and relatedness.
            packs: Entities that are known besides those of the knowledge base.
            settings: How to link.
            extra_aliases: Names that are always detected, besides those of the knowledge base.
            encoder: Reads around the names of packs; it may remember what it read.

        Raises:
            ArtifactMismatchError: The model or a pack belongs to another knowledge base or model.
            PackError: Two packs are of one entity.
        """
        keep_freed_memory()
        trained = without_training(kb) if trained is None else trained
        self.kb = kb
        self.trained = trained
        self.settings = settings
        self.tables = trained.tables(kb)  # first: it refuses a model of another knowledge base
        self.packs = tuple(packs)
        self._packed: PackedEntities | None = None
        if packs:
            from stamo.linking.packed import PackedEntities  # with torch, which takes a second

            self._packed = PackedEntities(packs, kb, trained, encoder)
            extra_aliases = [*extra_aliases, *self._packed.aliases]
        self.extra_aliases = tuple(dict.fromkeys(extra_aliases))
        self.words = Remembered(partial(content_word, Lexicon.of(kb)), MAX_CACHED_WORDS)
        """Word ids by word, -1 for unknown words and stop words."""
        self.encoding = replace(trained.encoding, n_candidates=MAX_CANDIDATES)
        self.window = settings.window
        """Characters that are linked together."""
        self.forms = Remembered(partial(name_forms, kb), MAX_REMEMBERED)
        """Other forms of given names; the same names come in batch after batch."""

    @property
    def failed(self) -> frozenset[str]:
        """Entities whose packs could not be scored and are left out."""
        return frozenset(self._packed.failed if self._packed else ())

    def __repr__(self) -> str:
        packs = f" with {len(self.packs)} pack{'s' * (len(self.packs) != 1)}" if self.packs else ""
        return f"<Linker of {self.kb.name!r} by {self.trained.model.name}{packs}>"

    @cached_property
    def detector(self) -> MentionDetector:
        """Finds mentions; made when it is first needed."""
        return MentionDetector(self.kb, self.settings.link_probability, self.extra_aliases)

    def warm_up(self) -> None:
        """Make what is otherwise made at the first use."""
        if self.settings.mentions != "given":
            _ = self.detector

    def link(self, text: str) -> list[LinkedMention]:
        """Link one text."""
        (linked,) = self.link_documents([Document("text", text)])
        return list(linked.mentions)

    def link_documents(self, documents: Iterable[Document]) -> Iterator[LinkedDocument]:
        """Link documents in batches and yield them in their order.

        A document that cannot be linked comes back with an `error`; the others are not affected.
        """
        parts = (part for document in documents for part in split_document(document, self.window))
        yield from merge_parts(self.link_parts(parts))

    def link_parts(
        self, sources: Iterable[ReadChunk], counting: Bools | None = None
    ) -> Iterator[LinkedDocument]:
        """Link a stream of parts of documents, batch by batch, in bounded memory.

        Args:
            sources: The parts.
            counting: Which extra aliases count in each of them, see `locate`.
        """
        done = 0
        for batch in batched(sources, self.settings.batch_size, self.window):
            some = slice(done, done + len(batch))
            done += len(batch)
            yield from self.link_batch(batch, None if counting is None else counting[some])

    def link_batch(
        self, sources: Sequence[ReadChunk], counting: Bools | None = None
    ) -> list[LinkedDocument]:
        """Link one batch; parts that cannot be linked come back with their error.

        In one thread: the arrays are small, and where other processes use the cores, threads
        wait for one another (2,000 documents took seven times as long).

        Args:
            sources: The parts.
            counting: Which extra aliases count in each of them, see `locate`.
        """
        errors = {i: fault for i, s in enumerate(sources) if (fault := fault_of(s)) is not None}
        linked = {
            i: LinkedDocument(sources[i].id, "", error=error, part=sources[i].number)
            for i, error in errors.items()
        }
        rows = [i for i in range(len(sources)) if i not in errors]
        parts = [part for i in rows if isinstance(part := sources[i], Chunk)]
        if not parts:
            return [linked[i] for i in range(len(sources))]
        with one_thread():
            documents = [part.document for part in parts]
            located = self.locate(documents, None if counting is None else counting[rows])
            ranking = self.rank(located)
            confidence: NDArray[np.floating] = ranking.priors
            if self.settings.n_passes > 1:
                shares = ranking.shares.astype(np.float64)
                calibrated = self.trained.calibration.confidence_of(shares)
                confidence = np.where(ranking.candidates >= 0, calibrated, 0.0)
            best, sure = ranking.candidates[:, 0], confidence[:, 0]
            is_linked = sure >= self.settings.threshold
            texts = [document.text for document in documents]
            places = (a.tolist() for a in (located.documents, located.starts, located.ends))
            offsets = np.array([part.offset for part in parts], np.int64)[located.documents]
            columns = MentionColumns(
                surfaces=[texts[d][start:end] for d, start, end in zip(*places, strict=True)],
                starts=located.starts + offsets,
                ends=located.ends + offsets,
                linked=np.where(is_linked, best, UNKNOWN).astype(np.int32),
                sure=sure,
                confidence=confidence,
                ranking=ranking,
                without=np.full(len(best), NO_PACK, np.int32),
                kb=self.kb,
                score_names=score_names(self.trained.model, ranking.leads.shape[1])
                if self.settings.explain
                else (),
            )
            if self._packed is not None:
                columns = self._packed.decide(columns, located, texts, self.settings)
        edges = np.searchsorted(located.documents, np.arange(len(parts) + 1)).tolist()
        for i, part, edge in zip(rows, parts, pairwise(edges), strict=True):
            mentions, text = MentionRows(columns, slice(*edge)), part.document.text
            linked[i] = LinkedDocument(
                part.id, text, mentions, part=part.number, offset=part.offset
            )
        return [linked[i] for i in range(len(sources))]

    def locate(self, documents: Sequence[Document], counting: Bools | None = None) -> Located:
        """Find the mentions of a batch of documents, or take over those that they bring.

        Args:
            documents: The documents.
            counting: Which extra aliases are looked for in each of them, shape (documents, extra
                aliases); those may be short for other names there. By default all are, in all, and
                their candidates are those of the knowledge base.
        """
        kb, choice, extras = self.kb, self.settings.mentions, self.extra_aliases
        given = {
            i: document.mentions
            for i, document in enumerate(documents)
            if choice == "given" or (choice == "auto" and document.mentions)
        }
        joined = join_texts([document.text for document in documents])
        found = NOTHING_DETECTED
        if len(given) < len(documents):
            found = self.detector.detect(joined, counting)
        if given:
            found = found.take(~np.isin(joined.document_of(found.starts), list(given)))
        starts, ends, surfaces = [found.starts], [found.ends], list[str]()
        for i, mentions in given.items():
            spans = np.array([(m.start, m.end) for m in mentions], np.int32).reshape(-1, 2)
            starts.append(joined.joined(i, spans[:, 0]))
            ends.append(joined.joined(i, spans[:, 1]))
            surfaces += [m.surface for m in mentions]
        # The distinct names of all mentions are numbered, given ones first.
        distinct = list(dict.fromkeys(surfaces))
        known = known_names(kb, distinct) if distinct else []
        index = {name: number for number, name in enumerate(dict.fromkeys(known))}
        n_given, number_of = len(index), dict(zip(distinct, map(index.get, known), strict=True))
        given_numbers = np.array([number_of[surface] for surface in surfaces], np.int32)
        # Names known to the knowledge base are told apart by alias, the others by extra alias.
        keys = np.where(found.aliases >= 0, found.aliases, -1 - found.extras)
        used, place = np.unique(keys, return_inverse=True)
        texts = [extras[-1 - key] for key in used[used < 0].tolist()] + kb.aliases(used[used >= 0])
        number_by_key = np.array([index.setdefault(name, len(index)) for name in texts], np.int32)
        numbers = np.append(number_by_key[place], given_numbers)
        names = tuple(index)
        aliases = np.full(len(names), UNKNOWN, dtype=np.int32)
        aliases[number_by_key] = np.maximum(used, UNKNOWN)  # detection knows them already
        fixed = frozenset(extras if counting is None else ())
        if n_given:
            aliases[:n_given] = kb.alias_ids(names[:n_given])
        related = {
            i: self.forms[name] for i, name in enumerate(names[:n_given]) if name not in fixed
        }
        begin, end = np.concatenate(starts), np.concatenate(ends)
        numbers, name_of, mixed = mix_surfaces(
            kb, names, aliases, joined.document_of(begin), numbers, related, fixed
        )
        order = np.argsort(begin, kind="stable")
        table = tuple(map(names.__getitem__, name_of.tolist()))
        return flatten_joined(
            joined,
            begin[order],
            end[order],
            numbers[order],
            table,
            self.words,
            aliases=aliases[name_of],
            mixed=mixed,
        )

    def rank(self, located: Located, is_scored: Bools | None = None) -> Ranking:
        """Rank the candidates of located mentions, pass by pass.

        Mentions with a single candidate are scored only to explain them: there is nothing to rank.

        Args:
            located: The mentions.
            is_scored: Which of them are ranked, all by default; the others keep their order by
                prior, and are part of the entity context of the second pass alone, shape (M,).
        """
        settings, corpus = self.settings, located.corpus
        ids, priors = surface_candidates(corpus, self.kb, None, N_SHOWN)
        spare = ((0, 0), (0, N_SHOWN - ids.shape[1]))
        ids = np.pad(ids, spare, constant_values=UNKNOWN)[corpus.surfaces]
        priors = np.pad(priors, spare)[corpus.surfaces]
        none = np.zeros((len(ids), 2, 0), dtype=np.float32)
        ranking = Ranking(ids, priors, priors, priors, none, none[:, 0])
        if settings.n_passes == 1 or not len(ids):
            return ranking
        least = 1 if settings.explain else 2
        is_ranked = ids[:, least - 1] >= 0
        rows = np.flatnonzero(is_ranked if is_scored is None else is_ranked & is_scored)
        shares = (ids >= 0).astype(np.float32)
        unscored = replace(ranking, scores=np.zeros_like(priors), shares=shares)
        entities = ids[:, 0]
        for left in reversed(range(settings.n_passes - 1)):
            mentions = encode(corpus, self.kb, self.encoding, rows=rows, context_entities=entities)
            ranking = self._score(mentions, unscored, rows, explain=settings.explain and not left)
            sure = ranking.shares[:, 0] >= CONTEXT_SHARE
            entities = np.where(sure, ranking.candidates[:, 0], UNKNOWN)
        return ranking

    def _score(
        self, mentions: EncodedMentions, before: Ranking, rows: Int64, *, explain: bool
    ) -> Ranking:
        """Score all candidates of some mentions and keep the best, in place of those before.

        Mentions with alike numbers of candidates are scored together, so that little is padding.

        Args:
            mentions: The m mentions.
            before: All mentions as they were ranked before.
            rows: Which of them are scored, shape (m,).
            explain: Say what each score adds to the lead of the best.
        """
        model, calibration = self.trained.model, self.trained.calibration
        n_scores = model.n_scores + len(model.extra) if explain else 0
        kept = (before.scores, before.priors, before.shares)
        candidates, (scores, priors, shares) = before.candidates.copy(), (v.copy() for v in kept)
        candidates[rows], scores[rows], priors[rows], shares[rows] = UNKNOWN, 0, 0, 0
        psi_of_best = np.zeros((len(candidates), 2, n_scores), dtype=np.float32)
        leads = np.zeros((len(candidates), n_scores), dtype=np.float32)
        mentions = encode_features(mentions, model.features, self.kb)
        for some, batch in model.batches(mentions, self.tables):
            psi = model.psi(batch)
            values = np.where(batch.mask, model.combine(psi), MASKED)  # (b, c)
            top = np.argsort(-values, axis=1, kind="stable")[:, : candidates.shape[1]]
            distribution = calibration.distribution(values)
            is_real = np.take_along_axis(batch.mask, top, axis=1)
            at, ranked = rows[some], (some[:, None], top)
            where = at[:, None], np.arange(top.shape[1])
            candidates[where] = mentions.candidates[ranked]
            scores[where] = np.where(is_real, np.take_along_axis(values, top, axis=1), 0.0)
            priors[where] = mentions.known["prior"][ranked]
            shares[where] = np.where(is_real, np.take_along_axis(distribution, top, axis=1), 0.0)
            if explain:
                shown, leads[at] = lead_by_score(model, psi, batch.mask, top[:, :2])
                psi_of_best[at, : shown.shape[1]] = shown
        return Ranking(candidates, scores, priors, shares, psi_of_best, leads)


def score_names(model: Model, n_scores: int) -> tuple[str, ...]:
    """Name the scores of a model in their order."""
    names = [*model.score_names, *model.extra]
    names += [f"score {i + 1}" for i in range(len(names), n_scores)]
    return tuple(names[:n_scores])


def lead_by_score(model: Model, psi: Float32, mask: Bools, top: Int64) -> tuple[Float32, Float32]:
    """Return the scores of the best two candidates and what each adds to the lead.

    A linking model combines scores Ψ₁ ... Ψₙ into g. For a mention, the part of score k is

        lead - lead without k,    lead = g(best) - g(runner-up),

    where "without k" gives all candidates of the mention the same Ψₖ: the mean over them. A
    positive part speaks for the best candidate, a negative one for the runner-up. g is not linear,
    so the parts need not add up to the lead.

    Args:
        model: The model.
        psi: Ψ of all candidates, shape (B, C, n).
        mask: Where a candidate stands, shape (B, C).
        top: Columns of the best candidate and the runner-up, shape (B, 2) or (B, 1).

    Returns:
        Ψ of those candidates, shape (B, 2, n) or (B, 1, n), and the parts, shape (B, n), zero
        where there is no runner-up.
    """
    n_scores = psi.shape[-1]
    chosen = np.take_along_axis(psi, top[..., None], axis=1)  # (B, 2, n)
    is_real = np.take_along_axis(mask, top, axis=1)  # (B, 2)
    shown = chosen * is_real[..., None]
    if top.shape[1] < 2:
        return shown, np.zeros((len(psi), n_scores), dtype=np.float32)
    weights = mask[..., None].astype(np.float32)
    mean = (psi * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1)  # (B, n)
    levelled = np.repeat(chosen[:, None], n_scores, axis=1)  # (B, n, 2, n)
    index = np.arange(n_scores)
    levelled[:, index, :, index] = mean.T[..., None]
    best, second = (model.combine(chosen)[:, i] for i in (0, 1))
    level = model.combine(levelled)  # (B, n, 2)
    leads = ((best - second)[:, None] - (level[..., 0] - level[..., 1])) * is_real[:, 1:2]
    return shown, leads


def fault_of(source: ReadChunk) -> str | None:
    """Say why a part cannot be linked, if so.

    It could not be read, or the mentions that it brings overlap or show another text than stands
    there.
    """
    if isinstance(source, Unreadable):
        return source.error
    document = source.document
    ordered = sorted(document.mentions, key=lambda m: (m.start, m.end))
    for left, right in pairwise(ordered):
        if right.start < left.end:
            return (
                f"Document {document.id!r} has overlapping mentions at {left.start}-{left.end} and "
                f"{right.start}-{right.end}; give mentions that do not overlap."
            )
    for mention in ordered:
        text = document.text[mention.start : mention.end]
        if mention.surface != text:
            return (
                f"Document {document.id!r} has a mention {mention.surface!r} at {mention.start}-"
                f"{mention.end}, where its text says {text!r}; count the offsets in characters."
            )
    return None


def batched(
    sources: Iterable[ReadChunk], size: int, n_characters: int
) -> Iterator[list[ReadChunk]]:
    """Group sources into batches of at most `size` parts and twice `n_characters` characters.

    A text of single letters takes some 650 bytes a character while it is searched.
    """
    batch: list[ReadChunk] = []
    length = 0
    for source in sources:
        n = len(source.document.text) if isinstance(source, Chunk) else 0
        if batch and (len(batch) >= size or length + n > 2 * n_characters):
            yield batch
            batch, length = [], 0
        batch.append(source)
        length += n
    if batch:
        yield batch


def map_batches(
    work: Callable[[Sequence[ReadChunk]], list[Result]],
    sources: Iterable[ReadChunk],
    settings: LinkerSettings,
    n_workers: int = 1,
) -> Iterator[list[Result]]:
    """Work on a stream batch by batch, in order, whatever the number of workers.

    The processes share what `work` holds, whose pages are copied only when written to; what it
    makes at its first use is to be made before.

    Args:
        work: Such as `Linker.link_batch`; what it returns is sent back from the worker.
        sources: The documents.
        settings: How large a batch is.
        n_workers: Processes; 1 is the calling process itself.
    """

    def run(batch: Sequence[ReadChunk]) -> list[Result]:
        with without_garbage_collection(), one_thread():
            return work(batch)

    batches = batched(sources, settings.batch_size, settings.window)
    if n_workers == 1:
        yield from map(run, batches)
        return
    with Workers(n_workers, inherited=run) as workers:
        yield from workers.map(run, batches)


def open_linker(
    kb: str | Path,
    model: str | Path | None,
    packs: Sequence[str | Path] = (),
    settings: LinkerSettings = LinkerSettings(),
) -> Linker:
    """Open a knowledge base, a model and entity packs, and put them together.

    Args:
        kb: Directory of the knowledge base.
        model: File of a model trained with it; None links by prior and relatedness.
        packs: Entity packs, or folders of them.
        settings: How to link.

    Raises:
        StamoError: Something is missing, damaged, or does not belong to the others.
    """
    trained = None if model is None else load_model(Path(model))
    base, loaded = KnowledgeBase.open(Path(kb)), []
    if packs:
        from stamo.packs.folder import refuse_twins
        from stamo.packs.pack import EntityPack

        loaded = [(str(path), EntityPack.load(path, base)) for path in pack_files(packs)]
        refuse_twins(loaded)  # by the names of their files
    return Linker(base, trained, [pack for _, pack in loaded], settings=settings)


def pack_files(paths: Iterable[str | Path]) -> list[Path]:
    """List packs, also those of folders, in the order of their names.

    Raises:
        PackError: A path does not exist, or a folder holds no pack.
    """
    found: list[Path] = []
    for path in map(Path, paths):
        inside = sorted(path.glob(f"*{PACK_SUFFIX}")) if path.is_dir() else [path]
        if not path.exists() or not inside:
            what = "no pack in the folder" if path.is_dir() else "no pack or folder of packs"
            raise PackError(f"There is {what} {str(path)!r}; check the path.")
        found += inside
    return found
