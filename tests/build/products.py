"""A company's list of 40 products under 20 names, two to each, and texts that speak of one."""

import argparse
import csv
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from stamo.build.build import BuildSettings, build_knowledge_base
from stamo.kb.base import KnowledgeBase
from stamo.linking.linker import Linker
from stamo.models.store import without_training
from stamo.models.untrained import WITHOUT_WORDS

NAMES = [
    "Falcon", "Heron", "Otter", "Lynx", "Badger", "Osprey", "Marten", "Ibis", "Puffin",
    "Raven", "Kestrel", "Plover", "Curlew", "Dunlin", "Gannet", "Merlin", "Petrel",
    "Siskin", "Tern", "Wren",
]  # fmt: skip

with Path(__file__).with_suffix(".csv").open(newline="", encoding="utf-8") as file:
    KINDS = list(csv.reader(file))[1:]
"""Kind, description, and two texts that speak of one, with a place for its name."""


def products() -> list[tuple[str, ...]]:
    """Return id, name, kind, description and two texts of each product.

    The first text shares words with the description, the second hardly any.
    """
    rows = []
    for number, name in enumerate(NAMES * 2):
        # The second of a name is of another kind, a few further on.
        kind, *texts = KINDS[(number + 7 * (number // len(NAMES))) % len(KINDS)]
        description, near, far = texts
        rows.append((f"p{number:02}", name, kind, description, near.format(name), far.format(name)))
    return rows


def write_products(path: Path) -> Path:
    """Write the list as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "name", "type", "description"])
        writer.writerows(row[:4] for row in products())
    return path


def measure(vectors: Path | None, folder: Path) -> dict[str, tuple[int, int]]:
    """Return how many near and far texts are linked right, by counts alone and with words."""
    name = "learned" if vectors is None else "given"
    settings = BuildSettings(vectors=vectors)
    build_knowledge_base(write_products(folder / "p.csv"), folder / name, settings)
    kb = KnowledgeBase.open(folder / name)
    with_words = without_training(kb)
    phi = {"weights": np.array(WITHOUT_WORDS, dtype=np.float32)}
    counted = replace(with_words, model=with_words.model.with_phi(phi))
    return {
        label: (_n_right(Linker(kb, model), 4), _n_right(Linker(kb, model), 5))
        for label, model in (("counts alone", counted), (f"words, {name} vectors", with_words))
    }


def _n_right(linker: Linker, column: int) -> int:
    found = [linker.link(row[column])[0].entity for row in products()]
    return sum(
        entity == f"{row[1]} ({row[2]})" for entity, row in zip(found, products(), strict=True)
    )


def main() -> None:
    """Print the table of the documentation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vectors", type=Path)
    vectors = parser.parse_args().vectors
    with tempfile.TemporaryDirectory() as folder:
        for given in dict.fromkeys((None, vectors)):
            for label, (near, far) in measure(given, Path(folder)).items():
                print(f"{label}: near {near}, far {far} of {len(products())}")  # noqa: T201


if __name__ == "__main__":
    main()
