"""The component of spaCy, in real pipelines."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import spacy
from setuptools import build_meta
from spacy.tokens import DocBin

from stamo.errors import ArtifactMismatchError, PackError, SettingsError
from stamo.integrations.spacy import NIL
from tests.documents import ROOT


def config(installed, **changes):
    parts = {
        "kb": str(installed.kb_path),
        "model": str(installed.model_path),
        "packs": [str(installed.pack_path)],
    }
    return parts | changes


def pipeline(installed, **changes):
    nlp = spacy.blank("en")
    nlp.add_pipe("stamo", config=config(installed, **changes))
    return nlp


def links(mentions):
    return [(m.start, m.end, m.entity) for m in mentions if m.entity is not None]


def spans(doc, key="stamo"):
    return [(s.start_char, s.end_char, s.kb_id_) for s in doc.spans[key]]


def test_its_own_spans_are_those_of_the_linker(installed):
    """Without entities the component detects names and links them as `stamo link` does."""
    nlp = pipeline(installed)
    n_emerging = 0
    for text in installed.texts[:10]:
        doc = nlp(text)
        assert spans(doc) == links(installed.linker.link(text))
        assert doc.ents == ()
        n_emerging += sum(span.kb_id_ == installed.pack.entity.id for span in doc.spans["stamo"])
    assert n_emerging


def test_entities_of_a_ruler_get_their_ids(installed):
    """`doc.ents` of an earlier component are linked, keep their labels, and are NIL otherwise."""
    alias = installed.pack.entity.aliases[0]
    nlp = spacy.blank("en")
    ruler = nlp.add_pipe("entity_ruler")
    ruler.add_patterns(
        [{"label": "NEW", "pattern": alias}, {"label": "OTHER", "pattern": "zzyzx nowhere"}]
    )
    nlp.add_pipe("stamo", config=config(installed))
    text = next(t for t in installed.texts if links(installed.linker.link(t)) and alias in t)
    doc = nlp(text + " zzyzx nowhere")
    by_label = {ent.label_: ent.kb_id_ for ent in doc.ents}
    assert by_label["OTHER"] == NIL
    assert by_label["NEW"] not in ("", NIL)
    assert {span.label_ for span in doc.spans["stamo"]} == {"NEW"}
    assert all(span.text == alias for span in doc.spans["stamo"])


def test_the_choice_of_mentions(installed):
    """`given` never detects, `detect` leaves the entities of others alone."""
    text = next(t for t in installed.texts if links(installed.linker.link(t)))
    assert spans(pipeline(installed, mentions="given")(text)) == []
    nlp = pipeline(installed, mentions="detect")
    ruler = nlp.add_pipe("entity_ruler", before="stamo")
    ruler.add_patterns([{"label": "NEW", "pattern": installed.pack.entity.aliases[0]}])
    doc = nlp(text)
    assert [ent.kb_id_ for ent in doc.ents] == [""] * len(doc.ents)
    assert spans(doc) == links(installed.linker.link(text))


def test_settings_reach_the_linker(installed):
    """A threshold, another key, a label, and mentions that are not linked."""
    text = installed.texts[0]
    nlp = pipeline(installed, threshold=1.0, spans_key="mine", label="X", keep_nil=True)
    doc = nlp(text)
    unsure = [m for m in installed.linker.link(text) if m.confidence < 1.0]
    assert unsure
    assert {s.label_ for s in doc.spans["mine"]} == {"X"}
    assert sum(s.kb_id_ == NIL for s in doc.spans["mine"]) >= len(unsure)


def test_the_record_of_a_span_survives_spacys_own_files(installed):
    """`span._.stamo` holds confidence and candidates, also after a DocBin."""
    nlp = pipeline(installed)
    doc = nlp(installed.texts[0])
    data = DocBin(docs=[doc], store_user_data=True).to_bytes()
    (again,) = DocBin().from_bytes(data).get_docs(nlp.vocab)
    for before, after in zip(doc.spans["stamo"], again.spans["stamo"], strict=True):
        assert after.kb_id_ == before.kb_id_
        assert list(after._.stamo["candidates"]) == before._.stamo["candidates"]
        assert after._.stamo["confidence"] > 0
    assert doc[0:1]._.stamo is None or doc[0:1].text == doc.spans["stamo"][0].text


def test_batches_give_what_single_texts_give(installed):
    """`nlp.pipe` links many documents at once, empty ones among them, in their order."""
    nlp = pipeline(installed)
    texts = ["", *installed.texts, " "]
    batched = [spans(doc) for doc in nlp.pipe(texts, batch_size=8)]
    assert batched == [spans(nlp(text)) for text in texts]


def test_a_pipeline_goes_to_disk_and_back(installed, tmp_path, monkeypatch):
    """A saved pipeline needs neither the pack nor the model where they were, only the KB."""
    nlp = pipeline(installed, packs=[str(installed.pack_path.parent)], threshold=0.3)
    nlp.to_disk(tmp_path / "pipeline")
    loaded = spacy.load(
        tmp_path / "pipeline", config={"components": {"stamo": {"model": "gone", "packs": ["no"]}}}
    )
    assert loaded.get_pipe("stamo").settings.threshold == 0.3
    for text in installed.texts[:5]:
        assert spans(loaded(text)) == spans(nlp(text))
    shutil.copytree(installed.kb_path, tmp_path / "moved")
    moved = {"components": {"stamo": {"kb": str(tmp_path / "moved")}}}
    there = spacy.load(tmp_path / "pipeline", config=moved)
    assert spans(there(installed.texts[0])) == spans(nlp(installed.texts[0]))
    assert there.get_pipe("stamo").linker.kb.path == tmp_path / "moved"


def test_another_knowledge_base_is_refused(installed, small_kb, tmp_path):
    """A saved pipeline does not link with a knowledge base that it was not made with."""
    pipeline(installed).to_disk(tmp_path / "pipeline")
    other = {"components": {"stamo": {"kb": str(small_kb.path)}}}
    nlp = spacy.load(tmp_path / "pipeline", config=other)
    with pytest.raises(ArtifactMismatchError, match="train again"):
        nlp("Java")


def test_what_is_missing_is_said_in_a_sentence(installed, tmp_path):
    """No knowledge base, no such pack, a broken folder, a bad threshold."""
    nlp = spacy.blank("en")
    nlp.add_pipe("stamo")
    with pytest.raises(SettingsError, match="has no kb; add it with"):
        nlp("Java")
    with pytest.raises(PackError, match="no pack or folder"):
        pipeline(installed, packs=[str(tmp_path / "nowhere")])("Java")
    pipeline(installed).to_disk(tmp_path / "pipeline")
    saved = tmp_path / "pipeline" / "stamo" / "component.json"
    odd = ({"packs": 3}, {"kb": "kb", "packs": ["\ud800"]}, {"kb": "a\0b", "packs": []})
    for record in odd:
        saved.write_text(json.dumps(record))
        with pytest.raises(SettingsError, match="is not a saved component"):
            spacy.load(tmp_path / "pipeline")
    with pytest.raises(SettingsError, match="threshold is 2"):
        pipeline(installed, threshold=2.0)


def test_saved_packs_are_looked_for_in_their_folder_only(installed, tmp_path):
    """A manipulated list of packs cannot reach outside of the saved folder."""
    pipeline(installed).to_disk(tmp_path / "pipeline")
    saved = tmp_path / "pipeline" / "stamo" / "component.json"
    saved.write_text(saved.read_text().replace("0.stamo", "../../first.stamo"))
    shutil.copy(installed.pack_path, tmp_path / "first.stamo")
    with pytest.raises(Exception, match=r"first\.stamo"):
        spacy.load(tmp_path / "pipeline")


def test_errors_go_to_the_handler_of_the_pipeline(installed):
    """As any component of spaCy, it leaves failing texts to the error handler."""
    failed = []
    nlp = pipeline(installed, kb="nowhere")
    nlp.set_error_handler(lambda name, proc, docs, error: failed.append((name, len(docs))))
    assert list(nlp.pipe(["Java", "Jakku"])) == []
    assert failed == [("stamo", 2)]


def test_spacy_finds_the_factory_by_its_entry_point(tmp_path, monkeypatch):
    """Where the package is installed, `add_pipe("stamo")` needs no import."""
    monkeypatch.chdir(ROOT)
    build_meta.prepare_metadata_for_build_wheel(str(tmp_path))
    paths = os.pathsep.join([str(tmp_path), str(Path("src").absolute())])
    code = 'import spacy; print(spacy.blank("en").add_pipe("stamo").name)'
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "stamo"
