"""What several tests share: real data where it is there, and a small real world everywhere."""

import os
from collections import Counter
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import settings

from tools.get_tools import find_chromium, find_java

SHARED_DATA = Path(__file__).parent.parent / "shared" / "data"

# One thread each: the test runner already uses every core.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# How long an example takes depends on what else the machine does.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_unconfigure(config):
    """Say in the very last line which tests did not run, and why."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(config, "workerinput"):
        return
    reasons = Counter(_reason(report) for report in reporter.stats.get("skipped", []))
    if reasons:
        parts = "; ".join(f"{reason} ({n})" for reason, n in reasons.most_common())
        reporter.write_line(f"{reasons.total()} tests did not run: {parts}")


def _reason(report) -> str:
    """Why a test was skipped."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real development data; tests that ask for it skip where it is absent."""
    if not (SHARED_DATA / "enwik8.xml.xz").exists():
        pytest.skip("no development data beside this checkout")
    return SHARED_DATA


@pytest.fixture(scope="session", autouse=True)
def _texts_are_encoded_once(tmp_path_factory):
    """The real encoder remembers what it read: many tests learn from the same documents."""
    from stamo.features.encoder import CachedEncoder, load_encoder
    from stamo.models import store

    nowhere = tmp_path_factory.getbasetemp() / "never written.safetensors"

    @lru_cache
    def load(name, adapter=None):
        return CachedEncoder(load_encoder(name, adapter), nowhere)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "_load", load)
        yield


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a Chromium; tests that ask for it skip where none could be had."""
    return find_chromium() or pytest.skip("no Chromium on the path, by Playwright or by apt-get")


@pytest.fixture(scope="session")
def browser(chromium):
    """A running Chromium, one for all tests of a process: Playwright allows no second one."""
    from playwright.sync_api import sync_playwright

    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=flags)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def java() -> str:
    """The path of a Java; tests that ask for it skip where none could be had."""
    return find_java() or pytest.skip("no Java on the path or by apt-get")


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    """The embedded world, made once."""
    from stamo_lab.world import WorldSettings, generate_world

    settings = WorldSettings(n_articles=500, n_emerging=3, documents_per_entity=150)
    return generate_world(settings, tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="session")
def world_kb(world, tmp_path_factory):
    """The knowledge base of the embedded world, with vectors learned from its own text."""
    from stamo.build.build import BuildSettings, build_knowledge_base
    from stamo.kb.base import KnowledgeBase

    path = tmp_path_factory.mktemp("kb") / "world"
    build_knowledge_base(world.paths.dump_path, path, BuildSettings(dimensions=40, held_out=0.3))
    return KnowledgeBase.open(path)


@pytest.fixture(scope="session")
def world_model(world_kb):
    """A DeepED trained on the embedded world."""
    from stamo.models.train import TrainingArgs, train_linking_model

    args = TrainingArgs(n_pairs=2000, n_epochs=4, batch_size=64)
    return train_linking_model(world_kb, "deeped", args)


@pytest.fixture(scope="session")
def world_corpus(world):
    """The pile of the embedded world: gold of every mention, by document."""
    import json

    from stamo.corpus.types import Document, Mention

    gold = {}
    for line in world.paths.gold_path.read_text().splitlines():
        row = json.loads(line)
        gold[row["id"]] = [
            Mention(m["surface"], m["start"], m["end"], m["entity"]) for m in row["mentions"]
        ]
    documents = []
    for line in world.paths.pile_path.read_text().splitlines():
        row = json.loads(line)
        mentions = tuple(sorted(gold.get(row["id"], []), key=lambda m: m.start))
        documents.append(Document(row["id"], row["text"], mentions, row["title"]))
    return tuple(documents)


@pytest.fixture(scope="session")
def small_kb(tmp_path_factory):
    """The knowledge base of `dumps.PAGES`, without vectors and without held-out articles."""
    from stamo.build.build import BuildSettings, build_knowledge_base
    from stamo.kb.base import KnowledgeBase
    from tests.build.dumps import write_dump

    folder = tmp_path_factory.mktemp("small")
    dump = write_dump(folder / "small.xml")
    build_knowledge_base(dump, folder / "kb", BuildSettings(held_out=0, dimensions=0))
    return KnowledgeBase.open(folder / "kb")
