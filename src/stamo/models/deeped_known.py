"""DeepED for known candidates in NumPy: all that linking needs, so that it starts without torch.

The numbers of `DeepED.forward`, in three quarters of the time of blocks of it. Where context words
have the very same support, the two may attend to other ones of them: a candidate without a vector
supports every word by 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from stamo.errors import ModelError
from stamo.features.base import Feature
from stamo.features.mentions import EncodedMentions
from stamo.features.prior import Prior
from stamo.features.relatedness import Relatedness
from stamo.models.tables import (
    MASKED,
    MAX_BLOCK_MENTIONS,
    LocalVectors,
    Tables,
    blocks,
    mean_rows,
)
from stamo.system.files import Bools, Float32

if TYPE_CHECKING:
    from stamo.models.deeped import DeepED

N_ATTENDED = 50
"""H', the context words that attention keeps."""


def select_words(support: Float32, mask: Bools, n_attended: int) -> tuple[Float32, Bools]:
    """Select the H' words with the highest support; see `DeepED.select`."""
    support = np.where(mask, support, np.float32(MASKED))
    n_left = support.shape[1] - n_attended
    if n_left > 0:
        order = np.argpartition(support, n_left, axis=1)
        np.put_along_axis(support, order[:, :n_left], MASKED, axis=1)
    return support, support > MASKED / 2


def attend(support: Float32, counted: Bools) -> Float32:
    """Weight the selected words by their support (Eq. 9)."""
    alpha: Float32 = np.exp(support - support.max(axis=1, keepdims=True))
    alpha /= alpha.sum(axis=1, keepdims=True)
    alpha *= counted
    return alpha


@dataclass(frozen=True)
class KnownDeepED:
    """φ of DeepED as arrays, by the names that a saved model gives them."""

    state: Mapping[str, Float32]
    extra: tuple[str, ...] = ()
    n_attended: int = N_ATTENDED

    name = "deeped"
    encoded_features: ClassVar[tuple[Feature, ...]] = (Prior(), Relatedness())
    """The features that are looked up once, when mentions are encoded."""

    def check(self, dimensions: int) -> None:
        """Refuse arrays that are not those of a model for vectors of `dimensions`.

        Raises:
            ModelError: One is missing, one is too much, or one has another shape.
        """
        hidden = self.state["combine.0.bias"].shape if "combine.0.bias" in self.state else ()
        n_hidden = hidden[0] if len(hidden) == 1 else 0
        shapes = {f"phi{i}": (dimensions,) for i in (1, 2, 3)} | {
            "combine.0.weight": (n_hidden, 4 + len(self.extra)),
            "combine.0.bias": (n_hidden,),
            "combine.3.weight": (1, n_hidden),
            "combine.3.bias": (1,),
        }
        found = {name: values.shape for name, values in self.state.items()}
        if found != shapes:
            raise ModelError(f"its arrays are {found}, expected are {shapes}")

    def to_model(self) -> DeepED:
        """Return the same model in torch, which also explains and learns."""
        import torch

        from stamo.models.deeped import DeepED

        model = DeepED(len(self.state["phi1"]), n_attended=self.n_attended)
        model.load_state_dict({name: torch.from_numpy(v) for name, v in self.state.items()})
        return model.eval().requires_grad_(False)

    def score_known(self, mentions: EncodedMentions, tables: Tables) -> Float32:
        """Return g(e; m) of mentions whose candidates are all known, (M, C)."""
        scores = np.full(mentions.candidates.shape, MASKED, dtype=np.float32)
        width = mentions.mask.sum(axis=1)
        words = LocalVectors.of(tables.words, mentions.words)
        word_place = words.place[mentions.words]
        entities = LocalVectors.of(tables.entities, mentions.candidates, mentions.context)
        candidates = entities.place[mentions.candidates]
        coherence = mean_rows(entities, mentions.context) * self.state["phi3"]  # (M, Q)
        # One space for the words of every block: fresh memory costs more than copying into it.
        space = np.empty(
            (MAX_BLOCK_MENTIONS * word_place.shape[1], words.rows.shape[1]), np.float32
        )
        names = ("prior", "relatedness", *self.extra)
        known = np.stack([mentions.known[name] for name in names], axis=-1)
        for rows in blocks(width):
            place = candidates[rows, : int(width[rows[-1]])]  # (b, c)
            vectors = entities.rows.take(place, axis=0)  # (b, c, Q)
            around = word_place[rows]  # (b, H)
            gathered = space[: around.size]
            # Without "clip" it is buffered.
            words.rows.take(around.ravel(), axis=0, out=gathered, mode="clip")
            is_padding = place == len(entities.rows) - 1, around == len(words.rows) - 1
            attended = self._attended(vectors, gathered.reshape(*around.shape, -1), *is_padding)
            psi = np.empty((*place.shape, 2 + known.shape[2]), dtype=np.float32)
            psi[..., 0] = known[rows, : place.shape[1], 0]
            psi[..., 1:3] = vectors @ np.stack([attended, coherence[rows]], axis=2)
            psi[..., 3:] = known[rows, : place.shape[1], 1:]
            scores[rows, : place.shape[1]] = self._combine(psi)
        return np.where(mentions.mask, scores, np.float32(MASKED))

    def _attended(
        self, vectors: Float32, words: Float32, no_candidate: Bools, no_word: Bools
    ) -> Float32:
        """Return φ₁ times the attended sum of the context words (Eq. 7 to 9), (b, Q).

        Args:
            vectors: Those of the candidates, (b, c, Q).
            words: Those of the context words, (b, H, Q).
            no_candidate: Where the candidates are padding, (b, c).
            no_word: Where the words are padding, (b, H).
        """
        by_candidate = (vectors * self.state["phi2"]) @ words.transpose(0, 2, 1)  # (b, c, H)
        if no_candidate.any():
            by_candidate[no_candidate] = MASKED
        # u(w), Eq. 8
        alpha = attend(*select_words(by_candidate.max(axis=1), ~no_word, self.n_attended))
        return np.asarray((alpha[:, None] @ words)[:, 0] * self.state["phi1"])

    def _combine(self, psi: Float32) -> Float32:
        """Return Γ(Ψ), (b, c), of scores (b, c, n)."""
        weights = np.ascontiguousarray(self.state["combine.0.weight"].T)
        layer = psi.reshape(-1, psi.shape[-1]) @ weights
        layer += self.state["combine.0.bias"]
        np.maximum(layer, 0.0, out=layer)
        values = layer @ self.state["combine.3.weight"][0] + self.state["combine.3.bias"]
        return np.asarray(values.reshape(psi.shape[:-1]))
