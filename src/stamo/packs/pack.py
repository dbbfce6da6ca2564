"""Entity packs: one small file makes an emerging entity linkable.

A pack is one safetensors file whose metadata holds one JSON record. It names its neighbours by
number, for speed, and by title, so that it can be read without the knowledge base and compared
with it. Whatever the bytes of a file are, loading gives a valid pack or raises `PackError`.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from stamo.corpus.types import MAX_ALIASES, MAX_NAME, EmergingEntity
from stamo.errors import ArtifactMismatchError, PackError, SettingsError
from stamo.kb.base import KnowledgeBase
from stamo.system.files import Float32, Int32, write_atomic

if TYPE_CHECKING:
    from stamo.models.store import TrainedModel

PACK_FORMAT = "stamo-pack"
PACK_VERSION = 2
PACK_SUFFIX = ".stamo"
MAX_PACK_BYTES = 8 * 2**20
MAX_TEXT = 20_000

Record = dict[str, Any]
Tensors = dict[str, NDArray[Any]]

_DTYPES = {"F32", "I32", "U8"}


def is_plain(value: object, depth: int) -> bool:
    """Tell whether a value is made of finite numbers and texts, nested at most `depth` deep."""
    if isinstance(value, bool | int) or value is None:
        return True
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, str):
        return is_text(value, MAX_TEXT)
    if depth and isinstance(value, Mapping):
        return all(is_text(k, MAX_NAME) and is_plain(v, depth - 1) for k, v in value.items())
    return bool(depth) and isinstance(value, list) and all(is_plain(v, depth - 1) for v in value)


def content_hash(record: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> str:
    """Return the hash of a record and its arrays."""
    digest = hashlib.sha256(json.dumps(record, sort_keys=True).encode())
    for name in sorted(tensors):
        values = tensors[name]
        digest.update(f"\n{name} {values.dtype.str} {values.shape}\n".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()


def read_bytes(path: Path) -> bytes:
    """Read a file, one byte further than a pack may be long."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_PACK_BYTES + 1)
    except OSError as error:
        raise PackError(
            f"The pack {path.name!r} cannot be read ({error.strerror}); check its path."
        ) from error


def to_bytes(record: Record, tensors: Tensors) -> bytes:
    """Return a file's content; the checksum covers all of it."""
    whole = {"sha256": content_hash(record, tensors), "pack": record}
    # One key keeps the order of the bytes fixed.
    return bytes(save(tensors, {"stamo": json.dumps(whole, sort_keys=True)}))


def parse_bytes(data: bytes) -> tuple[Record, Tensors]:
    """Return the record and the arrays of a file.

    Raises:
        PackError: It is damaged or something else; the message goes on behind the file's name.
    """
    if len(data) > MAX_PACK_BYTES:
        raise PackError(f"it has more than {MAX_PACK_BYTES} bytes.")
    whole = _strict_json(_metadata(data))
    try:
        tensors = load(data)
    except (SafetensorError, ValueError, KeyError, OverflowError, MemoryError) as error:
        raise PackError(f"its arrays cannot be read ({error}).") from error
    record = whole.get("pack")
    if not isinstance(record, dict) or record.get("format") != PACK_FORMAT:
        raise PackError("it is a safetensors file of something else.")
    if record.get("version") != PACK_VERSION:
        raise PackError(f"it is not of format version {PACK_VERSION}; learn the entity again.")
    if content_hash(record, tensors) != whole.get("sha256"):
        raise PackError("its content does not match its checksum; copy it again.")
    return record, tensors


def _metadata(data: bytes) -> str:
    size = int.from_bytes(data[:8], "little")
    if len(data) < 10 or size > len(data) - 8:
        raise PackError("it is cut short or not a safetensors file.")
    header = _strict_json(data[8 : 8 + size])
    entries = [entry for name, entry in header.items() if name != "__metadata__"]
    if any(not isinstance(entry, dict) or entry.get("dtype") not in _DTYPES for entry in entries):
        raise PackError("it holds arrays of another type than a pack has.")
    metadata = header.get("__metadata__")
    text = metadata.get("stamo") if isinstance(metadata, dict) else None
    if not isinstance(text, str):
        raise PackError("it is a safetensors file of something else.")
    return text


def _strict_json(text: str | bytes) -> dict[str, Any]:
    """Parse an object; refuse what is not JSON although Python reads it (NaN, 1e999)."""

    def refuse(constant: str) -> float:
        raise ValueError(f"{constant} is no number")

    def finite(digits: str) -> float:
        value = float(digits)
        return value if math.isfinite(value) else refuse(digits)

    try:
        value = json.loads(text, parse_constant=refuse, parse_float=finite)
        if not isinstance(value, dict):
            raise ValueError("not an object")
        json.dumps(value).encode()
    except (ValueError, RecursionError) as error:
        raise PackError("its header is damaged.") from error
    return value


def is_text(text: object, limit: int) -> bool:
    """Tell whether a value is a text that can be written and shown."""
    if not isinstance(text, str) or len(text) > limit:
        return False
    # A lone surrogate cannot be written; "Cc" are control characters.
    return not any(unicodedata.category(c) in ("Cs", "Cc") and c not in "\n\t" for c in text)


def is_line(text: object, limit: int) -> bool:
    """Tell whether a value is a text of one line."""
    return is_text(text, limit) and "\n" not in str(text) and "\t" not in str(text)


MAX_VALUE = 1e6
MAX_GROUP = 1_000_000
"""Values of one group."""

NEIGHBOURS, DIMENSIONS = "neighbours", "dimensions"
"""The sizes of a pack that the shapes of its groups depend on."""

_VIEWED: dict[str, str | int] = {"words": DIMENSIONS, "context": DIMENSIONS, "entities": NEIGHBOURS}
_VIEWED |= {"about": 1, "longer-name": 2, "bias": 1}
SHAPES: Mapping[str, str | int] = {
    **{f"{kind}-{view}": n for kind in ("correction", "none") for view, n in _VIEWED.items()},
    "correction-scale": 1,
    "decision-shift": 1,
    "keyphrase": NEIGHBOURS,
    "name": 0,
    "surface": 0,
}
"""How many values a known group has: a number, or one of the pack's sizes."""

SENTENCE_GROUPS = ("correction-sentence", "none-sentence")
"""Groups whose size is that of the encoder, which is only known where it is installed."""
RESERVED = frozenset({"prior", "neighbours", "titles", "relatedness", "embedding"})
"""The arrays that are fields of a pack."""
OWN_FIELDS = frozenset({"prior", "relatedness", "embedding"})
"""The groups of θ(e*) that are fields of a pack; all others are stored by name."""
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,40}")


def check_groups(groups: Mapping[str, NDArray[Any]], sizes: Mapping[str, int]) -> None:
    """Refuse groups that a linker could not work with.

    A group that is not in `SHAPES` belongs to an added feature: one row of values.

    Args:
        groups: The values by the name of their group.
        sizes: The sizes of the pack.

    Raises:
        PackError: A name, a shape or a value is out of range, or a group is missing.
    """
    for name, values in groups.items():
        if name in RESERVED or not _NAME.fullmatch(name):
            raise PackError(f"a group has the name {name[:50]!r}; use small letters and digits.")
        n = SHAPES.get(name, values.size)
        size = sizes[n] if isinstance(n, str) else n
        check_array(f"{name!r} group", values, np.float32, (size,))
        if size > MAX_GROUP:
            raise PackError(f"its {name!r} group has {size} values; at most {MAX_GROUP} are read.")
    missing = {"correction-scale", "correction-bias"} - set(groups)
    if missing and any(name.startswith("correction-") for name in groups):
        raise PackError(f"it has a correction but no {min(missing)!r}; learn the entity again.")


def check_array(what: str, values: NDArray[Any], dtype: type, shape: tuple[int, ...]) -> None:
    """Refuse an array of another type or shape, or with values that are not finite.

    Raises:
        PackError: The message goes on behind the pack's name.
    """
    if values.dtype != dtype or values.shape != shape:
        raise PackError(
            f"its {what} are {values.dtype} of shape {values.shape}, not {np.dtype(dtype)} of "
            f"shape {shape}; learn the entity again."
        )
    # Written so that NaN fails as well.
    if dtype is np.float32 and not bool((np.abs(values) <= MAX_VALUE).all()):
        raise PackError(f"its {what} hold a value that is not finite; learn the entity again.")


MAX_SLOTS = 10_000
MAX_VOCABULARIES = 10
MAX_WORDS = 100_000
UNIT_TOLERANCE = 1e-3

_FINGERPRINT = re.compile(r"[0-9a-f]{8,128}")
_TEXTS = ("entity", "about", "kb", "model", "labels", "encoder", "description")


@dataclass(frozen=True, eq=False)
class EntityPack:
    """What was learned of one emerging entity; every value is checked when it is made."""

    entity: EmergingEntity
    priors: Float32  # (A,) P(e* | alias)
    neighbours: Int32  # (R,) ascending entity numbers of the knowledge base
    titles: tuple[str, ...]  # (R,) titles of the neighbours
    relatedness: Float32  # (R,)
    vector: Float32  # (Q,) unit norm
    kb_fingerprint: str
    model_fingerprint: str
    labels_fingerprint: str = ""
    encoder: str = ""
    """The fingerprint of the sentence encoder that its views read with; empty for none."""
    vocabularies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What the columns of a group stand for where they are words, by view."""
    groups: Mapping[str, Float32] = field(default_factory=dict)
    """Other groups of θ(e*) by their names, such as the bias of an added feature."""
    history: tuple[Mapping[str, Any], ...] = ()
    """What each slot did: small plain values."""
    description: str = ""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Where the documents came from, under which licence, who labelled."""

    def __post_init__(self) -> None:
        _check_arrays(self)
        names = (self.entity.id, *self.entity.aliases, *self.titles)
        if any(not name or not is_line(name, MAX_NAME) for name in names):
            raise PackError("a name in it is empty, too long or not a line of text.")
        notes = (*self.notes, *self.notes.values(), self.description, self.entity.description)
        if any(not is_text(note, MAX_TEXT) for note in notes):
            raise PackError("a note in it is too long or not text.")
        optional = (f or "0" * 8 for f in (self.labels_fingerprint, self.encoder))
        fingerprints = (self.kb_fingerprint, self.model_fingerprint, *optional)
        if any(not isinstance(f, str) or not _FINGERPRINT.fullmatch(f) for f in fingerprints):
            raise PackError("a fingerprint in it is not a hash.")
        n = len(self.history)
        if n > MAX_SLOTS:
            raise PackError(f"its history has {n} slots; at most {MAX_SLOTS} are kept.")
        if not all(isinstance(slot, Mapping) and is_plain(slot, 3) for slot in self.history):
            raise PackError("its history holds something else than plain values.")

    def __repr__(self) -> str:
        names = ", ".join(map(repr, self.entity.aliases))
        return f"<EntityPack of {self.entity.id!r}: {names}>"

    @classmethod
    def project(
        cls,
        entity: EmergingEntity,
        kb: KnowledgeBase,
        *,
        priors: ArrayLike,
        neighbours: ArrayLike,
        relatedness: ArrayLike,
        vector: ArrayLike,
        **rest: Any,
    ) -> EntityPack:
        """Make a pack of a learned θ(e*), brought back into the range of its features.

        Steps of an optimiser may leave the range a little: priors are clipped to [0, 1] and the
        vector is scaled to unit norm. `rest` are the other fields; `kb_fingerprint` is filled in.
        """
        direction = np.asarray(vector, dtype=np.float64)
        norm = float(np.linalg.norm(direction))
        ids = np.asarray(neighbours, dtype=np.int32)
        return cls(
            entity=entity,
            priors=np.clip(np.asarray(priors, dtype=np.float32), 0, 1),
            neighbours=ids,
            titles=tuple(kb.titles(ids)),
            relatedness=np.asarray(relatedness, dtype=np.float32),
            vector=(direction / norm if norm > 0 else direction).astype(np.float32),
            kb_fingerprint=kb.fingerprint,
            **rest,
        )

    @property
    def fingerprint(self) -> str:
        """The hash of all the pack holds."""
        return content_hash(*self._parts())

    def check(self, kb: KnowledgeBase, trained: TrainedModel | None = None) -> None:
        """Refuse a knowledge base, a model or an encoder that the pack was not learned with.

        The encoder is compared where the model is given: what it learned is part of that.

        Raises:
            ArtifactMismatchError: A fingerprint differs.
            MissingExtraError: It reads sentences, and no encoder is installed.
            PackError: The content contradicts the knowledge base.
        """
        pairs = [("knowledge base", self.kb_fingerprint, kb.fingerprint)]
        if trained is not None:
            pairs.append(("model", self.model_fingerprint, trained.fingerprint))
        for what, mine, given in pairs:
            if mine != given:
                raise ArtifactMismatchError(
                    f"The pack of {self.entity.id!r} was learned with the {what} {mine[:12]}, but "
                    f"this one is {given[:12]}; use that {what} or learn the entity again."
                )
        if len(self.neighbours) and int(self.neighbours[-1]) >= kb.n_entities:
            raise _bad(self, "names neighbours that the knowledge base does not have")
        if tuple(kb.titles(self.neighbours)) != self.titles:
            raise _bad(self, "gives its neighbours other titles than the knowledge base")
        if len(self.vector) != kb.dimensions:
            raise _bad(self, f"has a vector of {len(self.vector)}, not {kb.dimensions} dimensions")
        if not self.encoder or trained is None:
            return
        from stamo.features.encoder import encoder_for  # with torch
        from stamo.features.views_context import n_columns

        encoder = encoder_for(self.encoder, trained.adapter)
        assert encoder is not None
        size = n_columns(encoder)
        for name in SENTENCE_GROUPS:
            if name in self.groups and self.groups[name].shape != (size,):
                raise _bad(self, f"has {self.groups[name].size} values of {name!r}, not {size}")

    def to_bytes(self) -> bytes:
        """Return the file's content; equal packs give equal bytes."""
        data = to_bytes(*self._parts())
        if len(data) > MAX_PACK_BYTES:
            raise _bad(self, f"would take {len(data)} bytes, more than {MAX_PACK_BYTES}")
        return data

    def save(self, path: str | Path) -> None:
        """Write the pack; an interrupted write leaves the old file as it was."""
        write_atomic(Path(path), self.to_bytes())

    @classmethod
    def load(
        cls,
        path: str | Path,
        kb: KnowledgeBase | None = None,
        trained: TrainedModel | None = None,
    ) -> EntityPack:
        """Read and check a pack, also against the knowledge base and the model if given.

        Raises:
            PackError: The file is missing, too large, damaged or out of range.
            ArtifactMismatchError: It belongs to another knowledge base or model.
        """
        path = Path(path)
        pack = cls.from_bytes(read_bytes(path), path.name)
        if kb is not None:
            pack.check(kb, trained)
        return pack

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "The data") -> EntityPack:
        """Read and check a pack; `name` stands in the messages.

        Raises:
            PackError: The content is damaged or out of range.
        """
        try:
            record, tensors = parse_bytes(data)
            return _from_parts(record, tensors)
        except PackError as error:
            raise PackError(f"{name} is no usable entity pack: {error}") from error

    def _parts(self) -> tuple[Record, Tensors]:
        """Return what is written: a record of plain values, and arrays by name."""
        record = {
            "format": PACK_FORMAT,
            "version": PACK_VERSION,
            "entity": self.entity.id,
            "aliases": list(self.entity.aliases),
            "kb": self.kb_fingerprint,
            "model": self.model_fingerprint,
            "labels": self.labels_fingerprint,
            "about": self.entity.description,
            # Left out where nothing is known, so that older packs keep their fingerprint.
            **({"identity": self.entity.identity} if self.entity.identity else {}),
            "encoder": self.encoder,
            "vocabularies": {name: list(words) for name, words in self.vocabularies.items()},
            "history": [dict(slot) for slot in self.history],
            "description": self.description,
            "notes": dict(self.notes),
        }
        arrays = {
            "prior": self.priors,
            "neighbours": self.neighbours,
            "titles": np.frombuffer("\n".join(self.titles).encode(), dtype=np.uint8),
            "relatedness": self.relatedness,
            "embedding": self.vector,
            **{f"group.{name}": values for name, values in self.groups.items()},
        }
        return record, {name: np.ascontiguousarray(values) for name, values in arrays.items()}


def _bad(pack: EntityPack, what: str) -> PackError:
    return PackError(f"The pack of {pack.entity.id!r} {what}; learn the entity again.")


def _check_arrays(pack: EntityPack) -> None:
    n, r = len(pack.entity.aliases), len(pack.titles)
    check_array("priors", pack.priors, np.float32, (n,))
    check_array("neighbours", pack.neighbours, np.int32, (r,))
    check_array("relatedness values", pack.relatedness, np.float32, (r,))
    check_array("vector", pack.vector, np.float32, (pack.vector.size,))
    if n and not (float(pack.priors.min()) >= 0 and float(pack.priors.max()) <= 1):
        raise PackError("a prior lies outside 0 to 1; learn the entity again.")
    # Where no word near its mentions is known, it is 0 and says nothing.
    norm = float(np.linalg.norm(pack.vector.astype(np.float64)))
    if not pack.vector.size or (norm and abs(norm - 1) > UNIT_TOLERANCE):
        raise PackError("its vector has not the length 1; learn the entity again.")
    if r and (int(pack.neighbours[0]) < 0 or bool((np.diff(pack.neighbours) <= 0).any())):
        raise PackError("its neighbours are not in ascending order; learn the entity again.")
    check_groups(pack.groups, {NEIGHBOURS: r, DIMENSIONS: pack.vector.size})
    words = len(pack.vocabularies.get("neighbours", ()))
    for name in ("correction-neighbours", "none-neighbours"):
        if pack.groups.get(name, np.zeros(words)).shape != (words,):
            raise PackError("its 'neighbours' words and their weights do not match.")
    if not pack.encoder and any(name in pack.groups for name in SENTENCE_GROUPS):
        raise PackError("it weighs sentences but names no encoder; learn the entity again.")
    if not pack.entity.line and not pack.groups.keys().isdisjoint(
        ("correction-about", "none-about")
    ):
        raise PackError("it weighs a line about the entity but has none; learn the entity again.")


def _from_parts(record: Record, tensors: Tensors) -> EntityPack:
    rest = {name: values for name, values in tensors.items() if name not in RESERVED}
    if any(not name.startswith("group.") for name in rest):
        raise PackError("it holds arrays that a pack does not have.")
    aliases, history, notes = record.get("aliases"), record.get("history"), record.get("notes")
    if not (isinstance(aliases, list) and isinstance(history, list) and isinstance(notes, dict)):
        raise PackError("its record is incomplete.")
    if not (1 <= len(aliases) <= MAX_ALIASES and all(isinstance(a, str) for a in aliases)):
        raise PackError(f"it has {len(aliases)} aliases; a pack has 1 to {MAX_ALIASES}.")
    if any(not isinstance(record.get(name, ""), str) for name in _TEXTS):
        raise PackError("its record holds something else than text where text belongs.")
    try:
        blob = tensors["titles"].tobytes().decode()
        return EntityPack(
            entity=_entity(record, aliases),
            priors=tensors["prior"],
            neighbours=tensors["neighbours"],
            titles=tuple(blob.split("\n")) if blob else (),
            relatedness=tensors["relatedness"],
            vector=tensors["embedding"],
            kb_fingerprint=record["kb"],
            model_fingerprint=record["model"],
            labels_fingerprint=record["labels"],
            encoder=record.get("encoder", ""),
            vocabularies=_vocabularies(record.get("vocabularies", {})),
            groups={name.removeprefix("group."): values for name, values in rest.items()},
            history=tuple(history),
            description=record["description"],
            notes=notes,
        )
    except (KeyError, UnicodeDecodeError) as error:
        raise PackError(f"its record is incomplete ({error}).") from error
    except SettingsError as error:
        raise PackError(str(error)) from error


def _entity(record: Mapping[str, Any], aliases: list[str]) -> EmergingEntity:
    identity = record.get("identity", {})
    is_table = isinstance(identity, dict) and set(identity) <= {"id", "type", "url"}
    if not is_table or any(not isinstance(v, str) or not v for v in identity.values()):
        raise PackError("what it says of the entity's identity is no table of texts.")
    known = (identity.get(name, "") for name in ("id", "type", "url"))
    return EmergingEntity(record["entity"], tuple(aliases), record.get("about", ""), *known)


def _vocabularies(value: object) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, dict) or len(value) > MAX_VOCABULARIES:
        raise PackError("its vocabularies are no table of words.")
    for words in value.values():
        if not (isinstance(words, list) and len(words) <= MAX_WORDS):
            raise PackError("a vocabulary in it is no list of words, or too long.")
        if any(not is_line(word, MAX_NAME) for word in words):
            raise PackError("a vocabulary in it holds something else than words.")
    return {str(name): tuple(words) for name, words in value.items()}
