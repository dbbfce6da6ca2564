"""A new entity in a language that hardly ever writes a name alone, from documents to links."""

import json
from datetime import timedelta

import pytest

from stamo.corpus.types import EmergingEntity
from stamo.linking.linker import Linker
from stamo.models.store import without_training
from stamo.packs.pack import EntityPack
from stamo.workspace.collect import collect
from stamo.workspace.folder import Workspace
from stamo.workspace.labels import LabelTarget
from stamo.workspace.learn import LearnSettings, learn_pack
from tests.linking.languages import WIKIS, build_wiki
from tests.workspace.small_world import NOON

SHIP = [
    "쇄빙 연구선 {} 남극 바다의 얼음을 깨고 나아갔다. 과학자들이 배에 탔다.",
    "연구원들이 배 {} 얼음 시료를 모았다. 남극 항해는 석 달이다.",
    "남극 기지로 가는 배 {} 항구를 떠났다. 얼음이 두껍다.",
]
CAFE = [
    "시내의 카페 {} 커피와 빵이 맛있다. 손님이 많다.",
    "우리는 점심 뒤에 카페 {} 커피를 마셨다. 값이 싸다.",
    "카페 {} 새로운 빵을 팔기 시작했다. 커피는 그대로이다.",
]
FORMS = ["아라온은", "아라온이", "아라온을", "아라온에서", "아라온의", "아라온"]
ENTITY = EmergingEntity("아라온 (배)", ("아라온",))


@pytest.fixture(scope="module")
def kb(tmp_path_factory):
    return build_wiki(tmp_path_factory.mktemp("ko"), "ko", WIKIS["ko"], dimensions=8)


def write_pile(path, *, escaped):
    lines = [
        json.dumps(
            {"id": f"{kind}{i}", "text": texts[i % 3].format(FORMS[i % 6]) + f" {i}번째이다."},
            ensure_ascii=escaped,
        )
        for i in range(18)
        for kind, texts in (("ship", SHIP), ("cafe", CAFE))
    ]
    path.write_text("\n".join([*lines, json.dumps({"id": "x", "text": "아라온호의 선장"})]) + "\n")
    return path


@pytest.mark.parametrize("escaped", [False, True])
def test_documents_are_collected_whatever_stands_behind_the_name(kb, tmp_path, escaped):
    """Alone and beside another workspace; the span is the name without its particle."""
    pile, trained = write_pile(tmp_path / "pile.jsonl", escaped=escaped), without_training(kb)
    one, other = (
        Workspace.create(tmp_path / name, entity, created_by="ada", at=NOON)
        for name, entity in (("a", ENTITY), ("b", EmergingEntity("Zzz", ("Zzz",))))
    )
    found, nothing = collect([one, other], [pile], kb, trained)
    assert (found.n_kept, found.n_mentions, nothing.n_kept) == (36, 36, 0)
    for document in one.documents:
        (mention,) = [m for m in document.mentions if m.entity is None]
        assert document.text[mention.start : mention.end] == mention.surface == "아라온"


def test_a_pack_links_the_name_with_its_particle(kb, tmp_path):
    """Learned from labels of both meanings, applied to a new sentence of each."""
    trained = without_training(kb)
    space = Workspace.create(tmp_path / "a", ENTITY, created_by="ada", at=NOON)
    collect([space], [write_pile(tmp_path / "pile.jsonl", escaped=False)], kb, trained)
    with space.open_labels() as store:
        for number, document in enumerate(list(space.documents)[:12]):
            target = LabelTarget.of(document.id, 0, document.mentions[0])
            choice = ENTITY.id if document.id.startswith("ship") else "@none"
            store.add(target, choice, labeller="ada", at=NOON + timedelta(minutes=number))
    learn_pack(space, kb, trained, LearnSettings(encoder=None))
    pack = EntityPack.load(space.pack_path, kb)
    linker = Linker(kb, trained, [pack])
    for text, entity in (
        ("연구선 아라온에서 남극의 얼음을 보았다.", ENTITY.id),
        ("카페 아라온에서 커피를 마셨다.", None),
    ):
        (linked,) = [m for m in linker.link(text) if m.surface == "아라온"]
        assert linked.entity == entity


LINES = {
    "de": (
        "Eisbrechendes Forschungsschiff in der Antarktis",
        "Das Forschungsschiff {} verließ den Hafen und brach das Eis der Antarktis.",
        "Nach dem Mittagessen tranken wir Kaffee im Café {} am Markt.",
    ),
    "fi": (
        "jäätä murtava tutkimusalus Etelämantereella",
        "Tutkimusalus {} lähti satamasta ja mursi Etelämantereen jään.",
        "Joimme lounaan jälkeen kahvia kahvilassa {} torin reunalla.",
    ),
    "tr": (
        "Antarktika'da buz kıran araştırma gemisi",
        "Araştırma gemisi {} limandan ayrıldı ve Antarktika buzunu kırdı.",
        "Öğle yemeğinden sonra {} adlı kafede kahve içtik.",
    ),
    "ru": (
        "научное судно, ломающее лёд Антарктики",
        "Научное судно {} покинуло порт и ломало лёд Антарктики.",
        "После обеда мы пили кофе в кафе {} на площади.",
    ),
    "ko": (
        "남극의 얼음을 깨는 쇄빙 연구선",
        "쇄빙 연구선 {}은 항구를 떠나 남극의 얼음을 깼다.",
        "점심을 먹고 카페 {}에서 커피를 마셨다.",
    ),
    "ja": (
        "南極の氷を砕く研究船",
        "研究船{}は港を出て南極の氷を砕いた。",
        "昼食の後カフェ{}でコーヒーを飲んだ。",
    ),
    "zh": (
        "在南极破冰的科考船",
        "科考船{}离开港口，破开南极的冰。",
        "午饭后我们在咖啡馆{}喝咖啡。",
    ),
}
NEW = {"ru": "Аврора", "ko": "아라온", "ja": "しらせ", "zh": "雪龙"}


@pytest.mark.parametrize("language", LINES)
def test_a_line_alone_does_not_take_every_text_of_its_language(language, tmp_path):
    """The encoder reads English; it finds any two texts of another language alike."""
    pytest.importorskip("tokenizers")
    kb = build_wiki(tmp_path, language, WIKIS[language], dimensions=8)
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
    assert answers == [[entity.id], [None]]


def test_a_pack_links_inflected_forms_of_its_name(tmp_path):
    """Also in a text that never writes the name as it was declared."""
    pytest.importorskip("snowballstemmer")
    pytest.importorskip("tokenizers")
    kb = build_wiki(tmp_path, "ru", WIKIS["ru"], dimensions=8)
    trained, (line, near, far) = without_training(kb), LINES["ru"]
    entity = EmergingEntity("X (ship)", ("Аврора",), description=line)
    space = Workspace.create(tmp_path / "w", entity, created_by="ada", at=NOON)
    pile = tmp_path / "pile.jsonl"
    records = ({"id": text, "text": text.format("Авроры")} for text in (near, far))
    pile.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert collect([space], [pile], kb, trained)[0].n_kept == 2
    learn_pack(space, kb, trained)
    pack = EntityPack.load(space.pack_path, kb)
    found = Linker(kb, trained, [pack]).link(near.format("Авроры"))
    assert [m.entity for m in found if m.surface == "Авроры"] == [entity.id]
