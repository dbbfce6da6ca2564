import subprocess
import sys
from collections import Counter
from dataclasses import asdict, replace

import numpy as np
import pytest

from stamo.errors import LearningError, SettingsError, WorkspaceError
from stamo.evaluation.intervals import Rates
from stamo.learning.learn import method_named
from stamo.packs.pack import EntityPack
from stamo.system.files import to_json, write_atomic
from stamo.workspace.folder import REPORT
from stamo.workspace.labels import EMERGING_CHOICE, LabelTarget
from stamo.workspace.learn import (
    CrossValidation,
    LearnSettings,
    SlotRecord,
    collapse_alarm,
    last_settings,
    learn_pack,
    make_folds,
    read_material,
)
from stamo.workspace.verdict import read_summary
from tests.workspace.small_world import NOON, copy_collected, copy_labelled

FEW = LearnSettings(n_folds=2, encoder=None)


def test_learning_writes_a_pack_and_changes_nothing_else(small, labelled):
    """The pack fits its artifacts, whose files stay; what the verdict rests on is kept with it."""
    before = {p: p.read_bytes() for p in [*small.kb_path.iterdir(), small.model_path]}
    heard = []
    outcome = learn_pack(
        labelled, small.kb, small.trained, FEW, on_progress=lambda *step: heard.append(step)
    )
    assert all(path.read_bytes() == data for path, data in before.items())
    pack = EntityPack.load(outcome.path, small.kb, small.trained)
    assert pack.entity == small.entity
    assert outcome.path.stat().st_size < 100_000
    history = [SlotRecord.from_json(slot) for slot in pack.history]
    assert history == list(outcome.records)
    assert [record.number for record in history] == list(range(len(history)))
    assert all(record.left_out is not None for record in history)
    assert labelled.status().packs == ("rey.stamo",)
    assert last_settings(labelled) == FEW
    summary = read_summary(labelled.summary_path, pack)
    assert summary.findings == outcome.findings
    assert len(summary.checks) == len(outcome.findings.labels) == 14
    shares = [share for share, _ in heard]
    assert shares == sorted(shares)
    assert "part 2 of 2" in " ".join(text for _, text in heard)


@pytest.mark.parametrize("method", ["default", "stamo"])
def test_a_killed_run_is_simply_run_again(small, kb, trained, tmp_path, method):
    """After kill -9 nothing is half written, and the next run ends with the bytes of any other."""
    settings = LearnSettings(method=method, n_slots=3, n_folds=2, encoder=None)
    whole = copy_labelled(small, tmp_path / "a" / "rey")
    killed = copy_labelled(small, tmp_path / "b" / "rey")
    learn_pack(whole, kb, trained, settings)
    script = f"""
import os, signal
from pathlib import Path
from tests.workspace.small_world import SmallWorld
from stamo.workspace import learn
from stamo.workspace.folder import Workspace
small = SmallWorld(Path({str(small.folder)!r}))
Workspace.write_pack = lambda *anything: os.kill(os.getpid(), signal.SIGKILL)
learn.learn_pack(Workspace.open({str(killed.path)!r}), small.kb, small.trained, learn.{settings!r})
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert done.returncode == -9, done.stderr
    assert not killed.pack_path.exists()
    (killed.packs_dir).mkdir(exist_ok=True)
    (killed.packs_dir / ".rey.stamo.1.tmp").write_bytes(b"half")
    learn_pack(killed, kb, trained, settings)
    assert killed.pack_path.read_bytes() == whole.pack_path.read_bytes()
    assert killed.summary_path.read_bytes() == whole.summary_path.read_bytes()


def test_another_pack_has_another_summary(labelled, kb, trained):
    """What was found of one pack is never told of another; new labels make the pack outdated."""
    first = learn_pack(labelled, kb, trained, FEW).pack
    alone = learn_pack(labelled, kb, trained, replace(FEW, n_slots=0))
    assert alone.used_slot == 0
    assert read_summary(labelled.summary_path, first) is None
    assert read_summary(labelled.summary_path, alone.pack) is not None
    document = next(d for d in reversed(list(labelled.documents)))
    index = next(i for i, m in enumerate(document.mentions) if m.entity is None)
    with labelled.open_labels() as store:
        target = LabelTarget.of(document.id, index, document.mentions[index])
        store.add(target, EMERGING_CHOICE, labeller="ada", at=NOON)
    assert labelled.status().stage == "labels changed: learn again"


def test_status_says_what_the_verdict_says(labelled, kb, trained):
    """A pack that is not to be shipped is not offered for linking, whatever else is done."""
    outcome = learn_pack(labelled, kb, trained, FEW)
    labelled.path.joinpath(REPORT).write_text("read")
    assert labelled.status().verdict == outcome.verdict
    summary = read_summary(labelled.summary_path, outcome.pack)
    good = replace(outcome.findings, labels=(True,) * 14, decisions=(True,) * 14)
    for findings, stage in (
        (good, "link, or update"),
        (replace(good, n_emerging=0, n_other=20), "do not ship"),
        (replace(good, n_emerging=2, n_other=18), "label more"),
    ):
        kept = replace(summary, findings=findings)
        write_atomic(labelled.summary_path, to_json(asdict(kept)))
        status = labelled.status()
        assert status.stage == stage
        assert (status.verdict.sentence in status.next_step) == (stage != "link, or update")
        assert ("stamo label" in status.next_step) == (stage == "label more")


def test_missing_documents_or_labels_are_said(small, kb, trained, tmp_path):
    """Learning refuses to start without labels, or when none of them is the entity."""
    space = copy_collected(small, tmp_path / "rey")
    with pytest.raises(LearningError, match="label about twenty"):
        learn_pack(space, kb, trained)
    document = next(iter(space.documents))
    index = next(i for i, m in enumerate(document.mentions) if m.entity is None)
    with space.open_labels() as store:
        target = LabelTarget.of(document.id, index, document.mentions[index])
        store.add(target, "@none", labeller="ada", at=NOON)
    with pytest.raises(LearningError, match="None of the 1 labels"):
        learn_pack(space, kb, trained)
    space.documents.clear()
    with pytest.raises(WorkspaceError, match="collect some first"):
        learn_pack(space, kb, trained)
    with pytest.raises(SettingsError, match="mine"):
        LearnSettings(method="mine")
    with pytest.raises(SettingsError, match="folds"):
        LearnSettings(n_folds=1)


@pytest.mark.parametrize("only", [False, True])
def test_a_label_for_one_mention_speaks_for_no_other(small, labelled, kb, trained, only):
    """In a document that says both, its name elsewhere in the document stays without a label."""
    names = Counter((d.id, m.surface) for d in labelled.documents for m in d.mentions)
    done = {event.target.name for event in labelled.current_labels()}
    document, index = next(
        (d, i)
        for d in labelled.documents
        for i, m in enumerate(d.mentions)
        if m.surface in small.entity.aliases
        and names[d.id, m.surface] > 1
        and (d.id, m.surface) not in done
    )
    *_, before = read_material(labelled, kb, trained)
    target = LabelTarget.of(document.id, index, document.mentions[index])
    with labelled.open_labels() as store:
        store.add(target, EMERGING_CHOICE, labeller="ada", at=NOON, only=only)
    *_, after = read_material(labelled, kb, trained)
    n_labelled = int(after.labelled.sum() - before.labelled.sum())
    assert n_labelled == (1 if only else names[target.name])


@pytest.mark.parametrize("name", ["default", "stamo"])
def test_a_fold_learns_nothing_from_what_it_leaves_out(labelled, kb, trained, name):
    """Folds share no document; each sees its own labels only, and shares what is frozen."""
    *_, pile = read_material(labelled, kb, trained)
    method = method_named(name)
    trained.model.with_features(method.features).freeze(pile)
    rest = pile.labelled.copy()
    folds = make_folds(pile, 2)
    assert sorted(np.concatenate(folds).tolist()) == np.flatnonzero(pile.labelled).tolist()
    assert not set.intersection(*(set(pile.mentions.documents[fold].tolist()) for fold in folds))
    rest[folds[0]] = False
    fold = replace(pile, labels=np.where(rest[:, None], pile.labels, 0), labelled=rest)
    shared, alone = (method.learn(one, trained).theta for one in (fold, replace(fold, kept={})))
    for group, values in alone.items():
        np.testing.assert_array_equal(shared[group], values)


@pytest.mark.parametrize(
    ("slot", "weight", "shift", "odds", "decisions"),
    [
        (1, 1.0, 0.0, [1.2, 0.6, -2.0], [True, True, False]),
        (9, 1.0, 0.0, [1.2, 0.6, -2.0], [True, True, False]),
        (1, 0.5, -0.4, [0.3, -0.3, -1.9], [True, False, False]),
    ],
)
def test_labels_and_pile_are_put_together_as_in_the_run(slot, weight, shift, odds, decisions):
    """Their odds count by weight, and what the run added to the odds is added here too."""
    found = CrossValidation(
        rows=np.arange(3),
        labels=np.array([True, True, False]),
        odds=np.array([[0.2, -0.4, -1.0], [1.2, 0.6, -2.0]]),
        shifts=np.array([[0.0] * 3, [0.5] * 3]),
    )
    predicted, decided = found.at(slot, weight, shift)
    np.testing.assert_allclose(predicted, odds)
    assert decided.tolist() == decisions


@pytest.mark.parametrize(
    ("shares", "precisions", "said"),
    [
        ([0.4, 0.4, 0.41], [0.9, 0.9, 0.9], None),
        ([0.4, 0.3, 0.1], [0.9, 0.9, 0.9], "fell from 40% to 10%"),
        ([0.2, 0.4, 0.7], [0.9, 0.9, 0.9], "rose from 20% to 70%"),
        ([0.4, 0.4, 0.4], [0.7, 0.9, 0.6], "fell from 0.90 in slot 1 to 0.60"),
        ([0.4], [0.9], None),
    ],
)
def test_collapse_alarm(shares, precisions, said):
    """The alarm says what decayed; a run that stays as it is raises none."""
    records = [
        SlotRecord(i, share, 0, {}, Rates(p, 1.0, 1.0, 1.0))
        for i, (share, p) in enumerate(zip(shares, precisions, strict=True))
    ]
    alarm = collapse_alarm(records)
    assert alarm is None if said is None else said in alarm
