"""Entity packs with wrong content under right checksums, and damaged ones."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np

from stamo.corpus.types import EmergingEntity
from stamo.kb.base import KnowledgeBase
from stamo.linking.detect import LinkerSettings
from stamo.linking.linker import Linker
from stamo.linking.packed import PackedLinker
from stamo.models.deeped import DeepED
from stamo.models.store import TrainedModel, load_model
from stamo.packs import pack as pack_bytes
from stamo.packs.pack import EntityPack
from stamo_lab.campaign.readers import mutate

KINDS, BIASES = ("evidence", "none"), ("evidence-bias", "none-bias")


def make_model(kb: KnowledgeBase) -> TrainedModel:
    """Return a model with random weights."""
    model = DeepED(kb.dimensions).eval().requires_grad_(False)
    return TrainedModel(model, kb.dimensions, kb.fingerprint)


def make_pack(kb: KnowledgeBase, trained: TrainedModel) -> EntityPack:
    """Return a pack with evidence on names of the knowledge base."""
    neighbours = np.arange(5, dtype=np.int32)
    views = {"words": kb.dimensions, "context": kb.dimensions, "entities": 5, "neighbours": 2}
    views |= {"about": 1, "longer-name": 2}
    groups = {f"{k}-{name}": np.ones(n, np.float32) for k in KINDS for name, n in views.items()}
    groups |= {name: np.ones(1, np.float32) for name in ("evidence-scale", *BIASES)}
    aliases = tuple(kb.aliases(np.arange(2)))
    return EntityPack.project(
        EmergingEntity("New", aliases, "an album that came late"),
        kb,
        priors=np.full(2, 0.5),
        neighbours=neighbours,
        relatedness=np.full(5, 0.1),
        vector=np.ones(kb.dimensions),
        groups={**groups, "decision-shift": np.zeros(1, np.float32)},
        vocabularies={"neighbours": ("met", "late")},
        model_fingerprint=trained.fingerprint,
    )


ODD_FIELDS: tuple[Any, ...] = (
    *(None, [], {}, "", 3, True, 1e9, "\x1b", ["a"] * 4, "ab" * 32, [["a"]], {"a": None}),
    *({"neighbours": ["a"]}, {"neighbours": []}, {"x": ["a"] * 3}, [{"a": [1, [2]]}], "\ud800"),
)


def link_with_pack(folder: Path, rng: random.Random) -> int:
    """Change a pack's arrays under a right checksum; what is accepted must link."""
    if not _kept:
        _kept["kb"] = KnowledgeBase.open(folder / "kb")
        _kept["model"] = load_model(folder / "model.safetensors")
        explained = LinkerSettings(explain=True)
        _kept["linker"] = Linker(_kept["kb"], _kept["model"], settings=explained)
        _kept["pack"] = make_pack(_kept["kb"], _kept["model"])
    kb, pack = _kept["kb"], _kept["pack"]
    record, tensors = pack_bytes.parse_bytes(pack.to_bytes())
    changed = dict(tensors)
    name = rng.choice(sorted(changed))
    values = changed[name]
    kind = rng.randrange(5)
    if kind == 0:
        del changed[name]
    elif kind == 1:
        shape = rng.choice(((0,), (3, 4), (), (1,), (values.size + 1,), (values.size, 1)))
        changed[name] = np.resize(values, shape).astype(values.dtype)
    elif kind == 2:
        bad = rng.choice((np.nan, np.inf, -1e38, 1e6, -1.0))
        changed[name] = np.full_like(values, 0 if values.dtype.kind != "f" else bad)
    elif kind == 3:
        record[rng.choice(sorted(record))] = rng.choice(ODD_FIELDS)
    else:
        changed[f"group.{rng.choice(('surface', 'x', 'evidence-y'))}"] = np.ones(3, np.float32)
    loaded = EntityPack.from_bytes(pack_bytes.to_bytes(record, changed))
    loaded.check(kb, _kept["model"].fingerprint)
    text = " met ".join(pack.entity.aliases)
    packed = PackedLinker(_kept["linker"], [loaded])
    linked = packed.link(text)
    if packed.failed:  # it harmed nobody, but loading should have refused it
        raise RuntimeError(f"a pack was accepted that cannot be scored: {kind} {name}")
    json.dumps([m.confidence for m in linked], allow_nan=False)
    return len(linked)


_kept: dict[str, Any] = {}


def read_pack(folder: Path, rng: random.Random) -> EntityPack:
    """Read damaged bytes of a pack."""
    return EntityPack.from_bytes(mutate((folder / "new.stamo").read_bytes(), rng))
