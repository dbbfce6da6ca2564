"""Lines 8 to 13 of Algorithm 1."""

import pytest
import torch

from stamo.errors import SettingsError
from stamo.features.base import FeatureParams
from stamo.learning.loop import Estimate
from stamo.learning.paper import InterSlotArgs, inter_slot

ETA = {"prior": 0.05, "embedding": 0.001}


def make_theta(seed):
    generator = torch.Generator().manual_seed(seed)
    return FeatureParams(
        {
            "prior": torch.rand(1, 3, generator=generator),
            "embedding": torch.randn(1, 5, generator=generator),
        }
    )


def test_inter_slot_step_equals_adam():
    """Feeding δ as the gradient gives torch.optim.Adam's update with learning rate ηᵗ."""
    args = InterSlotArgs(eta=ETA, gamma=4)
    now = Estimate(make_theta(0))
    reference = {name: v.clone().requires_grad_() for name, v in now.theta.groups.items()}
    adam = torch.optim.Adam(
        [{"params": [reference[n]], "lr": ETA[n], "name": n} for n in ETA], eps=args.epsilon
    )
    for t in range(1, 11):
        theta_intra = make_theta(t)
        for group in adam.param_groups:
            name = group["name"]
            group["lr"] = min(ETA[name], ETA[name] * t / 4)
            reference[name].grad = reference[name].detach() - theta_intra[name]
        adam.step()
        now = inter_slot(now, theta_intra, t, args)
        for name, values in reference.items():
            torch.testing.assert_close(now.theta[name], values.detach(), rtol=1e-5, atol=1e-7)


def test_unit_rate_and_raw_delta_land_on_theta_intra():
    """η = 1 with δ itself is vanilla self-training (Eq. 14)."""
    args = InterSlotArgs(eta={"prior": 1.0, "embedding": 1.0}, adaptive=False, gamma=1)
    start, target = make_theta(0), make_theta(1)
    landed = inter_slot(Estimate(start), target, 1, args).theta
    for name in target.groups:
        torch.testing.assert_close(landed[name], target[name])


def test_warm_up_grows_linearly():
    """In slot t of γ the step is t / γ of the full one."""
    start, target = make_theta(0), make_theta(1)
    full = InterSlotArgs(eta=ETA, adaptive=False, gamma=1)
    slow = InterSlotArgs(eta=ETA, adaptive=False, gamma=5)
    whole, part = (inter_slot(Estimate(start), target, 2, args).theta for args in (full, slow))
    torch.testing.assert_close((part - start)["prior"], (whole - start)["prior"] * 0.4)


def test_a_group_without_its_own_rate_uses_the_default():
    """An added feature steps with the default rate instead of failing."""
    args = InterSlotArgs(eta={"prior": 0.05}, default_eta=0.5, adaptive=False, gamma=1)
    start, target = make_theta(0), make_theta(1)
    moved = inter_slot(Estimate(start), target, 1, args).theta
    middle = (start["embedding"] + target["embedding"]) / 2
    torch.testing.assert_close(moved["embedding"], middle)


@pytest.mark.parametrize("change", [{"gamma": 0}, {"beta1": 1.0}, {"eta": {"prior": 0.0}}])
def test_impossible_settings_are_refused(change):
    """Rates, decay and warm-up outside their ranges are refused where they are declared."""
    with pytest.raises(SettingsError):
        InterSlotArgs(**change)
