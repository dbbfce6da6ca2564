"""DeepED, Yamada and the untrained model against the paper's formulas, written as loops."""

import math

import numpy as np
import pytest

import stamo.models
from stamo.errors import ModelError
from stamo.models.base import MASKED, Frozen, Model
from stamo.models.deeped import DeepED
from stamo.models.untrained import Untrained
from stamo.models.yamada import Yamada, surface_similarities
from tests.contracts import ModelContract, implementations
from tests.synthetic import Q, make_synthetic_pile, make_theta


class TestDeepED(ModelContract):
    kind = DeepED


class TestYamada(ModelContract):
    kind = Yamada


class TestUntrained(ModelContract):
    kind = Untrained


def test_every_model_has_a_contract_test():
    """A model in any file of `stamo.models` without a contract test is found here."""
    tested = {
        test.kind for test in ModelContract.__subclasses__() if "test_models" in test.__module__
    }
    assert implementations(stamo.models, Model) == tested


def gamma(phi, psi):
    """Γ of one candidate: two linear layers with a ReLU between, dropout off."""
    hidden = np.maximum(phi["combine.0.weight"] @ np.array(psi) + phi["combine.0.bias"], 0)
    return float(phi["combine.3.weight"][0] @ hidden + phi["combine.3.bias"][0])


def candidates_of(pile, theta, m):
    """Column, vector, prior, mean relatedness and surface similarity of each candidate."""
    mentions, n_known = pile.mentions, pile.mentions.candidates.shape[1]
    emerging = [e for e in range(len(pile.entities)) if pile.is_candidate[m, e]]
    p = {e: float(theta["prior"][e, pile.alias[m]]) for e in emerging}
    total = sum(p.values())
    p = {e: v / max(total, 1.0) for e, v in p.items()}
    for c in range(n_known):
        if mentions.candidates[m, c] >= 0:
            yield (
                c,
                pile.tables.entities[mentions.candidates[m, c]],
                mentions.known["prior"][m, c] * (1 - sum(p.values())),
                mentions.known["relatedness"][m, c],
                mentions.known["surface"][m, c],
            )
    context = [int(x) for x in mentions.context[m] if x >= 0]
    for e in emerging:
        row = dict(zip(pile.neighbours.tolist(), theta["relatedness"][e].tolist(), strict=True))
        known = [x for x in context if x in row]  # the others are unknown, not unrelated
        mean = sum(row[x] for x in known) / max(len(known), 1)
        surface = surface_similarities([pile.aliases[pile.alias[m]]], [pile.entities[e].id])[0]
        yield n_known + e, theta["embedding"][e], p[e], mean, surface


def contexts_of(pile, m):
    """The vectors of the words and of the entities around a mention."""
    words = [pile.tables.words[w] for w in pile.mentions.words[m] if w >= 0]
    return words, [pile.tables.entities[x] for x in pile.mentions.context[m] if x >= 0]


def deeped_oracle(model, pile, theta, m):
    rows, (words, context) = list(candidates_of(pile, theta, m)), contexts_of(pile, m)
    phi1, phi2, phi3 = (model.phi[f"phi{i}"] for i in (1, 2, 3))
    u = [max(float(v @ (phi2 * w)) for _, v, *_ in rows) for w in words]
    kept = sorted(range(len(words)), key=lambda i: -u[i])[: model.n_attended]
    norm = sum(math.exp(u[i]) for i in kept)
    for column, v, prior, relatedness, _ in rows:
        psi2 = sum(math.exp(u[i]) / norm * float(v @ (phi1 * words[i])) for i in kept)
        psi3 = sum(float(v @ (phi3 * x)) for x in context) / max(len(context), 1)
        yield column, gamma(model.phi, [prior, psi2, psi3, relatedness])


def cosine(a, b):
    norm = np.linalg.norm(a) * np.linalg.norm(b)
    return float(a @ b / norm) if norm > 0 else 0.0


def yamada_oracle(model, pile, theta, m):
    means = [np.mean(c, axis=0) if c else np.zeros(Q) for c in contexts_of(pile, m)]
    for column, v, prior, _, surface in candidates_of(pile, theta, m):
        yield column, gamma(model.phi, [prior, *(cosine(v, mean) for mean in means), *surface])


def untrained_oracle(model, pile, theta, m):
    words, _ = contexts_of(pile, m)
    mean = np.mean(words, axis=0) if words else np.zeros(Q)
    a, b, least, c = model.phi["weights"]
    for column, v, prior, relatedness, _ in candidates_of(pile, theta, m):
        yield column, a * math.log(prior + least) + b * relatedness + c * cosine(v, mean)


class FewWords(DeepED):
    n_attended = 5


CASES = [(FewWords, deeped_oracle), (Yamada, yamada_oracle), (Untrained, untrained_oracle)]


def make_model(kind):
    model, rng = kind(Q), np.random.default_rng(7)
    phi = {n: (rng.random(Q) * 2).astype(np.float32) for n in model.phi if n.startswith("phi")}
    return model.with_phi({**model.phi, **phi})


@pytest.mark.parametrize("shared_alias", [False, True])
@pytest.mark.parametrize(("kind", "oracle"), CASES)
def test_both_forms_equal_the_loops(kind, oracle, shared_alias):
    """Plain and frozen scores are the paper's formulas, candidate by candidate, under any θ(e*)."""
    rng = np.random.default_rng(1)
    pile, model = make_synthetic_pile(rng, shared_alias=shared_alias), make_model(kind)
    for _ in range(2):  # one frozen form serves any θ(e*)
        theta = make_theta(rng, pile)
        expected = np.full((len(pile), 4 + len(pile.entities)), MASKED)
        for m in range(len(pile)):
            for column, score in oracle(model, pile, theta, m):
                expected[m, column] = score
        for form in (model.freeze(pile), Frozen(model, pile)):
            np.testing.assert_allclose(form.scores(theta), expected, rtol=1e-4, atol=1e-5)


def test_attention_never_selects_padding():
    """Words that are not there get no weight, even when fewer than H' words exist."""
    support = np.array([[-50.0, 0.3, -60.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    mask = np.array([[True, False, True, False], [False, False, False, False]])
    model = DeepED(Q)
    model.n_attended = 3
    alpha = model.attend(support, mask)
    assert alpha[0].tolist() == pytest.approx([1.0, 0.0, math.exp(-10), 0.0], abs=1e-4)
    assert alpha[1].tolist() == [0.0] * 4


@pytest.mark.parametrize(
    "change",
    [
        lambda phi: phi.pop("phi1"),
        lambda phi: phi.update(extra=np.zeros(3)),
        lambda phi: phi.update(phi2=np.ones(Q + 1)),
    ],
)
def test_arrays_of_another_model_are_refused(change):
    """One missing, one too much, one of another shape: the shapes are named."""
    phi = dict(make_model(DeepED).phi)
    change(phi)
    with pytest.raises(ModelError, match="its arrays are"):
        DeepED(Q, phi=phi)


def test_without_vectors_nothing_is_learned():
    """The untrained model of a knowledge base without vectors links, but has no frozen form."""
    pile = make_synthetic_pile(np.random.default_rng(1))
    with pytest.raises(ModelError, match="build it without --dimensions 0"):
        Untrained(0).freeze(pile)
