"""How long learning takes: the paper's work on generated documents.

The work is that of the paper's experiments: 50 emerging entities, each with 20 labelled and 1000
unlabelled documents, 12 candidates, 300 dimensions, DeepED, 50 epochs inside each slot. Words are
drawn from a Zipf distribution, so that contexts share words as real ones do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import cast

import numpy as np
import torch

from stamo.corpus.types import EmergingEntity
from stamo.errors import SettingsError
from stamo.features.embedding import Embedding, MaxMargin, Tables
from stamo.features.mentions import EncodedMentions
from stamo.features.pile import Pile, make_pile
from stamo.kb.base import KnowledgeBase, background_vector, word_weights
from stamo.learning.algorithm1 import Slot, StamoArgs, stamo
from stamo.learning.default import DefaultArgs, learn_default
from stamo.learning.learn import CLOSED_FORM
from stamo.models.deeped import DeepED
from stamo.system.files import Float32
from stamo.system.processes import Workers
from stamo_lab.bench.usage import timed

PUBLISHED_SECONDS = 714
"""CPU seconds that the published code needs for one slot of this work on a machine like ours."""


@dataclass(frozen=True)
class LearnBenchArgs:
    """The size of the work."""

    n_entities: int = 50
    n_labelled: int = 20
    n_unlabelled: int = 1000
    n_candidates: int = 12
    dimensions: int = 300
    n_slots: int = 5
    n_kb_entities: int = 20_000
    n_words: int = 50_000
    n_workers: int = 2
    max_margin: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.n_entities, self.n_labelled, self.n_slots, self.n_workers) < 1:
            raise SettingsError("The bench needs at least one entity, label, slot and worker.")


def generate_knowledge_base(args: LearnBenchArgs) -> KnowledgeBase:
    """Generate unit vectors, Zipf word counts and document frequencies.

    It has no more of a knowledge base than what learning looks at.
    """
    rng = np.random.default_rng(args.seed)
    counts = (1e8 / np.arange(10, args.n_words + 10)).astype(np.int64)
    words = _unit(rng, args.n_words, args.dimensions)
    weights = word_weights(counts)
    frequency = rng.integers(1, 2000, args.n_kb_entities).astype(np.int32)
    vectors = _unit(rng, args.n_kb_entities, args.dimensions)
    generated = SimpleNamespace(
        n_documents=1_000_000,
        dimensions=args.dimensions,
        document_frequency=frequency,
        word_vectors=words,
        word_counts=counts,
        word_weights=weights,
        background=background_vector(words, weights, counts),
        entity_vectors=lambda: vectors,
    )
    return cast("KnowledgeBase", generated)


def _unit(rng: np.random.Generator, n: int, q: int) -> Float32:
    rows = rng.standard_normal((n, q), dtype=np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def generate_pile(args: LearnBenchArgs, kb: KnowledgeBase, number: int) -> Pile:
    """Generate the documents of one emerging entity: half of them mean it and share its words."""
    rng = np.random.default_rng([args.seed, number])
    n = args.n_labelled + args.n_unlabelled
    means_it = rng.random(n) < 0.5
    zipf = np.cumsum(kb.word_counts / kb.word_counts.sum())
    words = np.searchsorted(zipf, rng.random((n, 100))).clip(max=args.n_words - 1)
    own = rng.integers(1000, args.n_words, 300)
    topical = (rng.random((n, 100)) < 0.1) & means_it[:, None]
    words = np.where(topical, own[rng.integers(0, 300, (n, 100))], words).astype(np.int32)
    context = rng.integers(0, args.n_kb_entities, (n, 30)).astype(np.int32)
    friends = rng.integers(0, args.n_kb_entities, 60)
    friendly = (rng.random((n, 30)) < 0.1) & means_it[:, None]
    context = np.where(friendly, friends[rng.integers(0, 60, (n, 30))], context).astype(np.int32)
    candidates = rng.choice(args.n_kb_entities, args.n_candidates, replace=False).astype(np.int32)
    shape = (n, args.n_candidates)
    prior = np.full(args.n_candidates, 1 / args.n_candidates, dtype=np.float32)
    mentions = EncodedMentions(
        documents=np.arange(n, dtype=np.int32),
        surfaces=np.zeros(n, dtype=np.int32),
        gold=np.broadcast_to(candidates[:1], n),
        words=words,
        context=context,
        candidates=np.broadcast_to(candidates, shape),
        known={
            "prior": np.broadcast_to(prior, shape).copy(),
            "relatedness": (rng.random(shape) * 0.2).astype(np.float32),
        },
        surface_table=("Name",),
    )
    pairs = np.unique(
        np.stack([np.repeat(np.arange(n), 30), context.ravel()], axis=1).astype(np.int64), axis=0
    )
    labelled = np.arange(n) < args.n_labelled
    tables = Tables(kb.word_vectors, kb.entity_vectors())
    pile = make_pile([EmergingEntity("New", ("Name",))], mentions, pairs, n, kb, tables)
    labels = (means_it & labelled)[:, None].astype(np.float32)
    return replace(pile, labels=labels, labelled=labelled)


def generate_model(args: LearnBenchArgs) -> DeepED:
    """Return a model that was never trained, with the estimator of embeddings that is asked for."""
    embedding = Embedding(max_margin=MaxMargin() if args.max_margin else None)
    return DeepED(args.dimensions, seed=args.seed).with_features({"embedding": embedding})


def _run_entities(args: LearnBenchArgs, numbers: list[int]) -> tuple[float, float]:
    """Learn some entities; return the seconds of a slot of all of them, and of all before it."""
    torch.set_num_threads(1)
    kb = generate_knowledge_base(args)
    settings = StamoArgs(n_slots=args.n_slots, patience=None)
    in_slots = everything = 0.0
    for number in numbers:
        slots: list[Slot] = []
        pile = generate_pile(args, kb, number)
        learn = partial(stamo, pile, generate_model(args), {}, settings, slots.append)
        everything += timed(learn)[1].seconds
        in_slots += sum(slot.seconds for slot in slots)
    return in_slots / args.n_slots, everything - in_slots


def bench_learn(args: LearnBenchArgs) -> dict[str, float]:
    """Measure one slot of the whole work, in several processes, and the default for one entity."""
    parts = [list(range(i, args.n_entities, args.n_workers)) for i in range(args.n_workers)]
    with Workers(args.n_workers) as workers:
        slot, before = zip(*workers.map(partial(_run_entities, args), parts), strict=True)
    ours = sum(slot)
    pile, model = generate_pile(args, generate_knowledge_base(args), 0), generate_model(args)
    slots: list[Slot] = []
    settings = DefaultArgs()
    default = partial(
        learn_default, pile, model, CLOSED_FORM, settings, slots.append, temperature=0.01
    )
    return {
        "seconds of a slot, on the clock": max(slot),
        "seconds of a slot, processor": ours,
        "seconds before the first slot": max(before),
        "published code / ours": PUBLISHED_SECONDS * args.n_entities / 50 / ours,
        "seconds of the default, one entity": timed(default)[1].seconds,
        "slots of the default": len(slots) - 1,
    }
