"""How long learning takes: the paper's work on generated documents, phase by phase.

The work is that of the paper's experiments: 50 emerging entities, each with 20 labelled and 1000
unlabelled documents, 12 candidates, 300 dimensions, DeepED, 50 epochs inside each slot. Words are
drawn from a Zipf distribution, so that contexts share words as real ones do.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import psutil
import torch

from stamo.corpus.types import EmergingEntity
from stamo.errors import SettingsError
from stamo.features.embedding import Embedding, MaxMargin
from stamo.features.mentions import EncodedMentions
from stamo.features.pile import Pile, make_pile
from stamo.features.prior import Prior
from stamo.features.relatedness import Relatedness
from stamo.kb.base import KnowledgeBase
from stamo.kb.words import background_vector, word_weights
from stamo.learning.corrected import CorrectedArgs
from stamo.learning.loop import Estimate, Slot, Task, self_train
from stamo.learning.paper import StamoArgs, StamoSteps
from stamo.models.base import PlainScorer
from stamo.models.deeped import DeepED
from stamo.models.tables import Tables
from stamo.system.files import Float32
from stamo.system.processes import Workers
from stamo_lab.bench.usage import timed


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


def generate_task(args: LearnBenchArgs, kb: KnowledgeBase, number: int) -> Task:
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
    torch.manual_seed(args.seed)
    features = (
        Prior(),
        Relatedness(),
        Embedding(max_margin=MaxMargin() if args.max_margin else None),
    )
    model = DeepED(args.dimensions, features).eval().requires_grad_(False)
    pile = make_pile([EmergingEntity("New", ("Name",))], mentions, pairs, n, kb)
    return Task(
        pile=pile,
        labels=(means_it & labelled)[:, None].astype(np.float32),
        labelled=labelled,
        model=model,
        tables=Tables(kb.word_vectors, kb.entity_vectors()),
        kb=kb,
        temperature=0.01,
    )


def _run_entities(args: LearnBenchArgs, numbers: list[int]) -> dict[str, Any]:
    """Learn some entities and sum the seconds of each phase over them, for one slot."""
    torch.set_num_threads(1)
    kb = generate_knowledge_base(args)
    # A small entity first, so that what libraries allocate once is not counted as the entities'.
    self_train(generate_task(replace(args, n_unlabelled=20), kb, 0), StamoArgs(n_slots=1))
    start_memory = psutil.Process().memory_info().rss / 2**20
    phases: dict[str, float] = {}
    once, memory = 0.0, 0.0
    for number in numbers:
        seconds, slots = _run_entity(args, kb, number)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        memory = memory or peak - start_memory
        once += seconds - sum(sum(slot.values()) for slot in slots)
        for slot in slots:
            for phase, spent in slot.items():
                phases[phase] = phases.get(phase, 0.0) + spent / args.n_slots
    return {"phases": phases, "once": once, "memory": memory}


def _run_entity(
    args: LearnBenchArgs, kb: KnowledgeBase, number: int
) -> tuple[float, list[Mapping[str, float]]]:
    """Return the seconds of all slots of one entity, and those of each phase slot by slot."""
    task = generate_task(args, kb, number)
    slots: list[Mapping[str, float]] = []
    settings = _TimedArgs(n_slots=args.n_slots, patience=None)

    def on_slot(slot: Slot) -> None:
        if slot.number:
            slots.append(dict(settings.seconds))
        settings.seconds.clear()

    _, usage = timed(lambda: self_train(task, settings, on_first=on_slot, on_slot=on_slot))
    return usage.seconds, slots


PHASES = {"label": "link", "estimate": "estimate", "fit": "intra", "move": "inter"}
"""The steps of a slot, and what the bench calls them."""


@dataclass(frozen=True)
class _TimedArgs(StamoArgs):
    """The paper's settings with a clock beside each step."""

    seconds: dict[str, float] = field(default_factory=dict)
    """How long each phase last took."""

    def steps(self, task: Task) -> StamoSteps:
        steps = super().steps(task)
        for step in PHASES:
            setattr(steps, step, partial(self._time, step, getattr(steps, step)))
        return steps

    def _time(self, step: str, work: Callable[..., object], *given: object) -> object:
        done, usage = timed(partial(work, *given))
        self.seconds[PHASES[step]] = usage.seconds
        return done


@dataclass(frozen=True)
class LearnBench:
    """What was measured."""

    args: LearnBenchArgs
    seconds_per_slot: float
    """Wall time of one slot of all entities: that of the worker who took longest."""
    seconds_once: float
    """Wall time of what comes before the first slot: preparing W, and θ⁰ with its optimisation."""
    phases: dict[str, float]
    """Seconds of each phase of that slot, summed over the workers."""
    memory_mb: float
    """Peak memory of learning one entity, above that of the process with its libraries."""


def bench_learn(args: LearnBenchArgs) -> LearnBench:
    """Measure one slot of the whole work."""
    parts = [list(range(i, args.n_entities, args.n_workers)) for i in range(args.n_workers)]
    with Workers(args.n_workers) as workers:
        results = list(workers.map(partial(_run_entities, args), parts))
    phases: dict[str, float] = {}
    for result in results:
        for phase, seconds in result["phases"].items():
            phases[phase] = phases.get(phase, 0.0) + seconds
    return LearnBench(
        args=args,
        seconds_per_slot=max(sum(result["phases"].values()) for result in results),
        seconds_once=max(result["once"] for result in results),
        phases=phases,
        memory_mb=max(result["memory"] for result in results),
    )


def bench_default(args: LearnBenchArgs, n_slots: int | None = None) -> tuple[float, int]:
    """Return the seconds that the default reading takes for one entity, and its slots.

    From the encoded W to θ̂(e*); `n_slots` allows more slots than the default reading does.
    """
    torch.set_num_threads(1)
    task = generate_task(args, generate_knowledge_base(args), 0)
    settings = CorrectedArgs() if n_slots is None else CorrectedArgs(n_slots=n_slots)
    slots: list[int] = []
    _, usage = timed(
        lambda: self_train(task, settings, on_slot=lambda slot: slots.append(slot.number))
    )
    return usage.seconds, len(slots)


def bench_per_mention(args: LearnBenchArgs) -> tuple[float, float]:
    """Return seconds to link the pile of one entity: prepared, and one mention at a time.

    The slow way is timed on a sample and scaled up.
    """
    torch.set_num_threads(1)
    task = generate_task(args, generate_knowledge_base(args), 0)
    steps = StamoArgs().steps(task)
    theta = steps.estimate(task.labelled_sample, None)
    fast = _seconds(partial(steps.label, Estimate(theta)))
    sample: Pile = task.pile.take(np.arange(min(200, len(task.pile))))
    plain = PlainScorer(task.model, sample, task.tables, block=1)
    slow = _seconds(partial(plain, theta), n_times=1)
    return fast, slow * len(task.pile) / len(sample)


def _seconds(work: Callable[[], object], n_times: int = 5) -> float:
    work()
    return sum(timed(work)[1].seconds for _ in range(n_times)) / n_times


def growth(args: LearnBenchArgs) -> dict[str, list[tuple[int, float]]]:
    """Return seconds of one slot of one entity as documents, candidates and the KB grow."""
    one = replace(args, n_entities=1, n_workers=1, n_slots=3)
    works = {
        "unlabelled documents": ("n_unlabelled", (250, 1000, 4000, 10_000)),
        "candidates": ("n_candidates", (3, 12, 48)),
        "entities in the knowledge base": ("n_kb_entities", (20_000, 200_000)),
    }

    def seconds(**size: Any) -> float:
        return bench_learn(replace(one, **size)).seconds_per_slot

    return {
        name: [(n, seconds(**{field: n})) for n in sizes] for name, (field, sizes) in works.items()
    }
