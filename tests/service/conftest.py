from contextlib import ExitStack, contextmanager

import httpx
import pytest

from tests.service.support import CHANGE, make_app, make_workspace, running


@pytest.fixture
def root(tmp_path):
    """A folder with one workspace of thirty documents."""
    make_workspace(tmp_path)
    return tmp_path


@contextmanager
def served(root, headers=CHANGE, **options):
    """Run a service on a folder; yield a client of it."""
    with (
        running(make_app(root, **options)) as address,
        httpx.Client(base_url=address, headers=headers, timeout=20) as client,
    ):
        yield client


@pytest.fixture
def serve(root):
    """Return what runs a service with other options and gives a client of it."""
    return lambda **options: served(root, **options)


@pytest.fixture
def client(root):
    """A client of the usual service that sends what our pages send."""
    with served(root) as client:
        yield client


@pytest.fixture(scope="session")
def reader(tmp_path_factory):
    """A client for tests that change nothing; they share one service."""
    root = tmp_path_factory.mktemp("workspaces")
    make_workspace(root, n_documents=2)
    with served(root) as client:
        yield client


@pytest.fixture
def serve_app():
    """Return what serves an app and gives its address, until the test is over."""
    with ExitStack() as servers:
        yield lambda app: servers.enter_context(running(app))


@pytest.fixture
def address(root, serve_app):
    """Where the usual service is."""
    return serve_app(make_app(root))


@pytest.fixture
def open_page(browser, serve_app):
    """Return what opens a page of a fresh person; complaints of the page fail the test.

    Pages are closed before their server: what they ask in the background is always answered.
    """
    contexts, complaints = [], []

    def make(url, **options):
        context = browser.new_context(**options)
        context.set_default_timeout(15_000)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda line: line.type == "error" and complaints.append(line.text))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.goto(url)
        return page

    make.complaints = complaints
    yield make
    for context in contexts:
        context.close()
    assert complaints == []
