"""What a sentence encoder learned from a knowledge base: low-rank additions to its weights.

They are trained by `stamo.models.adapter` and added to the weights when the encoder is loaded, so
reading a text costs the same with and without them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from stamo.errors import ModelError
from stamo.system.files import write_atomic

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = "stamo adapter"
SHIPPED = "adapter.safetensors"
"""Learned from an English Wikipedia of 2006; `stamo-lab adapter` makes it again."""
DOWN, UP = ".down", ".up"


@dataclass(frozen=True, eq=False)
class Adapter:
    """Low-rank additions to the weights of one encoder: `up @ down` for each adapted layer."""

    factors: Mapping[str, NDArray[Any]]
    """By layer: `*.down`, (rank, inputs), and `*.up`, (outputs, rank)."""
    encoder: str
    """The fingerprint of the encoder as it comes, without any adapter."""
    kb: str
    """The fingerprint of the knowledge base whose links were read."""

    @property
    def fingerprint(self) -> str:
        """Return a hash of everything that is saved."""
        return hashlib.sha256(self.to_bytes()).hexdigest()[:16]

    def merged(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return an encoder's weights with the additions; the others are the same tensors."""
        import torch

        found = dict(weights)
        for layer in sorted(name.removesuffix(UP) for name in self.factors if name.endswith(UP)):
            up, down = (torch.from_numpy(self.factors[layer + end]).float() for end in (UP, DOWN))
            found[f"{layer}.weight"] = weights[f"{layer}.weight"] + up @ down
        return found

    def to_bytes(self) -> bytes:
        """Return the file that `load` reads."""
        about = {"format": FORMAT, "encoder": self.encoder, "kb": self.kb}
        return bytes(save(dict(self.factors), {"stamo": json.dumps(about, sort_keys=True)}))

    def save(self, path: Path) -> None:
        """Write the adapter; an interrupted write leaves the old file as it was."""
        write_atomic(path, self.to_bytes())

    @classmethod
    def load(cls, path: Path) -> Adapter:
        """Load a saved adapter.

        Raises:
            ModelError: The file is missing or no adapter.
        """
        try:
            data = path.read_bytes()
            head = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
            about = json.loads(head["__metadata__"]["stamo"])
            if about.pop("format") != FORMAT:
                raise ValueError("it is another file")
            factors = load(data)
            if not all(bool(np.isfinite(values).all()) for values in factors.values()):
                raise ValueError("a number is not finite")
            return cls(factors, **about)
        except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
            raise ModelError(
                f"{path} is no readable adapter ({error}); make it again with `stamo train`."
            ) from error


@cache
def shipped_adapter() -> Adapter:
    """Return the adapter that the package brings for its encoder."""
    with resources.as_file(resources.files("stamo.features") / SHIPPED) as path:
        return Adapter.load(path)
