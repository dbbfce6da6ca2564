"""Which sentence encoder reads the text: the installed one, a named one, or none."""

from __future__ import annotations

from collections.abc import Set
from functools import lru_cache

from stamo.errors import ArtifactMismatchError, MissingExtraError
from stamo.features.pile import TextEncoder

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


def encoder_for(fingerprints: Set[str]) -> TextEncoder | None:
    """Return the encoder that packs were learned with; None where none was.

    Raises:
        MissingExtraError: The extra is not installed.
        ArtifactMismatchError: They were learned with another encoder than the installed one.
    """
    if not fingerprints:
        return None
    encoder = _load(None)
    if fingerprints != {encoder.fingerprint}:
        raise ArtifactMismatchError(
            f"A pack reads text with the sentence encoder {min(fingerprints)[:12]}, but the one "
            f"installed is {encoder.fingerprint[:12]}; install that one or learn the entity again."
        )
    return encoder
