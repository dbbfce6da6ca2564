"""What a pack says is what was learned; versions of it are compared with later knowledge."""

import numpy as np
import pytest
from scipy.special import expit

from stamo.corpus.types import Corpus, Document, EmergingEntity
from stamo.errors import UnknownEntityError, WorkspaceError
from stamo.features.mentions import Lexicon, flatten
from stamo.learning.learn import entity_numbers, method_named
from stamo.learning.learn import learn as learn_in_memory
from stamo.linking.linker import Linker
from stamo.linking.packed import PARTS, score_pack
from stamo.models.correction import agree, log_odds, margins
from stamo.models.store import INSTALLED
from stamo.packs.pack import SHIFT, EntityPack
from stamo.workspace.folder import Workspace, open_artifacts, verify_unchanged
from stamo.workspace.labels import labels_fingerprint
from stamo.workspace.learn import read_material
from stamo.workspace.scored import compare_with_kb
from tests.workspace.small_world import NOON, copy_collected


def score(space, pack, kb, trained):
    corpus = space.documents.read().with_labels({})
    flat = flatten(corpus, Lexicon.of(kb), entity_numbers([pack.entity], corpus, kb))
    return score_pack(pack, flat, kb, trained)


def test_a_pack_scores_as_theta_did(learned, kb, trained):
    """Linking with the pack gives the log odds of θ̂(e*) on the documents it was learned on."""
    space, pack = learned[0], learned[1].pack
    *_, pile = read_material(space, kb, trained, INSTALLED)
    theta = method_named("default").learn(pile, trained).theta
    temperature = trained.calibration.temperature
    margin = margins(trained.model.freeze(pile), theta, temperature)
    expected = agree(log_odds(margin, pile, theta, temperature)[0], pile)[:, 0]
    np.testing.assert_allclose(score(space, pack, kb, trained).odds, expected, atol=1e-3)


def test_parts_add_up_and_confidence_leaves_the_shift_out(learned, kb, trained):
    """The five parts sum to the odds of a mention alone; the line for F1 is no confidence."""
    space, pack = learned[0], learned[1].pack
    scores = score(space, pack, kb, trained)
    assert scores.parts.shape == (len(scores.rows), len(PARTS))
    where = [d.id for d in space.documents for m in d.mentions if m.entity is None]
    alone = np.array([where.count(id) == 1 for id in where])
    np.testing.assert_allclose(scores.parts.sum(axis=1)[alone], scores.odds[alone], atol=1e-9)
    shift = float(pack.groups[SHIFT][0])
    np.testing.assert_allclose(scores.probability, expit(scores.odds - shift))


def test_labels_fingerprint_ignores_order_and_people(learned):
    """The same choices give the same fingerprint, whoever made them in whatever order."""
    space, pack = learned[0], learned[1].pack
    with space.open_labels() as store:
        events = store.current()
    assert labels_fingerprint(reversed(events)) == pack.labels_fingerprint
    assert labels_fingerprint(events[1:]) != pack.labels_fingerprint


def test_what_was_learned_in_memory_links_as_a_pack(small, learned, kb, trained):
    """`LearnedEntity.to_pack()` gives the workspace's pack, but for its notes, and it links."""
    space, written = learned[0], learned[1].pack
    corpus, *_ = read_material(space, kb, trained)
    names = small.entity.aliases
    parts: tuple[list, list] = ([], [])
    for document in corpus:
        is_labelled = any(m.surface in names and m.entity is not None for m in document.mentions)
        parts[not is_labelled].append(document)
    (entity,) = learn_in_memory(small.entity, *(Corpus(tuple(part)) for part in parts), trained, kb)
    pack = EntityPack.from_bytes(entity.to_pack(description="By hand.").to_bytes())
    assert pack.description == "By hand."
    np.testing.assert_allclose(pack.priors, written.priors, atol=1e-6)
    np.testing.assert_array_equal(pack.neighbours, written.neighbours)
    assert set(pack.groups) == set(written.groups)
    texts = [Document(d.id, d.text) for d in space.documents]
    packed = Linker(kb, trained, [pack])
    won = [
        m for d in packed.link_documents(texts) for m in d.mentions if m.entity == small.entity.id
    ]
    assert len(won) > 10


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
    pack = known_pack(kb, title)
    compared = compare_with_kb(pack, kb, n_related=10)
    assert compared.title == title
    assert compared.priors[0].learned == pytest.approx(compared.priors[0].later)
    assert compared.priors[1].later is None
    assert compared.cosine == pytest.approx(1.0, abs=1e-4)
    assert len(compared.shared) == compared.n_related > 0
    # Given the former knowledge base, vectors are compared through the words both know.
    assert compare_with_kb(pack, kb, former=kb).cosine == pytest.approx(1.0, abs=1e-3)
    with pytest.raises(UnknownEntityError):
        compare_with_kb(pack, kb, title="No such title")


def test_artifacts_are_those_of_collecting(small, kb, trained, tmp_path, monkeypatch):
    """Workspaces find knowledge base and model again and prove them unchanged by one reading."""
    spaces = [copy_collected(small, tmp_path / name) for name in ("rey", "rey-too")]
    artifacts = open_artifacts(spaces)
    expected = {"kb": kb.fingerprint, "model": trained.fingerprint}
    assert verify_unchanged(spaces[:1], artifacts) == expected
    read = []
    manifest = type(artifacts.kb.manifest)
    monkeypatch.setattr(manifest, "verify", lambda manifest, path: read.append(path))
    assert verify_unchanged(spaces, artifacts) == expected
    assert read == [artifacts.kb.path]
    empty = Workspace.create(tmp_path / "empty", small.entity, created_by="ada", at=NOON)
    with pytest.raises(WorkspaceError, match="--kb"):
        open_artifacts([empty])
