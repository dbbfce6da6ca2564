"""The world as a whole: its files, and that linking in it is hard but possible."""

import bz2
import json
import math
import os
import random
import re
import subprocess
import sys
from collections import Counter, defaultdict
from xml.etree import ElementTree

import pytest

from stamo.errors import SettingsError
from stamo.world import World
from stamo_lab.world import WorldSettings, generate_world
from stamo_lab.world.catalogue import build_catalogue
from stamo_lab.world.lexicon import load_lexicon
from stamo_lab.world.pile import add_emerging

NS = "{http://www.mediawiki.org/xml/export-0.11/}"
LINK = re.compile(r"\[\[([^\[\]|]+)(?:\|([^\[\]]*))?\]\](?P<trail>[a-z]*)")
SMALL = WorldSettings(
    seed=3, n_articles=260, n_emerging=2, documents_per_entity=12, background_documents=5
)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return generate_world(WorldSettings(), tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def pages(world):
    with bz2.open(world.paths.dump_path) as stream:
        return ElementTree.parse(stream).getroot().findall(f"{NS}page")


@pytest.fixture(scope="module")
def texts(pages):
    """Wikitext of the articles by title, without redirects and other namespaces."""
    return {
        page.findtext(f"{NS}title"): page.findtext(f"{NS}revision/{NS}text")
        for page in pages
        if page.findtext(f"{NS}ns") == "0" and page.find(f"{NS}redirect") is None
    }


@pytest.fixture(scope="module")
def redirects(pages):
    return {
        page.findtext(f"{NS}title"): page.find(f"{NS}redirect").get("title")
        for page in pages
        if page.find(f"{NS}redirect") is not None
    }


def read_lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def documents(world):
    """Pairs of a document and its gold line."""
    return list(
        zip(read_lines(world.paths.pile_path), read_lines(world.paths.gold_path), strict=True)
    )


def test_titles_are_unique_and_counts_agree(world, pages, texts):
    """No title occurs twice, and `world.json` counts what the dump holds."""
    titles = [page.findtext(f"{NS}title") for page in pages]
    described = json.loads(world.paths.description_path.read_text())
    assert len(set(titles)) == len(titles) == described["n_pages"]
    assert len(texts) == described["n_articles"] + described["n_disambiguations"]
    assert described["n_articles"] == 700
    assert described["n_redirects"] > 100
    assert described["n_disambiguations"] > 30


def test_redirects_reach_an_article(texts, redirects):
    """Every redirect ends at an article, some only through another redirect."""
    chained = 0
    for target in redirects.values():
        steps = 0
        while target in redirects:
            target = redirects[target]
            steps += 1
        chained += steps > 0
        assert target in texts
    assert chained > 0


def test_wikitext_has_what_real_pages_have(texts):
    """Templates, references, comments, tables, files, categories, language links and sections."""
    joined = "\n".join(texts.values())
    for mark in (
        "{{Infobox", "<ref>", '<ref name="', "<!--", "{| class=", "[[File:", "[[Category:",
        "[[de:", "{{disambig", "{{about|", "&nbsp;", "#History|", "]]s ", "== References ==",
    ):  # fmt: skip
        assert mark in joined, mark
    assert joined.count("{{") == joined.count("}}")
    assert joined.count("[[") == joined.count("]]")


def test_links_lead_somewhere(texts, redirects):
    """Nearly every link of the main namespace has a page."""
    known = texts.keys() | redirects.keys()
    targets = [
        match[1].split("#")[0].replace("_", " ")
        for text in texts.values()
        for match in LINK.finditer(text)
        if ":" not in match[1]
    ]
    found = sum(target[0].upper() + target[1:] in known for target in targets)
    assert len(targets) > 8000
    assert found == len(targets)


def test_names_are_ambiguous_in_the_dump(texts, redirects):
    """A good part of all links show a name that elsewhere means something else."""
    meanings = defaultdict(Counter)
    for text in texts.values():
        for match in LINK.finditer(text):
            if ":" not in match[1]:
                target = match[1].split("#")[0].replace("_", " ")
                while target in redirects:
                    target = redirects[target]
                meanings[(match[2] or match[1]) + match["trail"]][target] += 1
    total = sum(counts.total() for counts in meanings.values())
    ambiguous = sum(counts.total() for counts in meanings.values() if len(counts) > 1)
    majority = sum(max(counts.values()) for counts in meanings.values())
    assert ambiguous / total > 0.2
    assert majority / total < 0.95


def test_rivals_use_the_shared_name_in_the_dump(world, texts):
    """Each emerging name is linked to 3 to 8 known entities, which therefore are candidates."""
    for entry in world.describe():
        alias = entry["aliases"][0]
        rivals = {rival["title"] for rival in entry["rivals"]}
        assert 3 <= len(rivals) <= 8
        pattern = re.compile(r"\[\[(?:[^\[\]|]+\|)?" + re.escape(alias) + r"\]\]")
        assert sum(len(pattern.findall(text)) for text in texts.values()) >= 3 * len(rivals)
        assert rivals <= texts.keys()


def test_dump_does_not_know_the_emerging(world, texts, redirects):
    """No page of the dump has the title of an emerging entity."""
    for entity in world.emerging:
        assert entity.id not in texts
        assert entity.id not in redirects


def test_gold_spans_are_exact(documents, texts, world):
    """Each span is its surface, none overlap, and each entity is an article or emerging."""
    known = texts.keys() | {entity.id for entity in world.emerging}
    for document, gold in documents:
        assert document["id"] == gold["id"]
        end = 0
        for mention in gold["mentions"]:
            assert mention["start"] >= end
            end = mention["end"]
            assert document["text"][mention["start"] : end] == mention["surface"]
            assert mention["entity"] in known


def test_no_occurrence_of_an_alias_is_missing_from_gold(documents, world):
    """Wherever the name of an emerging entity stands in the pile, gold says what it means."""
    for entity in world.emerging:
        pattern = re.compile(rf"\b{re.escape(entity.aliases[0])}\b")
        for document, gold in documents:
            for match in pattern.finditer(document["text"]):
                assert any(
                    m["start"] <= match.start() and match.end() <= m["end"]
                    for m in gold["mentions"]
                ), document["text"]


def test_titles_do_not_give_the_answer_away(documents, world):
    """No headline contains the name of an emerging entity."""
    for entity in world.emerging:
        assert not any(entity.aliases[0] in document["title"] for document, _ in documents)


def test_known_entities_are_mentioned_beside_the_candidates(documents):
    """A document mentions other entities too, so relatedness has something to work with."""
    others = [sum(m["candidate_of"] is None for m in g["mentions"]) for _, g in documents]
    assert sum(others) / len(others) > 2


def test_text_is_free_of_template_leftovers(documents, texts):
    """No slot, bracket or doubled blank reaches the reader."""
    for document, _ in documents:
        assert not re.search(
            r"[{}\[\]|@]|  | \.|\ba [aeio]|\ban [bcdfgjklmnpqrstvwxyz]", document["text"]
        ), document["text"]
    for text in texts.values():
        assert not re.search(r"\b(?:a|an|the) \W*the\b", text, re.IGNORECASE), text
        assert "@place" not in text
        assert "@person" not in text


def tokens(text, aliases):
    names = {word for alias in aliases for word in alias.lower().split()}
    return Counter(w for w in re.findall(r"[a-z']+", text.lower()) if w not in names)


class NaiveBayes:
    """Bag-of-words naive Bayes: does a mention mean the emerging entity?"""

    def __init__(self, examples):
        self.words = {True: Counter(), False: Counter()}
        self.labels = Counter({True: 1, False: 1})
        for bag, label in examples:
            self.words[label].update(bag)
            self.labels[label] += 1
        self.n_words = len(self.words[True] | self.words[False]) + 1
        self.totals = {label: counts.total() for label, counts in self.words.items()}

    def score(self, bag, label):
        denominator = self.totals[label] + 0.5 * self.n_words
        words = self.words[label]
        likelihood = sum(n * math.log((words[w] + 0.5) / denominator) for w, n in bag.items())
        return math.log(self.labels[label]) + likelihood

    def accuracy(self, examples):
        right = sum((self.score(b, True) >= self.score(b, False)) == y for b, y in examples)
        return right / len(examples)


@pytest.fixture(scope="module")
def examples(documents, world):
    """Candidate mentions of each emerging entity: document, surface, bag of words, entity."""
    result = {entity.id: [] for entity in world.emerging}
    aliases = {entity.id: entity.aliases for entity in world.emerging}
    for document, gold in documents:
        for mention in gold["mentions"]:
            owner = mention["candidate_of"]
            if owner:
                bag = tokens(document["text"], aliases[owner])
                result[owner].append((document["id"], mention["surface"], bag, mention["entity"]))
    return result


def test_alias_alone_does_not_decide(examples):
    """Answering with the most frequent entity of each alias is right in less than 3 of 4 cases."""
    for emerging, rows in examples.items():
        counts = defaultdict(Counter)
        for _, surface, _, entity in rows:
            counts[surface][entity] += 1
        assert sum(max(c.values()) for c in counts.values()) / len(rows) < 0.75
        yes_no = [(c[emerging], c.total() - c[emerging]) for c in counts.values()]
        assert sum(max(pair) for pair in yes_no) / len(rows) < 0.75
        share = sum(entity == emerging for *_, entity in rows) / len(rows)
        assert 0.3 <= share <= 0.7
        assert len({document for document, *_ in rows}) >= 250


def test_words_help_but_do_not_settle_it(examples):
    """All labels give naive Bayes .85 to .99 on unseen documents; twenty give clearly less."""
    rng = random.Random(0)
    for emerging, rows in examples.items():
        ids = sorted({document for document, *_ in rows})
        rng.shuffle(ids)
        labelled = [(document, bag, entity == emerging) for document, _, bag, entity in rows]

        def accuracy(train, labelled=labelled):
            model = NaiveBayes([(b, y) for d, b, y in labelled if d in train])
            return model.accuracy([(b, y) for d, b, y in labelled if d not in train])

        folds = [set(ids) - set(ids[i::5]) for i in range(5)]
        full = sum(accuracy(fold) for fold in folds) / 5
        few = sum(accuracy(set(rng.sample(ids, 20))) for _ in range(5)) / 5
        assert 0.85 < full < 0.99, (emerging, full)
        assert few < full - 0.05, (emerging, few, full)


def test_emerging_entities_differ_in_kind_and_share_a_topic_with_a_rival(world):
    """The default world has at least four kinds of emerging entities."""
    entries = world.describe()
    assert 4 <= len(entries) <= 6
    assert len({entry["kind"] for entry in entries}) == len(entries)
    assert len({entry["topic"] for entry in entries}) >= 4
    assert {entry["topic"] for entry in entries} <= load_lexicon().topics.keys()


def test_same_settings_same_bytes(tmp_path):
    """Two runs write equal files; another seed writes others."""
    for name in ("one", "two"):
        generate_world(SMALL, tmp_path / name)
    other = WorldSettings(
        seed=4, n_articles=260, n_emerging=2, documents_per_entity=12, background_documents=5
    )
    generate_world(other, tmp_path / "other")
    for path in sorted((tmp_path / "one").iterdir()):
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()
        assert path.read_bytes() != (tmp_path / "other" / path.name).read_bytes()


def test_bytes_do_not_depend_on_the_order_of_sets(tmp_path):
    """Processes with other hash seeds write the same world."""
    code = (
        "import sys; from pathlib import Path; from stamo_lab.world import *; "
        "generate_world(WorldSettings(n_articles=250, n_emerging=2, documents_per_entity=9), "
        "Path(sys.argv[1]))"
    )
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", code, str(tmp_path / seed)]
        subprocess.run(command, env=environment, check=True)
    one, two = (json.loads((tmp_path / seed / "world.json").read_text()) for seed in "12")
    assert one == two


def test_world_is_replaced_as_a_whole(tmp_path):
    """A second world in the same folder leaves nothing of the first, nor of the work itself."""
    generate_world(SMALL, tmp_path)
    plain = WorldSettings(
        seed=3,
        n_articles=260,
        n_emerging=2,
        documents_per_entity=12,
        background_documents=5,
        compress=False,
    )
    second = generate_world(plain, tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["dump.xml", "gold.jsonl", "pile.jsonl", "world.json"]
    assert World.open(tmp_path) == second


def test_open_needs_a_complete_world(tmp_path):
    """A folder without `world.json` is refused in one sentence."""
    with pytest.raises(SettingsError, match="no complete world"):
        World.open(tmp_path)


@pytest.mark.parametrize(
    "values",
    [{"n_articles": 20}, {"n_emerging": 99}, {"n_emerging": -1}, {"documents_per_entity": -1}],
)
def test_impossible_sizes_are_refused(values):
    """A world that cannot be made is refused before anything is written."""
    with pytest.raises(SettingsError):
        WorldSettings(**values)


@pytest.mark.parametrize("n_articles", [250, 280, 320, 400, 500, 800])
def test_any_allowed_number_of_emerging_entities_finds_rivals(n_articles):
    """The largest number of emerging entities that the settings allow has rivals of its own."""
    settings = WorldSettings(n_articles=n_articles, n_emerging=n_articles // 50)
    for seed in range(3):
        rng = random.Random(seed)
        catalogue, pools = build_catalogue(n_articles, load_lexicon(), rng)
        emergences = add_emerging(catalogue, pools, settings.n_emerging, rng)
        rivals = [rival for emergence in emergences for rival in emergence.rivals]
        assert len(set(rivals)) == len(rivals) >= 3 * settings.n_emerging


def test_size_is_as_asked(tmp_path):
    """The number of articles is exact, whatever it is."""
    settings = WorldSettings(n_articles=731, n_emerging=0, background_documents=3, compress=False)
    world = generate_world(settings, tmp_path)
    root = ElementTree.parse(world.paths.dump_path).getroot()
    described = json.loads(world.paths.description_path.read_text())
    main = [
        page
        for page in root.findall(f"{NS}page")
        if page.findtext(f"{NS}ns") == "0" and page.find(f"{NS}redirect") is None
    ]
    assert len(main) == 731 + described["n_disambiguations"]
    assert world.emerging == ()
