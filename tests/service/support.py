"""A service on a small real knowledge base and a folder of workspaces."""

import re
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import uvicorn

from stamo.build.build import BuildSettings, build_knowledge_base
from stamo.corpus.types import Document, EmergingEntity, Mention
from stamo.kb.base import KnowledgeBase
from stamo.linking.results import (
    Contribution,
    LinkedDocument,
    LinkedMention,
    Reason,
    ScoredCandidate,
)
from stamo.models.deeped import DeepED
from stamo.models.store import TrainedModel, load_model
from stamo.packs.pack import EntityPack
from stamo.service.app import create_app
from stamo.service.linking import LinkPool
from stamo.workspace.folder import Workspace

ENTITY = EmergingEntity("Rey Skywalker", ("Rey",))
KNOWN = ("Rey (given name)", "Lana Del Rey", "Rey, Iran")
"""What else the name may mean, the most frequent first."""
PAGES = {
    KNOWN[0]: "'''Rey''' is a name of [[Spain|Spanish]] kings; see also [[Lana Del Rey|Rey]].",
    KNOWN[1]: "A singer, called [[Rey (given name)|Rey]] by some, not [[Rey, Iran|Rey]].",
    KNOWN[2]: "'''Rey''' is a city near [[Tehran]]; see also [[Rey (given name)|Rey]].",
    "Tehran": "The capital lies north of [[Rey, Iran|Shahr-e Rey]]; [[Lana Del Rey|Rey]] sang.",
    "Spain": "A country in which [[Rey (given name)|Rey]] means king; it is far from [[Tehran]].",
    "Paris": "A city in which [[Rey (given name)|Rey]] is no king; far from [[Spain]].",
    "Kings": " ".join(f"[[King {i}|Tenth]]" for i in range(2, 15)),
}
CHANGE = {"X-Stamo": "1"}
HOST = "127.0.0.1:8017"
HOSTILE = (
    '<script>window.hacked = 1</script><img src=x onerror="window.hacked = 2"> &lt;b&gt; '
    "javascript:alert(1) </article></main><svg onload='window.hacked = 3'> "
)


@cache
def built():
    """A folder with a knowledge base and a model that was never trained, and both opened."""
    folder = Path(mkdtemp(prefix="stamo-service-"))
    pages = "".join(
        f"<page><title>{title}</title><ns>0</ns><id>{i}</id><revision><text>{text}</text>"
        "</revision></page>"
        for i, (title, text) in enumerate(PAGES.items(), 1)
    )
    (folder / "dump.xml").write_text(f"<mediawiki>{pages}</mediawiki>")
    words = np.array(["a", "city", "near", "king", "country", "capital", "far", "means"])
    vectors = np.random.default_rng(0).standard_normal((8, 6))
    np.savez(folder / "vectors.npz", words=words, vectors=vectors)
    settings = BuildSettings(vectors=folder / "vectors.npz", held_out=0.0, workers=1)
    build_knowledge_base(folder / "dump.xml", folder / "kb", settings)
    kb = KnowledgeBase.open(folder / "kb")
    trained = TrainedModel(DeepED(kb.dimensions), kb.dimensions, kb.fingerprint)
    trained.save(folder / "model.safetensors")
    return folder, kb, load_model(folder / "model.safetensors")


def make_app(root, linker=None, **options):
    """The real service on a folder of workspaces; with a linker, texts are linked by that."""
    _, kb, trained = built()
    app = create_app(kb, trained, root / "packs", root, **options)
    if linker is not None:
        service = app.state.service
        service.linker = linker
        service.pool = LinkPool(linker, service.limits)
    return app


class WordLinker:
    """Links every capitalised word to itself; what a text asks for, it does."""

    def __init__(self):
        self.began, self.go_on = threading.Event(), threading.Event()
        self.batches = []

    def reload(self):
        """There is nothing to read again."""

    def link_documents(self, documents):
        documents = list(documents)
        self.batches.append([document.text for document in documents])
        for document in documents:
            if "explode" in document.text:
                raise RuntimeError("a secret of the server")
            if "wait" in document.text:
                self.began.set()
                self.go_on.wait(20)
            found = map(_linked, re.finditer(r"\b[A-Z][a-z]+\b", document.text))
            yield LinkedDocument(document.id, document.text, tuple(found))


def _linked(found):
    word = found.group()
    sure = len(word) / 10
    candidates = (
        ScoredCandidate(word, sure, 1.0, 0.6),
        ScoredCandidate(f"{word} (film)", 1 - sure, 0.5, 0.4),
    )
    why = (
        Contribution("prior", 0.6, 0.4, 0.2),
        Contribution("context words", 0.3, 0.5, -0.4),
        Contribution("coherence", 0.8, 0.1, 0.9),
    )
    if word == "Rey":
        return LinkedMention(
            word,
            found.start(),
            found.end(),
            "Rey Skywalker",
            sure,
            candidates,
            why,
            without_packs="Lana Del Rey",
            in_pack=True,
            reasons_for="Rey Skywalker",
            reasons=(Reason("words", "“desert”", 0.9), Reason("sentence", "", -0.4)),
        )
    entity = None if word == "Nobody" else word
    return LinkedMention(word, found.start(), found.end(), entity, sure, candidates, why)


def make_pack():
    """A pack of the small knowledge base."""
    _, kb, trained = built()
    return EntityPack.project(
        EmergingEntity("Rey Skywalker", ("Rey", "Scavenger of Jakku")),
        kb,
        priors=[0.25, 1.0],
        neighbours=[0, 2],
        relatedness=[0.25, 0.5],
        vector=np.ones(kb.dimensions),
        model_fingerprint=trained.fingerprint,
    )


def make_document(number, text=None):
    text = text or (
        f"Report {number}. The pilots waited at the outpost for hours. In the evening Rey came "
        f"back from the desert with {number} old parts, and the junk dealer gave her a portion."
    )
    start = text.index("Rey")
    return Document(
        f"doc-{number:02d}", text, (Mention("Rey", start, start + 3),), f"News {number}"
    )


def make_workspace(root, name="rey", n_documents=30, documents=None, entity=ENTITY):
    at = datetime(2026, 1, 2, tzinfo=UTC)
    workspace = Workspace.create(root / name, entity, created_by="Ada", at=at)
    documents = documents or [make_document(i) for i in range(n_documents)]
    workspace.documents.append(documents, state={}, complete=True)
    return workspace


@contextmanager
def running(app, **options):
    """Serve an application on a free port in a thread; yield its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none", **options))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        while not server.started:
            if not thread.is_alive():
                raise RuntimeError("the server did not start")
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)
        listener.close()


class ServerProcess:
    """The same service in a process of its own, so that it can be killed."""

    def __init__(self, root: Path) -> None:
        folder = built()[0]
        command = [sys.executable, "-m", "stamo", "serve", "--kb", folder / "kb", "--port", "0"]
        command += ["--model", folder / "model.safetensors", "--workspaces", root]
        self.process = subprocess.Popen(
            [*map(str, command)], stdout=subprocess.PIPE, text=True, cwd=folder
        )
        self.address = self.process.stdout.readline().split()[2]

    def kill(self) -> None:
        """End the process as `kill -9` does."""
        self.process.kill()
        self.process.wait(20)
        self.process.stdout.close()
