"""Make the same artifacts with two source trees, and tell what differs.

    python tools/compare.py BEFORE_SRC AFTER_SRC --data DIR [--out DIR] [--only before|after]

Each tree makes, through its command line alone: the embedded world, its knowledge base, a model,
a pack of each emerging entity and linked documents; and, from real data, a knowledge base of enwik8
with GloVe vectors, a model, linked documents, four suites and 64 results of each. Then every file
is compared: equal bytes, or which keys, arrays and lines differ. Measured seconds, dates and
absolute paths are left out, because no two runs share them.

DIR holds `enwik8.xml.xz`, `glove-100d.npz` and `enwiki-2015-sample.jsonl.xz`; without it only the
embedded world is made. What is made already is not made again, so an interrupted run goes on.
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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

N_EMERGING = 6
N_LABELS = 20
N_DOCUMENTS = 500
METHODS = "estimation,stamo,published,default"
READINGS = ("estimation", "stamo", "paper", "published")
"""Readings that the first entity is learned with too."""
LEVELS = ("easy", "mid", "hard")
VOLATILE = {"seconds", "slot_seconds", "created_at", "created_by", "built_at", "at", "uid", "path"}
"""Keys of records that differ from run to run with the same code."""
NOT_COMPARED = {".log", ".sqlite", ".db", ".html", ".done"}
MOST_SHOWN = 12


@dataclass(frozen=True)
class Step:
    """One command of the tree, or one act of our own between two commands."""

    name: str
    words: tuple[str, ...] = ()
    act: Callable[[Path], None] | None = None
    output: str = ""
    """File for what the command prints; a log if empty."""


def world_steps() -> Iterator[Step]:
    """From the embedded world to packs and linked documents."""
    yield Step("world", ("world", "world"))
    yield Step("world-kb", ("build", "world/dump.xml", "world-kb", "--held-out", "0.3"))
    yield Step("world-model", ("train", "world-kb", "--out", "world-deeped.safetensors"))
    for number in range(N_EMERGING):
        yield from _entity_steps(number)
    packs = [w for n in range(N_EMERGING) for w in ("--with", f"packs/{n}-default.stamo")]
    yield Step(
        "world-documents", act=lambda side: _cut(side / "world/pile.jsonl", side / "pile.jsonl")
    )
    link = ("link", "world-kb", "world-deeped.safetensors", "pile.jsonl")
    yield Step("world-link", link, output="world-linked.jsonl")
    yield Step("world-link-packs", (*link, *packs, "--explain"), output="world-linked-packs.jsonl")


def _entity_steps(number: int) -> Iterator[Step]:
    folder = f"entity-{number}"
    yield Step(f"new-{number}", ("new", "@entity", str(number), folder))
    kb = ("--kb", "world-kb", "--model", "world-deeped.safetensors")
    yield Step(f"collect-{number}", ("collect", folder, *kb, "--from", "world/pile.jsonl"))
    yield Step(f"tasks-{number}", ("labels", "export", folder, f"tasks-{number}.json", "--all"))
    yield Step(f"gold-{number}", act=lambda side: _label(side, number))
    yield Step(f"label-{number}", ("labels", "import", folder, f"gold-{number}.json"))
    for reading in (*(READINGS if number == 0 else ()), "default"):
        learn = ("learn", folder, "--reading", reading)
        yield Step(
            f"learn-{number}-{reading}",
            learn if reading == "default" else (*learn, "--slots", "10"),
        )
        yield Step(
            f"pack-{number}-{reading}", act=lambda side, r=reading: _keep_pack(side, number, r)
        )


def data_steps(data: Path) -> Iterator[Step]:
    """From real text to suites and their results."""
    vectors = ("--vectors", str(data / "glove-100d.npz"))
    yield Step("kb", ("build", str(data / "enwik8.xml.xz"), "kb", *vectors))
    yield Step("model", ("train", "kb", "--out", "deeped.safetensors"))
    yield Step("yamada", ("train", "kb", "--model", "yamada", "--out", "yamada.safetensors"))
    later = data / "enwiki-2015-sample.jsonl.xz"
    yield Step("documents", act=lambda side: _cut(later, side / "documents.jsonl"))
    for model in ("deeped", "yamada"):
        link = ("link", "kb", f"{model}.safetensors", "documents.jsonl")
        yield Step(f"link-{model}", link, output=f"linked-{model}.jsonl")
    make = ("suite", "make")
    alone = ("--kb", "kb", "--workers", "1")
    text = ("--corpus", str(later))
    yield Step("conflated", (*make, "conflated", *text, "--out", "suites", *alone))
    yield Step("natural", (*make, "natural", "--out", "natural", *alone))
    few = ("--seeds", "1", "--sizes", "", "--entities", "8")
    settings = ("--methods", METHODS, *few, *alone)
    for suite in (*(f"suites/{level}" for level in LEVELS), "natural"):
        name = Path(suite).name
        yield Step(f"run-{name}", ("suite", "run", suite, "--out", f"runs/{name}", *settings))


def _cut(source: Path, target: Path) -> None:
    """Copy the first documents of a file of JSON lines."""
    opener = lzma.open if source.suffix == ".xz" else open
    with opener(source, "rt", encoding="utf-8") as lines:
        target.write_text("".join(islice(lines, N_DOCUMENTS)), encoding="utf-8")


def _entities(side: Path) -> list[dict[str, Any]]:
    """The emerging entities of the world, as its own file describes them."""
    found: list[dict[str, Any]] = json.loads((side / "world/world.json").read_text())["emerging"]
    return found


def _label(side: Path, number: int) -> None:
    """Write the world's answers for the first candidate mention of twenty documents, as tasks."""
    entity = _entities(side)[number]["id"]
    answers: dict[str, dict[tuple[int, int], str]] = {}
    for line in (side / "world/gold.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        answers[row["id"]] = {(m["start"], m["end"]): m["entity"] for m in row["mentions"]}
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


def _keep_pack(side: Path, number: int, reading: str) -> None:
    """Copy the pack that was just learned, before the next reading takes its place."""
    (side / "packs").mkdir(exist_ok=True)
    made = max((side / f"entity-{number}" / "packs").glob("*.stamo"), key=os.path.getmtime)
    shutil.copyfile(made, side / "packs" / f"{number}-{reading}.stamo")


def make_side(source: Path, side: Path, steps: list[Step]) -> None:
    """Run the steps that were not run yet, one process at a time."""
    marks = side / "steps"
    marks.mkdir(parents=True, exist_ok=True)
    for step in steps:
        if (marks / f"{step.name}.done").exists():
            continue
        began = time.perf_counter()
        if step.act is not None:
            step.act(side)
        else:
            _run(source, side, step)
        seconds = time.perf_counter() - began
        (marks / f"{step.name}.done").write_text(f"{seconds:.1f} s\n")
        print(f"{side.name}: {step.name} ({seconds:.1f} s)", flush=True)


def _run(source: Path, side: Path, step: Step) -> None:
    words = list(step.words)
    if words[:2] == ["new", "@entity"]:
        entry, folder = _entities(side)[int(words[2])], words[3]
        aliases = [w for alias in entry["aliases"] for w in ("--alias", alias)]
        words = ["new", folder, entry["id"], *aliases, "--who", "compare"]
    log = side / "steps" / f"{step.name}.log"
    printed = side / step.output if step.output else log
    environment = {**os.environ, "PYTHONPATH": str(source), "COLUMNS": "100"}
    with printed.open("wb") as out, log.with_suffix(".stderr.log").open("wb") as errors:
        done = subprocess.run(
            [sys.executable, "-m", "stamo", *words],
            cwd=side,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=errors,
            check=False,
        )
    if done.returncode:
        said = log.with_suffix(".stderr.log").read_text(errors="replace")[-2000:]
        raise SystemExit(f"{side.name}: stamo {' '.join(words)} failed:\n{said}")


@dataclass
class Differences:
    """What a comparison found."""

    equal: int = 0
    alike: int = 0
    """Files that differ in seconds, dates and paths only."""
    found: dict[str, list[str]] = field(default_factory=dict)


def compare_sides(before: Path, after: Path) -> Differences:
    """Compare all files of two sides."""
    result = Differences()
    names = sorted({str(p.relative_to(side)) for side in (before, after) for p in _files(side)})
    for name in names:
        left, right = before / name, after / name
        if not left.exists() or not right.exists():
            result.found[name] = [f"only {'after' if right.exists() else 'before'}"]
        elif left.read_bytes() == right.read_bytes():
            result.equal += 1
        elif lines := _how(left, right):
            result.found[name] = lines
        else:
            result.alike += 1
    return result


def _files(side: Path) -> Iterator[Path]:
    for path in side.rglob("*"):
        if path.is_file() and "steps" not in path.parts and path.suffix not in NOT_COMPARED:
            yield path


def _how(left: Path, right: Path) -> list[str]:
    """Say how two files differ; nothing if only in what always differs."""
    try:
        if left.suffix == ".json":
            return _compare_values(_json(left), _json(right))
        if left.suffix == ".jsonl":
            return _compare_lines(left, right)
        if left.suffix == ".npy":
            return _compare_arrays(np.load(left, mmap_mode="r"), np.load(right, mmap_mode="r"), "")
        if left.suffix in {".safetensors", ".stamo"}:
            return _compare_tensors(left, right)
        if left.suffix == ".parquet":
            return _compare_parquet(left, right)
    except (ValueError, OSError, ImportError) as error:
        return [f"cannot be compared by content ({error})"]
    return [f"{left.stat().st_size} and {right.stat().st_size} bytes"]


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _compare_values(left: Any, right: Any, place: str = "") -> list[str]:
    """List the keys under which two records differ."""
    if isinstance(left, dict) and isinstance(right, dict):
        found = []
        for key in [*left, *(key for key in right if key not in left)]:
            if key in VOLATILE:
                continue
            where = f"{place}.{key}" if place else str(key)
            if key not in left or key not in right:
                found.append(f"{where}: only {'before' if key in left else 'after'}")
            else:
                found += _compare_values(left[key], right[key], where)
        return found
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        pairs = enumerate(zip(left, right, strict=True))
        return [line for n, (a, b) in pairs for line in _compare_values(a, b, f"{place}[{n}]")]
    if left == right or _is_path(left, right):
        return []
    return [f"{place}: {_short(left)} -> {_short(right)}"]


def _is_path(left: Any, right: Any) -> bool:
    """Whether two texts are absolute paths of one thing."""
    if not isinstance(left, str) or not isinstance(right, str):
        return False
    return left.startswith("/") and right.startswith("/") and Path(left).name == Path(right).name


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _compare_lines(left: Path, right: Path) -> list[str]:
    one, two = (path.read_text(encoding="utf-8").splitlines() for path in (left, right))
    found = [] if len(one) == len(two) else [f"{len(one)} and {len(two)} lines"]
    for number, (a, b) in enumerate(zip(one, two, strict=False), start=1):
        if a != b:
            found += _compare_values(json.loads(a), json.loads(b), f"line {number}")
    return found


def _compare_arrays(left: np.ndarray, right: np.ndarray, name: str) -> list[str]:
    if left.shape != right.shape or left.dtype != right.dtype:
        return [f"{name} {left.dtype}{left.shape} -> {right.dtype}{right.shape}".strip()]
    unequal = np.asarray(left != right)
    if left.dtype.kind == "f":
        unequal &= ~(np.isnan(left) & np.isnan(right))
    if not unequal.any():
        return []
    text = f"{name} {int(unequal.sum())} of {left.size} values differ".strip()
    if left.dtype.kind == "f":
        gap = np.abs(left.astype(np.float64) - right.astype(np.float64))
        text += f", by {np.nanmax(gap):.2g} at most"
    return [text]


def _compare_tensors(left: Path, right: Path) -> list[str]:
    from safetensors import safe_open

    with safe_open(left, "np") as one, safe_open(right, "np") as two:
        found = _compare_values(_metadata(one), _metadata(two), "metadata")
        names, others = set(one.keys()), set(two.keys())
        found += [
            f"{name}: only {'before' if name in names else 'after'}"
            for name in sorted(names ^ others)
        ]
        for name in sorted(names & others):
            found += _compare_arrays(one.get_tensor(name), two.get_tensor(name), name)
    return found


def _metadata(file: Any) -> dict[str, Any]:
    """Read metadata; texts that are JSON are taken apart."""
    found: dict[str, Any] = {}
    for key, text in (file.metadata() or {}).items():
        try:
            found[key] = json.loads(text)
        except ValueError:
            found[key] = text
    return found


def _compare_parquet(left: Path, right: Path) -> list[str]:
    from pyarrow import parquet

    one, two = parquet.read_table(left), parquet.read_table(right)
    if one.schema.names != two.schema.names or one.num_rows != two.num_rows:
        return [f"{one.schema.names} x {one.num_rows} -> {two.schema.names} x {two.num_rows}"]
    columns = [n for n in one.schema.names if not one[n].equals(two[n])]
    return [f"columns {', '.join(columns)} differ"] if columns else ["equal tables in other bytes"]


def say(result: Differences) -> None:
    """Print what was found, a few lines for each file."""
    for name, lines in result.found.items():
        print(f"{name}: {len(lines)} differences")
        for line in lines[:MOST_SHOWN]:
            print(f"    {line}")
        if len(lines) > MOST_SHOWN:
            print(f"    and {len(lines) - MOST_SHOWN} more")
    print(
        f"{result.equal} files have equal bytes, {result.alike} differ in seconds, dates and paths "
        f"only, {len(result.found)} differ."
    )


def main() -> int:
    """Make what is missing on the wanted sides, then compare; exit 1 where something differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path, help="Folder that holds the package `stamo`.")
    parser.add_argument("after", type=Path, help="The same of the other tree.")
    parser.add_argument(
        "--data", type=Path, help="Folder of real data; only the world if not given."
    )
    parser.add_argument("--out", type=Path, default=Path("compared"), help="Folder for both sides.")
    parser.add_argument(
        "--only", choices=("before", "after"), help="Make one side; compare nothing."
    )
    given = parser.parse_args()
    steps = [*world_steps(), *(data_steps(given.data.resolve()) if given.data else ())]
    for name, source in (("before", given.before), ("after", given.after)):
        if given.only in (None, name):
            make_side(source.resolve(), given.out.resolve() / name, steps)
    if given.only:
        return 0
    result = compare_sides(given.out / "before", given.out / "after")
    say(result)
    return 1 if result.found else 0


if __name__ == "__main__":
    sys.exit(main())
