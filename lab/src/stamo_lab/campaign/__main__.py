"""Run the campaign, or parts of it, and print the table; exit code 1 when anything failed."""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from stamo.cli.main import create_app
from stamo_lab.campaign import (
    artifacts,
    bombs,
    documents,
    faults,
    growth,
    power,
    races,
    service,
)
from stamo_lab.campaign.table import Row, Target, run, run_apart, show

PARTS: dict[str, Callable[[Path, str], Iterator[Target]]] = {
    "documents": documents.targets,
    "artifacts": artifacts.targets,
    "power": power.targets,
    "races": races.targets,
    "faults": faults.targets,
    "service": service.targets,
    "growth": growth.targets,
    "bombs": bombs.targets,
}


def prepare(folder: Path) -> Row:
    """Make what is attacked, in a process of its own: what comes later forks, without threads."""

    def make(row: Row) -> Iterator[None]:
        artifacts.prepare(folder)
        yield

    return run_apart(Target("preparing", make, max_megabytes=None), 300)


def main() -> None:
    """Attack everything and print the table."""
    parser = argparse.ArgumentParser(prog="python -m stamo_lab.campaign", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--minutes", type=float, default=8, help="for all targets together")
    parser.add_argument("--hours", type=float, default=0, help="the same, for a night")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="part of a target's name")
    args = parser.parse_args()
    unknown = set(args.parts) - set(PARTS)
    if unknown:
        parser.error(f"there is no part {', '.join(sorted(unknown))}; choose of {', '.join(PARTS)}")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for name in ("stamo.workspace.learn", "stamo.discovery.propose", "stamo.models.train"):
        importlib.import_module(name)  # once for all targets, which are forked
    create_app()
    seconds = 3600 * args.hours or 60 * args.minutes
    start = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="stamo-campaign-"))
    try:
        made = prepare(folder)
        if made.n_failed:
            sys.exit(f"The campaign could not be prepared: {made.first_failure}")
        targets = [t for p in args.parts or PARTS for t in PARTS[p](folder, str(args.seed))]
        chosen = [target for target in targets if args.only in target.name]
        sys.exit(not show(run(chosen, seconds - (time.monotonic() - start))))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
