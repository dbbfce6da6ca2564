"""From a stream to proposals, decisions and a workspace."""

import json
from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner

from stamo.cli.main import create_app
from stamo.discovery.discover import SUGGESTED_FILE, accept, discover, entity_name
from stamo.discovery.proposals import FoundFolder, confirmed
from stamo.errors import StamoError, WorkspaceError
from stamo.workspace.folder import Workspace
from stamo.workspace.gold import read_answers
from tests.workspace.small_world import make_small_world

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
NEW = "Qaro Zweb"
N_LATER = 150
"""Later documents of the small world in the stream."""
PLANTED = (
    "The council said on Monday that {name} won the election in 2021 with most of the votes.",
    "Voters in the capital gave {name} a seat in parliament in 2022 after a long campaign.",
    "In 2021 the party chose {name} as its candidate for the election of the parliament.",
    "A new government under {name} promised in 2022 to cut taxes before the next election.",
    "The vote in parliament went against {name} in 2022, and the party lost its majority.",
)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return make_small_world(tmp_path_factory)


@pytest.fixture(scope="module")
def stream(small, tmp_path_factory):
    """The later documents of the small world, and five about somebody new, with dates."""
    path = tmp_path_factory.mktemp("stream") / "news.jsonl"
    records = [
        json.loads(line) for line in small.world.paths.pile_path.read_text().splitlines()[:N_LATER]
    ]
    for i, text in enumerate(PLANTED):
        short = f" The voters were thanked by {NEW.split()[1]}." if i % 2 else ""
        body = text.format(name=NEW) + short
        records.insert(10 * i, {"id": f"new-{i}", "date": f"2024-05-0{i + 1}", "text": body})
    path.write_text("".join(json.dumps(record) + "\n" for record in records) + "{broken\n")
    return path


@pytest.fixture(scope="module")
def found(small, stream):
    return discover([stream], small.kb, small.trained)


@pytest.fixture
def folder(small, stream, found, tmp_path):
    made = FoundFolder(tmp_path / "found")
    origin = {"sources": [str(stream)], "kb": str(small.kb_path), "model": str(small.model_path)}
    made.save(found, origin)
    return made


def test_a_new_name_is_proposed_with_all_that_is_known_of_it(found):
    """Counts, date, short name, words, and every document it stands in."""
    (new,) = [p for p in found.proposals if p.name == NEW]
    assert (new.kind, new.n_documents, new.since) == ("name", 5, "2024-05-01")
    assert new.aliases == (NEW, "Zweb")
    assert {o.document for o in new.occurrences} == {f"new-{i}" for i in range(5)}
    for occurrence in new.occurrences:
        shown = occurrence.text[occurrence.at : occurrence.at + occurrence.end - occurrence.start]
        assert shown == NEW
    assert "parliament" in new.words
    assert 0 < new.newness <= 1


def test_the_number_of_workers_changes_nothing_and_bad_lines_are_counted(small, stream, found):
    """Two processes find what one finds, in the same order; one broken line stops nothing."""
    assert discover([stream], small.kb, small.trained, n_workers=2) == found
    assert (sum(found.errors.values()), found.n_documents) == (1, N_LATER + len(PLANTED))


def test_earlier_documents_are_left_out(small, stream):
    """Of five dated documents three are left; those without a date stay."""
    later = discover([stream], small.kb, small.trained, since="2024-05-03")
    (new,) = [p for p in later.proposals if p.name == NEW]
    assert (new.n_documents, new.since) == (3, "2024-05-03")


def test_no_new_name_or_title_is_one_of_the_knowledge_base(found, small):
    """A new name is no known name, and a new meaning gets a title of its own."""
    names = [p.name for p in found.proposals if p.kind == "name"]
    assert (small.kb.alias_ids(names) < 0).all()
    titles = [entity_name(proposal, small.kb) for proposal in found.proposals]
    assert (small.kb.entity_ids(titles) < 0).all()


def test_decisions_are_remembered(folder, found, small):
    """What was rejected does not come again, also when it is found again."""
    new = folder.get(NEW)
    folder.decide(new, "rejected", by="ada", at=NOON)
    assert NEW not in [p.name for p in folder.proposals()]
    assert folder.get(new.id).decision == "rejected"
    n_open = folder.save(found, folder.origin)
    assert n_open == len(found.proposals) - 1
    assert NEW not in [p.name for p in folder.proposals(decided=True)]


def test_proposals_are_found_by_id_place_and_name(folder):
    """And what is not there is told."""
    first = folder.proposals()[0]
    assert folder.get("1") == first
    assert folder.get(first.id) == first
    with pytest.raises(WorkspaceError, match="no proposal 'nothing'"):
        folder.get("nothing")
    for key in ("\N{SUPERSCRIPT TWO}", "9" * 5000):  # digits that are no number here
        with pytest.raises(WorkspaceError, match="no proposal"):
            folder.get(key)


ORIGIN = {"origin": {"sources": "a"}}


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("proposals", b"{", r"proposals\.json"),
        ("proposals", b"[]", r"proposals\.json"),
        ("proposals", b'{"format": "stamo-found", "version": 9}', "format version 9"),
        ("proposals", ORIGIN, "does not say where"),
        ("proposals", {"kind": "x"}, "no proposal"),
        ("proposals", {"n_mentions": "3"}, "no proposal"),
        ("proposals", {"name": None}, "no proposal"),
        ("proposals", {"words": ["\ud800"]}, "no proposal"),
        ("proposals", {"aliases": []}, "no proposal"),
        ("decisions", b"{}", "Line 1"),
        ("decisions", b"[" * 100_000, "Line 1"),
        ("decisions", b'{"decision": []}', "Line 1"),
        ("letter", b"dear", "holds other files"),
    ],
)
def test_a_damaged_folder_is_told(folder, name, data, message):
    """One sentence for what is cut off, foreign, of a later version, or of other types."""
    path = {"proposals": folder.proposals_path, "decisions": folder.decisions_path}.get(name)
    if path is None:
        folder.proposals_path.unlink()
        path = folder.path / name
    if isinstance(data, dict):
        record = json.loads(path.read_text())
        (record if data is ORIGIN else record["proposals"][0]).update(data)
        data = json.dumps(record).encode()
    path.write_bytes(data if path.suffix == ".json" else data + b"\n")
    with pytest.raises(StamoError, match=message):
        (folder.check(), folder.proposals(), folder.origin)


def test_accepting_makes_a_workspace_with_documents_and_suggested_labels(folder, small, tmp_path):
    """Names, documents and first labels are there; the decision is remembered."""
    new = folder.get(NEW)
    done = accept(folder, new, tmp_path / "zweb", small.kb, small.trained, by="ada", at=NOON)
    workspace = Workspace.open(tmp_path / "zweb")
    assert workspace.entity.aliases == new.aliases
    assert done.collected.n_kept == 5
    assert {target.document for target in done.suggested} == {f"new-{i}" for i in range(5)}
    assert len(json.loads((workspace.path / SUGGESTED_FILE).read_text())) == 5
    assert workspace.status().labels.n_labelled == 0
    assert folder.get(new.id).decision == "accepted"


def test_accepting_without_the_documents_makes_nothing(folder, small, tmp_path):
    """The sentence says what to give; no folder is left and nothing is decided."""
    new = folder.get(NEW)
    where = {"sources": ["-"], "kb": "", "model": ""}
    folder.save(discover([], small.kb, small.trained), where)
    for sources in ([], [str(tmp_path / "gone.jsonl")]):
        given = {"by": "a", "at": NOON, "sources": sources}
        with pytest.raises(WorkspaceError, match="--from"):
            accept(folder, new, tmp_path / "z", small.kb, small.trained, **given)
    assert not (tmp_path / "z").exists()
    assert folder.verdicts() == []


def test_from_the_command_line(small, stream, tmp_path):
    """Discover, list, show, reject and accept, as a person would."""
    runner, app, out = CliRunner(), create_app(), str(tmp_path / "found")

    def run(*arguments):
        result = runner.invoke(app, [str(a) for a in arguments], env={"COLUMNS": "200"})
        if isinstance(result.exception, StamoError):
            raise result.exception
        assert result.exit_code == 0, result.output
        return result.stdout

    paths = ("--kb", small.kb_path, "--model", small.model_path)
    run("discover", *paths, "--from", stream, "--out", out, "--ignore", "Monday")
    listed = json.loads(run("found", "list", out, "--json", "--kind", "name", "--most", 1000))
    assert NEW in [p["name"] for p in listed]
    assert "Monday" not in [p["name"] for p in listed]
    assert "election" in run("found", "show", out, NEW)
    assert json.loads(run("found", "show", out, NEW, "--json"))["n_documents"] == 5
    kinds = {word for p in listed for word in p["types"]}
    for word in sorted(kinds)[:1]:
        args = ("found", "list", out, "--json", "--kind", "name", "--type", word.upper())
        chosen = json.loads(run(*args, "--most", 1000))
        assert chosen == [p for p in listed if word in p["types"]]
    others = [p["id"] for p in listed if p["name"] != NEW][:1]
    rejected = json.loads(run("found", "reject", out, *others, "--json"))
    assert [(p["id"], p["decision"]) for p in rejected] == [(others[0], "rejected")]
    text = run("found", "accept", out, NEW, tmp_path / "zweb", "--labels")
    assert "5 labels are kept as yours" in text
    assert NEW not in run("found", "list", out)
    made = json.loads(run("found", "accept", out, 1, tmp_path / "other", "--json"))
    assert made["workspace"] == str(tmp_path / "other")
    assert made["collected"]["n_kept"] > 0
    for wrong, sentence in (("--since=soon", "no date"), ("--kind=else", "no kind")):
        with pytest.raises(StamoError, match=sentence):
            run("discover", *paths, "--from", stream, "--out", out, wrong)
    with pytest.raises(StamoError, match="no file or folder"):
        run("discover", *paths, "--from", "gone", "--out", out)


def test_one_key_decides(folder, tmp_path):
    """Each key is an answer to the proposal that is shown; the rest stays open."""
    names = [p.name for p in folder.proposals()]
    place = names.index(NEW)
    keys = ["x", "s"] + ["s"] * (place - 1) + ["l", "r", "q"] if place else ["x", "l", "r", "q"]
    arguments = ["found", "review", str(folder.path), str(tmp_path / "made"), "--who", "ada"]
    result = CliRunner().invoke(create_app(), arguments, input="\n".join(keys) + "\n")
    assert result.exit_code == 0, result.output
    assert "a accept" in result.output
    assert [(v.name, v.decision, v.by) for v in folder.verdicts()] == [
        (NEW, "accepted", "ada"),
        (names[place + 1], "rejected", "ada"),
    ]
    assert Workspace.open(tmp_path / "made" / "qaro-zweb").status().labels.n_emerging == 5
    assert len(folder.proposals()) == len(names) - 2


def test_planted_meanings_are_proposed(found, small):
    """Of what emerges in the small world something is among the first forty new meanings."""
    gold = read_answers(small.world.paths.gold_path)
    meanings = [p for p in found.proposals if p.kind == "meaning"][:40]
    assert {confirmed(p, gold) for p in meanings} & {e.id for e in small.world.emerging}
