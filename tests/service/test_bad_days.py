"""What a person meets on a bad day: a service that stops, a second tab, other scripts and keys."""

import threading

import pytest

from stamo.corpus.types import Document, Mention
from stamo.service.app import create_app
from stamo.workspace.folder import Workspace
from tests.service.support import (
    make_document,
    make_parts,
    make_workspace,
)

ARABIC = "اكتشف تلسكوب Rey كواكب كثيرة حول نجوم بعيدة."


@pytest.fixture
def address(root, serve_app):
    """A service on the small folder."""
    return serve_app(create_app(make_parts(root)))


def open_labelling(open_page, address, more=""):
    page = open_page(f"{address}/label?workspace=rey&who=Ada{more}")
    page.wait_for_selector("#choices button")
    return page


def choices_of(root):
    with Workspace.open(root / "rey").read_labels() as store:
        return [event.choice for event in store.events()]


def wait_until_saved(page):
    page.wait_for_function("() => document.body.dataset.unsaved === '0'")


def wait_for_failure(page, words):
    page.wait_for_function(
        "words => document.getElementById('failure').textContent.includes(words)", arg=words
    )


def test_a_change_that_could_not_be_sent_can_be_made_again(address, open_page, root):
    """The mention stays in front as one that has a label, and the second try is taken."""
    page = open_labelling(open_page, address)
    page.keyboard.press("1")
    wait_until_saved(page)
    page.keyboard.press("h")
    page.click("#entries button")
    page.wait_for_selector("#changing:visible")
    page.route("**/labels", lambda route: route.abort())
    page.keyboard.press("n")
    wait_for_failure(page, "reached")
    page.unroute("**/labels")
    assert page.is_visible("#changing")
    page.keyboard.press("n")
    page.wait_for_function(
        "() => document.getElementById('after').textContent.includes('was changed')"
    )
    open_page.complaints.clear()  # the browser tells that a call failed
    assert choices_of(root) == ["@emerging", "@none"]


def test_a_duplicated_tab_goes_on(address, open_page):
    """What the first tab labelled is refused in the second, which then shows others."""
    same = "sessionStorage.setItem('stamo-client', 'one tab')"
    pages = [open_page(f"{address}/label?workspace=rey&who=Ada") for _ in range(2)]
    for page in pages:
        page.add_init_script(same)
        page.reload()
        page.wait_for_selector("#choices button")
    first, second = pages
    for _ in range(8):
        first.keyboard.press("1")
        wait_until_saved(first)
    for _ in range(6):
        second.keyboard.press("1")
        wait_until_saved(second)
        second.wait_for_function("() => !document.getElementById('question').hidden")
    assert not second.is_visible("#finished")
    open_page.complaints.clear()  # the browser tells the status 409


def test_learning_is_followed_through_a_restart(root, open_page, serve_app):
    """While the service is away the page says so; then it shows the end of the job."""
    go_on = threading.Event()

    def work(name, on_progress):
        on_progress(0.5, "slot 1")
        go_on.wait(20)
        return "learned it"

    page = open_labelling(open_page, serve_app(create_app(make_parts(root, work))))
    page.evaluate("() => { document.getElementById('enough').hidden = false; }")
    page.click("#learn")
    page.wait_for_function(
        "() => document.getElementById('enough-text').textContent.includes('slot 1')"
    )
    page.route("**/api/jobs/*", lambda route: route.abort())
    wait_for_failure(page, "reached")
    page.unroute("**/api/jobs/*")
    go_on.set()
    page.wait_for_function(
        "() => document.getElementById('enough-text').textContent.includes('learned it')"
    )
    assert page.text_content("#failure") == ""
    assert page.is_enabled("#learn")
    open_page.complaints.clear()  # the browser tells that calls failed


def test_the_overview_follows_jobs(root, open_page, serve_app):
    """The share of a running job grows without a reload, and its end is shown."""
    steps = [threading.Event() for _ in range(2)]

    def work(name, on_progress):
        on_progress(0.25, "slot 1")
        steps[0].wait(20)
        on_progress(0.75, "slot 2")
        steps[1].wait(20)
        return "learned it"

    address = serve_app(create_app(make_parts(root, work)))
    page = open_page(address)
    page.evaluate(
        "() => fetch('/api/workspaces/rey/learn', {method: 'POST', headers: {'X-Stamo': '1'}})"
    )
    page.reload()
    page.wait_for_selector("#jobs >> text=25 %")
    steps[0].set()
    page.wait_for_selector("#jobs >> text=75 %")
    steps[1].set()
    page.wait_for_selector("#jobs >> text=learned it")


def test_a_failure_comes_into_sight(root, open_page, serve_app, tmp_path):
    """Below thirty workspaces, the sentence about a bad pack is still seen."""
    for i in range(30):
        make_workspace(root, f"rey-{i}", n_documents=1)
    (tmp_path / "bad.stamo").write_bytes(b"no pack")
    page = open_page(serve_app(create_app(make_parts(root))))
    page.wait_for_selector("#packs >> text=No pack yet.")
    page.locator("#file").scroll_into_view_if_needed()
    page.set_input_files("#file", tmp_path / "bad.stamo")
    wait_for_failure(page, "no usable entity pack")
    top = page.evaluate("() => document.getElementById('failure').getBoundingClientRect().top")
    assert 0 <= top < 700
    open_page.complaints.clear()  # the browser tells the status 422


def test_the_address_names_nobody(address, open_page):
    """Who gets a copy of the address is asked for their own name; a reload keeps the first."""
    page = open_labelling(open_page, address)
    assert page.url == f"{address}/label?workspace=rey"
    page.reload()
    page.wait_for_selector("#choices button")
    assert page.text_content("#as-name") == "Ada"
    colleague = open_page(page.url)
    colleague.wait_for_selector("#who:visible")


def test_a_script_from_right_to_left_runs_so(tmp_path, open_page, serve_app):
    """The text of a document in Arabic starts at the right, on every page."""
    start = ARABIC.index("Rey")
    document = Document("a", ARABIC, (Mention("Rey", start, start + 3),), "مقال")
    make_workspace(tmp_path, documents=[document])
    address = serve_app(create_app(make_parts(tmp_path)))
    page = open_labelling(open_page, address)
    assert page.evaluate(START_OF_TEXT, "#text") > 0.5
    page.click("#open")
    page.wait_for_selector("#whole[open]")
    assert page.evaluate(START_OF_TEXT, "#whole-text") > 0.5
    page = open_page(f"{address}/try")
    page.fill("#input", ARABIC)
    page.click("#run")
    page.wait_for_selector(".mention")
    assert page.evaluate(START_OF_TEXT, "#linked") > 0.5


START_OF_TEXT = """(selector) => {
  const box = document.querySelector(selector);
  const range = document.createRange();
  range.setStart(box.firstChild, 0);
  range.setEnd(box.firstChild, 1);
  const { left, width } = box.getBoundingClientRect();
  return (range.getBoundingClientRect().left - left) / width;
}"""


def test_the_mention_is_shown_in_a_long_document(tmp_path, open_page, serve_app):
    """The whole text of a megabyte opens where the mention is; it can be closed from there."""
    text = "😀 " + "Sand and wind. " * 30_000 + "Then Rey came. " + "Wind and sand. " * 30_000
    make_workspace(tmp_path, documents=[make_document(1, text)])
    page = open_labelling(open_page, serve_app(create_app(make_parts(tmp_path))))
    page.click("#open")
    page.wait_for_selector("#whole[open]")
    assert page.text_content("#whole-text mark") == "Rey"
    seen = "element => { const { top, bottom } = element.getBoundingClientRect(); "
    seen += "return top >= 0 && bottom <= innerHeight; }"
    assert page.locator("#whole-text mark").evaluate(seen)
    page.click("#whole >> text=Close")
    assert not page.is_visible("#whole")
    assert page.text_content("#whole-text") == text


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
    page = open_labelling(open_page, address)
    page.evaluate(
        "([key, code]) => document.body.dispatchEvent("
        "new KeyboardEvent('keydown', {key, code, bubbles: true}))",
        [key, code],
    )
    wait_until_saved(page)
    assert choices_of(root) == ([] if choice is None else [choice])
