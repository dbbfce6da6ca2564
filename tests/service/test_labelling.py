import concurrent.futures
import contextlib
import shutil
import sqlite3
import threading
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from stamo.corpus.types import EmergingEntity
from stamo.service.folders import WorkspaceFolders, line_about
from stamo.service.parts import Limits
from stamo.service.routes import Leases
from stamo.service.schemas import Guess
from stamo.workspace.folder import Workspace
from stamo.workspace.labels import LabelTarget
from tests.service.support import KNOWN, advise, make_document, make_parts, make_workspace

SPACE = "/api/workspaces/rey"


def ask(client, who="page-1"):
    return client.post(f"{SPACE}/next", json={"client": who}).json()["question"]


def answer(client, question, choice="@emerging", who="Ada", page="page-1"):
    body = {"document": question["document"], "mention": question["mention"]}
    return client.post(
        f"{SPACE}/labels", json=body | {"who": who, "client": page, "choice": choice}
    )


def test_workspaces_are_listed(client):
    """The list tells entity, names, progress and what comes next."""
    (space,) = client.get("/api/workspaces").json()
    assert space["name"] == "rey"
    assert space["entity"] == "Rey Skywalker"
    assert space["aliases"] == ["Rey"]
    assert space["next_step"] == "Label 20 more"
    assert space["progress"]["n_left"] == 30


def test_a_question_shows_the_mention_in_its_context(client):
    """Before, mention and after make up the text; the new entity is the first choice."""
    question = ask(client)
    assert question["surface"] == "Rey"
    number = int(question["document"].removeprefix("doc-"))
    text = question["before"] + question["surface"] + question["after"]
    assert text == make_document(number).text
    assert question["choices"][0] == {
        "choice": "@emerging",
        "entity": "Rey Skywalker",
        "line": "The new entity; also called Rey",
        "emerging": True,
    }
    assert [c["entity"] for c in question["choices"][1:]] == list(KNOWN)


def test_the_new_entity_is_told_by_its_line():
    """Who labels sees what was said about it, else its other names."""
    rey = EmergingEntity("Rey Skywalker", ("Rey",))
    assert line_about(rey) == "The new entity; also called Rey"
    assert line_about(replace(rey, description="a Jedi")) == "a Jedi"


def test_the_guess_comes_after_the_choice_only(client):
    """Nothing of the model is in the question; it comes with the answer to the label."""
    response = client.post(f"{SPACE}/next", json={"client": "page-1"})
    assert "guess" not in response.text
    assert "confidence" not in response.text
    labelled = answer(client, response.json()["question"])
    assert labelled.status_code == 201
    assert labelled.json()["guess"] == {"choice": KNOWN[1], "entity": KNOWN[1], "confidence": 0.62}


def test_labels_reach_the_store(client, root):
    """Each choice is one event with who, when and what, on disk before the answer."""
    for choice in ("@emerging", KNOWN[0], "@none", "@skip"):
        answer(client, ask(client), choice)
    with Workspace.open(root / "rey").open_labels() as store:
        events = store.events()
    assert [event.choice for event in events] == ["@emerging", KNOWN[0], "@none", "@skip"]
    assert {event.labeller for event in events} == {"Ada"}
    progress = client.get(f"{SPACE}/progress").json()
    assert progress["n_labelled"] == 3
    assert progress["n_skipped"] == 1
    assert progress["n_left"] == 26
    assert progress["by"] == {"Ada": 3}


def test_each_document_is_asked_once_first(client):
    """No mention comes twice, and thirty documents give thirty questions, then none."""
    seen = []
    while (question := ask(client)) is not None:
        seen.append(question["document"])
        answer(client, question)
    assert len(seen) == len(set(seen)) == 30


def test_reloading_shows_the_same_mention(client):
    """A page that asks again before it labelled gets what it had."""
    assert ask(client) == ask(client)


def test_two_people_get_different_mentions(client):
    """What one page holds is not given to another; after a label it gets the next one."""
    first, second = ask(client, "page-1"), ask(client, "page-2")
    assert first["document"] != second["document"]
    taken = answer(client, second, page="page-1")
    assert taken.status_code == 409
    assert "Somebody else" in taken.json()["error"]
    assert answer(client, second, who="Bob", page="page-2").status_code == 201
    assert ask(client, "page-1") == first


def test_many_people_at_once_never_share_a_mention(client):
    """Twenty pages that ask at the same moment get twenty mentions."""
    pages = [f"page-{i}" for i in range(20)]
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        questions = list(pool.map(lambda page: ask(client, page), pages))
    assert len({q["document"] for q in questions}) == 20


def test_a_lease_ends(monkeypatch):
    """A mention that somebody walked away from is free again after a while."""
    now = [0.0]
    leases = Leases(600, clock=lambda: now[0])
    leases.keep("rey", [("doc", 0)], "page-1")
    assert leases.held_by_others("rey", "page-2") == {("doc", 0)}
    assert leases.held_by_others("other", "page-2") == frozenset()
    now[0] = 601.0
    assert leases.held_by_others("rey", "page-2") == frozenset()
    assert leases.held_by("rey", "page-1") == []


def test_undo_brings_the_mention_back(client):
    """The last choice of this person is taken back and its mention shown again."""
    first = ask(client)
    answer(client, first, "@none")
    second = ask(client)
    answer(client, second, who="Bob")
    undone = client.post(f"{SPACE}/undo", json={"who": "Ada", "client": "page-1"}).json()
    assert undone["question"]["document"] == first["document"]
    assert undone["progress"]["n_labelled"] == 1
    again = client.post(f"{SPACE}/undo", json={"who": "Ada", "client": "page-1"})
    assert again.status_code == 409
    assert answer(client, first).status_code == 201


def test_a_label_twice_is_a_conflict(client):
    """A mention that has a label is not labelled over by a page that is behind."""
    question = ask(client)
    answer(client, question)
    assert answer(client, question, "@none").status_code == 409


@pytest.mark.parametrize("choice", ["Elvis", "@undo", "@emergin", " "])
def test_only_choices_of_the_question_count(client, choice):
    """A title that was not offered is refused; so are our own signs for other things."""
    assert answer(client, ask(client), choice).status_code == 422


@pytest.mark.parametrize(
    "body",
    [
        {"document": "none", "mention": 0},
        {"document": "doc-01", "mention": 99},
        {"document": "../../etc/passwd", "mention": 0},
    ],
)
def test_unknown_mentions_are_404(reader, body):
    """A mention that is not there cannot be labelled."""
    rest = {"who": "Ada", "client": "p", "choice": "@none"}
    assert reader.post(f"{SPACE}/labels", json=body | rest).status_code == 404


@pytest.mark.parametrize("change", [{"who": ""}, {"mention": -1}, {"mention": "0"}, {"x": 1}])
def test_malformed_labels_are_refused(reader, change):
    """A label needs a name, a mention's number, and nothing else."""
    body = {"document": "doc-01", "mention": 0, "who": "Ada", "client": "p", "choice": "@none"}
    assert reader.post(f"{SPACE}/labels", json=body | change).status_code == 422


@pytest.mark.parametrize("name", ["nobody", "..", "%2e%2e", "..%2Frey", "rey%00", "packs"])
def test_unknown_workspaces_are_404(reader, name):
    """A name is looked up among the folders; it never becomes a path."""
    for end in ("", "/progress", "/report"):
        assert reader.get(f"/api/workspaces/{name}{end}").status_code in (404, 405)


def test_new_documents_are_found_without_a_restart(client, root):
    """Documents that are collected while the service runs are asked too."""
    while (question := ask(client)) is not None:
        answer(client, question)
    parts = Workspace.open(root / "rey").documents
    parts.append([make_document(77)], state={}, complete=True)
    assert ask(client)["document"] == "doc-77"


def test_labels_outlive_the_service(serve):
    """A new process goes on where the old one was."""
    with serve() as client:
        for _ in range(3):
            answer(client, ask(client))
    with serve() as client:
        assert client.get(f"{SPACE}/progress").json()["n_labelled"] == 3


def test_a_failing_model_does_not_lose_the_label(serve, root):
    """When the guess fails, the label is kept and the guess is left out."""

    def fail(document, mention):
        raise RuntimeError("no model")

    parts = make_parts(root)
    parts.workspaces._guess = fail
    with serve(workspaces=parts.workspaces) as client:
        response = answer(client, ask(client))
        assert response.status_code == 201
        assert response.json()["guess"] is None
        assert client.get(f"{SPACE}/progress").json()["n_labelled"] == 1


def test_a_guess_of_the_new_entity_is_told_as_such(serve, root):
    """With an earlier pack in use the model may say the new entity; then it said the same."""
    parts = make_parts(root)
    parts.workspaces._guess = lambda document, mention: Guess("Rey Skywalker", "Rey Skywalker", 0.9)
    with serve(workspaces=parts.workspaces) as client:
        assert answer(client, ask(client)).json()["guess"]["choice"] == "@emerging"


def test_a_damaged_workspace_does_not_hide_the_others(client, root):
    """The list shows it with its problem; asking for it says what is wrong."""
    make_workspace(root, "other")
    (root / "other" / "entity.json").write_text("{")
    problems = {space["name"]: space["problem"] for space in client.get("/api/workspaces").json()}
    assert problems["rey"] == ""
    assert "not valid JSON" in problems["other"]
    assert client.get("/api/workspaces/other").status_code == 409


def test_the_report_can_neither_run_nor_load(client, root):
    """The report is served in a sandbox; before there is one, the answer is 404."""
    assert client.get(f"{SPACE}/report").status_code == 404
    (root / "rey" / "report.html").write_text("<h1>Rey</h1><script>alert(1)</script>")
    response = client.get(f"{SPACE}/report")
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert policy.endswith("sandbox")
    assert "script-src" not in policy


def test_the_list_reads_no_documents(serve, root):
    """To list workspaces, nobody is asked which mention comes first: that takes seconds each."""
    make_workspace(root, "other")

    def no_advice(*_):
        raise AssertionError("The list needs no advice.")

    spaces = WorkspaceFolders(root, lambda surface: (), lambda *_: None, no_advice)
    with serve(workspaces=spaces) as client:
        listed = client.get("/api/workspaces").json()
        assert [(space["problem"], space["progress"]["n_left"]) for space in listed] == [
            ("", 30)
        ] * 2
        assert client.get(f"{SPACE}/progress").json()["target"] == 20


def undecided(workspace, corpus, labels):
    """Advise as the advisor does: what is decided on is not in the order."""
    decided = {event.target.document for event in labels}
    return [key for key in advise(workspace, corpus, labels) if key[0] not in decided]


def test_the_goal_stays_while_labels_come(serve, root, monkeypatch):
    """New advice leaves out what is labelled; goal and rest are counted of all mentions."""
    monkeypatch.setattr("stamo.service.folders.LABELS_TO_ADVISE", 1)
    spaces = WorkspaceFolders(root, lambda surface: (), lambda *_: None, undecided)
    with serve(workspaces=spaces) as client:
        for _ in range(12):
            answer(client, ask(client))
        progress = client.get(f"{SPACE}/progress").json()
    assert (progress["n_labelled"], progress["target"], progress["n_left"]) == (12, 20, 18)


def test_what_was_taken_back_is_asked_again(serve, root, monkeypatch):
    """Also of others, once the first person has gone, and after advice that left it out."""
    monkeypatch.setattr("stamo.service.folders.LABELS_TO_ADVISE", 1)
    spaces = WorkspaceFolders(root, lambda surface: (), lambda *_: None, undecided)
    with serve(workspaces=spaces, limits=Limits(lease_seconds=0.0)) as client:
        for _ in range(30):
            answer(client, ask(client))
        assert ask(client) is None
        client.post(f"{SPACE}/undo", json={"who": "Ada", "client": "page-1"})
        assert ask(client, "page-2") is not None


def test_opening_one_workspace_does_not_hold_up_another(serve, root):
    """While the first question of one is being chosen, another one is labelled."""
    make_workspace(root, "other")
    began, go_on = threading.Event(), threading.Event()

    def slow(workspace, corpus, labels):
        if workspace.path.name == "other":
            began.set()
            go_on.wait(20)
        return advise(workspace, corpus, labels)

    spaces = WorkspaceFolders(root, lambda surface: (), lambda *_: None, slow)
    with (
        serve(workspaces=spaces) as client,
        concurrent.futures.ThreadPoolExecutor(1) as pool,
    ):
        body = {"client": "page-2"}
        waiting = pool.submit(client.post, "/api/workspaces/other/next", json=body)
        try:
            assert began.wait(20)
            client.timeout = 5
            assert answer(client, ask(client)).status_code == 201
            assert len(client.get("/api/workspaces").json()) == 2
        finally:
            go_on.set()
        assert waiting.result(20).json()["question"] is not None


def test_one_address_cannot_hold_all_mentions(client):
    """However many clients a script says it is, others still get mentions."""
    held = [ask(client, f"script-{i}")["document"] for i in range(60)]
    assert len(set(held)) <= 21


@pytest.mark.parametrize(
    ("file", "content", "match"),
    [
        ("entity.json", b"", "JSON"),
        ("entity.json", b"[1, 2]", ""),
        ("entity.json", b'{"entity": 3, "aliases": "x"}', ""),
        ("labels.sqlite", b"no database" * 100, "labels"),
        ("documents/documents.json", b"{}", ""),
        ("documents/documents.json", b"\xff", ""),
    ],
)
def test_a_damaged_workspace_is_listed_with_what_is_wrong(client, root, file, content, match):
    """It says what is wrong, and the others are as they were."""
    shutil.copytree(root / "rey", root / "bad")
    for beside in (root / "bad").glob("labels.sqlite-*"):
        beside.unlink()
    (root / "bad" / file).write_bytes(content)
    bad, good = client.get("/api/workspaces").json()
    assert (bad["name"], good["name"], good["problem"]) == ("bad", "rey", "")
    assert bad["problem"]
    assert match in bad["problem"]
    assert good["progress"]["n_left"] == 30


def test_a_label_with_a_bad_date_damages_its_own_workspace_only(client, root):
    """A bad byte in a date is told as a damaged file of labels."""
    shutil.copytree(root / "rey", root / "bad")
    with Workspace.open(root / "bad").open_labels() as store:
        store.add(LabelTarget("doc-1", 0, "Rey", 0, 3), "@none", labeller="x", at=datetime.now(UTC))
    with contextlib.closing(sqlite3.connect(root / "bad" / "labels.sqlite")) as connection:
        connection.execute("DROP TRIGGER never_change")
        connection.execute("UPDATE events SET at = '2024-05-0x'")
        connection.commit()
    bad, good = client.get("/api/workspaces").json()
    assert "damaged" in bad["problem"]
    assert good["problem"] == ""
