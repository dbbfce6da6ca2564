"""Named readings of the paper, and its variants: settings, so that one run can compare them.

`paper` is the paper as printed, `published` what its experiments are known to have done, `default`
ours. The variants are the rows of the paper's tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import cast

from stamo.features.base import Feature
from stamo.features.embedding import Embedding
from stamo.features.max_margin import MaxMargin
from stamo.features.prior import Prior
from stamo.features.relatedness import Relatedness
from stamo.features.views import VIEWS
from stamo.learning import published
from stamo.learning.corrected import CorrectedArgs
from stamo.learning.correction import EvidenceArgs
from stamo.learning.inter import InterSlotArgs
from stamo.learning.learn import CLOSED_FORM, DEFAULT_READING
from stamo.learning.loop import Reading
from stamo.learning.paper import NO_INTRA, StamoArgs

AS_PRINTED: Mapping[str, Feature] = {
    "prior": Prior(smoothing=0.0, renormalise=False),
    "relatedness": Relatedness(match_pile=False, shrinkage=0.0, missing="zero"),
    "embedding": Embedding(max_margin=MaxMargin()),
}

ESTIMATION = StamoArgs(n_slots=0, intra=NO_INTRA)
SELF_TRAINING = StamoArgs(intra=NO_INTRA, inter=None)
BIAS_ONLY = CorrectedArgs(
    n_slots=0,
    evidence=EvidenceArgs(
        views=tuple(replace(view, variance=0.0) for view in VIEWS),  # type: ignore[type-var]
        scale=0.0,
    ),
    decision="even",
)

READINGS: Mapping[str, Reading] = {
    reading.name: reading
    for reading in (
        DEFAULT_READING,
        Reading("paper", AS_PRINTED, StamoArgs()),
        Reading(
            "published",
            published.PUBLISHED_FEATURES,
            published.PublishedArgs(),
            published.attend_padding,
        ),
        Reading("estimation", CLOSED_FORM, ESTIMATION),
        Reading("estimation+bias", CLOSED_FORM, BIAS_ONLY),
        Reading("estimation+evidence", CLOSED_FORM, CorrectedArgs(n_slots=0)),
        Reading("self-training", CLOSED_FORM, SELF_TRAINING),
        Reading("self-training+intra", CLOSED_FORM, StamoArgs(inter=None)),
        Reading("self-training+inter", CLOSED_FORM, StamoArgs(intra=NO_INTRA)),
        Reading("stamo", CLOSED_FORM, StamoArgs()),
        Reading(
            "stamo without adaptive delta",
            CLOSED_FORM,
            StamoArgs(inter=InterSlotArgs(adaptive=False)),
        ),
        Reading(
            "stamo without small eta",
            CLOSED_FORM,
            StamoArgs(
                inter=InterSlotArgs(
                    eta={"prior": 1.0, "relatedness": 1.0, "embedding": 1.0}, default_eta=1.0
                )
            ),
        ),
        Reading("stamo without warm-up", CLOSED_FORM, StamoArgs(inter=InterSlotArgs(gamma=1))),
    )
}
"""Every reading and variant by name; the embedding is the closed form unless the name says else."""


def _feature_quirk(name: str) -> Callable[[Reading], Reading]:
    return lambda r: replace(r, features={**r.features, name: published.PUBLISHED_FEATURES[name]})


def _args_quirk(change: Callable[[StamoArgs], StamoArgs]) -> Callable[[Reading], Reading]:
    return lambda r: replace(r, args=change(cast("StamoArgs", r.args)))


QUIRKS: Mapping[str, Callable[[Reading], Reading]] = {
    "odds prior": _feature_quirk("prior"),
    "crawl-scaled relatedness": _feature_quirk("relatedness"),
    "random restart": _feature_quirk("embedding"),
    "relatedness scale": _args_quirk(published.PublishedArgs.scaling),
    "strong intra-slot": _args_quirk(lambda args: replace(args, intra=published.STRONG_INTRA)),
    "attended padding": lambda r: replace(r, adapt_model=published.attend_padding),
}
"""The quirks of the published experiments, each to be switched on alone over another reading; those
of the slots over one with the paper's steps."""

FEATURE_QUIRKS = ("odds prior", "crawl-scaled relatedness", "random restart")
"""The quirks of estimators, which also change an estimate without any slots."""
