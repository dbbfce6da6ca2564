"""A company's list of 40 products under 20 names, two to each, and texts that speak of one."""

import csv
from pathlib import Path

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
