"""Finding entities by words of their names."""

import numpy as np
import pytest

from stamo.build.build import BuildSettings, build_knowledge_base
from stamo.kb.base import KnowledgeBase
from stamo.kb.manifest import Manifest
from stamo.kb.search import FILES, MOST_RANKED, name_words

PAGES = {
    "Nikola Tesla": "",
    "Tesla (unit)": "",
    "Tesla coil": "",
    "Nike": "",
    "Nik": "",
    "São Paulo": "",
    "Łódź": "",
    "東京 Tower": "",
    "Text": 5 * "[[Nikola Tesla|Tesla]] [[Nikola Tesla]] [[Nike]] "
    + 3 * "[[Tesla (unit)|teslas]] [[São Paulo|Sampa]] "
    + "[[Tesla coil]] [[Nik]] [[Łódź|Lodz]] [[Nike|the goddess]] [[東京 Tower]]",
}
PAGE = "<page><title>{}</title><ns>0</ns><id>{}</id><revision><text>{}</text></revision></page>"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A knowledge base of a few pages that one page links to."""
    folder = tmp_path_factory.mktemp("search")
    pages = (PAGE.format(title, i, text) for i, (title, text) in enumerate(PAGES.items(), 1))
    (folder / "dump.xml").write_text(f"<mediawiki>{''.join(pages)}</mediawiki>")
    settings = BuildSettings(dimensions=0, held_out=0.0)
    build_knowledge_base(folder / "dump.xml", folder / "kb", settings)
    return folder / "kb"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tesla", ["Nikola Tesla", "Tesla (unit)", "Tesla coil"]),
        ("nik", ["Nik", "Nikola Tesla", "Nike"]),
        ("nikola", ["Nikola Tesla"]),
        ("TES", ["Nikola Tesla", "Tesla (unit)", "Text", "Tesla coil"]),
        ("coil tes", ["Tesla coil"]),
        ("unit, tesla", ["Tesla (unit)"]),
        ("goddess", ["Nike"]),
        ("sao", ["São Paulo"]),
        ("SÃO p", ["São Paulo"]),
        ("sampa", ["São Paulo"]),
        ("lodz", ["Łódź"]),
        ("東", ["東京 Tower"]),
        ("tower", ["東京 Tower"]),
        ("tesla nike", []),
        ("xyz", []),
        ("", []),
        ("-", []),
        ("\ud800", []),
    ],
)
def test_words_find_entities_the_most_linked_first(path, text, expected):
    """Beginnings of words, in any order, without case and accents; an exact title is first."""
    kb = KnowledgeBase.open(path)
    found = kb.titles(kb.search(text, 10))
    assert [title for title in found if title != "Text"] == [t for t in expected if t != "Text"]
    assert kb.titles(kb.search(text, 1)) == expected[:1]


def test_the_index_is_optional_and_no_part_of_the_fingerprint(path, tmp_path):
    """A knowledge base without it is the same one, and finds the same."""
    bare = tmp_path / "bare"
    bare.mkdir()
    for file in path.iterdir():
        if file.name not in FILES:
            (bare / file.name).write_bytes(file.read_bytes())
    manifest = Manifest.load(path)
    Manifest(
        **{
            **{name: getattr(manifest, name) for name in Manifest.__dataclass_fields__},
            "files": {n: entry for n, entry in manifest.files.items() if n not in FILES},
        }
    ).save(bare)
    full, small = KnowledgeBase.open(path), KnowledgeBase.open(bare)
    assert full.fingerprint == small.fingerprint
    for text in ("tes", "nik", "lodz"):
        assert full.search(text, 5).tolist() == small.search(text, 5).tolist()


def test_the_search_is_that_of_a_loop(world_kb):
    """On the embedded world, every beginning finds what a look at every name finds."""
    kb = world_kb
    names = [(entity, kb.title(entity), kb.aliases_of(entity)) for entity in range(kb.n_entities)]
    assert sum(len(aliases) for *_, aliases in names) < MOST_RANKED
    for text in ("a", "ma", "the", "kep", "north", "st", "new s"):
        scores = np.zeros(kb.n_entities)
        for entity, title, aliases in names:
            parts = []
            for asked in name_words(text):
                best = 0.0
                words = {w for name in (title, *(a for a, _ in aliases)) for w in name_words(name)}
                for word in (w for w in words if w.startswith(asked)):
                    links = sum(n for name, n in aliases if word in name_words(name))
                    if word in name_words(title):
                        links = max(links, int(kb.entity_counts[entity]))
                    best = max(best, (links + 1e-9) * (4 if word == asked else 1))
                parts.append(best)
            scores[entity] = np.inf if title in (text, text.capitalize()) else min(parts)
        expected = [i for i in np.lexsort((np.arange(len(scores)), -scores)) if scores[i] > 0]
        assert kb.search(text, 20).tolist() == expected[:20], text
