"""Tables: our numbers computed by hand from counts, next to the printed ones."""

import pytest

from stamo_lab.tables import (
    Results,
    ablation_table,
    comparison_table,
    main_table,
    printed_table,
    shared_sizes,
    size_table,
)


def row(problem, method, hits, *, seed=0, n_labels=20, model="deeped", predicted=10, gold=10):
    """A result where `hits` of ten links to e* are right."""
    outcome = {
        "n": 20,
        "right": 10 + hits,
        "predicted": predicted,
        "gold": gold,
        "hits": hits,
        "auc": None if hits == 10 else 0.5 + hits / 20,
    }
    return {
        "problem": problem,
        "method": method,
        "model": model,
        "seed": seed,
        "n_labels": n_labels,
        "outcomes": {"test-web": outcome, "test-wiki": outcome},
        "seconds": 2.0,
        "n_slots": 4,
        "slot_seconds": 0.5,
        "curve": {},
    }


@pytest.fixture
def results():
    rows = [row(p, "estimation", hits) for p, hits in (("A", 4), ("B", 6))]
    rows += [row(p, "default", hits, seed=s) for p, hits in (("A", 8), ("B", 8)) for s in (0, 1)]
    rows += [row(p, "estimation(all)", 9, n_labels=0) for p in "AB"]
    rows += [row("A", "default", 7, n_labels=5), row("A", "estimation", 2, n_labels=5)]
    rows += [row("B", "default", 7, n_labels=5), row("B", "default", 9, n_labels=50)]
    return Results(tuple(rows))


def cells(table, name):
    return next(
        dict(zip(table.columns[1:], r[1:], strict=True)) for r in table.rows if r[0] == name
    )


def test_main_table_sums_counts_over_entities(results):
    """Estimation: 10 of 20 links right, so precision, recall and F1 are one half."""
    table = main_table(results, "deeped")
    found = next(r for r in table.rows if r[0] == "estimation")
    assert found[1:5] == ("75.00", "50.00", "50.00", "50.00")
    assert found[7] == "65.32"  # printed
    assert [r[0] for r in table.rows] == ["estimation", "estimation(all)", "default"]
    assert table.markdown().count("\n") == 4 + len(table.rows)


def test_the_tables_of_the_paper_are_shown_whole():
    """All that the paper prints of its STAMO with DeepED, and of methods without a model."""
    table = printed_table(3, "deeped")
    found = cells(table, "STAMO")
    assert (found["test-web f1"], found["test-wiki f1"], found["average f1"]) == (
        "81.66",
        "89.24",
        "85.45",
    )
    assert cells(table, "Keyphrase")["minutes"] == "-"
    assert len(printed_table(5, "deeped").rows) >= 4


def test_comparison_pairs_entities_and_seeds(results):
    """The default gains thirty points; entity by entity between twenty and forty."""
    found = cells(comparison_table(results, "deeped"), "default - estimation")
    assert found["test-web F1"] == "+30.00 [+20.00, +40.00]"
    assert found["test-web AUC"] == "+15.00 [+10.00, +20.00]"


def test_sizes_only_compare_entities_that_have_them_all(results):
    """A size that only few entities have is left out, and the others share their entities."""
    sizes, problems = shared_sizes(results, ("default",), "deeped")
    assert sizes == [5, 20, 50]
    assert problems == {"B"}
    table = size_table(results, ("default",))
    assert cells(table, "default, test-web F1") == {"5": "70.00", "20": "80.00", "50": "90.00"}
    assert cells(table, "default, test-web AUC") == {"5": "85.00", "20": "90.00", "50": "95.00"}


def test_ablations_stand_next_to_the_printed_numbers(results):
    """Accuracy, F1 and AUC of both test sets and their mean."""
    (found,) = ablation_table(results, 5, ("default",)).rows
    assert found[1:10] == ("90.00", "80.00", "90.00") * 3
