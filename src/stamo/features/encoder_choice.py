"""Which sentence encoder reads the text, if any, and what it read, kept in a file.

Reading is the slow part of learning.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from stamo.errors import ArtifactMismatchError, MissingExtraError
from stamo.features.pile import TextEncoder
from stamo.system.files import Float32, Int64, write_atomic

_KEY_BYTES = 16


class CachedEncoder:
    """An encoder that reads each text once; `save` keeps the rows for the next process.

    A file that is damaged or of another encoder is as good as none: its rows are made again.
    """

    def __init__(self, encoder: TextEncoder, path: Path) -> None:
        self._encoder, self._path = encoder, path
        self.fingerprint, self.languages = encoder.fingerprint, encoder.languages
        self._rows = _read_rows(path, encoder.fingerprint)
        self._n_saved = len(self._rows)

    def encode(self, texts: Sequence[str]) -> Float32:
        """Return one unit row for each text, (n, d)."""
        return self._rows_of(texts, lambda rows: self._encoder.encode([texts[i] for i in rows]))

    def encode_spans(
        self, texts: Sequence[str], starts: Int64, ends: Int64
    ) -> tuple[Float32, Float32]:
        """Return a row for each text and one for the words in and near its span, (n, d) each."""
        spans = zip(texts, starts.tolist(), ends.tolist(), strict=True)
        marked = [f"{start} {end} {text}" for text, start, end in spans]

        def read(rows: list[int]) -> Float32:
            chosen = [texts[i] for i in rows]
            return np.hstack(self._encoder.encode_spans(chosen, starts[rows], ends[rows]))

        both = self._rows_of(marked, read)
        return both[:, : both.shape[1] // 2], both[:, both.shape[1] // 2 :]

    def save(self) -> None:
        """Write what was read since the file was; nothing where nothing was."""
        if len(self._rows) == self._n_saved:
            return
        widths = sorted({len(row) for row in self._rows.values()})
        tensors = {}
        for width in widths:
            kept = {key: row for key, row in self._rows.items() if len(row) == width}
            tensors[f"keys {width}"] = np.frombuffer(b"".join(kept), dtype=np.uint8)
            tensors[f"rows {width}"] = np.stack(list(kept.values()))
        write_atomic(self._path, save(tensors, {"encoder": self.fingerprint}))
        self._n_saved = len(self._rows)

    def _rows_of(self, said: Sequence[str], read: Callable[[list[int]], Float32]) -> Float32:
        """Return the row of each of what is said; `read` makes those that are not known."""
        texts = (text.encode("utf-8", "replace") for text in said)
        keys = [hashlib.blake2b(text, digest_size=_KEY_BYTES).digest() for text in texts]
        place = {key: i for i, key in enumerate(keys) if key not in self._rows}
        missing = sorted(place.values())
        if missing:
            for i, row in zip(missing, read(missing), strict=True):
                self._rows[keys[i]] = row
        if not keys:
            return np.zeros((0, 0), dtype=np.float32)
        return np.stack([self._rows[key] for key in keys])


def remembering(encoder: TextEncoder | None, path: Path) -> CachedEncoder | None:
    """Return an encoder that remembers what a file keeps; None of none."""
    return None if encoder is None else CachedEncoder(encoder, path)


def _read_rows(path: Path, fingerprint: str) -> dict[bytes, Float32]:
    rows: dict[bytes, Float32] = {}
    try:
        with safe_open(path, "numpy") as file:
            if (file.metadata() or {}).get("encoder") != fingerprint:
                return {}
            for name in file.keys():  # noqa: SIM118 (no mapping)
                if name.startswith("rows "):
                    values = file.get_tensor(name)
                    keys = file.get_tensor(name.replace("rows", "keys")).tobytes()
                    rows |= {
                        keys[i * _KEY_BYTES : (i + 1) * _KEY_BYTES]: row
                        for i, row in enumerate(values)
                    }
    except (OSError, SafetensorError, ValueError):
        return {}
    return rows


INSTALLED = "installed"
"""Stands for the encoder of the extra `encoder`, or none where the extra is not installed."""


@lru_cache(maxsize=2)
def _load(name: str | None) -> TextEncoder:
    from stamo.features.encoder import load_encoder

    return load_encoder(name)


def encoder_of(encoder: TextEncoder | str | None) -> TextEncoder | None:
    """Return an encoder itself, the installed one, that of a folder, or None.

    Raises:
        MissingExtraError: A folder is given, but the extra is not installed.
    """
    if encoder is None or not isinstance(encoder, str):
        return encoder
    if encoder != INSTALLED:
        return _load(encoder)
    try:
        return _load(None)
    except MissingExtraError:
        return None


def encoder_for(fingerprint: str) -> TextEncoder | None:
    """Return the encoder that a pack was learned with; None of the empty one, without any.

    Raises:
        MissingExtraError: The extra is not installed.
        ArtifactMismatchError: It was learned with another encoder than the installed one.
    """
    if not fingerprint:
        return None
    encoder = _load(None)
    if fingerprint != encoder.fingerprint:
        raise ArtifactMismatchError(
            f"A pack reads text with the sentence encoder {fingerprint[:12]}, but the one "
            f"installed is {encoder.fingerprint[:12]}; install that one or learn the entity again."
        )
    return encoder
