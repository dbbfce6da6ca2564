"""The slots of a learning run on disk: θ̂(e*) after each one, and what it did.

A slot is one safetensors file that is written beside its place and renamed, so a reader never sees
half of one. All slots of a run carry the run's key: a hash of everything that decides its result.
Slots with another key belong to an earlier run and are dropped when a new one starts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from stamo.errors import WorkspaceError
from stamo.features.base import FeatureParams
from stamo.learning.loop import Checkpoint, Moments
from stamo.system.files import read_json, to_json, write_atomic

SUFFIX = ".safetensors"
FOLDS = ".left-out.json"
MAX_FALL = 0.15
"""Precision on left-out labels may fall this far over the slots: with twenty, less is noise."""


@dataclass(frozen=True)
class Rates:
    """How well labels were predicted by a run that did not see them."""

    precision: float
    recall: float
    f1: float
    accuracy: float


@dataclass(frozen=True)
class SlotRecord:
    """What one slot did; slot 0 is the labels alone."""

    number: int
    share: float
    """Share of the unlabelled mentions that would link to e*."""
    n_flipped: int
    """Pseudo-labels that changed since the slot before."""
    moved: Mapping[str, float] = field(default_factory=dict)
    """How far each group of θ(e*) moved, relative to its size."""
    left_out: Rates | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain values, rounded so that they read well."""
        value: dict[str, Any] = asdict(self)
        value["share"] = round(self.share, 6)
        for name in ("moved", "left_out"):
            value[name] = value[name] and {k: round(x, 6) for k, x in value[name].items()}
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> SlotRecord:
        """Read back what `to_json` gave."""
        left_out = value["left_out"]
        return cls(
            int(value["number"]),
            float(value["share"]),
            int(value["n_flipped"]),
            {str(name): float(x) for name, x in value["moved"].items()},
            None if left_out is None else Rates(**left_out),
        )


@dataclass(frozen=True)
class SlotStore:
    """The slots of one run in a folder."""

    folder: Path
    key: str

    def start(self) -> int:
        """Drop the slots of other runs; return how many of this run are there."""
        self.folder.mkdir(exist_ok=True)
        n = 0
        for path in sorted(self.folder.glob(f"*{SUFFIX}")):
            if path == self._path(n + 1) and _read(path)[1].get("key") == self.key:
                n += 1
            else:
                path.unlink()
        return n

    def save(self, record: SlotRecord, slot: Checkpoint) -> None:
        """Write a slot."""
        metadata = {"key": self.key, "record": record.to_json(), "n_unchanged": slot.n_unchanged}
        sets = {"theta": slot.theta_hat}
        if slot.moments is not None:
            sets |= {"s": slot.moments.s, "v": slot.moments.v}
        tensors = {
            f"{part}/{name}": values.contiguous().clone()
            for part, params in sets.items()
            for name, values in params.groups.items()
        }
        tensors["pseudo-labels"] = torch.from_numpy(slot.pseudo_labels).contiguous()
        data = bytes(save(tensors, {"stamo": json.dumps(metadata, sort_keys=True)}))
        write_atomic(self._path(slot.number), data)

    def load(self, number: int) -> tuple[SlotRecord, Checkpoint]:
        """Read a slot.

        Raises:
            WorkspaceError: There is none, or it is damaged or of another run.
        """
        path = self._path(number)
        if not path.exists():
            there = [int(p.stem) for p in sorted(self.folder.glob(f"*{SUFFIX}"))]
            said = f"slots 1 to {max(there)} are there" if there else "learn first"
            raise WorkspaceError(f"There is no slot {number}; {said}.")
        tensors, metadata = _read(path)
        if metadata.get("key") != self.key:
            raise WorkspaceError(
                f"Slot {number} was learned from other labels or documents; learn again."
            )
        record = SlotRecord.from_json(metadata["record"])
        moments = None
        if any(name.startswith("s/") for name in tensors):
            moments = Moments(_params(tensors, "s/"), _params(tensors, "v/"))
        checkpoint = Checkpoint(
            number=number,
            theta_hat=_params(tensors, "theta/"),
            pseudo_labels=tensors["pseudo-labels"].numpy(),
            moments=moments,
            n_unchanged=int(metadata["n_unchanged"]),
        )
        return record, checkpoint

    def save_folds(self, folds: Mapping[str, Any]) -> None:
        """Keep what cross-validation found so far."""
        write_atomic(self.folder / FOLDS, to_json({"key": self.key, "folds": folds}))

    def load_folds(self) -> dict[str, Any]:
        """Return what cross-validation of this run found before."""
        path = self.folder / FOLDS
        if not path.exists():
            return {}
        value = read_json(path)
        return dict(value["folds"]) if value.get("key") == self.key else {}

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:05d}{SUFFIX}"


def _params(tensors: Mapping[str, torch.Tensor], prefix: str) -> FeatureParams:
    names = [name for name in tensors if name.startswith(prefix)]
    return FeatureParams({name.removeprefix(prefix): tensors[name] for name in names})


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        data = path.read_bytes()
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        metadata = json.loads(header["__metadata__"]["stamo"])
        return load(data), metadata
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise WorkspaceError(
            f"{path} is damaged ({error}); delete the folder {path.parent} and learn again."
        ) from error


def collapse_alarm(records: Sequence[SlotRecord]) -> str | None:
    """Say when self-training runs away: e* takes over or dies out, or precision decays.

    Args:
        records: The labels alone, then each slot.
    """
    if len(records) < 2:
        return None
    first, last = records[0], records[-1]
    is_out = last.share < first.share / 2
    if is_out or last.share > max(2 * first.share, first.share + 0.1):
        return (
            f"The share of mentions that link to it {'fell' if is_out else 'rose'} from "
            f"{first.share:.0%} to {last.share:.0%} over the slots; roll back to an earlier slot."
        )
    precisions = [(r.number, r.left_out.precision) for r in records if r.left_out is not None]
    if not precisions:
        return None
    number, best = max(precisions, key=lambda item: item[1])
    if best - precisions[-1][1] > MAX_FALL:
        return (
            f"Precision on left-out labels fell from {best:.2f} in slot {number} to "
            f"{precisions[-1][1]:.2f}; roll back to that slot."
        )
    return None
