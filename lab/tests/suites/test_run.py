"""Running methods: complete, resumable, deterministic, and reported next to the paper."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from lab.tests.suites import small
from stamo.errors import (
    ArtifactMismatchError,
    DivergenceError,
    SettingsError,
    SuiteError,
)
from stamo.features.encoder import CachedEncoder, load_encoder
from stamo.models.store import EXTRA_FEATURES
from stamo_lab.cli.main import create_app
from stamo_lab.keyphrase import Keyphrase
from stamo_lab.methods import METHODS, Trial, run_method
from stamo_lab.suites import training as training_module
from stamo_lab.suites.cells import read_results, results_lock
from stamo_lab.suites.encode import load_problem
from stamo_lab.suites.report import find_runs, write_suite_report
from stamo_lab.suites.run import RunSettings, expand_methods, plan, run_suite
from stamo_lab.suites.training import train_suite_model

CHEAP = RunSettings(
    methods=("label everything", "keyphrase", "estimation", "estimation(all)", "default"),
    models=("deeped",),
    n_seeds=2,
    n_labels=8,
    label_sizes=(5, 8),
    split="all",
    n_slots=3,
)


SIZES = {"run": ["--sizes", ""]}


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    data, trained = small.easy_data(), small.easy_model()
    problem = max(data.suite.problems[:5], key=lambda p: len(p.rows["W"]))
    loaded = load_problem(data, problem)
    ablated = {
        feature: train_suite_model(data, "deeped", args=small.TRAINING, without=feature)
        for feature in ("prior", "relatedness", "embedding")
    }
    labelled = loaded.choose_labels(10, 0)
    path = tmp_path_factory.mktemp("readings") / "rows.safetensors"
    return Trial(
        data,
        loaded,
        labelled,
        trained,
        ablated,
        n_slots=2,
        encoder=CachedEncoder(load_encoder(), path),
    )


@pytest.mark.parametrize(
    ("kind", "option"),
    [
        *(("wild", o) for o in ("--labels 5", "--models yamada", "--split all")),
        *(("conflated", "--labels-by advisor"), ("natural", "--no-description")),
    ],
)
def test_running_refuses_options_of_other_suites(tmp_path, kind, option):
    """Twenty labels where five were asked for would be found out only in the tables."""
    (tmp_path / "manifest.json").write_text(json.dumps({"kind": kind}))
    line = f"suite run {tmp_path} --kb {tmp_path} --out {tmp_path / 'runs'} {option}"
    done = CliRunner().invoke(create_app(), line.split())
    assert isinstance(done.exception, SettingsError), done.output
    assert f"would be ignored: the suite is {kind}; leave it out." in str(done.exception)


@pytest.fixture
def models(monkeypatch):
    """Train small models: what they learn does not matter here."""
    monkeypatch.setattr(
        training_module,
        "train_suite_model",
        lambda data, name, *, without=None: train_suite_model(
            data, name, args=small.TRAINING, without=without
        ),
    )


@pytest.mark.parametrize("name", [n for n in METHODS if n not in {"published", "bert"}])
def test_every_method_scores_every_test_mention(trial, name):
    """A method links each test mention once, and what it reports adds up."""
    result = run_method(METHODS[name], trial)
    for set_name, test in trial.loaded.tests.items():
        outcome = result["outcomes"][set_name]
        assert outcome["n"] == len(test.gold)
        assert outcome["gold"] == int(test.is_emerging.sum())
        assert outcome["hits"] <= min(outcome["gold"], outcome["predicted"])
        assert outcome["hits"] <= outcome["right"] <= outcome["n"]


def test_encoder_methods_without_an_encoder_say_what_to_do(trial):
    """The option is named; nothing is run."""
    with pytest.raises(SuiteError, match="--encoder"):
        run_method(METHODS["default+encoder"], replace(trial, encoder=None))


def test_a_line_for_f1_links_at_least_as_much(trial):
    """The best line for F1 never lies above even odds, and the ranking stays."""
    for way in ("", "+encoder"):
        even, f1 = (run_method(METHODS[f"default{way}{line}"], trial) for line in ("", "+f1"))
        for name, outcome in even["outcomes"].items():
            assert f1["outcomes"][name]["predicted"] >= outcome["predicted"]
            assert f1["outcomes"][name]["auc"] == pytest.approx(outcome["auc"])


def test_second_run_in_one_directory_is_refused(tmp_path):
    """Two writers would leave every result twice."""
    with results_lock(tmp_path), pytest.raises(SuiteError, match="Another run writes"):
        run_suite(small.levels()[0], small.kb(), tmp_path, CHEAP, n_workers=1)


def test_a_model_with_a_feature_of_ones_own_runs(trial, monkeypatch):
    """W, tests and training groups are encoded with whatever features the model has."""
    monkeypatch.setitem(EXTRA_FEATURES, "keyphrase", Keyphrase())
    data, problem = trial.data, trial.loaded.problem
    trained = train_suite_model(data, "deeped", args=small.TRAINING, extra=["keyphrase"])
    loaded = load_problem(data, problem, features=trained.model.features)
    assert set(loaded.learning.pile.mentions.known) == {"prior", "relatedness", "keyphrase"}
    own = Trial(**{**vars(trial), "loaded": loaded, "trained": trained})
    for name in ("estimation", "default"):
        outcomes = run_method(METHODS[name], own)["outcomes"]
        assert {n: o["n"] for n, o in outcomes.items()} == {
            n: len(t.gold) for n, t in loaded.tests.items()
        }


def test_run_resumes_where_it_was_cut(models, tmp_path):
    """A run that lost its last lines ends with the same results as one that was never cut."""
    suite, kb = small.levels()[0], small.kb()
    path = run_suite(suite, kb, tmp_path / "whole", CHEAP, n_workers=1)
    whole = read_results(tmp_path / "whole")
    n_problems = sum(p.split != "training" for p in suite.problems)
    assert len(whole) == n_problems * len(plan(CHEAP))
    cut = tmp_path / "cut"
    cut.mkdir()
    for name in ("run.json", "deeped.safetensors"):
        (cut / name).write_bytes((tmp_path / "whole" / name).read_bytes())
    (cut / "results.jsonl").write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    run_suite(suite, kb, cut, CHEAP, n_workers=1)
    assert sorted(map(comparable, read_results(cut))) == sorted(map(comparable, whole))
    before = (cut / "results.jsonl").read_bytes()
    run_suite(suite, kb, cut, CHEAP, n_workers=1)
    assert (cut / "results.jsonl").read_bytes() == before


def comparable(row):
    """A result without what a clock measured."""
    return json.dumps({k: v for k, v in row.items() if "seconds" not in k}, sort_keys=True)


def test_a_method_that_diverges_stops_no_other_and_suites_are_not_mixed(
    models, tmp_path, monkeypatch
):
    """Its failure is a result without outcomes; a directory of results belongs to one suite."""

    def diverge(trial):
        raise DivergenceError("Slot 3 is not finite.")

    failing = replace(METHODS["estimation(all)"], answer=diverge)
    monkeypatch.setitem(METHODS, "estimation(all)", failing)
    chosen = ("estimation(all)", "label everything")
    settings = RunSettings(methods=chosen, models=("deeped",), split="all", label_sizes=())
    run_suite(small.levels()[0], small.kb(), tmp_path, settings, n_workers=1)
    rows = read_results(tmp_path)
    assert {(r["method"], r.get("error"), bool(r["outcomes"])) for r in rows} == {
        ("estimation(all)", "Slot 3 is not finite.", False),
        ("label everything", None, True),
    }
    with pytest.raises(ArtifactMismatchError, match="another suite"):
        run_suite(small.levels()[1], small.kb(), tmp_path, settings, n_workers=1)


def test_report_shows_our_numbers_next_to_the_printed_ones(models, tmp_path):
    """Markdown, JSON and figures are written; the paper's STAMO stands beside the default."""
    run_suite(small.levels()[0], small.kb(), tmp_path, CHEAP, n_workers=1)
    tables = write_suite_report(tmp_path)
    text = (tmp_path / "report.md").read_text()
    row = next(line for line in text.splitlines() if line.startswith("| default |"))
    assert "81.66" in row
    assert "89.24" in row
    assert tables[0].title.startswith("Table 3, deeped, |L| = 8")
    values = json.loads((tmp_path / "report.json").read_text())
    f1 = values["summaries"]["deeped"]["default"]["8"]["test-web"]["f1"]
    assert f"{100 * f1:.2f}" in row
    assert (tmp_path / "labelled-size.png").read_bytes().startswith(b"\x89PNG")
    assert find_runs(tmp_path) == [tmp_path]


def test_unknown_names_are_refused():
    """Methods, models and splits are checked before anything runs."""
    for wrong in ({"methods": ("guess",)}, {"models": ("bart",)}, {"split": "test"}):
        with pytest.raises(SettingsError):
            RunSettings(**wrong)
    quirks = set(expand_methods(["quirks"]))
    readers = {name for name, method in METHODS.items() if method.reads}
    assert {"estimation with odds prior", "stamo with random restart"} <= quirks
    assert set(expand_methods(["all"])) == set(METHODS) - {"bert"} - quirks - readers


def test_commands_make_run_and_report(models, tmp_path, monkeypatch):
    """The three commands work one after the other."""
    from stamo_lab.suites import conflated

    app = create_app()
    monkeypatch.setattr(
        conflated,
        "ConflatedSettings",
        lambda level, **given: replace(small.SMALL, level=level),
    )
    runner = CliRunner()
    kb = str(small.kb().path)
    suites, results = str(tmp_path / "suites"), str(tmp_path / "results")
    make = f"make conflated --kb {kb} --corpus {small.pile_path()} --out {suites}"
    run = (
        f"run {suites} --kb {kb} --out {results} --methods estimation --models deeped --seeds 1 "
        "--labels 8 --split all --workers 1"
    )
    outputs = []
    for line in (make, run, f"report {results}"):
        done = runner.invoke(app, ["suite", *line.split(), *SIZES.get(line.split()[0], [])])
        assert done.exit_code == 0, done.output
        outputs.append(done.output)
    assert "conflated hard" in outputs[0]
    assert (tmp_path / "results" / "mid" / "report.md").is_file()
