"""Running methods on real new entities: labels, resuming, measures, report and commands."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from stamo.features.mentions import EMERGING, OTHER
from stamo_lab.cli.main import create_app
from stamo_lab.suites.cells import read_results
from stamo_lab.wild.load import (
    ADVISOR,
    DRAWN_ONCE,
    IN_HALF,
    RANDOM_IN_HALF,
    WHOLE_HALF,
    draw_labels,
    load_wild,
)
from stamo_lab.wild.report import (
    measure_rows,
    write_wild_report,
)
from stamo_lab.wild.run import WildSettings, expand_wild_methods, run_wild
from stamo_lab.wild.suite import open_wild

CHEAP = WildSettings(methods=("default", "estimation+correction", "estimation"), sizes=(0, 8))


@pytest.fixture(scope="module")
def results(wild, world_kb, tmp_path_factory):
    """A run with random labels."""
    out = tmp_path_factory.mktemp("results")
    run_wild(wild, world_kb, out, CHEAP, n_workers=1)
    return out


def test_advisor_and_lot_choose_in_the_same_half(wild, world_kb):
    """Both are tested on the other half, and the advisor asks for each mention once."""
    loaded = load_wild(wild, 0, world_kb)
    by = {how: draw_labels(loaded, 10, 3, how) for how in IN_HALF}
    asked, half = by[ADVISOR], by[WHOLE_HALF]
    assert sorted([*half.labelled, *half.test]) == list(range(len(loaded.gold)))
    for draw in by.values():
        assert draw.test.tolist() == half.test.tolist()
        assert set(draw.labelled) <= set(half.labelled)
    for how in (ADVISOR, RANDOM_IN_HALF, DRAWN_ONCE):
        assert len(set(by[how].labelled.tolist())) == 10
    fewer = draw_labels(loaded, 4, 3, ADVISOR)
    assert fewer.labelled.tolist() == asked.labelled[:4].tolist()


def test_entities_of_the_world_are_learned(results):
    """Ours is far better than chance on an easy world."""
    rows = [r for r in read_results(results) if r["method"] == "default" and r["n_labels"]]
    metrics = measure_rows(rows, n_samples=50)
    assert metrics["macro F1"].value > 0.5
    assert metrics["AUC"].value > 0.7


def test_run_resumes_and_is_deterministic(wild, world_kb, results, tmp_path):
    """A run that lost its last lines ends with the same rows, also on two cores."""
    whole = (results / "results.jsonl").read_text()
    rows = [without_time(row) for row in read_results(results)]
    lines = whole.splitlines(keepends=True)
    (tmp_path / "results.jsonl").write_text("".join(lines[:7]) + lines[8][:25])
    run_wild(wild, world_kb, tmp_path, CHEAP, n_workers=2)
    again = [without_time(row) for row in read_results(tmp_path)]
    key = lambda row: json.dumps(row, sort_keys=True)  # noqa: E731
    assert sorted(again, key=key) == sorted(rows, key=key)


def without_time(row):
    return {name: value for name, value in row.items() if name != "seconds"}


def row(problem, gold, linked, probability, *, seed=0, n_positive=3, n_labels=20):
    return {
        "problem": problem,
        "gold": gold,
        "linked": linked,
        "probability": probability,
        "test": list(range(len(gold))),
        "seed": seed,
        "n_positive": n_positive,
        "n_labels": n_labels,
    }


def test_measures_by_hand():
    """F1 by entity and over all, AUC, and what is stolen with and without rare entities."""
    rows = [
        row("a", [1, 1, 0, 0], [1, 0, 1, 0], [0.9, 0.4, 0.6, 0.1]),
        row("a", [1, 0], [1, 0], [0.8, 0.2], seed=1),
        row("b", [1, 0, 0], [0, 0, 0], [0.3, 0.2, 0.1]),
        row("rare", [0, 0], [1, 0], [0.7, 0.1], n_positive=1),
    ]
    metrics = {name: metric.value for name, metric in measure_rows(rows, n_samples=10).items()}
    assert metrics["macro F1"] == pytest.approx(((0.5 + 1) / 2 + 0) / 2)
    assert metrics["micro F1"] == pytest.approx(2 * 2 / (3 + 4))
    assert metrics["AUC"] == pytest.approx((0.75 + 1 + 1) / 3)
    assert metrics["stolen"] == pytest.approx(1 / 5)


def test_senses_name_known_candidates_or_nothing(wild, world_kb):
    """A mention of a known namesake is labelled with it, any other one with none of these."""
    loaded = load_wild(wild, 0, world_kb)
    named = {j.sense for j in loaded.problem.judged if not j.is_entity}
    known = {*loaded.senses[~loaded.gold].tolist()} - {OTHER}
    assert {world_kb.titles(np.array([number]))[0] for number in known} <= named
    assert known
    assert {*loaded.senses[loaded.gold].tolist()} == {EMERGING}


def test_ablations_leave_out_one_view_each(wild, world_kb, tmp_path):
    """The word names all of them; what a view says is missing from the answers."""
    names = expand_wild_methods(["ablations"])
    assert "default without neighbours" in names
    few = WildSettings(("default", *names), sizes=(8,), n_draws=1, n_problems=2, encoder=None)
    run_wild(wild, world_kb, tmp_path, few, n_workers=1)
    answers = {row["method"]: row["probability"] for row in read_results(tmp_path)}
    assert {*answers} == {"default", *names}
    assert answers["default without neighbours"] != answers["default"]
    assert answers["default without sentence"] == answers["default"]  # no encoder, no such view


def test_checked_runs_tell_what_left_out_labels_say(wild, world_kb, tmp_path):
    """The answers are those of the default; the report compares the rates with the test."""
    methods = ("default", "default+check")
    few = WildSettings(methods, sizes=(8,), n_draws=1, n_problems=2, encoder=None)
    run_wild(wild, world_kb, tmp_path, few, n_workers=1)
    rows = read_results(tmp_path)
    plain, checked = ([r for r in rows if r["method"] == name] for name in methods)
    assert [r["probability"] for r in plain] == [r["probability"] for r in checked]
    assert all(0 <= r["left_out"][0] <= r["left_out"][2] <= 8 for r in checked)
    titles = [table.title for table in write_wild_report(tmp_path)]
    assert "What left-out labels tell, 8 labels, random" in titles


def test_report_shows_every_method_and_gain(results):
    """Markdown and JSON are written; failed runs are told."""
    tables = write_wild_report(results)
    titles = [table.title for table in tables]
    place = titles.index("Real new entities, 8 labels, random")
    shown = [row[0] for row in tables[place].rows]
    assert shown[: len(CHEAP.methods)] == list(CHEAP.methods)
    assert [row[0] for row in tables[place + 1].rows][:2] == [
        "default - estimation+correction",
        "default - estimation",
    ]
    text = (results / "report.md").read_text()
    assert "8 labels" in text
    values = json.loads((results / "report.json").read_text())
    assert values["summaries"]["8 labels, random"]["default"]["macro F1"]["value"] > 0.5


def test_commands_make_run_and_report(world, world_kb, world_model, wild_files, tmp_path):
    """The three commands work one after the other, also with the advisor's labels."""
    app = create_app()
    world_model.save(tmp_path / "model.safetensors")
    entities, labels = wild_files
    made, out = tmp_path / "wild", tmp_path / "out"
    lines = (
        f"make wild --kb {world_kb.path} --model {tmp_path / 'model.safetensors'} --entities "
        f"{entities} --labels {labels} --corpus {world.paths.pile_path} --out {made}",
        f"run {made} --kb {world_kb.path} --out {out} --methods estimation+correction --seeds 1 "
        "--sizes 6 --labels-by advisor --workers 1",
        f"report {out}",
    )
    for line in lines:
        done = CliRunner().invoke(app, ["suite", *line.split()])
        assert done.exit_code == 0, done.output
    assert "Gained by the advisor" in (out / "report.md").read_text()


def test_encodings_are_kept_beside_the_suite(wild, world_kb, tmp_path):
    """A second run reads nothing again and says the same; without line and encoder it says else."""
    settings = WildSettings(methods=("default", "default+f1", "description"), sizes=(8,), n_draws=1)
    settings = replace(settings, n_problems=1)
    rows = []
    for name in ("first", "second"):
        run_wild(wild, world_kb, tmp_path / name, settings, n_workers=1)
        rows.append([without_time(row) for row in read_results(tmp_path / name)])
    assert rows[0] == rows[1]
    assert (wild.path / "encodings" / "0000.safetensors").is_file()
    assert open_wild(wild.path, world_kb).checksum == wild.checksum
    bare = replace(settings, encoder=None, description=False)
    run_wild(wild, world_kb, tmp_path / "bare", bare, n_workers=1)
    default, _, about = read_results(tmp_path / "bare")
    assert default["probability"] != rows[0][0]["probability"]
    assert "--encoder" in about["error"]
