"""Damaged artifacts, odd tables and notes, by the commands that people use."""

from __future__ import annotations

import csv
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import spacy

from stamo import EntityPack, KnowledgeBase, Linker, LinkerSettings
from stamo import load_model as read_model
from stamo.integrations.spacy import ComponentSettings, StamoComponent
from stamo.packs import pack as pack_bytes
from stamo.world import World
from stamo_lab.campaign.documents import mutate, odd_table, odd_value, pieces_of
from stamo_lab.campaign.table import Target, command, in_trials
from stamo_lab.world import WorldSettings, generate_world

KB, MODEL, WORLD, FOUND = "kb", "model.safetensors", "world", "found"
PACK, LATER_PACK = "new.stamo", "later.stamo"
NAME = "rey"
"""The folder of the workspace, in each of the folders below `TEMPLATES`."""
TEMPLATES = "templates"
NEW, COLLECTED, LABELLED, LEARNED = "new", "collected", "labelled", "learned"
N_LABELS = 14
LEARN = ("--slots", "2", "--folds", "2", "--encoder", "none")


def prepare(folder: Path) -> None:
    """Make what is damaged: a small world, and all that the commands make of it."""
    sizes = WorldSettings(
        n_articles=400,
        n_emerging=1,
        documents_per_entity=40,
        background_documents=20,
        compress=False,
    )
    world = generate_world(sizes, folder / WORLD)
    both = ("--kb", folder / KB, "--model", folder / MODEL)
    build = ("--dimensions", 8, "--held-out", 0.5, "--workers", 1)
    command("build", world.paths.dump_path, folder / KB, *build)
    command("train", "--kb", folder / KB, "--out", folder / MODEL, "--pairs", 300, "--epochs", 1)
    home, entity = folder / "workspace", world.emerging[0]
    aliases = [word for alias in entity.aliases for word in ("--alias", alias)]
    command("new", home, entity.id, *aliases, "--who", "ada")
    _keep(folder, NEW)
    pile = world.paths.pile_path
    command("collect", home, *both, "--from", pile)
    _keep(folder, COLLECTED)
    for n_labels, pack in ((N_LABELS, PACK), (N_LABELS + 4, LATER_PACK)):
        write_labels(world, folder / "labels.csv", range(n_labels))
        command("labels", "import", home, folder / "labels.csv")
        if pack == PACK:
            _keep(folder, LABELLED)
        command("learn", home, *LEARN)
        shutil.copy(next((home / "packs").glob("*.stamo")), folder / pack)
    _keep(folder, LEARNED)
    packs = folder / TEMPLATES / LEARNED / NAME / "packs"
    next(packs.glob("*.stamo")).rename(packs / f"{NAME}.stamo")  # its folder names it
    command("discover", *both, "--from", pile, "--out", folder / FOUND)
    lines = pile.read_text().splitlines(keepends=True)
    (folder / "pile").mkdir()
    later = [json.loads(line) for line in lines if aliases[1] in line][:30]
    for record in later:  # backwards: no copy of what was collected
        record |= {"id": f"later-{record['id']}", "text": " ".join(record["text"].split()[::-1])}
    (folder / "later.jsonl").write_text("\n".join(map(json.dumps, later)))
    for number in range(4):
        (folder / "pile" / f"{number}.jsonl").write_text("".join(lines[number::4]))


def _keep(folder: Path, name: str) -> None:
    shutil.copytree(folder / "workspace", folder / TEMPLATES / name / NAME)


def write_labels(world: World, path: Path, numbers: range, who: str = "ada") -> list[str]:
    """Write the world's answers for some documents as a table; return the documents."""
    entity, rows = world.emerging[0].id, list[list[Any]]()
    for line in world.paths.gold_path.read_text().splitlines():
        document = json.loads(line)
        for mention in document["mentions"]:
            if mention["candidate_of"] == entity:
                choice = "@emerging" if mention["entity"] == entity else "@none"
                span = [mention[name] for name in ("start", "end")]
                rows.append([document["id"], *span, choice, who, "2024-05-01T00:00:00+00:00"])
                break
    chosen = [rows[number] for number in numbers]
    with path.open("w", newline="") as file:
        head = ("document", "start", "end", "choice", "labeller", "at")
        csv.writer(file).writerows([head, *chosen])
    return [row[0] for row in chosen]


def fresh(source: Path, target: Path) -> Path:
    """Return a copy of a folder, in the place of a former one."""
    shutil.rmtree(target, ignore_errors=True)
    return Path(shutil.copytree(source, target))


def damage(path: Path, rng: random.Random) -> None:
    """Damage a file: its bytes, or its values where it holds JSON."""
    data = path.read_bytes()
    if path.suffix == ".json" and rng.random() < 0.7:
        path.write_text(json.dumps(_change(json.loads(data), rng)))
    else:
        path.write_bytes(mutate(data, rng))


def _change(value: Any, rng: random.Random) -> Any:
    """Put an odd value somewhere into plain values."""
    if rng.random() < 0.4 or not value or not isinstance(value, dict | list):
        return odd_value(rng)
    key = rng.choice(sorted(value) if isinstance(value, dict) else range(len(value)))
    if rng.random() < 0.1:
        del value[key]
    else:
        value[key] = _change(value[key], rng)
    return value


def damage_one(folder: Path, rng: random.Random) -> None:
    """Damage one file of a folder."""
    damage(rng.choice(sorted(path for path in folder.rglob("*") if path.is_file())), rng)


@cache
def small_linker(folder: Path) -> Linker:
    """Return a linker of what `prepare` made, once for a process."""
    kb, trained = KnowledgeBase.open(folder / KB), read_model(folder / MODEL)
    return Linker(kb, trained, settings=LinkerSettings(explain=True))


def load_model(folder: Path, rng: random.Random) -> None:
    """Read a damaged model."""
    path = folder / "damaged.safetensors"
    path.write_bytes(mutate((folder / MODEL).read_bytes(), rng))
    read_model(path)


def open_kb(folder: Path, rng: random.Random) -> None:
    """Damage, remove, cut or swap one file of a knowledge base, open it and look around."""
    files = sorted((folder / KB).iterdir())
    path = rng.choice(files)
    good = path.read_bytes()
    kind, changed = rng.randrange(10), bytearray(good)
    if kind == 0:
        path.unlink()
    elif kind == 1:
        path.write_bytes(good[: rng.randrange(len(good) + 1)])
    elif kind == 2:
        path.write_bytes(rng.choice(files).read_bytes())
    else:
        for _ in range(rng.choice((1, 1, 5))):
            at = rng.randrange(min(len(changed), rng.choice((128, len(changed)))))
            changed[at] ^= 1 << rng.randrange(8)
        path.write_bytes(changed)
    try:
        command("info", "--kb", folder / KB)
        command("show", "--kb", folder / KB, rng.choice(("Java", "")))
    finally:
        path.write_bytes(good)


def load_pack(folder: Path, rng: random.Random) -> None:
    """Read a damaged pack."""
    EntityPack.from_bytes(mutate((folder / PACK).read_bytes(), rng))


ODD_FIELDS: tuple[Any, ...] = (
    *(None, [], {}, "", 3, True, 1e9, "\x1b", ["a"] * 4, "ab" * 32, [["a"]], {"a": None}),
    *({"neighbours": ["a"]}, {"neighbours": []}, {"x": ["a"] * 3}, [{"a": [1, [2]]}], "\ud800"),
)


def link_with_pack(folder: Path, rng: random.Random) -> None:
    """Change a pack's arrays under a right checksum; what is accepted must link."""
    record, changed = pack_bytes.parse_bytes((folder / PACK).read_bytes())
    name, kind = rng.choice(sorted(changed)), rng.randrange(4)
    values = changed[name]
    if kind == 0:
        del changed[name]
    elif kind == 1:
        shape = rng.choice(((0,), (3, 4), (), (1,), (values.size + 1,), (values.size, 1)))
        changed[name] = np.resize(values, shape).astype(values.dtype)
    elif kind == 2:
        bad = rng.choice((np.nan, np.inf, -1e38, 1e6, -1.0))
        changed[name] = np.full_like(values, 0 if values.dtype.kind != "f" else bad)
    else:
        record[rng.choice(sorted(record))] = rng.choice(ODD_FIELDS)
    loaded = EntityPack.from_bytes(pack_bytes.to_bytes(record, changed))
    linker = small_linker(folder)
    packed = Linker(linker.kb, linker.trained, [loaded], settings=linker.settings)
    linked = packed.link(" met ".join(loaded.entity.aliases))
    if packed.failed:  # it harmed nobody, but loading should have refused it
        raise RuntimeError(f"a pack was accepted that cannot be scored: {kind} {name}")
    json.dumps([m.confidence for m in linked], allow_nan=False)


def open_workspace(folder: Path, rng: random.Random) -> None:
    """Damage a file of a workspace, its labels among them, and look at all that it holds."""
    home = fresh(folder / TEMPLATES / LABELLED / NAME, folder / "damaged-workspace")
    damage_one(home, rng)
    command("status", home)
    command("labels", "export", home, folder / "tasks.json", "--all")


CELLS = ("d", "0", "3", "Rey", "@emerging", "@undo", "", "9" * 5000, "-1", "²", "=1", "\x1b", '"')


def import_labels(folder: Path, kind: str, rng: random.Random) -> None:
    """Import damaged labels; what is refused adds nothing."""
    home, path = folder / TEMPLATES / LABELLED / NAME, folder / f"odd-labels.{kind}"
    good = folder / f"good-labels.{kind}"
    if not good.exists():
        command("labels", "export", home, good)
    home = fresh(home, folder / f"labelled-{kind}")
    before = command("labels", "export", home, "-", "--as", "jsonl")
    if kind == "csv":
        rows = list(csv.reader(good.read_text().splitlines()))[: rng.choice((2, 5))]
        rows[-1][rng.randrange(len(rows[-1]))] = rng.choice(CELLS)
        path.write_bytes(odd_table(rng, rows))
    else:
        path.write_bytes(good.read_bytes())
        damage(path, rng)
    try:
        command("labels", "import", home, path)
    except BaseException:
        if command("labels", "export", home, "-", "--as", "jsonl") != before:
            raise RuntimeError("a refused import added labels") from None
        raise


def look_at_found(folder: Path, rng: random.Random) -> None:
    """Show and decide on proposals of a damaged folder."""
    home = fresh(folder / FOUND, folder / "damaged-found")
    command("found", "reject", home, "1", "--who", "ada")
    damage_one(home, rng)
    command("found", "list", home, "--decided")
    command("found", "show", home, rng.choice(("1", "²", "9" * 5000, "Rey", "00000002", "0")))


def load_component(folder: Path, rng: random.Random) -> None:
    """Load a damaged saved component of spaCy and link with it."""
    home = folder / "component"
    home.mkdir(exist_ok=True)
    shutil.copy(folder / MODEL, home / MODEL)
    shutil.copy(folder / PACK, home / "0.stamo")
    record = {"kb": str(folder / KB), "packs": ["0.stamo"]}
    (home / "component.json").write_text(json.dumps(record))
    damage(rng.choice((home / "component.json", *sorted(home.iterdir()))), rng)
    StamoComponent(ComponentSettings()).from_disk(home)(spacy.blank("en")("Rey met Finn."))


MARKDOWN = (
    *("---\n", "title: ", "aliases: [", "aliases:\n- ", "&a [*a,*a]", "]\n", "\n", "# ", "> "),
    *("- ", "[[", "]]", "|", "[a](", ")", "<b.md>", "![[", "`", "```\n", "~~~", "%%", "$$"),
    *("<!--", "-->", "[^1]", "[^1]: ", "[a]: b", "**", "__", "==", "<pre", "</pre>", "\\", "\t"),
    *("<a href='", "    ", "../../etc/passwd", "/", "#x", "!redirects Rey", "Rey", "{{<x>}}"),
    *("\x02", "\x03", "\r\n", '"', "!!python/object:os.system [x]", "&#x0;", "&amp;", "\u2028"),
    *("^id", "e\u0301", "%2e%2e%2f", "'", "\\[", "[a][", "'a',", "_a"),
)
PATHS = ("a.md", "b/a.md", "B/A.MD", "b/c/d.markdown", "..md", "a b.md", "x" * 200 + ".md", "n.txt")


def build_from_notes(folder: Path, rng: random.Random) -> None:
    """Build a knowledge base from odd notes; nothing outside of their folder is read."""
    root = folder / "notes"
    shutil.rmtree(root, ignore_errors=True)
    for name in rng.sample(PATHS, rng.choice((1, 3, len(PATHS)))):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = ("---\n" * (rng.random() < 0.5) + pieces_of(rng, MARKDOWN, 500)).encode()
        path.write_bytes(data if rng.random() < 0.7 else mutate(data, rng))
    (folder / "secret.md").write_text("Rey is a secret")
    kind = rng.randrange(4)
    if kind == 0:
        (root / "loop").symlink_to(root)
        (root / "out.md").symlink_to(folder / "secret.md")
    elif kind == 1:
        os.mkfifo(root / "pipe.md")
    elif kind == 2:
        (root / "folder.md").mkdir()
        (root / os.fsdecode(b"\xff.md")).write_text("[[a]]")
    _build(folder, root)
    texts = [t for b in _built(folder).articles(columns=["text"]) for t in b["text"].to_pylist()]
    if any("is a secret" in text for text in texts):
        raise RuntimeError("a link out of the folder was followed")


def _odd_rows(rng: random.Random, columns: tuple[str, ...]) -> list[list[str]]:
    odd = ("", "Rey", "Rey|Finn|", "9" * 5000, "-1", "1e9", "\x1b", "a" * 5000, '"', "\u2028", "²")
    rows = [[f"{column} {rng.randrange(99)}" for column in columns] for _ in range(3)]
    for row in rows:
        if rng.random() < 0.5:
            row[rng.randrange(len(row))] = rng.choice((*columns, "7", *odd))
    return [list(columns), *rows]


def build_from_table(folder: Path, rng: random.Random) -> None:
    """Build a knowledge base from an odd table of entities."""
    rows = _odd_rows(rng, ("name", "aliases", "description", "count"))
    path = folder / rng.choice(("entities.csv", "entities.jsonl"))
    if path.suffix == ".csv":
        path.write_bytes(odd_table(rng, rows))
    else:
        records = [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]
        path.write_text("\n".join(json.dumps(_change(record, rng)) for record in records))
    _build(folder, path)
    _built(folder).candidates("Rey")


def build_from_dump(folder: Path, rng: random.Random) -> None:
    """Build a knowledge base from the damaged beginning of a dump."""
    path = folder / "damaged.xml"
    path.write_bytes(mutate((folder / WORLD / "dump.xml").read_bytes()[:20_000], rng))
    _build(folder, path)


IDS = (
    *("INSERT INTO `page_props` VALUES ", "INSERT INTO `wb_items_per_site` VALUES ", "Rey\tQ1\n"),
    *("(12,'wikibase_item','Q6199',NULL),", "(55,6199,'enwiki','Anarchism'),", "(55,", "'", "\\'"),
    *("Rey,Q1\n", '"', ",", "\n", "\\", "9" * 400, "'enwiki','" + "\\'" * 600, ");", "\0", "'),("),
)


def build_with_ids(folder: Path, rng: random.Random) -> None:
    """Give a knowledge base ids from odd SQL or an odd table; SQL is never run."""
    path, source = folder / "ids.sql", folder / "small.xml"
    odd = pieces_of(rng, IDS, 300).encode()
    path.write_bytes(b"Rey\tQ1\n" + (odd if rng.random() < 0.5 else mutate(odd, rng)))
    source.write_bytes((folder / WORLD / "dump.xml").read_bytes()[:20_000])
    _build(folder, source, "--ids", path)


def _build(folder: Path, source: Path, *options: object) -> None:
    shutil.rmtree(folder / "odd-kb", ignore_errors=True)
    command("build", source, folder / "odd-kb", "--dimensions", 0, "--workers", 1, *options)


def _built(folder: Path) -> KnowledgeBase:
    return KnowledgeBase.open(folder / "odd-kb")


ODD_FOLDERS = ("", "b c", "d.e", "a", "..", "../x", "/tmp/x", ".", "a/b", "con\0", "a" * 300)


def declare_entities(folder: Path, rng: random.Random) -> None:
    """Make workspaces from an odd table; they all stay below their folder."""
    path, root = folder / "declared.csv", folder / "inside" / "declared"
    shutil.rmtree(folder / "inside", ignore_errors=True)
    rows = _odd_rows(rng, ("name", "aliases", "description", "id", "type", "folder"))
    for row in rows[1:]:
        row[-1] = ""
    rows[-1][-1] = rng.choice(ODD_FOLDERS)
    path.write_bytes(odd_table(rng, rows))
    command("new", root, "--from", path, "--who", "ada")
    outside = [entry for entry in (folder / "inside").iterdir() if entry != root]
    if outside or Path("/tmp/x").exists():
        raise RuntimeError("a workspace lies outside of its folder")


def targets(folder: Path, seed: str) -> Iterator[Target]:
    """Yield every artifact and table."""
    trials: dict[str, tuple[Callable[[Path, random.Random], None], float]] = {
        "artifacts, knowledge base": (open_kb, 2),
        "artifacts, model": (load_model, 1),
        "packs, bytes": (load_pack, 1),
        "packs, linked with": (link_with_pack, 2),
        "labels, workspace": (open_workspace, 1),
        "artifacts, proposals": (look_at_found, 1),
        "artifacts, spaCy component": (load_component, 1),
        "builds, notes": (build_from_notes, 2),
        "builds, tables": (build_from_table, 1),
        "builds, dumps": (build_from_dump, 1),
        "builds, ids": (build_with_ids, 1),
        "builds, declared workspaces": (declare_entities, 1),
    }
    for name, (trial, share) in trials.items():
        yield Target(name, in_trials(partial(trial, folder), seed), share)
    for kind in ("jsonl", "csv", "json"):
        trial_of_kind = partial(import_labels, folder, kind)
        yield Target(f"labels, import of {kind}", in_trials(trial_of_kind, seed), 0.7)
