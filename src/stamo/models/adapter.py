"""An encoder learns from a knowledge base what the words around a name say of the thing it means.

A step pairs windows around links with the first sentences of the linked articles. The name is
masked in the one and left out of the other, so only what is said, and the kind of thing that the
words call for, can tell which belong together.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from stamo.errors import LearningError, SettingsError
from stamo.features.adapter import DOWN, UP, Adapter
from stamo.features.encoder import MASK, Bert, Encoder, fast_dtype, mask_name, read_weights
from stamo.features.mentions import Surroundings
from stamo.features.views import WINDOW
from stamo.kb.base import KnowledgeBase
from stamo.system.files import Bools, Int32, Int64

ADAPTED = tuple(f".{part}.weight" for part in ("query", "value", "dense"))
"""The weights of each layer that learn: queries, values, the output of attention, feed-forward."""
MOST_DOCUMENTS = 20_000
"""Articles whose links are read; of a larger knowledge base, every second, third or further one."""


@dataclass(frozen=True)
class AdapterArgs:
    """How an encoder is adapted."""

    n_steps: int = 400
    batch_size: int = 48
    """Pairs in a step; each window is told from the targets of all others."""
    n_groups: int = 4
    """Targets of a step that are joined by others of their topic, so that the kind decides."""
    n_near: int = 6
    """How many join each."""
    learning_rate: float = 1e-3
    """At its height, after `WARM_UP` steps; it falls to a tenth."""
    temperature: float = 0.05
    rank: int = 8
    scale: float = 2.0
    """By what the product of the factors is multiplied."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.n_steps < 1 or self.batch_size <= self.n_groups * (self.n_near + 1):
            raise SettingsError("Adapting needs at least one step, of more pairs than are near.")


WARM_UP = 20


@dataclass(frozen=True)
class Pairs:
    """Windows around links and descriptions of what they link to, step after step."""

    windows: list[str]  # the name masked
    descriptions: list[str]


def is_reserved(title: str) -> bool:
    """Tell whether an article is never a target while an encoder is adapted: three of ten.

    Entities that stand for new ones when something else is learned or measured come from these.
    """
    digest = hashlib.blake2b(title.encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") % 10 < 3


def train_adapter(
    kb: KnowledgeBase,
    encoder: Encoder,
    args: AdapterArgs = AdapterArgs(),
    *,
    on_step: Callable[[int, float], None] = lambda step, loss: None,
) -> Adapter:
    """Adapt an encoder to the links of a knowledge base by contrast of pairs in a batch.

    The same bytes come again on one machine with the same number of threads.

    Args:
        kb: With articles that link to each other.
        encoder: A BERT as it comes, without any adapter.
        args: How it learns.
        on_step: Called after each step with its number and the mean loss of the last ones.

    Raises:
        LearningError: The knowledge base has too few linked articles.
    """
    pairs = draw_pairs(kb, args)
    weights, dtype = read_weights(encoder.folder), fast_dtype()
    rng = np.random.default_rng(args.seed)
    inner = sorted(name for name in weights if name.startswith("encoder.layer."))
    layers = [name.removesuffix(".weight") for name in inner if name.endswith(ADAPTED)]
    factors: dict[str, Tensor] = {}
    for layer in layers:
        n_out, n_in = weights[f"{layer}.weight"].shape
        down = rng.uniform(-1, 1, (args.rank, n_in)).astype(np.float32) / np.sqrt(n_in)
        factors[layer + DOWN] = torch.from_numpy(down.astype(np.float32)).requires_grad_()
        factors[layer + UP] = torch.zeros(n_out, args.rank, requires_grad=True)
    optimiser = torch.optim.AdamW(factors.values(), lr=args.learning_rate, weight_decay=0.0)
    gold, mean_loss = torch.arange(args.batch_size), 0.0
    for step in range(1, args.n_steps + 1):
        for group in optimiser.param_groups:
            falling = 1 - 0.9 * step / args.n_steps
            group["lr"] = args.learning_rate * min(1.0, step / WARM_UP) * falling
        merged = dict(weights)
        for layer in layers:
            low_rank = args.scale * factors[layer + UP] @ factors[layer + DOWN]
            merged[f"{layer}.weight"] = weights[f"{layer}.weight"] + low_rank
        bert = Bert(merged, encoder.config, dtype)
        rows = slice((step - 1) * args.batch_size, step * args.batch_size)
        called_for = _vectors(bert, encoder, pairs.windows[rows])
        described = _vectors(bert, encoder, pairs.descriptions[rows])
        likeness = called_for @ described.T / args.temperature
        loss = functional.cross_entropy(likeness, gold) / 2
        loss = loss + functional.cross_entropy(likeness.T, gold) / 2
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        kept = 0.95 if step > 1 else 0.0
        mean_loss = kept * mean_loss + (1 - kept) * float(loss.detach())
        on_step(step, mean_loss)
    learned = {}
    for name, values in factors.items():
        scaled = values.detach() * (args.scale if name.endswith(UP) else 1.0)
        learned[name] = scaled.numpy().astype(np.float16)
    return Adapter(learned, encoder.fingerprint, kb.fingerprint)


def _vectors(bert: Bert, encoder: Encoder, texts: Sequence[str]) -> Tensor:
    """Return unit rows of texts, (n, d): the mean of the tokens, and the mask's where there is one.

    What `Encoder.encode_masked` and `Encoder.encode` return, with gradients.
    """
    read = encoder.tokenizer.encode_batch(list(texts))
    length = max(len(tokens) for tokens in read)
    ids = torch.tensor([[*tokens.ids, *[0] * (length - len(tokens))] for tokens in read])
    inside = torch.arange(length) < torch.tensor([[len(tokens)] for tokens in read])
    masked = ids == encoder.tokenizer.token_to_id(MASK)
    shares = inside / inside.sum(dim=1, keepdim=True)
    shares = shares + masked / masked.sum(dim=1, keepdim=True).clamp_min(1)
    hidden = bert(ids, inside).float()
    return functional.normalize((shares[:, None] @ hidden)[:, 0], dim=-1)


def draw_pairs(kb: KnowledgeBase, args: AdapterArgs) -> Pairs:
    """Draw links for all steps; no two pairs of a step have one target.

    Raises:
        LearningError: Fewer articles than pairs of a step are linked.
    """
    rng = np.random.default_rng(args.seed)
    titles = kb.titles(np.arange(kb.n_entities))
    is_open = np.array([not is_reserved(title) for title in titles], dtype=bool)
    surroundings, targets = read_links(kb, kb.has_article & is_open)
    distinct, first, n_links = np.unique(targets, return_index=True, return_counts=True)
    described = _read_descriptions(kb, distinct)
    usable = np.flatnonzero([entity in described for entity in distinct.tolist()])
    if len(usable) < args.batch_size:
        raise LearningError(
            f"Only {len(usable)} articles of the knowledge base {kb.name!r} are linked and begin "
            f"with a sentence; adapting the encoder needs {args.batch_size}: build it from more "
            "text, or train with --no-encoder."
        )
    chosen = usable[_draw_batches(kb, distinct[usable], args, rng)]
    links = first[chosen] + rng.integers(n_links[chosen])
    windows = surroundings.take(links).windows(WINDOW)
    return Pairs(
        [mask_name(*window)[0] for window in windows],
        [_say(described[entity], rng) for entity in distinct[chosen].tolist()],
    )


def _draw_batches(
    kb: KnowledgeBase, targets: Int32, args: AdapterArgs, rng: np.random.Generator
) -> Int64:
    """Draw the pairs of all steps as places among targets; those of one step differ."""
    vectors = np.asarray(kb.entity_vectors()[targets] if kb.dimensions else np.eye(len(targets), 1))
    n_drawn = args.batch_size - args.n_groups * args.n_near
    n_rounds = -(-args.n_steps * n_drawn // len(targets))
    order = np.concatenate([rng.permutation(len(targets)) for _ in range(n_rounds)])
    batches = []
    for step in range(args.n_steps):
        drawn = order[step * n_drawn : (step + 1) * n_drawn]
        likeness = vectors[drawn[: args.n_groups]] @ vectors.T
        near = np.argsort(-likeness, axis=1, kind="stable")[:, 1 : 1 + 3 * args.n_near]
        near = rng.permuted(near, axis=1)[:, : args.n_near].ravel()
        # Further ones take the place of those that came twice.
        every = np.concatenate([drawn, near, rng.permutation(len(targets))])
        _, first = np.unique(every, return_index=True)
        batches.append(every[np.sort(first)[: args.batch_size]])
    return np.concatenate(batches)


def read_links(kb: KnowledgeBase, wanted: Bools) -> tuple[Surroundings, Int32]:
    """Return links to the wanted entities, by target, and what each links to, (n,)."""
    step = max(1, -(-kb.n_documents // MOST_DOCUMENTS))
    texts: list[str] = []
    places, number = [], 0
    for batch in kb.articles(columns=["text", "mentions"]):
        for text, mentions in zip(batch["text"], batch["mentions"], strict=True):
            if number % step == 0 and len(mentions):
                values = mentions.values
                found = [values.field(name).to_numpy() for name in ("start", "end", "entity")]
                places.append(np.stack([np.full(len(found[0]), len(texts)), *found]))
                texts.append(text.as_py())
            number += 1
    documents, starts, ends, targets = np.hstack(places or [np.zeros((4, 0))]).astype(np.int32)
    rows = np.flatnonzero(np.asarray(wanted)[targets])
    rows = rows[np.argsort(targets[rows], kind="stable")]
    return Surroundings(texts, documents, starts, ends).take(rows), targets[rows]


# How English articles begin.
_END = re.compile(r"(?<![\s.(][A-Z])[.!?]['\")\]]*\s+(?=['\"(\[]?[A-Z0-9])|\n+")
_NOTE = re.compile(r"This (article|page) |For (other|the|an?|more) |See (also )?|Alternat|Note:")
_IS = re.compile(r"\b(is|was|are|were|refers to|means)( also| usually| generally)?(?= )")
_ASIDE = re.compile(r"\s*\([^()]*\)")
_CLAUSE = re.compile(r"[,;]| (which|that|who|whose|where) ")
SHORTEST, LONGEST = 50, 400
"""Characters of a first sentence."""
AFTER_IS, SHORT, BARE = 0.6, 0.5, 0.5
"""How often a description is only what follows "is", of these only its first clause, and of these
only its first words, as users write."""


def _read_descriptions(kb: KnowledgeBase, wanted: Int32 | Int64) -> dict[int, tuple[str, str]]:
    """Return the first sentences of articles without their names, and what follows "is" there."""
    found = {}
    for batch in kb.articles(columns=["title", "text"]):
        ids = kb.entity_ids(batch["title"].to_pylist())
        for i in np.flatnonzero(np.isin(ids, wanted)).tolist():
            said = describe_article(batch["title"][i].as_py(), batch["text"][i].as_py())
            if said[0]:
                found[int(ids[i])] = said
    return found


def describe_article(title: str, text: str) -> tuple[str, str]:
    """Return an article's first sentence without its name, and what follows "is" in it, if any.

    Both are empty where the text does not begin with words.
    """
    start, sentence, text = 0, "", text[: 3 * LONGEST] + "\n"
    for end in _END.finditer(text):
        sentence = text[start : end.start() + 1].strip()
        if _NOTE.match(sentence):
            start = end.end()
        elif len(sentence) >= SHORTEST:
            break
    sentence = _ASIDE.sub("", sentence[:LONGEST]).strip(" .\n")
    name = re.compile(rf"(?<!\w){re.escape(_ASIDE.sub('', title))}(?!\w)", re.IGNORECASE)
    whole = " ".join(name.sub("", sentence).split()).strip(" ,.")
    if len(whole) < SHORTEST // 2 or not any(map(str.isalpha, title)):
        return "", ""
    is_ = _IS.search(sentence)
    return whole, name.sub("it", sentence[is_.end() :]).strip() if is_ else ""


def _say(description: tuple[str, str], rng: np.random.Generator) -> str:
    """Return a description in the length of an encyclopaedia or of a user."""
    whole, after = description
    draws = rng.random(3)
    if not after or draws[0] >= AFTER_IS:
        return whole
    if draws[1] >= SHORT:
        return after
    clause = _CLAUSE.search(after, 12)
    said = after[: clause.start()] if clause else after
    if draws[2] >= BARE:
        return said
    return " ".join(re.sub(r"^(an?|the) ", "", said).split()[: rng.integers(4, 13)])
