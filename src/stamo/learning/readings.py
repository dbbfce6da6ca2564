"""Named readings of the paper, and its variants: settings, so that one run can compare them.

`paper` is the paper as printed, `published` what its experiments are known to have done, `default`
ours. The variants are the rows of the paper's tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from stamo.errors import SettingsError
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
from stamo.learning.loop import Checkpoint, Learned, LoopArgs, OnSlot, Task, self_train
from stamo.learning.paper import NO_INTRA, StamoArgs
from stamo.models.base import LinkingModel
from stamo.system.threads import one_thread


def as_it_is(model: LinkingModel) -> LinkingModel:
    """Use a model as it was trained."""
    return model


@dataclass(frozen=True)
class Reading:
    """How to learn: which features estimate θ(e*), and which steps follow."""

    name: str
    features: Mapping[str, Feature] = field(default_factory=dict)
    """Features that replace the model's own of the same name."""
    args: LoopArgs = field(default_factory=CorrectedArgs)
    """The loop and its steps."""
    adapt_model: Callable[[LinkingModel], LinkingModel] = field(default=as_it_is, repr=False)
    """Changes how the model scores; φ is shared and unchanged."""

    def model(self, model: LinkingModel) -> LinkingModel:
        """Return the model as this reading uses it; φ is shared and unchanged."""
        features = tuple(self.features.get(f.name, f) for f in model.features)
        return self.adapt_model(model.with_features(features))

    def with_decision(self, decision: str) -> Reading:
        """Return the reading with another line between the entity and the rest.

        Raises:
            SettingsError: It draws no line of its own, or there is no such one.
        """
        return replace(self, args=self.args.with_decision(decision))

    def without_view(self, name: str) -> Reading:
        """Return the reading with one view of a mention less in its evidence."""
        return replace(self, args=self.args.without_view(name))

    def with_slots(self, n_slots: int) -> Reading:
        """Return the reading with another number of slots; one without any stays so."""
        if not self.args.n_slots:
            return self
        return replace(self, args=replace(self.args, n_slots=n_slots))

    def at_most(self, n_slots: int) -> Reading:
        """Return the reading with no more slots than these; the few of the default stay."""
        return replace(self, args=self.args.at_most(n_slots))


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
        Reading("default", CLOSED_FORM, CorrectedArgs()),
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


def reading_named(name: str) -> Reading:
    """Return a reading by its name."""
    if name not in READINGS:
        raise SettingsError(f"There is no reading {name!r}; choose one of: {', '.join(READINGS)}.")
    return READINGS[name]


@one_thread()
def run_reading(
    task: Task,
    reading: Reading,
    *,
    on_slot: OnSlot = lambda slot: None,
    resume: Checkpoint | None = None,
) -> Learned:
    """Learn θ̂(e*) the way a reading says; model and knowledge base stay as they are."""
    model = reading.model(task.model)
    task = replace(task, model=model, features=model.features)
    return self_train(task, reading.args, on_slot=on_slot, resume=resume)
