"""Learning an emerging entity of the embedded world, from documents to θ̂(e*) and its pack."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_limits

from stamo.corpus.types import Corpus, EmergingEntity, Mention
from stamo.errors import LearningError, SettingsError
from stamo.features.embedding import Embedding, MaxMargin
from stamo.features.mentions import EncodingSettings
from stamo.features.prior import Prior
from stamo.features.relatedness import Relatedness
from stamo.learning.algorithm1 import InterSlotArgs, IntraSlotArgs, StamoArgs
from stamo.learning.default import DefaultArgs
from stamo.learning.learn import METHODS, encode_pile, learn, method_named, sharing_aliases
from stamo.models.correction import log_odds, margins
from stamo.models.store import INSTALLED, open_encoder
from tests.synthetic import assert_finite, assert_same


def split(documents, entity, n_labelled):
    """Label the first documents that mention the entity; hide the labels of the others."""
    about = [d for d in documents if any(m.surface in entity.aliases for m in d.mentions)]

    def hide(document):
        mentions = tuple(
            replace(m, entity=None) if m.surface in entity.aliases else m for m in document.mentions
        )
        return replace(document, mentions=mentions)

    labelled = Corpus(tuple(about[:n_labelled]))
    return labelled, Corpus(tuple(hide(d) for d in about[n_labelled:])), about[n_labelled:]


@pytest.fixture(scope="module")
def case(world, world_corpus):
    entity = world.emerging[0]
    return entity, *split(world_corpus, entity, 20)


@pytest.fixture(scope="module")
def run(case, world_kb, world_model):
    """Learns the entity of the case, with something changed; without the encoder by default."""
    entity, labelled, unlabelled, _ = case

    def run(entities=entity, labelled=labelled, unlabelled=unlabelled, **given):
        given = {"encoder": None, **given}
        return learn(entities, labelled, unlabelled, world_model, world_kb, **given)

    return run


@pytest.fixture(scope="module")
def pile(case, world_kb, world_model):
    entity, labelled, unlabelled, _ = case
    return encode_pile([entity], labelled | unlabelled, world_kb, world_model)


def test_the_default_beats_the_larger_class(case, run, world_kb, world_model):
    """Twenty labels and the pile judge the other mentions far better than always or never."""
    entity, labelled, _, gold = case
    (learned,) = run(encoder=INSTALLED)
    corpus = labelled | Corpus(tuple(gold))
    answers = encode_pile(
        [entity], corpus, world_kb, world_model, encoder=open_encoder(world_model, world_kb)
    )
    rows = ~learned.pile.labelled
    is_it = answers.labels[rows, 0] > 0.5
    right = (learned.posterior[rows, 0] > 0.5) == is_it
    assert right.mean() > max(is_it.mean(), 1 - is_it.mean()) + 0.1


def test_a_pack_says_what_was_learned(run, world_model):
    """Its θ(e*) gives the log odds of learning, but for words without a weight."""
    (learned,) = run()
    found, pack = learned, learned.to_pack(description="By hand.")
    assert (pack.entity, pack.description, pack.encoder) == (learned.entity, "By hand.", "")
    words = pack.vocabularies["neighbours"]
    assert set(words) <= set(found.pile.vocabularies["neighbours"])
    pile = replace(found.pile, vocabularies=dict(pack.vocabularies), kept={})
    temperature = world_model.calibration.temperature
    odds = [
        log_odds(margins(found.model.freeze(p), t, temperature), p, t, temperature)[0]
        for p, t in ((found.pile, found.theta), (pile, pack.theta()))
    ]
    np.testing.assert_allclose(*odds, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["default", "stamo"])
def test_neither_run_nor_threads_change_a_bit(run, world_kb, world_model, name):
    """Two runs, with one and two threads, give the same θ̂(e*); φ and the base stay as they are."""
    before, fingerprint, found = torch.get_num_threads(), world_model.fingerprint, []
    method = METHODS[name].with_slots(3)
    try:
        for n_threads in (1, 2):
            torch.set_num_threads(n_threads)
            with threadpool_limits(n_threads):
                found.append(run(method=method)[0].theta)
    finally:
        torch.set_num_threads(before)
    assert_same(*found)
    assert world_model.fingerprint == fingerprint
    world_kb.manifest.verify(world_kb.path)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_learns_something_finite(pile, world_model, name):
    """Each named method and variant runs and returns finite parameters, and keeps L's labels."""
    learned = METHODS[name].with_slots(2).learn(pile, world_model)
    assert_finite(learned.theta)
    np.testing.assert_array_equal(learned.posterior[pile.labelled], pile.labels[pile.labelled])
    assert learned.used_slot <= METHODS[name].args.n_slots


def test_entities_that_share_an_alias_are_grouped():
    """Sharing is transitive; strangers stay apart."""
    a, b, c, d = (
        EmergingEntity(name, aliases)
        for name, aliases in [("A", ("x",)), ("B", ("y", "z")), ("C", ("x", "y")), ("D", ("w",))]
    )
    groups = [{e.id for e in group} for group in sharing_aliases([a, b, c, d])]
    assert sorted(map(sorted, groups)) == [["A", "B", "C"], ["D"]]


def test_strangers_learned_together_equal_each_alone(run, world, world_corpus):
    """Learning several entities at once changes nothing for those that share no alias."""
    first, second = world.emerging[:2]
    parts = [split(world_corpus, entity, 20) for entity in (first, second)]
    documents = {d.id: d for labelled, _, _ in parts for d in labelled}
    rest = {d.id: d for _, unlabelled, _ in parts for d in unlabelled if d.id not in documents}
    both = run([first, second], *(Corpus(tuple(some.values())) for some in (documents, rest)))
    mine = (
        Corpus(tuple(d for d in some if any(m.surface in first.aliases for m in d.mentions)))
        for some in (documents.values(), rest.values())
    )
    (alone,) = run(first, *mine)
    assert_same(alone.theta, both[0].theta)


def test_entities_that_share_an_alias_compete(case, run):
    """Two emerging entities of one name claim at most the whole mention between them."""
    entity, *_ = case
    twin = EmergingEntity("A twin", entity.aliases)
    first, second = run([entity, twin])
    prior = first.theta["prior"]
    assert float(prior.sum(axis=0).max()) <= 1.0 + 1e-6
    assert float(prior[1].max()) < 0.2
    assert second.to_pack().entity == twin


@pytest.mark.parametrize("label", ["emerging", "other", "none of these"])
def test_labels_of_one_class_only_give_a_sensible_result(case, run, label):
    """With all labels alike the prior moves that way, stays inside (0, 1), and nothing breaks."""
    entity, labelled, *_ = case
    mentions = [m for d in labelled for m in d.mentions if m.surface in entity.aliases]
    known = next(m.entity for m in mentions if m.entity != entity.id)
    text = {"emerging": entity.id, "other": known, "none of these": "nothing we know"}[label]
    _, hidden, _ = split(labelled, entity, 0)
    alike = hidden.with_labels(
        {(d.id, i): text for d in hidden for i, m in enumerate(d.mentions) if m.entity is None}
    )
    prior = run(labelled=alike)[0].theta["prior"]
    assert ((prior > 0) & (prior < 1)).all()
    assert (float(prior.mean()) > 0.5) == (label == "emerging")


def test_one_label_speaks_for_its_name_in_the_document(case, world_kb, world_model):
    """Other mentions of the name in a labelled document take its label; contradictions do not."""
    entity, labelled, *_ = case
    alias = entity.aliases[0]
    text = f"{alias} one. {alias} two. {alias} three."
    starts = [i for i in range(len(text)) if text.startswith(alias, i)]

    def document(name, labels):
        pairs = zip(starts, labels, strict=True)
        mentions = tuple(Mention(alias, i, i + len(alias), label) for i, label in pairs)
        return replace(labelled.documents[0], id=name, text=text, mentions=mentions)

    agreed = document("agreed", (entity.id, None, None))
    contradictory = document("contradictory", (entity.id, "something else", None))
    pile = encode_pile([entity], Corpus((agreed, contradictory)), world_kb, world_model)
    assert pile.labelled.tolist() == [True, True, True, True, True, False]
    assert pile.labels[:, 0].tolist() == [1, 1, 1, 1, 0, 0]


def test_little_material_is_fine(case, run):
    """No unlabelled documents, or some that hold nothing but the name, break nothing."""
    entity, _, unlabelled, _ = case
    alias = entity.aliases[0]
    bare = [
        replace(d, id=f"bare {i}", text=alias, mentions=(Mention(alias, 0, len(alias)),))
        for i, d in enumerate(unlabelled.documents[:5])
    ]
    for documents in (Corpus(()), unlabelled | Corpus(tuple(bare))):
        assert_finite(run(unlabelled=documents)[0].theta)


def test_what_is_missing_is_said_before_learning_starts(case, run):
    """Each error names what to do."""
    _, labelled, unlabelled, _ = case
    with pytest.raises(LearningError, match="comes twice"):
        run(unlabelled=unlabelled | Corpus(labelled.documents[:1]))
    with pytest.raises(LearningError, match="label about twenty"):
        run(labelled=Corpus(()))
    with pytest.raises(LearningError, match="check the spelling"):
        run(EmergingEntity("X", ("Qqqq",)))
    with pytest.raises(SettingsError, match="no method"):
        method_named("nonsense")
    with pytest.raises(SettingsError, match="no decision"):
        METHODS["stamo"].with_decision("f1")
    assert METHODS["default"].with_decision("f1").args.decision == "f1"
    assert METHODS["estimation"].with_slots(7).args.n_slots == 0


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (Prior, {"smoothing": -1}),
        (Relatedness, {"shrinkage": -1.0}),
        (Embedding, {"n_words": 1}),
        (MaxMargin, {"n_epochs": 0}),
        (EncodingSettings, {"n_candidates": 0}),
        (StamoArgs, {"n_slots": -1}),
        (IntraSlotArgs, {"learning_rate": {"prior": -1.0}}),
        (InterSlotArgs, {"gamma": 0}),
        (DefaultArgs, {"decision": "often"}),
    ],
)
def test_settings_out_of_range_are_refused(kind, settings):
    """What is outside its range is refused where it is declared, by its name."""
    with pytest.raises(SettingsError, match=next(iter(settings))):
        kind(**settings)
