"""A whole session in a real browser, on the embedded world, by the keyboard alone."""

import json
import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from typer.testing import CliRunner

from stamo.cli.main import create_app as create_commands
from stamo.models.store import open_encoder
from stamo.service.app import create_app
from stamo.workspace.folder import Workspace
from stamo.workspace.queue import LabelQueue
from tests.workspace.small_world import make_small_world

pytestmark = pytest.mark.browser


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """The embedded world with its knowledge base and model."""
    return make_small_world(tmp_path_factory)


class Session:
    """A person at the labelling page of a workspace, who answers as the world does."""

    def __init__(self, small, space, open_page, address, who, **options) -> None:
        self.space, self.gold = space, small.gold
        self.corpus = {document.id: document for document in space.documents}
        parts = (space.entity, space.documents.read(), small.kb, small.trained)
        self.queue = LabelQueue(*parts, open_encoder(small.trained, small.kb))
        self.page = open_page(f"{address}/label?workspace={space.path.name}&who={who}", **options)
        self.page.wait_for_selector("#choices button")

    @property
    def shown(self):
        """The mention that is asked, by document and index."""
        data = self.page.evaluate("({...document.getElementById('question').dataset})")
        return data["document"], int(data["mention"])

    def first_choice(self, ask=""):
        """What the advisor would ask at this moment."""
        return self.queue.order(self.space.current_labels(), ask)[0]

    def wait(self):
        """Wait until the page has the next question."""
        self.page.wait_for_function("() => document.body.dataset.unsaved === '0'")

    def press(self, key):
        """Press a key; what it leads to is there afterwards."""
        self.page.keyboard.press(key)
        self.wait()

    def answer(self):
        """Give the world's own answer by its key, or by a search."""
        document, index = self.shown
        mention = self.corpus[document].mentions[index]
        places = self.gold[document].items()
        inside = [e for (s, t), e in places if s <= mention.start and mention.end <= t]
        titles = self.page.locator("#choices .title").all_text_contents()
        wanted = self.gold[document].get((mention.start, mention.end), inside[0])
        self.press("1234567890"[titles.index(wanted)] if wanted in titles else "n")

    def tab_to(self, element):
        """Go on with the Tab key until an element has the focus."""
        for _ in range(60):
            if self.page.evaluate("document.activeElement.id") == element:
                return
            self.page.keyboard.press("Tab")
        raise AssertionError(element)


def collect(small, path):
    """Make a workspace by commands, as a person would in a terminal."""
    alias = small.entity.aliases[0]
    pile = ["--from", small.world.paths.pile_path]
    parts = ["--kb", small.kb_path, "--model", small.model_path]
    for line in (
        ["new", path, small.entity.id, "--alias", alias],
        ["collect", path, *parts, *pile],
    ):
        done = CliRunner().invoke(create_commands(["workspaces"]), [str(word) for word in line])
        assert done.exit_code == 0, done.output
    return Workspace.open(path)


@pytest.mark.parametrize(
    ("width", "scheme"), [(1280, "light"), (360, "dark")], ids=["desk", "phone"]
)
def test_a_whole_session(small, open_page, serve_app, tmp_path, width, scheme):
    """After every answer the advisor's first choice is shown; then a pack, its report, a sentence.

    Twenty labels, two closed tabs, an undo, a search, probable mentions, by keys alone; axe finds
    nothing, and nothing is wider than the screen.
    """
    space = collect(small, tmp_path / "new")
    app = create_app(small.kb, small.trained, tmp_path / "packs", tmp_path)
    address, options = serve_app(app), {"viewport": {"width": width, "height": 740}}

    def come():
        return Session(small, space, open_page, address, "Ada", color_scheme=scheme, **options)

    def check():
        assert Axe().run(session.page).response["violations"] == []
        assert session.page.evaluate("document.documentElement.scrollWidth") <= width

    session = come()
    check()
    for n in range(20):
        if n in (7, 13):  # close the tab and come back
            session.page.goto("about:blank")
            session.page.close()
            session = come()
        assert session.shown == session.first_choice(), n
        session.answer()
    answered = session.shown
    assert answered == session.first_choice()
    # Take an answer back: its mention is asked again, and found by search.
    session.press("n")
    session.press("u")
    assert session.shown == answered
    title = small.kb.title(0)
    session.page.keyboard.press("e")
    session.page.keyboard.type(title)
    session.page.wait_for_selector("#found button")
    session.press("Enter")
    assert space.current_labels()[-1].choice == title
    for key, ask in (("p", "probable"), ("d", "doubtful"), ("a", "")):
        session.press(key)
        assert session.shown == session.first_choice(ask)
        session.answer()
        assert session.shown == session.first_choice(ask)
    check()
    # Somebody else gets another question; what was left by Ada is free again.
    bob = Session(small, space, open_page, address, "Bob", **options)
    assert bob.shown != session.shown
    kept = session.shown
    session.page.goto(address)
    bob.press("a")
    assert bob.shown == kept
    session = come()
    session.tab_to("learn")
    session.page.keyboard.press("Enter")
    session.page.wait_for_selector("#learned >> text=Report")
    session.page.wait_for_selector("#attempt:visible")
    check()
    said = session.page.text_content("#enough-text")
    assert space.status().verdict.sentence in said
    name = space.entity.aliases[0]
    text = next(d.text for d in space.documents if name in d.text)[:400]
    session.page.keyboard.press("t")
    session.page.keyboard.type(text)
    session.page.keyboard.press("Control+Enter")
    session.page.wait_for_selector("#linked .mention")
    session.page.locator(f"#linked .mention >> text={name}").first.focus()
    session.page.keyboard.press("Enter")
    assert "For and against" in session.page.inner_text("#detail")
    check()
    session.page.goto(f"{address}/api/workspaces/new/report")
    session.page.locator("#text").fill(text[:200])
    assert session.page.evaluate("document.documentElement.scrollWidth") <= width
    session.page.keyboard.press("Enter")
    session.page.wait_for_url("**/try?text=*")
    session.page.wait_for_selector("#linked .mention")
    session.page.locator("#intro", has_text=f"the pack of {space.entity.id}").wait_for()
    check()
    answer = session.page.request.get(f"{address}/api/workspaces/new/progress").json()
    assert json.dumps(answer["advice"])[1:-1] in json.dumps(said)
    assert re.search(r"verdict|label|Ship", said)
