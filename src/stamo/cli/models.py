"""Commands that train linking models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from typer import Argument, Option

from stamo.cli.options import AsJson
from stamo.cli.tables import Console, print_json, progress_view

if TYPE_CHECKING:
    from stamo.models.training import Epoch


def train(
    kb_path: Path = Argument(..., metavar="KB", help="A knowledge base."),
    model: str = Option("deeped", "--model", help="deeped or yamada."),
    out: Path = Option(None, "--out", help="Where to save; MODEL.safetensors by default."),
    n_pairs: int = Option(10_000, "--pairs", help="Mention-entity pairs to train on."),
    n_epochs: int = Option(12, "--epochs", help="Epochs at most."),
    features: list[str] = Option(
        [], "--feature", help="An extra feature: keyphrase, name (DeepED), relatedness (Yamada)."
    ),
    words: str = Option("weighted", help="Word vectors: weighted as entities' are, or plain."),
    seed: int = Option(0, help="Same seed, same bytes."),
    as_json: AsJson = False,
) -> None:
    """Train a linking model on the held-out articles of a knowledge base."""
    from stamo.kb.base import KnowledgeBase
    from stamo.models.tables import check_kind
    from stamo.models.trainer import train_linking_model
    from stamo.models.training import TrainingArgs
    from stamo.system.files import check_writable

    kind = check_kind(words)
    path = out or Path(f"{model}.safetensors")
    check_writable(path)
    kb = KnowledgeBase.open(kb_path)
    args = TrainingArgs(n_pairs=n_pairs, n_epochs=n_epochs, seed=seed)
    title = f"Training {model}"
    with progress_view(Console(stderr=True), title, stays=True, total=n_epochs) as show:

        def on_epoch(epoch: Epoch) -> None:
            text = f"{title} (held-out accuracy {epoch.best_accuracy:.3f})"
            show(epoch.number, description=text)

        trained = train_linking_model(
            kb, model, args, extra=features, words=kind, on_epoch=on_epoch
        )
        show(n_epochs)
    trained.save(path)
    report = trained.report
    if as_json:
        print_json({"path": str(path), "fingerprint": trained.fingerprint, "report": dict(report)})
        return
    Console().print(
        f"Saved [bold]{path}[/]: on {report['test_mentions']} ambiguous mentions of unseen "
        f"articles it is right in {report['test_accuracy']:.3f}, the prior alone in "
        f"{report['test_prior_accuracy']:.3f}."
    )
