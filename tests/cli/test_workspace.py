import json
import random
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stamo.build.build import BuildSettings, build_knowledge_base
from stamo.cli.main import create_app
from stamo.errors import StamoError, WorkspaceError
from stamo.linking.linker import open_linker
from stamo.packs.pack import EntityPack
from stamo.workspace.folder import Workspace, open_artifacts
from stamo.workspace.gold import label_by_gold
from stamo.workspace.learn import LearnSettings, last_settings
from stamo.workspace.queue import LabelQueue
from tests.build.products import write_products
from tests.workspace.small_world import NOON, copy_labelled, make_small_world

runner = CliRunner()


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return make_small_world(tmp_path_factory)


@pytest.fixture(scope="module")
def app():
    return create_app(["workspaces", "labels", "learn", "packs"])


@pytest.fixture
def run(app):
    """Return what runs a command and gives its output; our errors come through."""

    def invoke(*arguments, **kwargs):
        result = runner.invoke(app, [str(a) for a in arguments], env={"COLUMNS": "200"}, **kwargs)
        if isinstance(result.exception, StamoError):
            raise result.exception
        assert result.exit_code == 0, result.output
        return result.output

    return invoke


def test_from_a_name_to_a_pack(run, small, tmp_path):
    """New, collect, label by keys, learn, report and look at the pack, by commands alone."""
    space = tmp_path / "rey"
    out = run("new", space, small.entity.id, "--alias", small.entity.aliases[0], "--who", "ada")
    assert "stamo collect" in out
    out = run(
        "collect", space, "--kb", small.kb_path, "--model", small.model_path,
        "--from", small.world.paths.pile_path,
    )  # fmt: skip
    assert "candidate mentions" in out
    assert "contains no alias" in out
    assert "stamo label" in out
    run("label", space, "--terminal", "--who", "ada", input="1\nn\n" * 8)
    assert "16 (8 the entity" in run("status", space)
    out = run("learn", space, "--folds", "2")
    assert "rey.stamo" in out
    assert f"Unchanged: knowledge base {small.kb.fingerprint[:12]}" in out
    out = run("learn", space, "--folds", "2", "--slots", "0")
    assert "8 mean it." in out
    assert "slot" not in out
    assert "share" in run("learn", space, "--folds", "2", "--slots", "0", "--verbose")
    out = run("report", space)
    assert "report.html" in out
    out = run("packs", "inspect", space / "packs" / "rey.stamo")
    assert small.entity.id in out
    assert small.kb.fingerprint in out


def test_packs_come_and_go(run, small, tmp_path):
    """A pack is added, listed, replaced and removed; the folder ends as it began."""
    space = copy_labelled(small, tmp_path / "rey")
    run("learn", space.path, "--folds", "0")
    pack, folder = space.packs_dir / "rey.stamo", tmp_path / "packs"
    run("packs", "add", folder, pack)
    with pytest.raises(StamoError, match="already"):
        run("packs", "add", folder, pack)
    run("packs", "replace", folder, pack)
    (key,) = [path.stem for path in folder.iterdir()]
    assert small.entity.id in run("packs", "list", folder)
    (folder / "bad.stamo").write_bytes(b"nothing")
    assert "no usable entity pack" in re.sub(r"\s+", " ", run("packs", "list", folder))
    with pytest.raises(StamoError, match="There is no pack 'Nobody'"):
        run("packs", "remove", folder, "Nobody")
    assert key in run("packs", "remove", folder, small.entity.id)
    assert [path.name for path in folder.iterdir()] == ["bad.stamo"]
    (folder / "bad.stamo").unlink()
    assert "There is no pack in" in run("packs", "list", folder)
    assert json.loads(run("packs", "list", folder, "--json")) == []


def test_strict_learning_ends_by_its_verdict(app, small, tmp_path):
    """Unchecked labels make a pack that is not to be shipped: told, and the exit code is 12."""
    space = copy_labelled(small, tmp_path / "rey")
    arguments = ["learn", str(space.path), "--folds", "0", "--encoder", "none", "--strict"]
    result = runner.invoke(app, arguments, env={"COLUMNS": "200"})
    assert "Do not ship it yet: it was not checked" in result.output
    assert result.exit_code == 12
    assert (space.packs_dir / "rey.stamo").exists()


def test_graduation_by_command(run, small, tmp_path):
    """The learned prior stands beside that of a knowledge base that knows the title."""
    space = copy_labelled(small, tmp_path / "rey")
    run("learn", space.path, "--folds", "0")
    title = small.kb.title(int(small.kb.candidates(small.entity.aliases[0]).ids[0]))
    out = run("packs", "graduate", space.packs_dir / "rey.stamo", small.kb_path, "--title", title)
    assert small.entity.aliases[0] in out
    assert "cosine" in out


def test_a_name_in_brackets_is_no_alias(run, tmp_path):
    """A name with a qualifier is a title; a plain name is an alias besides those given."""
    run("new", tmp_path / "a", "Rey (film)", "--alias", "Rey")
    run("new", tmp_path / "b", "Rey Skywalker", "--alias", "Rey")
    read = [json.loads((tmp_path / n / "entity.json").read_text())["aliases"] for n in "ab"]
    assert read == [["Rey"], ["Rey", "Rey Skywalker"]]


def test_errors_are_errors_of_ours(run, small, tmp_path):
    """A missing workspace or a missing knowledge base is one clear sentence."""
    with pytest.raises(WorkspaceError, match="There is no workspace"):
        run("status", tmp_path / "none")
    run("new", tmp_path / "rey", "Rey")
    with pytest.raises(WorkspaceError, match="--kb"):
        run("collect", tmp_path / "rey", "--from", small.world.paths.pile_path)


def test_a_week_of_entities(run, app, small, tmp_path):
    """A table, one pass, labels, learning and reports for all; one that fails stops no other."""
    first, second = small.world.emerging
    table = tmp_path / "entities.csv"
    rows = [f'"{e.id}",{"|".join(e.aliases)},Q{i}' for i, e in enumerate((first, second), 1)]
    table.write_text("\n".join(["name,aliases,id", *rows, "Nobody Xyzzyq,,Q3"]) + "\n")
    week = tmp_path / "week"
    out = run("new", week, "--from", table, "--kb", small.kb_path)
    assert "3 new workspaces." in out
    out = run(
        "collect", week, "--kb", small.kb_path, "--model", small.model_path,
        "--from", small.world.paths.pile_path,
    )  # fmt: skip
    assert out.count("nobody-xyzzyq") == 1
    paths = sorted(week.iterdir())
    assert "collect (nothing kept)" in run("status", week)
    for path in paths:
        space = Workspace.open(path)
        corpus = space.documents.read()
        keys = [
            (d.id, next(i for i, m in enumerate(d.mentions) if m.entity is None))
            for d in list(corpus)[::5]
        ]
        label_by_gold(space, corpus, small.gold, keys, at=NOON)
    result = runner.invoke(app, ["learn", str(week), "--folds", "0", "--encoder", "none", "--json"])
    assert result.exit_code == 1
    assert "nobody-xyzzyq: No documents are collected" in result.stderr
    learned = json.loads(result.stdout)
    assert [one["id"] for one in learned] == ["Q1", "Q2"]
    records = json.loads(run("status", week, "--json"))
    assert sorted(r["stage"] for r in records) == ["collect (nothing kept)", "report", "report"]
    report = json.loads(run("report", *(one["workspace"] for one in learned), "--json"))
    assert all(Path(one["report"]).exists() for one in report)
    with Workspace.open(learned[0]["workspace"]).open_labels() as store:
        event = store.current()[0]
        other = "@none" if event.choice != "@none" else "@emerging"
        store.add(event.target, other, labeller="ada", at=NOON)
    assert "labels changed: learn again" in run("status", week)


def test_nothing_kept_has_an_exit_code_of_its_own(app, small, tmp_path):
    """A script can tell an empty pile from an error."""
    source = tmp_path / "dull.jsonl"
    source.write_text('{"text": "nothing"}\n')
    runner.invoke(app, ["new", str(tmp_path / "rey"), "Rey"])
    where = ["--kb", str(small.kb_path), "--model", str(small.model_path), "--from", str(source)]
    result = runner.invoke(app, ["collect", str(tmp_path / "rey"), *where])
    assert result.exit_code == 3
    assert "Nothing was kept" in result.stdout


def test_new_documents_make_a_new_version(run, app, small, tmp_path):
    """Update says what the new pack decides otherwise; rolling back brings the old bytes back."""
    space = copy_labelled(small, tmp_path / "rey")
    run("learn", space.path, "--folds", "0")
    first = space.pack_path.read_bytes()
    assert run("history", "list", space.path).count("current") == 1
    alias, known = small.entity.aliases[0], next(iter(space.documents)).text
    today = tmp_path / "today.jsonl"
    texts = [f"{known[:200]} {alias} spoke on day {i} of {'x' * i}." for i in range(3)]
    today.write_text(
        "".join(json.dumps({"id": f"t{i}", "text": t}) + "\n" for i, t in enumerate(texts))
    )
    (one,) = json.loads(run("update", space.path, "--from", today, "--folds", "0", "--json"))
    assert one["new_documents"] == space.documents.manifest.n_documents - len(
        list(small_documents(small))
    )
    assert one["version"] == 2
    assert one["verdict"]["sentence"]
    change = one["change"]
    assert change["n_after"] - change["n_before"] == change["n_gained"] - change["n_lost"]
    assert change["n_mentions"] > 50
    assert set(change["priors"]) == set(small.entity.aliases)
    assert space.pack_path.read_bytes() != first
    out = run("history", "rollback", space.path, "1")
    assert "version 1 again" in out
    assert space.pack_path.read_bytes() == first
    assert space.status().stage == "documents changed: learn again"
    run("learn", space.path, "--folds", "0")
    versions = json.loads(run("history", "list", space.path, "--json"))
    assert [(v["number"], v["is_current"]) for v in versions] == [(1, False), (2, True)]
    with pytest.raises(WorkspaceError, match="no version 9"):
        run("history", "rollback", space.path, "9")
    dull = tmp_path / "dull.jsonl"
    dull.write_text('{"text": "nothing"}\n')
    result = runner.invoke(app, ["update", str(space.path), "--from", str(dull)])
    assert result.exit_code == 3
    assert "Nothing new was kept" in result.stderr


def test_an_update_learns_as_the_pack_was_learned(run, small, tmp_path):
    """What `learn` was told holds for the new documents too, until `learn` is told otherwise."""
    space = copy_labelled(small, tmp_path / "rey")
    plain = ("--folds", "0", "--encoder", "none")
    run("learn", space.path, *plain, "--method", "paper", "--slots", "1")
    today = tmp_path / "today.jsonl"
    text = f"{small.entity.aliases[0]} spoke today, and nobody had ever heard such words before."
    today.write_text(json.dumps({"id": "t", "text": text}) + "\n")
    said = run("update", space.path, "--from", today)
    assert "1 new document, pack version 2." in said
    assert "it was not checked on left-out labels" in said
    pack = EntityPack.load(space.pack_path)
    assert pack.notes["method"] == "paper"
    assert pack.encoder == ""
    assert last_settings(space) == LearnSettings("paper", n_slots=1, n_folds=0, encoder=None)
    run("learn", space.path, *plain)
    assert last_settings(space) == LearnSettings(n_folds=0, encoder=None)


def small_documents(small):
    return Workspace.open(small.folder / "collected").documents


def test_from_a_table_of_products_to_a_pack_without_a_model(run, tmp_path):
    """A knowledge base of a table has no model; collecting, labelling, learning and linking go."""
    table = write_products(tmp_path / "p.csv")
    build_knowledge_base(table, tmp_path / "kb", BuildSettings(dimensions=30))
    robot = "The Otter dived below the ship, and its sonar saw rust on the hull."
    bottle = "The Otter kept my tea hot for a day, and its lid did not leak a drop."
    draw = random.Random(0)
    with (tmp_path / "pile.jsonl").open("w") as file:
        for i in range(12):
            for kind, text in (("robot", robot), ("bottle", bottle)):
                # Other words behind it, or all would be near-duplicates.
                rest = " ".join(f"word{draw.randrange(10**6)}" for _ in range(30))
                file.write(json.dumps({"id": f"{kind}{i}", "text": f"{text} {rest}"}) + "\n")
    space = tmp_path / "otter"
    run("new", space, "Otter", "--who", "ada")
    source = tmp_path / "pile.jsonl"
    assert "kept" in run("collect", space, "--kb", tmp_path / "kb", "--from", source)
    opened = Workspace.open(space)
    parts = open_artifacts([opened])
    queue = LabelQueue(opened.entity, opened.documents.read(), parts.kb, parts.trained)
    with opened.open_labels() as labels:
        for key in queue.order([])[:12]:
            choice = "@emerging" if key[0].startswith("robot") else "Otter (bottle)"
            target = queue.targets[key]
            labels.add(target, choice, labeller="ada", at=NOON)
    assert "otter.stamo" in run("learn", space, "--folds", "0", "--encoder", "none")
    linker = open_linker(tmp_path / "kb", None, [space / "packs"])
    found = [linker.link(text)[0] for text in (robot, bottle)]
    assert [mention.entity for mention in found] == ["Otter", "Otter (bottle)"]
