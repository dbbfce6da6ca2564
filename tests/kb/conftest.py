"""A small knowledge base that the tests of this folder share."""

import pytest

from stamo.kb.base import KnowledgeBase
from stamo.kb.build import build_knowledge_base
from stamo.kb.settings import BuildSettings
from tests.kb.dumps import write_dump


@pytest.fixture(scope="session")
def small_kb(tmp_path_factory) -> KnowledgeBase:
    """The knowledge base of `dumps.PAGES`, without vectors and without held-out articles."""
    folder = tmp_path_factory.mktemp("small")
    dump = write_dump(folder / "small.xml")
    build_knowledge_base(dump, folder / "kb", BuildSettings(held_out=0, dimensions=0))
    return KnowledgeBase.open(folder / "kb")
