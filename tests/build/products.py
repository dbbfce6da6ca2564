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

KINDS = {
    "shoe": (
        "A light running shoe with a rubber sole that grips on wet trails and mud.",
        "After forty miles of muddy trail my feet were dry, and the sole of the {} held on rock.",
        "My toes hurt after the marathon; the {} gave me blisters at the heel.",
    ),
    "drone": (
        "A foldable drone with four rotors and a camera that films from the air for half an hour.",
        "We let the {} fly over the valley; the wind shook it, but its camera filmed every roof.",
        "The pilot lost the signal and the {} crashed into a tree beside the airport.",
    ),
    "bottle": (
        "A steel bottle that keeps water cold or tea hot for a day, with a lid that does not leak.",
        "I filled the {} with tea in the morning and it was still hot, and nothing had leaked.",
        "I drank the last of the juice from the {} before the hike was over.",
    ),
    "lamp": (
        "A desk lamp whose bulb changes from warm to cold light, with a switch to dim it at night.",
        "The {} stands on my desk; at night I dim the light until the bulb is hardly bright.",
        "It is too dark to read in the bedroom unless the {} is on.",
    ),
    "tent": (
        "A tent for two campers with poles of aluminium, pegs and a floor that rain cannot pass.",
        "It rained on the camp all night, but the poles of the {} stood and its floor stayed dry.",
        "We slept in the {} beside the lake, in our sleeping bags, and heard a bear outside.",
    ),
    "kettle": (
        "An electric kettle that boils a litre in two minutes and switches itself off.",
        "The {} boils enough for four cups before I have found the coffee, then switches off.",
        "Steam rose from the {} in the kitchen while she looked for the teapot.",
    ),
    "bicycle": (
        "A bicycle for the city with seven gears, disc brakes, a basket and lights on the frame.",
        "I ride the {} to work; the gears shift well, though the brakes squeal on the hill.",
        "He pedalled the {} through the traffic until a tyre burst.",
    ),
    "headphones": (
        "Wireless headphones that cancel noise, with soft pads and music for thirty hours.",
        "On the train I hear nothing but music: the {} cancels every noise and sounds deep.",
        "Put on the {} and listen to the symphony; the bass is superb.",
    ),
    "keyboard": (
        "A mechanical keyboard with quiet keys, a number pad and a cable for any computer.",
        "I typed this whole letter on the {}; its keys are quiet enough for a shared office.",
        "The programmer spilled soda over the {} and now his laptop writes only vowels.",
    ),
    "sofa": (
        "A sofa for three with cushions of wool and legs of oak; it unfolds into a bed for guests.",
        "Our guests slept on the {}: it unfolds in seconds and its cushions are not too soft.",
        "The cat sleeps on the {} in the living room, beside the armchair.",
    ),
    "mower": (
        "A lawn mower with a battery and a blade that cuts grass short and gathers it in a box.",
        "The garden looks tidy since the {} cuts the grass; the blade needs no sharpening yet.",
        "My neighbour starts the {} every Sunday and the whole yard smells of weeds.",
    ),
    "watch": (
        "A watch with hands of steel on a leather strap that is wound by the wrist and keeps time.",
        "He wears the {} on his left wrist; it has lost no minute and its strap is worn leather.",
        "The jeweller says that the {} runs late and needs a new spring.",
    ),
    "printer": (
        "A laser printer for black and white pages, thirty a minute, with toner for a year.",
        "The {} jams when the paper is damp, and its toner ran out after nine hundred pages.",
        "The office ordered ink for the {} and a stack of envelopes.",
    ),
    "oven": (
        "An oven that bakes bread and roasts meat evenly, with a fan and a door that stays cool.",
        "Bread comes out of the {} with a crust like a baker's, and the door never burns a hand.",
        "Set the {} to two hundred degrees and put the cake in.",
    ),
    "violin": (
        "A violin for students with a body of maple, four strings and a bow in a hard case.",
        "She tunes the {} before each lesson; a string broke last week, but the bow is fine.",
        "The orchestra waited while the soloist took out the {} and played a sonata.",
    ),
    "telescope": (
        "A telescope with a mirror of twenty centimetres that shows planets, moons and nebulae.",
        "Through the {} we saw the rings of a planet and four moons as clear as on a photograph.",
        "On a clear night the astronomer points the {} at the galaxy of Andromeda.",
    ),
    "stroller": (
        "A stroller for babies up to three years that folds with one hand and has a harness.",
        "Our baby falls asleep as soon as the {} rolls, and I can fold it with one hand.",
        "The mother pushed the {} with her toddler through the park.",
    ),
    "saw": (
        "A circular saw for timber and boards with a guard over the blade and a guide for cuts.",
        "I cut the boards for the shelf with the {}, and every cut along the guide was straight.",
        "The carpenter put the {} down and swept the sawdust off the plank.",
    ),
    "toothbrush": (
        "A toothbrush that turns at two speeds, with soft bristles and a timer for your teeth.",
        "My dentist praised my teeth, and the timer of the {} tells me when to stop brushing.",
        "I forgot the {} and the toothpaste at the hotel and had bad breath.",
    ),
    "backpack": (
        "A backpack of thirty litres with a frame, straps for the hips and a pocket for maps.",
        "With the straps over my hips the {} carried thirty litres up the pass without pain.",
        "The hiker packed the {} with a sleeping bag and climbed the mountain.",
    ),
}


def products() -> list[tuple[str, ...]]:
    """Return id, name, kind, description and two texts of each product.

    The first text shares words with the description, the second hardly any.
    """
    kinds = list(KINDS.items())
    rows = []
    for number, name in enumerate(NAMES * 2):
        # The second of a name is of another kind, a few further on.
        kind, (description, near, far) = kinds[(number + 7 * (number // len(NAMES))) % len(kinds)]
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
