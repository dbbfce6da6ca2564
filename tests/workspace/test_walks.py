"""New entities from their names to links, in languages that inflect names or join words."""

import csv
import json

import pytest

from stamo.cli.main import create_app
from stamo.corpus.types import EmergingEntity
from stamo.linking.linker import Linker
from stamo.models.store import without_training
from stamo.packs.pack import EntityPack
from stamo.workspace.collect import collect
from stamo.workspace.folder import Workspace
from stamo.workspace.learn import learn_pack
from tests.linking.languages import WIKIS as MORE_WIKIS
from tests.linking.languages import build_wiki
from tests.workspace.small_world import NOON
from tests.workspace.walks import CAFE, KNOWN, LAST, NAMES, SHIP, WIKIS


def run(*arguments) -> None:
    create_app()(list(map(str, arguments)), standalone_mode=False)


def documents(language: str) -> list[tuple[str, str, str]]:
    """Return id, text and form of the name; ids tell the ship from the café."""
    return [
        (f"{kind}{i}", text.format(form), form)
        for kind, texts in (("ship", SHIP), ("cafe", CAFE))
        for i, (text, form) in enumerate(texts[language].items())
    ]


@pytest.mark.parametrize("language", NAMES)
def test_a_new_entity_is_linked_beside_its_known_neighbours(language, tmp_path, capsys):
    """Collected, labelled by a table, learned and linked, all in forms of its name."""
    if language == "fi":
        pytest.importorskip("snowballstemmer")
    build_wiki(tmp_path, language, (WIKIS | MORE_WIKIS)[language], dimensions=8)
    kb, space, name = tmp_path / language, tmp_path / "ship", NAMES[language]
    pile, labels, table = documents(language), tmp_path / "labels.csv", tmp_path / "pile.jsonl"
    records = (  # letters are escaped in some
        json.dumps({"id": id, "text": text}, ensure_ascii=n % 2 == 0)
        for n, (id, text, _) in enumerate(pile)
    )
    table.write_text("".join(record + "\n" for record in records), encoding="utf-8")
    run("new", space, f"{name} (X)", "--alias", name)
    run("collect", space, "--kb", kb, "--from", table)
    with labels.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(("document", "start", "end", "choice"))
        for id, text, form in pile:
            start = text.index(form)
            choice = "@emerging" if id.startswith("ship") else "@none"
            rows.writerow((id, start, start + len(form), choice))
    run("labels", "import", space, labels)
    run("learn", space, "--encoder", "none")
    capsys.readouterr()
    sentence, form, known = LAST[language]
    text = tmp_path / "text.txt"
    text.write_text(sentence.format(form), encoding="utf-8")
    pack = next((space / "packs").glob("*.stamo"))
    run("link", "--kb", kb, text, "--with", pack, "--format", "jsonl")
    mentions = json.loads(capsys.readouterr().out)["mentions"]
    found = {mention["surface"]: mention["entity"] for mention in mentions}
    assert found[form] == f"{name} (X)"
    assert found[known] == KNOWN[language]


LINES = {
    "ko": (
        "남극의 얼음을 깨는 쇄빙 연구선",
        "쇄빙 연구선 {}은 항구를 떠나 남극의 얼음을 깼다.",
        "점심을 먹고 카페 {}에서 커피를 마셨다.",
    ),
    "zh": (
        "在南极破冰的科考船",
        "科考船{}离开港口，破开南极的冰。",
        "午饭后我们在咖啡馆{}喝咖啡。",
    ),
}
NEW = {"ko": "아라온", "zh": "雪龙"}


@pytest.mark.parametrize("language", LINES)
def test_a_line_alone_does_not_take_every_text_of_its_language(language, tmp_path):
    """The encoder reads English only; in other languages words of the line tell, where they recur.

    In Korean and Chinese none does here, and nothing is linked.
    """
    kb = build_wiki(tmp_path, language, MORE_WIKIS[language], dimensions=8)
    trained, alias = without_training(kb), NEW.get(language, "Aranda")
    line, near, far = LINES[language]
    entity = EmergingEntity("X (ship)", (alias,), description=line)
    space = Workspace.create(tmp_path / "w", entity, created_by="ada", at=NOON)
    texts = [text.format(alias) for text in (near, far)]
    pile = tmp_path / "pile.jsonl"
    records = ({"id": str(i), "text": text} for i, text in enumerate(texts))
    pile.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert collect([space], [pile], kb, trained)[0].n_kept == 2
    learn_pack(space, kb, trained)
    pack = EntityPack.load(space.pack_path, kb)
    linker = Linker(kb, trained, [pack])
    answers = [[m.entity for m in linker.link(text) if m.surface == alias] for text in texts]
    assert answers == [[None if language in ("ko", "zh") else entity.id], [None]]
