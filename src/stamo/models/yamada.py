"""Yamada: six similarity scores (Sec. 2.3.1)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rapidfuzz.distance import Levenshtein

from stamo.features.base import Array, Feature, Theta, append, unit
from stamo.features.embedding import Embedding, local_vectors, mean_rows
from stamo.features.mentions import EncodedMentions
from stamo.features.pile import Pile
from stamo.features.prior import Prior
from stamo.kb.base import KnowledgeBase
from stamo.models.base import Batch, Frozen, Model
from stamo.system.files import Float32

_QUALIFIER = re.compile(r"\s*\([^()]*\)$")


def surface_similarities(surfaces: Sequence[str], titles: Sequence[str]) -> Float32:
    """Return edit similarity, equal or contained, starts or ends with: shape (n, 3).

    A title's qualifier in brackets names the type, not the entity, and is left out.
    """
    rows = np.zeros((len(surfaces), 3), dtype=np.float32)
    for i, (surface, title) in enumerate(zip(surfaces, titles, strict=True)):
        mention, name = surface.casefold(), _QUALIFIER.sub("", title).casefold()
        rows[i] = (
            Levenshtein.normalized_similarity(mention, name),
            mention in name,
            name.startswith(mention) or name.endswith(mention),
        )
    return rows


@dataclass(frozen=True)
class Surface(Feature):
    """Edit distance, equality or containment, common start or end: three numbers, never learned.

    The name of an emerging entity is known from the start, so θ(e*) has no group for it.
    """

    name = "surface"

    def known(self, mentions: EncodedMentions, kb: KnowledgeBase) -> Float32:
        """Return the three similarities of the known candidates, (M, C, 3).

        Computed once for each distinct pair of surface and candidate.
        """
        width = mentions.candidates.shape[1]
        surfaces = np.repeat(mentions.surfaces.astype(np.int64), width)
        pairs = np.stack([surfaces, mentions.candidates.ravel()], axis=1)
        distinct, place = np.unique(pairs, axis=0, return_inverse=True)
        rows = np.flatnonzero(distinct[:, 1] >= 0)
        titles = kb.titles(distinct[rows, 1].astype(np.int32))
        found = surface_similarities([mentions.surface_table[i] for i in distinct[rows, 0]], titles)
        values = np.zeros((len(distinct), 3), dtype=np.float32)
        values[rows] = found
        return values[place.reshape(-1)].reshape(*mentions.candidates.shape, 3)

    def values(self, theta: Theta, pile: Pile) -> Array:
        """Return the three similarities of all candidates, (M, C + E, 3); θ(e*) has no part."""
        aliases, known = pile.aliases, pile.mentions.known[self.name]
        table = [surface_similarities(aliases, [e.id] * len(aliases)) for e in pile.entities]
        emerging = np.stack(table, axis=1)[pile.alias]  # (M, E, 3)
        return append(known, emerging)


class Yamada(Model):
    """g(e; m) = Γ(Ψ₁ prior, Ψ₂ context, Ψ₃ coherence, Ψ₄-₆ surface similarity)."""

    name = "yamada"
    own_features = (Prior(), Surface(), Embedding())
    scored = ("prior", "surface")
    score_names = ("prior", "context words", "coherence", "edit", "contained", "start or end")
    n_scores = 6

    def psi(self, batch: Batch) -> Array:
        """Return Ψ₁ to Ψ₆ and the scores of added features, (B, C, n)."""
        vectors = unit(batch.vectors)
        psi2, psi3 = (
            (vectors * unit(mean)[:, None]).sum(-1) for mean in (batch.words, batch.context)
        )
        return self.gather_scores(batch.features, psi2, psi3)

    def frozen(self, pile: Pile) -> FrozenYamada:
        """Compute everything that does not depend on θ(e*) once."""
        mentions, tables = pile.mentions, pile.tables
        ids = mentions.candidates, mentions.context
        entities, (candidate, context) = local_vectors(tables.entities, *ids)
        words, (word,) = local_vectors(tables.words, mentions.words)
        means = unit(mean_rows(words, word)), unit(mean_rows(entities, context))
        psi = np.zeros((2, *mentions.candidates.shape), dtype=np.float32)
        for start in range(0, len(mentions), 512):
            rows = slice(start, start + 512)
            vectors = unit(entities[candidate[rows]])
            for own, mean in zip(psi, means, strict=True):
                own[rows] = (vectors @ mean[rows, :, None])[..., 0]
        return FrozenYamada(self, pile, *means, *psi)


@dataclass(frozen=True)
class FrozenYamada(Frozen):
    """Scores a pile under θ(e*): two products of e* with the mean contexts are all that changes."""

    words: Float32  # (M, Q) unit mean vector of the context words
    context: Float32  # (M, Q) unit mean vector of the entity context
    psi2: Float32  # (M, C) of the known candidates
    psi3: Float32  # (M, C)

    def psi(self, theta: Theta) -> Array:
        """Compare e* with the context words (Ψ₂) and with the entity context (Ψ₃)."""
        vectors = unit(theta["embedding"])  # (E, Q)
        psi2 = append(self.psi2, self.words @ vectors.T)
        psi3 = append(self.psi3, self.context @ vectors.T)
        return self.model.gather_scores(self.values(theta), psi2, psi3)
