"""Learning an emerging entity of the embedded world, from documents to θ̂(e*)."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_limits

from stamo.corpus.types import Corpus, EmergingEntity, Mention
from stamo.errors import DivergenceError, LearningError, SettingsError
from stamo.features.base import estimate
from stamo.features.encoder_choice import INSTALLED, encoder_of
from stamo.features.pile import Sample
from stamo.learning.corrected import CorrectedArgs
from stamo.learning.learn import encode_pile, learn, reading_named, sharing_aliases
from stamo.learning.loop import Estimate, Reading, self_train
from stamo.learning.paper import InterSlotArgs, IntraSlotArgs, StamoArgs, intra_slot
from stamo.models.evidence import CorrectedScorer, mention_views
from stamo_lab.published import QUIRKS, READINGS
from tests.synthetic import assert_finite, objective, run_reading


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
def task(case, world_kb, world_model):
    entity, labelled, unlabelled, _ = case
    return encode_pile([entity], labelled | unlabelled, world_kb, world_model)


def accuracy(learned, case, kb, trained):
    """How often the unlabelled mentions are judged rightly as e* or not."""
    entity, _, _, gold_documents = case
    encoder = encoder_of(INSTALLED)
    encoded = encode_pile([entity], Corpus(tuple(gold_documents)), kb, trained, encoder=encoder)
    pile = encoded.pile
    pile = replace(
        pile,
        vocabularies={"neighbours": learned.pile.vocabulary("neighbours")},
        neighbours=learned.neighbours,
        context=np.where(pile.context >= 0, pile.context, -1),
        extra={},
    )
    from stamo.features.pile import positions

    pile = replace(pile, context=positions(learned.neighbours, pile.mentions.context))
    scorer = trained.model.prepare(pile, trained.tables(kb))
    temperature = trained.calibration.temperature
    scores = CorrectedScorer(scorer, mention_views(pile, kb), temperature, 1)(learned.theta)
    predicted = scores.argmax(dim=1).numpy() == scores.shape[1] - 1
    return float((predicted == (encoded.labels[:, 0] > 0.5)).mean())


def test_the_default_beats_the_larger_class(case, world_kb, world_model):
    """Twenty labels and the pile judge the other mentions far better than always or never."""
    entity, labelled, unlabelled, gold = case
    (learned,) = learn(entity, labelled, unlabelled, world_model, world_kb)
    flags = [m.entity == entity.id for d in gold for m in d.mentions if m.surface in entity.aliases]
    share = float(np.mean(flags))
    assert accuracy(learned, case, world_kb, world_model) > max(share, 1 - share) + 0.1


def test_same_seed_same_bytes(case, world_kb, world_model):
    """Two runs give the same θ̂(e*), to the last bit."""
    entity, labelled, unlabelled, _ = case
    first, second = (
        learn(entity, labelled, unlabelled, world_model, world_kb)[0] for _ in range(2)
    )
    for name, values in first.theta.groups.items():
        assert torch.equal(values, second.theta[name]), name


@pytest.mark.parametrize("reading", ["default", "stamo"])
def test_the_number_of_threads_changes_no_bit(case, world_kb, world_model, reading):
    """One and two threads give the same θ̂(e*), to the last bit."""
    entity, labelled, unlabelled, _ = case
    before, found = torch.get_num_threads(), []
    try:
        for n_threads in (1, 2):
            torch.set_num_threads(n_threads)
            with threadpool_limits(n_threads):
                learned = learn(
                    entity, labelled, unlabelled, world_model, world_kb, reading=reading
                )
            found.append(learned[0].theta)
    finally:
        torch.set_num_threads(before)
    for name, values in found[0].groups.items():
        assert torch.equal(values, found[1][name]), name


def test_model_and_knowledge_base_stay_as_they_are(case, world_kb, world_model):
    """Learning changes neither φ nor a byte of the knowledge base."""
    entity, labelled, unlabelled, _ = case
    before = world_model.fingerprint
    for reading in ("default", "stamo"):
        chosen = READINGS[reading]
        chosen = chosen.with_slots(2)
        learn(entity, labelled, unlabelled, world_model, world_kb, reading=chosen)
    assert world_model.fingerprint == before
    world_kb.verify()


@pytest.mark.parametrize("args", [StamoArgs(n_slots=4), CorrectedArgs(patience=None)])
def test_gold_labels_survive_self_training(task, args):
    """After any number of slots, every mention in L still carries its gold entity."""
    seen = []
    self_train(task, args, on_slot=lambda slot: seen.append(slot.pseudo_labels))
    assert seen
    for labels in seen:
        np.testing.assert_array_equal(labels[task.labelled], task.labels[task.labelled])


def test_intra_slot_lowers_the_objective_on_l(task):
    """θ_intra fits the real labels better than the estimate it starts from."""
    theta = estimate(task.labelled_sample, task.model.features, task.kb)
    scorer, gold = StamoArgs().steps(task).labelled_part
    args = IntraSlotArgs(n_epochs=30, default_rate=1e-2)
    fitted = intra_slot(theta, scorer, gold, args)
    assert objective(fitted, scorer, gold, args.margin) < objective(
        theta, scorer, gold, args.margin
    )


def test_vanilla_self_training_estimates_on_its_own_labels(task):
    """Without intra- and inter-slot optimisation a slot is link and estimate, nothing else."""
    args = replace(READINGS["self-training"].args, n_slots=1)
    one = self_train(task, args).theta
    on_l = Estimate(estimate(task.labelled_sample, task.model.features, task.kb))
    weights = args.steps(task).label(on_l)
    everything = np.ones(len(task.pile), dtype=np.float32)
    expected = estimate(Sample(task.pile, weights, everything), task.model.features, task.kb)
    for name, values in expected.groups.items():
        torch.testing.assert_close(one[name], values)


@pytest.mark.parametrize("stop_after", [1, 3])
def test_an_interrupted_run_resumes_to_the_same_bytes(task, stop_after):
    """Going on from any slot ends where the uninterrupted run ends."""
    args = StamoArgs(n_slots=5, patience=None)
    slots = []
    whole = self_train(task, args, on_slot=slots.append)
    resumed = self_train(task, args, resume=slots[stop_after - 1])
    assert resumed.stopped == whole.stopped
    for name, values in whole.theta.groups.items():
        assert torch.equal(values, resumed.theta[name]), name


def test_a_diverging_setting_is_reported_with_slot_and_group(task):
    """No NaN or infinity leaves a slot; the error names where it happened."""
    wild = StamoArgs(
        n_slots=3,
        intra=IntraSlotArgs(n_epochs=3, learning_rate={"embedding": 1e38}, default_rate=1e38),
        inter=InterSlotArgs(adaptive=False, eta={"embedding": 1e30}, default_eta=1e30),
    )
    with pytest.raises(DivergenceError, match=r"Slot \d+: the '.+' group"):
        self_train(task, wild)


@pytest.mark.parametrize("name", sorted(READINGS))
def test_every_reading_learns_something_finite(task, name):
    """Each named reading and variant runs and returns finite parameters."""
    learned = run_reading(task, READINGS[name].with_slots(2))
    assert_finite(learned.theta)


@pytest.mark.parametrize("quirk", sorted(QUIRKS))
def test_every_quirk_is_a_switch_of_its_own(task, quirk):
    """A quirk changes the result of the reading it is switched on over."""
    plain = Reading("stamo", READINGS["stamo"].features, StamoArgs(n_slots=2))
    with_quirk, without = run_reading(task, QUIRKS[quirk](plain)), run_reading(task, plain)
    scores = [
        o.model.prepare(task.pile, task.tables)(o.theta).detach() for o in (with_quirk, without)
    ]
    assert not torch.equal(*scores)


def test_entities_that_share_an_alias_are_grouped():
    """Sharing is transitive; strangers stay apart."""
    a, b, c, d = (
        EmergingEntity(name, aliases)
        for name, aliases in [("A", ("x",)), ("B", ("y", "z")), ("C", ("x", "y")), ("D", ("w",))]
    )
    groups = [{e.id for e in group} for group in sharing_aliases([a, b, c, d])]
    assert sorted(map(sorted, groups)) == [["A", "B", "C"], ["D"]]


def test_strangers_learned_together_equal_each_alone(world, world_corpus, world_kb, world_model):
    """Learning several entities at once changes nothing for those that share no alias."""
    first, second = world.emerging[:2]
    parts = [split(world_corpus, entity, 20) for entity in (first, second)]
    documents = {d.id: d for labelled, _, _ in parts for d in labelled}
    labelled = Corpus(tuple(documents.values()))
    rest = {d.id: d for _, unlabelled, _ in parts for d in unlabelled if d.id not in documents}
    both = learn([first, second], labelled, Corpus(tuple(rest.values())), world_model, world_kb)
    mine = [d for d in labelled if any(m.surface in first.aliases for m in d.mentions)]
    others = [d for d in rest.values() if any(m.surface in first.aliases for m in d.mentions)]
    (alone,) = learn(first, Corpus(tuple(mine)), Corpus(tuple(others)), world_model, world_kb)
    for name, values in alone.theta.groups.items():
        assert torch.equal(values, both[0].theta[name]), name


def test_priors_of_entities_that_share_an_alias_add_up(case, world_kb, world_model):
    """Two emerging entities of one name claim at most the whole mention between them."""
    entity, labelled, unlabelled, _ = case
    twin = EmergingEntity("A twin", entity.aliases)
    both = learn([entity, twin], labelled, unlabelled, world_model, world_kb)
    total = both[0].theta["prior"] + both[1].theta["prior"]
    assert float(total.max()) <= 1.0 + 1e-6
    assert float(both[1].theta["prior"].max()) < 0.2


def relabel(corpus, entity, label):
    return Corpus(
        tuple(
            replace(
                d,
                mentions=tuple(
                    replace(m, entity=label) if m.surface in entity.aliases else m
                    for m in d.mentions
                ),
            )
            for d in corpus
        )
    )


@pytest.mark.parametrize("label", ["emerging", "other", "none of these"])
def test_labels_of_one_class_only_give_a_sensible_result(case, world_kb, world_model, label):
    """With all labels alike the prior moves that way, stays inside (0, 1), and nothing breaks."""
    entity, labelled, unlabelled, _ = case
    known = next(
        m.entity
        for d in labelled
        for m in d.mentions
        if m.surface in entity.aliases and m.entity != entity.id
    )
    text = {"emerging": entity.id, "other": known, "none of these": "nothing we know"}[label]
    (learned,) = learn(entity, relabel(labelled, entity, text), unlabelled, world_model, world_kb)
    prior = learned.theta["prior"]
    assert bool(((prior > 0) & (prior < 1)).all())
    assert (float(prior.mean()) > 0.5) == (label == "emerging")


def test_an_alias_never_seen_in_l_keeps_a_prior(case, world_kb, world_model):
    """An alias without a label takes the overall share instead of 0."""
    entity, labelled, unlabelled, _ = case
    wider = EmergingEntity(entity.id, (*entity.aliases[:2], "Nobody Wrote This"))
    (learned,) = learn(wider, labelled, unlabelled, world_model, world_kb)
    assert 0.05 < float(learned.theta["prior"][0, -1]) < 0.95


def test_one_label_speaks_for_its_name_in_the_document(case, world_kb, world_model):
    """Other mentions of the name in a labelled document take its label; contradictions do not."""
    entity, labelled, _, _ = case
    alias = entity.aliases[0]
    text = f"{alias} one. {alias} two. {alias} three."
    starts = [i for i in range(len(text)) if text.startswith(alias, i)]

    def document(name, labels):
        pairs = zip(starts, labels, strict=True)
        mentions = tuple(Mention(alias, i, i + len(alias), label) for i, label in pairs)
        return replace(labelled.documents[0], id=name, text=text, mentions=mentions)

    agreed = document("agreed", (entity.id, None, None))
    contradictory = document("contradictory", (entity.id, "something else", None))
    encoded = encode_pile([entity], Corpus((agreed, contradictory)), world_kb, world_model)
    assert encoded.labelled.tolist() == [True, True, True, True, True, False]
    assert encoded.labels[:, 0].tolist() == [1, 1, 1, 1, 0, 0]


def test_no_unlabelled_documents_is_fine(case, world_kb, world_model):
    """With L alone learning returns what L says."""
    entity, labelled, _, _ = case
    (learned,) = learn(entity, labelled, Corpus(()), world_model, world_kb)
    assert_finite(learned.theta)


def test_documents_without_words_or_links_are_fine(case, world_kb, world_model):
    """A document that holds nothing but the name neither helps nor breaks anything."""
    entity, labelled, unlabelled, _ = case
    alias = entity.aliases[0]
    bare = [
        replace(d, id=f"bare {i}", text=alias, mentions=(Mention(alias, 0, len(alias)),))
        for i, d in enumerate(unlabelled.documents[:5])
    ]
    (learned,) = learn(entity, labelled, unlabelled | Corpus(tuple(bare)), world_model, world_kb)
    assert_finite(learned.theta)


def test_a_document_that_comes_twice_is_refused(case, world_kb, world_model):
    """Two labels for one document are a contradiction; the error names the document."""
    entity, labelled, unlabelled, _ = case
    twice = unlabelled | Corpus(labelled.documents[:1])
    with pytest.raises(LearningError, match="comes twice"):
        learn(entity, labelled, twice, world_model, world_kb)


def test_no_labels_and_no_mentions_are_clear_errors(case, world_kb, world_model):
    """Learning says what is missing before it starts."""
    entity, _, unlabelled, _ = case
    with pytest.raises(LearningError, match="label about twenty"):
        learn(entity, Corpus(()), unlabelled, world_model, world_kb)
    with pytest.raises(LearningError, match="check the spelling"):
        learn(EmergingEntity("X", ("Qqqq",)), Corpus(()), unlabelled, world_model, world_kb)
    with pytest.raises(SettingsError, match="no reading"):
        reading_named("nonsense")
    with pytest.raises(SettingsError, match="folds"):
        CorrectedArgs(n_folds=1)
