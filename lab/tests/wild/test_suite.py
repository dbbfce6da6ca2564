"""A suite of real new entities: the piles that collecting keeps, and what was judged of them."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from stamo.errors import ArtifactMismatchError, CorpusFormatError, SuiteError
from stamo.workspace.collect import collect
from stamo.workspace.folder import Workspace
from stamo_lab.wild.suite import (
    make_wild,
    open_wild,
    read_wild_entities,
    read_wild_labels,
)


def test_pile_is_what_collecting_keeps(wild, world, world_kb, world_model, tmp_path):
    """A workspace that collects from the whole corpus ends with the same documents."""
    problem = wild.problems[0]
    workspace = Workspace.create(
        tmp_path / "own", problem.entity, created_by="test", at=datetime.now(UTC)
    )
    collect([workspace], [world.paths.pile_path], world_kb, world_model)
    assert wild.corpus(0) == workspace.documents.read()


def test_judged_mentions_are_found_in_the_pile(wild, wild_files):
    """Each one is the mention at its place, with its label; the rest is counted."""
    labels = read_wild_labels(wild_files[1])
    counts = wild.manifest["counts"]
    assert counts["judged"] + counts["not found"] == len(labels)
    assert counts["judged"] > 0.8 * len(labels)
    expected = {(w.alias, w.document, w.offset): w.is_entity for w in labels}
    for number, problem in enumerate(wild.problems):
        documents = {document.id: document for document in wild.corpus(number)}
        for judged in problem.judged:
            mention = documents[judged.document].mentions[judged.mention]
            assert mention.surface in problem.aliases
            key = (problem.aliases[0], judged.document, mention.start)
            assert expected[key] is judged.is_entity


def test_same_files_make_the_same_bytes(wild, world, world_kb, world_model, wild_files, tmp_path):
    """Whenever and wherever it is made."""
    entities, labels = (read(path) for read, path in zip(READERS, wild_files, strict=True))
    sources = [world.paths.pile_path]
    again = make_wild(world_kb, world_model, entities, labels, sources, tmp_path / "again")
    assert again.checksum == wild.checksum


READERS = (read_wild_entities, read_wild_labels)


def test_foreign_knowledge_base_is_refused(wild, small_kb):
    """The context was linked with another one."""
    with pytest.raises(ArtifactMismatchError, match="was made with the knowledge base"):
        open_wild(wild.path, small_kb)


def test_labels_of_another_corpus_are_refused(world, world_kb, world_model, wild_files, tmp_path):
    """Nothing judged is among the documents: no suite is left behind."""
    entities, labels = (read(path) for read, path in zip(READERS, wild_files, strict=True))
    wrong = [replace(label, document="elsewhere") for label in labels]
    with pytest.raises(SuiteError, match="give the corpus that they were judged in"):
        make_wild(
            world_kb, world_model, entities[:1], wrong, [world.paths.pile_path], tmp_path / "no"
        )
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize(
    "text",
    ["alias\tdocument\toffset\tlabel\nRey\ta\t3\tyes\n", "Rey a 3 1\n", "alias\tlabel\n1\t1\n"],
)
def test_files_of_another_form_are_refused(text, tmp_path):
    """The error shows the form."""
    path = tmp_path / "labels.tsv"
    path.write_text(text)
    with pytest.raises(CorpusFormatError, match="separated by tabs"):
        read_wild_labels(path)
    with pytest.raises(CorpusFormatError, match="no file of entities"):
        read_wild_entities(path)
