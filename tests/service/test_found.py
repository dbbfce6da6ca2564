"""Proposals in the service: routes, the page in a real browser, and the job that accepts."""

import json
import time

import httpx
import pytest

from stamo.discovery.discover import discover
from stamo.discovery.proposals import FoundFolder
from stamo.service.app import create_app
from stamo.service.security import SecuritySettings
from stamo.workspace.folder import Workspace
from tests.service.support import CHANGE, HOSTILE, running
from tests.service.test_browser import serious
from tests.workspace.small_world import make_small_world

TOKEN = "a-token-of-some-length"
SIZES = {"wide": {"width": 1280, "height": 800}, "phone": {"width": 390, "height": 844}}
TEXTS = (
    "The council said on Monday that {name} won the election in 2021 with most of the votes.",
    "Voters in the capital gave {name} a seat in parliament in 2022 after a long campaign.",
    "In 2021 the party chose {name} as its candidate for the election of the parliament.",
    "A new government under {name} promised in 2022 to cut taxes before the next election.",
)
NAMES = ("Qaro Zweb", "Wuxo Tyqk")


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return make_small_world(tmp_path_factory)


@pytest.fixture(scope="module")
def found(small, tmp_path_factory):
    """What is found in eight documents about two people, with text that is no markup."""
    path = tmp_path_factory.mktemp("stream") / "news.jsonl"
    records = [
        {"id": f"{name[0]}-{i}", "date": f"2024-05-0{i + 1}", "text": text.format(name=name) + end}
        for name, end in zip(NAMES, ("", " " + HOSTILE), strict=True)
        for i, text in enumerate(TEXTS)
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return discover([path], small.kb, small.trained), path


@pytest.fixture
def folder(small, found, tmp_path):
    """An unread folder of proposals; workspaces go beside it."""
    proposals, source = found
    folder = FoundFolder(tmp_path / "found")
    origin = {"sources": [str(source)], "kb": str(small.kb_path), "model": str(small.model_path)}
    folder.save(proposals, origin)
    return folder


@pytest.fixture
def app(small, folder, tmp_path):
    """The service with a token and the proposals."""
    security, where = SecuritySettings(token=TOKEN), (tmp_path / "packs", tmp_path)
    return create_app(small.kb, small.trained, *where, security=security, found_dir=folder.path)


@pytest.fixture
def client(app):
    headers = CHANGE | {"Authorization": f"Bearer {TOKEN}"}
    with (
        running(app) as address,
        httpx.Client(base_url=address, headers=headers, timeout=20) as client,
    ):
        yield client


def wait_for_jobs(client):
    for _ in range(400):
        (job,) = client.get("/api/jobs").json()
        if job["state"] in ("done", "failed"):
            return job
        time.sleep(0.05)
    raise AssertionError(job)


def test_proposals_are_listed_page_by_page(client):
    """By kind, with their places, as many as asked for."""
    listed = client.get("/api/found", params={"kind": "name"}).json()
    assert {p["name"] for p in listed["proposals"]} >= set(NAMES)
    assert listed["is_served"]
    second = client.get("/api/found", params={"kind": "name", "start": 1, "most": 1}).json()
    assert second["proposals"] == listed["proposals"][1:2]
    assert second["n"] == listed["n"]
    one = listed["proposals"][0]
    assert client.get(f"/api/found/{one['id']}").json() == one
    assert client.get("/api/found", params={"type": "no such type"}).json()["n"] == 0
    assert client.get("/api/found", params={"most": 1000}).status_code == 422
    assert client.get("/api/found/nothing").status_code == 404


def test_accepting_makes_the_workspace_in_the_background(client, folder, tmp_path):
    """It is there with its documents and labels, and the proposal is open no more."""
    chosen = folder.get(NAMES[0])
    body = {"who": "ada", "workspace": "zweb", "labels": True}
    assert client.post(f"/api/found/{chosen.id}/accept", json=body).status_code == 202
    job = wait_for_jobs(client)
    assert (job["state"], job["message"][:22]) == ("done", "Accepted: 4 documents,")
    assert Workspace.open(tmp_path / "zweb").status().labels.n_emerging == 4
    again = client.post(f"/api/found/{chosen.id}/accept", json=body | {"workspace": "other"})
    assert (again.status_code, "decided" in again.json()["error"]) == (409, True)
    other = folder.get(NAMES[1])
    taken = client.post(f"/api/found/{other.id}/accept", json=body)
    assert (taken.status_code, "in use" in taken.json()["error"]) == (409, True)


def test_rejecting_leaves_out(client, folder, tmp_path):
    """The decision bears the name of the person."""
    chosen = folder.get(NAMES[0])
    response = client.post(f"/api/found/{chosen.id}/reject", json={"who": "ada"})
    assert response.status_code == 204
    assert chosen.id not in {p["id"] for p in client.get("/api/found").json()["proposals"]}
    assert [(v.by, v.decision) for v in folder.verdicts()] == [("ada", "rejected")]


@pytest.mark.parametrize("name", ["../up", "a/b", "", ".hidden", "a" * 99])
def test_a_workspace_stays_in_its_folder(client, folder, tmp_path, name):
    """Names that are no plain folder name are refused; nothing is made."""
    chosen = folder.get(NAMES[0])
    body = {"who": "ada", "workspace": name}
    assert client.post(f"/api/found/{chosen.id}/accept", json=body).status_code == 422
    assert client.get("/api/jobs").json() == []


@pytest.mark.parametrize("change", ["accept", "reject"])
def test_decisions_need_the_token(client, folder, change):
    """Without it nothing is decided; a page of another site lacks the header."""
    route = f"/api/found/{folder.get(NAMES[0]).id}/{change}"
    body = {"who": "ada", "workspace": "zweb"}
    assert client.post(route, json=body, headers={"Authorization": ""}).status_code == 401
    del client.headers["X-Stamo"]
    assert client.post(route, json=body).status_code == 403
    assert folder.verdicts() == []


def test_a_service_without_proposals_says_so(reader):
    """The list is empty, and deciding tells what to do."""
    assert reader.get("/api/found").json()["is_served"] is False
    answer = reader.post("/api/found/x/reject", json={"who": "a"})
    assert (answer.status_code, "--found" in answer.json()["error"]) == (404, True)


def test_an_acceptance_that_fails_leaves_the_proposal_open(client, folder, tmp_path):
    """The documents are gone: one sentence, no workspace, and it can be accepted later."""
    chosen = folder.get(NAMES[0])
    value = json.loads(folder.proposals_path.read_text())
    value["origin"]["sources"] = ["gone.jsonl"]
    folder.proposals_path.write_text(json.dumps(value))
    body = {"who": "ada", "workspace": "zweb"}
    assert client.post(f"/api/found/{chosen.id}/accept", json=body).status_code == 202
    job = wait_for_jobs(client)
    assert (job["state"], "not there any more" in job["message"]) == ("failed", True)
    assert not (tmp_path / "zweb").exists()
    assert folder.get(chosen.id).decision == "open"
    assert client.get("/api/found").json()["under_way"] == {}
    assert client.post("/api/found/nothing/accept", json=body).status_code == 404


@pytest.mark.browser
@pytest.mark.parametrize("size", SIZES)
def test_the_page_shows_accepts_and_rejects(app, folder, tmp_path, open_page, serve_app, size):
    """A person gives the token and a name, rejects one and accepts one; text is no markup."""
    address = serve_app(app)
    page = open_page(f"{address}/found", viewport=SIZES[size])
    page.wait_for_selector(".found > li")
    page.evaluate("document.querySelector('.found').firstElementChild.id = 'old'")
    page.select_option("#kind", "name")
    page.locator("#old").wait_for(state="detached")  # the list is a new one
    first, second = (page.locator(".found > li", has_text=name).first for name in NAMES)
    first.wait_for()
    assert first.locator("mark").first.text_content() == NAMES[0]
    assert page.evaluate("window.hacked") is None
    first.get_by_role("button", name="Reject").click()
    assert "Give your name" in page.inner_text("#failure")
    page.fill("#who", "Ada")
    open_page.complaints.clear()
    first.get_by_role("button", name="Reject").click()
    page.fill("dialog input", TOKEN)
    page.keyboard.press("Enter")
    first.wait_for(state="detached")
    second.get_by_role("button", name="Accept").click()
    second.get_by_text("is being made").wait_for()
    assert serious(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size]["width"]
    for _ in range(400):
        if folder.get(NAMES[1]).decision == "accepted":
            break
        time.sleep(0.05)
    # The browser itself tells of the answer that asks for the token.
    open_page.complaints[:] = [line for line in open_page.complaints if "401" not in line]
    assert folder.get(NAMES[0]).decision == "rejected"
    assert Workspace.open(tmp_path / "wuxo-tyqk").status().n_documents == 4
