"""Folders that came from elsewhere or rotted: workspaces, proposals, saved pipelines, labels."""

from __future__ import annotations

import json
import random
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import spacy

from stamo.corpus.types import Corpus, Document, EmergingEntity, Mention
from stamo.discovery.accept import AcceptRequests
from stamo.discovery.proposals import (
    FOUND_FORMAT,
    FOUND_VERSION,
    FoundFolder,
    Occurrence,
    Proposal,
)
from stamo.integrations.spacy import ComponentSettings, StamoComponent
from stamo.service.schemas import FoundOut
from stamo.workspace.folder import Workspace, open_artifacts
from stamo.workspace.label_files import add_changes, detect_form, from_csv
from stamo.workspace.labels import LabelStore
from stamo_lab.campaign.readers import mutate, odd_value

AT = datetime(2024, 5, 1, tzinfo=UTC)


def _change(value: Any, rng: random.Random) -> Any:
    """Put an odd value somewhere into plain values."""
    if rng.random() < 0.4 or not value or not isinstance(value, dict | list):
        return odd_value(rng)
    keys = sorted(value) if isinstance(value, dict) else range(len(value))
    key = rng.choice(list(keys))
    if rng.random() < 0.1:
        del value[key]
    else:
        value[key] = _change(value[key], rng)
    return value


def damage(path: Path, rng: random.Random) -> None:
    """Damage a file: its bytes, or its values where it holds JSON."""
    data = path.read_bytes()
    if path.suffix == ".json" and rng.random() < 0.7:
        path.write_text(json.dumps(_change(json.loads(data), rng)))
    else:
        path.write_bytes(mutate(data, rng))


def open_workspace(folder: Path, rng: random.Random) -> int:
    """Open a workspace of which a file is damaged, and look at all that it holds."""
    good, home = folder / "good-workspace", folder / "workspace"
    if not good.exists():
        entity = EmergingEntity("Rey (film)", ("Rey",), "a late album")
        space = Workspace.create(good, entity, created_by="ada", at=AT)
        texts = [Document(f"d{n}", "Rey met Finn.", (Mention("Rey", 0, 3),)) for n in range(3)]
        state = {"kb": str(folder / "kb"), "model": str(folder / "model.safetensors")}
        space.documents.append(texts, state=state, complete=True)
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(good, home)
    files = sorted(path for path in home.rglob("*") if path.is_file())
    damage(rng.choice(files), rng)
    space = Workspace.open(home)
    space.status()
    if rng.random() < 0.1:
        open_artifacts([space])
    return len(list(space.documents))


def _proposal(number: int) -> dict[str, Any]:
    places = (Occurrence("d0", 0, 3, "2024-05-01", "Rey met Finn.", 0),)
    proposal = Proposal(
        f"0000000{number}",
        "name",
        "Rey",
        ("Rey",),
        3,
        3,
        "",
        ("met",),
        (),
        "",
        "",
        0.5,
        1.0,
        places,
    )
    return proposal.to_json()


def look_at_found(folder: Path, rng: random.Random) -> int:
    """Show and decide on proposals of a damaged folder, as the commands and the service do."""
    home = folder / "found"
    shutil.rmtree(home, ignore_errors=True)
    (home / "accepting").mkdir(parents=True)
    found = FoundFolder(home)
    origin = {"sources": ["a.txt"], "kb": "kb", "model": "model"}
    record = {"format": FOUND_FORMAT, "version": FOUND_VERSION, "origin": origin}
    record |= {"n_documents": 3, "year": 2020, "proposals": [_proposal(n) for n in range(3)]}
    found.proposals_path.write_text(json.dumps(record))
    found.decide(found.with_id("00000001"), "rejected", by="ada", at=AT)
    request = {"proposal": "00000002", "by": "ada", "at": AT.isoformat(), "take_labels": False}
    (home / "accepting" / "rey.json").write_text(json.dumps(request))
    damage(rng.choice(sorted(path for path in home.rglob("*") if path.is_file())), rng)
    waiting = AcceptRequests(found, folder).waiting()
    shown = found.proposals(decided=True)
    FoundOut(is_served=True, n=len(shown), proposals=shown, under_way=waiting).model_dump_json()
    chosen = found.get(rng.choice(("1", "²", "9" * 5000, "Rey", "00000002", "\ud800", "0")))
    found.decide(chosen, "rejected", by="\ud800", at=AT)
    return len(found.origin["sources"]) + len(found.verdicts())


def load_component(folder: Path, rng: random.Random) -> int:
    """Load a damaged saved component of spaCy and link with it."""
    good, home = folder / "good-component", folder / "component"
    if not good.exists():
        good.mkdir()
        shutil.copy(folder / "model.safetensors", good / "model.safetensors")
        shutil.copy(folder / "new.stamo", good / "0.stamo")
        record = {"kb": str(folder / "kb"), "packs": ["0.stamo"]}
        (good / "component.json").write_text(json.dumps(record))
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(good, home)
    damage(rng.choice((home / "component.json", *sorted(home.iterdir()))), rng)
    component = StamoComponent(ComponentSettings()).from_disk(home)
    return len(component(spacy.blank("en")("Rey met Finn.")).spans["stamo"])


CELLS = ("d", "0", "3", "Rey", "@emerging", "@undo", "", "9" * 5000, "-1", "²", "=1", "\x1b", '"')
TIMES = ("2024-05-01T00:00:00+00:00", "2024-05-01", "0001-01-01T00:00:00+14:00", "9999-12-31", "x")


def import_table(folder: Path, rng: random.Random) -> int:
    """Import an odd table of labels; what is refused adds nothing."""
    columns = ["document", "start", "end", "choice", "surface", "labeller", "at"]
    lines = [columns]
    for _ in range(rng.choice((1, 3))):
        line = ["d", "0", "3", rng.choice(("@emerging", "@none", "Finn")), "Rey", "ada", TIMES[0]]
        if rng.random() < 0.6:
            line[rng.randrange(7)] = rng.choice(CELLS)
        line[6] = rng.choice(TIMES)
        lines.append(line)
    mark, quote = rng.choice(",;\t"), rng.choice(("", '"'))
    text = "\n".join(mark.join(f"{quote}{cell}{quote}" for cell in line) for line in lines)
    if rng.random() < 0.4:
        text = mutate(text.encode(), rng).decode("utf-8", "replace")
    detect_form(text)
    corpus = Corpus((Document("d", "Rey met Finn.", (Mention("Rey", 0, 3),)),))
    with LabelStore.open(folder / "table.sqlite") as store:
        before = len(store.events())
        n = add_changes(store, from_csv(text, corpus, labeller="import", at=AT))
        if len(store.events()) - before != n:
            raise RuntimeError("a table added another number of labels than it says")
        return n
