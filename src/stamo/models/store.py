"""Saved models: one safetensors file that knows which knowledge base it belongs to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from stamo.errors import ArtifactMismatchError, ModelError, SettingsError
from stamo.features.base import Feature
from stamo.features.encoding import EncodingSettings
from stamo.features.keyphrase import Keyphrase
from stamo.features.name import NameSimilarity
from stamo.features.relatedness import Relatedness
from stamo.kb.base import KnowledgeBase
from stamo.models.base import LinkingModel, Tables
from stamo.models.calibration import Calibration
from stamo.models.deeped.model import DeepED
from stamo.models.words import WordKind, check_kind, model_tables
from stamo.models.yamada.model import Yamada
from stamo.system.files import write_atomic

MODEL_VERSION = 1
MAX_MODEL_BYTES = 64 * 2**20
CHECKSUM = "sha256"
"""The key of a saved model's fingerprint; files of the first release have none."""

_KEYS = {"format", "version", "model", "extra", "dimensions", "kb", "encoding", "words"} | {
    "calibration",
    "report",
    CHECKSUM,
}

MODELS: Mapping[str, type[LinkingModel]] = {DeepED.name: DeepED, Yamada.name: Yamada}
"""The linking models that the command line knows by name."""

EXTRA_FEATURES: Mapping[str, Feature] = {
    feature.name: feature for feature in (Keyphrase(), NameSimilarity(), Relatedness())
}
"""Features that a model may have besides its own; each one adds a score."""


def make_model(name: str, dimensions: int, extra: Sequence[str] = ()) -> LinkingModel:
    """Create an untrained model by name, with extra features by name."""
    if name not in MODELS:
        raise SettingsError(f"There is no model {name!r}; choose one of {', '.join(MODELS)}.")
    unknown = [feature for feature in extra if feature not in EXTRA_FEATURES]
    if unknown:
        raise SettingsError(
            f"There is no extra feature {unknown[0]!r}; choose of {', '.join(EXTRA_FEATURES)}."
        )
    plain = MODELS[name](dimensions)
    twice = [feature for feature in extra if feature in {f.name for f in plain.features}]
    if twice:
        raise SettingsError(
            f"The model {name!r} has the feature {twice[0]!r} of its own; leave it out."
        )
    if not extra:
        return plain
    features = (*plain.features, *(EXTRA_FEATURES[feature] for feature in extra))
    return MODELS[name](dimensions, features=features)


@dataclass(frozen=True)
class TrainedModel:
    """A linking model with what is needed to use it."""

    model: LinkingModel
    dimensions: int
    kb_fingerprint: str
    encoding: EncodingSettings = field(default_factory=EncodingSettings)
    words: WordKind = "plain"
    """Which word vectors f₄ the model was trained with."""
    calibration: Calibration = field(default_factory=Calibration)
    report: Mapping[str, Any] = field(default_factory=dict)
    """How it was trained and what it reached; plain values only."""

    def check(self, kb: KnowledgeBase) -> None:
        """Refuse a knowledge base that the model was not trained with."""
        if kb.fingerprint != self.kb_fingerprint:
            raise ArtifactMismatchError(
                f"The model was trained with the knowledge base {self.kb_fingerprint[:12]}, but "
                f"{kb.name!r} is {kb.fingerprint[:12]}; use that knowledge base or train again."
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
        **({CHECKSUM: checksum} if checksum else {}),
    }
    tensors = {name: value.contiguous() for name, value in trained.model.state_dict().items()}
    # One key keeps the order of the bytes fixed whatever the order of the fields.
    return bytes(save(tensors, {"stamo": json.dumps(metadata, sort_keys=True)}))


def load_model(path: str | Path) -> TrainedModel:
    """Load a saved model.

    Raises:
        ModelError: The file is missing, corrupted, too large or of another version.
    """
    path = Path(path)
    if not path.is_file():
        raise ModelError(f"There is no model file {path}; make one with `stamo train`.")
    if path.stat().st_size > MAX_MODEL_BYTES:
        raise ModelError(
            f"{path.name} has more than {MAX_MODEL_BYTES} bytes; it is no stamo model."
        )
    try:
        with safe_open(path, "pt") as file:
            metadata = json.loads((file.metadata() or {}).get("stamo", "{}"))
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise ModelError(f"{path.name} is no readable model ({error}); train it again.") from error
    trained = _from_parts(path, metadata, state)
    if metadata.get(CHECKSUM, trained.fingerprint) != trained.fingerprint:
        raise ModelError(
            f"{path.name} is damaged: its content does not match its checksum; copy it again or "
            "train it again."
        )
    return trained


def _numbers(record: object) -> list[float]:
    values = record.values() if isinstance(record, dict) else ()
    return [float(value) for value in values if isinstance(value, int | float)]


def _from_parts(
    path: Path, metadata: dict[str, Any], state: dict[str, torch.Tensor]
) -> TrainedModel:
    is_model = isinstance(metadata, dict) and metadata.get("format") == "stamo-model"
    if not is_model or metadata.get("version") != MODEL_VERSION or set(metadata) - _KEYS:
        raise ModelError(
            f"{path.name} is not a stamo model of version {MODEL_VERSION}; train it again."
        )
    calibration = metadata.get("calibration")
    numbers = [*state.values(), *(torch.as_tensor(v) for v in _numbers(calibration))]
    if not numbers or not all(bool(torch.isfinite(values).all()) for values in numbers):
        raise ModelError(f"{path.name} holds a number that is not finite; train it again.")
    try:
        model = make_model(metadata["model"], metadata["dimensions"], metadata["extra"])
        model.load_state_dict(state)
        return TrainedModel(
            model=model.eval().requires_grad_(False),
            dimensions=int(metadata["dimensions"]),
            kb_fingerprint=str(metadata["kb"]),
            encoding=EncodingSettings(**metadata["encoding"]),
            words=check_kind(metadata.get("words", "plain")),
            calibration=Calibration(**metadata["calibration"]),
            report=metadata["report"],
        )
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ModelError(
            f"{path.name} does not hold what a stamo model needs ({error}); train it again."
        ) from error
