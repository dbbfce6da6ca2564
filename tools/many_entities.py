"""How a knowledge base of very many entities opens and links.

    python tools/many_entities.py FOLDER --entities 1000000

writes a dump of so many articles with one redirect each, builds it, trains a model for a moment,
and says how long opening takes, how fast invented texts are linked, and how much memory that takes.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import time
from pathlib import Path

HEADER = '<mediawiki xml:lang="en"><siteinfo><case>first-letter</case></siteinfo>\n'
SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "or", "el")]


def name_of(number: int) -> str:
    """Invent the name of an entity: two words that say its number in syllables."""
    parts = []
    while number or len(parts) < 4:
        number, digit = divmod(number, len(SYLLABLES))
        parts.append(SYLLABLES[digit])
    return f"{''.join(parts[:2]).title()} {''.join(parts[2:]).title()}"


def title_of(number: int) -> tuple[str, str]:
    """Return the title of an entity and the name that texts use: two entities share each name."""
    name = name_of(number - number % 2)
    return (f"{name} (river)" if number % 2 else name), name


def sentence(rng: random.Random, n_entities: int, *, linked: bool) -> str:
    """Write a sentence that names two entities, low numbers far more often."""
    some = [title_of(int(n_entities * rng.random() ** 3)) for _ in range(2)]
    one, other = (f"[[{title}|{name}]]" if linked else name for title, name in some)
    return f"It lies {rng.randrange(99)} miles from {one} and was named after {other} in a book."


def write_pages(path: Path, n_entities: int) -> None:
    """Write an article and a redirect for each entity."""
    rng = random.Random(0)
    with path.open("w", encoding="utf-8") as file:
        file.write(HEADER)
        for number in range(n_entities):
            title, name = title_of(number)
            article = f"{name} is a place. {sentence(rng, n_entities, linked=True)}"
            for heading, body in ((title, article), (f"Old {title}", f"#REDIRECT [[{title}]]")):
                file.write(
                    f"<page><title>{heading}</title><id>{number + 1}</id><revision>"
                    f"<text>{body}</text></revision></page>\n"
                )
        file.write("</mediawiki>\n")


def measure(kb_path: Path, model_path: Path, n_entities: int) -> None:
    """Open the knowledge base and a model, link texts, and print what it took."""
    from stamo.corpus.types import Document
    from stamo.kb.base import KnowledgeBase
    from stamo.linking.linker import Linker
    from stamo.models.store import load_model

    begin = time.perf_counter(), time.process_time()
    kb = KnowledgeBase.open(kb_path)
    opened = time.perf_counter() - begin[0], time.process_time() - begin[1]
    begin = time.perf_counter(), time.process_time()
    linker = Linker(kb, load_model(model_path))
    linker.warm_up()
    ready = time.process_time() - begin[1]
    rng = random.Random(1)
    documents = [
        Document(str(i), " ".join(sentence(rng, n_entities, linked=False) for _ in range(20)))
        for i in range(2000)
    ]
    start = time.process_time()
    n_mentions = sum(len(linked.mentions) for linked in linker.link_documents(documents))
    seconds = time.process_time() - start
    megabytes = sum(len(document.text) for document in documents) / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"entities {kb.n_entities:,}, aliases {kb.n_aliases:,}")
    print(f"opened in {opened[0]:.2f} s ({opened[1]:.2f} s of processor time)")
    print(f"ready to link after {ready:.2f} processor seconds more")
    print(f"{megabytes / seconds:.2f} MB of text a processor second, {n_mentions:,} mentions")
    print(f"{peak:,.0f} MB of memory at most, mapped files included")


def main() -> None:
    """Make, build and measure, each in a process of its own."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path, help="folder to work in")
    parser.add_argument("--entities", type=int, default=1_000_000)
    given = parser.parse_args()
    dump, kb, model = (str(given.folder / name) for name in ("many.xml", "kb", "model.safetensors"))
    if not Path(kb).exists():
        given.folder.mkdir(parents=True, exist_ok=True)
        write_pages(Path(dump), given.entities)
        run("build", dump, kb, "--dimensions", "20", "--held-out", "0.01")
    if not Path(model).exists():
        run("train", kb, "--out", model, "--pairs", "2000", "--epochs", "1")
    measure(Path(kb), Path(model), given.entities)


def run(*arguments: str) -> None:
    """Run a command of stamo, so that its memory is not that of linking."""
    subprocess.run([sys.executable, "-m", "stamo", *arguments], check=True)


if __name__ == "__main__":
    main()
