import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from itertools import islice

import pytest
from axe_playwright_python.sync_playwright import Axe
from markupsafe import escape as markup

from stamo.corpus.reading import read_documents
from stamo.corpus.types import Document
from stamo.errors import WorkspaceError
from stamo.linking.linker import Linker
from stamo.models import store
from stamo.workspace.labels import NONE
from stamo.workspace.learn import LearnSettings, learn_pack
from stamo.workspace.report import nearest_entities, with_links, write_report
from stamo.workspace.scored import NOTHING, find_collisions
from tests.workspace.small_world import NOON, copy_collected, copy_labelled

FEW = LearnSettings(n_folds=2)
EVIL = '<script>alert(1)</script><img src=x onerror=alert(2)> & "quoted"'


@pytest.fixture(scope="module")
def reported(learned, kb, trained):
    """A learned workspace, what learning said, and its report; nobody changes them."""
    return *learned, write_report(learned[0], kb, trained)


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


def test_the_report_is_one_file_that_loads_and_runs_nothing(reported):
    """No script, no link to anywhere, and a policy that forbids both."""
    tags = parse(reported[2].path)
    assert "script" not in tags.tags
    assert tags.urls == []
    assert tags.handlers == []
    assert not re.search(r"url\((?!#)|https?:(?!//www\.w3\.org)", reported[2].path.read_text())
    assert "default-src 'none'" in reported[2].path.read_text().replace("&#39;", "'")


def test_the_report_says_what_was_learned(small, reported, kb):
    """The verdict comes first; aliases, priors, nearest entities and fingerprints are there."""
    text = reported[2].path.read_text()
    pack = reported[1].pack
    assert small.entity.id in text
    for alias, prior in zip(pack.entity.aliases, pack.priors.tolist(), strict=True):
        assert f"“{alias}” means" in text
        assert f"{prior:.2f}" in text
    assert nearest_entities(pack, kb, 1)[0][0] in text
    assert pack.kb_fingerprint in text
    assert "precision on left-out labels" in text
    assert "Collisions" in text
    verdict = reported[1].verdict
    assert reported[2].verdict == verdict
    assert 0 < text.index(str(markup(verdict.sentence))) < text.index('class="cards"')
    assert all(str(markup(line)) in text for line in (*verdict.reasons, *verdict.warnings))


def test_the_table_of_confidences_counts_what_link_prints(reported, kb, trained):
    """Linking the unlabelled documents gives as many links of each confidence as the table says."""
    space, outcome, written = reported
    with space.read_labels() as store:
        labelled = {(e.target.document, e.target.surface) for e in store.current()}
    linker = Linker(kb, trained, [outcome.pack])
    given = (
        replace(d, mentions=tuple(replace(m, entity=None) for m in d.mentions))
        for d in space.documents
    )
    printed = [
        candidate.confidence
        for document in linker.link_documents(given)
        for mention in document.mentions
        if (document.id, mention.surface) not in labelled
        for candidate in mention.candidates
        if candidate.entity == outcome.pack.entity.id
    ]
    rows = re.findall(
        r"<td>(\d+)% to (\d+)%</td><td>(?:not )?linked</td><td class=\"n\">(\d+)</td>",
        written.path.read_text(),
    )
    assert len(rows) == 6
    assert sum(int(n) for *_, n in rows) == len(printed)
    high = sum(int(n) for low, _, n in rows if int(low) >= 50)
    assert abs(high - sum(p >= 0.5 for p in printed)) <= 0.05 * len(printed)


def test_a_served_report_links_into_the_labelling_page(reported):
    """Only then: a file by itself has no page to link to, and no text of a document makes one."""
    text = reported[2].path.read_text()
    served = with_links(text, "/label", "/try")
    assert '<form class="panel" action="/try"' in served
    assert "action=" not in text
    assert "href=" not in re.sub("xlink:href", "", text)
    assert re.search(r'<a href="/label\?workspace=rey&amp;document=[^"]+&amp;mention=\d+">', served)
    assert 'data-place="' not in served


def test_figures_take_the_colours_of_the_page(reported):
    """No fixed colour is left in the drawings, so that they follow dark mode."""
    drawings = re.findall(r"<svg.*?</svg>", reported[2].path.read_text(), re.DOTALL)
    assert len(drawings) == 2
    assert not any(re.search("#[0-9a-f]{3,6}", svg) for svg in drawings)
    assert sum("threshold 50%" in svg for svg in drawings) == 2
    assert drawings[1].count("<rect") == 20


def test_no_inner_name_of_a_choice_is_shown(labelled, kb, trained):
    """A label "none of these" that the pack contradicts is shown in words."""
    outcome = learn_pack(labelled, kb, trained, FEW)
    with labelled.open_labels() as store:
        for event in store.current():
            store.add(event.target, NONE, labeller="eve", at=NOON)
    text = write_report(labelled, kb, trained).path.read_text()
    assert "labelled none of these" in text
    assert "@none" not in text
    assert "labels have changed since" in text
    assert labelled.status().stage == "labels changed: learn again"
    assert outcome.pack.entity.id in text


@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_report_keeps_nobody_out(reported, browser, width, scheme):
    """axe-core finds nothing serious, and nothing is wider than the screen."""
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page.set_default_timeout(15_000)
    page.goto(reported[2].path.as_uri())
    found = Axe().run(page).response["violations"]
    wide = page.evaluate("document.documentElement.scrollWidth")
    cut = page.evaluate(
        "[...document.querySelectorAll('table')]"
        ".filter((table) => table.scrollWidth > table.parentElement.clientWidth).length"
    )
    page.close()
    assert [v["id"] for v in found if v["impact"] in ("serious", "critical")] == []
    assert (wide <= width, cut) == (True, 0)


def test_a_report_reads_no_text_again(reported, kb, trained, tmp_path, monkeypatch):
    """What the encoder made of the pile is still known, and the same bytes are written again."""
    real = store.open_encoder(trained, kb)

    class Forgetful:
        fingerprint = real.fingerprint

        def encode(self, texts):
            assert list(texts) == [""], "this text was read before"  # to learn the size
            return real.encode(texts)

        def encode_masked(self, *asked):
            raise AssertionError("this text was read before")

    monkeypatch.setattr(store, "_load", lambda *asked: Forgetful())
    again = write_report(reported[0], kb, trained, out_path=tmp_path / "other.html")
    assert again.path.read_bytes() == reported[2].path.read_bytes()


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


def test_the_report_tells_what_changed_since_the_last_version(labelled, kb, trained):
    """A second pack is compared with the first; the labels alone are named as such."""
    learn_pack(labelled, kb, trained, FEW)
    learn_pack(labelled, kb, trained, replace(FEW, n_slots=0))
    text = write_report(labelled, kb, trained).path.read_text()
    assert "What changed since version 1" in text
    assert "labels alone" in text


def test_without_a_pack_there_is_no_report(small, kb, trained, tmp_path):
    """The error says to learn first."""
    with pytest.raises(WorkspaceError, match="learn it first"):
        write_report(copy_collected(small, tmp_path / "rey"), kb, trained)


def test_collisions_agree_with_linking_twice(small, learned, kb, trained):
    """What is counted as lost is what differs between linking without and with the pack."""
    pack = learned[1].pack
    piled = read_documents([small.world.paths.pile_path])
    texts = [Document(d.id, d.text) for d in islice(piled, 120)]
    linker = Linker(kb, trained, extra_aliases=pack.entity.aliases)
    found = find_collisions(linker, pack, texts)
    packed = Linker(kb, trained, [pack], settings=linker.settings)
    pairs = [
        (left.entity, right.entity)
        for old, new in zip(linker.link_documents(texts), packed.link_documents(texts), strict=True)
        for left, right in zip(old.mentions, new.mentions, strict=True)
    ]
    lost = Counter(before or NOTHING for before, now in pairs if now == pack.entity.id)
    dropped = Counter(before for before, now in pairs if before is not None and now is None)
    assert found.n_taken == lost.total() > 0
    assert {loss.entity: loss.n_lost for loss in found.losses if loss.n_lost} == lost
    assert found.n_unlinked == dropped.total()
    assert {loss.entity: loss.n_unlinked for loss in found.losses if loss.n_unlinked} == dropped
    assert found.n_documents == len(texts)
    assert sum(loss.n_before for loss in found.losses) == found.n_named
    shown = [one for loss in found.losses for one in loss.examples]
    assert {one.surface for one in shown} <= set(pack.entity.aliases)
    assert len(shown) > 0
    assert find_collisions(linker, pack, [Document("a", "No name here at all.")]).losses == ()
