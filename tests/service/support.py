"""A service on a real folder of workspaces, with a fake linker and a small job."""

import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import uvicorn

from stamo.corpus.types import Document, EmergingEntity, Mention
from stamo.linking.results import (
    Contribution,
    LinkedDocument,
    LinkedMention,
    Reason,
    ScoredCandidate,
)
from stamo.packs.folder import PackFolder
from stamo.packs.pack import EntityPack
from stamo.service.app import create_app
from stamo.service.folders import WorkspaceFolders, candidate_mentions
from stamo.service.jobs import JobRunner
from stamo.service.parts import Limits, ServiceParts
from stamo.service.schemas import Guess
from stamo.service.security import SecuritySettings
from stamo.workspace.folder import Workspace
from stamo.workspace.labels import Choice
from stamo.workspace.queue import one_per_document

ENTITY = EmergingEntity("Rey Skywalker", ("Rey",))
KNOWN = ("Rey (given name)", "Lana Del Rey", "Rey, Iran")
CHANGE = {"X-Stamo": "1"}
BROWSER_FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
HOST = "127.0.0.1:8017"
HOSTILE = (
    '<script>window.hacked = 1</script><img src=x onerror="window.hacked = 2"> &lt;b&gt; '
    "javascript:alert(1) </article></main><svg onload='window.hacked = 3'> "
)


class WordLinker:
    """Links every capitalised word to itself; what a text asks for, it does."""

    def link(self, text):
        if "explode" in text:
            raise RuntimeError("a secret of the server")
        if "sleep" in text:
            time.sleep(0.5)
        return [_linked(found) for found in re.finditer(r"\b[A-Z][a-z]+\b", text)]

    def link_documents(self, documents):
        for document in documents:
            spans = {(m.start, m.end) for m in document.mentions}
            found = [m for m in self.link(document.text) if not spans or (m.start, m.end) in spans]
            yield LinkedDocument(document.id, document.text, tuple(found))


class GateLinker(WordLinker):
    """Tells when it began with a text that waits, and goes on when it is let."""

    def __init__(self):
        self.began = threading.Event()
        self.go_on = threading.Event()

    def link(self, text):
        if "wait" in text:
            self.began.set()
            self.go_on.wait(20)
        return super().link(text)


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


def make_pack(entity="Rey Skywalker", **changes):
    vector = np.full(4, 0.5, np.float32)
    fields = {
        "entity": EmergingEntity(entity, ("Rey",)),
        "priors": np.array([0.25], np.float32),
        "neighbours": np.array([2, 7], np.int32),
        "titles": ("Jakku", "Kylo Ren"),
        "relatedness": np.array([0.25, 0.5], np.float32),
        "vector": vector,
        "kb_fingerprint": "ab" * 32,
        "model_fingerprint": "cd" * 32,
        "history": ({"slot": 1, "flipped": 3},),
        "notes": {"licence": "CC0"},
    }
    return EntityPack(**(fields | changes))


def make_document(number, text=None):
    text = text or (
        f"Report {number}. The pilots waited at the outpost for hours. In the evening Rey came "
        f"back from the desert with {number} old parts, and the junk dealer gave her a portion."
    )
    start = text.index("Rey")
    return Document(
        f"doc-{number:02d}", text, (Mention("Rey", start, start + 3),), f"News {number}"
    )


def make_workspace(root, name="rey", n_documents=30, documents=None):
    at = datetime(2026, 1, 2, tzinfo=UTC)
    workspace = Workspace.create(root / name, ENTITY, created_by="Ada", at=at)
    documents = documents or [make_document(i) for i in range(n_documents)]
    workspace.documents.append(documents, state={}, complete=True)
    return workspace


def describe(surface):
    line = "also Rey, El Rey · with Sierra Leone, Rayy"
    return tuple(Choice(title, title, line) for title in KNOWN)


def guess(document, mention):
    return Guess(KNOWN[1], KNOWN[1], 0.62)


def advise(workspace, corpus, labels):
    """Ask for the mentions in an order that the labels do not change."""
    return one_per_document(key for d in corpus for key in candidate_mentions(workspace, d))


def count_to_ten(name, on_progress):
    for i in range(10):
        on_progress(i / 10, f"slot {i}")
    return f"learned {name}"


def make_parts(root: Path, work: Callable = count_to_ten, **changes):
    fields = {
        "linker": WordLinker(),
        "packs": PackFolder(root / "packs"),
        "workspaces": WorkspaceFolders(root, describe, guess, advise),
        "jobs": JobRunner(root / ".jobs.sqlite", work),
        "security": SecuritySettings(),
        "limits": Limits(link_characters=10_000, link_seconds=5),
        "name": "a small world",
    }
    return ServiceParts(**(fields | changes))


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
        command = [sys.executable, "-m", "tests.service.support", str(root)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent.parent.parent
        )
        self.address = self.process.stdout.readline().strip()

    def kill(self) -> None:
        """End the process as `kill -9` does."""
        self.process.kill()
        self.process.wait(20)
        self.process.stdout.close()


def main():
    """Serve a folder until killed; jobs take a while, so that they can be interrupted."""
    root = Path(sys.argv[1])

    def work(name, on_progress):
        # As learning does, it keeps its slots on disk and goes on behind the last one.
        log = root / "slots.txt"
        done = len(log.read_text().split()) if log.exists() else 0
        for slot in range(done, 20):
            with log.open("a") as file:
                file.write(f"{slot}\n")
            on_progress(slot / 20, f"slot {slot}")
            time.sleep(0.05)
        return "20 slots"

    with running(create_app(make_parts(root, work))) as address:
        sys.stdout.write(address + "\n")
        sys.stdout.flush()
        threading.Event().wait()


if __name__ == "__main__":
    main()
