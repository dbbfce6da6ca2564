"""DeepED and Yamada against the paper's formulas, written as loops over mentions and candidates."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from stamo.features.prior import Prior
from stamo.features.relatedness import Relatedness
from stamo.features.surface import surface_similarities
from stamo.models.base import PlainScorer, make_batch
from stamo.models.deeped import DeepED
from stamo.models.tables import MASKED
from stamo.models.yamada import Yamada
from stamo_lab.published import OddsPrior, PublishedDeepED
from tests.synthetic import Q, make_synthetic_pile, make_tables, make_theta


def gamma(layers, psi):
    """Γ of one candidate: two linear layers with a ReLU between, dropout off."""
    first, last = layers[0], layers[3]
    hidden = np.maximum(
        first.weight.detach().numpy() @ np.array(psi) + first.bias.detach().numpy(), 0
    )
    return float(last.weight.detach().numpy()[0] @ hidden + last.bias.detach().numpy()[0])


def candidates_of(pile, theta, tables, m):
    """Column, vector, prior, mean relatedness and surface similarity of each candidate."""
    mentions = pile.mentions
    n_known = mentions.candidates.shape[1]
    emerging = [e for e in range(len(pile.entities)) if pile.is_candidate[m, e]]
    p = {e: float(theta["prior"][e, pile.alias[m]]) for e in emerging}
    total = sum(p.values())
    p = {e: v / max(total, 1.0) for e, v in p.items()}
    rows = []
    for c in range(n_known):
        if mentions.candidates[m, c] < 0:
            continue
        rows.append(
            (
                c,
                tables.entities[mentions.candidates[m, c]],
                mentions.known["prior"][m, c] * (1 - sum(p.values())),
                mentions.known["relatedness"][m, c],
                mentions.known["surface"][m, c],
            )
        )
    context = [int(x) for x in mentions.context[m] if x >= 0]
    for e in emerging:
        row = dict(zip(pile.neighbours.tolist(), theta["relatedness"][e].tolist(), strict=True))
        known = [x for x in context if x in row]  # the others are unknown, not unrelated
        mean = sum(row[x] for x in known) / max(len(known), 1)
        surface = surface_similarities([pile.aliases[pile.alias[m]]], [pile.entities[e].id])[0]
        rows.append((n_known + e, theta["embedding"][e].numpy(), p[e], mean, surface))
    return rows


def deeped_oracle(model, pile, theta, tables):
    width = pile.mentions.candidates.shape[1] + len(pile.entities)
    out = np.full((len(pile), width), MASKED)
    phi1, phi2, phi3 = (p.detach().numpy() for p in (model.phi1, model.phi2, model.phi3))
    for m in range(len(pile)):
        rows = candidates_of(pile, theta, tables, m)
        words = [tables.words[w] for w in pile.mentions.words[m] if w >= 0]
        context = [tables.entities[x] for x in pile.mentions.context[m] if x >= 0]
        u = [max(float(v @ (phi2 * w)) for _, v, *_ in rows) for w in words]
        kept = sorted(range(len(words)), key=lambda i: -u[i])[: model.n_attended]
        norm = sum(math.exp(u[i]) for i in kept)
        for column, v, prior, relatedness, _ in rows:
            psi2 = sum(math.exp(u[i]) / norm * float(v @ (phi1 * words[i])) for i in kept)
            psi3 = sum(float(v @ (phi3 * x)) for x in context) / max(len(context), 1)
            out[m, column] = gamma(model.combine, [prior, psi2, psi3, relatedness])
    return out


def cosine(a, b):
    norm = np.linalg.norm(a) * np.linalg.norm(b)
    return float(a @ b / norm) if norm > 0 else 0.0


def yamada_oracle(model, pile, theta, tables):
    width = pile.mentions.candidates.shape[1] + len(pile.entities)
    out = np.full((len(pile), width), MASKED)
    zero = np.zeros(Q)
    for m in range(len(pile)):
        words = [tables.words[w] for w in pile.mentions.words[m] if w >= 0]
        context = [tables.entities[x] for x in pile.mentions.context[m] if x >= 0]
        word_mean = np.mean(words, axis=0) if words else zero
        context_mean = np.mean(context, axis=0) if context else zero
        for column, v, prior, _, surface in candidates_of(pile, theta, tables, m):
            psi = [prior, cosine(v, word_mean), cosine(v, context_mean), *surface]
            out[m, column] = gamma(model.combine, psi)
    return out


CASES = [(DeepED, deeped_oracle), (Yamada, yamada_oracle)]


def make_model(kind, n_attended=5):
    torch.manual_seed(0)
    model = kind(Q) if kind is Yamada else kind(Q, n_attended=n_attended)
    if kind is not Yamada:
        for phi in (model.phi1, model.phi2, model.phi3):
            phi.data = torch.rand(Q) * 2
    return model.eval()


@pytest.mark.parametrize("shared_alias", [False, True])
@pytest.mark.parametrize(("kind", "oracle"), CASES)
def test_forward_pass_equals_the_loops(kind, oracle, shared_alias):
    """The vectorised forward pass gives the paper's formulas, candidate by candidate."""
    rng = np.random.default_rng(1)
    tables, pile = make_tables(rng), make_synthetic_pile(rng, shared_alias=shared_alias)
    theta, model = make_theta(rng, pile), make_model(kind)
    expected = oracle(model, pile, theta, tables)
    with torch.no_grad():
        scores = PlainScorer(model, pile, tables, block=7)(theta).numpy()
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shared_alias", [False, True])
@pytest.mark.parametrize(("kind", "oracle"), CASES)
def test_prepared_scores_equal_the_loops(kind, oracle, shared_alias):
    """Recomputing only what depends on e* gives the same scores, also for some of the mentions."""
    rng = np.random.default_rng(2)
    tables, pile = make_tables(rng), make_synthetic_pile(rng, shared_alias=shared_alias)
    model = make_model(kind)
    scorer = model.prepare(pile, tables)
    for _ in range(2):  # the same preparation serves any θ(e*)
        theta = make_theta(rng, pile)
        expected = oracle(model, pile, theta, tables)
        with torch.no_grad():
            np.testing.assert_allclose(scorer(theta).numpy(), expected, rtol=1e-4, atol=1e-5)
            rows = np.array([3, 0, 8])
            part = scorer.take(rows)(theta).numpy()
            np.testing.assert_allclose(part, expected[rows], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [DeepED, Yamada])
def test_gradients_with_respect_to_theta_are_exact(kind):
    """The slope of the prepared scores agrees with central differences, group by group."""
    rng = np.random.default_rng(3)
    tables, pile = make_tables(rng), make_synthetic_pile(rng, n_mentions=6)
    theta = {name: group.numpy() for name, group in make_theta(rng, pile).groups.items()}
    # All words attended: which ones are kept is a choice, not a slope.
    scorer = make_model(kind, n_attended=12).prepare(pile, tables)
    scores, back = scorer.slope(theta, None)
    by_score = np.zeros_like(scores)
    by_score[:, -1] = 1.0
    gradients = back(by_score)
    for name in ["prior", "embedding"] + (["relatedness"] if kind is DeepED else []):
        steepness = float(np.linalg.norm(gradients[name]))
        way = gradients[name] / steepness  # the steepest way, where rounding matters least
        up, down = (
            scorer.slope({**theta, name: theta[name] + step * way}, None)[0][:, -1].sum()
            for step in (2e-3, -2e-3)
        )
        assert steepness == pytest.approx(float(up - down) / 4e-3, rel=0.05)


class Dropping(torch.nn.Module):
    """Dropout that drops what it is told to drop."""

    def __init__(self, drawn, p):
        super().__init__()
        self.p, self.factor = p, torch.from_numpy(drawn >= p) / (1 - p)

    def forward(self, hidden):
        return hidden * self.factor.view(hidden.shape) if self.training else hidden


VARIANTS = {
    "ours": (Prior(), Relatedness()),
    "as printed": (Prior(renormalise=False), Relatedness(missing="zero")),
    "odds": (OddsPrior(), Relatedness()),
}


@pytest.mark.parametrize("kind", [DeepED, PublishedDeepED, Yamada])
@pytest.mark.parametrize("shared_alias", [False, True])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_slope_written_out_equals_autograd(kind, shared_alias, training, variant):
    """A step's scores and gradients are those autograd finds for the plain forward pass."""
    rng = np.random.default_rng(4)
    tables, pile = make_tables(rng), make_synthetic_pile(rng, shared_alias=shared_alias)
    theta = make_theta(rng, pile)
    theta = theta.replace(
        embedding=theta["embedding"] * 3,  # θ₃ may leave the unit sphere
        prior=theta["prior"] * 2.4,  # and entities claim more than there is, here and there
    )
    own = {f.name: f for f in VARIANTS[variant]}
    model = make_model(kind)
    model = model.with_features(tuple(own.get(f.name, f) for f in model.features))
    shape = (len(pile), 4 + len(pile.entities))
    by_score = rng.standard_normal(shape).astype(np.float32)
    by_score[5:9] = 0.0  # mentions that keep their margin
    drawn = np.random.default_rng(6).random((math.prod(shape), 100), dtype=np.float32)
    model.combine[1] = Dropping(drawn, 0.1)
    arrays = {name: group.numpy() for name, group in theta.groups.items()}
    chosen = np.random.default_rng(6) if training else None
    scores, back = model.prepare(pile, tables).slope(arrays, chosen)
    expected, recorded = PlainScorer(model, pile, tables).slope(arrays, chosen)
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-5)
    present = np.where(expected > MASKED / 2, by_score, np.float32(0))
    found, wanted = back(by_score), recorded(present)
    assert {name for name, g in found.items() if g.any()} == set(wanted)
    for name, gradient in wanted.items():
        np.testing.assert_allclose(found[name], gradient, rtol=1e-3, atol=1e-5, err_msg=name)
        assert np.abs(gradient).sum() > 0


def test_the_slope_where_nothing_is_linked():
    """A pile whose documents link nothing has an empty row of relatedness, and takes no step."""
    rng = np.random.default_rng(5)
    pile = make_synthetic_pile(rng)
    nobody = np.zeros(0, dtype=np.int32)
    context = np.full_like(pile.context, -1)
    pile = replace(pile, neighbours=nobody, context=context, extra={})
    theta = torch.zeros(1, 0)
    for feature in (Relatedness(), Relatedness(missing="zero")):
        values, back = feature.slope(theta.numpy(), pile)
        np.testing.assert_array_equal(values, feature.lookup(theta, pile).numpy())
        assert back(np.ones_like(values)).shape == (1, 0)


def test_attention_never_selects_padding():
    """Words that are not there get no weight, even when fewer than H' words exist."""
    support = torch.tensor([[-50.0, 0.3, -60.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    mask = torch.tensor([[True, False, True, False], [False, False, False, False]])
    alpha = DeepED(Q, n_attended=3).attend(support, mask)
    assert alpha[0].tolist() == pytest.approx([1.0, 0.0, math.exp(-10), 0.0], abs=1e-4)
    assert alpha[1].tolist() == [0.0] * 4


def test_the_published_attention_takes_padding_for_words():
    """Padding stands there with support 0, and the word at the H'-th score itself is left out."""
    support = torch.tensor([[2.0, -1.0, 1.0, 5.0]])
    mask = torch.tensor([[True, True, True, False]])
    model = PublishedDeepED(Q, n_attended=2)
    # The scores are 2, -1, 1 and, for padding, 0: the second is 1, and only 2 lies above it.
    assert model.attend(support, mask)[0].tolist() == [1.0, 0.0, 0.0, 0.0]
    selected, counted = model.select_array(support.numpy(), mask.numpy())
    assert selected[0].tolist() == [2.0, MASKED, MASKED, MASKED]
    assert counted.tolist() == mask.tolist()


def test_the_published_model_shares_phi():
    """It is the trained model with another attention; nothing is copied."""
    model = make_model(DeepED)
    published = PublishedDeepED.of(model)
    assert published.phi1 is model.phi1
    assert published.features == model.features
    assert type(model) is DeepED


def test_priors_of_a_shared_alias_add_up():
    """With two emerging entities for one alias the priors of all candidates sum to one."""
    rng = np.random.default_rng(4)
    pile = make_synthetic_pile(rng, shared_alias=True)
    theta = torch.tensor([[0.8, 0.5], [0.7, 0.9]])
    values = Prior().lookup(theta, pile)
    torch.testing.assert_close(values.sum(dim=1), torch.ones(len(pile)))


@pytest.mark.parametrize("n_attended", [3, 50])
@pytest.mark.parametrize("kind", [DeepED, PublishedDeepED, Yamada])
def test_scoring_known_mentions_equals_forward(kind, n_attended, monkeypatch):
    """The scores for linking are those of `forward`, whatever the blocks and the padding."""
    monkeypatch.setattr("stamo.models.tables.MAX_BLOCK_CELLS", 12)
    rng = np.random.default_rng(8)
    tables = make_tables(rng)
    mentions = make_synthetic_pile(rng, n_mentions=40).mentions
    candidates, words = mentions.candidates.copy(), mentions.words.copy()
    candidates[3], words[5] = -1, -1
    mentions = replace(mentions, candidates=candidates, words=words)
    model = make_model(kind, n_attended)
    with torch.no_grad():
        expected = model(make_batch(mentions, tables)).numpy()
    np.testing.assert_allclose(model.score_known(mentions, tables), expected, atol=1e-5)
    assert (expected[3] == MASKED).all()
