"""The documentation keeps up with the program: commands, links, code, quotations."""

import ast
import bz2
import contextlib
import importlib
import io
import json
import lzma
import re
import shlex
from dataclasses import asdict
from datetime import UTC, datetime

import numpy as np
import pytest
from typer.main import get_command
from typer.testing import CliRunner

import stamo
from stamo.cli.main import create_app
from stamo.workspace.folder import Workspace
from stamo.workspace.gold import read_answers
from stamo.workspace.labels import LabelTarget
from stamo_lab.cli.main import create_app as create_lab
from tests.documents import ROOT, blocks, pages, run_blocks
from tests.integrations.test_week import write_labels
from tests.learning.test_learn import split

PAGES = pages()
SHELL_LANGUAGES = {"", "console", "sh", "shell", "bash"}
MACHINE = (r"/work\b", r"/root\b", r"/home/", r"/tmp/", r"/Users/", r"\b[A-Z]:\\")
"""Paths of the machine that a page was written on."""
MAKING = (r"\bsessions?\b", r"\bhelpers?\b", r"\bagents?\b", r"\bissue #?\d+", r"\bPAPER-NOTES\b")
"""Words about how a page was made; in code they may have another meaning."""
each_page = pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)


def walk(command, words):
    """All commands below a group, by their words."""
    if not hasattr(command, "commands"):
        yield " ".join(words), command
        return
    for name, below in command.commands.items():
        yield from walk(below, (*words, name))


STAMO = dict(walk(get_command(create_app()), ("stamo",)))
COMMANDS = STAMO | dict(walk(get_command(create_lab()), ("stamo-lab",)))


def without_blocks(text):
    """The page without its fenced blocks."""
    return re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)


def test_the_documentation_can_be_finished():
    """Few pages that people read to the end, and a README of three minutes."""
    docs = [path.read_text(encoding="utf-8") for path in PAGES if path.name != "README.md"]
    assert len(docs) <= 14
    assert sum(len(text.split()) for text in docs) <= 18_000
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 1_100


@pytest.mark.parametrize("name", sorted(STAMO))
def test_every_command_is_documented(name):
    """It says what it does and what its options are for; the page of commands has an example."""
    command = COMMANDS[name]
    assert command.help, f"{name} has no help text"
    for parameter in command.params:
        if parameter.name != "help":
            assert getattr(parameter, "help", None), f"{name}: {parameter.name} has no help"
    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    heading = f"### `{name}`\n"
    assert heading in text, f"docs/commands.md lacks {heading.strip()}"
    section = text.split(heading)[1].split("\n## ")[0].split("\n### ")[0]
    assert re.search(rf"^```\n(.*\n)*?.*{name}\b", section, re.M), f"no example of {name}"


def test_no_command_is_documented_that_does_not_exist():
    """A heading of the page of commands names a registered command."""
    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^### `(.*)`$", text, re.M)) <= set(COMMANDS)


def example_lines(path):
    """The command lines of a page's shell blocks, joined over backslashes."""
    for block in blocks(path):
        if block.language in SHELL_LANGUAGES:
            for line in re.sub(r" *\\\n *", " ", block.code).splitlines():
                if re.match(r"(?:\$ )?(echo .*\| |zcat .*\| )?stamo(-lab)? ", line):
                    yield line.removeprefix("$ ").split("  #")[0]


@each_page
def test_examples_would_be_accepted(path):
    """Command lines in the pages name commands and options that exist."""
    for line in example_lines(path):
        command = re.sub(r"( \| | && ).*|[<>].*", "", line[line.index("stamo") :])
        words = shlex.split(command)
        if words[1].startswith("-"):
            continue
        name = next((" ".join(words[:n]) for n in (4, 3, 2) if " ".join(words[:n]) in COMMANDS), "")
        assert name, f"{line!r} uses a command that does not exist"
        known = {o for p in COMMANDS[name].params for o in (*p.opts, *p.secondary_opts)}
        for word in words:
            if re.fullmatch(r"--?[a-z][\w-]*(=.*)?", word):
                assert word.split("=")[0] in known | {"--help"}, f"{line!r}: no option {word}"


def test_the_readme_reads_alike_on_a_package_index():
    """A package index resolves no relative link: the README has none, and names files instead."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"\]\((?![a-z]+:|#)[^)]*\)", text) == []
    for name in re.findall(r"`((?:docs/)?[\w-]+\.(?:md|cff))`", text):
        assert any((folder / name).exists() for folder in (ROOT, ROOT / "docs")), name
    imported = re.findall(r"^(?:from|import) (stamo[\w.]*)", text, re.M)
    assert set(imported) == {"stamo"}, "the README imports from stamo only"


def test_every_public_name_is_explained():
    """The page on Python names all of `stamo.__all__`, and nothing else as public."""
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    table = text.split("## Public names")[1].split("\n## ")[0]
    cells = " ".join(line.split(" | ")[0] for line in table.splitlines() if line[:1] == "|")
    named = set(re.findall(r"`(\w+)(?:\([^`]*\))?`", cells))
    others = set(re.findall(r"`([A-Z]\w+)` (?:are|is) its settings", table))
    assert named | others == set(stamo.__all__)


@each_page
def test_blocks_are_what_they_say(path):
    """Python compiles and imports what exists, quoted source stands there, JSON can be parsed."""
    for block in blocks(path):
        if block.mark.startswith("source="):
            source = ROOT / block.mark.removeprefix("source=")
            assert block.code in source.read_text(encoding="utf-8"), f"line {block.line}"
        elif block.language == "json":
            json.loads(block.code)
        elif block.language == "python":
            block.compile()
            for node in ast.walk(ast.parse(block.code)):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("stamo"):
                    module = importlib.import_module(node.module)
                    for alias in node.names:
                        assert hasattr(module, alias.name), f"{node.module} has no {alias.name}"


@each_page
def test_pages_speak_of_the_product_only(path):
    """No page holds a path of some machine, or words about how it was made."""
    text = path.read_text(encoding="utf-8")
    for pattern in MACHINE:
        assert not re.search(pattern, text), f"{path.name} holds {pattern}"
    for pattern in MAKING:
        assert not re.search(pattern, without_blocks(text), re.I), f"{path.name} holds {pattern}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory, world, world_corpus, world_kb, world_model):
    """A folder as the pages assume it: kb, a model, documents of an emerging entity."""
    path = tmp_path_factory.mktemp("pages")
    (path / "kb").symlink_to(world_kb.path, target_is_directory=True)
    world_model.save(path / "deeped.safetensors")
    labelled, unlabelled, _ = split(world_corpus, world.emerging[0], 20)
    for name, corpus in (("labelled", labelled), ("unlabelled", unlabelled)):
        lines = [json.dumps(asdict(document)) for document in corpus]
        (path / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    lines = [json.dumps({"id": document.id, "text": document.text}) for document in unlabelled]
    (path / "news.jsonl").write_text("\n".join(lines[:80]))
    (path / "article.txt").write_text(labelled.documents[0].text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["docs/linking", "docs/learning", "README"])
def test_runnable_blocks_run(name, folder, world, monkeypatch):
    """Code that a page shows as runnable runs as printed, for the world's own entity."""
    monkeypatch.chdir(folder)
    # The page invents its entity; the documents of the folder mention another one.
    stand_in, gold = world.emerging[0], read_answers(world.paths.gold_path)
    monkeypatch.setattr("stamo.corpus.types.EmergingEntity", lambda name, aliases: stand_in)

    def ask(question):
        answer = gold[question.document][question.start, question.end]
        return "@emerging" if answer == stand_in.id else answer

    with contextlib.redirect_stdout(io.StringIO()):
        run_blocks(ROOT / f"{name}.md", {"ask": ask})


def test_no_runnable_block_is_left_alone():
    """Every page with runnable blocks has a test that runs them."""
    run = {"linking.md", "learning.md", "README.md", "architecture.md"}
    found = {b.path.name for p in PAGES for b in blocks(p) if b.mark == "runnable"}
    assert found == run


def test_the_tutorial_runs_as_printed(tmp_path, monkeypatch, world, world_corpus):
    """Every command of the page, pasted, with entities of the world under the page's names.

    What a person does at the labelling page, and the labels of another tool, come from the answers
    of the world; the service is only parsed.
    """
    monkeypatch.chdir(tmp_path)
    one, two = world.emerging[:2]
    names = {"Kepler (spacecraft)": one.id, "Kepler": one.aliases[0]}
    about = [d for d in world_corpus if any(m.surface in one.aliases for m in d.mentions)][:80]
    about += [d for d in world_corpus if any(m.surface in two.aliases for m in d.mentions)][:80]
    lines = "".join(f"{json.dumps({'id': d.id, 'text': d.text})}\n" for d in about)
    (tmp_path / "2015.jsonl").write_text(lines)
    (tmp_path / "news.jsonl").write_text(lines[: lines.index("\n", 9000) + 1])
    (tmp_path / "crawl.jsonl.xz").write_bytes(lzma.compress(lines.encode()))
    dump = bz2.decompress(world.paths.dump_path.read_bytes())
    (tmp_path / "enwik8.xml.xz").write_bytes(lzma.compress(dump, preset=0))
    words = sorted({word.lower() for d in about for word in re.findall(r"\w+", d.text)})
    vectors = np.random.default_rng(0).normal(size=(len(words), 20)).astype(np.float16)
    np.savez(tmp_path / "glove-100d.npz", words=np.array(words), vectors=vectors)
    settings = next(b for b in blocks(ROOT / "docs" / "tutorial.md") if b.language == "toml")
    (tmp_path / "stamo.toml").write_text(settings.code)
    rows = ["name,aliases,folder", f"{two.id},{'|'.join(two.aliases)},sandy"]
    (tmp_path / "entities.csv").write_text("\n".join(rows) + "\n")
    gold, done = read_answers(world.paths.gold_path), []
    for printed in example_lines(ROOT / "docs" / "tutorial.md"):
        line = printed
        for name, stand_in in names.items():
            line = line.replace(name, stand_in)
        spoken = re.match(r"echo '(.*?)' \| ", line)
        given = shlex.split(re.sub(r"[<>] .*", "", line[line.index("stamo ") :]))[1:]
        done.append(given[0])
        if given[0] == "serve":
            continue
        if given[0] == "label":
            label_by_hand(Workspace.open(given[1]), gold)
            continue
        if given[:2] == ["labels", "import"]:
            write_labels(tmp_path / given[3], Workspace.open(given[2]), gold, 20)
        # The world is small, and the page's own training would take a minute.
        given += {
            "build": ["--held-out", "0.3"],
            "train": ["--pairs", "300", "--epochs", "1", "--steps", "2"],
        }.get(given[0], [])
        result = CliRunner().invoke(
            create_app(), given, input=spoken and spoken[1], catch_exceptions=False
        )
        assert result.exit_code == 0, (line, result.output)
    story = {"build", "train", "show", "new", "collect", "label", "labels", "learn", "link"}
    assert story | {"report", "status", "packs", "serve"} == set(done)


def label_by_hand(space, gold):
    """Label every third document of a workspace as a person would who knows the answers."""
    with space.open_labels() as labels:
        for document in list(space.documents)[::3][:20]:
            index, mention = next((i, m) for i, m in enumerate(document.mentions) if not m.entity)
            answer = gold[document.id][mention.start, mention.end]
            choice = "@emerging" if answer == space.entity.id else answer
            target = LabelTarget.of(document.id, index, mention)
            labels.add(target, choice, labeller="ada", at=datetime.now(UTC))


def missing(dotted):
    """Whether a dotted name leads to no module of stamo and to no name in one."""
    words = ["stamo", *dotted.split(".")]
    for n in range(len(words), 1, -1):
        with contextlib.suppress(ModuleNotFoundError):
            found = importlib.import_module(".".join(words[:n]))
            for word in words[n:]:
                found = getattr(found, word, None)
            return found is None
    return True


def test_the_code_that_the_paper_is_mapped_to_exists():
    """Each dotted name of the page on the paper leads to a module or a name in one."""
    text = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
    layers = "corpus|kb|build|features|models|learning|linking|evaluation"
    names = set(re.findall(rf"`((?:{layers})(?:\.\w+)+)`", text))
    assert len(names) > 10
    assert sorted(filter(missing, names)) == []


def defines(path, names):
    """Whether a file defines a function, class, method or constant."""
    node = ast.parse(path.read_text(encoding="utf-8"))
    for name in names.split("."):
        found = None
        for one in node.body:
            targets = [one, *getattr(one, "targets", []), getattr(one, "target", None)]
            if any(name in (getattr(t, "name", None), getattr(t, "id", None)) for t in targets):
                found = one
        if found is None:
            return False
        node = found
    return True


def test_the_places_of_the_architecture_exist():
    """Each file, and each function or class in it, that the page of the architecture names."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    lost = []
    for place in sorted(set(re.findall(r"`((?:\w+/)+[\w.]+(?:::[\w.]+)?)`", text))):
        file, _, names = place.partition("::")
        found = [root / file for root in (ROOT / "src" / "stamo", ROOT) if (root / file).exists()]
        if not found or (names and not defines(found[0], names)):
            lost.append(place)
    assert lost == []


def test_every_module_has_its_place_in_the_architecture():
    """The tree on the page names all modules of the product, and no other."""
    tree = next(b.code for b in blocks(ROOT / "docs" / "architecture.md") if b.mark == "tree")
    rows = [line.split("  ", 1) for line in tree.splitlines() if line.strip()]
    named = {
        f"{room.strip()}/{name}" for room, names in rows for name in re.findall(r"[\w/]+", names)
    }
    source = ROOT / "src" / "stamo"
    there = {str(p.relative_to(source).with_suffix("")) for p in source.glob("*/**/*.py")}
    assert {name for name in there if not name.endswith("__init__")} == named
