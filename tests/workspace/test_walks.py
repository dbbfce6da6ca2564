"""A new entity by commands alone, from its name to a link, in languages that inflect or join."""

import csv
import json

import pytest

from stamo.cli.main import create_app
from tests.linking.languages import build_wiki
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


@pytest.mark.parametrize("language", WIKIS)
def test_a_new_entity_is_linked_beside_its_known_neighbours(language, tmp_path, capsys):
    """Collected, labelled by a table, learned and linked, all in forms of its name."""
    if language in {"el", "fi"}:
        pytest.importorskip("snowballstemmer")
    build_wiki(tmp_path, language, WIKIS[language], dimensions=8)
    kb, space, name = tmp_path / language, tmp_path / "ship", NAMES[language]
    pile, labels, table = documents(language), tmp_path / "labels.csv", tmp_path / "pile.jsonl"
    records = ({"id": id, "text": text} for id, text, _ in pile)
    table.write_text("".join(json.dumps(record) + "\n" for record in records))
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
    run("link", kb, text, "--with", pack, "--format", "jsonl")
    mentions = json.loads(capsys.readouterr().out)["mentions"]
    found = {mention["surface"]: mention["entity"] for mention in mentions}
    assert found[form] == f"{name} (X)"
    assert found[known] == KNOWN[language]
