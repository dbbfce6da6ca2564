"""Suites made from the embedded world by the real build, shared by the tests of suites."""

import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

from stamo.build.build import BuildSettings, build_knowledge_base
from stamo.corpus.reading import read_documents
from stamo.kb.base import KnowledgeBase
from stamo.models.store import TrainedModel
from stamo.models.train import TrainingArgs
from stamo_lab.suites.conflated import ConflatedSettings, make_conflated
from stamo_lab.suites.encode import SuiteData
from stamo_lab.suites.natural import NaturalSettings, make_natural
from stamo_lab.suites.store import Suite
from stamo_lab.suites.training import train_suite_model
from stamo_lab.world import WorldSettings, generate_world

SMALL = ConflatedSettings(
    n_entities=8,
    n_rivals=(2, 3),
    n_documents=60,
    n_test=30,
    least_documents=20,
    least_rival_documents=8,
    least_frequency=3,
    least_emerging=8,
    least_mentions=20,
    least_test=2,
    n_training_mentions=400,
    least_link_probability=0.05,
)
SMALL_NATURAL = NaturalSettings(
    n_entities=6,
    frequency=(4, 200),
    ambiguity=(0.1, 0.9),
    least_rival_links=1,
    least_documents=8,
    least_test=1,
)
TRAINING = TrainingArgs(n_pairs=400, n_epochs=3, batch_size=16)


@cache
def folder() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory(prefix="stamo-suites-")


def root() -> Path:
    return Path(folder().name)


@cache
def kb() -> KnowledgeBase:
    sizes = WorldSettings(
        n_articles=300, n_emerging=1, documents_per_entity=30, background_documents=400
    )
    world = generate_world(sizes, root() / "world")
    settings = BuildSettings(dimensions=20, held_out=0.2)
    path = build_knowledge_base(world.paths.dump_path, root() / "kb", settings).path
    return KnowledgeBase.open(path)


def pile_path() -> Path:
    kb()
    return root() / "world" / "pile.jsonl"


@cache
def levels() -> tuple[Suite, ...]:
    settings = [replace(SMALL, level=level) for level in ("easy", "mid", "hard")]
    documents = read_documents([pile_path()])
    made = make_conflated(kb(), documents, root() / "conflated", settings)
    return tuple(made)


@cache
def natural() -> Suite:
    return make_natural(kb(), root() / "natural", SMALL_NATURAL)


@cache
def easy_data() -> SuiteData:
    return SuiteData.load(levels()[0], kb())


@cache
def easy_model() -> TrainedModel:
    return train_suite_model(easy_data(), "deeped", args=TRAINING)
