"""Small knowledge bases made by the real build, shared by the tests of linking."""

import tempfile
from functools import cache
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np

from stamo.build.build import BuildSettings, build_knowledge_base
from stamo.kb.base import KnowledgeBase
from stamo.models.deeped import DeepED
from stamo.models.store import TrainedModel
from stamo.models.yamada import Yamada
from stamo_lab.world import WorldSettings, generate_world

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


def write_dump(path: Path, pages: dict[str, str]) -> Path:
    body = "".join(
        f"<page><title>{escape(title)}</title><ns>0</ns><id>{i}</id><revision><id>{i}</id>"
        f"<text>{escape(text)}</text></revision></page>\n"
        for i, (title, text) in enumerate(pages.items(), start=1)
    )
    path.write_text(f"<mediawiki>\n{body}</mediawiki>\n", encoding="utf-8")
    return path


@cache
def _folder() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory(prefix="stamo-tests-")


@cache
def small_kb() -> KnowledgeBase:
    """Twelve articles: Java is an island more often than a language."""
    folder = Path(_folder().name)
    dump_path = write_dump(folder / "small.xml", PAGES)
    settings = BuildSettings(dimensions=8, held_out=0.0)
    return KnowledgeBase.open(build_knowledge_base(dump_path, folder / "small", settings).path)


@cache
def world_kb() -> KnowledgeBase:
    """An invented world with held-out articles."""
    folder = Path(_folder().name)
    sizes = WorldSettings(
        n_articles=300, n_emerging=1, documents_per_entity=10, background_documents=20
    )
    world = generate_world(sizes, folder / "world")
    settings = BuildSettings(dimensions=20, held_out=0.3)
    path = build_knowledge_base(world.paths.dump_path, folder / "world-kb", settings).path
    return KnowledgeBase.open(path)


def world_texts() -> Path:
    world_kb()
    return Path(_folder().name) / "world" / "pile.jsonl"


def untrained(kb: KnowledgeBase, kind: type = DeepED, **report) -> TrainedModel:
    """A model with weights that mostly follow the prior, so that its decisions can be foretold."""
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


__all__ = ["DeepED", "Yamada", "small_kb", "untrained", "world_kb", "world_texts", "write_dump"]
