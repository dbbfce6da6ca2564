"""The numbers that the paper prints: the files of `experiments/` hold them one row at a time."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stamo.errors import SettingsError

EXPERIMENTS = Path(__file__).parent / "experiments"


@dataclass(frozen=True)
class Experiment:
    """One row of a table of the paper: what it prints, in percent, and how it is run."""

    table: int
    row: str
    method: str
    """The method of ours that the row corresponds to."""
    model: str
    """deeped, yamada, or empty where the row has no linking model."""
    numbers: Mapping[str, float]
    """For instance "test-web f1"; "minutes" is the learning time of one slot."""
    n_labels: int
    n_slots: int


def load_experiment(path: Path) -> Experiment:
    """Read an experiment file, one of our own where there is none at the path.

    Raises:
        SettingsError: It is missing or does not have the documented form.
    """
    path = path if path.exists() else EXPERIMENTS / f"{path.stem}.toml"
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        return Experiment(
            table=int(content["table"]),
            row=str(content["row"]),
            method=str(content["method"]),
            model=str(content["model"]),
            numbers={str(name): float(value) for name, value in content["published"].items()},
            n_labels=int(content["n_labels"]),
            n_slots=int(content["n_slots"]),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SettingsError(
            f"{path} is no experiment file ({error}); see the files in experiments/."
        ) from error


PRINTED = tuple(load_experiment(path) for path in sorted(EXPERIMENTS.glob("*.toml")))
"""Tables 3, 4 and 5."""


def printed_numbers(table: int, method: str, model: str) -> Mapping[str, float]:
    """Return what the paper prints for a method of ours; nothing where it has no such row."""
    # The paper's STAMO is one row; we run it in several readings.
    wanted = "stamo" if method in {"paper", "published", "default"} else method
    for row in PRINTED:
        if (row.table, row.method) == (table, wanted) and row.model in {model, ""}:
            return row.numbers
    return {}
