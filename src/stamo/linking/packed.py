"""Linking with entity packs: the mentions that may mean a packed entity are scored with its θ(e*).

Each pack is scored on its own against the known candidates of a mention. Adding or removing a pack
therefore changes nothing for names that it does not share. Where several packs know one name, the
odds of each against the known entities are compared.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from scipy.special import expit

from stamo.corpus.reading import ReadChunk
from stamo.corpus.types import Document, Mention
from stamo.features.base import FeatureParams, ViewRows, encode_features, view_mentions
from stamo.features.encoder_choice import encoder_for
from stamo.features.mentions import UNKNOWN, FlatCorpus, Lexicon, encode, flatten
from stamo.features.pile import Pile, TextEncoder, linked_pairs, make_pile
from stamo.features.views import VIEWS
from stamo.kb.base import KnowledgeBase
from stamo.linking.forms import CapitalNames, find_alias_forms
from stamo.linking.linker import Linker
from stamo.linking.reasons import find_reasons
from stamo.linking.results import (
    Contribution,
    LinkedDocument,
    LinkedMention,
    Reason,
    ScoredCandidate,
)
from stamo.models.evidence import (
    BIAS,
    SCALE,
    agree,
    margins_under,
    none_odds,
    view_weights,
)
from stamo.models.store import TrainedModel
from stamo.packs.folder import refuse_twins
from stamo.packs.pack import EntityPack
from stamo.packs.theta import SHIFT, pack_theta
from stamo.system.files import Float32, Float64, Int32, Int64
from stamo.system.processes import one_thread

logger = logging.getLogger(__name__)

PARTS = ("model", *(view.part for view in VIEWS), "entity's bias")
"""The parts that add up to the log odds of a packed entity."""
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
    reasons: Callable[[int], tuple[Reason, ...]] = lambda place: ()
    """Names what speaks for and against, for one of the n."""

    def spread(self, rows: Int64, place: Int64) -> PackScores:
        """Return the scores of more rows, each that of one of the n."""
        taken = {field.name: getattr(self, field.name)[place] for field in fields(self)[1:-1]}
        return PackScores(rows, **taken, reasons=lambda row: self.reasons(int(place[row])))


def no_scores() -> PackScores:
    """Return the scores of a pack that no mention may mean."""
    nothing = np.zeros(0)
    parts, scores = np.zeros((0, len(PARTS))), np.zeros((0, 1), dtype=np.float32)
    none = np.zeros((0, 0), dtype=np.int32)
    return PackScores(
        np.zeros(0, np.int64), nothing, parts, nothing, nothing, nothing, scores, none
    )


def score_pack(
    pack: EntityPack,
    corpus: FlatCorpus,
    kb: KnowledgeBase,
    trained: TrainedModel,
    *,
    encoder: TextEncoder | None = None,
    most: int = sys.maxsize,
) -> PackScores:
    """Score the mentions of a corpus whose surface is an alias of the pack's entity.

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
    aliases = set(pack.entity.aliases)
    is_alias = np.array([s in aliases for s in corpus.surface_table], dtype=bool)
    named = np.flatnonzero(is_alias[corpus.surfaces]) if len(is_alias) else np.zeros(0, np.int64)
    if not len(named):
        return no_scores()
    first, place = first_of_each(corpus.documents[named], corpus.surfaces[named], most)
    rows = named[first]
    # The candidate mentions are what is asked; they are nobody's context.
    context = corpus.entities.copy()
    context[named] = UNKNOWN
    mentions = encode(corpus, kb, trained.encoding, rows=rows, context_entities=context)
    mentions = encode_features(mentions, trained.model.encoded_features, kb)
    pairs = linked_pairs(corpus.documents, context)
    if encoder is None or encoder.fingerprint != pack.encoder:
        encoder = encoder_for(pack.encoder)
    pile = make_pile(
        [pack.entity],
        mentions,
        pairs,
        corpus.n_documents,
        kb,
        pack.neighbours,
        text=None if corpus.text is None else corpus.text.take(rows),
        encoder=encoder,
        vocabularies=pack.vocabularies,
    )
    scores = _score(pack, pile, rows, kb, trained)
    return scores if len(rows) == len(named) else scores.spread(named, place)


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


def _score(
    pack: EntityPack,
    pile: Pile,
    rows: Int64,
    kb: KnowledgeBase,
    trained: TrainedModel,
) -> PackScores:
    theta = pack_theta(pack)
    scorer = trained.model.prepare(pile, trained.tables(kb))
    with torch.no_grad():
        scores = scorer(theta)
    temperature = trained.calibration.temperature
    margin = margins_under(scorer, theta, temperature)[:, 0].astype(np.float64)
    prior = np.asarray(pack.priors, dtype=np.float64)[pile.alias]
    scaled = margin / temperature
    views = view_mentions(pile, kb, view_weights(theta))
    if BIAS in theta.groups:
        parts = _parts(scaled, theta, views)
    else:
        parts = np.zeros((len(rows), len(PARTS)))
        parts[:, 0] = scaled
    odds = agree(parts.sum(axis=1)[:, None], pile)[:, 0]
    to_none = none_odds(theta, views, len(rows))
    shift = float(pack.groups[SHIFT].sum()) if SHIFT in pack.groups else 0.0
    return PackScores(
        rows=rows,
        odds=odds,
        parts=parts,
        probability=expit(odds - shift),
        prior=prior,
        none=np.zeros(len(rows)) if to_none is None else expit(to_none[:, 0]),
        scores=scores.numpy(),
        candidates=pile.mentions.candidates,
        reasons=lambda place: find_reasons(
            pile, kb, theta, place, dict(zip(PARTS, parts[place].tolist(), strict=True))
        ),
    )


def _parts(scaled: Float64, theta: FeatureParams, views: ViewRows) -> Float64:
    """Return the terms of f, (n, parts); their sum is `log_odds` of `stamo.models.evidence`."""
    scale, bias = (float(theta[name][0, 0]) for name in (SCALE, BIAS))
    nothing, weights = np.zeros(len(scaled)), view_weights(theta)
    between = [
        np.asarray(views[v.name] @ weights[v][0]) if v in weights else nothing for v in VIEWS
    ]
    return np.stack([scaled * (1 + scale), *between, np.full(len(scaled), bias)], axis=1)


class PackedLinker(Linker):
    """A linker that knows the entities of some packs besides those of its knowledge base.

    Mentions whose name no pack knows are linked exactly as without packs.
    """

    def __init__(
        self, linker: Linker, packs: Sequence[EntityPack], encoder: TextEncoder | None = None
    ) -> None:
        """Put a linker and packs together; an encoder may remember what it read.

        Raises:
            ArtifactMismatchError: A pack was learned with another knowledge base or model.
            PackError: Two packs are of one entity.
        """
        fingerprint = linker.trained.fingerprint
        refuse_twins([(f"pack {pack.fingerprint[:12]}", pack) for pack in packs])
        for pack in packs:
            pack.check(linker.kb, fingerprint)
        aliases = [alias for pack in packs for alias in pack.entity.aliases]
        extra = tuple(dict.fromkeys([*linker.extra_aliases, *aliases]))
        super().__init__(linker.kb, linker.trained, settings=linker.settings, extra_aliases=extra)
        self.packs, self._encoder = tuple(packs), encoder
        self._names = frozenset(aliases)
        has_forms = linker.settings.detection.word_forms
        self._forms = find_alias_forms(aliases, linker.kb) if has_forms else None
        self._capitals = CapitalNames(aliases, linker.kb)
        self._spellings = self._names | self._capitals.surfaces
        self.failed: set[str] = set()
        """Entities whose packs could not be scored and are left out."""

    def __repr__(self) -> str:
        n = len(self.packs)
        return f"<PackedLinker of {self.kb.name!r} with {n} pack{'s' * (n != 1)}>"

    def link_batch(self, sources: Sequence[ReadChunk]) -> list[LinkedDocument]:
        """Link the documents or parts of one batch."""
        return self.relink(super().link_batch(sources))

    def relink(self, linked: Sequence[LinkedDocument]) -> list[LinkedDocument]:
        """Decide again on the mentions that may mean a packed entity."""
        form_of = str if self._forms is None else self._forms.name_of
        touched = [
            i
            for i, d in enumerate(linked)
            if not self._spellings.isdisjoint(map(form_of, d.surfaces))
        ]
        if not touched:
            return list(linked)
        with one_thread():
            changed = self._decide([linked[i] for i in touched])
        result = list(linked)
        for i, document in zip(touched, changed, strict=True):
            result[i] = document
        return result

    def _decide(self, linked: Sequence[LinkedDocument]) -> list[LinkedDocument]:
        corpus = flatten_linked(linked, self.words.lexicon, self.kb, self._name_of)
        scores = [self._scores(pack, corpus) for pack in self.packs]
        # Several packs may know one name: row of the corpus -> (pack, place in its scores).
        known_by: dict[int, list[tuple[int, int]]] = {}
        for p, score in enumerate(scores):
            for place, row in enumerate(score.rows.tolist()):
                known_by.setdefault(row, []).append((p, place))
        edges = np.cumsum([0, *(len(d.mentions) for d in linked)]).tolist()
        n_explained = MAX_EXPLAINED if self.settings.explain else 0
        result = []
        for i, document in enumerate(linked):
            mentions = tuple(
                self._with_packs(m, known_by[row], scores, j < n_explained)
                if (row := edges[i] + j) in known_by
                else m
                for j, m in enumerate(document.mentions)
            )
            result.append(replace(document, mentions=mentions))
        return result

    def _name_of(self, document: LinkedDocument, mention: LinkedMention) -> str:
        """Return the pack's name that a mention is a form of, its own text if of none."""
        start, end = mention.start - document.offset, mention.end - document.offset
        name = self._capitals.name_of(mention.surface, document.text, start, end)
        return name if self._forms is None or name in self._names else self._forms.name_of(name)

    def _scores(self, pack: EntityPack, corpus: FlatCorpus) -> PackScores:
        """Score the mentions of one pack; a pack that fails is as if it were not there."""
        try:
            return score_pack(
                pack, corpus, self.kb, self.trained, encoder=self._encoder, most=MAX_SCORED
            )
        except Exception:
            # Whatever is wrong with one pack, the other packs and the text are fine.
            self._note_failure(pack)
            return no_scores()

    def _reasons(self, pack: EntityPack, scores: PackScores, place: int) -> tuple[Reason, ...]:
        try:
            return scores.reasons(place)
        except Exception:
            self._note_failure(pack)
            return ()

    def _note_failure(self, pack: EntityPack) -> None:
        if pack.entity.id not in self.failed:
            self.failed.add(pack.entity.id)
            logger.exception("The pack of %r fails and is left out", pack.entity.id)

    def _with_packs(
        self,
        mention: LinkedMention,
        known_by: list[tuple[int, int]],
        scores: list[PackScores],
        explain: bool,
    ) -> LinkedMention:
        settings = self.settings
        packed = sorted(known_by, key=lambda item: (-scores[item[0]].odds[item[1]], item[0]))
        p = np.array([scores[i].probability[j] for i, j in packed])
        # The odds of each against the known entities, brought to one distribution.
        odds = p / np.maximum(1 - p, 1e-9)
        shares = odds / (1 + odds.sum())
        rest = float(1 - shares.sum())
        new = [
            ScoredCandidate(
                self.packs[i].entity.id,
                float(share),
                float(scores[i].scores[j, -1]),
                float(scores[i].prior[j]),
                self.packs[i].entity.external_id,
                self.packs[i].entity.type,
                self.packs[i].entity.url,
            )
            for (i, j), share in zip(packed, shares, strict=True)
        ]
        first, place = packed[0]
        none = float(scores[first].none[place])  # of what no pack means
        known = rest * (1 - none)
        old = [c._replace(confidence=c.confidence * known) for c in mention.candidates]
        wins = bool(scores[first].odds[place] > 0)
        ordered = sorted([*new, *old], key=lambda c: -c.confidence)
        if wins:  # a line drawn for F1 may let the entity win below one half
            ordered = [new[0], *(c for c in ordered if c is not new[0])]
        # Nobody wins who is less probable than another answer, "none of these" among them.
        best = ordered[0] if ordered else None
        is_best = wins or (best in old and best is not None and best.confidence >= rest * none)
        chosen = best if is_best else None
        linked = chosen is not None and chosen.confidence >= settings.threshold
        # What each part adds to the log odds of the packed entity against the best other.
        adds = scores[first].parts[place].tolist()
        why = tuple(Contribution(name, x, 0.0, x) for name, x in zip(PARTS, adds, strict=True))
        return mention._replace(
            entity=chosen.entity if chosen is not None and linked else None,
            confidence=chosen.confidence if chosen is not None else 0.0,
            candidates=tuple(ordered),
            why=why if settings.explain else mention.why,
            without_packs=mention.entity,
            in_pack=True,
            reasons=self._reasons(self.packs[first], scores[first], place) if explain else (),
            reasons_for=self.packs[first].entity.id if settings.explain else "",
        )


def flatten_linked(
    linked: Sequence[LinkedDocument],
    lexicon: Lexicon,
    kb: KnowledgeBase,
    name_of: Callable[[LinkedDocument, LinkedMention], str] = lambda document, m: m.surface,
) -> FlatCorpus:
    """Flatten linked documents; confident links become entity context.

    Args:
        linked: The documents.
        lexicon: The words that count.
        kb: Knows the entities.
        name_of: What a mention is a form of: packs know names as they were declared.
    """

    def context_mention(d: LinkedDocument, m: LinkedMention) -> Mention:
        entity = m.entity if m.confidence >= CONTEXT_CONFIDENCE else None
        return Mention(name_of(d, m), m.start - d.offset, m.end - d.offset, entity)

    documents = [
        Document(d.id, d.text, tuple(context_mention(d, m) for m in d.mentions)) for d in linked
    ]
    names = sorted({m.entity for d in documents for m in d.mentions if m.entity is not None})
    ids = kb.entity_ids(names) if names else np.zeros(0, dtype=np.int32)
    return flatten(documents, lexicon, dict(zip(names, ids.tolist(), strict=True)))
