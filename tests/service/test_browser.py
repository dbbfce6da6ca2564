"""The pages in a real browser, against a real server."""

import pytest

from stamo.corpus.types import Document, Mention
from stamo.service.app import create_app
from stamo.service.folders import WorkspaceFolders
from stamo.service.security import SecuritySettings
from stamo.workspace.folder import Workspace
from stamo.workspace.labels import Choice
from tests.service.support import (
    HOSTILE,
    KNOWN,
    ServerProcess,
    advise,
    make_document,
    make_pack,
    make_parts,
    make_workspace,
)

pytestmark = pytest.mark.browser


@pytest.fixture
def address(root, serve_app):
    return serve_app(create_app(make_parts(root)))


def start_labelling(page, who="Ada"):
    page.fill("#who", who)
    page.keyboard.press("Enter")
    page.wait_for_selector("#choices button")


def wait_until_saved(page):
    page.wait_for_function("() => document.body.dataset.unsaved === '0'")


def wait_for_count(page, count):
    page.wait_for_function(
        "count => document.getElementById('count').textContent.startsWith(count)", arg=count
    )
    # The next mention is asked for after the count is told.
    page.wait_for_function("() => !document.getElementById('question').hidden")


def press(page, key):
    """Press a key and wait until another mention is shown."""
    before = page.text_content("#text")
    page.keyboard.press(key)
    page.wait_for_function(
        "before => document.getElementById('text').textContent !== before", arg=before
    )
    wait_until_saved(page)


def events_of(root):
    with Workspace.open(root / "rey").open_labels() as store:
        return store.events()


def test_twenty_mentions_by_keyboard(address, open_page, root):
    """Twenty keys make twenty labels; then learning is offered and runs to its end."""
    page = open_page(f"{address}/label")
    page.wait_for_url("**/label?workspace=rey")
    start_labelling(page)
    keys = "1234n" * 4
    for key in keys:
        press(page, key)
    wait_for_count(page, "20 of 20")
    expected = {"1": "@emerging", "n": "@none"} | {str(i + 2): KNOWN[i] for i in range(3)}
    events = events_of(root)
    assert [event.choice for event in events] == [expected[key] for key in keys]
    assert {event.labeller for event in events} == {"Ada"}
    page.click("#learn")
    page.wait_for_function(
        "() => document.getElementById('enough-text').textContent.includes('learned rey')"
    )


def test_the_last_mention_is_followed_by_what_to_do(open_page, serve_app, tmp_path):
    """After the last answer the page says that nothing is left to label."""
    parts = make_parts(tmp_path)
    make_workspace(tmp_path, "small", n_documents=2)
    page = open_page(f"{serve_app(create_app(parts))}/label?workspace=small&who=Ada")
    page.wait_for_selector("#choices button")
    press(page, "1")
    assert not page.is_visible("#finished")
    page.keyboard.press("n")
    page.wait_for_selector("#finished:not([hidden])")
    assert "nothing is left to label" in page.inner_text("#enough-text")


def test_the_guess_is_shown_after_the_choice(address, open_page):
    """Before the first choice the page says nothing of the model; then it tells its guess."""
    page = open_page(f"{address}/label?workspace=rey")
    start_labelling(page)
    assert "model" not in page.inner_text("body")
    press(page, "1")
    after = page.inner_text("#after")
    assert after == f"You chose Rey Skywalker. The model would have said {KNOWN[1]} (62 % sure)."
    press(page, "3")
    assert "would have said the same" in page.inner_text("#after")


def test_skip_and_undo(address, open_page, root):
    """Undo takes the last choice back and shows its mention again; a skip counts as none."""
    page = open_page(f"{address}/label?workspace=rey")
    start_labelling(page)
    press(page, "s")
    wait_for_count(page, "0 of 20")
    labelled = page.text_content("#text")
    press(page, "2")
    wait_for_count(page, "1 of 20")
    press(page, "u")
    wait_for_count(page, "0 of 20")
    assert page.text_content("#text") == labelled
    press(page, "1")
    choices = [event.choice for event in events_of(root)]
    assert choices == ["@skip", KNOWN[0], "@undo", "@emerging"]


def test_the_mouse_works_too(address, open_page, root):
    """Every key has a button."""
    page = open_page(f"{address}/label?workspace=rey")
    start_labelling(page)
    for selector in ("#choices li:nth-child(2) button", "#none", "#skip"):
        before = page.text_content("#text")
        page.click(selector)
        page.wait_for_function(
            "before => document.getElementById('text').textContent !== before", arg=before
        )
    wait_until_saved(page)
    assert [event.choice for event in events_of(root)] == [KNOWN[0], "@none", "@skip"]


def test_typing_a_name_is_not_labelling(address, open_page, root):
    """Digits and letters in the name field stay there; held keys label once."""
    page = open_page(f"{address}/label?workspace=rey")
    page.wait_for_selector("#who:visible")
    page.keyboard.type("Ann 1n2s")
    page.keyboard.press("Enter")
    page.wait_for_selector("#choices button")
    assert events_of(root) == []
    page.keyboard.press("Control+1")
    page.keyboard.press("0")
    press(page, "4")
    assert [(e.labeller, e.choice) for e in events_of(root)] == [("Ann 1n2s", KNOWN[2])]


def test_a_crash_loses_no_label(root, open_page):
    """After kill -9 and a restart, every label that the page showed is there, and it goes on."""
    server = ServerProcess(root)
    try:
        page = open_page(f"{server.address}/label?workspace=rey")
        start_labelling(page)
        for key in "12n":
            press(page, key)
        wait_for_count(page, "3 of 20")
    finally:
        server.kill()
    page.keyboard.press("1")
    page.wait_for_function(
        "() => document.getElementById('failure').textContent.includes('reached')"
    )
    page.close()
    open_page.complaints.clear()  # the browser tells that the connection was refused
    server = ServerProcess(root)
    try:
        page = open_page(f"{server.address}/label?workspace=rey")
        start_labelling(page)
        wait_for_count(page, "3 of 20")
        press(page, "1")
        wait_for_count(page, "4 of 20")
        page.reload()
        page.wait_for_selector("#choices button")
        wait_for_count(page, "4 of 20")
        page.close()
    finally:
        server.kill()
    assert [event.choice for event in events_of(root)] == [
        "@emerging",
        KNOWN[0],
        "@none",
        "@emerging",
    ]


def test_two_people_see_different_mentions(address, open_page, root):
    """Two browsers label side by side; no mention gets two labels."""
    first, second = (open_page(f"{address}/label?workspace=rey") for _ in range(2))
    start_labelling(first, "Ada")
    start_labelling(second, "Bob")
    for _ in range(4):
        assert first.text_content("#text") != second.text_content("#text")
        press(first, "1")
        press(second, "n")
    events = events_of(root)
    assert len({event.target.document for event in events}) == len(events) == 8
    assert {event.labeller for event in events} == {"Ada", "Bob"}


def test_the_name_is_remembered(address, open_page):
    """Who labels is asked once; the page goes on after a reload and can change it."""
    page = open_page(f"{address}/label?workspace=rey")
    start_labelling(page, "Ada <b>")
    page.reload()
    page.wait_for_selector("#choices button")
    assert page.text_content("#as-name") == "Ada <b>"
    page.click("#change")
    assert page.is_visible("#who-form")


def hostile_root(tmp_path):
    text = f"{HOSTILE} Rey 😀 {HOSTILE}"
    start = text.index("Rey")
    document = Document("<b>id</b>", text, (Mention("Rey", start, start + 3),), f"T {HOSTILE}")
    make_workspace(tmp_path, documents=[document, make_document(1), make_document(2)])
    return tmp_path, text


def test_hostile_documents_stay_text(tmp_path, open_page, serve_app):
    """Markup and scripts in documents, titles and names are shown as text and never run."""
    root, text = hostile_root(tmp_path)
    address = serve_app(create_app(make_parts(root)))
    page = open_page(f"{address}/label?workspace=rey")
    start_labelling(page, HOSTILE[:40])
    seen = set()
    for _ in range(3):
        seen.add(page.text_content("#text"))
        assert page.locator("#question script, #question img, #question svg").count() == 0
        if len(seen) < 3:
            press(page, "1")
    assert text in seen
    assert page.evaluate("window.hacked") is None


def test_hostile_text_is_linked_as_text(address, open_page):
    """The try page shows exactly what was pasted, whatever it holds."""
    page = open_page(f"{address}/try")
    text = f"😀 Paris {HOSTILE} Rey"
    page.fill("#input", text)
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".mention")
    assert page.text_content("#linked") == text
    assert page.locator("#linked .mention").first.text_content() == "Paris"
    assert page.locator("#linked script, #linked img, #linked svg").count() == 0
    assert page.evaluate("window.hacked") is None


def test_the_policy_stops_injected_code(address, open_page):
    """Even code that got into the page does not run: the policy is in force."""
    page = open_page(f"{address}/try")
    page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "window.hacked = 1";
            document.body.append(script);
            const box = document.createElement("div");
            box.innerHTML = '<img src="x" onerror="window.hacked = 2">';
            document.body.append(box);
        }"""
    )
    page.wait_for_timeout(200)
    assert page.evaluate("window.hacked") is None
    assert any("Content Security Policy" in line for line in open_page.complaints)
    open_page.complaints.clear()


def test_a_mention_tells_why(address, open_page):
    """A click shows entity, confidence, runner-up and each score's part."""
    page = open_page(f"{address}/try")
    page.fill("#input", "They saw Paris and Nobody.")
    page.click("#run")
    page.click(".mention >> nth=1")
    detail = page.inner_text("#detail")
    assert "Paris" in detail
    assert "50 % sure" in detail
    assert "Why rather than Paris (film)" in detail
    assert "coherence" in detail
    page.click(".mention >> nth=2")
    assert "Not linked" in page.inner_text("#detail")
    assert page.text_content("#summary").startswith("2 of 3 mentions linked")


def test_a_pack_tells_for_and_against(address, open_page):
    """The page names words by weight, the answer without the pack, and the entity in the text."""
    page = open_page(f"{address}/try")
    page.fill("#input", "In the evening Rey came back.")
    page.click("#run")
    page.click(".mention.new, .mention >> text=Rey")
    detail = page.inner_text("#detail")
    assert "For and against Rey Skywalker" in detail
    assert detail.index("“desert” · words") < detail.index("sentence")
    assert "Without the pack: Lana Del Rey." in detail
    label = "element => getComputedStyle(element, '::after').content"
    assert page.locator(".mention >> text=Rey").evaluate(label) == '"Rey Skywalker"'
    assert page.text_content("#linked") == "In the evening Rey came back."


def test_a_slow_call_shows_that_the_page_works(address, open_page):
    """A line runs along the top while an answer is long in coming, and no longer."""
    page = open_page(f"{address}/try")
    page.fill("#input", "They saw Paris.")
    waiting = []
    page.route("**/api/link", lambda route: waiting.append(route))
    page.click("#run")
    page.wait_for_selector("body[aria-busy=true]")
    assert page.evaluate("getComputedStyle(document.body, '::before').height") == "3px"
    waiting[0].continue_()
    page.wait_for_selector("body[aria-busy=false]")
    assert page.text_content("#linked") == "They saw Paris."


def test_a_failure_is_told(address, open_page):
    """When the service fails, the page shows its sentence and can be used again."""
    page = open_page(f"{address}/try")
    page.fill("#input", "explode")
    page.click("#run")
    page.wait_for_function(
        "() => document.getElementById('failure').textContent.includes('failed')"
    )
    open_page.complaints.clear()  # the browser tells the status 500
    page.fill("#input", "Paris")
    page.click("#run")
    page.wait_for_selector(".mention")
    assert page.text_content("#failure") == ""


def test_the_page_asks_for_the_token(root, open_page, serve_app):
    """Where a token is needed, the page asks once and goes on with what was begun."""
    security = SecuritySettings("0.0.0.0", "correct-horse-battery")
    address = serve_app(create_app(make_parts(root, security=security)))
    page = open_page(f"{address}/label?workspace=rey")
    page.fill("dialog input", "wrong")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('dialog input')?.value === ''")
    page.fill("dialog input", "correct-horse-battery")
    page.keyboard.press("Enter")
    page.fill("#who", "Ada")
    page.keyboard.press("Enter")
    page.wait_for_selector("#choices button")
    press(page, "1")
    wait_for_count(page, "1 of 20")
    open_page.complaints.clear()  # the browser tells the status 401
    assert len(events_of(root)) == 1


def test_a_foreign_page_cannot_change_anything(address, open_page, serve_app, root):
    """A page of another origin can neither label nor add a pack."""
    evil = serve_app(create_app(make_parts(root / "elsewhere")))
    page = open_page(f"{evil}/try")
    results = page.evaluate(
        """async (url) => Promise.all([
            fetch(`${url}/api/packs`, {method: "POST", body: "x", mode: "no-cors"})
                .then(() => "sent", () => "refused"),
            fetch(`${url}/api/packs`, {method: "POST", headers: {"X-Stamo": "1"}})
                .then(() => "sent", () => "refused"),
            fetch(`${url}/api/status`).then((r) => r.text(), () => "refused"),
        ])""",
        address,
    )
    assert results[1:] == ["refused", "refused"]
    open_page.complaints.clear()  # the browser tells what it refused
    assert not (root / "packs").exists()


def test_the_overview_lists_adds_and_removes(address, open_page, tmp_path):
    """Workspaces with their progress, and packs that can be added and removed."""
    (tmp_path / "new.stamo").write_bytes(make_pack().to_bytes())
    page = open_page(address)
    page.wait_for_selector("#workspaces >> text=Next: Label 20 more")
    page.set_input_files("#file", tmp_path / "new.stamo")
    page.wait_for_selector("#packs >> text=Rey Skywalker")
    page.once("dialog", lambda dialog: dialog.accept())
    page.click("#packs >> text=Remove")
    page.wait_for_selector("#packs >> text=No pack yet.")
    assert open_page.complaints == ["Remove the pack of Rey Skywalker?"]
    open_page.complaints.clear()


@pytest.mark.parametrize("path", ["/", "/label?workspace=rey", "/try", "/found", "/no/such/page"])
def test_pages_fit_a_phone(address, open_page, path):
    """Nothing is wider than a narrow screen."""
    page = open_page(address + path, viewport={"width": 360, "height": 640})
    if "label" in path:
        start_labelling(page)
    page.wait_for_load_state("networkidle")
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= 360
    if "such" in path:
        open_page.complaints.clear()  # the browser itself tells of a page that is not there


def test_more_than_ten_candidates_can_be_reached(root, open_page, serve_app):
    """The first ten have keys; the others come with a key of their own and by click."""
    choices = tuple(Choice(f"Rey {i}", f"Rey {i}") for i in range(2, 15))
    spaces = WorkspaceFolders(root, lambda surface: choices, lambda *_: None, advise)
    address = serve_app(create_app(make_parts(root, workspaces=spaces)))
    page = open_page(f"{address}/label?workspace=rey")
    start_labelling(page)
    assert page.locator("#choices li").count() == 10
    page.keyboard.press("m")
    assert page.locator("#choices li").count() == 14
    before = page.text_content("#text")
    page.click("#choices >> text=Rey 14")
    page.wait_for_function(
        "before => document.getElementById('text').textContent !== before", arg=before
    )
    wait_until_saved(page)
    assert [event.choice for event in events_of(root)] == ["Rey 14"]


@pytest.mark.parametrize("size", [(1280, 800), (390, 844)])
def test_ten_choices_are_seen_at_once(root, open_page, serve_app, size):
    """Also below the words that there are labels enough, and that one answer speaks for many."""
    choices = tuple(Choice(f"Rey {i}", f"Rey {i}", LINE) for i in range(2, 12))
    spaces = WorkspaceFolders(root, lambda surface: choices, lambda *_: None, advise)
    address = serve_app(create_app(make_parts(root, workspaces=spaces)))
    viewport = {"width": size[0], "height": size[1]}
    page = open_page(f"{address}/label?workspace=rey", viewport=viewport)
    start_labelling(page)
    page.evaluate(SHOW_ALL_NOTES)
    assert page.locator("#choices button").count() == 10
    assert page.evaluate(UNSEEN) == []


LINE = "also Rae, Reye · with Jakku, Ahch-To, Finn, Poe Dameron, Kylo Ren"

SHOW_ALL_NOTES = """() => {
  document.getElementById("enough").hidden = false;
  document.getElementById("enough-text").textContent =
    "20 labels: enough to learn from. More may still help.";
  document.getElementById("text").append("It was so. ".repeat(400));
  document.getElementById("same").textContent = "“Rey” stands here 22 times; your answer " +
    "speaks for all of them until one is labelled otherwise.";
}"""

UNSEEN = """() => Array.from(document.querySelectorAll("#choices button"))
  .filter((button) => {
    const { left, bottom } = button.getBoundingClientRect();
    return !button.contains(document.elementFromPoint(left + 5, bottom - 3));
  })
  .map((button) => button.textContent)"""
