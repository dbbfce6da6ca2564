"""BERT: a cross-encoder of mention context and entity description (Sec. 4.1.4).

Context and description go into BERT as one sequence; a linear layer on the output of [CLS] scores
the candidate. Fine-tuning minimises the cross-entropy over the candidates of each mention.

A known entity is described by the beginning of its article, an emerging one by the contexts that
are labelled as it. The paper joins these contexts to one description; here each one is read on its
own and the scores are averaged, so that a few words of each need not do.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from stamo.errors import ModelError, need
from stamo.features.encoder import packaged_weights
from stamo.system.files import Float32, replaced_file

MENTION = "[MASK]"
"""Stands where a mention is; the rest of its text is cut evenly around it."""
TOKENS_OF_A_BATCH = 4096
"""Tokens that are scored at once, padding included."""

Tokens = list[int]
Description = tuple[str, ...]
"""One text, or several that say the same: the labelled contexts of an emerging entity."""


@dataclass(frozen=True)
class BertArgs:
    """How the cross-encoder is fine-tuned and used."""

    n_context: int = 48
    """Tokens of a context."""
    n_description: int = 48
    """Tokens of a description."""
    n_texts: int = 3
    """Labelled contexts that describe an emerging entity."""
    n_mentions: int = 1800
    """Mentions to fine-tune on."""
    n_candidates: int = 4
    """Candidates of each of them at most."""
    n_frozen: int = 2
    """Lowest layers that keep their weights, as the word embeddings do: this halves the time."""
    n_epochs: int = 1
    learning_rate: float = 2e-4
    """Highest rate: it rises over the first tenth of the steps and falls to 0 then."""
    batch_size: int = 5
    """Mentions in one step."""
    seed: int = 0


@dataclass(frozen=True)
class Example:
    """A mention: its context, its candidates' descriptions, and which one is right."""

    context: str
    descriptions: tuple[Description, ...]
    """The first describes its entity as if it were emerging."""
    gold: int


class CrossEncoder(nn.Module):
    """Scores pairs of context and description."""

    def __init__(self, tokenizer: Any, bert: nn.Module, args: BertArgs = BertArgs()) -> None:
        super().__init__()
        self.tokenizer, self.bert, self.args = tokenizer, bert, args
        self.score = nn.Linear(int(bert.config.hidden_size), 1)  # type: ignore[union-attr, arg-type]

    def forward(self, pairs: Sequence[tuple[Tokens, Tokens]]) -> Tensor:
        """Return the score of each pair of context and description, (n,)."""
        begin, end = self.tokenizer.cls_token_id, self.tokenizer.sep_token_id
        width = max(len(a) + len(b) for a, b in pairs) + 3
        ids, kinds, mask = (torch.zeros((len(pairs), width), dtype=torch.long) for _ in range(3))
        for i, (a, b) in enumerate(pairs):
            row = [begin, *a, end, *b, end]
            ids[i, : len(row)] = torch.tensor(row)
            kinds[i, len(a) + 2 : len(row)] = 1
            mask[i, : len(row)] = 1
        output = self.bert(input_ids=ids, token_type_ids=kinds, attention_mask=mask)
        scores: Tensor = self.score(output.last_hidden_state[:, 0]).squeeze(-1)
        return scores

    def read(self, texts: Sequence[str], n_tokens: int) -> list[Tokens]:
        """Return tokens of each text: those around its mention, or the first where it has none."""
        if not texts:
            return []
        mark = self.tokenizer.mask_token_id
        read = self.tokenizer(list(texts), add_special_tokens=False)["input_ids"]
        return [_around(ids, mark, n_tokens) for ids in read]

    def read_descriptions(self, descriptions: Sequence[Description]) -> list[list[Tokens]]:
        """Return the tokens of what is scored of each description; an empty one stays so."""
        n_texts, n_tokens = self.args.n_texts, self.args.n_description
        return [self.read(texts[:n_texts] or ("",), n_tokens) for texts in descriptions]

    @torch.inference_mode()
    def link(self, contexts: Sequence[str], descriptions: Sequence[Description]) -> Float32:
        """Score every context with every description, (contexts, descriptions)."""
        self.eval()
        left = self.read(contexts, self.args.n_context)
        right = self.read_descriptions(descriptions)
        pairs = [(a, b) for a in left for texts in right for b in texts]
        first = np.cumsum([0, *(len(texts) for texts in right)])
        scores = self._score(pairs).reshape(len(left), first[-1])
        columns = [scores[:, i:j].mean(axis=1) for i, j in pairwise(first)]
        return np.stack(columns, axis=1) if columns else scores

    def _score(self, pairs: Sequence[tuple[Tokens, Tokens]]) -> Float32:
        """Score pairs of like length together, so that little is padded."""
        lengths = np.array([len(a) + len(b) + 3 for a, b in pairs], dtype=np.int64)
        order, scores = np.argsort(-lengths, kind="stable"), np.zeros(len(pairs), np.float32)
        while len(order):
            n = max(1, TOKENS_OF_A_BATCH // int(lengths[order[0]]))
            scores[order[:n]] = self([pairs[i] for i in order[:n]]).numpy()
            order = order[n:]
        return scores

    def unfrozen(self) -> list[nn.Parameter]:
        """Freeze word embeddings and the lowest layers; return what is left to learn."""
        frozen = ("embeddings.", *(f"encoder.layer.{i}." for i in range(self.args.n_frozen)))
        for name, parameter in self.bert.named_parameters():
            parameter.requires_grad_(not name.startswith(frozen))
        return [parameter for parameter in self.parameters() if parameter.requires_grad]

    def save(self, path: Path) -> None:
        """Write weights and settings; the file appears when it is complete."""
        path.parent.mkdir(parents=True, exist_ok=True)
        state = {name: value.contiguous() for name, value in self.state_dict().items()}
        with replaced_file(path) as part:
            save_file(state, part, {"args": json.dumps(asdict(self.args))})


def _around(ids: Tokens, mark: int, n: int) -> Tokens:
    """Cut n tokens, evenly around the mark where there is one."""
    if mark not in ids:
        return ids[:n]
    first = max(0, min(ids.index(mark) - n // 2, len(ids) - n))
    return ids[first : first + n]


def load_cross_encoder(args: BertArgs = BertArgs()) -> CrossEncoder:
    """Load the MiniLM that the extra brings, not fine-tuned yet.

    Raises:
        MissingExtraError: transformers or the weights are not installed.
    """
    transformers = need("transformers", "bert")
    source = str(packaged_weights("bert"))
    transformers.utils.logging.disable_progress_bar()
    tokenizer = transformers.AutoTokenizer.from_pretrained(source, local_files_only=True)
    bert = transformers.AutoModel.from_pretrained(source, local_files_only=True)
    torch.manual_seed(args.seed)
    return CrossEncoder(tokenizer, bert, args).eval()


def load_tuned(path: Path) -> CrossEncoder:
    """Load a cross-encoder that was fine-tuned and saved, with its settings.

    Raises:
        ModelError: The file is damaged or something else.
    """
    try:
        with safe_open(path, "pt") as file:
            args = BertArgs(**json.loads(file.metadata()["args"]))
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ModelError(
            f"{path} is no complete cross-encoder ({error}); delete it and run again."
        ) from error
    encoder = load_cross_encoder(args)
    encoder.load_state_dict(load_file(path))
    return encoder


def fine_tune(encoder: CrossEncoder, examples: Sequence[Example]) -> CrossEncoder:
    """Fine-tune on mentions of known entities by the cross-entropy over their candidates."""
    args = encoder.args
    rng = np.random.default_rng(args.seed)
    torch.manual_seed(args.seed)
    batches = [
        order[i : i + args.batch_size]
        for order in (rng.permutation(len(examples)) for _ in range(args.n_epochs))
        for i in range(0, min(len(order), args.n_mentions), args.batch_size)
    ]
    parameters = encoder.unfrozen()
    optimiser = torch.optim.AdamW(parameters, lr=args.learning_rate)
    warm_up = max(1, len(batches) // 10)
    # Without dropout: one pass over many groups does not overfit, and attention is faster so.
    encoder.eval()
    for step, rows in enumerate(batches):
        share = min((step + 1) / warm_up, (len(batches) - step) / len(batches))
        optimiser.param_groups[0]["lr"] = args.learning_rate * share
        loss = _loss(encoder, [examples[i] for i in rows], rng)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
    return encoder


def _loss(encoder: CrossEncoder, examples: Sequence[Example], rng: np.random.Generator) -> Tensor:
    contexts = encoder.read([e.context for e in examples], encoder.args.n_context)
    pairs, sizes, losses = [], [], []
    for context, example in zip(contexts, examples, strict=True):
        # The right candidate first, then others by chance.
        others = rng.permutation([i for i in range(len(example.descriptions)) if i != example.gold])
        places = [example.gold, *others[: encoder.args.n_candidates - 1].tolist()]
        read = encoder.read_descriptions([_shuffled(example.descriptions[i], rng) for i in places])
        pairs += [(context, tokens[0]) for tokens in read]
        sizes.append(len(places))
    for scores in encoder(pairs).split(sizes):
        losses.append(nn.functional.cross_entropy(scores[None], torch.zeros(1, dtype=torch.long)))
    return torch.stack(losses).mean()


def _shuffled(texts: Description, rng: np.random.Generator) -> Description:
    return tuple(texts[i] for i in rng.permutation(len(texts)))
