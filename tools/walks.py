"""Count the default ways of `stamo learn` and `stamo link`: what a reader would walk through.

    python tools/walks.py SRC [SRC ...] [--out DIR]

For each source tree the embedded world is made, its first emerging entity is collected and labelled
by the world's answers (both through the command line), and the two commands run under a profile.
Counted are the project's own functions that are called (without comprehensions, lambdas and
class bodies), the modules they stand in, and how often the package changes along the
functions in the order of their first call.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from inspect import CO_OPTIMIZED
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).parent.parent
KB = ("--kb", "world-kb", "--model", "world-deeped.safetensors")
WALKS = {
    "learn": ("learn", "entity-0"),
    "link": ("link", *KB, "world-text.txt"),
    "link --with": ("link", *KB, "world-text.txt", "--with", "packs/0-default.stamo"),
}
BUDGET = {"learn": (190, 30, 50), "link": (120, 22, 30), "link --with": (200, 32, 50)}
"""Functions, modules and changes of package that a reader should not have to pass more of."""


def trace(words: list[str], source: Path) -> list[tuple[str, str]]:
    """Run a command; return its functions (module, name) in the order of their first call."""
    from stamo.cli.main import create_app

    app = create_app()
    root = str(source / "stamo")
    passed: dict[CodeType, None] = {}

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(root):
            passed.setdefault(frame.f_code)

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        app(words, standalone_mode=False)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    functions = [code for code in passed if code.co_flags & CO_OPTIMIZED and code.co_name[0] != "<"]
    return [(_module(code, source), code.co_qualname) for code in functions]


def _module(code: CodeType, source: Path) -> str:
    path = Path(code.co_filename).relative_to(source).with_suffix("")
    return ".".join(part for part in path.parts if part != "__init__")


def count(passed: list[tuple[str, str]]) -> tuple[int, int, int]:
    """Count functions, modules and changes of package."""
    packages = [module.split(".")[1] if "." in module else "" for module, _ in passed]
    changes = sum(a != b for a, b in pairwise(packages))
    return len(set(passed)), len({module for module, _ in passed}), changes


def row(tree: str, way: str, found: tuple[int, int, int]) -> str:
    """Return one line of the table: each count with its budget."""
    cells = [
        f"{n:>12} of {most:<3}{'!' if n > most else ' '}"
        for n, most in zip(found, BUDGET[way], strict=True)
    ]
    return f"{tree[-40:]:40} {way:12}" + "".join(cells)


def by_package(passed: list[tuple[str, str]]) -> str:
    """Say how many functions of each package are passed."""
    names = Counter(module.split(".")[1] if "." in module else "stamo" for module, _ in passed)
    return ", ".join(f"{name} {n}" for name, n in names.most_common())


def prepare(source: Path, side: Path) -> None:
    """Make what the commands need: world, knowledge base, model, a labelled entity, its pack."""
    from compare import make_side, world_steps

    names = ["world", "world-kb", "world-model"]
    names += [f"{name}-0" for name in ("new", "collect", "tasks", "gold", "label")]
    names += ["learn-0-default", "pack-0-default"]
    steps = [step for step in world_steps() if step.name in names]
    make_side(source, side, steps)
    with (side / "world/pile.jsonl").open(encoding="utf-8") as lines:
        (side / "world-text.txt").write_text(json.loads(next(lines))["text"], encoding="utf-8")


def walk(source: Path, side: Path, words: tuple[str, ...]) -> list[tuple[str, str]]:
    """Trace a command in a process of its own, with the tree's own modules."""
    command = [sys.executable, str(Path(__file__).resolve()), str(source), "--trace", *words]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    done = subprocess.run(
        command, cwd=side, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return [tuple(pair) for pair in json.loads(done.stdout.splitlines()[-1])]


def main() -> None:
    """Print one line for each tree and command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sources", nargs="+", type=Path, help="Folders that hold `stamo`.")
    parser.add_argument("--out", type=Path, default=Path("compared"), help="Folder for the worlds.")
    parser.add_argument("--list", action="store_true", help="Also print every function.")
    given = parser.parse_args()
    print(f"{'tree':40} {'way':12}{'functions':>20}{'modules':>20}{'changes of package':>20}")
    for number, source in enumerate(given.sources):
        source, side = source.resolve(), given.out.resolve() / f"walks-{number}"
        prepare(source, side)
        for name, words in WALKS.items():
            passed = walk(source, side, words)
            print(row(str(source), name, count(passed)), flush=True)
            print(f"    {by_package(passed)}")
            if given.list:
                print("\n".join(f"    {module}.{function}" for module, function in passed))


if __name__ == "__main__":
    if "--trace" in sys.argv:
        at = sys.argv.index("--trace")
        found = trace(sys.argv[at + 1 :], Path(sys.argv[1]))
        print(f"\n{json.dumps(found)}")
    else:
        main()
