"""What a run on Spark did, and what the same on more data and more cores would take.

    python tools/cluster.py EVENTS --times 1000 --cores 16,64,256

EVENTS is an event log of Spark (spark.eventLog.enabled) or a folder of them. For each step the
table tells its tasks, how uneven they are (the longest against the mean), and what was shuffled.
The simulation has so many times the tasks, of the same lengths: tasks read pieces of one size, so
more data is more tasks. Each task goes to the core that is free first, one step after the other.
"""

from __future__ import annotations

import argparse
import heapq
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path

MOST_SIMULATED = 200_000
"""Beyond so many tasks the mean decides, and the longest task is added."""
OTHER = "other"


@dataclass
class Step:
    """The tasks of one step."""

    name: str
    seconds: list[float] = field(default_factory=list)
    n_shuffled: int = 0
    n_failed: int = 0

    @property
    def mean(self) -> float:
        """Seconds of a task, on average."""
        return sum(self.seconds) / max(len(self.seconds), 1)

    @property
    def skew(self) -> float:
        """The longest task against the mean."""
        return max(self.seconds, default=0.0) / max(self.mean, 1e-9)


def read_events(paths: Iterable[Path]) -> Iterator[dict[str, object]]:
    """Yield the events of logs."""
    for path in paths:
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                yield json.loads(line)


def gather_steps(events: Iterable[dict[str, object]]) -> list[Step]:
    """Add up the tasks of each step, in the order in which the steps began."""
    steps: dict[str, Step] = {}
    name_by_stage: dict[int, str] = {}
    for event in events:
        kind = event.get("Event")
        if kind == "SparkListenerJobStart":
            name = str((event.get("Properties") or {}).get("spark.job.description") or OTHER)
            name_by_stage |= {stage: name for stage in event["Stage IDs"]}
        elif kind == "SparkListenerTaskEnd":
            name = name_by_stage.get(event["Stage ID"], OTHER)
            _add_task(steps.setdefault(name, Step(name)), event)
    return list(steps.values())


def _add_task(step: Step, event: dict[str, object]) -> None:
    info, metrics = event["Task Info"], event.get("Task Metrics") or {}
    if info.get("Failed"):
        step.n_failed += 1
        return
    step.seconds.append((info["Finish Time"] - info["Launch Time"]) / 1000)
    written = metrics.get("Shuffle Write Metrics") or {}
    step.n_shuffled += int(written.get("Shuffle Bytes Written", 0))


def makespan(seconds: Sequence[float], times: int, n_cores: int) -> float:
    """Return when the last of `times` as many tasks ends, each begun by the first free core."""
    n_tasks = len(seconds) * times
    if not n_tasks:
        return 0.0
    if n_tasks > MOST_SIMULATED:
        return sum(seconds) * times / n_cores + max(seconds)
    free = [0.0] * min(n_cores, n_tasks)
    for length in islice(cycle(seconds), n_tasks):
        heapq.heapreplace(free, free[0] + length)
    return max(free)


def table_lines(steps: Sequence[Step], times: int, cores: Sequence[int]) -> list[str]:
    """Write the table as Markdown."""
    heads = [f"simulated: {times} x the tasks, {n} cores" for n in cores]
    columns = ["step", "tasks", "failed", "seconds a task", "longest / mean", "shuffled MB", *heads]
    lines = [f"| {' | '.join(columns)} |", f"| --- |{' ---: |' * (len(columns) - 1)}"]
    totals = [0.0] * len(cores)
    for step in steps:
        spans = [makespan(step.seconds, times, n) for n in cores]
        totals = [total + span for total, span in zip(totals, spans, strict=True)]
        cells = [
            step.name,
            str(len(step.seconds)),
            str(step.n_failed),
            f"{step.mean:.2f}",
            f"{step.skew:.1f}",
            f"{step.n_shuffled / 1e6:.1f}",
            *(f"{span:,.0f} s" for span in spans),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    n_tasks = sum(len(step.seconds) for step in steps)
    shuffled = sum(step.n_shuffled for step in steps) / 1e6
    sums = [f"{total:,.0f} s" for total in totals]
    lines.append(f"| all | {n_tasks} | | | | {shuffled:.1f} | {' | '.join(sums)} |")
    return lines


def main() -> None:
    """Print the table of one run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("events", type=Path, help="event log of Spark, or a folder of them")
    parser.add_argument("--times", type=int, default=1, help="how many times the data")
    parser.add_argument("--cores", default="2", help="numbers of cores, with commas")
    given = parser.parse_args()
    logs = sorted(p for p in given.events.iterdir() if p.is_file()) if given.events.is_dir() else []
    steps = gather_steps(read_events(logs or [given.events]))
    cores = [int(n) for n in given.cores.split(",")]
    print("\n".join(table_lines(steps, given.times, cores)))


if __name__ == "__main__":
    main()
