import numpy as np
import pytest

from stamo.corpus.types import EmergingEntity
from stamo.errors import UnknownEntityError, WorkspaceError
from stamo.packs.pack import EntityPack
from stamo.workspace.folder import Workspace, open_artifacts, verify_unchanged
from stamo.workspace.versions import compare_with_kb
from tests.workspace.small_world import NOON, copy_labelled


def known_pack(kb, title):
    """Return a pack that holds exactly what the knowledge base says of an entity."""
    entity = kb.entity_id(title)
    alias = kb.aliases_of(entity)[0][0]
    found = kb.candidates(alias)
    ids, scores = kb.related(entity, 30)
    order = np.argsort(ids)
    return EntityPack.project(
        EmergingEntity(title, (alias, "never heard of it")),
        kb,
        priors=[float(found.priors[list(found.ids).index(entity)]), 0.5],
        neighbours=ids[order],
        relatedness=scores[order],
        vector=np.asarray(kb.entity_vectors()[np.array([entity])])[0],
        model_fingerprint="0" * 64,
    )


def test_graduation_compares_prior_vector_and_neighbours(kb):
    """A pack that holds what the later knowledge base counted agrees with it in everything."""
    title = kb.title(int(np.argmax(kb.entity_counts)))
    compared = compare_with_kb(known_pack(kb, title), kb, n_related=10)
    assert compared.title == title
    assert compared.priors[0].learned == pytest.approx(compared.priors[0].later)
    assert compared.priors[1].later is None
    assert compared.cosine == pytest.approx(1.0, abs=1e-4)
    assert len(compared.shared) == compared.n_related > 0


def test_graduation_turns_one_space_onto_another(kb):
    """Given the former knowledge base, vectors are compared through the words both know."""
    title = kb.title(int(np.argmax(kb.entity_counts)))
    compared = compare_with_kb(known_pack(kb, title), kb, former=kb)
    assert compared.cosine == pytest.approx(1.0, abs=1e-3)


def test_graduation_needs_the_entity(kb):
    """A knowledge base without the entity cannot say anything."""
    pack = known_pack(kb, kb.title(int(np.argmax(kb.entity_counts))))
    with pytest.raises(UnknownEntityError):
        compare_with_kb(pack, kb, title="No such title")


def test_many_workspaces_are_verified_by_one_reading(small, tmp_path, monkeypatch):
    """The knowledge base may be large: its files are hashed once for a folder of workspaces."""
    spaces = [copy_labelled(small, tmp_path / name) for name in ("rey", "rey-too", "rey-three")]
    artifacts = open_artifacts(spaces)
    read = []
    monkeypatch.setattr(type(artifacts.kb), "verify", lambda kb: read.append(kb.path))
    assert verify_unchanged(spaces, artifacts) == verify_unchanged(spaces[:1], artifacts)
    assert read == [artifacts.kb.path] * 2


def test_artifacts_are_those_of_collecting(small, kb, trained, tmp_path):
    """A workspace finds its knowledge base and model again and proves them unchanged."""
    space = copy_labelled(small, tmp_path / "rey")
    artifacts = open_artifacts([space])
    found = verify_unchanged([space], artifacts)
    assert found == {"kb": kb.fingerprint, "model": trained.fingerprint}
    empty = Workspace.create(tmp_path / "empty", small.entity, created_by="ada", at=NOON)
    with pytest.raises(WorkspaceError, match="--kb"):
        open_artifacts([empty])
