"""How fast windows of text are encoded, beside the encoder's layers alone in the same run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
import torch

from stamo.features.encoder import BATCH_TOKENS, Encoder
from stamo.system.processes import one_thread
from stamo_lab.usage import timed

N_ROUNDS = 3
"""Times that each way runs; the medians are compared."""


@dataclass(frozen=True)
class EncodeSpeed:
    """What `stamo bench encode` measures, in seconds of one core."""

    encoder: str
    n_windows: int
    n_tokens: int
    windows_per_second: float
    tokens_per_second: float
    """From text to vectors: reading tokens, padding, layers, means."""
    bare_tokens_per_second: float
    """Of the layers alone, on full batches without padding."""

    @property
    def ratio(self) -> float:
        """Share of the bare speed that is left from text to vectors."""
        return self.tokens_per_second / self.bare_tokens_per_second


def measure_encoding(encoder: Encoder, windows: Sequence[str]) -> EncodeSpeed:
    """Encode windows with a span in the middle, and as many tokens by the layers alone."""
    lengths = [len(encoder.tokenizer.encode(window).ids) for window in windows]
    middles = np.array([len(window) // 2 for window in windows], dtype=np.int64)
    typical = int(median(lengths))
    ids = torch.ones((max(1, BATCH_TOKENS // typical), typical), dtype=torch.long)
    mask, n_batches = torch.ones_like(ids, dtype=torch.bool), -(-sum(lengths) // ids.numel())

    def whole() -> None:
        encoder.encode_spans(windows, middles, middles + 4)

    def bare() -> None:
        with torch.inference_mode():
            for _ in range(n_batches):
                encoder.forward(ids, mask)

    with one_thread():
        encoder.encode(windows[:8])  # warm
        # In turns, so that other load on the machine falls on both.
        rounds = [[timed(way)[1].cpu_seconds for way in (whole, bare)] for _ in range(N_ROUNDS)]
    ours, theirs = (median(times) for times in zip(*rounds, strict=True))
    return EncodeSpeed(
        encoder=encoder.name,
        n_windows=len(windows),
        n_tokens=sum(lengths),
        windows_per_second=len(windows) / ours,
        tokens_per_second=sum(lengths) / ours,
        bare_tokens_per_second=n_batches * ids.numel() / theirs,
    )
