"""The ways to ask for links, each giving (start, end, entity) of every mention of every text."""

import csv
import json
import subprocess
import sys

import httpx
import spacy

import stamo.integrations.spacy  # noqa: F401 - where the package is installed, spaCy finds it itself
from stamo.corpus.nif import (
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
from tests.service.support import running


def by_command(kb, model, packs, texts, form="jsonl"):
    """Ask `stamo link`, as JSON lines or CSV."""
    lines = "".join(json.dumps({"id": str(i), "text": t}) + "\n" for i, t in enumerate(texts))
    command = [sys.executable, "-m", "stamo", "link", "--jsonl", "--format", form]
    command += ["--kb", kb, "--model", model]
    for pack in packs:
        command += ["--with", pack]
    done = subprocess.run(
        [*map(str, command)], input=lines, capture_output=True, text=True, check=True
    )
    if form == "jsonl":
        records = map(json.loads, done.stdout.splitlines())
        return [[(m["start"], m["end"], m["entity"]) for m in r["mentions"]] for r in records]
    found = [[] for _ in texts]
    for row in csv.DictReader(done.stdout.splitlines()):
        found[int(row["id"])].append((int(row["start"]), int(row["end"]), row["entity"] or None))
    return found


def by_spacy(kb, model, packs, texts):
    """Ask a pipeline, whose spans have an entity each."""
    nlp = spacy.blank("en")
    nlp.add_pipe(
        "stamo", config={"kb": str(kb), "model": str(model), "packs": [str(p) for p in packs]}
    )
    return [
        [(s.start_char, s.end_char, s.kb_id_) for s in doc.spans["stamo"]]
        for doc in nlp.pipe(texts)
    ]


def by_service(kb, model, packs, texts, folder):
    """Ask the service by its own route and by GERBIL's, with packs added over HTTP."""
    base, trained = KnowledgeBase.open(kb), load_model(model)
    loaded = [EntityPack.load(pack) for pack in packs]
    with (
        running(create_app(base, trained, folder / "served", folder)) as address,
        httpx.Client(base_url=address, headers={"X-Stamo": "1"}, timeout=60) as client,
    ):
        for pack in loaded:
            assert client.post("/api/packs", content=pack.to_bytes()).status_code == 201
        posts = [client.post("/api/link", json={"text": text}).json() for text in texts]
        contexts = [(context_iri(f"{i:02}", len(t)), t, []) for i, t in enumerate(texts)]
        documents = parse_nif(client.post("/nif", content=format_nif(contexts)).content)
    own = [[(m["start"], m["end"], m["entity"]) for m in p["mentions"]] for p in posts]
    ids = [[m["id"] for m in p["mentions"]] for p in posts]
    new = {entity_iri(pack.entity.id, EMERGING_IRI): pack.entity.id for pack in loaded}

    def entity_of(mention):
        if mention.entity.startswith(NOT_IN_KB):
            return None
        return new.get(mention.entity, mention.entity)

    nif = [[(m.start, m.end, entity_of(m)) for m in d.mentions] for d in documents]
    return own, ids, nif


def linked_only(answers):
    """Leave out mentions of no entity."""
    return [[link for link in links if link[2] is not None] for links in answers]
