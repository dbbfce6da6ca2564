"""Learn what margin and views are worth from entities that play new ones.

Of an entity whose mentions are all judged some mentions play the labels; what the others mean is
told by the correction of `stamo.learning.default` under some prior. The prior under which they are
the most likely is kept (empirical Bayes, by gradient). A knowledge base gives such entities itself:
one that it knows is hidden among others that are said to share its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from stamo.corpus.types import EmergingEntity
from stamo.features.base import estimate
from stamo.features.encoder import load_encoder
from stamo.features.mentions import (
    EMERGING,
    OTHER,
    UNKNOWN,
    Article,
    Lexicon,
    Surroundings,
    flatten_articles,
)
from stamo.features.pile import Pile, TextEncoder, prepare_pile
from stamo.kb.base import KnowledgeBase
from stamo.learning.default import left_out_margins
from stamo.learning.learn import CLOSED_FORM
from stamo.models.adapter import (
    AdapterArgs,
    describe_article,
    is_reserved,
    read_links,
    train_adapter,
)
from stamo.models.correction import VIEWS
from stamo.models.store import TrainedModel, open_encoder
from stamo.models.weights import Weights, situation_of, to_record, weights_for
from stamo.system.files import Bools, Float64, Int64

MOST_MEANS = 4
"""A view of at most so many columns speaks before any label does; the columns of a wider one, such
as a vector's, have no meaning that entities share."""
N_LABELS = (0, 5, 20)
"""How many labels an entity is given while the numbers are learned."""


@dataclass(frozen=True)
class Trial:
    """An entity of which some judged mentions play the labels, and the others are to be told."""

    views: Mapping[str, Float64]  # the rows of all judged mentions, (n, d), centred
    margin: Float64  # (n,) in log odds; a label's is made without it
    means: Bools  # (n,) which of them mean the entity
    is_label: Bools  # (n,)

    @classmethod
    def of(cls, pile: Pile, rows: Int64, means: Bools, trained: TrainedModel) -> Trial:
        """Let the labelled mentions play the labels; `rows` are the judged ones."""
        model, temperature = (
            trained.model.with_features(CLOSED_FORM),
            trained.calibration.temperature,
        )
        sample = pile.sample()
        theta = estimate(sample, model.features)
        documents = np.where(pile.labelled, pile.mentions.documents, -1)
        frozen = model.freeze(pile)
        margin = left_out_margins(frozen, theta, sample, documents, {}, temperature)[rows, 0]
        views = {}
        for view in VIEWS:
            everyone = pile.rows(view)
            if everyone.shape[1]:
                own = everyone[rows]
                own = own if isinstance(own, np.ndarray) else np.asarray(own.todense())
                centre = everyone.mean(axis=0) if view.is_centred else 0.0
                views[view.name] = np.asarray(own - centre, dtype=np.float64)
        odds = margin.astype(np.float64) / temperature
        return cls(views, odds, means, pile.labelled[rows])


def learn_weights(
    trials: Sequence[Trial],
    start: Weights,
    *,
    strength: float = 0.0,
    only: Sequence[str] = (),
    n_steps: int = 60,
) -> Weights:
    """Return the weights under which the unlabelled mentions of trials are the most likely.

    Args:
        trials: Of many entities in one situation.
        start: Where to begin.
        strength: How many trials the start counts for.
        only: Views whose numbers may move, with the bias; all numbers by default.
        n_steps: Of the optimiser (L-BFGS).
    """
    batch = _Batch(trials)
    first = _numbers(start, batch.widths)
    moving = [n for n in first if not only or n == "bias" or n.endswith(tuple(only))]
    numbers = {n: value.clone().requires_grad_(n in moving) for n, value in first.items()}
    optimiser = torch.optim.LBFGS(
        [numbers[name] for name in moving], lr=0.5, max_iter=n_steps, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimiser.zero_grad()
        odds = batch.predict(numbers)
        loss = functional.binary_cross_entropy_with_logits(odds, batch.gold, reduction="none")
        mean = ((loss * batch.is_test).sum(dim=1) / batch.is_test.sum(dim=1).clamp(min=1)).mean()
        moved = sum(((numbers[n] - first[n]) ** 2).sum() for n in moving)
        logs = [value for name, value in numbers.items() if name.startswith("log")]
        kept = sum((value.abs() - 4).clamp(min=0).square().sum() for value in logs)
        total: Tensor = mean + strength * moved / len(trials) + 0.01 * kept
        total.backward()  # type: ignore[no-untyped-call]
        return total

    optimiser.step(closure)  # type: ignore[no-untyped-call]
    learned = _weights({name: value.detach() for name, value in numbers.items()}, batch.widths)
    return replace(
        learned,
        mean={**start.mean, **learned.mean},
        variance={**start.variance, **learned.variance},
    )


class _Batch:
    """Trials side by side: B of them with at most n mentions, of which L are labels."""

    def __init__(self, trials: Sequence[Trial]) -> None:
        self.widths = {n: v.shape[1] for trial in trials for n, v in trial.views.items()}
        n, most = max(len(t.means) for t in trials), max(int(t.is_label.sum()) for t in trials)
        most = max(most, 1)
        shape = (len(trials), n)
        gold, is_test, margin = (np.zeros(shape) for _ in range(3))
        self._labels = np.zeros((len(trials), most), dtype=np.int64)
        real = np.zeros(self._labels.shape)
        columns = {m: np.zeros((*shape, w)) for m, w in self.widths.items() if w <= MOST_MEANS}
        products = {m: np.zeros((*shape, most)) for m in self.widths if m not in columns}
        for b, trial in enumerate(trials):
            own = slice(len(trial.means))
            labels = np.flatnonzero(trial.is_label)
            gold[b, own], margin[b, own] = trial.means, trial.margin
            is_test[b, own] = ~trial.is_label
            self._labels[b, : len(labels)], real[b, : len(labels)] = labels, 1.0
            for name, rows in trial.views.items():
                if name in columns:
                    columns[name][b, own] = rows
                else:
                    products[name][b, own, : len(labels)] = rows @ rows[labels].T
        arrays = (gold, is_test, margin, real)
        self.gold, self.is_test, self._margin, self._real = map(torch.from_numpy, arrays)
        self._columns = {m: torch.from_numpy(values) for m, values in columns.items()}
        self._products = {m: torch.from_numpy(values) for m, values in products.items()}

    def predict(self, numbers: Mapping[str, Tensor]) -> Tensor:
        """Return the log odds of all mentions, (B, n), differentiable in the numbers."""
        at = torch.from_numpy(self._labels)
        rows = torch.arange(len(at))[:, None]
        gold, margin = self.gold[rows, at], self._margin[rows, at]
        n_positive = (gold * self._real).sum(dim=1, keepdim=True)
        trust = n_positive / (n_positive + numbers["log half trust"].exp())
        expected = numbers["bias"] + trust * self._margin
        deviation, scale = numbers["log bias deviation"].exp(), numbers["log scale"].exp()
        alike = deviation**2 + scale**2 * self._margin[:, :, None] * margin[:, None, :]
        for name, columns in self._columns.items():
            expected = expected + columns @ numbers[f"mean {name}"]
            varied = columns * numbers[f"log variance {name}"].exp()
            alike = alike + varied @ columns[rows, at].transpose(1, 2)
        for name, products in self._products.items():
            alike = alike + numbers[f"log variance {name}"].exp() * products
        alike = alike * self._real[:, None, :]  # (B, n, L)
        among, asked = alike[rows, at], expected[rows, at]

        def step(among: Tensor, asked: Tensor, alpha: Tensor) -> Tensor:
            odds = asked + (among @ alpha[..., None])[..., 0]
            p = odds.sigmoid()
            curvature = (p * (1 - p)).clamp(min=1e-4) * self._real + 1e-9
            target = odds - asked + (gold - p) * self._real / curvature
            system = among + torch.diag_embed(1 / curvature)
            solved: Tensor = torch.linalg.solve(system, target[..., None])
            return solved[..., 0] * self._real

        alpha = torch.zeros_like(asked)
        with torch.no_grad():  # the mode; one more step carries the gradient
            for _ in range(25):
                proposed = step(among, asked, alpha) - alpha
                size = (among @ proposed[..., None])[..., 0].abs().amax(dim=1, keepdim=True)
                alpha = alpha + proposed * (3 / size.clamp(min=1e-9)).clamp(max=1.0)
        alpha = step(among, asked, alpha)
        return expected + (alike @ alpha[..., None])[..., 0]


def _numbers(weights: Weights, widths: Mapping[str, int]) -> dict[str, Tensor]:
    """Return weights as what is optimised: positive numbers by their logarithm."""
    plain = {
        "log half trust": weights.half_trust,
        "log bias deviation": weights.bias_deviation,
        "log scale": weights.scale,
    }
    found = {name: np.log(max(value, 1e-3)) for name, value in plain.items()}
    found["bias"] = np.float64(weights.bias)
    for name, width in widths.items():
        has_mean = width <= MOST_MEANS
        own = np.array(weights.variance.get(name, (1.0,)))
        found[f"log variance {name}"] = np.log(own * np.ones(width if has_mean else 1))
        if has_mean:
            found[f"mean {name}"] = np.array(weights.mean.get(name, (0.0,))) * np.ones(width)
    return {name: torch.tensor(value, dtype=torch.float64) for name, value in found.items()}


def _weights(numbers: Mapping[str, Tensor], widths: Mapping[str, int]) -> Weights:
    def plain(name: str) -> tuple[float, ...]:
        value = numbers[name].exp() if name.startswith("log ") else numbers[name]
        return tuple(round(x, 3) for x in value.reshape(-1).tolist())

    return Weights(
        bias=plain("bias")[0],
        bias_deviation=plain("log bias deviation")[0],
        half_trust=plain("log half trust")[0],
        scale=plain("log scale")[0],
        mean={n: plain(f"mean {n}") for n in widths if widths[n] <= MOST_MEANS},
        variance={n: plain(f"log variance {n}") for n in widths},
    )


def adapt_to(
    kb: KnowledgeBase,
    trained: TrainedModel,
    *,
    n_steps: int = 400,
    seed: int = 0,
    on_progress: Callable[[float, str], None] = lambda share, text: None,
) -> TrainedModel:
    """Let the installed encoder read a knowledge base's links, and learn what it then is worth.

    Raises:
        MissingExtraError: No encoder is installed.
        LearningError: Too few articles of the knowledge base are linked.
    """

    def on_step(step: int, loss: float) -> None:
        on_progress(0.8 * step / n_steps, f"Reading the links (loss {loss:.2f})")

    args = AdapterArgs(n_steps=n_steps, seed=seed)
    trained = replace(trained, adapter=train_adapter(kb, load_encoder(), args, on_step=on_step))
    encoder = open_encoder(trained, kb)
    assert encoder is not None
    learned = rehearse(
        kb,
        trained,
        encoder,
        seed=seed,
        on_entity=lambda n, of: on_progress(0.8 + 0.2 * n / of, "Hiding known entities"),
    )
    return replace(trained, weights=to_record(learned))


N_ENTITIES, N_RIVALS, MOST_MENTIONS = 120, 6, 60
"""Entities that are hidden, others that are said to share the name of each, and mentions of it."""
LEAST_LINKS = 4
RARE, COMMON = 0.03, 0.3
"""Share of the mentions that mean the hidden entity: new ones are rare under their names."""
AROUND = 2500
"""Characters of an article that are read on either side of a link."""
STRENGTH = 1.0
"""How far the weights of the package hold against what the knowledge base says."""


def rehearse(
    kb: KnowledgeBase,
    trained: TrainedModel,
    encoder: TextEncoder,
    *,
    seed: int = 0,
    on_entity: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, Weights]:
    """Adapt the package's weights to an encoder that has read a knowledge base.

    Known entities that the encoder was not adapted with are hidden among links to others, half of
    them of the same topic, as if all had one name. They teach what the likeness to a description is
    worth; what names are worth they cannot teach.
    """
    links, targets = read_links(kb, kb.has_article)
    distinct, first, n_links = np.unique(targets, return_index=True, return_counts=True)
    rng = np.random.default_rng(seed)
    usable = [i for i, n in enumerate(n_links.tolist()) if n >= LEAST_LINKS]
    usable = [i for i in usable if is_reserved(kb.title(int(distinct[i])))]
    openings = _openings(kb)
    found: dict[str, list[Trial]] = {}
    for number, i in enumerate(rng.permutation(usable)[:N_ENTITIES].tolist()):
        on_entity(number, min(len(usable), N_ENTITIES))
        title = kb.title(int(distinct[i]))
        whole, after = describe_article(title, openings.get(title, ""))
        if not whole:
            continue
        own = first[i] + rng.permutation(n_links[i])[: rng.integers(3, 13)]
        near, _ = kb.nearest(int(distinct[i]), 10 * N_RIVALS) if kb.dimensions else (own[:0], None)
        rivals = np.flatnonzero(np.isin(distinct, rng.permutation(near)[:N_RIVALS]))
        n = min(MOST_MENTIONS, int(len(own) / rng.uniform(RARE, COMMON))) - len(own)
        others = np.concatenate([first[j] + np.arange(n_links[j]) for j in rivals] or [own[:0]])
        others = rng.permutation(others)[: n // 2]
        rest = rng.permutation(np.flatnonzero(targets != distinct[i]))[: max(n - len(others), 8)]
        rows = np.concatenate([own, others, rest])
        means = np.arange(len(rows)) < len(own)
        pile = _pile(kb, trained, encoder, links.take(rows), after or whole)
        for size in (size for size in N_LABELS if size + 8 <= len(rows)):
            chosen = rng.permutation(len(rows))[:size]
            gold = np.full(len(rows), UNKNOWN, dtype=np.int32)
            gold[chosen] = np.where(means[chosen], EMERGING, OTHER)
            trial = Trial.of(pile.labelled_as(gold), np.arange(len(rows)), means, trained)
            found.setdefault(situation_of(pile), []).append(trial)
    return {
        situation: learn_weights(trials, weights_for(situation), strength=STRENGTH, only=READ)
        for situation, trials in found.items()
    }


READ = ("description", "sentence")
"""The views that an encoder reads for."""


def _openings(kb: KnowledgeBase) -> dict[str, str]:
    """Return how the articles begin, by title."""
    return {
        title: text[:2000]
        for batch in kb.articles(columns=["title", "text"])
        for title, text in zip(batch["title"].to_pylist(), batch["text"].to_pylist(), strict=True)
    }


def _pile(
    kb: KnowledgeBase,
    trained: TrainedModel,
    encoder: TextEncoder,
    links: Surroundings,
    description: str,
) -> Pile:
    """Return the pile of an entity that shares its name with all that some links mean."""
    entity = EmergingEntity("the hidden entity", ("hidden",), description)
    articles: list[Article] = []
    for d, start, end in links.places():
        begin = max(0, start - AROUND)
        place = np.array([[start - begin], [end - begin], [UNKNOWN]], dtype=np.int32)
        articles.append((links.texts[d][begin : end + AROUND], *place))
    texts, starts, ends, _ = zip(*articles, strict=True)
    flat = flatten_articles(articles, Lexicon.of(kb), [entity.aliases] * len(texts))
    spans = np.concatenate(starts), np.concatenate(ends)
    flat = replace(flat, text=Surroundings(texts, flat.documents, *spans))
    return prepare_pile(flat, [entity], kb, trained, encoder=encoder)
