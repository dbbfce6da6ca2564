"""Damaged and odd content for all that is read: it is taken, or refused by one of our errors."""

from __future__ import annotations

import json
import logging
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from stamo.build.build import build_knowledge_base
from stamo.build.settings import BuildSettings
from stamo.corpus import web as html_process
from stamo.corpus.nif import parse_nif
from stamo.corpus.types import Corpus, Document, Mention
from stamo.errors import StamoError
from stamo.kb.base import KnowledgeBase
from stamo.linking.linker import Linker
from stamo.models.store import TrainedModel, load_model
from stamo.service.parts import Limits
from stamo.service.routes import annotate_nif
from stamo.service.security import SecuritySettings, refusal
from stamo.workspace.label_files import from_jsonl, import_tasks, to_jsonl
from stamo.workspace.labels import EMERGING_CHOICE, LabelStore, LabelTarget
from stamo_lab.campaign import folders, formats, packs, readers, sources
from stamo_lab.campaign.readers import mutate, odd_value
from stamo_lab.campaign.table import (
    Attack,
    Row,
    last_lines,
    processor_seconds,
    run_apart,
)
from stamo_lab.world import WorldSettings, generate_world

Trial = Callable[[random.Random], object]


_kept: dict[str, Any] = {}


def read_model(folder: Path, rng: random.Random) -> TrainedModel:
    """Read a damaged model."""
    path = folder / "damaged.safetensors"
    path.write_bytes(mutate((folder / "model.safetensors").read_bytes(), rng))
    return load_model(path)


def damage_file(data: bytes, others: Sequence[Path], rng: random.Random) -> bytes | None:
    """Return what a file holds after an accident; None when it is gone."""
    kind = rng.randrange(10)
    if kind == 0:
        return None
    if kind == 1:
        return data[: rng.randrange(len(data) + 1)]
    if kind == 2:
        return rng.choice(others).read_bytes()
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 5))):
        at = rng.randrange(min(len(changed), rng.choice((128, len(changed)))))
        changed[at] ^= 1 << rng.randrange(8)
    return bytes(changed)


def open_kb(folder: Path, rng: random.Random) -> int:
    """Damage, remove or swap one file of a knowledge base, open it and look things up."""
    files = sorted((folder / "kb").iterdir())
    path = rng.choice(files)
    good = path.read_bytes()
    data = damage_file(good, files, rng)
    path.unlink()
    if data is not None:
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


def import_from_label_studio(folder: Path, rng: random.Random) -> int:
    """Import tasks with odd values; what is refused adds nothing."""
    if not _kept:
        _kept["store"] = LabelStore.open(folder / "imported.sqlite")
    store, text = _kept["store"], "Rey met Finn."
    region: dict[str, Any] = {"start": 0, "end": 3, "text": "Rey", "labels": ["@emerging"]}
    data: dict[str, Any] = {"text": text, "document_id": "d", "stamo_events": []}
    result: dict[str, Any] = {"id": "r", "type": "labels", "value": region}
    task: dict[str, Any] = {"data": data, "annotations": [{"result": [result]}]}
    for _ in range(rng.choice((1, 2))):
        changed = rng.choice((task, data, region, result))
        changed[rng.choice(sorted(changed))] = odd_value(rng)
    corpus = Corpus((Document("d", text, (Mention("Rey", 0, 3),)),))
    at = datetime(rng.choice((1, 1969, 2024, 9999)), 5, 1, tzinfo=UTC)
    before = len(store.events())
    try:
        import_tasks(store, json.dumps(task), corpus, labeller="ada", at=at)
    except StamoError:
        if len(store.events()) != before:
            raise RuntimeError("a refused import added labels") from None
        raise
    return len(store.current())


def judge_request(rng: random.Random) -> tuple[int, str] | None:
    """Ask the guard of the service about odd headers."""
    values = ("", "http://[", "[::1", "127.0.0.1", "@", "é", "Bearer x", "a" * 5000, "stamo-pass=;")
    names = ("host", "origin", "cookie", "authorization", "x-stamo", "sec-fetch-site")
    headers = {name: rng.choice(values) for name in names if rng.random() < 0.7}
    path = rng.choice(("/", "/api/link", "/api/packs", "/api/../x", "//"))
    settings = rng.choice((SecuritySettings(), SecuritySettings("0.0.0.0", "x" * 20)))
    return refusal(settings, rng.choice(("GET", "POST", "PUT", "X")), path, headers)


def link_nif(folder: Path, rng: random.Random) -> int:
    """Link odd NIF as the service does."""
    annotated = annotate_nif(formats.odd_nif(rng), _linker(folder), frozenset(), Limits())
    return len(parse_nif(annotated))


def _linker(folder: Path) -> Linker:
    if not _kept:
        kb = KnowledgeBase.open(folder / "kb")
        _kept["linker"] = Linker(kb, load_model(folder / "model.safetensors"))
        _kept["names"] = kb.aliases(np.arange(50))
    linker: Linker = _kept["linker"]
    return linker


def link_text(folder: Path, rng: random.Random) -> int:
    """Link texts of odd characters."""
    linker = _linker(folder)
    odd = ("\ud800", "\0", "\u202e", "ß", "İ", "e\u0301" * 9, "😀", "\r\n", " ", "A" * 5000, ".")
    text = "".join(rng.choices((*odd, *_kept["names"]), k=rng.choice((1, 20, 500))))
    return sum(len(d.mentions) for d in linker.link_documents([Document("d", text)]))


def targets(folder: Path) -> Iterator[tuple[str, Trial, float]]:
    """Yield name, trial and share of the time."""
    for name in readers.SEEDS:
        yield f"reader {name[2:]}", partial(readers.read_file, folder, name), 1
    yield "reader jsonl, odd values", partial(readers.read_json_lines, folder), 1
    yield "reader warc, odd heads", partial(readers.read_warc, folder), 1
    yield "reader compressed", partial(readers.read_archive, folder), 1
    yield "reader annotations", partial(readers.read_annotations, folder), 1
    yield "reader dump", partial(readers.read_dump, folder), 1
    yield "wikitext", readers.clean_wikitext, 1
    yield "hostile pages", partial(readers.read_hostile_html, folder), 3
    yield "pack bytes", partial(packs.read_pack, folder), 1
    yield "pack content, linked", partial(packs.link_with_pack, folder), 2
    yield "model", partial(read_model, folder), 1
    yield "knowledge base", partial(open_kb, folder), 2
    yield "labels", partial(open_labels, folder), 1
    yield "labels import", partial(import_labels, folder), 0.5
    yield "labels import, tables", partial(folders.import_table, folder), 0.5
    yield "Label Studio import", partial(import_from_label_studio, folder), 0.5
    yield "reader feed", partial(formats.read_feed, folder), 1
    yield "reader table", partial(formats.read_table, folder), 1
    yield "reader NIF", partial(formats.read_nif, folder), 1
    yield "NIF, linked", partial(link_nif, folder), 1
    yield "reader Parquet", partial(formats.read_parquet, folder), 1
    yield "notes", partial(sources.read_notes, folder), 1
    yield "table of entities", partial(sources.read_entity_table, folder), 0.5
    yield "ids, SQL and tables", partial(sources.read_ids, folder), 1
    yield "build of notes and tables", partial(sources.build_from, folder), 2
    yield "declared workspaces", partial(sources.declare_entities, folder), 0.5
    yield "workspace", partial(folders.open_workspace, folder), 1
    yield "proposals", partial(folders.look_at_found, folder), 1
    yield "spaCy component", partial(folders.load_component, folder), 1
    yield "headers", judge_request, 0.5
    yield "texts, linked", partial(link_text, folder), 1


def prepare(folder: Path) -> None:
    """Make a small knowledge base, a model, a pack and labels to damage."""
    sizes = WorldSettings(
        n_articles=250,
        n_emerging=1,
        documents_per_entity=40,
        background_documents=20,
        compress=False,
    )
    world = generate_world(sizes, folder / "world")
    build_knowledge_base(world.paths.dump_path, folder / "kb", BuildSettings(dimensions=8))
    shutil.copy(world.paths.dump_path, folder / "dump.xml")
    kb = KnowledgeBase.open(folder / "kb")
    trained = packs.make_model(kb)
    trained.save(folder / "model.safetensors")
    packs.make_pack(kb, trained).save(folder / "new.stamo")
    with LabelStore.open(folder / "good.sqlite") as store:
        for number in range(30):
            add_label(store, number)


def attack(trial: Trial, seconds: float, seed: str) -> Attack:
    """Return what runs trials for some time."""

    def run(row: Row, tell: Callable[[], None]) -> None:
        logging.disable()
        start = processor_seconds()
        end = start + seconds
        while start < end:
            try:
                trial(random.Random(f"{seed}/{row.target}/{row.n_trials}"))
            except StamoError:
                row.n_refused += 1
            except BaseException:
                row.fail(last_lines())
            before, start = start, processor_seconds()
            row.took(start - before)
            if row.n_trials % 20 == 0:
                row.remember_memory()
                tell()
        html_process.close()  # only a process that has ended tells how much memory it took
        row.remember_memory()

    return run


def rows(folder: Path, seconds: float, seed: int, only: str = "") -> Iterator[Row]:
    """Attack every target for its share of the time."""
    for name, trial, share in targets(folder):
        if only in name:
            time_for_it = share * seconds
            # Seconds of the processor, of which others may have the most for an hour.
            yield run_apart(name, attack(trial, time_for_it, f"{seed}"), 3600)
