"""Linking with entity packs."""

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from stamo.corpus.types import Document, EmergingEntity
from stamo.errors import ArtifactMismatchError
from stamo.learning.learn import learn
from stamo.linking import packed as packed_module
from stamo.linking.detect import LinkerSettings
from stamo.linking.linker import Linker
from stamo.linking.packed import PARTS, first_of_each
from stamo.linking.render import explanation
from tests.learning.test_learn import split

EXPLAIN = LinkerSettings(explain=True)


@pytest.fixture(scope="module")
def pack(world, world_corpus, world_kb, world_model):
    """The pack of the world's first emerging entity, learned without an encoder."""
    entity = world.emerging[0]
    labelled, unlabelled, _ = split(world_corpus, entity, 20)
    (learned,) = learn(entity, labelled, unlabelled, world_model, world_kb, encoder=None)
    return learned.to_pack()


@pytest.fixture(scope="module")
def texts(world, world_corpus, pack):
    """Documents that hold a name of the pack's entity, without their mentions."""
    names = pack.entity.aliases
    some = [d for d in world_corpus if any(name in d.text for name in names)]
    return [Document(d.id, d.text) for d in some[:60]]


@pytest.fixture(scope="module")
def link(world_kb, world_model):
    """Links with some packs: a function of packs and settings that returns a linker."""

    def make(*packs, settings=LinkerSettings(), **rest):
        return Linker(world_kb, world_model, packs, settings=settings, **rest)

    return make


def test_mentions_without_the_name_stay_as_they_are(pack, texts, link):
    """With a pack, every mention that is not one of its names is linked exactly as before."""
    before = list(link(extra_aliases=pack.entity.aliases).link_documents(texts))
    after = list(link(pack).link_documents(texts))
    n_changed = 0
    for old, new in zip(before, after, strict=True):
        for left, right in zip(old.mentions, new.mentions, strict=True):
            if left.surface in pack.entity.aliases:
                n_changed += left.entity != right.entity
                assert right.without_packs == left.entity
            else:
                assert left == right
    assert n_changed > 10
    assert next(link(pack).link_documents(texts[:1])).mentions == after[0].mentions


@pytest.mark.parametrize("settings", [LinkerSettings(), EXPLAIN, LinkerSettings(threshold=0.9)])
def test_records_of_packed_mentions_are_those_of_the_values(pack, texts, link, settings):
    """Short records come from the columns of a batch, with what a pack declares."""
    known = replace(pack, entity=replace(pack.entity, type="person", url="https://x.example"))
    seen = set()
    for linked in link(known, settings=settings).link_documents(texts):
        values = [m.to_record(all_candidates=False) for m in linked.mentions]
        assert linked.to_record(all_candidates=False)["mentions"] == values
        seen |= {key for m in values for key in m}
    assert {"type", "url", "without_packs"} <= seen


def test_packed_candidates_show_both_answers(pack, texts, link, world_kb):
    """A mention that the pack wins still names what it would mean without it, and why."""
    linked = link(pack, settings=EXPLAIN).link_documents(texts)
    won = [m for d in linked for m in d.mentions if m.entity == pack.entity.id]
    assert won
    assert all(m.candidates[0].entity == pack.entity.id for m in won)
    rivals = [m.runner_up for m in won if m.surface == pack.entity.aliases[0]]
    assert all(rival is not None and world_kb.entity_id(rival.entity) >= 0 for rival in rivals)
    assert [c.name for c in won[0].why] == list(PARTS)
    assert {m.reasons_for for m in won} == {pack.entity.id}
    for mention in won:
        weights = [abs(reason.weight) for reason in mention.reasons]
        assert weights == sorted(weights, reverse=True)
    told = {(r.part, r.name) for m in won for r in m.reasons}
    assert {"words", "words next to the name"} <= {p for p, name in told if name}
    record = won[0].to_record()
    assert record["reasons_for"] == pack.entity.id
    assert record["without_packs"] == won[0].without_packs
    with_reasons = Console(width=90, record=True, file=io.StringIO())
    with_reasons.print(explanation(won[0]))
    shown = with_reasons.export_text()
    assert f"for or against {pack.entity.id}" in shown
    assert "without packs:" in shown
    assert all(0 <= c.confidence <= 1 for m in won for c in m.candidates)


def test_two_packs_of_one_name_share_it(pack, texts, link):
    """Two packs that know one name cannot both have more than half of a mention."""
    twin = replace(pack, entity=EmergingEntity("Twin", pack.entity.aliases))
    names = pack.entity.aliases
    alone, both = (
        next(m for d in linker.link_documents(texts) for m in d.mentions if m.surface in names)
        for linker in (link(pack), link(pack, twin))
    )
    share = {c.entity: c.confidence for c in both.candidates}
    assert share[pack.entity.id] == pytest.approx(share["Twin"])
    assert share["Twin"] <= 0.5
    assert {c.entity: c.confidence for c in alone.candidates}[pack.entity.id] > share["Twin"]


def test_one_bad_pack_fails_nobody_else(pack, texts, link, monkeypatch, caplog):
    """A pack whose scoring fails is left out and logged once; text and other packs are linked."""
    bad = replace(pack, entity=EmergingEntity("Bad", pack.entity.aliases))
    real = packed_module.score_pack

    def fails_on_bad(pack, *args, **rest):
        if pack.entity.id == "Bad":
            raise IndexError("a hole in the pack")
        return real(pack, *args, **rest)

    monkeypatch.setattr(packed_module, "score_pack", fails_on_bad)
    alone, both = list(link(pack).link_documents(texts)), link(bad, pack)
    assert list(both.link_documents(texts)) == alone
    assert list(both.link_documents(texts)) == alone
    assert both.failed == {"Bad"}
    assert [r.message for r in caplog.records] == ["The pack of 'Bad' fails and is left out"]


def test_packs_see_a_window_and_only_what_names_them(pack, link, monkeypatch):
    """A long text is scored in parts; a text without a name of the pack is not scored at all."""
    name, lengths, real = pack.entity.aliases[0], [], packed_module.score_pack

    def watched(pack, corpus, *args, **rest):
        lengths.extend(len(corpus.text.texts[d]) for d in set(corpus.documents.tolist()))
        return real(pack, corpus, *args, **rest)

    monkeypatch.setattr(packed_module, "score_pack", watched)
    linker = link(pack, settings=LinkerSettings(window=1000))
    linker.link("Nobody of that name was seen. " * 100)
    assert not lengths
    text = f"{name} spoke of it. " * 200
    found = [m for m in linker.link(text) if m.in_pack]
    assert lengths
    assert max(lengths) <= 1000
    assert [text[m.start : m.end] for m in found] == [name] * 200


def test_the_first_mentions_stand_for_those_that_follow(pack, link, monkeypatch):
    """Of each name in each document so many are scored; the others are what the last of them is."""
    documents = np.array([0, 0, 0, 0, 0, 1, 1], np.int32)
    names = np.array([5, 5, 2, 5, 5, 5, 5], np.int32)
    chosen, place = first_of_each(documents, names, 2)
    assert chosen.tolist() == [0, 1, 2, 5, 6]
    assert chosen[place].tolist() == [0, 1, 2, 1, 1, 5, 6]
    assert first_of_each(documents, names, 9)[0].tolist() == list(range(7))
    monkeypatch.setattr(packed_module, "MAX_SCORED", 3)
    monkeypatch.setattr(packed_module, "MAX_EXPLAINED", 2)
    text = f"{pack.entity.aliases[0]} spoke of it. " * 9
    found = [m for m in link(pack, settings=EXPLAIN).link(text) if m.in_pack]
    assert [text[m.start : m.end] for m in found] == [pack.entity.aliases[0]] * 9
    assert {m.confidence for m in found[3:]} == {found[2].confidence}
    assert [bool(m.reasons) for m in found] == [True] * 2 + [False] * 7


def test_a_foreign_pack_is_refused(pack, link):
    """A pack of another model does not link."""
    with pytest.raises(ArtifactMismatchError, match="model"):
        link(replace(pack, model_fingerprint="0" * 64))
