"""The documentation keeps up with the program: commands, links, code, quotations."""

import ast
import contextlib
import importlib
import io
import json
import re
import shlex
from dataclasses import asdict

import pytest
from typer.main import get_command

from stamo.cli.main import create_app
from tests.documents import ROOT, blocks, pages, run_blocks
from tests.learning.test_learn import split

PAGES = pages()
COMMANDS_PAGE = ROOT / "docs" / "commands.md"
SHELL_LANGUAGES = {"", "console", "sh", "shell", "bash"}
MACHINE = (r"/work\b", r"/root\b", r"/home/", r"/tmp/", r"/Users/", r"\b[A-Z]:\\")
"""Paths of the machine that a page was written on."""
MAKING = (r"\bsessions?\b", r"\bhelpers?\b", r"\bagents?\b", r"\bissue #?\d+", r"\bPAPER-NOTES\b")
"""Words about how a page was made; in code they may have another meaning."""


def walk(command, words=()):
    """All commands below a group, by their words."""
    if not hasattr(command, "commands"):
        yield " ".join(words), command
        return
    for name, below in command.commands.items():
        yield from walk(below, (*words, name))


COMMANDS = dict(walk(get_command(create_app())))


def page_name(path):
    return path.name


def without_blocks(text):
    """The page without its fenced blocks."""
    return re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)


def anchors(text):
    """The anchors that headings of a page make, as a forge names them."""
    headings = re.findall(r"^#+ (.*)$", without_blocks(text), re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in headings}


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_and_option_has_help(name):
    """A command says what it does, and each of its options what it is for."""
    command = COMMANDS[name]
    assert command.help, f"stamo {name} has no help text"
    for parameter in command.params:
        if parameter.name != "help":
            assert getattr(parameter, "help", None), f"stamo {name}: {parameter.name} has no help"


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_is_documented_with_an_example(name):
    """The page of commands has a heading for each one, and an example that uses it."""
    text = COMMANDS_PAGE.read_text(encoding="utf-8")
    heading = f"### `stamo {name}`\n"
    assert heading in text, f"docs/commands.md lacks {heading.strip()}"
    section = text.split(heading)[1].split("\n## ")[0].split("\n### ")[0]
    assert re.search(rf"^```\n(.*\n)*?.*stamo {name}\b", section, re.M), f"no example of {name}"


def test_no_command_is_documented_that_does_not_exist():
    """A heading of the page of commands names a registered command."""
    text = COMMANDS_PAGE.read_text(encoding="utf-8")
    assert set(re.findall(r"^### `stamo (.*)`$", text, re.M)) <= set(COMMANDS)


def example_lines(path):
    """The command lines of a page's shell blocks, joined over backslashes."""
    for block in blocks(path):
        if block.language in SHELL_LANGUAGES:
            for line in block.code.replace("\\\n", " ").splitlines():
                for part in re.split(r"[|;]", line):
                    found = re.match(r"\s*(?:\$ )?(stamo .*)", part)
                    if found:
                        yield found[1].split(" #")[0]


def check_example(line):
    """Compare one command line with the program: its words and its options."""
    words = shlex.split(re.sub(r"[<>].*", "", line))[1:]
    name = " ".join(words[:2]) if " ".join(words[:2]) in COMMANDS else " ".join(words[:1])
    if name.startswith("-"):
        return
    assert name in COMMANDS, f"{line!r} uses a command that does not exist"
    known = {o for p in COMMANDS[name].params for o in (*p.opts, *p.secondary_opts)}
    for word in words:
        if re.fullmatch(r"--?[a-z][\w-]*(=.*)?", word):
            assert word.split("=")[0] in known | {"--help"}, f"{line!r}: no option {word}"


@pytest.mark.parametrize("path", PAGES, ids=page_name)
def test_examples_use_commands_and_options_that_exist(path):
    """Command lines in the pages would be accepted by the parser."""
    for line in example_lines(path):
        check_example(line)


@pytest.mark.parametrize("path", PAGES, ids=page_name)
def test_relative_links_lead_somewhere(path):
    """Linked files exist, and linked headings are there."""
    text = path.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        other = (path.parent / file).resolve() if file else path
        assert other.exists(), f"{path.name} links to {target}, which does not exist"
        if anchor and other.suffix == ".md":
            assert anchor in anchors(other.read_text(encoding="utf-8")), f"{path.name}: {target}"


def test_the_readme_reads_alike_on_a_package_index():
    """A package index resolves no relative link: the README has none, and names files instead."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"\]\((?![a-z]+:|#)[^)]*\)", text) == []
    for name in re.findall(r"`((?:docs/)?[\w-]+\.(?:md|cff))`", text):
        assert any((folder / name).exists() for folder in (ROOT, ROOT / "docs")), name


@pytest.mark.parametrize("path", PAGES, ids=page_name)
def test_python_blocks_compile_and_import_what_exists(path):
    """Python in the pages compiles, and every name it imports from stamo is there."""
    for block in blocks(path):
        if block.language != "python" or block.mark.startswith("source="):
            continue
        block.compile()
        for node in ast.walk(ast.parse(block.code)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("stamo"):
                module = importlib.import_module(node.module)
                for alias in node.names:
                    assert hasattr(module, alias.name), f"{node.module} has no {alias.name}"


@pytest.mark.parametrize("path", PAGES, ids=page_name)
def test_quoted_source_is_the_source(path):
    """A block that says where it comes from stands there, word for word."""
    for block in blocks(path):
        if block.mark.startswith("source="):
            source = ROOT / block.mark.removeprefix("source=")
            assert block.code in source.read_text(encoding="utf-8"), f"line {block.line}"


@pytest.mark.parametrize("path", PAGES, ids=page_name)
def test_json_blocks_are_json(path):
    """Examples of JSON can be parsed."""
    for block in blocks(path):
        if block.language == "json":
            json.loads(block.code)


@pytest.mark.parametrize("path", PAGES, ids=page_name)
def test_pages_speak_of_the_product_only(path):
    """No page holds a path of some machine, or words about how it was made."""
    text = path.read_text(encoding="utf-8")
    for pattern in MACHINE:
        found = re.search(pattern, text)
        assert found is None, f"{path.name} holds {found[0]!r}"
    for pattern in MAKING:
        found = re.search(pattern, without_blocks(text), re.I)
        assert found is None, f"{path.name} holds {found[0]!r}"


def dotted_names():
    text = (ROOT / "docs" / "paper-to-code.md").read_text(encoding="utf-8")
    layers = "corpus|kb|features|models|learning|linking|evaluation"
    return sorted(set(re.findall(rf"`((?:{layers})(?:\.\w+)+)`", text)))


@pytest.mark.parametrize("name", dotted_names())
def test_the_code_that_the_paper_is_mapped_to_exists(name):
    """Each dotted name of the page from paper to code leads to a module or a name in one."""
    words = ["stamo", *name.split(".")]
    for n in range(len(words), 1, -1):
        try:
            found = importlib.import_module(".".join(words[:n]))
        except ModuleNotFoundError:
            continue
        for word in words[n:]:
            assert hasattr(found, word), f"{'.'.join(words[:n])} has no {word}"
            found = getattr(found, word)
        return
    pytest.fail(f"there is no module of {name}")


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
    (path / "article.txt").write_text(labelled.documents[0].text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["linking", "learning"])
def test_runnable_blocks_run(name, folder, world, monkeypatch):
    """Code that a page shows as runnable runs as printed, for the world's own entity."""
    monkeypatch.chdir(folder)
    path = ROOT / "docs" / f"{name}.md"
    # The page invents its entity; the documents of the folder mention another one.
    stand_in = world.emerging[0]
    monkeypatch.setattr("stamo.corpus.types.EmergingEntity", lambda name, aliases: stand_in)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        run_blocks(path, {})
    assert printed.getvalue().strip()


def test_no_runnable_block_is_left_alone():
    """Every page with runnable blocks has a test that runs them."""
    run = {"linking.md", "learning.md", "add-your-own-model.md"}
    found = {b.path.name for p in PAGES for b in blocks(p) if b.mark == "runnable"}
    assert found - {"README.md"} == run


ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PLACES = sorted(set(re.findall(r"`((?:\w+/)+[\w.]+(?:::[\w.]+)?)`", ARCHITECTURE)))


def defined(tree, name):
    """The node that defines a name in a module or a class, if there is one."""
    for node in tree.body:
        targets = [node, *getattr(node, "targets", []), getattr(node, "target", None)]
        if any(name in (getattr(t, "name", None), getattr(t, "id", None)) for t in targets):
            return node
    return None


@pytest.mark.parametrize("place", PLACES)
def test_the_places_of_the_architecture_exist(place):
    """Each file, and each function or class in it, that the page of the architecture names."""
    file, _, names = place.partition("::")
    found = [root / file for root in (ROOT / "src" / "stamo", ROOT) if (root / file).exists()]
    assert found, f"there is no {file}"
    node = ast.parse(found[0].read_text(encoding="utf-8")) if names else None
    for name in filter(None, names.split(".")):
        node = defined(node, name)
        assert node is not None, f"{file} does not define {names}"
