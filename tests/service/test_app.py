import concurrent.futures
import errno
import json
from contextlib import contextmanager

import pytest
from openapi_spec_validator import validate

from stamo.errors import (
    ArtifactMismatchError,
    CorpusFormatError,
    LearningError,
    PackError,
    UnknownEntityError,
    WorkspaceError,
)
from stamo.service.app import status_of
from stamo.service.folders import MissingWorkspaceError
from stamo.service.linking import BATCH_CHARACTERS
from stamo.service.parts import Limits
from tests.service.support import GateLinker, make_pack


def test_a_text_is_linked_with_reasons(reader):
    """Every mention comes with its place, entity, confidence, runner-up and why."""
    answer = reader.post("/api/link", json={"text": "😀 Paris met Nobody."}).json()
    first, second = answer["mentions"]
    assert (first["start"], first["end"], first["surface"]) == (2, 7, "Paris")
    assert first["entity"] == "Paris"
    assert first["confidence"] == 0.5
    assert first["runner_up"]["entity"] == "Paris (film)"
    assert [why["name"] for why in first["why"]] == ["prior", "context words", "coherence"]
    assert second["entity"] is None


def test_entities_of_packs_are_marked(client):
    """A mention that a pack's entity won is told apart from those of the knowledge base."""
    text = {"text": "Rey met Luke."}
    before = client.post("/api/link", json=text).json()["mentions"]
    assert [m["emerging"] for m in before] == [False, False]
    client.post("/api/packs", content=make_pack().to_bytes())
    after = client.post("/api/link", json=text).json()["mentions"]
    assert [m["emerging"] for m in after] == [True, False]


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'{"text": 5}', b'{"txt": "a"}', b'{"text": "a", "more": 1}', b"\xff\xfe"],
)
def test_a_malformed_request_is_one_sentence(reader, body):
    """Whatever is wrong with a body, the answer is 422 or 400 with one sentence."""
    response = reader.post("/api/link", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code in (400, 422)
    assert list(response.json()) == ["error"]


def test_half_a_character_is_refused(reader):
    """A lone surrogate cannot be linked or echoed; it is refused, not a failure."""
    content = b'{"text": "a\\ud800b"}'
    response = reader.post(
        "/api/link", content=content, headers={"Content-Type": "application/json"}
    )
    assert response.status_code == 422
    assert "error" in response.json()


def test_too_long_a_text_is_refused(reader):
    """The limit on characters holds and is told."""
    response = reader.post("/api/link", json={"text": "a" * 10_001})
    assert response.status_code == 413
    assert "10000" in response.json()["error"]


def test_linking_has_a_time_limit(serve):
    """A text that takes too long gives 503, and the service goes on."""
    with serve(limits=Limits(link_seconds=0.05)) as client:
        assert client.post("/api/link", json={"text": "sleep"}).status_code == 503
        assert client.get("/api/status").status_code == 200


def test_a_busy_service_turns_requests_away(serve):
    """When all threads are busy and the queue is full, the answer is 503 at once."""
    limits = Limits(link_threads=1, link_waiting=0)
    gate = GateLinker()
    with (
        serve(limits=limits, linker=gate) as client,
        concurrent.futures.ThreadPoolExecutor() as pool,
    ):
        long = pool.submit(client.post, "/api/link", json={"text": "wait"})
        assert gate.began.wait(20)
        assert client.post("/api/link", json={"text": "Paris"}).status_code == 503
        gate.go_on.set()
        assert long.result().status_code == 200
        assert client.post("/api/link", json={"text": "Paris"}).status_code == 200


class BatchLinker(GateLinker):
    """Notes which texts came together."""

    def __init__(self):
        super().__init__()
        self.batches = []

    def link_documents(self, documents):
        documents = list(documents)
        self.batches.append([document.text for document in documents])
        return super().link_documents(documents)


@contextmanager
def held_up(serve, text, linker, **limits):
    """A service that is busy with a text; yield what sends more and the busy text's answer."""
    with (
        serve(limits=Limits(**limits), linker=linker) as client,
        concurrent.futures.ThreadPoolExecutor(16) as pool,
    ):

        def send(text):
            return pool.submit(client.post, "/api/link", json={"text": text})

        busy = send(text)
        try:
            assert linker.began.wait(20)
            yield client, send, busy
        finally:
            linker.go_on.set()


def wait_for_inside(client, n):
    """Wait until n texts are linked or wait for it."""
    for _ in range(2000):
        if f"stamo_linking {n}.0" in client.get("/metrics").text:
            return
    raise AssertionError(f"there are never {n} texts inside")


def test_short_texts_that_wait_are_linked_together(serve):
    """What arrives while the thread is busy is taken at once; everybody gets the own answer."""
    linker = BatchLinker()
    words = ["Paris", "Rome", "Oslo", "Bern", "Nobody"]
    with held_up(serve, "wait", linker) as (client, send, busy):
        answers = [send(word) for word in words]
        wait_for_inside(client, len(words) + 1)
        linker.go_on.set()
        found = [answer.result().json()["mentions"][0]["surface"] for answer in answers]
        assert busy.result().status_code == 200
    assert found == words
    assert [sorted(batch) for batch in linker.batches] == [["wait"], sorted(words)]


def test_a_text_that_fails_fails_alone(serve):
    """A defect that one text shows is not the answer to those linked with it."""
    linker = BatchLinker()
    with held_up(serve, "wait", linker) as (client, send, _):
        good, bad = send("Paris"), send("explode")
        wait_for_inside(client, 3)
        linker.go_on.set()
        assert (good.result().status_code, bad.result().status_code) == (200, 500)


def test_overload_is_answered_by_503_and_when_to_come_again(serve):
    """Of many at once, those that fit are served; all others are told so, and nothing else."""
    n_waiting = 3
    with held_up(serve, "wait", BatchLinker(), link_waiting=n_waiting) as (client, send, busy):
        waiting = [send("Rome") for _ in range(n_waiting)]
        wait_for_inside(client, 1 + n_waiting)
        for _ in range(20):
            late = client.post("/api/link", json={"text": "Paris"})
            assert (late.status_code, late.headers["retry-after"]) == (503, "1")
            assert late.json().keys() == {"error"}
        assert not any(one.done() for one in (busy, *waiting))


def test_a_short_text_does_not_wait_for_a_long_one(serve):
    """Long texts have threads of their own."""
    long = "wait " + BATCH_CHARACTERS * "x"
    with held_up(serve, long, BatchLinker()) as (client, _, busy):
        assert client.post("/api/link", json={"text": "Paris"}).status_code == 200
        assert not busy.done()


def test_only_so_many_characters_may_wait(serve):
    """Long texts are turned away before many short ones would be: their work takes longer."""
    limits = {"link_waiting_characters": 100}
    with held_up(serve, "wait", BatchLinker(), **limits) as (client, send, _):
        waiting = send("Rome" + 90 * " ")
        wait_for_inside(client, 2)
        refused = client.post("/api/link", json={"text": "Paris met Rome"})
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert not waiting.done()


def test_a_text_that_nobody_waits_for_is_not_linked(serve):
    """A request that took too long to get its turn costs no more."""
    linker = BatchLinker()
    with held_up(serve, "wait", linker, link_seconds=0.3) as (client, send, busy):
        late = [send("Rome"), send("Oslo")]
        assert [one.result().status_code for one in (busy, *late)] == [503] * 3
        linker.go_on.set()
        assert client.post("/api/link", json={"text": "Paris"}).status_code == 200
    assert linker.batches == [["wait"], ["Paris"]]


def test_a_defect_is_logged_and_not_shown(reader, caplog):
    """An unexpected exception is a 500 with one sentence; its text stays in the log."""
    response = reader.post("/api/link", json={"text": "explode"})
    assert response.status_code == 500
    assert "secret" not in response.text
    assert "a secret of the server" in caplog.text
    assert response.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UnknownEntityError("a"), 404),
        (MissingWorkspaceError("a"), 404),
        (WorkspaceError("a"), 409),
        (ArtifactMismatchError("a"), 409),
        (CorpusFormatError("a"), 422),
        (PackError("a"), 422),
        (LearningError("a"), 422),
    ],
)
def test_each_error_has_its_status(error, status):
    """Missing things are 404, conflicts 409, bad content 422."""
    assert status_of(error) == status


def test_packs_are_added_listed_inspected_and_removed(client):
    """The life of a pack over HTTP; nothing else changes."""
    assert client.get("/api/packs").json() == []
    data = make_pack().to_bytes()
    added = client.post("/api/packs", content=data)
    assert added.status_code == 201
    key = added.json()["key"]
    assert client.post("/api/packs", content=data).status_code == 422
    assert client.post("/api/packs?replace=true", content=data).status_code == 201
    detail = client.get(f"/api/packs/{key}").json()
    assert detail["entity"] == "Rey Skywalker"
    assert detail["priors"] == {"Rey": 0.25}
    assert detail["related"] == [
        {"entity": "Kylo Ren", "relatedness": 0.5},
        {"entity": "Jakku", "relatedness": 0.25},
    ]
    assert client.get(f"/api/packs/{key}/file").content == data
    assert client.delete(f"/api/packs/{key}").status_code == 204
    assert client.delete(f"/api/packs/{key}").status_code == 404
    assert client.get("/api/packs").json() == []


def test_changed_packs_reach_the_linker(serve):
    """The linker is told after each change, so that the next text is linked with it."""
    calls = []
    with serve(on_packs=lambda: calls.append(1)) as client:
        key = client.post("/api/packs", content=make_pack().to_bytes()).json()["key"]
        client.post("/api/packs", content=b"junk")
        assert len(calls) == 1
        client.delete(f"/api/packs/{key}")
        assert len(calls) == 2


@pytest.mark.parametrize("data", [b"", b"junk", make_pack().to_bytes()[:-3], b"\0" * 100_000])
def test_a_bad_pack_is_refused(reader, data):
    """What is no pack never reaches the folder."""
    response = reader.post("/api/packs", content=data)
    assert response.status_code == 422
    assert "pack" in response.json()["error"]
    assert reader.get("/api/packs").json() == []


@pytest.mark.parametrize("key", ["..", "..%2F..%2Fetc%2Fpasswd", "%00", "a" * 500])
def test_a_key_cannot_leave_the_folder(reader, key):
    """Unknown keys are 404, whatever they look like."""
    assert reader.get(f"/api/packs/{key}").status_code in (404, 422)


def test_many_requests_at_once(reader):
    """Concurrent requests all get their own answer."""
    words = [f"Word{chr(97 + i)}" for i in range(12)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = pool.map(lambda w: reader.post("/api/link", json={"text": w}), words)
    assert [a.json()["mentions"][0]["entity"] for a in answers] == words


def test_openapi_describes_every_route(reader):
    """The description lists all routes with a summary; nothing is loaded from elsewhere."""
    described = reader.get("/api/openapi.json").json()
    routes = described["paths"]
    assert {"/api/link", "/api/packs", "/api/packs/{key}", "/api/jobs/{key}"} <= set(routes)
    assert {"/api/workspaces/{name}/" + end for end in ("next", "labels", "undo", "learn")} <= set(
        routes
    )
    for path, methods in routes.items():
        for method, operation in methods.items():
            assert operation["description"], (path, method)
    assert "http" not in json.dumps(routes).replace("HTTPValidationError", "")


def test_the_schema_is_valid(reader):
    """What describes the routes follows the specification of OpenAPI."""
    validate(reader.get("/api/openapi.json").json())


def test_status_tells_what_is_served(reader):
    """The page learns the knowledge base's name and whether a token is needed."""
    status = reader.get("/api/status").json()
    assert status["knowledge_base"] == "a small world"
    assert status["token_needed"] is False
    assert status["n_packs"] == 0


def test_the_schema_names_a_type_for_every_list(client):
    """Tools that read OpenAPI find `items` wherever there is an array."""

    def arrays(node):
        if isinstance(node, dict):
            if node.get("type") == "array":
                yield node
            for value in node.values():
                yield from arrays(value)
        elif isinstance(node, list):
            for value in node:
                yield from arrays(value)

    found = list(arrays(client.get("/api/openapi.json").json()))
    assert found
    assert all("items" in node and "prefixItems" not in node for node in found)


def test_a_full_disk_is_told(serve, root, monkeypatch):
    """A pack that finds no room is refused in a sentence that says why."""

    def full(path, data):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr("stamo.packs.folder.write_atomic", full)
    with serve() as client:
        answer = client.post("/api/packs", content=make_pack().to_bytes())
    assert answer.status_code == 507
    assert "disk is full" in answer.json()["error"]
    assert str(root) not in answer.text
