"""Linking with entity packs: the mentions that may mean a packed entity are scored with its θ(e*).

Each pack is scored on its own against the known candidates of a mention. Adding or removing a pack
therefore changes nothing for names that it does not share. Where several packs know one name, the
odds of each against the known entities are compared.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from stamo.features.base import Theta
from stamo.features.mentions import UNKNOWN, FlatCorpus, Surroundings
from stamo.features.pile import Pile, TextEncoder, candidate_rows, prepare_pile
from stamo.kb.base import KnowledgeBase
from stamo.linking.detect import LinkerSettings
from stamo.linking.forms import CapitalNames, find_alias_forms
from stamo.linking.results import Contribution, MentionColumns, PackReasons, Reason
from stamo.linking.texts import Located
from stamo.models.correction import (
    PARTS,
    agree,
    log_odds,
    margins,
    none_odds,
    weighed_views,
)
from stamo.models.store import TrainedModel, encoder_of_pack
from stamo.packs.folder import refuse_twins
from stamo.packs.pack import SHIFT, EntityPack
from stamo.system.files import Float32, Float64, Int32, Int64

logger = logging.getLogger(__name__)

N_REASONS = 12
LEAST_WEIGHT = 0.01
"""Reasons of a smaller weight are not named."""
MAX_SCORED = 64
"""Mentions of one name in a text that a pack looks at."""
MAX_EXPLAINED = 1000
"""Mentions of a text, from its beginning, whose reasons are named: each takes a millisecond."""
CONTEXT_CONFIDENCE = 0.5
"""A link at least this confident is part of the entity context."""


@dataclass(frozen=True)
class PackScores:
    """How far n mentions mean the entity of one pack."""

    rows: Int64  # (n,) rows of the corpus
    odds: Float64  # (n,) decision: linked where > 0
    parts: Float64  # (n, parts) what each of PARTS adds to `odds`, before names are averaged
    probability: Float64  # (n,) calibrated probability that the mention means the entity
    prior: Float64  # (n,) P(e* | m)
    none: Float64  # (n,) probability of "none of these" where it does not mean the entity
    scores: Float32  # (n, C + 1) g(e; m), the packed entity last
    candidates: Int32  # (n, C) the known candidates
    pile: Pile
    """The mentions that were looked at."""
    place: Int64  # (n,) which of them each one is
    theta: Theta

    def reasons(self, row: int) -> tuple[Reason, ...]:
        """Return what speaks for and against the entity, the weightiest first.

        A part that has named terms is given by them.
        """
        found: list[Reason] = []
        whole = dict(zip(PARTS, self.parts[row].tolist(), strict=True))
        for view, weights in weighed_views(self.theta).items():
            terms = view.terms(self.pile, int(self.place[row]))
            if terms is not None:
                whole.pop(view.part, None)
                for name, term in terms:
                    found.append(Reason(view.part, name, float(np.dot(term, weights[0]))))
        found += [Reason(part, "", weight) for part, weight in whole.items()]
        told = [reason for reason in found if abs(reason.weight) >= LEAST_WEIGHT]
        return tuple(sorted(told, key=lambda r: (-abs(r.weight), r.name))[:N_REASONS])


def score_pack(
    pack: EntityPack,
    corpus: FlatCorpus,
    kb: KnowledgeBase,
    trained: TrainedModel,
    *,
    encoder: TextEncoder | None = None,
    most: int = sys.maxsize,
) -> PackScores | None:
    """Score the mentions whose surface is an alias of the pack's entity; None: there are none.

    Args:
        pack: The pack; it was learned with this knowledge base and model.
        corpus: Flattened documents; `corpus.entities` are the links that serve as entity context.
        kb: The knowledge base.
        trained: The linking model.
        encoder: Reads the text where the pack was learned with it; found here otherwise. One that
            remembers what it read saves most of the time.
        most: Mentions of one name in a document that are looked at; to read around one takes some
            30 ms with an encoder. Those that follow are what the last of them is.
    """
    named = candidate_rows(corpus, [pack.entity])
    if not len(named):
        return None
    first, place = first_of_each(corpus.documents[named], corpus.surfaces[named], most)
    rows = named[first]
    if encoder is None or encoder.fingerprint != pack.encoder:
        encoder = encoder_of_pack(pack.encoder, trained, kb)
    pile = prepare_pile(
        corpus,
        [pack.entity],
        kb,
        trained,
        rows=rows,
        neighbours=pack.neighbours,
        vocabularies=pack.vocabularies,
        encoder=encoder,
    )
    theta, temperature = pack.theta(), trained.calibration.temperature
    frozen = trained.model.freeze(pile)
    margin = margins(frozen, theta, temperature)
    every, by_part = log_odds(margin, pile, theta, temperature)
    odds, parts = agree(every, pile)[:, 0], by_part[:, 0]
    to_none = none_odds(pile, theta)
    none = np.zeros(len(rows)) if to_none is None else expit(to_none[:, 0])
    shift = float(pack.groups[SHIFT].sum()) if SHIFT in pack.groups else 0.0
    return PackScores(
        rows=named,
        odds=odds[place],
        parts=parts[place],
        probability=expit(odds - shift)[place],
        prior=np.asarray(pack.priors, dtype=np.float64)[pile.alias[place]],
        none=none[place],
        scores=frozen.scores(theta)[place],
        candidates=pile.mentions.candidates[place],
        pile=pile,
        place=place,
        theta=theta,
    )


def first_of_each(documents: Int32, names: Int32, most: int) -> tuple[Int64, Int64]:
    """Choose the first mentions of each name in each document.

    Args:
        documents: The document of each of n mentions, which are in their order.
        names: The name of each.
        most: How many of one name in one document are chosen.

    Returns:
        The chosen ones, (m,), and for all n the place among them: its own, or that of the last one
        of its name and document.
    """
    _, group = np.unique(np.stack([documents, names]), axis=1, return_inverse=True)
    order = np.argsort(group.ravel(), kind="stable")
    sizes = np.bincount(group.ravel())
    begins = np.repeat(np.cumsum(sizes) - sizes, sizes)
    number = np.minimum(np.arange(len(order)) - begins, most - 1)
    stands_for = np.empty(len(order), dtype=np.int64)
    stands_for[order] = order[begins + number]
    chosen, place = np.unique(stands_for, return_inverse=True)
    return chosen, place.astype(np.int64)


class PackedEntities:
    """The entities of some packs, which a linker knows besides those of its knowledge base.

    Mentions whose name no pack knows are linked exactly as without packs.
    """

    def __init__(
        self,
        packs: Sequence[EntityPack],
        kb: KnowledgeBase,
        trained: TrainedModel,
        encoder: TextEncoder | None = None,
    ) -> None:
        """Put packs together.

        Args:
            packs: At most one for an entity.
            kb: The knowledge base that they were learned with.
            trained: The model that they were learned with.
            encoder: May remember what it read.

        Raises:
            ArtifactMismatchError: A pack was learned with another knowledge base or model.
            PackError: Two packs are of one entity.
        """
        refuse_twins([(f"pack {pack.fingerprint[:12]}", pack) for pack in packs])
        for pack in packs:
            pack.check(kb, trained)
        self.packs, self._kb, self._trained, self._encoder = tuple(packs), kb, trained, encoder
        self.aliases = tuple(dict.fromkeys(a for pack in packs for a in pack.entity.aliases))
        self._forms = find_alias_forms(self.aliases, kb)
        self._capitals = CapitalNames(self.aliases, kb)
        self._spellings = self._capitals.surfaces.union(self.aliases)
        self.failed: set[str] = set()
        """Entities whose packs could not be scored and are left out."""

    def decide(
        self,
        columns: MentionColumns,
        batch: Located,
        texts: Sequence[str],
        settings: LinkerSettings,
    ) -> MentionColumns:
        """Decide again on the mentions of a batch that may mean the entity of a pack.

        Each pack's odds against the known entities are brought to one distribution with those of
        the other packs and with what the mention means without them.

        Args:
            columns: The mentions as they are linked without packs.
            batch: The same mentions, flattened.
            texts: The documents of the batch.
            settings: How to link.
        """
        form_of = str if self._forms is None else self._forms.name_of
        if self._spellings.isdisjoint(map(form_of, columns.surfaces)):
            return columns
        corpus, rows = self._named_corpus(columns, batch, texts)
        scores: dict[int, PackScores] = {}
        for i, pack in enumerate(self.packs):
            try:
                some = score_pack(
                    pack, corpus, self._kb, self._trained, encoder=self._encoder, most=MAX_SCORED
                )
            except Exception:
                # Whatever is wrong with one pack, the other packs and the text are fine.
                if pack.entity.id not in self.failed:
                    self.failed.add(pack.entity.id)
                    logger.exception("The pack of %r fails and is left out", pack.entity.id)
                continue
            if some is not None:
                scores[i] = some
        if not scores:
            return columns
        used = list(scores)
        mine = np.unique(np.concatenate([scores[i].rows for i in used]))  # (n,) rows of the corpus
        n, n_packs = len(mine), len(used)
        odds = np.full((n, n_packs), -np.inf)
        probability, none, prior, score, place = (np.zeros((n, n_packs)) for _ in range(5))
        for column, i in enumerate(used):
            at = np.searchsorted(mine, scores[i].rows), column
            odds[at], probability[at] = scores[i].odds, scores[i].probability
            none[at], prior[at] = scores[i].none, scores[i].prior
            score[at], place[at] = scores[i].scores[:, -1], np.arange(len(scores[i].rows))
        # The packs that know each mention's name, the likeliest first.
        order = np.argsort(-odds, axis=1, kind="stable")
        order = order[:, : int((odds > -np.inf).sum(axis=1).max())]
        odds, probability, prior, score = (
            np.take_along_axis(values, order, axis=1)
            for values in (odds, probability, prior, score)
        )
        none, place = (values[np.arange(n), order[:, 0]] for values in (none, place))
        against = probability / np.maximum(1 - probability, 1e-9)
        shares = against / (1 + against.sum(axis=1, keepdims=True))
        rest = 1 - shares.sum(axis=1)  # of what no pack means; `none` of it is nothing known either
        rows = rows[mine]
        new = np.where(odds > -np.inf, self._kb.n_entities + np.array(used)[order], UNKNOWN)
        old = columns.confidence[rows] * (rest * (1 - none))[:, None]
        candidates = np.hstack([new, columns.ranking.candidates[rows]])
        confidence = np.hstack([shares, old])
        wins = odds[:, 0] > 0  # a threshold drawn for F1 may let the entity win below one half
        key = np.where(candidates >= 0, -confidence, np.inf)
        key[wins, 0] = -np.inf
        ranked = np.argsort(key, axis=1, kind="stable")
        confidence = np.take_along_axis(confidence, ranked, axis=1)
        candidates = np.take_along_axis(candidates, ranked, axis=1)
        # Nobody wins who is less probable than another answer, "none of these" among them.
        is_old = (ranked[:, 0] >= new.shape[1]) & (candidates[:, 0] >= 0)
        is_chosen = wins | (is_old & (confidence[:, 0] >= rest * none))
        linked, sure = columns.linked.copy(), columns.sure.astype(np.float64)
        sure[rows] = np.where(is_chosen, confidence[:, 0], 0.0)
        is_linked = is_chosen & (sure[rows] >= settings.threshold)
        linked[rows] = np.where(is_linked, candidates[:, 0], UNKNOWN)
        without = columns.without.copy()
        without[rows] = columns.linked[rows]
        # Room for the packs behind the candidates of every mention, then theirs in their order.
        wider, ranking = ((0, 0), (0, new.shape[1])), columns.ranking
        table = np.pad(ranking.candidates, wider, constant_values=UNKNOWN)
        table[rows] = candidates
        shown = np.pad(columns.confidence.astype(np.float64), wider)
        shown[rows] = confidence
        scores_and_priors = []
        for theirs, known in ((score, ranking.scores), (prior, ranking.priors)):
            values = np.pad(known.astype(np.float64), wider)
            own = np.hstack([theirs, known[rows]])
            values[rows] = np.take_along_axis(own, ranked, axis=1)
            scores_and_priors.append(values)
        reasons: dict[int, PackReasons] = {}
        if settings.explain:
            first: list[int] = np.array(used)[order[:, 0]].tolist()
            number = rows - np.searchsorted(batch.documents, batch.documents[rows])
            columns_of_rows = (rows.tolist(), first, map(int, place), number.tolist())
            for row, i, j, k in zip(*columns_of_rows, strict=True):
                adds = zip(PARTS, scores[i].parts[j].tolist(), strict=True)
                why = tuple(Contribution(part, x, 0.0, x) for part, x in adds)
                named = scores[i].reasons(j) if k < MAX_EXPLAINED else ()
                reasons[row] = self.packs[i].entity.id, why, named
        return replace(
            columns,
            linked=linked,
            sure=sure,
            confidence=shown,
            ranking=replace(
                ranking,
                candidates=table,
                scores=scores_and_priors[0],
                priors=scores_and_priors[1],
            ),
            packed=tuple(pack.entity for pack in self.packs),
            without=without,
            reasons=reasons,
        )

    def _named_corpus(
        self, columns: MentionColumns, batch: Located, texts: Sequence[str]
    ) -> tuple[FlatCorpus, Int64]:
        """Flatten the documents that hold a pack's name; confident links are entity context.

        Mentions are named as packs know them: forms of a name, and those in capitals, by the name.

        Returns:
            The mentions, and their rows in the batch.
        """
        form_of = str if self._forms is None else self._forms.name_of
        is_name = [form_of(surface) in self._spellings for surface in columns.surfaces]
        named = np.zeros(len(texts), dtype=np.bool_)
        named[batch.documents[np.array(is_name)]] = True
        rows = np.flatnonzero(named[batch.documents])
        documents, starts, ends = batch.documents[rows], batch.starts[rows], batch.ends[rows]
        index: dict[str, int] = {}
        surfaces = []
        for row, d, start, end in zip(
            rows.tolist(), documents.tolist(), starts.tolist(), ends.tolist(), strict=True
        ):
            name = self._capitals.name_of(columns.surfaces[row], texts[d], start, end)
            if name not in self.aliases:
                name = form_of(name)
            surfaces.append(index.setdefault(name, len(index)))
        linked, sure = columns.linked[rows], columns.sure[rows]
        corpus = replace(
            batch.corpus,
            documents=documents,
            before=batch.corpus.before[rows],
            after=batch.corpus.after[rows],
            surfaces=np.array(surfaces, dtype=np.int32),
            entities=np.where(sure >= CONTEXT_CONFIDENCE, linked, UNKNOWN).astype(np.int32),
            surface_table=tuple(index),
            aliases=None,
            mixed=None,
            text=Surroundings(texts, documents, starts, ends),
        )
        return corpus, rows
