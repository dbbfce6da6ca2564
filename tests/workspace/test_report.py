import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from stamo.errors import WorkspaceError
from stamo.workspace.learn import LearnSettings, learn_pack, rollback
from stamo.workspace.report import nearest_entities, write_report
from tests.workspace.small_world import copy_collected, copy_labelled

FEW = LearnSettings(n_folds=2)
EVIL = '<script>alert(1)</script><img src=x onerror=alert(2)> & "quoted"'


@pytest.fixture(scope="module")
def learned(small, kb, trained, tmp_path_factory):
    """A learned workspace and its report; nobody changes them."""
    space = copy_labelled(small, tmp_path_factory.mktemp("report") / "rey")
    outcome = learn_pack(space, kb, trained, FEW)
    return space, outcome, write_report(space, kb, trained)


class Tags(HTMLParser):
    """Collect tags, links to elsewhere and event handlers."""

    def __init__(self):
        super().__init__()
        self.tags, self.urls, self.handlers = set(), [], []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.urls += [
            v for k, v in attrs if k in {"src", "href"} and not v.startswith("data:image/")
        ]
        self.handlers += [k for k, _ in attrs if k.startswith("on")]


def parse(path):
    tags = Tags()
    tags.feed(path.read_text())
    return tags


def test_the_report_is_one_file_that_loads_and_runs_nothing(learned):
    """No script, no link to anywhere, and a policy that forbids both."""
    tags = parse(learned[2].path)
    assert "script" not in tags.tags
    assert tags.urls == []
    assert tags.handlers == []
    assert "default-src 'none'" in learned[2].path.read_text().replace("&#x27;", "'")


def test_the_report_says_what_was_learned(small, learned, kb):
    """Name, aliases, priors, related and nearest entities, slots and fingerprints are there."""
    text = learned[2].path.read_text()
    pack = learned[1].pack
    assert small.entity.id in text
    for alias, prior in zip(pack.entity.aliases, pack.priors.tolist(), strict=True):
        assert f"“{alias}” means" in text
        assert f"{prior:.2f}" in text
    assert nearest_entities(pack, kb, 1)[0][0] in text
    assert pack.kb_fingerprint in text
    assert "F1 on left-out labels" in text
    assert "Collisions" in text


def test_figures_are_files_too(learned):
    """The two figures stand beside the report as PNG files."""
    assert len(learned[2].figures) == 2
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in learned[2].figures)


def test_the_same_workspace_gives_the_same_report(learned, kb, trained, tmp_path):
    """Nothing in the report depends on when or where it is written."""
    again = write_report(learned[0], kb, trained, out_path=tmp_path / "other.html")
    assert again.path.read_bytes() == learned[2].path.read_bytes()


def test_hostile_documents_stay_text(small, kb, trained, tmp_path):
    """Markup and script in documents and reference texts is shown, never interpreted."""
    space = copy_labelled(small, tmp_path / "rey")
    aliases = small.entity.aliases

    def spoil(document):
        end = max(m.end for m in document.mentions if m.surface in aliases)
        mentions = tuple(m for m in document.mentions if m.end <= end)
        text = document.text[:end] + " " + EVIL
        return replace(document, text=text, mentions=mentions, title=EVIL)

    documents = [spoil(d) for d in space.documents]
    state = dict(space.documents.manifest.state)
    space.documents.clear()
    alias = small.entity.aliases[0]
    space.documents.append(documents, state=state, complete=True)
    learn_pack(space, kb, trained, FEW)
    reference = tmp_path / "evil.txt"
    reference.write_text(f"{EVIL} {alias} {EVIL}")
    written = write_report(space, kb, trained, reference=[reference])
    text = written.path.read_text()
    tags = parse(written.path)
    assert "script" not in tags.tags
    assert tags.handlers == []
    assert "&lt;script&gt;alert(1)" in text
    assert not re.search(r"<img[^>]*onerror", text)


def test_a_rolled_back_pack_is_reported_as_it_is(labelled, kb, trained):
    """After a rollback the report speaks of the labels alone."""
    learn_pack(labelled, kb, trained, FEW)
    rollback(labelled, kb, trained, 0, FEW)
    text = write_report(labelled, kb, trained).path.read_text()
    assert "labels alone" in text


def test_without_a_pack_there_is_no_report(small, kb, trained, tmp_path):
    """The error says to learn first."""
    with pytest.raises(WorkspaceError, match="learn it first"):
        write_report(copy_collected(small, tmp_path / "rey"), kb, trained)
