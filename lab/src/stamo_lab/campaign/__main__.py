"""Run the campaign, or parts of it, and print the table; exit code 1 when anything failed."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from stamo_lab.campaign import clients, faults, growth, inputs, requests
from stamo_lab.campaign.table import Row, run_apart, show

Part = Callable[[Path, argparse.Namespace], Iterator[Row]]

PARTS: dict[str, Part] = {
    "inputs": lambda folder, args: inputs.rows(folder, args.seconds, args.seed, args.only),
    "requests": lambda folder, args: requests.rows(folder, 4 * args.seconds, args.seed),
    "growth": lambda folder, args: growth.rows(folder, args.only),
    "kills": lambda folder, args: faults.kill_rows(folder, args.kills, args.seed, args.only),
    "disks": lambda folder, args: faults.disk_rows(folder, args.only),
    "clients": lambda folder, args: clients.rows(folder, args.requests, args.only),
}


def main() -> None:
    """Attack everything and print the table."""
    parser = argparse.ArgumentParser(prog="python -m stamo_lab.campaign", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--seconds", type=float, default=20, help="for one share of a target")
    parser.add_argument("--kills", type=int, default=60, help="for each kind of work")
    parser.add_argument("--requests", type=int, default=2000, help="under load")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="part of a target's name")
    args = parser.parse_args()
    unknown = set(args.parts) - set(PARTS)
    if unknown:
        parser.error(f"there is no part {', '.join(sorted(unknown))}; choose of {', '.join(PARTS)}")
    folder = Path(tempfile.mkdtemp(prefix="stamo-campaign-"))
    try:
        # In a process of its own: what comes later forks, and must not have had its threads.
        made = run_apart("preparing", lambda row, tell: inputs.prepare(folder), 300)
        if made.n_failed:
            sys.exit(f"The campaign could not be prepared: {made.first_failure}")
        is_well = show(row for part in args.parts or PARTS for row in PARTS[part](folder, args))
        sys.exit(not is_well)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
