"""DeepED's scores of many mentions at once, for linking: the numbers of `DeepED.forward`.

Nothing is looked up twice and nothing large is allocated twice: the vectors that a batch of
documents uses are gathered once, mentions with alike numbers of candidates are scored together, and
means over contexts are taken without copying what they are means of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from stamo.features.encoding import EncodedMentions, FloatArray, IntArray
from stamo.models.base import MASKED, Tables, Vectors
from stamo.models.blocks import MENTIONS_PER_BLOCK, blocks

if TYPE_CHECKING:
    from stamo.models.deeped.model import DeepED


@dataclass(frozen=True)
class Local:
    """The vectors that some mentions use, renumbered."""

    place: Tensor  # the ids' shape: row of each id, the last one for padding
    rows: Tensor  # (n + 1, Q), the last one is the zero of padding

    @classmethod
    def of(cls, table: Vectors, ids: IntArray) -> Local:
        """Gather the distinct vectors of some ids, padded with -1."""
        seen = np.zeros(int(ids.max(initial=-1)) + 2, dtype=np.bool_)
        seen[ids] = True  # padding, -1, marks the last cell
        distinct = np.flatnonzero(seen[:-1])
        place = np.full(len(seen), len(distinct), dtype=np.int32)
        place[distinct] = np.arange(len(distinct), dtype=np.int32)
        rows = np.zeros((len(distinct) + 1, table.shape[1]), dtype=np.float32)
        rows[:-1] = table[distinct]
        return cls(torch.from_numpy(place[ids]), torch.from_numpy(rows))

    def mean(self, place: Tensor) -> Tensor:
        """Return the mean vector of each row of places, padding left out, (m, Q)."""
        size = (place < len(self.rows) - 1).sum(dim=1, keepdim=True).clamp_min(1)
        return embedding_bag(place, self.rows, mode="sum") / size


@torch.inference_mode()
def score_deeped(model: DeepED, mentions: EncodedMentions, tables: Tables) -> FloatArray:
    """Return g(e; m) of mentions whose candidates are all known, (M, C)."""
    scores = torch.full(mentions.candidates.shape, MASKED)
    width = mentions.mask.sum(axis=1)
    words = Local.of(tables.words, mentions.words)
    entities = Local.of(
        tables.entities, np.hstack([mentions.context, _without_padding(mentions.candidates)])
    )
    context, candidates = entities.place.tensor_split([mentions.context.shape[1]], dim=1)
    # One space for the words of every block: fresh memory would cost more than copying into it.
    space = torch.empty(MENTIONS_PER_BLOCK * mentions.words.shape[1], tables.dimensions)
    names = ("prior", "relatedness", *model.extra)
    known = torch.from_numpy(np.stack([mentions.known[name] for name in names], axis=-1))
    for rows in blocks(width):
        n_columns = int(width[rows[-1]])
        index = torch.from_numpy(rows)
        chosen = candidates[index, :n_columns]
        vectors = entities.rows.index_select(0, chosen.view(-1))
        vectors = vectors.view(*chosen.shape, tables.dimensions)  # (b, c, Q)
        attended = _attend(model, vectors, words, index, space)
        coherence = entities.mean(context[index]) * model.phi3
        mixed = torch.stack([attended, coherence], dim=2)  # (b, Q, 2)
        values = known[index, :n_columns]
        psi = torch.cat([values[..., :1], vectors @ mixed, values[..., 1:]], dim=2)
        scores[index, :n_columns] = model.combine(psi).squeeze(-1)
    return np.where(mentions.mask, scores.numpy(), np.float32(MASKED))


def _without_padding(candidates: IntArray) -> IntArray:
    """Repeat each mention's first candidate where there is none: no maximum changes by that."""
    return np.where(candidates >= 0, candidates, candidates[:, :1])


def _attend(model: DeepED, vectors: Tensor, words: Local, index: Tensor, space: Tensor) -> Tensor:
    """Return φ₁ times the attended sum of the context words (Eq. 7 to 9), (b, Q)."""
    place = words.place[index]  # (b, H)
    gathered = space[: place.numel()]
    torch.index_select(words.rows, 0, place.view(-1), out=gathered)
    gathered = gathered.view(*place.shape, -1)
    support = torch.bmm(vectors * model.phi2, gathered.transpose(1, 2)).amax(dim=1)  # (b, H)
    support.masked_fill_(place == len(words.rows) - 1, MASKED)
    if model.n_attended < support.shape[1]:
        support, kept = support.topk(model.n_attended, dim=1, sorted=False)
        place = place.gather(1, kept)
    alpha = torch.softmax(support, dim=1) * (support > MASKED / 2)
    return embedding_bag(place, words.rows, mode="sum", per_sample_weights=alpha) * model.phi1
