"""The linking models and extra features that are known by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stamo.errors import SettingsError
from stamo.features.base import Feature
from stamo.features.keyphrase import Keyphrase
from stamo.features.relatedness import Relatedness
from stamo.features.surface import NameSimilarity
from stamo.models.base import LinkingModel
from stamo.models.deeped import DeepED
from stamo.models.yamada import Yamada

MODELS: Mapping[str, type[LinkingModel]] = {DeepED.name: DeepED, Yamada.name: Yamada}
"""The linking models that the command line knows by name."""

EXTRA_FEATURES: Mapping[str, Feature] = {
    feature.name: feature for feature in (Keyphrase(), NameSimilarity(), Relatedness())
}
"""Features that a model may have besides its own; each one adds a score."""


def make_model(name: str, dimensions: int, extra: Sequence[str] = ()) -> LinkingModel:
    """Create an untrained model by name, with extra features by name."""
    if name not in MODELS:
        raise SettingsError(f"There is no model {name!r}; choose one of {', '.join(MODELS)}.")
    unknown = [feature for feature in extra if feature not in EXTRA_FEATURES]
    if unknown:
        raise SettingsError(
            f"There is no extra feature {unknown[0]!r}; choose of {', '.join(EXTRA_FEATURES)}."
        )
    plain = MODELS[name](dimensions)
    twice = [feature for feature in extra if feature in {f.name for f in plain.features}]
    if twice:
        raise SettingsError(
            f"The model {name!r} has the feature {twice[0]!r} of its own; leave it out."
        )
    if not extra:
        return plain
    features = (*plain.features, *(EXTRA_FEATURES[feature] for feature in extra))
    return MODELS[name](dimensions, features=features)
