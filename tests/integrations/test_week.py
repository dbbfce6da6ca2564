"""A week of new names, by commands alone: a table, one pass, labels, packs, every way to link."""

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stamo.cli.main import create_app
from stamo.workspace.folder import Workspace
from stamo.workspace.gold import read_answers
from tests.integrations.asking import by_command, by_service, by_spacy, linked_only


def run(*arguments, code=0):
    """Run a command and return what it prints for programs."""
    result = CliRunner().invoke(create_app(), [*map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return json.loads(result.stdout) if "--json" in arguments else result.stdout


def write_labels(path, space, gold, n):
    """Write a table of labels as another tool would: every third document, by place in the text."""
    rows = []
    for document in list(space.documents)[::3][:n]:
        mention = next(m for m in document.mentions if m.entity is None)
        answer = gold[document.id][mention.start, mention.end]
        choice = "@emerging" if answer == space.entity.id else answer
        rows.append([document.id, mention.start, mention.end, choice])
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["document", "start", "end", "choice"], *rows])
    return len(rows)


@pytest.fixture(scope="module")
def week(tmp_path_factory, world, world_kb, world_model):
    """Three entities, from a table to packs in one folder."""
    folder = tmp_path_factory.mktemp("week")
    model = folder / "deeped.safetensors"
    world_model.save(model)
    rows = [
        [entity.id, "|".join(entity.aliases), f"Q{number}"]
        for number, entity in enumerate(world.emerging, 1)
    ]
    with (folder / "entities.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["name", "aliases", "id"], *rows])
    made = run("new", folder / "week", "--from", folder / "entities.csv", "--json")
    assert [one["id"] for one in made] == ["Q1", "Q2", "Q3"]
    run(
        "collect", folder / "week", "--kb", world_kb.path, "--model", model,
        "--from", world.paths.pile_path, "--json",
    )  # fmt: skip
    gold = read_answers(world.paths.gold_path)
    for one in made:
        space, table = Workspace.open(one["workspace"]), folder / "labels.csv"
        n = write_labels(table, space, gold, 20)
        assert run("labels", "import", space.path, table, "--json")["added"] == n
    learned = run("learn", folder / "week", "--folds", "2", "--encoder", "none", "--json")
    assert all(one["verdict"]["decision"] for one in learned)
    return folder, model, learned


def test_reports_and_the_table_of_all(week):
    """Every entity has a report, and what is left to do is what its verdict says."""
    folder, _, learned = week
    reports = run("report", folder / "week", "--json")
    assert [r["verdict"] for r in reports] == [one["verdict"] for one in learned]
    assert not any("What changed since" in Path(r["report"]).read_text() for r in reports)
    said = [one["verdict"]["decision"] for one in learned]
    stages = [one["stage"] for one in run("status", folder / "week", "--json")]
    assert stages == ["link, or update" if word == "ship" else word for word in said]


def test_every_way_to_link_gives_the_same_answers(week, world, world_kb, world_corpus):
    """Command line, service, NIF and spaCy, with the packs of all three entities."""
    folder, model, learned = week
    packs = [Workspace.open(one["workspace"]).pack_path for one in learned]
    for pack in packs:
        run("packs", "add", folder / "packs", pack)
    texts = [document.text for document in list(world_corpus)[::20]][:24]
    expected = by_command(world_kb.path, model, [folder / "packs"], texts)
    entities = {entity for links in expected for *_, entity in links}
    assert entities >= {entity.id for entity in world.emerging}
    assert by_command(world_kb.path, model, [folder / "packs"], texts, form="csv") == expected
    assert by_spacy(world_kb.path, model, [folder / "packs"], texts) == linked_only(expected)
    own, ids, nif = by_service(world_kb.path, model, packs, texts, folder)
    assert own == expected
    assert nif == expected
    new = {entity.id: f"Q{number}" for number, entity in enumerate(world.emerging, 1)}
    for links, numbers in zip(own, ids, strict=True):
        assert numbers == [new.get(entity) for *_, entity in links]


def test_the_report_tells_what_changed(week, world):
    """After more labels the report compares with the version before; the first one has none."""
    folder, _, learned = week
    space = Workspace.open(learned[0]["workspace"])
    gold = read_answers(world.paths.gold_path)
    write_labels(folder / "more.csv", space, gold, 30)
    run("labels", "import", space.path, folder / "more.csv")
    run("learn", space.path, "--folds", "0", "--encoder", "none")
    run("report", space.path)
    text = (space.path / "report.html").read_text()
    assert "What changed since version 1" in text
    assert "how often its names mean it" in text
