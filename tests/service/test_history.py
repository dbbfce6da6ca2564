"""Labels can be looked at again and repaired, in a real browser and by the routes."""

import pytest
from axe_playwright_python.sync_playwright import Axe

from stamo.corpus.types import Document, Mention
from stamo.service.app import create_app
from stamo.service.folders import WorkspaceFolders
from stamo.workspace.labels import Choice
from stamo.workspace.report import REPORT
from tests.service.support import (
    KNOWN,
    advise,
    describe,
    guess,
    make_document,
    make_parts,
    make_workspace,
)
from tests.service.test_browser import (
    events_of,
    press,
    wait_for_count,
    wait_until_saved,
)

SPACE = "/api/workspaces/rey"
SIZES = {"wide": {"width": 1280, "height": 800}, "phone": {"width": 390, "height": 844}}


def find(search):
    titles = ("Paris", "Paris, Texas", "Parma")
    return [Choice(t, t, "a city") for t in titles if t.lower().startswith(search.lower())]


def ten(surface):
    line = (
        "also Reyes, El Rey · with Sierra Leone, Rayy, a third one and a rather long line of text"
    )
    return tuple(Choice(f"Rey number {i}", f"Rey number {i}", line) for i in range(2, 11))


@pytest.fixture
def address(root, serve_app):
    spaces = WorkspaceFolders(root, describe, guess, advise, find=find)
    return serve_app(create_app(make_parts(root, workspaces=spaces)))


def serious(page):
    """Return what axe-core finds that keeps people out."""
    found = Axe().run(page).response["violations"]
    return [
        (v["id"], [n["target"] for n in v["nodes"]])
        for v in found
        if v["impact"] in ("serious", "critical")
    ]


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_twenty_mentions_are_labelled_and_corrected(address, open_page, root, size, scheme):
    """Twenty keys, then three answers are changed in the history; axe finds nothing serious."""
    options = {"viewport": SIZES[size], "color_scheme": scheme}
    page = open_page(f"{address}/label?workspace=rey&who=Ada", **options)
    page.wait_for_selector("#choices button")
    for key in "12n3s" * 4:
        press(page, key)
    for key in "1111":
        press(page, key)
    wait_for_count(page, "20 of 20")
    assert serious(page) == []
    for number in range(3):
        page.click("#show-history")
        page.select_option("#filter-answer", "none of these")
        page.wait_for_function(
            "n => document.querySelectorAll('#entries .what').length === n", arg=4 - number
        )
        if number == 0:
            assert serious(page) == []
        page.click("#entries button >> nth=0")
        page.wait_for_selector("#changing:visible")
        assert "Labelled none of these by Ada" in page.inner_text("#changing")
        page.keyboard.press("2")
        wait_until_saved(page)
    events = events_of(root)
    assert len(events) == 27
    assert [event.choice for event in events[-3:]] == [KNOWN[0]] * 3
    assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size]["width"]


@pytest.mark.browser
@pytest.mark.parametrize("size", SIZES)
def test_ten_choices_are_in_sight(root, open_page, serve_app, size):
    """All ten choices and the keys are on the screen without scrolling."""
    spaces = WorkspaceFolders(root, ten, lambda *_: None, advise)
    address = serve_app(create_app(make_parts(root, workspaces=spaces)))
    page = open_page(f"{address}/label?workspace=rey&who=Ada", viewport=SIZES[size])
    page.wait_for_selector("#choices button")
    assert page.locator("#choices li").count() == 10
    bottom = page.locator("#choices").evaluate("e => e.getBoundingClientRect().bottom")
    dock = page.locator("#dock").evaluate("e => e.getBoundingClientRect().top")
    assert bottom <= dock
    assert dock < SIZES[size]["height"] - 40
    press(page, "0")
    assert [event.choice for event in events_of(root)] == ["Rey number 10"]


@pytest.mark.browser
def test_keys_pressed_while_saving_are_kept(address, open_page, root):
    """The next mention is there at once; each key answers the mention that was in sight."""
    page = open_page(f"{address}/label?workspace=rey&who=Ada")
    page.wait_for_selector("#choices button")
    page.route("**/labels", lambda route: (page.wait_for_timeout(150), route.continue_()))
    seen = []
    for key in "12n34":
        seen.append((page.text_content("#document"), key))
        page.keyboard.press(key)
    assert page.evaluate("document.body.dataset.unsaved") != "0"
    wait_until_saved(page)
    choices = {"1": "@emerging", "n": "@none"} | {str(i + 2): KNOWN[i] for i in range(3)}
    expected = [(f"doc-{int(title[5:]):02d}", choices[key]) for title, key in seen]
    assert [(e.target.document, e.choice) for e in events_of(root)] == expected
    assert len({document for document, _ in expected}) == 5


@pytest.mark.browser
def test_another_entity_is_found_in_the_knowledge_base(address, open_page, root):
    """The search lists what begins so; Enter takes the first, and typing is no labelling."""
    page = open_page(f"{address}/label?workspace=rey&who=Ada")
    page.wait_for_selector("#choices button")
    page.keyboard.press("e")
    page.keyboard.type("paris")
    page.wait_for_selector("#found button")
    assert serious(page) == []
    before = page.text_content("#text")
    page.keyboard.press("Enter")
    page.wait_for_function("t => document.getElementById('text').textContent !== t", arg=before)
    wait_until_saved(page)
    assert [event.choice for event in events_of(root)] == ["Paris"]


@pytest.mark.browser
def test_the_whole_document_can_be_opened(tmp_path, open_page, serve_app):
    """Its full text is shown, and an address leads to its source."""
    text = "Rey came. " + "The desert was wide. " * 300 + "It ended here."
    document = Document("https://example.org/a", text, (Mention("Rey", 0, 3),), "A walk")
    make_workspace(tmp_path, documents=[document, make_document(1)])
    address = serve_app(create_app(make_parts(tmp_path)))
    query = "document=https%3A%2F%2Fexample.org%2Fa&mention=0"
    page = open_page(f"{address}/label?workspace=rey&who=Ada&{query}")
    page.wait_for_selector("#changing:visible")
    page.click("#open")
    page.wait_for_selector("#whole[open]")
    assert page.text_content("#whole-text") == text
    assert page.get_attribute("#whole-link a", "href") == "https://example.org/a"
    assert serious(page) == []


@pytest.mark.browser
def test_a_report_leads_to_the_label(address, open_page, root):
    """A click on an example of the served report shows its mention, where a key relabels it."""
    place = "?workspace=rey&amp;document=doc-03&amp;mention=0"
    example = f'<li>56% <a data-place="{place}">News 3</a> → Rey Skywalker</li>'
    (root / "rey" / REPORT).write_text(f"<!doctype html><title>Report</title>{example}")
    page = open_page(f"{address}{SPACE}/report")
    page.click("text=News 3")
    page.fill("#who", "Ada")
    page.keyboard.press("Enter")
    page.wait_for_selector("#changing:visible")
    assert page.text_content("#document") == "News 3"
    page.keyboard.press("1")
    wait_until_saved(page)
    assert [event.target.document for event in events_of(root)] == ["doc-03"]


@pytest.mark.browser
@pytest.mark.parametrize("path", ["/", "/try", "/docs", "/found"])
def test_other_pages_keep_nobody_out(address, open_page, path):
    """axe-core finds nothing serious on them either, in the dark as well."""
    page = open_page(address + path, color_scheme="dark")
    if path == "/try":
        page.fill("#input", "They saw Paris and Rey.")
        page.click("#run")
        page.click(".mention >> nth=1")
    if path == "/docs":
        page.wait_for_selector(".opblock-summary-method")
    page.wait_for_load_state("networkidle")
    assert serious(page) == []


def repeated(tmp_path):
    text = "Rey came. Rey went. Rey slept."
    mentions = tuple(Mention("Rey", i, i + 3) for i in (0, 10, 20))
    return make_workspace(tmp_path, documents=[make_document(1), Document("x", text, mentions)])


@pytest.mark.browser
def test_one_label_speaks_for_its_document(tmp_path, open_page, serve_app):
    """The page says so; where labels differ, it says that each mention is asked."""
    repeated(tmp_path)
    address = serve_app(create_app(make_parts(tmp_path)))
    page = open_page(f"{address}/label?workspace=rey&who=Ada&document=x&mention=0")
    page.wait_for_selector("#changing:visible")
    assert "stands here 3 times; your answer speaks for all" in page.inner_text("#same")
    page.keyboard.press("1")
    wait_until_saved(page)
    page.goto(f"{address}/label?workspace=rey&who=Ada&document=x&mention=2")
    page.wait_for_selector("#changing:visible")
    page.keyboard.press("n")
    wait_until_saved(page)
    page.goto(f"{address}/label?workspace=rey&who=Ada")
    page.wait_for_selector("#choices button")
    press(page, "s")
    assert "its labels differ: each is asked by itself" in page.inner_text("#same")


def ask(client, n=1):
    return client.post(f"{SPACE}/next", json={"client": "page-1", "n": n}).json()


def label(client, question, choice, who="Ada", **more):
    body = {"document": question["document"], "mention": question["mention"], "who": who}
    return client.post(f"{SPACE}/labels", json=body | {"client": "page-1", "choice": choice} | more)


def test_mentions_ahead_are_kept_for_the_client(client):
    """Asking again gives the same ones; others get others; too many are refused."""
    first = ask(client, 4)
    documents = [first["question"]["document"], *(q["document"] for q in first["ahead"])]
    assert len(set(documents)) == 4
    assert ask(client, 4) == first
    other = client.post(f"{SPACE}/next", json={"client": "page-2", "n": 3}).json()
    assert other["question"]["document"] not in documents
    label(client, first["question"], "@none")
    assert ask(client)["question"]["document"] == documents[1]
    assert client.post(f"{SPACE}/next", json={"client": "x", "n": 99}).status_code == 422


def test_labels_are_changed_only_on_purpose(client):
    """A second label needs `change`; the history and the agreement tell of both."""
    question = ask(client)["question"]
    assert label(client, question, "@emerging").status_code == 201
    assert label(client, question, "@none", who="Bob").status_code == 409
    assert label(client, question, "@none", who="Bob", change=True).status_code == 201
    history = client.get(f"{SPACE}/labels").json()
    (entry,) = history["labels"]
    assert entry["answer"] == "none of these"
    assert len(entry["said"]) == 2
    assert history["agreement"] == [
        {"first": "Ada", "second": "Bob", "n": 1, "n_same": 0, "kappa": 0.0}
    ]
    shown = client.get(f"{SPACE}/mention", params={"document": question["document"], "mention": 0})
    assert (shown.json()["label"], shown.json()["labelled_by"]) == ("none of these", "Bob")


def test_the_history_is_filtered(client):
    """By a text, an answer, a labeller; nothing differs before learning."""
    for who, choice in (("Ada", "@none"), ("Bob", KNOWN[0]), ("Ada", "@emerging")):
        label(client, ask(client)["question"], choice, who=who)

    def n(**filters):
        return client.get(f"{SPACE}/labels", params=filters).json()["n"]

    counts = (n(), n(who="Ada"), n(answer="none of these"), n(search="given NAME"), n(differs=True))
    assert counts == (3, 2, 1, 1, 0)


@pytest.mark.parametrize(
    "path",
    ["labels?search=" + "x" * 3000, "mention?document=nope&mention=0", "document?document=x"],
)
def test_odd_questions_get_a_sentence(client, path):
    """What is not there or too long is told, never a failure."""
    response = client.get(f"{SPACE}/{path}")
    assert response.status_code in (404, 422)
    assert response.json()["error"]


def test_only_titles_of_the_knowledge_base_can_be_chosen(serve, root):
    """A title that the search knows is taken; an invented one is refused."""
    spaces = WorkspaceFolders(root, describe, guess, advise, find=find)
    with serve(workspaces=spaces) as client:
        question = ask(client)["question"]
        assert label(client, question, "Atlantis").status_code == 422
        assert label(client, question, "Parma").status_code == 201
        found = client.get(f"{SPACE}/entities", params={"search": "par"}).json()
        assert [choice["choice"] for choice in found] == ["Paris", "Paris, Texas", "Parma"]


def test_where_labels_differ_every_mention_is_asked(tmp_path):
    """Two answers in one document: its third mention comes before any other document."""
    repeated(tmp_path)
    from fastapi.testclient import TestClient

    with TestClient(create_app(make_parts(tmp_path)), headers={"X-Stamo": "1"}) as client:
        client.base_url = "http://127.0.0.1"
        for mention, choice in ((0, "@emerging"), (2, "@none")):
            label(client, {"document": "x", "mention": mention}, choice)
        question = ask(client)["question"]
        assert (question["document"], question["mention"]) == ("x", 1)
        assert question["differ"]
