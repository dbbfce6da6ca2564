"""Labelling and learning over HTTP, at the desks of real workspaces."""

import concurrent.futures
import contextlib
import errno
import shutil
import sqlite3
import threading
import time
from datetime import UTC, datetime

import pytest

from stamo.corpus.types import Document, Mention
from stamo.errors import LearningError, UnknownEntityError, WorkspaceError
from stamo.service.jobs import Jobs
from stamo.workspace import desk
from stamo.workspace.folder import Workspace
from stamo.workspace.labels import LabelTarget
from tests.service.support import KNOWN, make_document, make_workspace

SPACE = "/api/workspaces/rey"


def question_of(client, who="Ada", **more):
    return client.post(f"{SPACE}/next", json={"who": who} | more).json()["question"]


def label(client, question, choice="@emerging", who="Ada", **more):
    body = {"document": question["document"], "mention": question["mention"], "who": who}
    return client.post(f"{SPACE}/labels", json=body | {"choice": choice} | more)


def test_a_question_shows_the_mention_in_its_context(client):
    """Its text, the new entity first, then what the knowledge base knows; no guess."""
    (space,) = client.get("/api/workspaces").json()
    assert (space["name"], space["entity"], space["aliases"]) == ("rey", "Rey Skywalker", ["Rey"])
    assert (space["next_step"], space["progress"]["n_left"]) == ("Label 20 more", 30)
    response = client.post(f"{SPACE}/next", json={"who": "Ada"})
    assert "guess" not in response.text
    assert "confidence" not in response.text
    question = response.json()["question"]
    number = int(question["document"].removeprefix("doc-"))
    text = question["before"] + question["surface"] + question["after"]
    assert (question["surface"], text) == ("Rey", make_document(number).text)
    first, *others = question["choices"]
    said = "The new entity; also called Rey"
    assert first == {
        "choice": "@emerging",
        "entity": "Rey Skywalker",
        "description": said,
        "emerging": True,
    }
    assert [c["entity"] for c in others] == list(KNOWN)
    assert "also Shahr-e Rey" in others[2]["description"]


def test_labels_reach_the_store_and_outlive_the_service(serve, root):
    """Each choice is one event with who and what; a guess comes after all but a skip."""
    choices = ["@emerging", KNOWN[0], "Tehran", "@none", "@skip"]
    with serve() as client:
        answers = [label(client, question_of(client), choice).json() for choice in choices]
    assert answers[-1]["guess"] is None
    for answer in answers[:-1]:
        assert answer["guess"]["choice"] in (*KNOWN, "@none")
        assert 0 <= answer["guess"]["confidence"] <= 1
    with Workspace.open(root / "rey").read_labels() as store:
        events = store.events()
    assert [event.choice for event in events] == choices
    assert {event.labeller for event in events} == {"Ada"}
    with serve() as client:
        progress = client.get(f"{SPACE}/progress").json()
    counts = [progress[name] for name in ("n_labelled", "n_skipped", "n_left", "target")]
    assert counts == [4, 1, 25, 20]
    assert (progress["advice"], progress["ask"]) == ("Label 16 more mentions (4 done).", "")


def test_each_mention_is_asked_once_then_nothing_then_what_is_new(client, root):
    """Thirty documents give thirty questions; goal and rest count all; new documents are seen."""
    seen = []
    while (question := question_of(client)) is not None:
        seen.append(question["document"])
        label(client, question)
        if len(seen) == 12:
            progress = client.get(f"{SPACE}/progress").json()
            assert (progress["target"], progress["n_left"]) == (20, 18)
    assert len(seen) == len(set(seen)) == 30
    client.post(f"{SPACE}/undo", json={"who": "Ada"})
    assert question_of(client)["document"] == seen[-1]
    label(client, {"document": seen[-1], "mention": 0})
    documents = Workspace.open(root / "rey").documents
    documents.append([make_document(77)], state={}, complete=True)
    assert question_of(client)["document"] == "doc-77"


def test_what_one_person_sees_is_not_given_to_another(client):
    """A person gets the same again, others get others; who leaves gives it free."""
    first = question_of(client)
    assert question_of(client) == first
    other = question_of(client, "Bob")
    assert other["document"] != first["document"]
    taken = label(client, other)
    assert (taken.status_code, "Somebody else" in taken.json()["error"]) == (409, True)
    assert client.post(f"{SPACE}/leave", json={"who": "Ada"}).status_code == 204
    assert question_of(client, "Bob") == first
    assert label(client, first, who="Bob").status_code == 201
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        people = [f"person {i}" for i in range(20)]
        questions = list(pool.map(lambda who: question_of(client, who), people))
    assert len({q["document"] for q in questions}) == 20


def test_a_mention_that_somebody_walked_away_from_is_free_again(client, monkeypatch):
    """After a while, whoever asks next gets it."""
    monkeypatch.setattr(desk, "LEASE_SECONDS", 0.0)
    assert question_of(client, "Ada") == question_of(client, "Bob")


def test_undo_brings_the_mention_back(client):
    """The last choice of this person is taken back, its mention asked again; then no more."""
    first = question_of(client)
    label(client, first, "@none")
    label(client, question_of(client, "Bob"), who="Bob")
    undone = client.post(f"{SPACE}/undo", json={"who": "Ada"}).json()
    assert undone["question"]["document"] == first["document"]
    assert undone["progress"]["n_labelled"] == 1
    again = client.post(f"{SPACE}/undo", json={"who": "Ada"})
    assert again.status_code == 409
    assert label(client, first).status_code == 201


def test_labels_are_changed_only_on_purpose(client):
    """A second label needs `change`; the history and the agreement tell of both."""
    question = question_of(client)
    assert label(client, question).status_code == 201
    assert label(client, question, "@none", who="Bob").status_code == 409
    assert label(client, question, "@none", who="Bob", change=True).status_code == 201
    history = client.get(f"{SPACE}/labels").json()
    (entry,) = history["labels"]
    assert (entry["answer"], len(entry["said"])) == ("none of these", 2)
    pair = {"first": "Ada", "second": "Bob", "n": 1, "n_same": 0, "kappa": 0.0}
    assert history["agreement"] == [pair]
    shown = client.get(f"{SPACE}/mention", params={"document": question["document"], "mention": 0})
    assert (shown.json()["label"], shown.json()["labelled_by"]) == ("none of these", "Bob")


def test_the_history_is_filtered(client):
    """By a text, an answer, a labeller; nothing differs before learning."""
    for who, choice in (("Ada", "@none"), ("Bob", KNOWN[0]), ("Ada", "@emerging")):
        label(client, question_of(client, who), choice, who=who)

    def n(**filters):
        return client.get(f"{SPACE}/labels", params=filters).json()["n"]

    counts = (n(), n(who="Ada"), n(answer="none of these"), n(search="given NAME"), n(differs=True))
    assert counts == (3, 2, 1, 1, 0)


def test_where_labels_differ_every_mention_is_asked(serve, root):
    """Two answers in one document: its third mention comes before any other document."""
    mentions = tuple(Mention("Rey", i, i + 3) for i in (0, 10, 20))
    document = Document("x", "Rey came. Rey went. Rey slept.", mentions)
    Workspace.open(root / "rey").documents.append([document], state={}, complete=True)
    with serve() as client:
        for mention, choice in ((0, "@emerging"), (2, "@none")):
            label(client, {"document": "x", "mention": mention}, choice)
        question = question_of(client)
    assert (question["document"], question["mention"], question["differ"]) == ("x", 1, True)


def test_entities_are_found_by_the_beginning_of_a_name(reader):
    """By title or another name, in small letters too; the exact title comes first."""

    def found(search):
        answer = reader.get(f"{SPACE}/entities", params={"search": search}).json()
        return [choice["entity"] for choice in answer]

    assert found("Rey, Iran")[0] == "Rey, Iran"
    assert "Tehran" in found("teh")
    assert "Rey, Iran" in found("Shahr")
    assert found("  ") == found("no such name") == []


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"choice": "Elvis"}, 422),
        ({"choice": "@undo"}, 422),
        ({"choice": "@emergin"}, 422),
        ({"choice": " "}, 422),
        ({"document": "none"}, 404),
        ({"mention": 99}, 404),
        ({"document": "../../etc/passwd"}, 404),
        ({"who": ""}, 422),
        ({"mention": -1}, 422),
        ({"mention": "0"}, 422),
        ({"x": 1}, 422),
    ],
)
def test_a_label_that_fits_nothing_is_refused(reader, change, status):
    """A mention that is there, a choice that exists, a name, and nothing else."""
    body = {"document": "doc-01", "mention": 0, "who": "Ada", "choice": "@none"}
    assert reader.post(f"{SPACE}/labels", json=body | change).status_code == status


@pytest.mark.parametrize(
    "path",
    [
        "labels?search=" + "x" * 3000,
        "mention?document=nope&mention=0",
        "document?document=x",
        "report",
    ],
)
def test_odd_questions_get_a_sentence(reader, path):
    """What is not there or too long is told, never a failure."""
    response = reader.get(f"{SPACE}/{path}")
    assert response.status_code in (404, 422)
    assert response.json()["error"]


@pytest.mark.parametrize("name", ["nobody", "..", "%2e%2e", "..%2Frey", "rey%00", "packs"])
def test_unknown_workspaces_are_404(reader, name):
    """A name is looked up among the folders; it never becomes a path."""
    for end in ("", "/progress", "/report"):
        assert reader.get(f"/api/workspaces/{name}{end}").status_code in (404, 405)
    assert reader.post(f"/api/workspaces/{name}/learn").status_code in (404, 405)


def test_a_failing_model_does_not_lose_the_label(serve, root, monkeypatch):
    """When the guess fails, the label is kept and the guess is left out."""

    def fail(self, documents):
        raise RuntimeError("no model")

    monkeypatch.setattr("stamo.service.linking.PackLinker.link_documents", fail)
    with serve() as client:
        response = label(client, question_of(client))
        assert (response.status_code, response.json()["guess"]) == (201, None)
        assert client.get(f"{SPACE}/progress").json()["n_labelled"] == 1


def test_the_list_reads_no_documents_and_waits_for_nobody(serve, root, monkeypatch):
    """While the first question of one workspace is chosen, others are listed and labelled."""
    make_workspace(root, "other")
    began, go_on, real = threading.Event(), threading.Event(), desk.open_queue

    def slow(workspace, *rest):
        if workspace.path.name == "other":
            began.set()
            go_on.wait(20)
        return real(workspace, *rest)

    monkeypatch.setattr(desk, "open_queue", slow)
    with serve() as client, concurrent.futures.ThreadPoolExecutor(1) as pool:
        body = {"who": "Bob"}
        waiting = pool.submit(client.post, "/api/workspaces/other/next", json=body)
        try:
            assert began.wait(20)
            assert label(client, question_of(client)).status_code == 201
            assert len(client.get("/api/workspaces").json()) == 2
        finally:
            go_on.set()
        assert waiting.result(20).json()["question"] is not None


def test_the_desk_that_was_used_longest_ago_is_forgotten(client, root, monkeypatch):
    """Memory does not follow the number of workspaces, and its labels stay."""
    monkeypatch.setattr(desk, "MAX_DESKS", 1)
    make_workspace(root, "other", n_documents=2)
    label(client, question_of(client))
    client.post("/api/workspaces/other/next", json={"who": "Ada"})
    assert question_of(client) is not None
    assert client.get(f"{SPACE}/progress").json()["n_labelled"] == 1


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
    (root / "bad" / file).write_bytes(content)
    bad, good = client.get("/api/workspaces").json()
    assert (bad["name"], good["name"], good["problem"]) == ("bad", "rey", "")
    assert bad["problem"]
    assert match in bad["problem"]
    assert good["progress"]["n_left"] == 30
    assert client.get("/api/workspaces/bad").status_code >= 400


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


def test_the_report_can_neither_run_nor_load(client, root):
    """The report is served in a sandbox."""
    (root / "rey" / "report.html").write_text("<h1>Rey</h1><script>alert(1)</script>")
    response = client.get(f"{SPACE}/report")
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert policy.endswith("sandbox allow-forms")
    assert "script-src" not in policy


# Jobs


def finish(get, key):
    """Wait until a job is over."""
    for _ in range(2000):
        job = get(key)
        if job["state"] in ("done", "failed"):
            return job
        time.sleep(0.01)
    raise AssertionError(job)


@pytest.fixture
def jobs():
    """A list of jobs, which is closed at the end."""
    jobs = Jobs()
    yield jobs
    jobs.close()


def test_a_job_tells_how_far_it_is(jobs):
    """Share and line are seen while it runs; a second on the same workspace is a conflict."""
    go_on, began = threading.Event(), threading.Event()

    def work(on_progress):
        on_progress(0.5, "half")
        began.set()
        go_on.wait(20)
        return "learned"

    key = jobs.submit("rey", work, proposal="p1").id
    assert began.wait(20)
    assert (jobs.get(key).state, jobs.get(key).progress) == ("running", 0.5)
    assert (jobs.get(key).message, jobs.accepting()) == ("half", {"p1": "rey"})
    with pytest.raises(WorkspaceError, match="being learned already"):
        jobs.submit("rey", work)
    go_on.set()
    done = finish(lambda key: vars(jobs.get(key)), key)
    assert (done["state"], done["progress"], done["message"]) == ("done", 1.0, "learned")
    assert [job.id for job in jobs.all()] == [key]
    assert jobs.accepting() == {}
    with pytest.raises(UnknownEntityError, match="no job"):
        jobs.get("nothing")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (LearningError("Label about twenty documents first."), "Label about twenty"),
        (OSError(errno.ENOSPC, "No space left on device", "slots/1"), "The disk is full"),
        (RuntimeError("secret"), "the server's log says why"),
    ],
)
def test_a_failed_job_says_why(jobs, error, message):
    """Our errors are shown, others only logged; the next job runs all the same."""

    def fail(on_progress):
        raise error

    failed = finish(lambda key: vars(jobs.get(key)), jobs.submit("rey", fail).id)
    assert failed["state"] == "failed"
    assert message in failed["message"]
    assert "secret" not in failed["message"]
    done = finish(lambda key: vars(jobs.get(key)), jobs.submit("rey", lambda _: "learned").id)
    assert done["state"] == "done"


def test_closing_ends_a_job_at_its_next_report(jobs):
    """A service that stops waits for nobody."""
    began, ended = threading.Event(), threading.Event()

    def endless(on_progress):
        try:
            while True:
                on_progress(0.1, "going on")
                began.set()
        finally:
            ended.set()

    jobs.submit("rey", endless)
    assert began.wait(20)
    jobs.close()
    assert ended.wait(20)


def test_a_learned_pack_is_put_into_use(client):
    """One that is not fit is used only if somebody insists; a later one takes its place."""
    use = "/api/packs/of/rey"
    assert client.get(SPACE).json()["pack"] is None
    assert client.post(use).status_code == 404
    failed = client.post(f"{SPACE}/learn").json()
    failed = finish(lambda key: client.get(f"/api/jobs/{key}").json(), failed["id"])
    assert (failed["state"], "label" in failed["message"]) == ("failed", True)
    label(client, question_of(client))
    for _ in range(2):
        job = client.post(f"{SPACE}/learn").json()
        job = finish(lambda key: client.get(f"/api/jobs/{key}").json(), job["id"])
        learned = client.get(SPACE).json()["pack"]
        assert learned["is_fit"] is False
        assert learned["verdict"] in job["message"]
        refused = client.post(use)
        assert refused.status_code == 409
        assert learned["verdict"] in refused.json()["error"]
        assert client.post(use, params={"anyway": True}).status_code == 201
        (pack,) = client.get("/api/packs").json()
        assert (pack["entity"], pack["fingerprint"]) == ("Rey Skywalker", learned["fingerprint"])
    (rey,) = client.post("/api/link", json={"text": "It was Rey."}).json()["mentions"]
    assert "Rey Skywalker" in {candidate["entity"] for candidate in rey["candidates"]}
    assert client.get(f"{SPACE}/report").status_code == 200
