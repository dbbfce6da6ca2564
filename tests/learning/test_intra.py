"""Intra-slot optimisation: the gradient of its objective and its steps."""

import numpy as np
import pytest
import torch

from stamo.learning.paper import IntraSlotArgs, intra_slot
from stamo.models.base import PlainScorer
from stamo.models.deeped import DeepED
from stamo.models.train import max_margin_gradient, max_margin_loss
from tests.synthetic import Q, make_synthetic_pile, make_tables, make_theta, objective


def test_the_gradient_of_the_objective_equals_autograd():
    """What Eq. 12 pushes and pulls is its derivative; padding takes no part."""
    rng = np.random.default_rng(0)
    scores = torch.from_numpy(rng.standard_normal((9, 5)) * 0.02).requires_grad_()
    padded = scores.masked_fill(torch.arange(5) == 3, -1e9)
    gold = torch.from_numpy(rng.choice([0, 1, 2, 4], 9))
    max_margin_loss(padded, gold, 0.01).sum().backward()
    written = max_margin_gradient(padded.detach().numpy(), gold.numpy(), 0.01)
    np.testing.assert_allclose(written, scores.grad.numpy())
    assert np.abs(written).sum() > 0
    assert not written[:, 3].any()


def problem(*, plain=False):
    rng = np.random.default_rng(1)
    tables, pile = make_tables(rng), make_synthetic_pile(rng)
    torch.manual_seed(0)
    model = DeepED(Q).eval().requires_grad_(False)
    scorer = PlainScorer(model, pile, tables) if plain else model.prepare(pile, tables)
    return make_theta(rng, pile), scorer, np.zeros(len(pile), dtype=np.int64)


def test_steps_equal_those_of_the_torch_optimiser():
    """Ten epochs of ours and of `torch.optim.SGD` on the recorded objective end at one θ(e*)."""
    theta, scorer, gold = problem()
    _, recorded, _ = problem(plain=True)
    args = IntraSlotArgs(n_epochs=10, default_rate=0.05, batch_size=100)
    ours = intra_slot(theta, scorer, gold, args)
    moving = theta.map(lambda values: values.clone().requires_grad_())
    leaves = [moving[name] for name in ("prior", "relatedness", "embedding")]
    optimiser = torch.optim.SGD(leaves, lr=0.05)
    for _ in range(10):
        loss = max_margin_loss(recorded(moving), torch.from_numpy(gold), args.margin).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    for name in ("prior", "relatedness", "embedding"):
        torch.testing.assert_close(ours[name], moving[name].detach(), rtol=1e-4, atol=1e-5)
        assert not torch.equal(ours[name], theta[name]), name


def test_batches_lower_the_objective_too():
    """Shuffled batches move θ(e*) downhill as well."""
    theta, scorer, gold = problem()
    args = IntraSlotArgs(n_epochs=20, default_rate=0.02, batch_size=8)
    before = objective(theta, scorer, gold, args.margin)
    assert objective(intra_slot(theta, scorer, gold, args), scorer, gold, args.margin) < before


@pytest.mark.parametrize("dropout", [False, True])
def test_labels_that_keep_their_margin_move_nothing(dropout):
    """Without a violated margin θ(e*) stays where it is, whatever moves it otherwise."""
    theta, scorer, gold = problem()
    args = IntraSlotArgs(default_rate=0.1, margin=-1e6, dropout=dropout)
    kept = intra_slot(theta, scorer, gold, args)
    for name, group in theta.groups.items():
        assert torch.equal(kept[name], group), name
