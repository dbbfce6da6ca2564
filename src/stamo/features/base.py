"""What an entity-linking feature is: any number that can be counted for an entity (Sec. 2.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from stamo.features.encoding import EncodedMentions
from stamo.features.params import FeatureParams
from stamo.features.pile import Pile, Sample
from stamo.kb.base import KnowledgeBase
from stamo.system.arrays import Float32

if TYPE_CHECKING:
    from torch import Tensor


@runtime_checkable
class Feature(Protocol):
    """A feature f, parameterised by θ; one file implements one feature.

    A feature gives each pair of mention and candidate one number or one vector of numbers. For the
    non-emerging candidates the numbers come from the knowledge base and never change; for e* they
    are looked up in its group of θ(e*), differentiably.
    """

    name: str
    """The name of the feature and of its group in θ(e*)."""

    def known(self, mentions: EncodedMentions, kb: KnowledgeBase) -> Float32:
        """Return the values of the known candidates, (M, C) or (M, C, n)."""
        ...

    def estimate(self, sample: Sample, kb: KnowledgeBase) -> Tensor:
        """Estimate this feature's group of θ(e*) on labelled documents, first axis E."""
        ...

    def lookup(self, theta: Tensor, pile: Pile) -> Tensor:
        """Return the values of all candidates, the emerging ones last, (M, C + E) or (M, C + E, n).

        Differentiable in `theta`, the feature's own group.
        """
        ...


def encode_features(
    mentions: EncodedMentions, features: Iterable[Feature], kb: KnowledgeBase
) -> EncodedMentions:
    """Look up every feature of the known candidates once; nothing of it changes any more."""
    for feature in features:
        if feature.name not in mentions.known:
            mentions = mentions.with_known(feature.name, feature.known(mentions, kb))
    return mentions


def estimate(sample: Sample, features: Sequence[Feature], kb: KnowledgeBase) -> FeatureParams:
    """Estimate θ(e*) on labelled documents, feature by feature (Sec. 2.2)."""
    return FeatureParams({feature.name: feature.estimate(sample, kb) for feature in features})


def lookup(theta: FeatureParams, features: Iterable[Feature], pile: Pile) -> Mapping[str, Tensor]:
    """Look up every feature of all candidates under θ(e*)."""
    return {f.name: f.lookup(theta[f.name], pile) for f in features if f.name in theta.groups}


@runtime_checkable
class HasPacked(Protocol):
    """A feature whose group is not what an entity pack holds of it."""

    def packed(self, theta: Tensor) -> Tensor:
        """Return the group as a pack holds it."""
        ...


def packed(theta: FeatureParams, features: Iterable[Feature]) -> FeatureParams:
    """Return θ(e*) as an entity pack holds it."""
    own = {f.name: f.packed(theta[f.name]) for f in features if isinstance(f, HasPacked)}
    return theta.replace(**own)


def append_emerging(known: Float32, emerging: Tensor) -> Tensor:
    """Put the columns of the emerging entities behind those of the known candidates."""
    import torch  # here, so that linking loads without it

    return torch.cat([torch.as_tensor(known), emerging], dim=1)
