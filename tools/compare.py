"""Make the same artifacts with two source trees, and tell in one table what differs.

    python tools/compare.py BEFORE AFTER --data DIR [--out DIR] [--steps WORDS] [--only SIDE]

Each tree makes, through its own command line: knowledge bases (the embedded world, enwik8, notes, a
table, with ids), documents read from every format, models, workspaces, packs, linked documents,
figures of real new entities and of the paper's suites. Names that differ between the trees
(`suite`, now of `stamo-lab`; `--reading`, now `--method`) are translated by what a tree has.

BEFORE and AFTER are folders that hold the package `stamo`. DIR holds `enwik8.xml.xz`,
`glove-100d.npz`, `enwiki-2015-sample.jsonl.xz` and `wild/`; without it only the world is compared.
What is made already is not made again: the side of an old tree can be kept. `--steps kb,link` makes
and compares only what has one of these words in its name, with what is there of the rest. A step is
made again when its file `steps/NAME.done` is removed.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

N_EMERGING, N_LABELS, N_DOCUMENTS = 6, 20, 500
METHODS = ("estimation", "stamo", "paper")
"""Methods of the paper that the first entity is learned with too."""
REAL = {"dragon": "Dragon", "isis": "Isis", "leopard": "Leopard"}
"""Real new entities that get packs, by folder."""
SUITES = {"easy": "suites/easy", "mid": "suites/mid", "natural": "natural"}
OLDER = {
    "--method": "--reading",
    "--description": "--about",
    "--no-description": "--no-about",
}
"""Options by their new names, for trees that only know the old ones."""


ONE_SIDED = ("only before", "only after")


@dataclass(frozen=True)
class Step:
    """One command of a tree, or one act of our own between two commands."""

    name: str
    words: tuple[str, ...] = ()
    act: Callable[[Path], None] | None = None
    output: str = ""
    """File for what the command prints; a log if empty."""


# What is made, step by step.


def world_steps() -> Iterator[Step]:
    """From the embedded world to packs and linked documents."""
    yield Step("world", ("world", "world"))
    yield Step("world-kb", ("build", "world/dump.xml", "world-kb", "--held-out", "0.3"))
    yield Step("world-model", ("train", "--kb", "world-kb", "--out", "world-deeped.safetensors"))
    for number in range(N_EMERGING):
        yield from _entity_steps(number)
    packs = [w for n in range(N_EMERGING) for w in ("--with", f"packs/{n}-default.stamo")]
    yield Step(
        "world-documents", act=lambda side: _cut(side / "world/pile.jsonl", side / "pile.jsonl")
    )
    both = ("--kb", "world-kb", "--model", "world-deeped.safetensors")
    link = ("link", *both, "pile.jsonl")
    yield Step("world-link", link, output="world-linked.jsonl")
    yield Step("world-link-packs", (*link, *packs, "--explain"), output="world-linked-packs.jsonl")
    for kind in ("csv", "nif", "html"):
        yield Step(f"world-link-{kind}", (*link, "--format", kind), output=f"world-linked.{kind}")
    yield Step("inputs", act=_write_inputs)
    ids = ("--ids", "inputs/ids.tsv")
    yield Step("ids-kb", ("build", "world/dump.xml", "ids-kb", "--held-out", "0.3", *ids))
    yield Step("notes-kb", ("build", "inputs/notes", "notes-kb", "--as", "notes"))
    yield Step("table-kb", ("build", "inputs/entities.csv", "table-kb", "--as", "entities"))
    yield Step("read", ("@read", "inputs/documents"), output="read.jsonl")


def _entity_steps(number: int) -> Iterator[Step]:
    folder = f"entity-{number}"
    yield Step(f"new-{number}", ("@new", str(number), folder))
    kb = ("--kb", "world-kb", "--model", "world-deeped.safetensors")
    yield Step(f"collect-{number}", ("collect", folder, *kb, "--from", "world/pile.jsonl"))
    yield Step(f"tasks-{number}", ("labels", "export", folder, f"tasks-{number}.json", "--all"))
    yield Step(f"gold-{number}", act=lambda side: _label(side, number))
    yield Step(f"label-{number}", ("labels", "import", folder, f"gold-{number}.json"))
    for method in (*(METHODS if number == 0 else ()), "default"):
        learn = ("learn", folder, "--method", method)
        yield Step(
            f"learn-{number}-{method}", learn if method == "default" else (*learn, "--slots", "10")
        )
        yield Step(
            f"pack-{number}-{method}",
            act=lambda side, m=method: _keep_pack(side, folder, f"{number}-{m}"),
        )


def data_steps(data: Path) -> Iterator[Step]:
    """From real text to packs of real new entities, suites and their results."""
    vectors = ("--vectors", str(data / "glove-100d.npz"))
    yield Step("kb", ("build", str(data / "enwik8.xml.xz"), "kb", *vectors))
    yield Step("model", ("train", "--kb", "kb", "--out", "deeped.safetensors"))
    yamada = ("--model", "yamada", "--out", "yamada.safetensors")
    yield Step("yamada", ("train", "--kb", "kb", *yamada))
    later = data / "enwiki-2015-sample.jsonl.xz"
    yield Step("documents", act=lambda side: _cut(later, side / "documents.jsonl"))
    for model in ("deeped", "yamada"):
        link = ("link", "--kb", "kb", "--model", f"{model}.safetensors", "documents.jsonl")
        yield Step(f"link-{model}", link, output=f"linked-{model}.jsonl")
    # Training differs in the last digits from run to run: this row is about linking alone.
    link = ("link", "--kb", "kb", "--model", "../before/deeped.safetensors", "documents.jsonl")
    yield Step("link-same-model", link, output="linked-same-model.jsonl")
    yield from _real_steps(data / "wild", later)
    alone = ("--kb", "kb", "--workers", "1")
    text = ("--corpus", str(later))
    yield Step("conflated", ("suite", "make", "conflated", *text, "--out", "suites", *alone))
    yield Step("natural", ("suite", "make", "natural", "--out", "natural", *alone))
    few = ("--seeds", "1", "--sizes", "", "--entities", "8", *alone)
    for name, suite in SUITES.items():
        methods = ("--methods", "estimation,stamo,published,default")
        yield Step(f"run-{name}", ("suite", "run", suite, "--out", f"runs/{name}", *methods, *few))
    judged = ("--entities", str(data / "wild/entities.json"), "--labels")
    judged = (*judged, str(data / "wild/labels.tsv"), "--model", "deeped.safetensors")
    yield Step("wild", ("suite", "make", "wild", "--kb", "kb", *judged, *text, "--out", "wild"))
    for name, options in _WILD.items():
        run = ("suite", "run", "wild", "--kb", "kb", "--out", f"runs/{name}", *options)
        yield Step(f"run-{name}", (*run, "--methods", "default", "--sizes", "5,20", "--seeds", "1"))


_WILD = {
    "wild": (),
    "wild-no-encoder": ("--encoder", "none"),
    "wild-no-description": ("--no-description",),
    "wild-neither": ("--no-description", "--encoder", "none"),
}


def _real_steps(wild: Path, later: Path) -> Iterator[Step]:
    """Packs of real new entities, and 500 documents that use their names."""
    for folder, alias in REAL.items():
        yield Step(f"new-{folder}", ("@real", alias, f"real/{folder}", str(wild)))
    kb = ("--kb", "kb", "--model", "deeped.safetensors", "--most", "400")
    yield Step("collect-real", ("collect", "real", *kb, "--from", str(later)))
    for folder, alias in REAL.items():
        yield Step(
            f"judged-{folder}", act=lambda side, f=folder, a=alias: _write_judged(side, f, a, wild)
        )
        judged = (f"real/{folder}", f"judged-{folder}.csv", "--who", "compare")
        yield Step(f"label-{folder}", ("labels", "import", *judged))
        yield Step(f"learn-{folder}", ("learn", f"real/{folder}"))
        yield Step(
            f"pack-{folder}",
            act=lambda side, f=folder: _keep_pack(side, f"real/{f}", f"real-{f}"),
        )
    yield Step("named", act=lambda side: _cut(later, side / "named.jsonl", tuple(REAL.values())))
    packs = [w for folder in REAL for w in ("--with", f"packs/real-{folder}.stamo")]
    link = ("link", "--kb", "kb", "--model", "deeped.safetensors", "named.jsonl")
    yield Step("link-named", link, output="linked-named.jsonl")
    yield Step("link-named-packs", (*link, *packs), output="linked-named-packs.jsonl")


def _cut(source: Path, target: Path, names: tuple[str, ...] = ("",)) -> None:
    """Copy the first documents of a file of JSON lines that use one of the names."""
    opener = lzma.open if source.suffix == ".xz" else open
    with opener(source, "rt", encoding="utf-8") as lines:
        chosen = (line for line in lines if any(name in line for name in names))
        target.write_text("".join(islice(chosen, N_DOCUMENTS)), encoding="utf-8")


def _lines(path: Path) -> list[Any]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _entities(side: Path) -> list[dict[str, Any]]:
    """The emerging entities of the world, as its own file describes them."""
    found: list[dict[str, Any]] = json.loads((side / "world/world.json").read_text())["emerging"]
    return found


def _label(side: Path, number: int) -> None:
    """Write the world's answers for the first candidate mention of twenty documents, as tasks."""
    entity = _entities(side)[number]["id"]
    answers = {
        row["id"]: {(m["start"], m["end"]): m["entity"] for m in row["mentions"]}
        for row in _lines(side / "world/gold.jsonl")
    }
    labelled = []
    for task in json.loads((side / f"tasks-{number}.json").read_text(encoding="utf-8")):
        gold = answers.get(task["data"]["document_id"], {})
        for place in task["data"]["candidates"]:
            answer = gold.get((place["start"], place["end"]))
            if answer is not None and len(labelled) < N_LABELS:
                choice = "@emerging" if answer == entity else answer
                region = {"id": "1", "type": "labels", "value": place | {"labels": [choice]}}
                note = {"result": [region], "created_at": "2020-01-01T00:00:00+00:00"}
                labelled.append(task | {"annotations": [note]})
                break
    (side / f"gold-{number}.json").write_text(json.dumps(labelled), encoding="utf-8")


def _write_judged(side: Path, folder: str, alias: str, wild: Path) -> None:
    """Write the first judged mentions of a real entity as a table of labels."""
    kept = _workspace_documents(side / "real" / folder)
    rows: dict[str, list[str]] = {"@emerging": [], "@none": []}
    for line in (wild / "labels.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        name, document, offset, label = line.split("\t")[:4]
        start, end = int(offset), int(offset) + len(alias)
        row = kept.get(document, {"text": "", "mentions": []})
        is_within = any(
            m["start"] < end and start < m["end"] and (m["start"], m["end"]) != (start, end)
            for m in row["mentions"]
        )
        if name == alias and row["text"][start:end] == alias and not is_within:
            choice = "@emerging" if label == "1" else "@none"
            rows[choice].append(f"{document},{start},{end},{choice}")
    chosen = [row for found in rows.values() for row in found[:N_LABELS]]
    text = "\n".join(["document,start,end,choice", *chosen])
    (side / f"judged-{folder}.csv").write_text(text + "\n", encoding="utf-8")


def _workspace_documents(space: Path) -> dict[str, Any]:
    """What a workspace has collected, by id."""
    import zstandard

    found = {}
    for path in sorted((space / "documents").glob("*.zst")):
        with zstandard.open(path, "rt", encoding="utf-8") as lines:
            found.update({row["id"]: row for row in map(json.loads, lines)})
    return found


def _keep_pack(side: Path, folder: str, name: str) -> None:
    """Copy the pack that was just learned, before the next method takes its place."""
    (side / "packs").mkdir(exist_ok=True)
    made = max((side / folder / "packs").glob("*.stamo"), key=os.path.getmtime)
    shutil.copyfile(made, side / "packs" / f"{name}.stamo")


def _write_inputs(side: Path) -> None:
    """Write 40 documents of the world in every format, notes, a table and ids of entities."""
    import gzip

    import pyarrow as pa
    from pyarrow import parquet

    folder = side / "inputs" / "documents"
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        {"id": d["id"], "text": f"{d['text']} \N{EURO SIGN} caf\u00e9 \u5317\u4eac"}
        for d in _lines(side / "pile.jsonl")[:40]
    ]
    parquet.write_table(pa.Table.from_pylist(rows), folder / "a.parquet")
    (folder / "b.jsonl").write_text("".join(f"{json.dumps(r)}\n" for r in rows))
    cells = [
        '"{id}","{text}"'.format(**{k: v.replace('"', '""') for k, v in r.items()}) for r in rows
    ]
    (folder / "c.csv").write_text("\n".join(["id,text", *cells]), encoding="utf-8")
    (folder / "d.txt").write_text("\n\n".join(r["text"] for r in rows), encoding="utf-8")
    escaped = [r["text"].replace("&", "&amp;").replace("<", "&lt;") for r in rows]
    items = "".join(
        f"<item><guid>{r['id']}</guid><title>News {n}</title>"
        f"<description>{text}</description></item>"
        for n, (r, text) in enumerate(zip(rows, escaped, strict=True))
    )
    feed = (
        f"<?xml version='1.0'?><rss version='2.0'><channel><title>x</title>{items}</channel></rss>"
    )
    (folder / "e.rss").write_text(feed, encoding="utf-8")
    pages = [
        f"<!doctype html><html><head><meta charset=utf-8><title>Page {n}</title></head><body><nav>"
        f"<a href=/>Home</a></nav><article><h1>Page {n}</h1><p>{text}</p><p>{text}</p></article>"
        "<script>var x = 1;</script></body></html>"
        for n, text in enumerate(escaped)
    ]
    (folder / "f.html").write_text(pages[0], encoding="utf-8")
    records = b"".join(_warc_record(n, page.encode()) for n, page in enumerate(pages))
    (folder / "g.warc.gz").write_bytes(gzip.compress(records, mtime=0))
    shutil.copyfile(side / "world-linked.nif", folder / "h.ttl")
    entities = _entities(side)
    notes = side / "inputs" / "notes"
    notes.mkdir(exist_ok=True)
    for n, row in enumerate(rows):
        others = " and ".join(f"[[Note {(n * 7 + k) % 40}|name {k}]]" for k in range(1, 4))
        (notes / f"Note {n}.md").write_text(f"# Note {n}\n\n{row['text']} See {others}.\n", "utf-8")
    table = ["name,aliases,description,id"]
    table += [
        f"{e['id']},{'|'.join(e['aliases'])},A thing of {e['id']},Q{n}"
        for n, e in enumerate(entities)
    ]
    (side / "inputs/entities.csv").write_text("\n".join(table) + "\n", encoding="utf-8")
    titles = {m["entity"] for d in _lines(side / "world-linked.jsonl") for m in d["mentions"]}
    ids = [f"Q{n}\t{title}" for n, title in enumerate(sorted(t for t in titles if t))]
    (side / "inputs/ids.tsv").write_text("\n".join(ids) + "\n", encoding="utf-8")


def _warc_record(number: int, page: bytes) -> bytes:
    http = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n" + page
    head = (
        f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:{number:032}>\r\n"
        f"WARC-Target-URI: http://example.org/{number}\r\nWARC-Date: 2020-01-01T00:00:00Z\r\n"
        f"Content-Type: application/http; msgtype=response\r\nContent-Length: {len(http)}\r\n\r\n"
    )
    return head.encode() + http + b"\r\n\r\n"


# How a tree is run.

_READ = """
import json, sys
from pathlib import Path
from stamo import read_documents
for path in sorted(Path(sys.argv[1]).iterdir()):
    for document in read_documents([path]):
        places = [[m.start, m.end, m.surface] for m in document.mentions]
        print(json.dumps([path.name, document.id, document.text, places]))
"""
_LAB = "from stamo_lab.cli.main import main; main()"


def make_side(source: Path, side: Path, steps: list[Step]) -> list[str]:
    """Run the steps that were not run yet, one process at a time; return what failed."""
    marks = side / "steps"
    marks.mkdir(parents=True, exist_ok=True)
    failed = []
    for step in steps:
        if (marks / f"{step.name}.done").exists():
            continue
        began = time.perf_counter()
        try:
            if step.act is not None:
                step.act(side)
            else:
                _run(source, side, step)
        except Exception as error:  # of any tree, old or broken: the other steps go on
            failed.append(step.name)
            print(f"{side.name}: {step.name} failed: {type(error).__name__}: {error}", flush=True)
            continue
        seconds = time.perf_counter() - began
        (marks / f"{step.name}.done").write_text(f"{seconds:.1f} s\n")
        print(f"{side.name}: {step.name} ({seconds:.1f} s)", flush=True)
    return failed


def _run(source: Path, side: Path, step: Step) -> None:
    command = _command(source, side, step.words)
    log = side / "steps" / f"{step.name}.log"
    errors_path = log.with_suffix(".stderr.log")
    printed = side / f"{step.output}.part" if step.output else log
    with printed.open("wb") as out, errors_path.open("wb") as errors:
        done = subprocess.run(
            command,
            cwd=side,
            env=_environment(source),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=errors,
            check=False,
        )
    if done.returncode:
        said = errors_path.read_text(errors="replace")[-2000:]
        raise ChildProcessError(f"{' '.join(command[1:])}\n{said}")
    if step.output:  # what a step that failed has printed is never compared
        printed.replace(side / step.output)


def _environment(source: Path) -> dict[str, str]:
    path = os.pathsep.join([str(source), str(_lab(source))])
    return {**os.environ, "PYTHONPATH": path, "COLUMNS": "100"}


def _lab(source: Path) -> Path:
    """Where the laboratory of a tree stands, in trees that have one."""
    return source.parent / "lab" / "src"


def _command(source: Path, side: Path, words: tuple[str, ...]) -> list[str]:
    """Return the command of a step in the words of its tree."""
    if words[0] == "@read":
        return [sys.executable, "-c", _READ, *words[1:]]
    if words[0] == "@new":
        entry = _entities(side)[int(words[1])]
        aliases = [w for alias in entry["aliases"] for w in ("--alias", alias)]
        words = ("new", words[2], entry["id"], *aliases, "--who", "compare")
    elif words[0] == "@real":
        entry = json.loads((Path(words[3]) / "entities.json").read_text())[words[1]]
        aliases = [w for alias in entry["aliases"] for w in ("--alias", alias)]
        words = ("new", words[2], entry["name"], *aliases, "--description", entry["about"])
    start = [sys.executable, "-m", "stamo"]
    if words[0] == "suite" and _lab(source).exists():
        start = [sys.executable, "-c", _LAB]
    n_names = 2 if words[0] in ("suite", "labels", "packs") else 1
    offered = _help(source, tuple(start), words[:n_names])
    spoken = [OLDER[w] if w in OLDER and w not in offered else w for w in words]
    return [*start, *spoken]


@cache
def _help(source: Path, start: tuple[str, ...], names: tuple[str, ...]) -> set[str]:
    """The words that a tree's help for a command uses, its options among them."""
    environment = {**_environment(source), "COLUMNS": "300"}
    done = subprocess.run(
        [*start, *names, "--help"], env=environment, capture_output=True, text=True, check=False
    )
    return set(done.stdout.replace(",", " ").split())


# What is compared.


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    what: str
    found: str
    largest: float = 0.0
    tolerance: float = 0.0
    is_good: bool = True


def compare_sides(before: Path, after: Path) -> Iterator[Row]:
    """Compare what both sides have."""
    for name in ("kb", "world-kb", "ids-kb", "notes-kb", "table-kb"):
        yield from _row(before, after, name, f"knowledge base {name}", _compare_folders)
    yield from _row(before, after, "read.jsonl", "documents of eight formats", _compare_lines)
    for name in (*(f"entity-{n}" for n in range(N_EMERGING)), *(f"real/{f}" for f in REAL)):
        yield from _row(before, after, name, f"collected, {name}", _compare_workspaces)
    for name in ("world-deeped", "deeped", "yamada"):
        yield from _row(before, after, f"{name}.safetensors", f"model {name}", _compare_tensors)
    for name in (
        "world-linked",
        "linked-deeped",
        "linked-yamada",
        "linked-same-model",
        "linked-named",
    ):
        yield from _row(before, after, f"{name}.jsonl", f"{name}, no packs", _compare_linked)
    for kind in ("csv", "nif", "html"):
        yield from _row(before, after, f"world-linked.{kind}", f"linked as {kind}", _compare_bytes)
    for name in ("world-linked-packs", "linked-named-packs"):
        yield from _row(before, after, f"{name}.jsonl", f"{name}, mentions", _compare_mentions)
    names = [*(f"{n}-default" for n in range(N_EMERGING)), *(f"real-{f}" for f in REAL)]
    for name in (*names, *(f"0-{method}" for method in METHODS)):
        yield from _row(before, after, f"packs/{name}.stamo", f"pack {name}", _compare_tensors)
    for name in SUITES:
        yield from _row(before, after, f"runs/{name}", f"suite {name}", _compare_figures, 0.003)
    for name in _WILD:
        yield from _row(before, after, f"runs/{name}", f"figures {name}", _compare_figures, 0.002)


def _row(
    before: Path, after: Path, name: str, what: str, how: Callable[..., Row], *tolerance: float
) -> Iterator[Row]:
    left, right = before / name, after / name
    if left.exists() and right.exists():
        try:
            yield how(what, left, right, *tolerance)
        except Exception as error:  # a file that one side left damaged is a row of the table
            yield Row(what, f"cannot be compared: {error!r}", is_good=False)
    elif left.exists() or right.exists():
        yield Row(what, ONE_SIDED[right.exists()], is_good=False)


def _compare_folders(what: str, left: Path, right: Path) -> Row:
    """Knowledge bases: the same files with the same bytes, the manifest apart."""
    one, two = ({p.name for p in side.iterdir()} - {"manifest.json"} for side in (left, right))
    same = {n for n in one & two if (left / n).read_bytes() == (right / n).read_bytes()}
    unequal = sorted((one | two) - same)
    found = f"{len(same)} files equal" + (f", not {', '.join(unequal)}" if unequal else "")
    return Row(what, found, is_good=not unequal)


def _compare_bytes(what: str, left: Path, right: Path) -> Row:
    one, two = left.read_bytes(), right.read_bytes()
    return Row(
        what,
        f"{len(one)} bytes" if one == two else f"{len(one)} and {len(two)} bytes",
        is_good=one == two,
    )


def _compare_lines(what: str, left: Path, right: Path) -> Row:
    one, two = _lines(left), _lines(right)
    unequal = [n for n, (a, b) in enumerate(zip(one, two, strict=False), start=1) if a != b]
    found = f"{min(len(one), len(two)) - len(unequal)} of {len(one)} lines equal"
    if unequal:
        found += f", not lines {', '.join(map(str, unequal[:5]))}"
    return Row(what, found, is_good=not unequal and len(one) == len(two))


def _compare_linked(what: str, left: Path, right: Path) -> Row:
    """Linked documents: the same lines, else how far the mentions differ."""
    row = _compare_lines(what, left, right)
    if row.is_good:
        return row
    mentions = _compare_mentions(what, left, right)
    return Row(what, f"{row.found}; {mentions.found}", mentions.largest, 0.0, is_good=False)


def _compare_workspaces(what: str, left: Path, right: Path) -> Row:
    one, two = _workspace_documents(left), _workspace_documents(right)
    same = sum(one[name] == two.get(name) for name in one)
    is_good = same == len(one) == len(two)
    return Row(what, f"{same} of {len(one)} and {len(two)} documents equal", is_good=is_good)


def _compare_mentions(what: str, left: Path, right: Path) -> Row:
    """Linked mentions: where a name links elsewhere, and how far confidences differ."""
    n_same = n_else = 0
    largest = 0.0
    one, two = ({d["id"]: d["mentions"] for d in _lines(path)} for path in (left, right))
    for document, mentions in one.items():
        others = {(m["start"], m["end"]): m for m in two.get(document, [])}
        n_else += len(others.keys() - {(m["start"], m["end"]) for m in mentions})
        for mention in mentions:
            other = others.get((mention["start"], mention["end"]))
            if other is None or other["entity"] != mention["entity"]:
                n_else += 1
            else:
                n_same += 1
                largest = max(largest, abs(mention["confidence"] - other["confidence"]))
    found = f"{n_same} mentions alike, {n_else} differ"
    return Row(what, found, largest, 2e-4, n_else == 0 and largest <= 2e-4)


def _compare_tensors(what: str, left: Path, right: Path) -> Row:
    """Packs and models: each tensor beside the nearest of its size, whatever it is called."""
    one, two = _tensors(left), _tensors(right)
    unpaired, gaps = [], {}
    for name, value in one.items():
        near = {n: _gap(value, v) for n, v in two.items() if v.size == value.size}
        if name in near and near[name] <= 1e-5:
            near = {name: near[name]}
        best = min(near, key=lambda n: near[n], default=None)
        if best is None:
            unpaired.append(name)
        else:
            gaps[name] = near[best]
            del two[best]
    largest = max(gaps.values(), default=0.0)
    found = f"{len(gaps)} tensors"
    found += f", only before: {', '.join(unpaired)}" if unpaired else ""
    found += f", only after: {', '.join(two)}" if two else ""
    worst = max(gaps, key=lambda n: gaps[n], default="")
    found += f", furthest {worst}" if largest > 1e-5 else ""
    return Row(what, found, largest, 1e-5, largest <= 1e-5 and not unpaired and not two)


def _tensors(path: Path) -> dict[str, np.ndarray]:
    from safetensors.numpy import load_file

    return {name: np.ravel(value) for name, value in load_file(path).items()}


def _gap(left: np.ndarray, right: np.ndarray) -> float:
    if left.dtype.kind not in "fiub" or right.dtype.kind not in "fiub" or not left.size:
        return 0.0 if np.array_equal(left, right) else float("inf")
    return float(np.abs(left.astype(np.float64) - right.astype(np.float64)).max())


def _compare_figures(what: str, left: Path, right: Path, tolerance: float) -> Row:
    """Averages of a run's measures, for each method, model, size and test set."""
    one, two = (_figures(side / "results.jsonl") for side in (left, right))
    shared = one.keys() & two.keys()
    largest, worst = max(((abs(one[k] - two[k]), k) for k in shared), default=(0.0, ()))
    found = f"{sum(one[k] == two[k] for k in shared)} of {len(one)} figures equal"
    if one.keys() ^ two.keys():
        found += f", {len(one.keys() ^ two.keys())} on one side only"
    if largest > tolerance:
        found += f", furthest {' '.join(map(str, worst))}"
    return Row(what, found, largest, tolerance, largest <= tolerance and one.keys() == two.keys())


def _figures(path: Path) -> dict[tuple[str, ...], float]:
    values = defaultdict(list)
    for row in _lines(path):
        key = (row["method"], str(row.get("model", "")), str(row["n_labels"]))
        for test, outcome in (row.get("outcomes") or {}).items():
            both = outcome["predicted"] + outcome["gold"]
            values[(*key, test, "F1")].append(2 * outcome["hits"] / both if both else 1.0)
            values[(*key, test, "accuracy")].append(outcome["right"] / max(outcome["n"], 1))
        if row.get("linked") is not None:
            gold, linked = np.array(row["gold"], bool), np.array(row["linked"], bool)
            values[(*key, "hits")] += (gold & linked).tolist()
            values[(*key, "false")] += (~gold & linked).tolist()
            values[(*key, "probability")] += row["probability"]
    for key in {k[:-1] for k in values if k[-1] == "hits"}:
        hits, false = sum(values.pop((*key, "hits"))), sum(values.pop((*key, "false")))
        positives = sum(
            sum(r["gold"]) for r in _lines(path) if (r["method"], str(r["n_labels"])) == key[::2]
        )
        values[(*key, "precision")] = [hits / max(hits + false, 1)]
        values[(*key, "recall")] = [hits / max(positives, 1)]
    return {key: float(np.mean(found)) for key, found in values.items()}


def show(rows: list[Row]) -> None:
    """Print the table."""
    width = max(len(row.what) for row in rows)
    middle = max(len(row.found) for row in rows)
    print(f"\n{'what':{width}}  {'found':{middle}}  {'largest':>8}  {'allowed':>8}  verdict")
    for row in rows:
        verdict = "good" if row.is_good else "DIFFERS"
        numbers = f"{row.largest:8.2g}  {row.tolerance:8.2g}"
        print(f"{row.what:{width}}  {row.found:{middle}}  {numbers}  {verdict}")
    n_bad = sum(not row.is_good for row in rows)
    print(f"{len(rows) - n_bad} of {len(rows)} are good.")


def main() -> int:
    """Make what is missing on the wanted sides, then compare; exit 1 where something differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path, help="Folder that holds the package `stamo`.")
    parser.add_argument("after", type=Path, help="The same of the other tree.")
    parser.add_argument(
        "--data", type=Path, help="Folder of real data; only the world if not given."
    )
    parser.add_argument("--out", type=Path, default=Path("compared"), help="Folder for both sides.")
    parser.add_argument("--steps", default="", help="Words with commas: make only steps like them.")
    parser.add_argument(
        "--only", choices=("before", "after"), help="Make one side; compare nothing."
    )
    given = parser.parse_args()
    wanted = given.steps.split(",")
    steps = [*world_steps(), *(data_steps(given.data.resolve()) if given.data else ())]
    steps = [step for step in steps if any(word in step.name for word in wanted)]
    rows = []
    for name, source in (("before", given.before), ("after", given.after)):
        if given.only in (None, name):
            failed = make_side(source.resolve(), given.out.resolve() / name, steps)
            rows += [Row(f"step {step}", f"failed {name}", is_good=False) for step in failed]
    if given.only:
        return 1 if rows else 0
    found = compare_sides(given.out / "before", given.out / "after")
    rows += [row for row in found if not given.steps or row.found not in ONE_SIDED]
    show(rows)
    return 0 if all(row.is_good for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
