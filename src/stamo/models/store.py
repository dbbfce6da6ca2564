"""Saved models: one safetensors file that knows which knowledge base it belongs to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from stamo.errors import ArtifactMismatchError, MissingExtraError, ModelError, SettingsError
from stamo.features.adapter import Adapter, shipped_adapter
from stamo.features.base import Feature
from stamo.features.embedding import Tables, WordKind, model_tables
from stamo.features.encoder import OUR_LANGUAGES, PURPOSE, CachedEncoder, load_encoder
from stamo.features.mentions import EncodingSettings
from stamo.features.pile import TextEncoder
from stamo.kb.base import KnowledgeBase
from stamo.models.base import Calibration, Model
from stamo.models.deeped import DeepED
from stamo.models.untrained import FITTED, Untrained
from stamo.models.weights import Weights
from stamo.models.yamada import Yamada
from stamo.system.files import Float32, write_atomic

MODELS: dict[str, type[Model]] = {DeepED.name: DeepED, Yamada.name: Yamada}
"""The linking models that the command line and saved files know by name."""
EXTRA_FEATURES: dict[str, Feature] = {}
"""Features beyond a model's own that saved files may name; each one adds a score."""
MODEL_VERSION = 2
MAX_MODEL_BYTES = 64 * 2**20
MODEL_SUFFIX = ".safetensors"
_START_BYTES = 1 << 16
CHECKSUM = "sha256"
"""The key of a saved model's fingerprint."""

_KEYS = {"format", "version", "model", "extra", "dimensions", "kb", "encoding", "words"}
_KEYS |= {"calibration", "report", "weights", "encoder", CHECKSUM}
_ADAPTER = "adapter."
"""How the names of the arrays begin that belong to the adapter."""


def make_model(
    name: str,
    dimensions: int,
    extra: Sequence[str] = (),
    phi: Mapping[str, Float32] | None = None,
    *,
    seed: int = 0,
) -> Model:
    """Create a model by name, with extra features by name; φ is drawn where none is given."""
    if name not in MODELS:
        raise SettingsError(f"There is no model {name!r}; choose one of {', '.join(MODELS)}.")
    for feature in extra:
        if feature not in EXTRA_FEATURES:
            raise SettingsError(
                f"There is no extra feature {feature!r}; add it to "
                "`stamo.models.store.EXTRA_FEATURES` first."
            )
    added = [EXTRA_FEATURES[feature] for feature in extra]
    return MODELS[name](dimensions, added, phi, seed=seed)


@dataclass(frozen=True)
class TrainedModel:
    """A linking model with what is needed to use it."""

    model: Model
    dimensions: int
    kb_fingerprint: str
    encoding: EncodingSettings = field(default_factory=EncodingSettings)
    words: WordKind = "plain"
    """Which word vectors f₄ the model was trained with."""
    calibration: Calibration = field(default_factory=Calibration)
    report: Mapping[str, Any] = field(default_factory=dict)
    """How it was trained and what it reached; plain values only."""
    weights: Mapping[str, Any] | None = None
    """What views of a new entity are worth, learned with the knowledge base; None: the package's
    (`stamo.models.weights`)."""
    adapter: Adapter | None = None
    """What the sentence encoder learned of the knowledge base; None: what the package brings."""

    def __repr__(self) -> str:
        return f"<TrainedModel {self.model.name}: {self.dimensions} dimensions>"

    @property
    def features(self) -> tuple[Feature, ...]:
        """What the model reads."""
        return self.model.features

    def check(self, kb: KnowledgeBase) -> None:
        """Refuse a knowledge base that the model was not trained with."""
        if kb.fingerprint != self.kb_fingerprint:
            raise ArtifactMismatchError(
                f"The model was trained with the knowledge base {self.kb_fingerprint[:12]}, but "
                f"{kb.name!r} is {kb.fingerprint[:12]}; use that knowledge base, train again with "
                "`stamo train`, or leave the model out."
            )

    def tables(self, kb: KnowledgeBase) -> Tables:
        """Return the vectors that the model looks up."""
        self.check(kb)
        return model_tables(kb, self.words)

    @property
    def fingerprint(self) -> str:
        """Return a hash of everything that is saved."""
        return hashlib.sha256(_to_bytes(self)).hexdigest()

    def save(self, path: Path) -> None:
        """Write the model with a checksum; an interrupted write leaves the old file as it was."""
        write_atomic(path, _to_bytes(self, self.fingerprint))


def _to_bytes(trained: TrainedModel, checksum: str = "") -> bytes:
    metadata = {
        "format": "stamo-model",
        "version": MODEL_VERSION,
        "model": trained.model.name,
        "extra": list(trained.model.extra),
        "dimensions": trained.dimensions,
        "kb": trained.kb_fingerprint,
        "encoding": asdict(trained.encoding),
        "words": trained.words,
        "calibration": asdict(trained.calibration),
        "report": trained.report,
        "weights": trained.weights,
        "encoder": trained.adapter.encoder if trained.adapter else "",
        **({CHECKSUM: checksum} if checksum else {}),
    }
    arrays = {name: np.ascontiguousarray(v) for name, v in trained.model.phi.items()}
    if trained.adapter is not None:
        arrays |= {f"{_ADAPTER}{name}": v for name, v in trained.adapter.factors.items()}
    # One key keeps the order of the bytes fixed whatever the order of the fields.
    return bytes(save(arrays, {"stamo": json.dumps(metadata, sort_keys=True)}))


def without_training(kb: KnowledgeBase) -> TrainedModel:
    """Return what links by counts and vectors alone, for any knowledge base."""
    return TrainedModel(
        Untrained(kb.dimensions),
        kb.dimensions,
        kb.fingerprint,
        words="weighted" if kb.dimensions else "plain",
        calibration=FITTED,
    )


def is_model(path: Path) -> bool:
    """Tell whether a path names a model, by its ending or by the first bytes of the file."""
    if path.suffix == MODEL_SUFFIX:
        return True
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return b'"stamo-model' in file.read(_START_BYTES).replace(b"\\", b"")


def load_model(path: str | Path) -> TrainedModel:
    """Load a saved model.

    Raises:
        ModelError: The file is missing, corrupted, too large or of another version.
    """
    path = Path(path)
    try:
        size = path.stat().st_size if path.is_file() else None
    except OSError:
        size = None
    if size is None:
        raise ModelError(f"There is no model file {path}; make one with `stamo train`.")
    if size > MAX_MODEL_BYTES:
        raise ModelError(
            f"{path.name} has more than {MAX_MODEL_BYTES} bytes; it is no stamo model."
        )
    try:
        with safe_open(path, "numpy") as file:
            metadata = json.loads((file.metadata() or {}).get("stamo", "{}"))
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise ModelError(f"{path.name} is no readable model ({error}); train it again.") from error
    is_model = isinstance(metadata, dict) and metadata.get("format") == "stamo-model"
    if not is_model or metadata.get("version") != MODEL_VERSION or set(metadata) - _KEYS:
        raise ModelError(
            f"{path.name} is not a stamo model of version {MODEL_VERSION}; train it again."
        )
    fitted = metadata.get("calibration")
    found = fitted.values() if isinstance(fitted, dict) else ()
    numbers: list[Any] = [
        *state.values(),
        *(np.float64(v) for v in found if isinstance(v, int | float)),
    ]
    if not numbers or not all(bool(np.isfinite(values).all()) for values in numbers):
        raise ModelError(f"{path.name} holds a number that is not finite; train it again.")
    factors = {n.removeprefix(_ADAPTER): state.pop(n) for n in [*state] if n.startswith(_ADAPTER)}
    try:
        for own in (metadata["weights"] or {}).values():
            Weights(**own)
        words = metadata.get("words", "plain")
        if words not in {"plain", "weighted"}:
            raise SettingsError(f"There are no {words!r} word vectors; choose plain or weighted.")
        trained = TrainedModel(
            model=make_model(
                metadata["model"], int(metadata["dimensions"]), metadata["extra"], state
            ),
            dimensions=int(metadata["dimensions"]),
            kb_fingerprint=str(metadata["kb"]),
            encoding=EncodingSettings(**metadata["encoding"]),
            words=words,
            calibration=Calibration(**metadata["calibration"]),
            report=metadata["report"],
            weights=metadata["weights"],
            adapter=Adapter(factors, metadata["encoder"], str(metadata["kb"])) if factors else None,
        )
    except (AttributeError, KeyError, TypeError, ValueError, ModelError, SettingsError) as error:
        raise ModelError(
            f"{path.name} does not hold what a stamo model needs ({error}); train it again."
        ) from error
    if CHECKSUM in metadata and metadata[CHECKSUM] != trained.fingerprint:
        raise ModelError(
            f"{path.name} is damaged: its content does not match its checksum; copy it again or "
            "train it again."
        )
    return trained


INSTALLED = "installed"
"""Stands for the encoder of the extra `encoder`, or none where the extra is not installed."""


def open_encoder(
    trained: TrainedModel,
    kb: KnowledgeBase,
    encoder: TextEncoder | str | None = INSTALLED,
    path: Path | None = None,
) -> TextEncoder | None:
    """Return what reads text beside a model: an encoder with what it learned of a knowledge base.

    Args:
        trained: The model; one that was trained without an encoder takes the package's adapter.
        kb: Its knowledge base. The package's adapter reads English; in another language nothing
            reads text unless the model brings its own.
        encoder: The one that is installed by default, a folder with another, an encoder itself, or
            None for none.
        path: A file that remembers what was read; save it with `CachedEncoder.save`.

    Raises:
        MissingExtraError: A folder is given, but the extra is not installed.
        ArtifactMismatchError: The model's adapter belongs to another encoder.
    """
    if isinstance(encoder, str):
        adapter = trained.adapter
        if adapter is None and kb.language not in OUR_LANGUAGES:
            return None
        try:
            name = None if encoder == INSTALLED else encoder
            encoder = _load(name, adapter or shipped_adapter())
        except MissingExtraError:
            if encoder != INSTALLED:
                raise
            return None
    if encoder is None or path is None:
        return encoder
    return CachedEncoder(encoder, path)


_load = lru_cache(maxsize=2)(load_encoder)


def encoder_of_pack(
    fingerprint: str, trained: TrainedModel, kb: KnowledgeBase, path: Path | None = None
) -> TextEncoder | None:
    """Return the encoder that a pack was learned with; None of the empty one, without any.

    Raises:
        MissingExtraError: The extra is not installed.
        ArtifactMismatchError: It was learned with another encoder than the one at hand.
    """
    if not fingerprint:
        return None
    encoder = open_encoder(trained, kb, path=path)
    if encoder is None:
        raise MissingExtraError("tokenizers", "encoder", PURPOSE)
    if fingerprint != encoder.fingerprint:
        raise ArtifactMismatchError(
            f"A pack reads text with the sentence encoder {fingerprint[:12]}, but the one at hand "
            f"is {encoder.fingerprint[:12]}; use that one or learn the entity again."
        )
    return encoder
