"""Entity packs: one small file makes an emerging entity linkable.

A pack is one safetensors file whose metadata holds one JSON record. It names its neighbours by
number, for speed, and by title, so that it can be read without the knowledge base and compared
with it. Whatever the bytes of a file are, loading gives a valid pack or raises `PackError`.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
from numpy.typing import ArrayLike, NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from stamo.corpus.types import MAX_NAME, EmergingEntity
from stamo.errors import ArtifactMismatchError, PackError, SettingsError
from stamo.kb.base import KnowledgeBase
from stamo.system.files import Float32, Int32, Int64, write_atomic

if TYPE_CHECKING:
    from stamo.models.store import TrainedModel

PACK_FORMAT = "stamo-pack"
PACK_VERSION = 2
PACK_SUFFIX = ".stamo"
MAX_PACK_BYTES = 8 * 2**20
MAX_TEXT = 20_000
MAX_VALUE = 1e6
MAX_GROUP = 1_000_000
"""Values of one group."""
MAX_SLOTS = 10_000
MAX_VOCABULARIES = 10
MAX_WORDS = 100_000
UNIT_TOLERANCE = 1e-3

NEIGHBOURS, DIMENSIONS = "neighbours", "dimensions"
"""The sizes of a pack that the shapes of its groups depend on."""
SHIFT = "decision-shift"
"""The group that holds what was added to the log odds to draw the line for F1."""
_VIEWED: dict[str, str | int] = {"words": DIMENSIONS, "description": 2, "longer-name": 2, "bias": 1}
SHAPES: Mapping[str, str | int] = {
    **{f"{kind}-{view}": n for kind in ("correction", "none") for view, n in _VIEWED.items()},
    "correction-scale": 1,
    SHIFT: 1,
    "keyphrase": NEIGHBOURS,
}
"""How many values a known group has: a number, or one of the pack's sizes."""
DESCRIPTION_GROUPS = ("correction-description", "none-description")
SENTENCE_GROUPS = ("correction-sentence", "none-sentence")
"""Groups whose size is that of the encoder, which is only known where it is installed."""
OWN_FIELDS = frozenset({"prior", "relatedness", "embedding"})
"""The groups of θ(e*) that are fields of a pack; all others are stored by name."""
RESERVED = OWN_FIELDS | {"neighbours", "titles"}
"""The arrays that are fields of a pack."""
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,40}")
_FINGERPRINT = re.compile(r"[0-9a-f]{8,128}")
_DTYPES = {"F32", "I32", "U8"}
_RECORD: Mapping[str, type] = {
    **dict.fromkeys(("entity", "about", "kb", "model", "labels", "encoder", "description"), str),
    **{"aliases": list, "history": list, "notes": dict, "vocabularies": dict},
}
"""What a record holds, by its keys."""

Record = dict[str, Any]
Tensors = dict[str, NDArray[Any]]


def read_bytes(path: Path) -> bytes:
    """Read a file, one byte further than a pack may be long."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_PACK_BYTES + 1)
    except OSError as error:
        raise PackError(
            f"The pack {path.name!r} cannot be read ({error.strerror}); check its path."
        ) from error


def content_hash(record: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> str:
    """Return the hash of a record and its arrays."""
    digest = hashlib.sha256(json.dumps(record, sort_keys=True).encode())
    for name in sorted(tensors):
        values = tensors[name]
        digest.update(f"\n{name} {values.dtype.str} {values.shape}\n".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()


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
    size = int.from_bytes(data[:8], "little")
    if len(data) < 10 or size > len(data) - 8:
        raise PackError("it is cut short or not a safetensors file.")
    try:
        # orjson refuses what is not JSON although Python reads it: NaN, 1e999, half a character.
        header = orjson.loads(data[8 : 8 + size])
        entries = [entry for name, entry in header.items() if name != "__metadata__"]
        is_ours = all(entry["dtype"] in _DTYPES for entry in entries)
        whole = orjson.loads(header["__metadata__"]["stamo"]) if is_ours else {}
        record, checksum = whole.get("pack"), whole.get("sha256")
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise PackError("its header is damaged, or of a file of something else.") from error
    if not is_ours:
        raise PackError("it holds arrays of another type than a pack has.")
    try:
        tensors = load(data)
    except (SafetensorError, ValueError, KeyError, OverflowError, MemoryError) as error:
        raise PackError(f"its arrays cannot be read ({error}).") from error
    if not isinstance(record, dict) or record.get("format") != PACK_FORMAT:
        raise PackError("it is a safetensors file of something else.")
    if record.get("version") != PACK_VERSION:
        raise PackError(f"it is not of format version {PACK_VERSION}; learn the entity again.")
    try:
        is_whole = content_hash(record, tensors) == checksum
    except RecursionError:
        is_whole = False
    if not is_whole:
        raise PackError("its content does not match its checksum; copy it again.")
    return record, tensors


def is_text(text: object, limit: int, allowed: str = "\n\t") -> bool:
    """Tell whether a value is a text that can be written and shown; "" allows a single line."""
    if not isinstance(text, str) or len(text) > limit:
        return False
    # A lone surrogate cannot be written; "Cc" are control characters.
    return not any(unicodedata.category(c) in ("Cs", "Cc") and c not in allowed for c in text)


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
        names = (self.entity.id, *self.entity.aliases, *self.titles)
        if not all(name and is_text(name, MAX_NAME, "") for name in names):
            raise PackError("a name in it is empty, too long or not a line of text.")
        notes = (*self.notes, *self.notes.values(), self.description, self.entity.description)
        if not all(is_text(note, MAX_TEXT) for note in notes):
            raise PackError("a note in it is too long or not text.")
        optional = (f or "0" * 8 for f in (self.labels_fingerprint, self.encoder))
        if not all(
            map(_FINGERPRINT.fullmatch, (self.kb_fingerprint, self.model_fingerprint, *optional))
        ):
            raise PackError("a fingerprint in it is not a hash.")
        if len(self.history) > MAX_SLOTS:
            n = len(self.history)
            raise PackError(f"its history has {n} slots; at most {MAX_SLOTS} are kept.")
        try:
            json.dumps([dict(slot) for slot in self.history], allow_nan=False)
        except (TypeError, ValueError) as error:
            raise PackError("its history holds something else than plain values.") from error
        vocabularies = self.vocabularies.values()
        if len(vocabularies) > MAX_VOCABULARIES or any(len(v) > MAX_WORDS for v in vocabularies):
            raise PackError("it has too many vocabularies, or one of them is too long.")
        if not all(is_text(word, MAX_NAME, "") for words in vocabularies for word in words):
            raise PackError("a vocabulary in it holds something else than words.")
        self._check_arrays()

    def _check_arrays(self) -> None:
        """Refuse numbers that a linker could not work with.

        A group that is not in `SHAPES` belongs to an added feature: one row of values.
        """
        n, r, groups = len(self.entity.aliases), len(self.titles), self.groups
        check_array("priors", self.priors, np.float32, (n,))
        check_array("neighbours", self.neighbours, np.int32, (r,))
        check_array("relatedness values", self.relatedness, np.float32, (r,))
        check_array("vector", self.vector, np.float32, (self.vector.size,))
        if not (float(self.priors.min()) >= 0 and float(self.priors.max()) <= 1):
            raise PackError("a prior lies outside 0 to 1; learn the entity again.")
        # Where no word near its mentions is known, it is 0 and says nothing.
        norm = float(np.linalg.norm(self.vector.astype(np.float64)))
        if not self.vector.size or (norm and abs(norm - 1) > UNIT_TOLERANCE):
            raise PackError("its vector has not the length 1; learn the entity again.")
        if r and (int(self.neighbours[0]) < 0 or bool((np.diff(self.neighbours) <= 0).any())):
            raise PackError("its neighbours are not in ascending order; learn the entity again.")
        sizes = {NEIGHBOURS: r, DIMENSIONS: self.vector.size}
        for name, values in groups.items():
            if name in RESERVED or not _NAME.fullmatch(name):
                raise PackError(
                    f"a group has the name {name[:50]!r}; use small letters and digits."
                )
            known = SHAPES.get(name, values.size)
            size = sizes[known] if isinstance(known, str) else known
            check_array(f"{name!r} group", values, np.float32, (size,))
            if size > MAX_GROUP:
                raise PackError(
                    f"its {name!r} group has {size} values; at most {MAX_GROUP} are read."
                )
        missing = {"correction-scale", "correction-bias"} - groups.keys()
        if missing and any(name.startswith("correction-") for name in groups):
            raise PackError(f"it has a correction but no {min(missing)!r}; learn the entity again.")
        words = len(self.vocabularies.get("neighbours", ()))
        for name in ("correction-neighbours", "none-neighbours"):
            if name in groups and groups[name].shape != (words,):
                raise PackError("its 'neighbours' words and their weights do not match.")
        if not self.encoder and not groups.keys().isdisjoint(SENTENCE_GROUPS):
            raise PackError("it weighs sentences but names no encoder; learn the entity again.")
        if not self.entity.line and not groups.keys().isdisjoint(DESCRIPTION_GROUPS):
            raise PackError(
                "it weighs a description of the entity but has none; learn the entity again."
            )

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
            MissingExtraError: It reads text, and no encoder is installed.
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
            raise self._bad("names neighbours that the knowledge base does not have")
        if tuple(kb.titles(self.neighbours)) != self.titles:
            raise self._bad("gives its neighbours other titles than the knowledge base")
        if len(self.vector) != kb.dimensions:
            raise self._bad(f"has a vector of {len(self.vector)}, not {kb.dimensions} dimensions")
        if self.encoder and trained is not None:
            from stamo.models.store import encoder_of_pack  # models are loaded where one is given

            encoder = encoder_of_pack(self.encoder, trained, kb)
            assert encoder is not None
            size = int(encoder.encode([""]).shape[1])
            for name in SENTENCE_GROUPS:
                if name in self.groups and self.groups[name].shape != (size,):
                    raise self._bad(f"has {self.groups[name].size} values of {name!r}, not {size}")

    def theta(self) -> dict[str, Float32]:
        """Return θ(e*) in the shapes that the features expect, (1, ...) each.

        The aliases and neighbours of a pile that it is looked up on must be the pack's own.
        """
        theta = {"prior": self.priors, "relatedness": self.relatedness, "embedding": self.vector}
        for name, values in self.groups.items():
            if name != SHIFT:  # the names of views are words, without hyphens
                is_fitted = name.startswith(("correction-", "none-"))
                theta[name.replace("-", " ") if is_fitted else name] = values
        return {name: values[None] for name, values in theta.items()}

    def strongest_neighbours(self, n: int) -> list[tuple[str, float]]:
        """Return the titles that the entity is most related to, the strongest first."""
        order: Int64 = np.argsort(-self.relatedness, kind="stable")[:n]
        return [(self.titles[i], float(self.relatedness[i])) for i in order.tolist()]

    def to_bytes(self) -> bytes:
        """Return the file's content; equal packs give equal bytes."""
        data = to_bytes(*self._parts())
        if len(data) > MAX_PACK_BYTES:
            raise self._bad(f"would take {len(data)} bytes, more than {MAX_PACK_BYTES}")
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
            record, arrays = parse_bytes(data)
            for key, kind in _RECORD.items():
                if not isinstance(record.get(key), kind):
                    raise PackError(f"its record is incomplete: {key!r} is no {kind.__name__}.")
            aliases, keys = record["aliases"], ("id", "type", "url")
            if not all(isinstance(alias, str) for alias in aliases):
                raise PackError("an alias in it is no text.")
            identity = record.get("identity", {})
            is_table = isinstance(identity, dict) and set(identity) <= set(keys)
            if not is_table or not all(isinstance(v, str) and v for v in identity.values()):
                raise PackError("what it says of the entity's identity is no table of texts.")
            if not all(isinstance(words, list) for words in record["vocabularies"].values()):
                raise PackError("a vocabulary in it is no list of words.")
            groups = {n: arrays.pop(n) for n in sorted(arrays) if n.startswith("group.")}
            if arrays.keys() != RESERVED:
                raise PackError("it holds other arrays than a pack has.")
            titles = arrays["titles"].tobytes().decode(errors="surrogateescape")
            known = (identity.get(key, "") for key in keys)
            return cls(
                entity=EmergingEntity(record["entity"], tuple(aliases), record["about"], *known),
                priors=arrays["prior"],
                neighbours=arrays["neighbours"],
                titles=tuple(titles.split("\n")) if titles else (),
                relatedness=arrays["relatedness"],
                vector=arrays["embedding"],
                kb_fingerprint=record["kb"],
                model_fingerprint=record["model"],
                labels_fingerprint=record["labels"],
                encoder=record["encoder"],
                vocabularies={view: tuple(own) for view, own in record["vocabularies"].items()},
                groups={n.removeprefix("group."): values for n, values in groups.items()},
                history=tuple(record["history"]),
                description=record["description"],
                notes=record["notes"],
            )
        except (PackError, SettingsError) as error:
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

    def _bad(self, what: str) -> PackError:
        return PackError(f"The pack of {self.entity.id!r} {what}; learn the entity again.")
