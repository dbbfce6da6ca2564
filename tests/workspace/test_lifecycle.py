import numpy as np
import pytest

from stamo.corpus.types import EmergingEntity
from stamo.errors import UnknownEntityError, WorkspaceError
from stamo.packs.pack import EntityPack
from stamo.workspace.collect import collect
from stamo.workspace.folder import Workspace, open_artifacts, verify_unchanged
from stamo.workspace.gold import label_by_gold
from stamo.workspace.learn import LearnSettings, learn_pack
from stamo.workspace.versions import compare_with_kb, merge_workspaces
from tests.workspace.small_world import NOON, copy_labelled


@pytest.fixture
def halves(small, kb, trained, tmp_path):
    """Two folders of one entity: the even and the odd lines of the pile, five labels each."""
    lines = small.world.paths.pile_path.read_text().splitlines(keepends=True)
    spaces = []
    for i in range(2):
        source = tmp_path / f"part{i}.jsonl"
        # Ten documents are in both.
        source.write_text("".join([*lines[i::2], *lines[1 - i : 20 : 2]]))
        space = Workspace.create(tmp_path / f"rey{i}", small.entity, created_by="ada", at=NOON)
        collect(space, [source], kb, trained, origin=small.origin)
        corpus = space.documents.read()
        keys = [
            (d.id, next(j for j, m in enumerate(d.mentions) if m.entity is None))
            for d in list(corpus)[:5]
        ]
        label_by_gold(space, corpus, small.gold, keys, at=NOON)
        spaces.append(space)
    return spaces


def test_merging_joins_documents_and_labels(small, kb, trained, halves, tmp_path):
    """Every document is there once, every label holds, and the joined folder can learn."""
    merged = merge_workspaces(tmp_path / "both", halves, at=NOON)
    ids = [d.id for d in merged.workspace.documents]
    expected = {d.id for space in halves for d in space.documents}
    assert len(ids) == len(set(ids)) == merged.n_documents
    assert set(ids) == expected
    assert merged.n_copies > 0
    status = merged.workspace.status()
    assert status.labels.n_labelled == len(
        {(e.target.document, e.target.start) for space in halves for e in _events(space)}
    )
    assert status.is_collected
    outcome = learn_pack(merged.workspace, kb, trained, LearnSettings(n_folds=0))
    assert outcome.n_stale == 0


def _events(space):
    with space.open_labels() as store:
        return store.current()


def test_merging_leaves_the_folders_alone(halves, tmp_path):
    """The old folders have the same files with the same bytes."""

    def content(space):
        files = sorted(p for p in space.path.rglob("*") if p.is_file() and ".sqlite" not in p.name)
        return {p: p.read_bytes() for p in files}

    before = [content(space) for space in halves]
    merge_workspaces(tmp_path / "both", halves, at=NOON)
    assert [content(space) for space in halves] == before


def test_only_folders_of_one_entity_merge(small, halves, tmp_path):
    """Another entity, an unfinished collecting or other artifacts are refused."""
    other = Workspace.create(
        tmp_path / "other", EmergingEntity("Other", ("Other",)), created_by="ada", at=NOON
    )
    with pytest.raises(WorkspaceError, match="one entity"):
        merge_workspaces(tmp_path / "x", [halves[0], other], at=NOON)
    fresh = Workspace.create(tmp_path / "fresh", small.entity, created_by="ada", at=NOON)
    with pytest.raises(WorkspaceError, match="has not ended"):
        merge_workspaces(tmp_path / "x", [halves[0], fresh], at=NOON)
    fresh.documents.append([], state={"kb_fingerprint": "other"}, complete=True)
    with pytest.raises(WorkspaceError, match="different knowledge bases"):
        merge_workspaces(tmp_path / "x", [halves[0], fresh], at=NOON)
    assert not (tmp_path / "x").exists()


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
