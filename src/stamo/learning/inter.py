"""Inter-slot optimisation: an Adam-like step between slots (Sec. 3.3, lines 8 to 13)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stamo.errors import SettingsError
from stamo.features.base import FeatureParams


@dataclass(frozen=True)
class InterSlotArgs:
    """How far θ̂(e*) follows the newest θ_intra."""

    eta: Mapping[str, float] = field(
        default_factory=lambda: {"prior": 5e-2, "relatedness": 5e-2, "embedding": 1e-3}
    )
    """Learning rate η of each group (Training Details)."""
    default_eta: float = 5e-2
    """Learning rate of a group that `eta` does not name (an added feature)."""
    adaptive: bool = True
    """Use the moments of δ (Eq. 15 and 16); False steps along δ itself."""
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    gamma: int = 5
    """Warm-up period γ in slots; 1 is no warm-up."""

    def __post_init__(self) -> None:
        if not (0 <= self.beta1 < 1 and 0 <= self.beta2 < 1):
            raise SettingsError(f"β₁ and β₂ lie in [0, 1), not {self.beta1} and {self.beta2}.")
        if self.gamma < 1:
            raise SettingsError(f"The warm-up takes at least one slot, not {self.gamma}.")
        if min([*self.eta.values(), self.default_eta, self.epsilon]) <= 0:
            raise SettingsError("Learning rates η and ε must be greater than 0.")


@dataclass(frozen=True)
class Moments:
    """s and v: the moving averages of δ and δ² (Eq. 15)."""

    s: FeatureParams
    v: FeatureParams

    @classmethod
    def zero(cls, theta: FeatureParams) -> Moments:
        """Return the moments before the first slot."""
        return cls(theta.zeros(), theta.zeros())


def inter_slot(
    theta_hat: FeatureParams,
    theta_intra: FeatureParams,
    moments: Moments,
    t: int,
    args: InterSlotArgs,
) -> tuple[FeatureParams, Moments]:
    """Take one step from θ̂ᵗ⁻¹ towards θ_intra (Eq. 17); feeding δ to Adam gives the same."""
    b1, b2 = args.beta1, args.beta2
    delta = theta_hat - theta_intra  # 8   δᵗ
    s = moments.s * b1 + delta * (1 - b1)  # 9   Eq. 15
    v = moments.v * b2 + delta**2 * (1 - b2)
    s_hat, v_hat = s / (1 - b1**t), v / (1 - b2**t)  # 10  Eq. 16
    delta_hat = s_hat / (v_hat**0.5 + args.epsilon) if args.adaptive else delta  # 11
    etas = {name: args.eta.get(name, args.default_eta) for name in theta_hat.groups}
    eta_t = {name: min(eta, eta * t / args.gamma) for name, eta in etas.items()}  # 12
    return theta_hat - delta_hat * eta_t, Moments(s, v)  # 13  Eq. 17
