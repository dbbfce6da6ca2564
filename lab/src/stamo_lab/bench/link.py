"""How fast `stamo link`, the passes of `discover` and `collect`, and the encoder are.

Each stands beside a simpler way to do the same in the same run, so that the machine matters less.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from statistics import median

import numpy as np
import torch

from stamo.corpus.aliases import AliasGroups, AliasMatcher
from stamo.corpus.reading import Chunk, ReadChunk, list_files, read_chunks, read_documents
from stamo.corpus.types import Document
from stamo.discovery.discover import make_observer
from stamo.discovery.names import Tally
from stamo.errors import SettingsError
from stamo.features.base import encode_features
from stamo.features.encoder import BATCH_TOKENS, Encoder
from stamo.features.mentions import encode, most_frequent_entities
from stamo.kb.base import KnowledgeBase
from stamo.linking.linker import Linker, batched
from stamo.linking.output import link_format
from stamo.linking.results import LinkedDocument, LinkedMention
from stamo.models.store import TrainedModel, load_model
from stamo.system.processes import one_thread, without_garbage_collection
from stamo_lab.bench.usage import MB, Say, Usage, measure, timed

N_PLAIN = 16
"""Documents linked mention by mention; more would only take time."""
N_ROUNDS = 3
"""Times that the encoder runs each way; the medians are compared."""

Measured = dict[str, str | float | None]
"""One row of a table."""


def news_size_documents(kb: KnowledgeBase, n: int, length: int = 3000) -> list[Document]:
    """Cut held-out articles, or any where there are none, to about the length of a news text."""
    documents: list[Document] = []
    for held_out in (True, False):
        for batch in kb.articles(held_out=held_out, columns=["text"]):
            texts = (text for text in batch["text"].to_pylist() if len(text) >= length // 2)
            for text in texts:
                documents.append(Document(f"article-{len(documents)}", text[:length]))
                if len(documents) == n:
                    return documents
    if not documents:
        raise SettingsError(f"{kb.name} has no article of {length // 2} characters to link.")
    return documents


def measure_linking(
    kb_path: Path,
    model_path: Path,
    documents: Sequence[Document],
    *,
    workers: int,
    seconds: float,
    before: Path | None,
    say: Say,
) -> list[Measured]:
    """Link the same documents in several ways, one after the other.

    Args:
        kb_path: A knowledge base.
        model_path: A model.
        documents: What is linked.
        workers: Processes of the second setting.
        seconds: How long each setting runs at least; 0 links the documents once.
        before: The folder `src` of another version of this program, to compare with.
        say: Told what is measured.

    Raises:
        SuiteError: A command failed.
    """
    together = f"{workers} processes"
    settings: list[tuple[str, tuple[str, ...], Path | None]] = [
        ("1 process", (), None),
        (together, (f"--workers={workers}",), None),
        ("by prior alone", ("--passes=1",), None),
    ]
    if before is not None:
        settings.append(("before, 1 process", (), before))
        settings.append((f"before, {together}", (f"--workers={workers}",), before))
    rows: list[Measured] = []
    with tempfile.TemporaryDirectory(prefix="stamo-bench-") as scratch:
        folder = Path(scratch)

        def run(n: int, options: Sequence[str], source: Path | None) -> tuple[Usage, int]:
            """Link some documents, or one sentence; return also how many mentions were linked."""
            texts = [document.text for document in islice(cycle(documents), n)]
            lines = [json.dumps({"text": text}) for text in texts or ["London is in England."]]
            (folder / "documents.jsonl").write_text("\n".join(lines), encoding="utf-8")
            both = ["--kb", kb_path, "--model", model_path]
            words = ["link", *both, folder / "documents.jsonl", *options]
            command = [sys.executable, "-m", "stamo", *map(str, words)]
            usage, _ = measure("stamo link", command, folder, source=source)
            with (folder / "stdout").open("rb") as file:
                return usage, sum(line.count(b'"surface":') for line in file)

        for name, options, source in settings:
            say(name)
            n = len(documents)
            usage, n_mentions = run(n, options, source)
            # Starting is a part of every run; the speed without it tells how much more is needed.
            start = run(0, options, source)[0].seconds if seconds else 0.0
            while usage.seconds < seconds:
                rate = n / max(usage.seconds - start, 1e-3)
                n = max(int(rate * (seconds * 1.2 - start)), n + 1)
                usage, n_mentions = run(n, options, source)
            rows.append(_speed(name, list(islice(cycle(documents), n)), n_mentions, usage))
        one_sentence = run(0, (), None)[0].cpu_seconds
    linker = Linker(KnowledgeBase.open(kb_path), load_model(model_path))
    with one_thread():
        list(link_plainly(linker, documents[:1]))
        few = documents[:N_PLAIN]
        linked, usage = timed(lambda: list(link_plainly(linker, few)))
    n_mentions = sum(len(document.mentions) for document in linked)
    rows.append(_speed("mention by mention", few, n_mentions, usage))
    rows.append({"way": "one sentence", "CPU s": one_sentence})
    return rows


def _speed(name: str, documents: Sequence[Document], n_mentions: int, usage: Usage) -> Measured:
    megabytes = sum(len(document.text.encode()) for document in documents) / MB
    return {
        "way": name,
        "s": usage.seconds,
        "CPU s": usage.cpu_seconds,
        "MB/s": megabytes / usage.seconds,
        "documents/s": len(documents) / usage.seconds,
        "mentions/s": n_mentions / usage.seconds,
        "MB/CPU s": megabytes / max(usage.cpu_seconds, 1e-9),
        "memory, MB": usage.peak_proportional and usage.peak_proportional / MB,
    }


def link_plainly(linker: Linker, documents: Sequence[Document]) -> Iterator[LinkedDocument]:
    """Link one mention after the other: the straightforward way, for comparison."""
    model, kb = linker.trained.model, linker.kb
    for document in documents:
        located = linker.locate([document])
        corpus, context = located.corpus, most_frequent_entities(located.corpus, kb)
        mentions = []
        for row in range(corpus.n_mentions):
            rows = np.array([row])
            one = encode(corpus, kb, linker.encoding, rows=rows, context_entities=context)
            one = encode_features(one, model.features, kb)
            best = int(model.score_known(one, linker.tables).argmax())
            start, end = int(located.starts[row]), int(located.ends[row])
            title = kb.title(int(one.candidates[0, best]))
            mentions.append(LinkedMention(document.text[start:end], start, end, title, 1.0))
        yield LinkedDocument(document.id, document.text, tuple(mentions))


def measure_discovery(
    sources: Sequence[str | Path], kb: KnowledgeBase, trained: TrainedModel, n_documents: int
) -> list[Measured]:
    """Link and scan the first documents, or chunks of long ones, batch by batch in turns."""
    linker, observer = Linker(kb, trained), make_observer(kb, trained)
    tally, form = Tally(), link_format("jsonl")
    linker.warm_up()
    observer.warm_up()

    def link(batch: Sequence[ReadChunk]) -> None:
        for linked in linker.link_batch(batch):
            form.render(linked)

    def scan(batch: Sequence[ReadChunk]) -> None:
        for seen in observer.see(batch):
            tally.add(seen)

    seconds = {link: 0.0, scan: 0.0}
    n = n_characters = 0
    chunks = islice(read_chunks(sources, linker.window), n_documents)
    for number, batch in enumerate(batched(chunks, linker.settings.batch_size, linker.window)):
        for way in (link, scan) if number % 2 else (scan, link):
            with without_garbage_collection(), one_thread():
                seconds[way] += timed(partial(way, batch))[1].cpu_seconds
        n += len(batch)
        n_characters += sum(len(c.document.text) for c in batch if isinstance(c, Chunk))
    return [
        {
            "way": name,
            "documents": n,
            "characters": n_characters,
            "CPU s": seconds[way],
            "documents/CPU s": n / seconds[way],
            "speed beside linking": seconds[link] / seconds[way],
        }
        for name, way in (("linking", link), (f"discovery, {len(tally.names):,} names", scan))
    ]


def measure_encoding(encoder: Encoder, windows: Sequence[str]) -> list[Measured]:
    """Encode windows with a span in the middle, and as many tokens by the layers alone."""
    lengths = [len(encoder.tokenizer.encode(window).ids) for window in windows]
    middles = np.array([len(window) // 2 for window in windows], dtype=np.int64)
    typical = int(median(lengths))
    ids = torch.ones((max(1, BATCH_TOKENS // typical), typical), dtype=torch.long)
    mask, n_batches = torch.ones_like(ids, dtype=torch.bool), -(-sum(lengths) // ids.numel())

    def bare() -> None:
        with torch.inference_mode():
            for _ in range(n_batches):
                encoder.forward(ids, mask)

    whole = partial(encoder.encode_masked, windows, middles, middles + 4)
    with one_thread():
        encoder.encode(windows[:8])  # warm
        # In turns, so that other load on the machine falls on both.
        rounds = [[timed(way)[1].cpu_seconds for way in (whole, bare)] for _ in range(N_ROUNDS)]
    ours, theirs = (median(times) for times in zip(*rounds, strict=True))
    speed, bare_speed = sum(lengths) / ours, n_batches * ids.numel() / theirs
    return [
        {
            "encoder": encoder.name,
            "windows": len(windows),
            "tokens": sum(lengths),
            "windows/CPU s": len(windows) / ours,
            "tokens/CPU s": speed,
            "layers alone": bare_speed,
            "ratio": speed / bare_speed,
        }
    ]


N_DOCUMENTS = 2000
"""Documents that names are drawn from."""
MAX_SHARE = 0.002
"""A name that stands in more than this share of the documents is no new entity's."""
_NAME = re.compile(r"\b[A-Z][a-z]{3,14}(?: [A-Z][a-z]{3,14})?\b")


def measure_passes(
    sources: Sequence[str | Path], sizes: Sequence[int], n_aliases: int, say: Say
) -> list[dict[str, float]]:
    """Search sources for names of entities, in one pass for each size; nothing is linked or kept.

    `speed of the first` compares with the first size, `one by one takes` says how many times as
    long a pass for each would take.

    Args:
        sources: Files or folders.
        sizes: Numbers of entities; the first one is what the others are compared with.
        n_aliases: Names of each entity, drawn from the sources themselves.
        say: Told what is measured.

    Raises:
        SettingsError: The sources do not hold enough rare names.
    """
    if not sizes or min(sizes) < 1:
        raise SettingsError("Give at least one entity.")
    names = draw_names(sources, max(sizes) * n_aliases)
    n_bytes = sum(file.size for file in list_files(sources))
    rows: list[dict[str, float]] = []
    first = 0.0
    for size in sizes:
        say(f"searching for {size}")
        groups = [names[i * n_aliases : (i + 1) * n_aliases] for i in range(size)]
        seconds, n_documents, n_mentions = _search(sources, groups)
        first = first or seconds
        rows.append(
            {
                "entities": size,
                "documents": n_documents,
                "mentions": n_mentions,
                "CPU s": seconds,
                "MB/CPU s": n_bytes / seconds / 1e6,
                "speed of the first": first / seconds,
                "one by one takes": first / sizes[0] * size / seconds,
            }
        )
    return rows


def _search(
    sources: Sequence[str | Path], groups: Sequence[Sequence[str]]
) -> tuple[float, int, int]:
    """Return the processor seconds of a pass, and how many documents and mentions it found."""
    begin = time.process_time()
    union = AliasMatcher(sorted({name for group in groups for name in group}))
    owners, matchers = AliasGroups(groups), [AliasMatcher(group) for group in groups]
    n_documents = n_mentions = 0
    for document in read_documents(sources, matcher=union):
        found = sum(len(matchers[i].find(document.text)) for i in owners.of(document.text))
        n_documents += found > 0
        n_mentions += found
    return max(time.process_time() - begin, 1e-9), n_documents, n_mentions


def draw_names(sources: Sequence[str | Path], n: int) -> list[str]:
    """Draw names that stand in a few of the first documents: that often is a new entity met."""
    found = [set(_NAME.findall(d.text)) for d in islice(read_documents(sources), N_DOCUMENTS)]
    counts = Counter(name for names in found for name in names)
    most = max(1, int(len(found) * MAX_SHARE))
    rare = sorted(name for name, count in counts.items() if count <= most)
    if len(rare) < n:
        raise SettingsError(
            f"The sources hold {len(rare)} rare names, {n} are needed; give more text or ask for "
            "fewer entities."
        )
    chosen = np.random.default_rng(0).choice(len(rare), size=n, replace=False)
    return [rare[i] for i in chosen.tolist()]
