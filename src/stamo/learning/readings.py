"""Named readings of the paper, and its variants: settings, so that one run can compare them.

`paper` is the paper as printed, `published` what its experiments are known to have done (each quirk
a switch of its own), `default` ours. The variants are the rows of the paper's tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from stamo.errors import SettingsError
from stamo.features.base import Feature, estimate
from stamo.features.embedding import Embedding
from stamo.features.encoding import FloatArray
from stamo.features.max_margin import MaxMargin
from stamo.features.params import FeatureParams
from stamo.features.pile import Evidence
from stamo.features.prior import Prior
from stamo.features.relatedness import Relatedness
from stamo.learning.algorithm import OnSlot, Slot, StamoArgs, Task, stamo
from stamo.learning.corrected import CorrectedArgs, Learned, learn_corrected
from stamo.learning.correction import EvidenceArgs
from stamo.learning.inter import InterSlotArgs
from stamo.learning.intra import IntraSlotArgs
from stamo.learning.published import PublishedDeepED
from stamo.models.base import LinkingModel
from stamo.models.deeped.model import DeepED
from stamo.models.threads import one_thread

NO_INTRA = IntraSlotArgs(n_epochs=0)


@dataclass(frozen=True)
class Reading:
    """How to learn: which features estimate θ(e*), and which optimisation follows."""

    name: str
    features: Mapping[str, Feature] = field(default_factory=dict)
    """Features that replace the model's own of the same name."""
    args: StamoArgs | CorrectedArgs | None = None
    """Algorithm 1, the default algorithm, or None for the estimate on L alone."""
    padding_counts: bool = False
    """Let attention select padding, as the published experiments did."""

    def model(self, model: LinkingModel) -> LinkingModel:
        """Return the model as this reading uses it; φ is shared and unchanged."""
        features = tuple(self.features.get(f.name, f) for f in model.features)
        model = model.with_features(features)
        if self.padding_counts and isinstance(model, DeepED):
            model = PublishedDeepED.of(model)
        return model


CLOSED_FORM: Mapping[str, Feature] = {
    "prior": Prior(),
    "relatedness": Relatedness(),
    "embedding": Embedding(),
}
"""Our estimators: smoothed and renormalised prior, shrunk relatedness on one scale, closed form."""

AS_PRINTED: Mapping[str, Feature] = {
    "prior": Prior(smoothing=0.0, renormalise=False),
    "relatedness": Relatedness(match_pile=False, shrinkage=0.0, missing="zero"),
    "embedding": Embedding(max_margin=MaxMargin()),
}

PUBLISHED: Mapping[str, Feature] = {
    "prior": Prior(smoothing=0.0, odds=True),
    "relatedness": Relatedness(
        scale=50.0, match_pile=False, shrinkage=0.0, missing="zero", clip=False
    ),
    "embedding": Embedding(
        max_margin=MaxMargin(restart=True, accumulate=True, normalise=False, batch_size=100)
    ),
}

_PUBLISHED_FIRST = {
    **PUBLISHED,
    "embedding": Embedding(
        max_margin=MaxMargin(
            n_epochs=600,
            learning_rate=5e-2,
            restart=True,
            accumulate=True,
            normalise=False,
            batch_size=100,
        )
    ),
}

_PUBLISHED_INTRA = IntraSlotArgs(
    learning_rate={"prior": 1e-4, "embedding": 1.0, "relatedness scale": 1.0, "relatedness": 0.0},
    mean_over_candidates=30,
    dropout=True,
)

PUBLISHED_ARGS = StamoArgs(
    intra=_PUBLISHED_INTRA,
    first_intra=replace(_PUBLISHED_INTRA, n_epochs=450),
    inter=InterSlotArgs(
        eta={"prior": 5e-2, "relatedness": 5e-2, "relatedness scale": 5e-2, "embedding": 1e-3}
    ),
    relatedness_scale=True,
    patience=None,
)

SELF_TRAINING = StamoArgs(intra=NO_INTRA, inter=None)
BIAS_ONLY = CorrectedArgs(
    n_slots=0,
    evidence=EvidenceArgs(words=0.0, context=0.0, entities=0.0, scale=0.0),
    decision="accuracy",
)

READINGS: Mapping[str, Reading] = {
    reading.name: reading
    for reading in (
        Reading("default", CLOSED_FORM, CorrectedArgs()),
        Reading("paper", AS_PRINTED, StamoArgs()),
        Reading("published", PUBLISHED, PUBLISHED_ARGS, padding_counts=True),
        Reading("estimation", CLOSED_FORM),
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

QUIRKS: Mapping[str, Callable[[Reading], Reading]] = {
    # p / (1 - p) instead of p, and 0 where p is 0 or 1
    "odds prior": lambda r: replace(r, features={**r.features, "prior": PUBLISHED["prior"]}),
    # counts of W times the crawl's size, not clipped to [0, 1]
    "crawl-scaled relatedness": lambda r: replace(
        r, features={**r.features, "relatedness": PUBLISHED["relatedness"]}
    ),
    # a random vector in every slot, gradients that are never reset, no unit norm
    "random restart": lambda r: replace(
        r, features={**r.features, "embedding": PUBLISHED["embedding"]}
    ),
    # one number that multiplies the row, trained inside the slots and never reset
    "relatedness scale": lambda r: _with_args(r, relatedness_scale=True),
    # rate 1.0 for the vector, dropout on
    "strong intra-slot": lambda r: _with_args(r, intra=_PUBLISHED_INTRA),
    # words strictly above the H'-th score only, padding among them
    "attended padding": lambda r: replace(r, padding_counts=True),
}
"""The quirks of the published experiments, each to be switched on alone over another reading."""

FEATURE_QUIRKS = (
    "odds prior",
    "crawl-scaled relatedness",
    "random restart",
)
"""The quirks of estimators, which also change an estimate without any slots."""


def _with_args(reading: Reading, **changes: object) -> Reading:
    if not isinstance(reading.args, StamoArgs):
        raise SettingsError(f"The reading {reading.name!r} has no slots to change.")
    return replace(reading, args=replace(reading.args, **changes))  # type: ignore[arg-type]


def reading_named(name: str) -> Reading:
    """Return a reading by its name."""
    if name not in READINGS:
        raise SettingsError(f"There is no reading {name!r}; choose one of: {', '.join(READINGS)}.")
    return READINGS[name]


@dataclass(frozen=True)
class Outcome:
    """θ̂(e*) and the model that looks it up the way it was learned."""

    theta: FeatureParams
    model: LinkingModel
    posterior: FloatArray | None = None
    pile_helped: bool | None = None
    left_out_likelihood: tuple[float, float] | None = None


@one_thread()
def run_reading(
    task: Task,
    reading: Reading,
    temperature: float,
    *,
    on_slot: OnSlot = lambda slot: None,
    resume: Slot | None = None,
) -> Outcome:
    """Learn θ̂(e*) the way a reading says; model and knowledge base stay as they are."""
    model = reading.model(task.model)
    task = replace(task, model=model, features=model.features)
    args = reading.args
    if isinstance(args, CorrectedArgs):
        learned: Learned = learn_corrected(task, temperature, args, on_slot=on_slot)
        return Outcome(
            learned.theta,
            model,
            learned.posterior,
            learned.pile_helped,
            learned.left_out_likelihood,
        )
    if args is None:
        on_l = Evidence(task.pile, task.labels, task.labelled.astype(np.float32))
        return Outcome(estimate(on_l, task.features, task.kb), model)
    if args.relatedness_scale and "relatedness" not in {f.name for f in model.features}:
        args = replace(args, relatedness_scale=False)
    if reading.name == "published" and args.first_features is None:
        first = tuple(_PUBLISHED_FIRST.get(f.name, f) for f in model.features)
        args = replace(args, first_features=first)
    return Outcome(stamo(task, args, on_slot=on_slot, resume=resume), model)
