"""`stamo bench encode`: how fast contexts are encoded."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from stamo.cli.kb import AsJson
from stamo.cli.tables import Console, print_json


def bench_encode(
    kb: Annotated[Path, typer.Argument(metavar="KB", help="Directory of a knowledge base.")],
    encoder: Annotated[
        str | None, typer.Option(help="Folder of an encoder; without it the packaged MiniLM.")
    ] = None,
    windows: Annotated[int, typer.Option(min=1, help="Windows of text to encode.")] = 500,
    length: Annotated[int, typer.Option(min=20, help="Characters of a window.")] = 450,
    as_json: AsJson = False,
) -> None:
    """Measure how fast windows of text become vectors, beside the encoder's layers alone."""
    from stamo.features.encoder import load_encoder
    from stamo.kb.base import KnowledgeBase
    from stamo.replication.bench_encode import measure_encoding
    from stamo.replication.bench_link import news_size_documents

    documents = news_size_documents(KnowledgeBase.open(kb), windows, length)
    speed = measure_encoding(load_encoder(encoder), [document.text for document in documents])
    if as_json:
        print_json(asdict(speed) | {"ratio": speed.ratio})
        return
    Console(highlight=False).print(
        f"{speed.n_windows} windows, {speed.n_tokens} tokens, one thread, {speed.encoder}: "
        f"{speed.windows_per_second:.1f} windows and {speed.tokens_per_second:.0f} tokens a CPU "
        f"second; the layers alone {speed.bare_tokens_per_second:.0f} tokens; "
        f"ratio {speed.ratio:.2f}."
    )
