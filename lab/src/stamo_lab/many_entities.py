"""How a knowledge base of very many entities opens and links.

    python tools/many_entities.py FOLDER --entities 10000000 --beside KB

writes a dump, builds it without vectors, and says how long opening takes, how fast invented texts
are linked without a model, and how much memory that takes; with --beside also for another
knowledge base, on texts of the same kind. Every tenth entity has an article; it links ten entities,
each by its name and by an older one. So there are two names for each entity, and two entities
share the shorter one.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from pathlib import Path

HEADER = '<mediawiki xml:lang="en"><siteinfo><case>first-letter</case></siteinfo>\n'
SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "or", "el")]
WORDS = [(a + b).title() for b in SYLLABLES for a in SYLLABLES]
ENTITIES_PER_ARTICLE = 10
N_DOCUMENTS = 2000


def name_of(number: int) -> str:
    """Invent the name of an entity: two or three words that say its number."""
    rest, first = divmod(number, len(WORDS))
    rest, second = divmod(rest, len(WORDS))
    words = [WORDS[first], WORDS[second]] + ([WORDS[rest]] if rest else [])
    return " ".join(words)


def title_of(number: int) -> tuple[str, str]:
    """Return the title of an entity and the name that texts use: two entities share each name."""
    name = name_of(number // 2)
    return (f"{name} (river)" if number % 2 else name), name


def article_of(first: int, n_entities: int) -> str:
    """Write the text of an article, which links some entities by two names each."""
    sentences = []
    for number in range(first, min(first + ENTITIES_PER_ARTICLE, n_entities)):
        title, name = title_of(number)
        old = f"Old {title}"
        sentences.append(f"It lies near [[{title}|{name}]], which was once [[{title}|{old}]].")
    return " ".join(sentences)


def write_pages(path: Path, n_entities: int) -> None:
    """Write the dump."""
    with path.open("w", encoding="utf-8") as file:
        file.write(HEADER)
        for number in range(0, n_entities, ENTITIES_PER_ARTICLE):
            file.write(
                f"<page><title>{title_of(number)[0]}</title><id>{number + 1}</id><revision>"
                f"<text>{article_of(number, n_entities)}</text></revision></page>\n"
            )
        file.write("</mediawiki>\n")


def measure(kb_path: Path) -> None:
    """Open a knowledge base, link texts with names of its own, and print what it took."""
    import psutil

    from stamo.corpus.types import Document
    from stamo.kb.base import KnowledgeBase
    from stamo.linking.linker import Linker

    process = psutil.Process()
    begin = time.perf_counter(), time.process_time()
    kb = KnowledgeBase.open(kb_path)
    opened = time.perf_counter() - begin[0], time.process_time() - begin[1]
    linker = Linker(kb)
    linker.warm_up()
    ready = time.process_time() - begin[1] - opened[1]
    texts = invent_texts(linked_names(kb))
    _ = list(linker.link_documents([Document("", texts[0])]))
    start = time.process_time()
    linked = linker.link_documents(Document(str(i), text) for i, text in enumerate(texts))
    n_mentions = sum(len(document.mentions) for document in linked)
    speed = sum(map(len, texts)) / 1e6 / (time.process_time() - start)
    size = sum(path.stat().st_size for path in kb_path.iterdir()) / 1e6
    memory = process.memory_info()
    print(f"{kb_path}: {kb.n_entities:,} entities, {kb.n_aliases:,} aliases, {size:,.0f} MB")
    print(f"  opened in {opened[0]:.3f} s ({opened[1]:.3f} s of processor time)")
    print(f"  ready to link after {ready:.2f} processor seconds more")
    print(f"  {speed:.2f} MB of text a processor second, {n_mentions:,} mentions")
    print(
        f"  {memory.rss / 1e6:,.0f} MB resident, {memory.shared / 1e6:,.0f} MB of it mapped files"
    )


def linked_names(kb) -> list[str]:  # noqa: ANN001 - imported by its only caller
    """Choose names that texts use: linked ones, evenly from all of them, in random order."""
    import numpy as np

    linked = np.flatnonzero(kb.alias_counts)
    some = linked[np.random.default_rng(1).integers(len(linked), size=2 * 20 * N_DOCUMENTS)]
    return kb.aliases(some)


def invent_texts(names: list[str]) -> list[str]:
    """Write documents of twenty sentences that name two entities each."""
    rng = random.Random(1)
    pairs = iter(zip(names[::2], names[1::2], strict=True))
    return [
        " ".join(
            f"It lies {rng.randrange(99)} miles from {one} and was named after {other} in a book."
            for one, other in (next(pairs) for _ in range(20))
        )
        for _ in range(N_DOCUMENTS)
    ]


def main() -> None:
    """Make, build and measure, each in a process of its own."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path, help="folder to work in")
    parser.add_argument("--entities", type=int, default=1_000_000)
    parser.add_argument("--beside", type=Path, help="another knowledge base to measure too")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure is not None:
        measure(given.measure)
        return
    dump, kb = given.folder / "many.xml", given.folder / "kb"
    if not kb.exists():
        given.folder.mkdir(parents=True, exist_ok=True)
        write_pages(dump, given.entities)
        build = ("build", str(dump), str(kb), "--dimensions", "0", "--held-out", "0")
        subprocess.run([sys.executable, "-m", "stamo", *build], check=True)
        dump.unlink()
    for path in filter(None, (given.beside, kb)):
        command = [sys.executable, __file__, str(given.folder), "--measure", str(path)]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
