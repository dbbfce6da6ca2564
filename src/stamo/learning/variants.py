"""Named readings of the paper, and its variants: settings, so that one run can compare them.

`paper` is the paper as printed, `default` ours. The variants are the rows of the paper's tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from stamo.features.base import Feature
from stamo.features.embedding import Embedding, MaxMargin
from stamo.features.prior import Prior
from stamo.features.relatedness import Relatedness
from stamo.features.views import VIEWS
from stamo.learning.corrected import CorrectedArgs
from stamo.learning.correction import EvidenceArgs
from stamo.learning.learn import CLOSED_FORM, DEFAULT_READING
from stamo.learning.loop import LoopArgs, Reading
from stamo.learning.paper import NO_INTRA, InterSlotArgs, StamoArgs

AS_PRINTED: Mapping[str, Feature] = {
    "prior": Prior(smoothing=0.0, renormalise=False),
    "relatedness": Relatedness(match_pile=False, shrinkage=0.0, missing="zero"),
    "embedding": Embedding(max_margin=MaxMargin()),
}

_BIAS_ONLY = EvidenceArgs(views=tuple(replace(view, variance=0.0) for view in VIEWS), scale=0.0)
_UNIT_ETA = dict.fromkeys(CLOSED_FORM, 1.0)
_VARIANTS: Mapping[str, LoopArgs] = {
    "estimation": StamoArgs(n_slots=0, intra=NO_INTRA),
    "estimation+bias": CorrectedArgs(n_slots=0, evidence=_BIAS_ONLY, decision="even"),
    "estimation+evidence": CorrectedArgs(n_slots=0),
    "self-training": StamoArgs(intra=NO_INTRA, inter=None),
    "self-training+intra": StamoArgs(inter=None),
    "self-training+inter": StamoArgs(intra=NO_INTRA),
    "stamo": StamoArgs(),
    "stamo without adaptive delta": StamoArgs(inter=InterSlotArgs(adaptive=False)),
    "stamo without small eta": StamoArgs(inter=InterSlotArgs(eta=_UNIT_ETA, default_eta=1.0)),
    "stamo without warm-up": StamoArgs(inter=InterSlotArgs(gamma=1)),
}

READINGS: Mapping[str, Reading] = {
    reading.name: reading
    for reading in (
        DEFAULT_READING,
        Reading("paper", AS_PRINTED, StamoArgs()),
        *(Reading(name, CLOSED_FORM, args) for name, args in _VARIANTS.items()),
    )
}
"""Every reading and variant by name; the embedding is the closed form unless the name says else."""
