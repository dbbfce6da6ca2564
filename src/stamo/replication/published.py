"""The numbers that the paper prints, and the experiment files that hold them one row at a time."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stamo.errors import SettingsError

METRICS = ("accuracy", "precision", "recall", "f1")


@dataclass(frozen=True)
class Printed:
    """One row of a table of the paper, in percent as printed."""

    table: int
    row: str
    method: str
    """The method of ours that the row corresponds to."""
    model: str
    """deeped, yamada, or empty where the row has no linking model."""
    numbers: Mapping[str, float]
    """For instance "test-web f1"; "minutes" is the learning time of one slot."""


def _table3(
    row: str, method: str, model: str, values: Sequence[float], minutes: float | None = None
) -> Printed:
    web, wiki, average = values[:4], values[4:8], values[8:]
    numbers = {f"test-web {name}": v for name, v in zip(METRICS, web, strict=True)}
    numbers |= {f"test-wiki {name}": v for name, v in zip(METRICS, wiki, strict=True)}
    numbers |= {"average accuracy": average[0], "average f1": average[1]}
    if minutes is not None:
        numbers["minutes"] = minutes
    return Printed(3, row, method, model, numbers)


def _table4(row: str, method: str, values: Sequence[float]) -> Printed:
    sets = ("test-web", "test-wiki", "average")
    names = [f"{where} {metric}" for where in sets for metric in ("accuracy", "f1")]
    return Printed(4, row, method, "deeped", dict(zip(names, values, strict=True)))


def _table5(row: str, method: str, accuracy: float, f1: float) -> Printed:
    return Printed(5, row, method, "deeped", {"average accuracy": accuracy, "average f1": f1})


PRINTED: tuple[Printed, ...] = (
    _table3(
        "Keyphrase",
        "keyphrase",
        "",
        (33.32, 82.56, 48.83, 61.39, 44.96, 87.15, 65.23, 74.61, 39.14, 68.00),
    ),
    _table3(
        "BERT",
        "bert",
        "",
        (53.88, 98.24, 29.51, 45.39, 52.44, 95.53, 38.32, 54.70, 53.16, 50.04),
    ),
    _table3(
        "Estimation",
        "estimation",
        "yamada",
        (46.03, 88.75, 45.03, 59.75, 43.03, 92.43, 26.24, 40.87, 44.53, 50.31),
    ),
    _table3(
        "Estimation(1K)",
        "estimation(all)",
        "yamada",
        (65.39, 87.77, 78.76, 83.02, 59.16, 88.59, 57.74, 69.92, 62.27, 76.47),
    ),
    _table3(
        "Self-Training",
        "self-training",
        "yamada",
        (47.07, 71.97, 57.17, 63.72, 48.93, 80.70, 41.62, 54.92, 48.00, 59.32),
        13.52,
    ),
    _table3(
        "+ Intra-Slot Optimization",
        "self-training+intra",
        "yamada",
        (62.00, 79.92, 79.44, 79.68, 68.13, 91.20, 72.43, 80.74, 65.06, 80.21),
        13.82,
    ),
    _table3(
        "+ Inter-Slot Optimization",
        "self-training+inter",
        "yamada",
        (51.42, 87.44, 55.47, 67.88, 49.48, 91.41, 37.77, 53.46, 50.45, 60.67),
        13.63,
    ),
    _table3(
        "STAMO",
        "stamo",
        "yamada",
        (63.86, 89.95, 76.28, 82.55, 68.94, 94.53, 71.18, 81.21, 66.40, 81.88),
        13.95,
    ),
    _table3(
        "Estimation",
        "estimation",
        "deeped",
        (49.50, 78.87, 55.75, 65.32, 49.06, 94.23, 18.24, 30.56, 49.28, 47.94),
    ),
    _table3(
        "Estimation(1K)",
        "estimation(all)",
        "deeped",
        (68.11, 81.41, 87.72, 84.45, 64.43, 90.81, 47.79, 62.63, 66.27, 73.54),
    ),
    _table3(
        "Self-Training",
        "self-training",
        "deeped",
        (55.25, 63.50, 77.57, 69.83, 59.47, 86.40, 40.76, 55.39, 57.36, 62.61),
        12.13,
    ),
    _table3(
        "+ Intra-Slot Optimization",
        "self-training+intra",
        "deeped",
        (63.32, 69.74, 87.27, 77.52, 81.85, 93.67, 77.40, 84.76, 72.54, 81.14),
        12.60,
    ),
    _table3(
        "+ Inter-Slot Optimization",
        "self-training+inter",
        "deeped",
        (62.36, 66.42, 89.63, 76.30, 66.13, 88.33, 52.38, 65.76, 64.25, 71.03),
        12.72,
    ),
    _table3(
        "STAMO",
        "stamo",
        "deeped",
        (68.48, 70.06, 97.87, 81.66, 86.19, 92.71, 86.03, 89.24, 77.34, 85.45),
        13.25,
    ),
    _table4("STAMO", "stamo", (68.48, 81.66, 86.19, 89.24, 77.34, 85.45)),
    _table4(
        "w/o changing δ",
        "stamo without adaptive delta",
        (66.83, 81.03, 84.09, 87.05, 75.50, 84.03),
    ),
    _table4(
        "w/o changing η", "stamo without small eta", (64.25, 79.46, 85.31, 89.05, 74.78, 84.26)
    ),
    _table4("w/o warm-up", "stamo without warm-up", (68.32, 81.53, 85.66, 88.89, 76.99, 85.21)),
    _table5("Three EL features", "stamo", 77.34, 85.45),
    _table5("w/o prior probability", "stamo without prior", 50.26, 56.50),
    _table5("w/o relatedness score", "stamo without relatedness", 67.92, 83.22),
    _table5("w/o entity embedding", "stamo without embedding", 63.44, 72.37),
)
"""Tables 3, 4 and 5."""


def printed_row(table: int, method: str, model: str) -> Printed | None:
    """Return the paper's row for a method of ours, if it has one."""
    # The paper's STAMO is one row; we run it in several readings.
    wanted = "stamo" if method in {"paper", "published", "default"} else method
    for row in PRINTED:
        if (row.table, row.method) == (table, wanted) and row.model in {model, ""}:
            return row
    return None


@dataclass(frozen=True)
class Experiment:
    """One row of a table as something to run: settings and published numbers."""

    name: str
    printed: Printed
    n_labels: int
    n_slots: int


def load_experiment(path: Path) -> Experiment:
    """Read an experiment file.

    Raises:
        SettingsError: It is missing or does not have the documented form.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        printed = Printed(
            table=int(content["table"]),
            row=str(content["row"]),
            method=str(content["method"]),
            model=str(content["model"]),
            numbers={str(name): float(value) for name, value in content["published"].items()},
        )
        return Experiment(path.stem, printed, int(content["n_labels"]), int(content["n_slots"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SettingsError(
            f"{path} is no experiment file ({error}); see the files in experiments/."
        ) from error
