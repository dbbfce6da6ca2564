"""One knowledge base, one model, one pack: every way to ask gives the same answers."""

import csv
import json
import subprocess
import sys
from functools import partial

import httpx
import pytest
import spacy

import stamo.integrations.spacy  # noqa: F401 - where the package is installed, spaCy finds it itself
from stamo.corpus.formats.nif import (
    EMERGING_IRI,
    NOT_IN_KB,
    context_iri,
    entity_iri,
    format_nif,
    parse_nif,
)
from stamo.kb.base import KnowledgeBase
from stamo.models.store import load_model
from stamo.packs.pack import EntityPack
from stamo.service.app import create_app
from stamo.service.security import SecuritySettings
from stamo.service.wiring import wire
from stamo.workspace.learn_job import learn_job
from tests.service.support import running


@pytest.fixture(scope="module")
def answers(installed):
    """What the library says of each text, with entities as they are called."""
    texts = installed.texts[:12]
    return texts, [[(m.start, m.end, m.entity) for m in installed.linker.link(t)] for t in texts]


def run(installed, *options, stdin):
    command = [sys.executable, "-m", "stamo", "link", installed.kb_path, installed.model_path]
    done = subprocess.run(
        [*map(str, command), "--with", str(installed.pack_path), "--jsonl", *options],
        input=stdin,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_the_command_line(installed, answers):
    """As JSON lines and as CSV."""
    texts, expected = answers
    lines = "".join(json.dumps({"id": str(i), "text": t}) + "\n" for i, t in enumerate(texts))
    records = map(json.loads, run(installed, stdin=lines).splitlines())
    found = [[(m["start"], m["end"], m["entity"]) for m in r["mentions"]] for r in records]
    assert found == expected
    rows = csv.DictReader(run(installed, "--format", "csv", stdin=lines).splitlines())
    cells = [(r["id"], int(r["start"]), int(r["end"]), r["entity"] or None) for r in rows]
    assert cells == [(str(i), *link) for i, links in enumerate(expected) for link in links]
    assert any(entity == installed.pack.entity.id for *_, entity in cells)


def test_spacy(installed, answers):
    """As spans of a pipeline."""
    texts, expected = answers
    nlp = spacy.blank("en")
    parts = {"kb": str(installed.kb_path), "model": str(installed.model_path)}
    nlp.add_pipe("stamo", config=parts | {"packs": [str(installed.pack_path.parent)]})
    found = [
        [(s.start_char, s.end_char, s.kb_id_) for s in doc.spans["stamo"]]
        for doc in nlp.pipe(texts)
    ]
    assert found == [[link for link in links if link[2] is not None] for links in expected]


def test_the_service_and_nif(installed, answers, tmp_path):
    """By its own route and by GERBIL's, with the pack added over HTTP."""
    texts, expected = answers
    kb, trained = KnowledgeBase.open(installed.kb_path), load_model(installed.model_path)
    learn = partial(learn_job, kb=kb, trained=trained)
    parts = wire(kb, trained, tmp_path / "packs", tmp_path, learn, SecuritySettings())
    pack = EntityPack.load(installed.pack_path)
    with (
        running(create_app(parts)) as address,
        httpx.Client(base_url=address, headers={"X-Stamo": "1"}, timeout=60) as client,
    ):
        assert client.post("/api/packs", content=pack.to_bytes()).status_code == 201
        posts = [client.post("/api/link", json={"text": text}).json() for text in texts]
        found = [[(m["start"], m["end"], m["entity"]) for m in p["mentions"]] for p in posts]
        assert found == expected
        contexts = [(context_iri(f"{i:02}", len(t)), t, []) for i, t in enumerate(texts)]
        documents = parse_nif(client.post("/nif", content=format_nif(contexts)).content)
    new = entity_iri(pack.entity.id, EMERGING_IRI)

    def entity_of(mention):
        if mention.entity.startswith(NOT_IN_KB):
            return None
        return pack.entity.id if mention.entity == new else mention.entity

    assert [[(m.start, m.end, entity_of(m)) for m in d.mentions] for d in documents] == expected
