"""Linking and packs over HTTP: texts, NIF, many requests at once."""

import concurrent.futures
import errno
import time
from contextlib import contextmanager
from dataclasses import replace

import pytest
from starlette.exceptions import HTTPException

from stamo.corpus.nif import NOT_IN_KB, NifPhrase, format_nif, parse_nif
from stamo.corpus.types import Document, Mention
from stamo.packs.folder import PackFolder
from stamo.service.linking import (
    BATCH_CHARACTERS,
    Limits,
    PackLinker,
    annotate_nif,
    mention_layers,
)
from stamo.service.security import SecuritySettings
from tests.service.support import WordLinker, built, make_pack

JSON = {"Content-Type": "application/json"}
TEXT = "Rey lies near Tehran. Nobody."
IRI = "http://example.org/news-1#char=0,29"
NEW = {"text": "The Scavenger of Jakku came near Tehran."}


def test_a_text_is_linked_with_reasons(reader):
    """Every mention comes with its place, entity, confidence, candidates and why."""
    answer = reader.post("/api/link", json={"text": "😀 A city near Tehran, not Rey."}).json()
    first, second = answer["mentions"]
    assert (first["start"], first["end"], first["surface"]) == (14, 20, "Tehran")
    assert (first["entity"], second["surface"]) == ("Tehran", "Rey")
    assert second["runner_up"]["entity"] in {c["entity"] for c in second["candidates"]}
    assert "prior" in {why["name"] for why in second["why"]}
    assert 0 < second["confidence"] <= 1


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"{", 422),
        (b"[]", 422),
        (b'{"text": 5}', 422),
        (b'{"txt": "a"}', 422),
        (b'{"text": "a", "more": 1}', 422),
        (b"\xff\xfe", 422),
        (b'{"text": "a\\ud800b"}', 422),
        (b'{"text": "%s"}' % (b"a" * 500_001), 413),
    ],
)
def test_a_malformed_request_is_one_sentence(reader, body, status):
    """Whatever is wrong with a body, the answer is one sentence."""
    response = reader.post("/api/link", content=body, headers=JSON)
    assert response.status_code == status
    assert list(response.json()) == ["error"]


def test_the_life_of_a_pack(client):
    """Added, listed, inspected, downloaded, used for linking, and removed."""
    assert client.get("/api/packs").json() == []
    assert "Rey Skywalker" not in str(client.post("/api/link", json=NEW).json())
    pack = make_pack()
    data = pack.to_bytes()
    added = client.post("/api/packs", content=data)
    assert added.status_code == 201
    key = added.json()["key"]
    assert client.post("/api/packs", content=data).status_code == 422
    assert client.post("/api/packs?replace=true", content=data).status_code == 201
    foreign = replace(pack, model_fingerprint="00" * 32).to_bytes()
    assert client.post("/api/packs?replace=true", content=foreign).status_code == 409
    mentions = client.post("/api/link", json=NEW).json()["mentions"]
    assert [(m["surface"], m["entity"], m["emerging"]) for m in mentions] == [
        ("Scavenger of Jakku", "Rey Skywalker", True),
        ("Tehran", "Tehran", False),
    ]
    detail = client.get(f"/api/packs/{key}").json()
    assert (detail["entity"], detail["priors"]["Rey"]) == ("Rey Skywalker", 0.25)
    assert list(detail["related"].values()) == [0.5, 0.25]
    assert client.get(f"/api/packs/{key}/file").content == data
    assert client.delete(f"/api/packs/{key}").status_code == 204
    assert client.delete(f"/api/packs/{key}").status_code == 404
    assert "Rey Skywalker" not in str(client.post("/api/link", json=NEW).json())


def test_a_pack_that_a_command_adds_is_used(tmp_path, monkeypatch):
    """The folder may change beside the service, by `stamo packs` or a copy."""
    monkeypatch.setattr("stamo.service.linking.LOOK_SECONDS", 0.0)
    _, kb, trained = built()
    folder = PackFolder(tmp_path, kb, trained)
    linker, document = PackLinker(kb, trained, folder), Document("a", NEW["text"])

    def entities():
        (linked,) = linker.link_documents([document])
        return [mention.entity for mention in linked.mentions]

    assert entities() == ["Tehran"]
    entry = PackFolder(tmp_path).add(make_pack().to_bytes())
    assert entities() == ["Rey Skywalker", "Tehran"]
    entry.path.unlink()
    assert entities() == ["Tehran"]


@pytest.mark.parametrize("data", [b"", b"junk", b"\0" * 100_000])
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


# Many requests at once


@contextmanager
def held_up(serve, text, **limits):
    """A service that is busy with a text: its linker, a client, what sends more, the answer."""
    linker = WordLinker()
    with (
        serve(limits=Limits(**limits), linker=linker) as client,
        concurrent.futures.ThreadPoolExecutor(16) as pool,
    ):

        def send(text):
            return pool.submit(client.post, "/api/link", json={"text": text})

        busy = send(text)
        try:
            assert linker.began.wait(20)
            yield linker, client, send, busy
        finally:
            linker.go_on.set()


def wait_for_inside(client, n):
    """Wait until n texts are linked or wait for it."""
    for _ in range(2000):
        if f"stamo_linking {n}.0" in client.get("/metrics").text:
            return
        time.sleep(0.005)
    raise AssertionError(f"there are never {n} texts inside")


def test_short_texts_that_wait_are_linked_together(serve):
    """Each gets its own answer; one that fails fails alone."""
    words = ["Paris", "Rome", "Oslo", "Nobody"]
    with held_up(serve, "wait") as (linker, client, send, busy):
        answers, bad = [send(word) for word in words], send("explode")
        wait_for_inside(client, len(words) + 2)
        linker.go_on.set()
        found = [answer.result().json()["mentions"][0]["surface"] for answer in answers]
        assert (busy.result().status_code, bad.result().status_code) == (200, 500)
    assert found == words
    assert sorted(linker.batches[1]) == sorted([*words, "explode"])


def test_overload_is_answered_by_503_and_when_to_come_again(serve):
    """Those that fit are served; all others are told so, and long texts are refused earlier."""
    with held_up(serve, "wait", waiting=2, waiting_characters=100) as (_, client, send, busy):
        waiting = [send("Rome")]
        wait_for_inside(client, 2)
        assert client.post("/api/link", json={"text": "Paris" + 90 * " "}).status_code == 503
        waiting.append(send("Rome"))
        wait_for_inside(client, 3)
        for _ in range(5):
            late = client.post("/api/link", json={"text": "Paris"})
            assert (late.status_code, late.headers["retry-after"]) == (503, "1")
            assert late.json().keys() == {"error"}
        assert not any(one.done() for one in (busy, *waiting))


def test_a_short_text_does_not_wait_for_a_long_one(serve):
    """Long texts have a thread of their own."""
    long = "wait " + BATCH_CHARACTERS * "x"
    with held_up(serve, long) as (_, client, _, busy):
        assert client.post("/api/link", json={"text": "Paris"}).status_code == 200
        assert not busy.done()


def test_a_text_that_nobody_waits_for_is_not_linked(serve):
    """A request that took too long gets 503 and costs no more; the service goes on."""
    with held_up(serve, "wait", seconds=0.3) as (linker, client, send, busy):
        late = [send("Rome"), send("Oslo")]
        assert [one.result().status_code for one in (busy, *late)] == [503] * 3
        linker.go_on.set()
        assert client.post("/api/link", json={"text": "Paris"}).status_code == 200
    assert linker.batches == [["wait"], ["Paris"]]


def test_a_defect_is_logged_and_not_shown(serve, capfd):
    """An unexpected exception is a 500 with one sentence; its text stays in the log."""
    with serve(linker=WordLinker()) as client:
        response = client.post("/api/link", json={"text": "explode"})
    assert response.status_code == 500
    assert "secret" not in response.text
    assert "a secret of the server" in capfd.readouterr().err
    assert response.headers["x-content-type-options"] == "nosniff"


# NIF, as GERBIL asks for it


def ask(client, data, **headers):
    return client.post("/nif", content=data, headers={"Content-Type": "text/turtle"} | headers)


def test_real_annotation_and_disambiguation(reader):
    """Without phrases names are found (A2KB); with them these are linked, overlapping or not."""
    plain = format_nif([(IRI, TEXT, [])])
    answer = ask(reader, plain, Accept="application/x-turtle")
    assert answer.headers["content-type"] == "application/x-turtle; charset=utf-8"
    (found,) = parse_nif(answer.content)
    assert (found.id, found.text) == (IRI, TEXT)
    linked = reader.post("/api/link", json={"text": TEXT}).json()["mentions"]
    assert [(m.surface, m.entity) for m in found.mentions] == [
        (m["surface"], m["entity"]) for m in linked
    ]
    spans = [(0, 3), (0, 8), (22, 28)]
    given = format_nif([(IRI, TEXT, [NifPhrase(a, b, "urn:x") for a, b in spans])])
    answer = ask(reader, given)
    assert answer.headers["content-type"] == "text/turtle; charset=utf-8"
    (linked,) = parse_nif(answer.content)
    assert [(m.start, m.end) for m in linked.mentions] == spans
    assert linked.mentions[2].entity == f"{NOT_IN_KB}Nobody"


def test_a_program_needs_no_header_of_ours_but_the_token(serve):
    """GERBIL knows nothing of our headers; where others can reach the service, it needs a token."""
    data = format_nif([(IRI, TEXT, [])])
    with serve(headers={}) as client:
        assert ask(client, data).status_code == 200
        assert client.get("/nif").status_code == 405
    settings = SecuritySettings(token="t" * 20, allowed_hosts=frozenset({"127.0.0.1"}))
    with serve(headers={}, security=settings) as client:
        assert ask(client, data).status_code == 401
        assert ask(client, data, Authorization=f"Bearer {'t' * 20}").status_code == 200


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"", 422),
        (b"nonsense", 422),
        (b"[" * 200_000, 422),
        (b"# " + b"x" * 2**20, 413),
        (format_nif([(IRI, "Rey " * 126_000, [])]), 413),
        (b"<a> <b> " + b",".join(b"%d" % i for i in range(25_000)) + b" .", 422),
    ],
)
def test_bad_nif_is_one_sentence(reader, data, status):
    """Whatever comes, the answer is a sentence and the service goes on."""
    answer = ask(reader, data)
    # Where the machine is busy, much to read may take longer than a request is given.
    assert answer.status_code in (status, 503)
    assert answer.json()["error"].endswith(".")
    assert reader.get("/api/status").status_code == 200


def test_layers_keep_every_mention():
    """Overlapping mentions go to copies of the document in which none overlaps."""
    mentions = tuple(Mention("x" * (b - a), a, b) for a, b in [(0, 4), (0, 9), (4, 6), (8, 9)])
    layers = mention_layers(Document("a", "x" * 10, mentions))
    assert [[(m.start, m.end) for m in layer.mentions] for layer in layers] == [
        [(0, 4), (4, 6), (8, 9)],
        [(0, 9)],
    ]
    assert mention_layers(Document("a", "x")) == [Document("a", "x")]


def test_overlapping_mentions_count_as_often_as_they_are_linked():
    """A short request cannot ask for the same text a thousand times."""
    spans = [NifPhrase(0, end, "urn:x") for end in range(1, 41)]
    data = format_nif([(IRI, TEXT * 4, spans)])
    with pytest.raises(HTTPException, match="overlap so often that 4640 characters"):
        annotate_nif(data, WordLinker(), (), 3000)
