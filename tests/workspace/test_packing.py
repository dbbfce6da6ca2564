import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from scipy.special import expit

from stamo.corpus.types import Corpus, Document
from stamo.errors import ArtifactMismatchError
from stamo.features.base import FeatureParams
from stamo.features.encoder_choice import encoder_of
from stamo.features.mentions import Lexicon, flatten
from stamo.features.pile import positions
from stamo.learning.learn import LearnedEntity, entity_numbers
from stamo.learning.learn import learn as learn_in_memory
from stamo.learning.loop import ALL_SLOTS, NO_CHANGE
from stamo.linking import packed as packed_module
from stamo.linking.detect import LinkerSettings
from stamo.linking.linker import Linker
from stamo.linking.packed import PARTS, PackedLinker, first_of_each, score_pack
from stamo.linking.render import explanation
from stamo.models.evidence import agree, log_odds, margins_under, mention_views
from stamo.packs.pack import EntityPack
from stamo.packs.theta import SHIFT, strongest_neighbours
from stamo.workspace.cross_validation import load_material
from stamo.workspace.labels import labels_fingerprint
from stamo.workspace.learn import LearnSettings, estimation_pack, learn_pack
from stamo_lab.published import READINGS
from tests.synthetic import run_reading
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
    encoder = encoder_of(FEW.encoder)
    task = load_material(space, kb, trained, FEW.to_reading(), encoder=encoder).task
    theta = run_reading(task, FEW.to_reading()).theta
    margin = margins_under(task.scorer, theta, task.temperature)
    odds = log_odds(margin, theta, mention_views(task.pile, kb), task.temperature)
    expected = agree(odds, task.pile)[:, 0]
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


def test_packs_survive_their_file(learned, tmp_path):
    """A saved pack has all groups of θ̂(e*), byte for byte."""
    _, pack = learned
    pack.save(tmp_path / "rey.stamo")
    loaded = EntityPack.load(tmp_path / "rey.stamo")
    assert loaded.fingerprint == pack.fingerprint
    assert {"evidence-words", "evidence-entities", "evidence-bias", SHIFT} <= set(loaded.groups)


def test_mentions_without_the_name_stay_as_they_are(learned, kb, trained):
    """With a pack, every mention that is not one of its names is linked exactly as before."""
    space, pack = learned
    texts = [Document(d.id, d.text) for d in space.documents]
    linker = Linker(kb, trained, extra_aliases=pack.entity.aliases)
    before = list(linker.link_documents(texts))
    after = list(PackedLinker(linker, [pack]).link_documents(texts))
    n_changed = 0
    for old, new in zip(before, after, strict=True):
        for left, right in zip(old.mentions, new.mentions, strict=True):
            if left.surface in pack.entity.aliases:
                n_changed += left.entity != right.entity
            else:
                assert left == right
    assert n_changed > 10


def test_packed_candidates_show_both_answers(learned, kb, trained):
    """A mention that the pack wins still names what it would mean without it, and why."""
    space, pack = learned
    linker = Linker(kb, trained, settings=LinkerSettings(explain=True))
    packed = PackedLinker(linker, [pack])
    texts = [Document(d.id, d.text) for d in space.documents]
    won = [
        m for d in packed.link_documents(texts) for m in d.mentions if m.entity == pack.entity.id
    ]
    assert won
    assert all(m.candidates[0].entity == pack.entity.id for m in won)
    rivals = [m.runner_up for m in won if m.surface == pack.entity.aliases[0]]
    assert rivals
    assert all(rival is not None and kb.entity_id(rival.entity) >= 0 for rival in rivals)
    assert [c.name for c in won[0].why] == list(PARTS)
    assert {m.reasons_for for m in won} == {pack.entity.id}
    for mention in won:
        weights = [abs(reason.weight) for reason in mention.reasons]
        assert weights == sorted(weights, reverse=True)
    told = {(r.part, r.name) for m in won for r in m.reasons}
    assert {"words", "single entities", "words next to the name"} <= {p for p, name in told if name}
    record = won[0].to_record()
    assert record["reasons_for"] == pack.entity.id
    assert record["without_packs"] == won[0].without_packs
    with_reasons = Console(width=90, record=True, file=io.StringIO())
    with_reasons.print(explanation(won[0]))
    shown = with_reasons.export_text()
    assert f"for or against {pack.entity.id}" in shown
    assert "without packs:" in shown
    assert all(0 <= c.confidence <= 1 for m in won for c in m.candidates)


def test_two_packs_of_one_name_share_it(learned, kb, trained):
    """Two packs that know one name cannot both have more than half of a mention."""
    space, pack = learned
    twin = EntityPack.project(
        type(pack.entity)("Twin", pack.entity.aliases),
        kb,
        priors=pack.priors,
        neighbours=pack.neighbours,
        relatedness=pack.relatedness,
        vector=pack.vector,
        groups=pack.groups,
        encoder=pack.encoder,
        vocabularies=pack.vocabularies,
        model_fingerprint=pack.model_fingerprint,
    )
    text = next(d.text for d in space.documents)
    linker = Linker(kb, trained)
    (alone,) = [
        m for m in PackedLinker(linker, [pack]).link(text) if m.surface in pack.entity.aliases
    ][:1]
    (both,) = [
        m for m in PackedLinker(linker, [pack, twin]).link(text) if m.surface in pack.entity.aliases
    ][:1]
    share = {c.entity: c.confidence for c in both.candidates}
    assert share[pack.entity.id] == pytest.approx(share["Twin"])
    assert share["Twin"] <= 0.5
    assert {c.entity: c.confidence for c in alone.candidates}[pack.entity.id] > share["Twin"]


def test_one_bad_pack_fails_nobody_else(learned, kb, trained, monkeypatch, caplog):
    """A pack whose scoring fails is left out and logged once; text and other packs are linked."""
    space, pack = learned
    bad = replace(pack, entity=type(pack.entity)("Bad", pack.entity.aliases))
    real = packed_module.score_pack

    def fails_on_bad(pack, *args, **rest):
        if pack.entity.id == "Bad":
            raise IndexError("a hole in the pack")
        return real(pack, *args, **rest)

    monkeypatch.setattr(packed_module, "score_pack", fails_on_bad)
    texts = [Document(d.id, d.text) for d in space.documents]
    linker = Linker(kb, trained)
    alone = list(PackedLinker(linker, [pack]).link_documents(texts))
    both = PackedLinker(linker, [bad, pack])
    assert list(both.link_documents(texts)) == alone
    assert list(both.link_documents(texts)) == alone
    assert [r.message for r in caplog.records] == ["The pack of 'Bad' fails and is left out"]


def test_reasons_that_cannot_be_named_fail_no_text(learned, kb, trained, monkeypatch, caplog):
    """A pack that can be scored but not explained links as ever, without reasons."""
    space, pack = learned

    def fail(*args):
        raise IndexError("a hole in the pack")

    linker = Linker(kb, trained, settings=LinkerSettings(explain=True))
    texts = [Document(d.id, d.text) for d in space.documents]
    found = [d.mentions for d in PackedLinker(linker, [pack]).link_documents(texts)]
    monkeypatch.setattr(packed_module, "find_reasons", fail)
    without = [d.mentions for d in PackedLinker(linker, [pack]).link_documents(texts)]
    told = [[m._replace(reasons=()) for m in mentions] for mentions in found]
    assert [list(mentions) for mentions in without] == told
    assert any(m.reasons for mentions in found for m in mentions)
    assert len(caplog.records) == 1


def test_a_long_text_is_scored_in_parts(learned, kb, trained, monkeypatch):
    """Packs look at no more characters together than the linker: memory is that of a window."""
    _, pack = learned
    name, lengths, real = pack.entity.aliases[0], [], packed_module.score_pack

    def watched(pack, corpus, *args, **rest):
        lengths.extend(map(len, corpus.text.texts))
        return real(pack, corpus, *args, **rest)

    monkeypatch.setattr(packed_module, "score_pack", watched)
    linker = Linker(kb, trained, settings=LinkerSettings(window=1000))
    text = f"{name} spoke of it. " * 200
    found = [m for m in PackedLinker(linker, [pack]).link(text) if m.in_pack]
    assert max(lengths) <= 1000
    assert [text[m.start : m.end] for m in found] == [name] * 200


def test_the_first_mentions_stand_for_those_that_follow():
    """Of each name in each document so many are chosen; the others point at the last of them."""
    documents = np.array([0, 0, 0, 0, 0, 1, 1], np.int32)
    names = np.array([5, 5, 2, 5, 5, 5, 5], np.int32)
    chosen, place = first_of_each(documents, names, 2)
    assert chosen.tolist() == [0, 1, 2, 5, 6]
    assert chosen[place].tolist() == [0, 1, 2, 1, 1, 5, 6]
    assert first_of_each(documents, names, 9)[0].tolist() == list(range(7))


def test_a_name_without_end_is_read_so_often(learned, kb, trained, monkeypatch):
    """A text that repeats a packed name is looked at so many times, and linked to its end."""
    _, pack = learned
    monkeypatch.setattr(packed_module, "MAX_SCORED", 3)
    text = f"{pack.entity.aliases[0]} spoke of it. " * 9
    found = [m for m in PackedLinker(Linker(kb, trained), [pack]).link(text) if m.in_pack]
    assert [text[m.start : m.end] for m in found] == [pack.entity.aliases[0]] * 9
    assert {m.confidence for m in found[3:]} == {found[2].confidence}
    looked = []
    real = packed_module.make_pile

    def watched(entities, mentions, *args, **rest):
        looked.append(len(mentions))
        return real(entities, mentions, *args, **rest)

    monkeypatch.setattr(packed_module, "make_pile", watched)
    PackedLinker(Linker(kb, trained), [pack]).link(text)
    assert looked == [3]


def test_only_so_many_mentions_are_explained(learned, kb, trained, monkeypatch):
    """A text that repeats a packed name for ever costs no more reasons than a long one."""
    _, pack = learned
    monkeypatch.setattr(packed_module, "MAX_EXPLAINED", 2)
    linker = Linker(kb, trained, settings=LinkerSettings(explain=True))
    found = PackedLinker(linker, [pack]).link(f"{pack.entity.aliases[0]} spoke. " * 5)
    assert [bool(m.reasons) for m in found if m.in_pack] == [True, True, False, False, False]


def test_a_foreign_pack_is_refused(learned, kb, trained):
    """A pack of another model does not link."""
    _, pack = learned
    foreign = EntityPack.project(
        pack.entity,
        kb,
        priors=pack.priors,
        neighbours=pack.neighbours,
        relatedness=pack.relatedness,
        vector=pack.vector,
        model_fingerprint="0" * 64,
    )
    with pytest.raises(ArtifactMismatchError, match="model"):
        PackedLinker(Linker(kb, trained), [foreign])


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


def test_published_odds_become_probabilities(learned, kb, trained):
    """A prior kept as odds is packed as the probability it stands for."""
    space, _ = learned
    reading = replace(READINGS["published"], args=READINGS["estimation"].args)
    task = load_material(space, kb, trained, reading).task
    learned = run_reading(task, reading)
    odds = learned.theta.replace(prior=learned.theta["prior"] * 0 + 3.0)
    pack = LearnedEntity(replace(learned, theta=odds), task.pile, trained).to_pack()
    np.testing.assert_allclose(pack.priors, 0.75)


def test_neighbours_are_ranked(learned, kb):
    """The strongest neighbours come first and carry their titles."""
    _, pack = learned
    top = strongest_neighbours(pack, 5)
    assert [value for _, value in top] == sorted(pack.relatedness.tolist(), reverse=True)[:5]
    ids = kb.entity_ids([title for title, _ in top])
    assert (positions(pack.neighbours, ids) >= 0).all()


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
    task = load_material(space, kb, trained, FEW.to_reading()).task
    learned = run_reading(task, FEW.to_reading())
    groups = {n: v for n, v in learned.theta.groups.items() if n != "relatedness"}
    learned = replace(learned, theta=FeatureParams(groups))
    pack = LearnedEntity(learned, task.pile, trained).to_pack()
    assert len(pack.titles) == len(pack.relatedness)
    assert not pack.relatedness.any()


def test_what_was_learned_in_memory_links_as_a_pack(small, learned, kb, trained):
    """`LearnedEntity.to_pack()` gives the workspace's pack, but for its notes, and it links."""
    space, written = learned
    material = load_material(space, kb, trained, FEW.to_reading())
    names = small.entity.aliases
    is_labelled = [
        any(m.surface in names and m.entity is not None for m in d.mentions)
        for d in material.corpus
    ]
    parts = [
        Corpus(tuple(d for d, own in zip(material.corpus, is_labelled, strict=True) if own == kind))
        for kind in (True, False)
    ]
    (entity,) = learn_in_memory(small.entity, *parts, trained, kb)
    pack = EntityPack.from_bytes(entity.to_pack(description="By hand.").to_bytes())
    assert pack.description == "By hand."
    np.testing.assert_allclose(pack.priors, written.priors, atol=1e-6)
    np.testing.assert_array_equal(pack.neighbours, written.neighbours)
    assert set(pack.groups) == set(written.groups)
    texts = [Document(d.id, d.text) for d in space.documents]
    packed = PackedLinker(Linker(kb, trained), [pack])
    won = [
        m for d in packed.link_documents(texts) for m in d.mentions if m.entity == small.entity.id
    ]
    assert len(won) > 10
    assert entity.stopped in {ALL_SLOTS, NO_CHANGE}
