from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from stamo.corpus.types import Corpus, Document
from stamo.features.mentions import Lexicon, flatten
from stamo.learning.learn import LearnedEntity, entity_numbers
from stamo.learning.learn import learn as learn_in_memory
from stamo.linking.linker import Linker
from stamo.linking.packed import PARTS, score_pack
from stamo.models.correction import agree, log_odds, margins
from stamo.packs.pack import EntityPack
from stamo.packs.theta import SHIFT
from stamo.workspace.labels import labels_fingerprint
from stamo.workspace.learn import LearnSettings, estimation_pack, learn_pack, read_material
from tests.workspace.small_world import copy_labelled

FEW = LearnSettings(n_folds=0)


@pytest.fixture(scope="module")
def learned(small, kb, trained, tmp_path_factory):
    """A workspace that was learned, with its pack; nobody changes it."""
    space = copy_labelled(small, tmp_path_factory.mktemp("packing") / "rey")
    return space, learn_pack(space, kb, trained, FEW).pack


def score(space, pack, kb, trained):
    corpus = space.documents.read().with_labels({})
    flat = flatten(corpus, Lexicon.of(kb), entity_numbers([pack.entity], corpus, kb))
    return score_pack(pack, flat, kb, trained)


def test_a_pack_scores_as_theta_did(learned, kb, trained):
    """Linking with the pack gives the log odds of θ̂(e*) on the documents it was learned on."""
    space, pack = learned
    *_, pile = read_material(space, kb, trained, FEW.encoder)
    theta, temperature = FEW.to_method().learn(pile, trained).theta, trained.calibration.temperature
    margin = margins(trained.model.freeze(pile), theta, temperature)
    expected = agree(log_odds(margin, pile, theta, temperature)[0], pile)[:, 0]
    np.testing.assert_allclose(score(space, pack, kb, trained).odds, expected, atol=1e-3)


def test_parts_add_up_and_confidence_leaves_the_shift_out(learned, kb, trained):
    """The five parts sum to the odds of a mention alone; the line for F1 is no confidence."""
    space, pack = learned
    scores = score(space, pack, kb, trained)
    assert scores.parts.shape == (len(scores.rows), len(PARTS))
    names, counts = np.unique(
        [d.id for d in space.documents for m in d.mentions if m.entity is None], return_counts=True
    )
    alone = np.isin(
        [d.id for d in space.documents for m in d.mentions if m.entity is None], names[counts == 1]
    )
    np.testing.assert_allclose(scores.parts.sum(axis=1)[alone], scores.odds[alone], atol=1e-9)
    shift = float(pack.groups[SHIFT][0])
    np.testing.assert_allclose(scores.probability, expit(scores.odds - shift))


def test_a_pack_without_evidence_links_by_the_model(learned, kb, trained):
    """Features estimated on the labels, without a correction, link where e* scores highest."""
    space, _ = learned
    pack = estimation_pack(space, kb, trained)
    scores = score(space, pack, kb, trained)
    best = scores.scores.argmax(axis=1) == scores.scores.shape[1] - 1
    contested = (scores.candidates >= 0).any(axis=1)  # without a rival the prior decides
    assert contested.sum() > 20
    single = scores.parts[:, 0] > 0
    np.testing.assert_array_equal(best[contested], single[contested])


def test_labels_fingerprint_ignores_order_and_people(learned):
    """The same choices give the same fingerprint, whoever made them in whatever order."""
    space, pack = learned
    with space.open_labels() as store:
        events = store.current()
    assert labels_fingerprint(reversed(events)) == pack.labels_fingerprint
    assert labels_fingerprint(events[1:]) != pack.labels_fingerprint


def test_a_model_without_relatedness_packs_none(learned, kb, trained):
    """Where θ̂(e*) has no relatedness, the pack relates its entity to nothing."""
    space, _ = learned
    *_, pile = read_material(space, kb, trained)
    learned = FEW.to_method().learn(pile, trained)
    groups = {n: v for n, v in learned.theta.items() if n != "relatedness"}
    pack = LearnedEntity.of(replace(learned, theta=groups), trained).to_pack()
    assert len(pack.titles) == len(pack.relatedness)
    assert not pack.relatedness.any()


def test_what_was_learned_in_memory_links_as_a_pack(small, learned, kb, trained):
    """`LearnedEntity.to_pack()` gives the workspace's pack, but for its notes, and it links."""
    space, written = learned
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
