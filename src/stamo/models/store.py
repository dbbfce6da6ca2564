"""Saved models: one safetensors file that knows which knowledge base it belongs to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from stamo.errors import ArtifactMismatchError, ModelError
from stamo.features.mentions import EncodingSettings
from stamo.kb.base import KnowledgeBase
from stamo.models.calibration import Calibration
from stamo.models.counted import FITTED, WITH_WORDS, CountedScores
from stamo.models.deeped_known import KnownDeepED
from stamo.models.tables import Tables, WordKind, check_kind, model_tables
from stamo.system.files import Float32, write_atomic

if TYPE_CHECKING:
    from stamo.models.base import LinkingModel

MODEL_VERSION = 1
MAX_MODEL_BYTES = 64 * 2**20
MODEL_SUFFIX = ".safetensors"
_START_BYTES = 1 << 16
CHECKSUM = "sha256"
"""The key of a saved model's fingerprint; files of the first release have none."""

_KEYS = {"format", "version", "model", "extra", "dimensions", "kb", "encoding", "words"}
_KEYS |= {"calibration", "report", CHECKSUM}


KnownScorer: TypeAlias = "LinkingModel | KnownDeepED | CountedScores"
"""φ: a model, the arrays of one, or what links without one; each scores known candidates."""


@dataclass(frozen=True)
class TrainedModel:
    """A linking model with what is needed to use it."""

    source: KnownScorer
    dimensions: int
    kb_fingerprint: str
    encoding: EncodingSettings = field(default_factory=EncodingSettings)
    words: WordKind = "plain"
    """Which word vectors f₄ the model was trained with."""
    calibration: Calibration = field(default_factory=Calibration)
    report: Mapping[str, Any] = field(default_factory=dict)
    """How it was trained and what it reached; plain values only."""

    @cached_property
    def model(self) -> LinkingModel:
        """The model; of one that was loaded as arrays it is made when it is first needed."""
        if isinstance(self.source, KnownDeepED | CountedScores):
            return self.source.to_model()
        return self.source

    def __repr__(self) -> str:
        return f"<TrainedModel {self.source.name}: {self.dimensions} dimensions>"

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
        if isinstance(self.source, CountedScores):
            return self.source.tables(kb)
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
        "model": trained.source.name,
        "extra": list(trained.source.extra),
        "dimensions": trained.dimensions,
        "kb": trained.kb_fingerprint,
        "encoding": asdict(trained.encoding),
        "words": trained.words,
        "calibration": asdict(trained.calibration),
        "report": trained.report,
        **({CHECKSUM: checksum} if checksum else {}),
    }
    arrays = {name: np.ascontiguousarray(v) for name, v in trained.source.state.items()}
    # One key keeps the order of the bytes fixed whatever the order of the fields.
    return bytes(save(arrays, {"stamo": json.dumps(metadata, sort_keys=True)}))


def without_training(kb: KnowledgeBase) -> TrainedModel:
    """Return what links by counts and vectors alone, for any knowledge base."""
    scores = WITH_WORDS if kb.dimensions else CountedScores()
    return TrainedModel(scores, kb.dimensions, kb.fingerprint, calibration=FITTED)


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
    trained = _from_parts(path, metadata, state)
    if CHECKSUM in metadata and metadata[CHECKSUM] != trained.fingerprint:
        raise ModelError(
            f"{path.name} is damaged: its content does not match its checksum; copy it again or "
            "train it again."
        )
    return trained


def _from_parts(path: Path, metadata: dict[str, Any], state: dict[str, Float32]) -> TrainedModel:
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
    try:
        return TrainedModel(
            source=_source(metadata, state),
            dimensions=int(metadata["dimensions"]),
            kb_fingerprint=str(metadata["kb"]),
            encoding=EncodingSettings(**metadata["encoding"]),
            words=check_kind(metadata.get("words", "plain")),
            calibration=Calibration(**metadata["calibration"]),
            report=metadata["report"],
        )
    except (KeyError, TypeError, ValueError, RuntimeError, ModelError) as error:
        raise ModelError(
            f"{path.name} does not hold what a stamo model needs ({error}); train it again."
        ) from error


def _source(metadata: dict[str, Any], state: dict[str, Float32]) -> LinkingModel | KnownDeepED:
    """Return DeepED with its own features as arrays, any other model as it is."""
    if metadata["model"] == KnownDeepED.name and metadata["extra"] == []:
        arrays = KnownDeepED(state)
        arrays.check(int(metadata["dimensions"]))
        return arrays
    import torch  # here, so that linking with DeepED starts without it

    from stamo.models.kinds import make_model

    model = make_model(metadata["model"], metadata["dimensions"], metadata["extra"])
    model.load_state_dict({name: torch.from_numpy(values) for name, values in state.items()})
    return model.eval().requires_grad_(False)
