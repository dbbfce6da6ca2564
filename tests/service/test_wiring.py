"""The real knowledge base, linker and workspaces behind the service."""

import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import httpx
import numpy as np
import pytest
import uvicorn
from fastapi import FastAPI

from stamo.cli.serve import listen, run
from stamo.corpus.types import Document, EmergingEntity, Mention
from stamo.errors import SettingsError
from stamo.packs.folder import PackFolder
from stamo.packs.pack import EntityPack
from stamo.service.app import create_app
from stamo.service.security import SecuritySettings
from stamo.service.wiring import wire
from stamo.workspace.learn_job import learn_job
from tests.service.support import CHANGE, make_workspace, running

PAGES = {
    "Rey (given name)": "'''Rey''' is a name of [[Spain|Spanish]] kings and of [[Rey, Iran|Rey]].",
    "Rey, Iran": "'''Rey''' is a city near [[Tehran]]; see also [[Rey (given name)|Rey]].",
    "Tehran": "The capital lies north of [[Rey, Iran|Rey]] and [[Rey, Iran|Shahr-e Rey]].",
    "Spain": "A country in which [[Rey (given name)|Rey]] means king; it is far from [[Tehran]].",
}
RUN = "from stamo.cli.main import create_app; create_app(['serve'])()"


def write_dump(path):
    pages = "".join(
        f"<page><title>{title}</title><ns>0</ns><id>{i}</id><revision><text>{text}</text>"
        "</revision></page>"
        for i, (title, text) in enumerate(PAGES.items(), 1)
    )
    path.write_text(f"<mediawiki>{pages}</mediawiki>")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A knowledge base of four pages and a model that was never trained."""
    from stamo.build.build import BuildSettings, build_knowledge_base
    from stamo.kb.base import KnowledgeBase
    from stamo.models.deeped import DeepED
    from stamo.models.store import TrainedModel

    folder = tmp_path_factory.mktemp("built")
    write_dump(folder / "dump.xml")
    rng = np.random.default_rng(0)
    words = np.array(["a", "city", "near", "king", "country", "capital", "far", "means"])
    np.savez(folder / "vectors.npz", words=words, vectors=rng.standard_normal((8, 6)))
    settings = BuildSettings(vectors=folder / "vectors.npz", held_out=0.0, workers=1)
    build_knowledge_base(folder / "dump.xml", folder / "kb", settings)
    kb = KnowledgeBase.open(folder / "kb")
    trained = TrainedModel(DeepED(kb.dimensions), kb.dimensions, kb.fingerprint)
    trained.save(folder / "model.safetensors")
    return folder, kb, trained


@pytest.fixture
def app(built, tmp_path):
    text = "A king called Rey went to a city near Tehran."
    mentions = (Mention("Rey", 14, 17), Mention("Tehran", 38, 44, "Tehran"))
    make_workspace(tmp_path / "spaces", documents=[Document("one", text, mentions)])
    _, kb, trained = built
    learn = partial(learn_job, kb=kb, trained=trained)
    parts = wire(kb, trained, tmp_path / "packs", tmp_path / "spaces", learn, SecuritySettings())
    return create_app(parts)


@pytest.fixture
def client(app):
    with (
        running(app) as address,
        httpx.Client(base_url=address, headers=CHANGE, timeout=20) as client,
    ):
        yield client


def test_real_text_is_linked(client):
    """The linker finds and explains mentions of the knowledge base."""
    mentions = client.post("/api/link", json={"text": "A city near Tehran."}).json()["mentions"]
    assert [(m["surface"], m["entity"]) for m in mentions] == [("Tehran", "Tehran")]
    assert mentions[0]["why"]


def test_candidates_are_described(client):
    """Each choice has a line of what the knowledge base knows of it."""
    answer = client.post("/api/workspaces/rey/next", json={"client": "p"}).json()
    question = answer["question"]
    assert question["mention"] == 0
    choices = {choice["entity"]: choice["line"] for choice in question["choices"]}
    assert next(iter(choices)) == "Rey Skywalker"
    assert set(choices) == {"Rey Skywalker", "Rey, Iran", "Rey (given name)"}
    assert "also Shahr-e Rey" in choices["Rey, Iran"]
    assert answer["progress"]["target"] == 1


def test_the_model_guesses_after_the_label(client):
    """The guess is one of the candidates, with a confidence."""
    body = {"document": "one", "mention": 0, "who": "Ada", "client": "p", "choice": "@emerging"}
    guess = client.post("/api/workspaces/rey/labels", json=body).json()["guess"]
    assert guess["entity"] in ("Rey, Iran", "Rey (given name)")
    assert 0 < guess["confidence"] <= 1


def make_real_pack(kb, trained):
    return EntityPack.project(
        EmergingEntity("Rey Skywalker", ("Rey", "Scavenger of Jakku")),
        kb,
        priors=[0.5, 1.0],
        neighbours=[0, 2],
        relatedness=[0.5, 0.25],
        vector=np.ones(kb.dimensions),
        model_fingerprint=trained.fingerprint,
    )


def test_packs_are_checked_against_the_partners(client, built):
    """A pack of this knowledge base and model is taken; one of others is a conflict."""
    _, kb, trained = built
    pack = make_real_pack(kb, trained)
    foreign = replace(pack, model_fingerprint="00" * 32)
    assert client.post("/api/packs", content=foreign.to_bytes()).status_code == 409
    assert client.post("/api/packs", content=pack.to_bytes()).status_code == 201
    text = {"text": "The Scavenger of Jakku came."}
    (mention,) = client.post("/api/link", json=text).json()["mentions"]
    assert (mention["surface"], mention["entity"]) == ("Scavenger of Jakku", "Rey Skywalker")
    assert mention["emerging"] is True
    key = client.get("/api/packs").json()[0]["key"]
    client.delete(f"/api/packs/{key}")
    assert client.post("/api/link", json=text).json()["mentions"] == []


def test_a_pack_that_a_command_adds_is_used(client, built, tmp_path, monkeypatch):
    """The folder may change beside the service, by `stamo packs` or a copy."""
    monkeypatch.setattr("stamo.service.wiring.LOOK_SECONDS", 0.0)
    _, kb, trained = built
    entry = PackFolder(tmp_path / "packs").add(make_real_pack(kb, trained).to_bytes())
    text = {"text": "The Scavenger of Jakku came."}
    deadline = time.monotonic() + 20
    while not (mentions := client.post("/api/link", json=text).json()["mentions"]):
        assert time.monotonic() < deadline
    assert mentions[0]["entity"] == "Rey Skywalker"
    entry.path.unlink()
    assert client.post("/api/link", json=text).json()["mentions"] == []


def candidates_of_rey(client):
    text = {"text": "A king called Rey went to a city."}
    (rey,) = client.post("/api/link", json=text).json()["mentions"]
    return {candidate["entity"] for candidate in rey["candidates"]}


def test_a_learned_pack_is_put_into_use(client):
    """One that is not fit is used only if somebody insists; a later one takes its place."""
    use = "/api/packs/of/rey"
    assert client.get("/api/workspaces/rey").json()["pack"] is None
    assert client.post(use).status_code == 404
    assert client.post("/api/packs/of/nobody").status_code == 404
    assert "Rey Skywalker" not in candidates_of_rey(client)
    body = {"document": "one", "mention": 0, "who": "Ada", "client": "p", "choice": "@emerging"}
    client.post("/api/workspaces/rey/labels", json=body)
    for _ in range(2):
        job = client.post("/api/workspaces/rey/learn").json()
        while job["state"] in ("queued", "running"):
            job = client.get(f"/api/jobs/{job['id']}").json()
        learned = client.get("/api/workspaces/rey").json()["pack"]
        assert learned["is_fit"] is False
        assert learned["verdict"] in job["message"]
        refused = client.post(use)
        assert refused.status_code == 409
        assert learned["verdict"] in refused.json()["error"]
        assert client.post(use, params={"anyway": True}).status_code == 201
        (pack,) = client.get("/api/packs").json()
        assert (pack["entity"], pack["fingerprint"]) == ("Rey Skywalker", learned["fingerprint"])
        assert "Rey Skywalker" in candidates_of_rey(client)


def test_a_person_learns_and_uses_a_pack_on_the_pages(app, open_page, serve_app):
    """Label, learn, read the verdict, use it all the same, and find it in use everywhere."""
    address = serve_app(app)
    page = open_page(f"{address}/label?workspace=rey&who=Ada")
    page.wait_for_selector("#choices button")
    page.keyboard.press("1")
    page.click("#learn")
    page.wait_for_selector("#learned button")
    assert "Learned." in page.text_content("#enough-text")
    page.on("dialog", lambda dialog: dialog.accept())
    page.click("#learned >> text=Use pack")
    page.wait_for_selector("#learned >> text=In use")
    (question,) = open_page.complaints
    assert "Use it all the same?" in question
    page.goto(f"{address}/")
    page.wait_for_selector("#workspaces >> text=In use")
    page.click("#packs >> text=Remove")
    page.wait_for_selector("#workspaces >> text=Use pack")
    page.goto(f"{address}/label?workspace=rey")
    page.wait_for_selector("#learned >> text=Use pack")
    open_page.complaints.clear()  # the two questions


def start(built, tmp_path, *options):
    folder = built[0]
    arguments = [str(folder / "kb"), str(folder / "model.safetensors"), "--port", "0"]
    for name in ("packs", "spaces"):
        (tmp_path / name).mkdir(exist_ok=True)
    arguments += ["--packs", str(tmp_path / "packs"), "--workspaces", str(tmp_path / "spaces")]
    environment = os.environ | {"PYTHONUNBUFFERED": "1", "COLUMNS": "200"}
    return subprocess.Popen(
        [sys.executable, "-c", RUN, "serve", *arguments, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def test_a_missing_folder_of_packs_is_refused(built, tmp_path):
    """A misspelled name is no folder without packs."""
    process = start(built, tmp_path, "--packs", str(tmp_path / "pakcs"))
    _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "pakcs" in errors


def test_a_token_that_was_given_stays_secret(capsys, monkeypatch):
    """Logs are read by many: only a token that was made up here is printed."""
    token = "correct-horse-battery"
    monkeypatch.setattr(uvicorn.Server, "run", lambda server, sockets: None)
    security = SecuritySettings("127.0.0.1", token, frozenset(), public_read=False)
    for show in (False, True):
        with listen("127.0.0.1", 0) as listener:
            run(FastAPI(), listener, security, show_token=show)
        printed = capsys.readouterr().out
        assert "the token" in printed
        assert (token in printed) is show


def test_the_command_serves_and_stops_on_request(built, tmp_path):
    """`stamo serve` prints its address, serves, and ends cleanly on a signal."""
    process = start(built, tmp_path)
    try:
        address = process.stdout.readline().split()[2]
        assert address.startswith("http://127.0.0.1:")
        status = httpx.get(f"{address}/api/status", timeout=30).json()
        assert status["knowledge_base"] == "kb"
        assert status["token_needed"] is False
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert "Traceback" not in errors


def test_other_addresses_get_a_token(built, tmp_path):
    """Bound elsewhere, a token is made up and printed, and changes need it."""
    process = start(built, tmp_path, "--host", "0.0.0.0")
    try:
        port = process.stdout.readline().split()[2].rpartition(":")[2]
        token = process.stdout.readline().split()[-1]
        url = f"http://127.0.0.1:{port}/api/packs"
        assert len(token) >= 32
        assert httpx.post(url, content=b"x", headers=CHANGE, timeout=30).status_code == 401
        right = CHANGE | {"Authorization": f"Bearer {token}"}
        assert httpx.post(url, content=b"x", headers=right, timeout=30).status_code == 422
    finally:
        process.kill()
        process.communicate(timeout=30)


def test_a_taken_port_is_one_sentence():
    """A port that is in use is told, with what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match="choose another port"):
            listen("127.0.0.1", port)


def test_learning_without_labels_ends_with_a_sentence(client):
    """A job that cannot learn says what is missing, not a trace."""
    job = client.post("/api/workspaces/rey/learn").json()
    while job["state"] in ("queued", "running"):
        job = client.get(f"/api/jobs/{job['id']}").json()
    assert job["state"] == "failed"
    assert "label" in job["message"]


def test_pages_ship_with_the_package():
    """Every file that a page names is there."""
    from stamo.service.app import PAGES as ROUTES
    from stamo.service.app import STATIC

    for file in ROUTES.values():
        text = (STATIC / file).read_text()
        for name in ("style.css", "icon.svg", Path(file).stem + ".js"):
            assert f"/static/{name}" in text
            assert (STATIC / name).is_file()


def test_entities_are_found_by_the_beginning_of_a_name(client):
    """By title or another name, in small letters too; the exact title comes first."""

    def found(search):
        params = {"search": search}
        answer = client.get("/api/workspaces/rey/entities", params=params).json()
        return [choice["entity"] for choice in answer]

    assert found("Rey, Iran")[0] == "Rey, Iran"
    assert "Tehran" in found("teh")
    assert "Rey, Iran" in found("Shahr")
    assert found("  ") == found("no such name") == []
