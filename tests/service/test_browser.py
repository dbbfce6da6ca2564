"""The pages in a real browser, against a real server."""

import threading
from types import SimpleNamespace

import pytest
from axe_playwright_python.sync_playwright import Axe

from stamo.corpus.types import Document, EmergingEntity, Mention
from stamo.service.security import SecuritySettings
from stamo.workspace.folder import Workspace
from stamo.workspace.report import REPORT
from tests.service.support import (
    HOSTILE,
    KNOWN,
    ServerProcess,
    WordLinker,
    make_app,
    make_document,
    make_pack,
    make_workspace,
)

pytestmark = pytest.mark.browser

SIZES = {"wide": {"width": 1280, "height": 800}, "phone": {"width": 390, "height": 844}}
KEYS = {"1": "@emerging", "2": KNOWN[0], "3": KNOWN[1], "4": KNOWN[2], "n": "@none", "s": "@skip"}
ARABIC = "اكتشف تلسكوب Rey كواكب كثيرة حول نجوم بعيدة."
START_OF_TEXT = """(selector) => {
  const box = document.querySelector(selector);
  const range = document.createRange();
  range.setStart(box.firstChild, 0);
  range.setEnd(box.firstChild, 1);
  const { left, width } = box.getBoundingClientRect();
  return (range.getBoundingClientRect().left - left) / width;
}"""
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


def serious(page):
    """Return what axe-core finds that keeps people out."""
    found = Axe().run(page).response["violations"]
    return [
        (v["id"], [n["target"] for n in v["nodes"]])
        for v in found
        if v["impact"] in ("serious", "critical")
    ]


def start_labelling(open_page, address, more="&who=Ada", **options):
    page = open_page(f"{address}/label?workspace=rey{more}", **options)
    page.wait_for_selector("#choices button")
    return page


def wait_for_text(page, element, words):
    page.wait_for_function(
        "([id, words]) => document.getElementById(id).textContent.includes(words)",
        arg=[element, words],
    )


def wait_until_saved(page):
    page.wait_for_function("() => document.body.dataset.unsaved === '0'")


def press(page, key):
    """Press a key, or click on what begins with "#", and wait until another mention is shown."""
    before = page.text_content("#text")
    page.click(key) if key.startswith("#") else page.keyboard.press(key)
    page.wait_for_function(
        "before => document.getElementById('text').textContent !== before", arg=before
    )
    wait_until_saved(page)


def choices_of(root):
    with Workspace.open(root / "rey").read_labels() as store:
        return [event.choice for event in store.events()]


def test_from_twenty_labels_to_a_pack_in_use(address, open_page, root):
    """The guess comes after the choice; then learn, read the verdict, use it, take it out."""
    page = open_page(f"{address}/label")
    page.wait_for_url("**/label?workspace=rey")
    page.fill("#who", "Ada")
    page.keyboard.press("Enter")
    page.wait_for_selector("#choices button")
    assert "model" not in page.inner_text("body")
    keys = "1234n" * 4
    for key in keys:
        press(page, key)
        assert "The model would have said " in page.inner_text("#after")
    wait_for_text(page, "count", "20 of 20")
    assert choices_of(root) == [KEYS[key] for key in keys]
    page.click("#learn")
    wait_for_text(page, "enough-text", "Learned.")
    page.on("dialog", lambda dialog: dialog.accept())
    page.click("#learned >> text=Use pack")
    page.wait_for_selector("#learned >> text=In use")
    page.goto(f"{address}/")
    page.wait_for_selector("#workspaces >> text=In use")
    page.click("#packs >> text=Remove")
    page.wait_for_selector("#workspaces >> text=Use pack")
    page.goto(f"{address}/label?workspace=rey")
    page.wait_for_selector("#learned >> text=Use pack")
    assert "Remove the pack of Rey Skywalker?" in open_page.complaints
    open_page.complaints.clear()  # the questions


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_labels_are_corrected_in_the_history(address, open_page, root, size, scheme):
    """By keys and by clicks, then answers are changed; axe finds nothing serious."""
    options = {"viewport": SIZES[size], "color_scheme": scheme}
    page = start_labelling(open_page, address, **options)
    for key in ("1", "#none", "#skip", "#choices li:nth-child(2) button", "n"):
        press(page, key)
    assert serious(page) == []
    for number in range(2):
        page.click("#show-history")
        page.select_option("#filter-answer", "none of these")
        page.wait_for_function(
            "n => document.querySelectorAll('#entries .what').length === n", arg=2 - number
        )
        if number == 0:
            assert serious(page) == []
        page.click("#entries button >> nth=0")
        page.wait_for_selector("#changing:visible")
        assert "Labelled none of these by Ada" in page.inner_text("#changing")
        page.keyboard.press("3")
        wait_until_saved(page)
    expected = ["@emerging", "@none", "@skip", KNOWN[0], "@none", KNOWN[1], KNOWN[1]]
    assert choices_of(root) == expected
    assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size]["width"]


def test_the_last_mention_is_followed_by_what_to_do(open_page, serve_app, tmp_path):
    """After the last answer the page says that nothing is left to label."""
    make_workspace(tmp_path, n_documents=2)
    page = start_labelling(open_page, serve_app(make_app(tmp_path)))
    press(page, "1")
    assert not page.is_visible("#finished")
    page.keyboard.press("n")
    page.wait_for_selector("#finished:not([hidden])")
    assert "nothing is left to label" in page.inner_text("#enough-text")


def test_typing_is_not_labelling(address, open_page, root):
    """Keys in the name and in the search stay there; Enter takes the first entity found."""
    page = open_page(f"{address}/label?workspace=rey")
    page.wait_for_selector("#who:visible")
    page.keyboard.type("Ann 1n2s <b>")
    page.keyboard.press("Enter")
    page.wait_for_selector("#choices button")
    page.keyboard.press("Control+1")
    page.keyboard.press("0")
    assert choices_of(root) == []
    page.keyboard.press("e")
    page.keyboard.type("teh")
    page.wait_for_selector("#found button")
    assert serious(page) == []
    press(page, "Enter")
    assert choices_of(root) == ["Tehran"]
    # The name is remembered here, and the address names nobody.
    page.reload()
    page.wait_for_selector("#choices button")
    assert page.text_content("#as-name") == "Ann 1n2s <b>"
    colleague = open_page(page.url)
    colleague.wait_for_selector("#who:visible")
    page.click("#change")
    assert page.is_visible("#who-form")


@pytest.mark.parametrize(
    ("key", "code", "choice"),
    [
        ("т", "KeyN", "@none"),
        ("&", "Digit1", "@emerging"),
        ("à", "Digit0", None),
        ("b", "KeyN", None),
    ],
)
def test_other_keyboards_label_too(address, open_page, root, key, code, choice):
    """Cyrillic letters and French digits count by their place; another Latin letter does not."""
    page = start_labelling(open_page, address)
    page.evaluate(
        "([key, code]) => document.body.dispatchEvent("
        "new KeyboardEvent('keydown', {key, code, bubbles: true}))",
        [key, code],
    )
    wait_until_saved(page)
    assert choices_of(root) == ([] if choice is None else [choice])


def test_keys_pressed_while_saving_answer_nothing(address, open_page, root):
    """A key counts for the mention in sight; none is until the last answer is saved."""
    page = start_labelling(open_page, address)
    page.route("**/labels", lambda route: (page.wait_for_timeout(150), route.continue_()))
    page.keyboard.press("1")
    page.keyboard.press("n")
    assert page.evaluate("document.body.dataset.unsaved") != "0"
    wait_until_saved(page)
    assert choices_of(root) == ["@emerging"]


def test_a_duplicated_tab_goes_on(address, open_page):
    """What the first tab labelled is refused in the second, which then shows others."""
    pages = [open_page(f"{address}/label?workspace=rey&who=Ada") for _ in range(2)]
    for page in pages:
        page.wait_for_selector("#choices button")
    for page, n in zip(pages, (8, 6), strict=True):
        for _ in range(n):
            page.keyboard.press("1")
            wait_until_saved(page)
            page.wait_for_function("() => !document.getElementById('question').hidden")
    assert not pages[1].is_visible("#finished")
    open_page.complaints.clear()  # the browser tells the status 409


def test_a_crash_loses_no_label(root, open_page):
    """After kill -9 and a restart, every label that the page showed is there, and it goes on."""
    for keys in ("12n", "1"):
        server = ServerProcess(root)
        try:
            page = start_labelling(open_page, server.address)
            wait_for_text(page, "count", f"{len(choices_of(root))} of 20")
            for key in keys:
                press(page, key)
        finally:
            server.kill()
        page.keyboard.press("1")
        wait_for_text(page, "failure", "reached")
        page.close()
        open_page.complaints.clear()  # the browser tells that the connection was refused
    assert choices_of(root) == ["@emerging", KNOWN[0], "@none", "@emerging"]


def test_a_change_that_could_not_be_sent_can_be_made_again(address, open_page, root):
    """The mention stays in front as one that has a label, and the second try is taken."""
    page = start_labelling(open_page, address)
    page.keyboard.press("1")
    wait_until_saved(page)
    page.keyboard.press("h")
    page.click("#entries button")
    page.wait_for_selector("#changing:visible")
    page.route("**/labels", lambda route: route.abort())
    page.keyboard.press("n")
    wait_for_text(page, "failure", "reached")
    page.unroute("**/labels")
    assert page.is_visible("#changing")
    page.keyboard.press("n")
    wait_for_text(page, "after", "was changed")
    open_page.complaints.clear()  # the browser tells that a call failed
    assert choices_of(root) == ["@emerging", "@none"]


def test_learning_is_followed_on_both_pages(address, open_page, monkeypatch):
    """Its share grows without a reload, also when the service was away for a while."""
    steps = [threading.Event() for _ in range(2)]

    def learn(*parts, on_progress):
        for share, step in zip((0.25, 0.75), steps, strict=True):
            on_progress(share, f"slot at {share}")
            step.wait(20)
        return SimpleNamespace(verdict=SimpleNamespace(sentence="It may go."))

    monkeypatch.setattr("stamo.service.routes.learn_pack", learn)
    monkeypatch.setattr("stamo.service.routes.write_report", lambda *parts: None)
    page = start_labelling(open_page, address)
    page.evaluate("""() => {
      for (const id of ["enough", "learn"]) document.getElementById(id).hidden = false;
    }""")
    page.click("#learn")
    wait_for_text(page, "enough-text", "slot at 0.25")
    overview = open_page(address)
    overview.wait_for_selector("#jobs >> text=25 %")
    page.route("**/api/jobs/*", lambda route: route.abort())
    wait_for_text(page, "failure", "reached")
    steps[0].set()
    overview.wait_for_selector("#jobs >> text=75 %")
    page.unroute("**/api/jobs/*")
    steps[1].set()
    wait_for_text(page, "enough-text", "It may go.")
    overview.wait_for_selector("#jobs >> text=It may go.")
    assert page.text_content("#failure") == ""
    assert page.is_enabled("#learn")
    open_page.complaints.clear()  # the browser tells that calls failed


@pytest.mark.parametrize("size", SIZES)
def test_ten_choices_are_in_sight_and_more_in_reach(tmp_path, open_page, serve_app, size):
    """Ten have keys and are seen below all notes; the others come by a key of their own."""
    documents = [make_document(i, f"Then Rey, the Tenth, came {i} times.") for i in range(3)]
    mentions = [
        (Mention("Tenth", d.text.index("Tenth"), d.text.index("Tenth") + 5),) for d in documents
    ]
    documents = [
        Document(d.id, d.text, m, d.title) for d, m in zip(documents, mentions, strict=True)
    ]
    make_workspace(tmp_path, documents=documents, entity=EmergingEntity("Tenth (king)", ("Tenth",)))
    address = serve_app(make_app(tmp_path))
    page = start_labelling(open_page, address, viewport=SIZES[size])
    assert page.locator("#choices li").count() == 10
    page.evaluate(SHOW_ALL_NOTES)
    assert page.evaluate(UNSEEN) == []
    page.keyboard.press("m")
    assert page.locator("#choices li").count() == 14
    last = page.locator("#choices button >> nth=13")
    title = last.locator(".title").text_content()
    last.click()
    wait_until_saved(page)
    assert choices_of(tmp_path) == [title]


def test_the_whole_document_can_be_opened(tmp_path, open_page, serve_app):
    """A megabyte opens where the mention is, with its source; a report leads to its mention."""
    text = "😀 " + "Sand and wind. " * 30_000 + "Then Rey came. " + "Wind and sand. " * 30_000
    start = text.index("Rey")
    mention = Mention("Rey", start, start + 3)
    document = Document("https://example.org/a", text, (mention,), "A walk")
    make_workspace(tmp_path, documents=[document, make_document(1)])
    where = "?workspace=rey&amp;document=https%3A%2F%2Fexample.org%2Fa&amp;mention=0"
    example = f'<li>56% <a data-place="{where}">A walk</a> → Rey Skywalker</li>'
    (tmp_path / "rey" / REPORT).write_text(f"<!doctype html><title>Report</title>{example}")
    page = open_page(f"{serve_app(make_app(tmp_path))}/api/workspaces/rey/report")
    page.click("text=A walk")
    page.fill("#who", "Ada")
    page.keyboard.press("Enter")
    page.wait_for_selector("#changing:visible")
    page.click("#open")
    page.wait_for_selector("#whole[open]")
    assert page.get_attribute("#whole-link a", "href") == "https://example.org/a"
    seen = "element => { const { top, bottom } = element.getBoundingClientRect(); "
    seen += "return top >= 0 && bottom <= innerHeight; }"
    assert page.locator("#whole-text mark").evaluate(seen)
    assert page.text_content("#whole-text mark") == "Rey"
    assert page.text_content("#whole-text") == text
    page.click("#whole >> text=Close")
    page.keyboard.press("1")
    wait_until_saved(page)
    assert choices_of(tmp_path) == ["@emerging"]


def test_one_label_speaks_for_its_document(tmp_path, open_page, serve_app):
    """The page says so; where labels differ, it says that each mention is asked."""
    mentions = tuple(Mention("Rey", i, i + 3) for i in (0, 10, 20))
    document = Document("x", "Rey came. Rey went. Rey slept.", mentions)
    make_workspace(tmp_path, documents=[make_document(1), document])
    address = serve_app(make_app(tmp_path))
    page = start_labelling(open_page, address)
    for mention, key in ((0, "1"), (2, "n")):
        page.goto(f"{address}/label?workspace=rey&document=x&mention={mention}")
        page.wait_for_selector("#changing:visible")
        assert "stands here 3 times; your answer speaks for all" in page.inner_text("#same")
        page.keyboard.press(key)
        wait_until_saved(page)
    page.goto(f"{address}/label?workspace=rey")
    page.wait_for_selector("#choices button")
    assert "its labels differ: each is asked by itself" in page.inner_text("#same")


def test_a_script_from_right_to_left_runs_so(tmp_path, open_page, serve_app):
    """The text of a document in Arabic starts at the right, on every page."""
    start = ARABIC.index("Rey")
    document = Document("a", ARABIC, (Mention("Rey", start, start + 3),), "مقال")
    make_workspace(tmp_path, documents=[document])
    address = serve_app(make_app(tmp_path))
    page = start_labelling(open_page, address)
    assert page.evaluate(START_OF_TEXT, "#text") > 0.5
    page.click("#open")
    page.wait_for_selector("#whole[open]")
    assert page.evaluate(START_OF_TEXT, "#whole-text") > 0.5
    page.goto(f"{address}/try")
    page.fill("#input", ARABIC)
    page.click("#run")
    page.wait_for_selector(".mention")
    assert page.evaluate(START_OF_TEXT, "#linked") > 0.5


def test_hostile_documents_stay_text(tmp_path, open_page, serve_app):
    """Markup and scripts in documents, titles, names and pasted texts never run."""
    text = f"{HOSTILE} Rey 😀 {HOSTILE}"
    start = text.index("Rey")
    document = Document("<b>id</b>", text, (Mention("Rey", start, start + 3),), f"T {HOSTILE}")
    make_workspace(tmp_path, documents=[document])
    address = serve_app(make_app(tmp_path))
    page = open_page(f"{address}/label?workspace=rey")
    page.fill("#who", HOSTILE[:40])
    page.keyboard.press("Enter")
    page.wait_for_selector("#choices button")
    assert page.text_content("#text") == text
    assert page.locator("#question script, #question img, #question svg").count() == 0
    assert page.evaluate("window.hacked") is None
    page.goto(f"{address}/try")
    page.fill("#input", text)
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".mention")
    assert page.text_content("#linked") == text
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


def test_a_foreign_page_cannot_change_anything(address, open_page, serve_app, root, tmp_path):
    """A page of another origin can neither label nor add a pack."""
    page = open_page(f"{serve_app(make_app(tmp_path / 'elsewhere'))}/try")
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


def test_a_mention_tells_why(root, open_page, serve_app):
    """A click shows entity, confidence, scores, and what in a pack spoke for and against."""
    page = open_page(f"{serve_app(make_app(root, linker=WordLinker()))}/try")
    page.fill("#input", "They saw Paris, Rey and Nobody.")
    page.click("#run")
    page.click(".mention >> nth=1")
    detail = page.inner_text("#detail")
    for words in ("Paris", "50 % sure", "Why rather than Paris (film)", "coherence"):
        assert words in detail
    page.click(".mention >> nth=2")
    detail = page.inner_text("#detail")
    assert "For and against Rey Skywalker" in detail
    assert detail.index("“desert” · words") < detail.index("sentence")
    assert "Without the pack: Lana Del Rey." in detail
    label = "element => getComputedStyle(element, '::after').content"
    assert page.locator(".mention >> text=Rey").evaluate(label) == '"Rey Skywalker"'
    page.click(".mention >> nth=3")
    assert "Not linked" in page.inner_text("#detail")
    assert page.text_content("#summary").startswith("3 of 4 mentions linked")


def test_slow_and_failed_calls_are_shown(root, open_page, serve_app):
    """A line runs along the top while an answer is long in coming; a failure is a sentence."""
    page = open_page(f"{serve_app(make_app(root, linker=WordLinker()))}/try")
    waiting = []
    page.route("**/api/link", lambda route: waiting.append(route), times=1)
    page.fill("#input", "explode")
    page.click("#run")
    page.wait_for_selector("body[aria-busy=true]")
    assert page.evaluate("getComputedStyle(document.body, '::before').height") == "3px"
    waiting[0].continue_()
    page.wait_for_selector("body[aria-busy=false]")
    wait_for_text(page, "failure", "failed")
    open_page.complaints.clear()  # the browser tells the status 500
    page.fill("#input", "Paris")
    page.click("#run")
    page.wait_for_selector(".mention")
    assert page.text_content("#failure") == ""


def test_the_page_asks_for_the_token(root, open_page, serve_app):
    """Where a token is needed, the page asks once and goes on with what was begun."""
    security = SecuritySettings("0.0.0.0", "correct-horse-battery")
    address = serve_app(make_app(root, security=security))
    page = open_page(f"{address}/label?workspace=rey&who=Ada")
    page.fill("dialog input", "wrong")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('dialog input')?.value === ''")
    page.fill("dialog input", "correct-horse-battery")
    page.keyboard.press("Enter")
    page.wait_for_selector("#choices button")
    press(page, "1")
    open_page.complaints.clear()  # the browser tells the status 401
    assert choices_of(root) == ["@emerging"]


def test_the_overview_adds_packs(root, open_page, serve_app, tmp_path):
    """Below thirty workspaces, a pack is added, and the sentence about a bad one is seen."""
    for i in range(30):
        make_workspace(root, f"rey-{i}", n_documents=1)
    (tmp_path / "new.pack").write_bytes(make_pack().to_bytes())
    (tmp_path / "bad.pack").write_bytes(b"no pack")
    page = open_page(serve_app(make_app(root)))
    page.wait_for_selector("#workspaces >> text=Next: Label 20 more")
    page.set_input_files("#file", tmp_path / "new.pack")
    page.wait_for_selector("#packs >> text=Rey Skywalker")
    page.locator("#file").scroll_into_view_if_needed()
    page.set_input_files("#file", tmp_path / "bad.pack")
    wait_for_text(page, "failure", "no usable entity pack")
    top = page.evaluate("() => document.getElementById('failure').getBoundingClientRect().top")
    assert 0 <= top < 700
    open_page.complaints.clear()  # the browser tells the status 422


@pytest.mark.parametrize("path", ["/", "/try", "/docs", "/found", "/no/such/page"])
def test_pages_fit_a_phone_and_keep_nobody_out(address, open_page, path):
    """Nothing is wider than a narrow screen; axe-core finds nothing serious in the dark."""
    page = open_page(address + path, color_scheme="dark", viewport={"width": 360, "height": 640})
    if path == "/try":
        page.fill("#input", "They saw Tehran and Rey.")
        page.click("#run")
        page.click(".mention >> nth=1")
    if path == "/docs":
        page.wait_for_selector(".opblock-summary-method")
    page.wait_for_load_state("networkidle")
    assert serious(page) == []
    assert path == "/docs" or page.evaluate("document.documentElement.scrollWidth") <= 360
    if "such" in path:
        open_page.complaints.clear()  # the browser itself tells of a page that is not there
