"""What a reading of the paper is, and the default one; `stamo.learning.variants` has the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from stamo.errors import SettingsError
from stamo.features.base import Feature
from stamo.features.embedding import Embedding
from stamo.features.prior import Prior
from stamo.features.relatedness import Relatedness
from stamo.learning.corrected import CorrectedArgs
from stamo.learning.loop import Checkpoint, Learned, LoopArgs, OnSlot, Task, self_train
from stamo.models.base import LinkingModel
from stamo.system.runtime import one_thread


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

DEFAULT_READING = Reading("default", CLOSED_FORM, CorrectedArgs())


def reading_named(name: str) -> Reading:
    """Return a reading by its name."""
    if name == DEFAULT_READING.name:
        return DEFAULT_READING
    from stamo.learning.variants import READINGS  # who learns by the default needs none of them

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
