"""One knowledge base, one model, one pack: every way to ask gives the same answers."""

import pytest

from stamo.errors import PackError
from stamo.linking.linker import Linker
from tests.integrations.asking import by_command, by_service, by_spacy, linked_only


@pytest.fixture(scope="module")
def answers(installed):
    """What the library says of each text, with entities as they are called."""
    texts = installed.texts[:12]
    return texts, [[(m.start, m.end, m.entity) for m in installed.linker.link(t)] for t in texts]


@pytest.fixture(scope="module")
def parts(installed):
    """The files that every way is given."""
    return installed.kb_path, installed.model_path, [installed.pack_path]


def test_the_command_line(installed, parts, answers):
    """As JSON lines and as CSV."""
    texts, expected = answers
    assert by_command(*parts, texts) == expected
    cells = by_command(*parts, texts, form="csv")
    assert cells == expected
    assert any(entity == installed.pack.entity.id for links in cells for *_, entity in links)


def test_spacy(parts, answers):
    """As spans of a pipeline, with a folder of packs."""
    kb, model, (pack,) = parts
    texts, expected = answers
    assert by_spacy(kb, model, [pack.parent], texts) == linked_only(expected)


def test_the_service_and_nif(parts, answers, tmp_path):
    """By its own route and by GERBIL's, with the pack added over HTTP."""
    texts, expected = answers
    own, _, nif = by_service(*parts, texts, tmp_path)
    assert own == expected
    assert nif == expected


def test_two_packs_of_one_entity_are_refused(installed):
    """In Python as in the command line."""
    base = installed.linker
    with pytest.raises(PackError, match="are both packs of"):
        Linker(base.kb, base.trained, [installed.pack, installed.pack])
