"""What a frozen sentence encoder makes of the text around a mention."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stamo.features.pile import Pile, TextEncoder
from stamo.features.views.base import View, unit_rows
from stamo.kb.base import KnowledgeBase
from stamo.system.arrays import Float64

WINDOW = 220
"""Characters on either side of a mention that are encoded together."""
PHRASE = 40
"""Characters on either side that are encoded alone: what a sentence on something else drowns."""
N_READINGS = 3


@dataclass(frozen=True)
class Sentence(View):
    """Three readings of the surroundings side by side, (M, 3 d).

    The windows around all mentions of the name in the document, on average; the words near the
    mention as the encoder sees them inside the window; and the few words around it alone.
    """

    name = "sentence"
    part = "sentence"
    is_centred = True
    reads_text = True

    variance: float = 20.0
    mean: float = 0.0

    def rows(self, pile: Pile, kb: KnowledgeBase) -> Float64:
        """Encode the surroundings; no columns without an encoder or without text."""
        if pile.encoder is None or pile.text is None:
            return np.zeros((len(pile), 0))
        windows = pile.text.windows(WINDOW)
        starts = np.array([window.start for window in windows], dtype=np.int64)
        ends = np.array([window.end for window in windows], dtype=np.int64)
        whole, near = pile.encoder.encode_spans([window.text for window in windows], starts, ends)
        phrase = pile.encoder.encode([window.text for window in pile.text.windows(PHRASE)])
        _, vote, _ = pile.votes
        sums = np.zeros((int(vote.max(initial=-1)) + 1, whole.shape[1]))
        np.add.at(sums, vote, whole)  # over the mentions of one name in one document
        together = unit_rows(sums)[vote].astype(np.float32)
        return unit_rows(np.hstack([together, near, phrase]).astype(np.float64))


def n_columns(encoder: TextEncoder) -> int:
    """Return how many columns the view has with an encoder."""
    return N_READINGS * int(encoder.encode([""]).shape[1])
