"""Attack every door of stamo with hostile input: `make campaign`; minutes, seeded, not a test.

Each target runs in a process of its own, so that a crash is a row of the table. A trial fails when
it raises anything but one of our own errors, or takes longer or more memory than is allowed.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import random
import resource
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from stamo.build.build import build_knowledge_base
from stamo.build.settings import BuildSettings
from stamo.corpus.formats import html_process
from stamo.corpus.readers import read_documents
from stamo.corpus.types import Document, EmergingEntity
from stamo.errors import StamoError
from stamo.kb.base import KnowledgeBase
from stamo.linking.linker import Linker
from stamo.linking.packed import PackedLinker
from stamo.models.deeped.model import DeepED
from stamo.models.store import TrainedModel, load_model
from stamo.packs import pack_bytes
from stamo.packs.pack import EntityPack
from stamo.service.security import SecuritySettings, refusal
from stamo.workspace.labels.events import EMERGING_CHOICE, LabelTarget
from stamo.workspace.labels.export import from_jsonl, to_jsonl
from stamo.workspace.labels.store import LabelStore
from stamo.world.generate import generate_world
from stamo.world.settings import WorldSettings

MAX_SECONDS = 10.0
MAX_MEGABYTES = 500

Trial = Callable[[random.Random], object]


@dataclass
class Row:
    """What happened to one target."""

    target: str
    n_trials: int = 0
    n_refused: int = 0
    n_failed: int = 0
    worst_seconds: float = 0.0
    megabytes: int = 0
    first_failure: str = ""


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Change bytes as discs, networks and attackers do."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(len(changed) + 1)
        kind = rng.randrange(5)
        if kind == 0 and at < len(changed):
            changed[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del changed[at : at + rng.choice((1, 4, 100))]
        elif kind == 2:
            changed[at:at] = rng.randbytes(rng.choice((1, 4, 30)))
        elif kind == 3:
            changed[at:at] = changed[: rng.choice((10, 200))]
        else:
            changed[at:at] = rng.choice(TOKENS)
    return bytes(changed)


TOKENS = (
    *(b"\xff\xfe", b"\xed\xa0\x80", b"\0", b"\r\n\r\n", b'{"a":' * 300, b"[" * 3000, b"1e999"),
    *(b"WARC/1.0\r\nContent-Length: 99999999\r\n\r\n", b"Content-Length: -1\r\n", b'"\\ud800"'),
    *(b"<ul>" * 400, b"<li>x" * 400, b"<p><b><i>" * 90, b"<table><a>" * 90, b"NaN", b"\x1b[31m"),
)

SEEDS = {
    "a.jsonl": b'{"id": "d1", "text": "Rey met Finn.", "mentions": [[0, 3]], "title": "T"}\n' * 3,
    "a.html": b"<html><title>T</title><body><ul><li>Rey<p>met <b>Finn</b> x<table><tr><td>y" * 3,
    "a.txt": "Rey met Finn in Zürich.\n\nRey went on.\n".encode(),
    "a.warc": (
        b"WARC/1.0\r\nWARC-Type: response\r\nContent-Length: 68\r\n\r\nHTTP/1.1 200 OK\r\n"
        b"Content-Type: text/html\r\n\r\n<html><p>Rey met Finn now</p>\r\n\r\n"
    )
    * 3,
}


def read_file(folder: Path, name: str, rng: random.Random) -> int:
    """Read a damaged file of one format."""
    path = folder / name
    path.write_bytes(mutate(SEEDS[name], rng))
    return len(list(read_documents([path])))


HTML_PIECES = tuple(
    f"<{tag}>"
    for tag in (
        *("ul", "li", "p", "b", "font size=1", "table", "td", "div", "a", "select", "svg"),
        *("/p", "/b", "/table", "!--x--", "template", "nobr", "button", "h1", "dd", "option"),
    )
)


def read_hostile_html(folder: Path, rng: random.Random) -> int:
    """Read a page of a few patterns, repeated very often."""
    parts = [
        ("".join(rng.choices(HTML_PIECES, k=rng.choice((1, 2, 3)))) + rng.choice(("", "x")))
        * rng.choice((3, 50, 400, 4000, 20_000))
        for _ in range(rng.choice((1, 2, 3)))
    ]
    path = folder / "hostile.html"
    path.write_text("".join(parts)[:400_000])
    return len(list(read_documents([path])))


def make_model(kb: KnowledgeBase) -> TrainedModel:
    """Return a model with random weights."""
    model = DeepED(kb.dimensions).eval().requires_grad_(False)
    return TrainedModel(model, kb.dimensions, kb.fingerprint)


def make_pack(kb: KnowledgeBase, trained: TrainedModel) -> EntityPack:
    """Return a pack with evidence on names of the knowledge base."""
    neighbours = np.arange(5, dtype=np.int32)
    sizes = {"words": kb.dimensions, "context": kb.dimensions, "entities": 5, "scale": 1, "bias": 1}
    groups = {f"evidence-{name}": np.ones(n, np.float32) for name, n in sizes.items()}
    aliases = tuple(kb.aliases(np.arange(2)))
    return EntityPack.project(
        EmergingEntity("New", aliases),
        kb,
        priors=np.full(2, 0.5),
        neighbours=neighbours,
        relatedness=np.full(5, 0.1),
        vector=np.ones(kb.dimensions),
        groups={**groups, "decision-shift": np.zeros(1, np.float32)},
        model_fingerprint=trained.fingerprint,
    )


def link_with_pack(folder: Path, rng: random.Random) -> int:
    """Change a pack's arrays under a right checksum; what is accepted must link."""
    if not _kept:
        _kept["kb"] = KnowledgeBase.open(folder / "kb")
        _kept["model"] = load_model(folder / "model.safetensors")
        _kept["linker"] = Linker(_kept["kb"], _kept["model"])
        _kept["pack"] = make_pack(_kept["kb"], _kept["model"])
    kb, pack = _kept["kb"], _kept["pack"]
    record, tensors = pack_bytes.parse_bytes(pack.to_bytes())
    changed = dict(tensors)
    name = rng.choice(sorted(changed))
    values = changed[name]
    kind = rng.randrange(5)
    if kind == 0:
        del changed[name]
    elif kind == 1:
        shape = rng.choice(((0,), (3, 4), (), (1,), (values.size + 1,), (values.size, 1)))
        changed[name] = np.resize(values, shape).astype(values.dtype)
    elif kind == 2:
        bad = rng.choice((np.nan, np.inf, -1e38, 1e6, -1.0))
        changed[name] = np.full_like(values, 0 if values.dtype.kind != "f" else bad)
    elif kind == 3:
        record[rng.choice(sorted(record))] = rng.choice((None, [], {}, "", 3, "\x1b", ["a"] * 4))
    else:
        changed[f"group.{rng.choice(('surface', 'x', 'evidence-y'))}"] = np.ones(3, np.float32)
    loaded = EntityPack.from_bytes(pack_bytes.to_bytes(record, changed))
    loaded.check(kb, _kept["model"].fingerprint)
    text = " met ".join(pack.entity.aliases)
    packed = PackedLinker(_kept["linker"], [loaded])
    linked = packed.link(text)
    if packed.failed:  # it harmed nobody, but loading should have refused it
        raise RuntimeError(f"a pack was accepted that cannot be scored: {kind} {name}")
    json.dumps([m.confidence for m in linked], allow_nan=False)
    return len(linked)


_kept: dict[str, Any] = {}


def read_pack(folder: Path, rng: random.Random) -> EntityPack:
    """Read damaged bytes of a pack."""
    return EntityPack.from_bytes(mutate((folder / "new.stamo").read_bytes(), rng))


def read_model(folder: Path, rng: random.Random) -> TrainedModel:
    """Read a damaged model."""
    path = folder / "damaged.safetensors"
    path.write_bytes(mutate((folder / "model.safetensors").read_bytes(), rng))
    return load_model(path)


def open_kb(folder: Path, rng: random.Random) -> int:
    """Flip a bit in one file of a knowledge base, open it and look things up."""
    path = rng.choice(sorted((folder / "kb").iterdir()))
    good = path.read_bytes()
    data = bytearray(good)
    for _ in range(rng.choice((1, 1, 5))):
        data[rng.randrange(min(len(data), rng.choice((128, len(data)))))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    try:
        kb = KnowledgeBase.open(folder / "kb")
        kb.candidates("Java")
        kb.word_ids(["the"])
        return sum(len(batch) for batch in kb.articles())
    finally:
        path.write_bytes(good)


def open_labels(folder: Path, rng: random.Random) -> int:
    """Open a damaged log of labels, read it and add to it."""
    path = folder / "labels.sqlite"
    for old in folder.glob("labels.sqlite*"):
        old.unlink()
    data = bytearray((folder / "good.sqlite").read_bytes())
    for _ in range(rng.choice((1, 3, 20))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    with LabelStore.read(path) as store:
        n = len(store.current())
    with LabelStore.open(path) as store:
        add_label(store, n)
    return n


def add_label(store: LabelStore, number: int) -> None:
    """Add one label."""
    target = LabelTarget("d", 0, "Rey", number, number + 3)
    store.add(target, EMERGING_CHOICE, labeller="ada", at=datetime(2024, 5, 1, tzinfo=UTC))


def import_labels(folder: Path, rng: random.Random) -> int:
    """Read a damaged export of labels."""
    with LabelStore.read(folder / "good.sqlite") as store:
        text = to_jsonl(store.events())
    return len(from_jsonl(mutate(text.encode(), rng).decode("utf-8", "replace")))


def judge_request(rng: random.Random) -> tuple[int, str] | None:
    """Ask the guard of the service about odd headers."""
    values = ("", "http://[", "[::1", "127.0.0.1", "@", "é", "Bearer x", "a" * 5000, "stamo-pass=;")
    names = ("host", "origin", "cookie", "authorization", "x-stamo", "sec-fetch-site")
    headers = {name: rng.choice(values) for name in names if rng.random() < 0.7}
    path = rng.choice(("/", "/api/link", "/api/packs", "/api/../x", "//"))
    settings = rng.choice((SecuritySettings(), SecuritySettings("0.0.0.0", "x" * 20)))
    return refusal(settings, rng.choice(("GET", "POST", "PUT", "X")), path, headers)


def link_text(folder: Path, rng: random.Random) -> int:
    """Link texts of odd characters."""
    if not _kept:
        kb = KnowledgeBase.open(folder / "kb")
        _kept["linker"] = Linker(kb, load_model(folder / "model.safetensors"))
        _kept["names"] = kb.aliases(np.arange(50))
    odd = ("\ud800", "\0", "\u202e", "ß", "İ", "e\u0301" * 9, "😀", "\r\n", " ", "A" * 5000, ".")
    text = "".join(rng.choices((*odd, *_kept["names"]), k=rng.choice((1, 20, 500))))
    return sum(len(d.mentions) for d in _kept["linker"].link_documents([Document("d", text)]))


def targets(folder: Path) -> Iterator[tuple[str, Trial, float]]:
    """Yield name, trial and share of the time."""
    for name in SEEDS:
        yield f"reader {name[2:]}", partial(read_file, folder, name), 1
    yield "hostile pages", partial(read_hostile_html, folder), 3
    yield "pack bytes", partial(read_pack, folder), 1
    yield "pack content, linked", partial(link_with_pack, folder), 2
    yield "model", partial(read_model, folder), 1
    yield "knowledge base", partial(open_kb, folder), 2
    yield "labels", partial(open_labels, folder), 1
    yield "labels import", partial(import_labels, folder), 0.5
    yield "requests", judge_request, 0.5
    yield "texts, linked", partial(link_text, folder), 1


def prepare(folder: Path) -> None:
    """Make a small knowledge base, a model, a pack and labels to damage."""
    sizes = WorldSettings(
        n_articles=250, n_emerging=1, documents_per_entity=10, background_documents=5
    )
    world = generate_world(sizes, folder / "world")
    build_knowledge_base(world.paths.dump_path, folder / "kb", BuildSettings(dimensions=8))
    kb = KnowledgeBase.open(folder / "kb")
    trained = make_model(kb)
    trained.save(folder / "model.safetensors")
    make_pack(kb, trained).save(folder / "new.stamo")
    with LabelStore.open(folder / "good.sqlite") as store:
        for number in range(30):
            add_label(store, number)


def attack(name: str, trial: Trial, seconds: float, seed: int, results: Connection) -> None:
    """Run trials for some time and send the row so far after each."""
    logging.disable()
    row = Row(name)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        rng = random.Random(f"{seed}/{name}/{row.n_trials}")
        start = time.perf_counter()  # not CPU time: pages are parsed in another process
        try:
            trial(rng)
        except StamoError:
            row.n_refused += 1
        except BaseException:
            row.n_failed += 1
            last = traceback.format_exc().strip().splitlines()[-3:]
            row.first_failure = row.first_failure or f"trial {row.n_trials}: {' / '.join(last)}"
        row.n_trials += 1
        row.worst_seconds = max(row.worst_seconds, time.perf_counter() - start)
        usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, CHILDREN)]
        row.megabytes = max(u.ru_maxrss for u in usage) // 1024
        results.send(row)
    html_process.close()  # only a process that has ended tells how much memory it took
    row.megabytes = max(row.megabytes, resource.getrusage(CHILDREN).ru_maxrss // 1024)
    results.send(row)


CHILDREN = resource.RUSAGE_CHILDREN


def run(name: str, trial: Trial, seconds: float, seed: int) -> Row:
    """Attack one target in a process of its own."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(
        target=attack, args=(name, trial, seconds, seed, sender)
    )
    process.start()
    sender.close()
    row = Row(name)
    deadline = time.monotonic() + seconds + 60
    try:
        while receiver.poll(max(deadline - time.monotonic(), 0)):
            row = receiver.recv()
        row.n_failed += 1
        row.first_failure = f"it hangs in trial {row.n_trials}"
        process.kill()
    except EOFError:
        pass
    process.join()
    if process.exitcode and not row.first_failure:
        row.n_failed += 1
        row.first_failure = f"the process ended with {process.exitcode} in trial {row.n_trials}"
    return row


def main() -> None:
    """Attack everything and print the table; exit code 1 when anything failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20, help="for one share of a target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="part of a target's name")
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="stamo-campaign-"))
    say = sys.stdout.write
    try:
        prepare(folder)
        say("| target | trials | refused | failures | worst s | MB |\n| --- |" + " --- |" * 5)
        rows = []
        for name, trial, share in targets(folder):
            if args.only not in name:
                continue
            row = run(name, trial, share * args.seconds, args.seed)
            slow = row.worst_seconds > MAX_SECONDS or row.megabytes > MAX_MEGABYTES
            row.n_failed += slow
            rows.append(row)
            say(
                f"\n| {name} | {row.n_trials:,} | {row.n_refused:,} | {row.n_failed} | "
                f"{row.worst_seconds:.2f} | {row.megabytes} |"
            )
            sys.stdout.flush()
        n_trials, n_failed = sum(r.n_trials for r in rows), sum(r.n_failed for r in rows)
        say(f"\n| all | {n_trials:,} | | {n_failed} | | |\n")
        for row in rows:
            if row.first_failure:
                say(f"{row.target}: {row.first_failure}\n")
        sys.exit(bool(n_failed))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
