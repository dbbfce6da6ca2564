import subprocess
import sys
from dataclasses import asdict, replace

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from stamo.errors import LearningError, SettingsError, WorkspaceError
from stamo.packs.pack import EntityPack
from stamo.system.files import to_json, write_atomic
from stamo.workspace.cross_validation import load_material, make_folds, rates
from stamo.workspace.folder import REPORT
from stamo.workspace.labels import EMERGING_CHOICE, LabelTarget
from stamo.workspace.learn import FoldDone, LearnSettings, learn_pack
from stamo.workspace.learn_job import learn_job
from stamo.workspace.slots import Rates, SlotRecord, collapse_alarm
from stamo.workspace.verdict import SUMMARY, read_summary
from tests.workspace.small_world import NOON, copy_collected, copy_labelled

FEW = LearnSettings(n_folds=2)
STAMO = LearnSettings(reading="stamo", n_slots=4, n_folds=0)


def slot_files(workspace):
    """Return the bytes of each slot by the name of its file."""
    return {path.name: path.read_bytes() for path in workspace.slots_dir.glob("*.safetensors")}


def test_learning_writes_a_pack_that_fits_its_artifacts(small, kb, trained, labelled):
    """The pack names the knowledge base, model, aliases and slots that it was learned with."""
    outcome = learn_pack(labelled, kb, trained)
    pack = EntityPack.load(outcome.path, kb, trained.fingerprint)
    assert pack.entity == small.entity
    assert [SlotRecord.from_json(slot) for slot in pack.history] == [
        SlotRecord.from_json(record.to_json()) for record in outcome.records
    ]
    assert outcome.path.stat().st_size < 100_000
    assert f"{outcome.records[-1].number:05d}.safetensors" == max(slot_files(labelled))
    assert labelled.status().packs == ("rey.stamo",)


def test_learning_changes_neither_knowledge_base_nor_model(small, labelled):
    """All files of both have the same bytes afterwards."""
    before = {p: p.read_bytes() for p in small.kb_path.iterdir()}
    before[small.model_path] = small.model_path.read_bytes()
    kb, trained = small.kb, small.trained
    learn_pack(labelled, kb, trained, FEW)
    assert all(path.read_bytes() == data for path, data in before.items())
    kb.verify()
    assert trained.fingerprint == small.trained.fingerprint


def test_the_same_labels_give_the_same_bytes(small, kb, trained, tmp_path):
    """Two folders with the same name, documents and labels end with the same pack."""
    packs = [
        learn_pack(
            copy_labelled(small, tmp_path / str(i) / "rey"), kb, trained, FEW
        ).path.read_bytes()
        for i in range(2)
    ]
    assert packs[0] == packs[1]


@pytest.mark.parametrize("reading", ["default", "stamo"])
def test_a_killed_run_ends_with_the_same_bytes(small, kb, trained, tmp_path, reading):
    """After kill -9 in a slot, learning goes on; pack and slots are as if nothing happened."""
    settings = LearnSettings(reading=reading, n_slots=3, n_folds=2)
    whole = copy_labelled(small, tmp_path / "a" / "rey")
    killed = copy_labelled(small, tmp_path / "b" / "rey")
    learn_pack(whole, kb, trained, settings)
    script = f"""
import os, signal
from pathlib import Path
from tests.workspace.small_world import SmallWorld
from stamo.workspace.folder import Workspace
from stamo.workspace.learn import LearnSettings, learn_pack
small = SmallWorld(Path({str(small.folder)!r}))
def die(step):
    if getattr(step, "n_folds", 0) == 0 and step.number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
learn_pack(Workspace.open({str(killed.path)!r}), small.kb, small.trained, {settings!r}, on_step=die)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert done.returncode == -9, done.stderr
    assert not killed.pack_path.exists()
    assert "interrupted at slot 1" in killed.status().next_step
    # A half-written slot, as a process that is killed while writing leaves it.
    (killed.slots_dir / ".00002.safetensors.1.tmp").write_bytes(b"half")
    steps = []
    learn_pack(killed, kb, trained, settings, on_step=steps.append)
    assert killed.pack_path.read_bytes() == whole.pack_path.read_bytes()
    assert slot_files(killed) == slot_files(whole)


def test_finished_slots_and_folds_are_not_run_again(labelled, kb, trained, monkeypatch):
    """A run of Algorithm 1 that was interrupted after slot 2 only runs the slots behind it."""
    from stamo.workspace import learn as module

    def stop(step):
        if isinstance(step, SlotRecord) and step.number == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learn_pack(labelled, kb, trained, STAMO, on_step=stop)
    resumed = []
    self_train = module.self_train

    def spy(task, args, **kwargs):
        resumed.append(kwargs.get("resume"))
        return self_train(task, args, **kwargs)

    monkeypatch.setattr(module, "self_train", spy)
    outcome = learn_pack(labelled, kb, trained, STAMO)
    assert resumed[-1].number == 2
    assert [record.number for record in outcome.records] == [0, 1, 2, 3, 4]


def test_cross_validation_learns_each_fold_once(labelled, kb, trained, monkeypatch):
    """The labels alone of a fold are slot 0 of its one run; what is said does not need threads."""
    from stamo.workspace import cross_validation as module

    runs, self_train = [], module.self_train

    def spy(task, args, **kwargs):
        runs.append(threadpool_info())
        return self_train(task, args, **kwargs)

    monkeypatch.setattr(module, "self_train", spy)
    outcome = learn_pack(labelled, kb, trained, FEW)
    assert len(runs) == FEW.n_folds
    assert all(pool["num_threads"] == 1 for pools in runs for pool in pools)
    assert outcome.records[0].left_out is not None


def test_new_labels_start_a_new_run(labelled, kb, trained):
    """Slots of other labels are dropped, so none of them enters the new pack."""
    first = learn_pack(labelled, kb, trained, FEW)
    document = next(d for d in reversed(list(labelled.documents)))
    index = next(i for i, m in enumerate(document.mentions) if m.entity is None)
    with labelled.open_labels() as store:
        target = LabelTarget.of(document.id, index, document.mentions[index])
        store.add(target, EMERGING_CHOICE, labeller="ada", at=NOON)
    with pytest.raises(WorkspaceError, match="other labels"):
        learn_pack(labelled, kb, trained, FEW, until=1)
    second = learn_pack(labelled, kb, trained, FEW)
    assert first.pack.labels_fingerprint != second.pack.labels_fingerprint


def test_rollback_writes_the_pack_of_a_slot(labelled, kb, trained):
    """Slot 0 holds the labels alone, the last slot nothing of them; the pack lies between."""
    learned = learn_pack(labelled, kb, trained, FEW)
    last = learned.records[-1].number
    whole = learn_pack(labelled, kb, trained, FEW, until=last)
    alone = learn_pack(labelled, kb, trained, FEW, until=0)
    assert (alone.used_slot, whole.used_slot) == (0, last)
    sides = np.stack([pack.vector @ learned.pack.vector for pack in (alone.pack, whole.pack)])
    assert (sides >= alone.pack.vector @ whole.pack.vector - 1e-6).all()
    assert not np.array_equal(alone.pack.vector, whole.pack.vector)
    assert EntityPack.load(labelled.pack_path).fingerprint == alone.pack.fingerprint
    with pytest.raises(WorkspaceError, match=f"slots 1 to {last}"):
        learn_pack(labelled, kb, trained, FEW, until=99)


def test_what_the_report_needs_is_kept_with_the_pack(labelled, kb, trained):
    """Left-out odds belong to one pack; another pack does not get them."""
    outcome = learn_pack(labelled, kb, trained, FEW)
    summary = read_summary(labelled.slots_dir, outcome.pack)
    assert summary is not None
    assert len(summary.findings.probabilities) == len(summary.findings.labels) == 14
    assert summary.findings == outcome.findings
    other = learn_pack(labelled, kb, trained, FEW, until=0).pack
    assert read_summary(labelled.slots_dir, outcome.pack) is None
    assert read_summary(labelled.slots_dir, other) is not None


def test_status_says_what_the_verdict_says(labelled, kb, trained):
    """A pack that is not to be shipped is not offered for linking, whatever else is done."""
    outcome = learn_pack(labelled, kb, trained, FEW)
    labelled.path.joinpath(REPORT).write_text("read")
    assert labelled.status().verdict == outcome.verdict
    summary = read_summary(labelled.slots_dir, outcome.pack)
    good = replace(outcome.findings, labels=(True,) * 14, decisions=(True,) * 14)
    for findings, stage in (
        (good, "link, or update"),
        (replace(good, n_emerging=0, n_other=20), "do not ship"),
        (replace(good, n_emerging=2, n_other=18), "label more"),
    ):
        kept = replace(summary, findings=findings)
        write_atomic(labelled.slots_dir / SUMMARY, to_json(asdict(kept)))
        status = labelled.status()
        assert status.stage == stage
        assert (status.verdict.sentence in status.next_step) == (stage != "link, or update")
        assert ("stamo label" in status.next_step) == (stage == "label more")


def test_steps_are_reported_in_order(labelled, kb, trained):
    """First the folds, then the labels alone, then slot after slot."""
    steps = []
    learn_pack(labelled, kb, trained, FEW, on_step=steps.append)
    assert steps[:2] == [FoldDone(1, 2), FoldDone(2, 2)]
    assert [step.number for step in steps[2:]] == list(range(len(steps) - 2))
    assert all(step.left_out is not None for step in steps[2:])


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


def test_settings_are_checked():
    """An unknown reading and a single fold are refused at once."""
    with pytest.raises(SettingsError, match="no reading"):
        LearnSettings(reading="mine")
    with pytest.raises(SettingsError, match="folds"):
        LearnSettings(n_folds=1)


def test_folds_share_no_document(labelled, kb, trained):
    """Each labelled mention is left out once, and never beside one of its own document."""
    task = load_material(labelled, kb, trained, FEW.to_reading()).task
    folds = make_folds(task, 4)
    rows = np.concatenate(folds)
    assert sorted(rows.tolist()) == np.flatnonzero(task.labelled).tolist()
    documents = [set(task.pile.mentions.documents[fold].tolist()) for fold in folds]
    assert sum(map(len, documents)) == len(set.union(*documents))


def test_rates_by_hand():
    """Two of three predictions are right, and two of four mentions are found."""
    said = np.array([True, True, True, False, False, False])
    true = np.array([True, True, False, True, True, False])
    found = rates(said, true)
    assert found == Rates(2 / 3, 1 / 2, 4 / 7, 3 / 6)


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


def test_learning_as_a_job_reports_progress_and_writes_the_report(small, kb, trained, labelled):
    """Progress only grows, the closing line names the pack, and the report is there."""
    seen = []
    work = learn_job(labelled.path.parent, kb=kb, trained=trained, settings=FEW)
    line = work("rey", lambda share, text: seen.append((share, text)))
    shares = [share for share, _ in seen]
    assert shares == sorted(shares)
    assert 0 <= shares[0] <= shares[-1] <= 1
    assert "earned" in line
    assert (labelled.path / "report.html").exists()
    with pytest.raises(WorkspaceError, match="no workspace"):
        work("nobody", lambda share, text: None)
