"""Small knowledge bases made by the real build, shared by the tests of linking."""

import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import torch

from stamo.build.build import BuildSettings, build_knowledge_base
from stamo.kb.base import KnowledgeBase
from stamo.models.deeped import DeepED
from stamo.models.store import TrainedModel
from stamo.models.yamada import Yamada
from stamo_lab.world import WorldSettings, generate_world
from tests.build.dumps import write_dump

PAGES = {
    "Java": "'''Java''' is an island of [[Indonesia]] with many volcanoes and rice fields.",
    "Java (language)": "'''Java''' is a programming language made by [[Sun Microsystems]]. "
    "Code written in the language runs on a virtual machine. See also [[C++]].",
    "Indonesia": "Indonesia is a country of islands. [[Java]] and [[Sumatra]] are islands with "
    "volcanoes and rice. Its capital lies on [[Java]]. People of [[New York City|New York]] visit.",
    "Sumatra": "Sumatra is an island near [[Java]], in [[Indonesia]], full of volcanoes.",
    "Sun Microsystems": "Sun Microsystems wrote software. Its programming language is "
    "[[Java (language)|Java]]. The compiler of [[Java (language)|Java]] makes code.",
    "C++": "C++ is a programming language. Its compiler makes code, unlike "
    "[[Java (language)|Java]]. It was used at [[Sun Microsystems]] in "
    "[[New York City|New York]].",
    "New York City": "New York City is in the [[United States of America]]. It is not [[York]]. "
    "The [[monetary policy]] is made there. [[東京]] and [[São Paulo]] are larger.",
    "York": "York is a town. [[New York City]] is named after it. It will rain in York.",
    "United States of America": "The United States of America hold [[New York City]]. Their "
    "[[monetary policy]] is known. The [[York City]] club and the [[City Hall]] are in [[York]].",
    "Monetary policy": "The monetary policy of the [[United States of America]] is a policy.",
    "東京": "東京 is a city. [[New York City]] is another one, and [[São Paulo]] a third.",
    "São Paulo": "São Paulo is a city. [[東京]] is another one, with [[O'Neill]] and [[ירושלים]].",
}


@cache
def _kept() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory(prefix="stamo-tests-")


def folder(name: str) -> Path:
    """A folder that is there as long as the tests run."""
    path = Path(_kept().name) / name
    path.mkdir(exist_ok=True)
    return path


def build_wiki(
    folder: Path, language: str, pages: Mapping[str, str], *, dimensions: int = 0
) -> KnowledgeBase:
    """Build a wiki in a language."""
    path = write_dump(folder / f"{language}.xml", pages.items())
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('xml:lang="en"', f'xml:lang="{language}"'), encoding="utf-8")
    settings = BuildSettings(dimensions=dimensions, held_out=0.0, workers=1)
    return KnowledgeBase.open(build_knowledge_base(path, folder / language, settings).path)


@cache
def small_kb() -> KnowledgeBase:
    """Twelve articles: Java is an island more often than a language."""
    return build_wiki(folder("small"), "en", PAGES, dimensions=8)


@cache
def world_kb() -> KnowledgeBase:
    """An invented world with held-out articles."""
    sizes = WorldSettings(
        n_articles=300, n_emerging=1, documents_per_entity=10, background_documents=20
    )
    world = generate_world(sizes, folder("world"))
    settings = BuildSettings(dimensions=20, held_out=0.3)
    path = build_knowledge_base(world.paths.dump_path, folder("world") / "kb", settings).path
    return KnowledgeBase.open(path)


def world_texts() -> Path:
    world_kb()
    return folder("world") / "pile.jsonl"


def untrained(kb: KnowledgeBase, kind: type = DeepED, **report) -> TrainedModel:
    """A model with weights that mostly follow the prior, so that its decisions can be foretold."""
    torch.manual_seed(0)
    model = kind(kb.dimensions)
    first, last = (0.01 * model.phi["combine.0.weight"], model.phi["combine.3.weight"])
    first[:, 0] = abs(first[:, 0]) + 1.0
    phi = {
        **model.phi,
        "combine.0.weight": first,
        "combine.0.bias": 0 * model.phi["combine.0.bias"],
        "combine.3.weight": abs(last) + np.float32(0.1),
    }
    return TrainedModel(model.with_phi(phi), kb.dimensions, kb.fingerprint, report=report)


__all__ = ["DeepED", "Yamada", "small_kb", "untrained", "world_kb", "world_texts"]
