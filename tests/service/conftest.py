from contextlib import contextmanager

import httpx
import pytest

from stamo.service.app import create_app
from tests.service.support import CHANGE, make_parts, make_workspace, running


@pytest.fixture
def root(tmp_path):
    """A folder with one workspace of thirty documents."""
    make_workspace(tmp_path)
    return tmp_path


@pytest.fixture
def serve(root):
    """Return what runs a service with changed parts and gives a client of it."""

    @contextmanager
    def make(work=None, headers=CHANGE, **changes):
        parts = make_parts(root, **({"work": work} if work else {}), **changes)
        with (
            running(create_app(parts)) as address,
            httpx.Client(base_url=address, headers=headers, timeout=20) as client,
        ):
            yield client

    return make


@pytest.fixture
def client(serve):
    """A client of the usual service that sends what our pages send."""
    with serve() as client:
        yield client


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """A client for tests that change nothing; they share one service."""
    root = tmp_path_factory.mktemp("workspaces")
    make_workspace(root, n_documents=2)
    with (
        running(create_app(make_parts(root))) as address,
        httpx.Client(base_url=address, headers=CHANGE, timeout=20) as client,
    ):
        yield client
