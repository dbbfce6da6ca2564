"""Figures: curves keep the last result of runs that stopped, and files are images."""

import pytest

from lab.tests.test_tables import row
from stamo_lab.suites.report import (
    FIGURES,
    curve,
    draw,
    shared_problems,
)
from stamo_lab.tables import Results


def watched(problem, method, by_slot, final):
    """A result whose hits after some slots are known."""
    found = row(problem, method, final)
    found["n_slots"] = max(by_slot)
    found["curve"] = {str(t): row(problem, method, h)["outcomes"] for t, h in by_slot.items()}
    return found


def test_methods_are_compared_on_the_same_problems():
    """A problem on which one of the methods was not run is left out of all curves."""
    rows = (
        watched("A", "stamo", {1: 2}, 2),
        watched("B", "stamo", {1: 8}, 8),
        watched("A", "stamo without warm-up", {1: 3}, 3),
    )
    methods = ("stamo", "stamo without warm-up", "stamo without small eta")
    assert shared_problems(Results(rows), methods) == {"A"}
    points = curve(Results(rows), "stamo", "test-web", [1], frozenset("A"))
    assert points[1].f1 == pytest.approx(0.2)


def test_figures_are_drawn_where_there_is_something_to_draw(tmp_path):
    """Each figure is a PNG; without its results nothing is written."""
    rows = [watched("A", m, {1: 2, 2: 4}, 4) for m in ("stamo", "self-training")]
    rows += [watched("A", "stamo without warm-up", {1: 3}, 3)]
    rows += [row("A", "default", 7, n_labels=n) for n in (5, 20)]
    for name, panels in FIGURES.items():
        assert draw(panels(Results(tuple(rows))), tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
        nothing = Results((row("A", "label everything", 5),))
        assert not draw(panels(nothing), tmp_path / "none.png")
    assert not (tmp_path / "none.png").exists()
