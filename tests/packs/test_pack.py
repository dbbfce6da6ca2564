import json
import multiprocessing
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stamo.corpus.types import EmergingEntity
from stamo.errors import (
    ArtifactMismatchError,
    MissingExtraError,
    PackError,
    StamoError,
    UnknownEntityError,
)
from stamo.models import store
from stamo.packs import pack as pack_bytes
from stamo.packs.folder import PackFolder, pack_file_name, refuse_twins
from stamo.packs.pack import EntityPack

KB, MODEL, LABELS = "a1" * 32, "b2" * 32, "c3" * 32
TRAINED = SimpleNamespace(fingerprint=MODEL, adapter=None)
TITLES = ("Jakku", "Kylo Ren", "The Force", "Zürich\u2028lake")


@dataclass
class Base:
    """The part of a knowledge base that packs are compared with."""

    fingerprint: str = KB
    dimensions: int = 6
    n_entities: int = 10
    language: str = "en"

    def titles(self, ids):
        named = dict(zip((1, 4, 5, 9), TITLES, strict=True))
        return [named.get(int(i), f"Entity {i}") for i in ids]


def unit(n=6):
    vector = np.arange(1, n + 1, dtype=np.float64)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def make_pack(**changes):
    fields = {
        "entity": EmergingEntity("Rey Skywalker", ("Rey", "Rey Skywalker")),
        "priors": np.array([0.25, 1.0], np.float32),
        "neighbours": np.array([1, 4, 5, 9], np.int32),
        "titles": TITLES,
        "relatedness": np.array([0.5, 0.75, 0.0, 1.0], np.float32),
        "vector": unit(),
        "kb_fingerprint": KB,
        "model_fingerprint": MODEL,
        "labels_fingerprint": LABELS,
        "groups": {"bias": np.array([0.5], np.float32)},
        "history": ({"slot": 1, "flipped": 12, "share": 0.5, "seconds": {"link": 0.01}},),
        "description": "A scavenger of Jakku.",
        "notes": {"licence": "CC BY-SA 3.0", "labelled by": "Ada"},
    }
    return EntityPack(**(fields | changes))


NAMED = EmergingEntity("Rey Skywalker", ("Rey", "Rey Skywalker"), "a scavenger", "Q1", "person")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"neighbours": np.zeros(0, "i4"), "titles": (), "relatedness": np.zeros(0, "f4")},
        {"vector": np.zeros(6, np.float32)},  # no word near its mentions is known
        {"entity": NAMED},
        {"vocabularies": {"neighbours": ("left _", "_ right")}},
    ],
)
def test_a_saved_pack_comes_back(tmp_path, changes):
    """What is loaded equals what was saved, value by value; equal packs have equal bytes."""
    pack = make_pack(**changes)
    pack.save(tmp_path / "rey.stamo")
    loaded = EntityPack.load(tmp_path / "rey.stamo", Base(), TRAINED)
    for name in ("entity", "titles", "vocabularies", "history", "notes", "fingerprint"):
        assert getattr(loaded, name) == getattr(pack, name)
    for name, values in pack.theta().items():
        np.testing.assert_array_equal(loaded.theta()[name], values)
    assert loaded.to_bytes() == pack.to_bytes()


def test_the_record_is_small_and_readable_without_stamo():
    """A JSON parser reads format, names and partners, whatever the order that they came in."""
    size = int.from_bytes(GOOD[:8], "little")
    record = json.loads(json.loads(GOOD[8 : 8 + size])["__metadata__"]["stamo"])["pack"]
    assert (record["format"], record["aliases"]) == ("stamo-pack", ["Rey", "Rey Skywalker"])
    assert (record["kb"], record["model"]) == (KB, MODEL)
    notes = {"labelled by": "Ada", "licence": "CC BY-SA 3.0"}
    assert make_pack(notes=notes).to_bytes() == GOOD
    assert len(GOOD) < 3000


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"priors": np.array([0.5, 1.5], np.float32)}, "prior lies outside"),
        ({"priors": np.array([0.5, -0.1], np.float32)}, "prior lies outside"),
        ({"priors": np.array([0.5, np.nan], np.float32)}, "not finite"),
        ({"priors": np.array([0.5], np.float32)}, "shape"),
        ({"priors": np.array([0.5, 0.5])}, "float64"),
        ({"vector": unit() * np.float32(1.1)}, "length 1"),
        ({"vector": np.zeros(0, np.float32)}, "length 1"),
        ({"vector": np.full(6, np.inf, np.float32)}, "not finite"),
        ({"neighbours": np.array([4, 1, 5, 9], np.int32)}, "ascending"),
        ({"neighbours": np.array([1, 4, 4, 9], np.int32)}, "ascending"),
        ({"neighbours": np.array([-1, 4, 5, 9], np.int32)}, "ascending"),
        ({"titles": TITLES[:3]}, "shape"),
        ({"titles": ("a\nb", *TITLES[1:])}, "name"),
        ({"titles": ("", *TITLES[1:])}, "name"),
        ({"titles": ("\ud800", *TITLES[1:])}, "name"),
        ({"relatedness": np.array([0, np.nan, 0, 0], np.float32)}, "not finite"),
        ({"groups": {"bias": np.array([np.nan], np.float32)}}, "not finite"),
        ({"groups": {"prior": np.array([1], np.float32)}}, "name"),
        ({"groups": {"../up": np.array([1], np.float32)}}, "name"),
        ({"groups": {"added": np.ones((2, 2), np.float32)}}, "shape"),
        ({"groups": {"added": np.ones((), np.float32)}}, "shape"),
        ({"kb_fingerprint": "newest"}, "fingerprint"),
        ({"description": "x" * 30_000}, "note"),
        ({"notes": {"by": 3}}, "note"),
        ({"history": ({"share": float("nan")},)}, "history"),
        ({"history": ({"theta": object()},)}, "history"),
        ({"vocabularies": {"neighbours": ("a\nb",)}}, "vocabulary"),
        ({"vocabularies": {str(n): () for n in range(11)}}, "vocabularies"),
    ],
)
def test_values_out_of_range_are_refused(changes, message):
    """Every field is checked where a pack is made, and the message names it."""
    with pytest.raises(PackError, match=message):
        make_pack(**changes)


def correction(**changes):
    """The groups of a learned pack with two aliases, four neighbours and six dimensions."""
    sizes = {
        "correction-words": 6,
        "correction-longer-name": 2,
        "none-longer-name": 2,
        "correction-scale": 1,
        "correction-bias": 1,
        "decision-shift": 1,
        "keyphrase": 4,
    }
    return {name: np.ones(size, np.float32) for name, size in sizes.items()} | changes


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        (name, shape)
        for name, values in sorted(correction().items())
        for shape in [(0,), (3, 4), (), (5,), (1, 1)]
        if shape != values.shape
    ],
)
def test_groups_of_a_wrong_shape_are_refused(name, shape):
    """A known group has the shape that the pack's own sizes give it."""
    with pytest.raises(PackError, match=f"{name}.* of shape"):
        make_pack(groups=correction() | {name: np.ones(shape, np.float32)})


def test_groups_need_each_other_and_their_line():
    """A correction has scale and bias; weights of a description need one."""
    for name in ("correction-scale", "correction-bias"):
        groups = correction()
        del groups[name]
        with pytest.raises(PackError, match=f"no '{name}'"):
            make_pack(groups=groups)
    for name in ("correction-description", "none-description"):
        groups = correction(**{name: np.ones(2, np.float32)})
        make_pack(entity=NAMED, groups=groups)
        with pytest.raises(PackError, match="a description of the entity but has none"):
            make_pack(groups=groups)


def tampered(change_record=None, change_tensors=None):
    """Bytes with a right checksum over wrong content, as an attacker would write them."""
    record, tensors = pack_bytes.parse_bytes(make_pack().to_bytes())
    tensors = dict(tensors)
    (change_record or (lambda r: None))(record)
    (change_tensors or (lambda t: None))(tensors)
    return pack_bytes.to_bytes(record, tensors)


TEXTS = ("entity", "about", "kb", "model", "labels", "encoder", "description")
RECORDS = [
    *({name: value} for name in (*TEXTS, "history", "aliases") for value in (None, 3, {"a": 1})),
    *({"aliases": names} for names in ([], ["a", "b", "c", "d"], ["Rey", "Rey"], [1, 2], "Re")),
    *({"identity": value} for value in ([], {"id": 3}, {"name": "x"}, {"url": "javascript:x"})),
    *({"vocabularies": value} for value in ([], {"neighbours": "x"}, {"neighbours": [1]})),
    *({name: value} for name, value in (("entity", ""), ("version", 99), ("format", "other"))),
    {"history": [1]},
    {"notes": None},
]
ARRAYS = [
    {"prior": np.array([np.nan, 1], np.float32)},
    {"prior": np.array([1, 1], np.int32)},
    {"titles": np.array([255, 254], np.uint8)},
    {"extra": np.zeros(3, np.float32)},
    {"embedding": np.zeros((2, 3), np.float32)},
]


@pytest.mark.parametrize(
    "data",
    [
        *(tampered(lambda r, new=new: r.update(new)) for new in RECORDS),
        *(tampered(None, lambda t, new=new: t.update(new)) for new in ARRAYS),
        tampered(lambda r: r.pop("labels")),
        tampered(None, lambda t: t.pop("prior")),
    ],
)
def test_crafted_files_are_refused(data):
    """A file with a right checksum is still checked value by value."""
    with pytest.raises(PackError, match=r"^Upload is no usable entity pack: .*\.$"):
        EntityPack.from_bytes(data, "Upload")


def header_only(text):
    data = text if isinstance(text, bytes) else text.encode()
    return len(data).to_bytes(8, "little") + data


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 8,
        b"\xff" * 64,
        header_only("[]"),
        header_only("{}"),
        header_only("[" * 100_000),
        header_only('{"__metadata__": {"stamo": "' + "[" * 100_000 + '"}}'),
        header_only('{"__metadata__": {"stamo": "{\\"a\\": NaN}"}}'),
        header_only('{"__metadata__": {"stamo": "{\\"a\\": 1e999}"}}'),
        header_only('{"__metadata__": {"stamo": 5}}'),
        header_only('{"__metadata__": 5}'),
        header_only(b'{"a": "\xff"}'),
        header_only('{"a": {"dtype": "F32", "shape": [1e99], "data_offsets": [0, 4]}}'),
        header_only('{"a": {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]}}'),
        b"\0" * (pack_bytes.MAX_PACK_BYTES + 1),
    ],
)
def test_bytes_that_are_no_pack_are_refused(data):
    """Anything else than a pack gives one sentence, whatever its header claims."""
    with pytest.raises(PackError):
        EntityPack.from_bytes(data)


GOOD = make_pack().to_bytes()


@settings(max_examples=400, deadline=None)
@given(place=st.integers(0, len(GOOD) - 1), flip=st.integers(1, 255))
def test_a_changed_byte_is_noticed(place, flip):
    """Whichever byte of a pack changes: PackError, or the very same content."""
    data = bytearray(GOOD)
    data[place] ^= flip
    try:
        pack = EntityPack.from_bytes(bytes(data))
    except PackError:
        return
    assert pack.fingerprint == make_pack().fingerprint


@settings(max_examples=200, deadline=None)
@given(size=st.integers(0, len(GOOD) - 1), tail=st.binary(max_size=40))
def test_a_cut_or_spliced_file_is_noticed(size, tail):
    """A file that ends early, or goes on with something else, is no pack."""
    if GOOD[:size] + tail != GOOD:
        with pytest.raises(PackError):
            EntityPack.from_bytes(GOOD[:size] + tail)


def test_partners_are_checked(tmp_path):
    """A pack refuses another knowledge base, another model and titles that differ."""
    path = tmp_path / "rey.stamo"
    make_pack().save(path)
    with pytest.raises(ArtifactMismatchError, match="knowledge base a1a1"):
        EntityPack.load(path, Base(fingerprint="ff" * 32))
    with pytest.raises(ArtifactMismatchError, match="model b2b2"):
        EntityPack.load(path, Base(), SimpleNamespace(fingerprint="dd" * 32))
    with pytest.raises(PackError, match="does not have"):
        EntityPack.load(path, Base(n_entities=9))
    with pytest.raises(PackError, match="dimensions"):
        EntityPack.load(path, Base(dimensions=7))
    make_pack(titles=("Tatooine", *TITLES[1:])).save(path)
    with pytest.raises(PackError, match="other titles"):
        EntityPack.load(path, Base())


def test_a_learned_theta_is_brought_into_range():
    """Projecting clips priors, scales the vector and looks the titles up."""
    pack = EntityPack.project(
        EmergingEntity("Rey", ("Rey",)),
        Base(),
        priors=[1.02],
        neighbours=[1, 9],
        relatedness=[0.1, 0.2],
        vector=unit() * 3,
        model_fingerprint=MODEL,
    )
    assert pack.priors.tolist() == [1.0]
    assert pack.titles == (TITLES[0], TITLES[3])
    np.testing.assert_allclose(pack.vector, unit(), rtol=1e-6)
    pack.check(Base(), TRAINED)


class Encoder:
    """An encoder of two dimensions, installed."""

    fingerprint = "c3" * 32

    def encode(self, texts):
        return np.zeros((len(texts), 2), np.float32)


@pytest.mark.parametrize("name", ["correction-sentence", "none-sentence"])
@pytest.mark.parametrize("shape", [(0,), (1,), (7,)])
def test_weights_of_sentences_fit_the_encoder(name, shape, monkeypatch):
    """Their number is told by the encoder: it has two dimensions."""
    monkeypatch.setattr(store, "_load", lambda *asked: Encoder())
    right = {name: np.ones(2, np.float32)}
    make_pack(encoder=Encoder.fingerprint, groups=correction() | right).check(Base(), TRAINED)
    wrong = make_pack(
        encoder=Encoder.fingerprint, groups=correction() | {name: np.ones(shape, np.float32)}
    )
    with pytest.raises(PackError, match=f"{name}.*, not 2"):
        wrong.check(Base(), TRAINED)


@pytest.mark.parametrize("key", ["../secret", "/etc/passwd", "a\0b", "", ".", "*", "secret"])
def test_a_key_never_leaves_the_folder(tmp_path, key):
    """A key is compared with the folder's files; it is never used as a path."""
    outside = tmp_path / "secret.stamo"
    outside.write_bytes(GOOD)
    folder = PackFolder(tmp_path / "packs")
    folder.add(GOOD)
    with pytest.raises(UnknownEntityError):
        folder.remove(key)
    assert outside.exists()


@given(st.text(min_size=1, max_size=80))
def test_file_names_are_safe_for_any_entity(name):
    """Only small letters, digits and hyphens reach the file system, and names stay apart."""
    file = pack_file_name(name)
    assert file.isascii()
    assert set(file) <= set("abcdefghijklmnopqrstuvwxyz0123456789-.")
    assert file.count(".") == 1
    assert len(file) < 70
    assert pack_file_name(name + "x") != file


def test_packs_of_one_name_are_told_apart_by_id(tmp_path):
    """Two ids are two entities; one name without ids, or one id, is one."""
    plain = EntityPack.from_bytes(GOOD)
    one, two = (replace(plain, entity=replace(plain.entity, external_id=q)) for q in ("Q1", "Q2"))
    folder = PackFolder(tmp_path)
    folder.add(one.to_bytes())
    folder.add(two.to_bytes())
    assert len(folder.entries()) == 2
    with pytest.raises(PackError, match="already"):
        folder.add(plain.to_bytes())
    refuse_twins([("a", one), ("b", two)])
    with pytest.raises(PackError, match="a and b are both packs of"):
        refuse_twins([("a", one), ("b", plain)])
    folder.path.joinpath("zz-copy.stamo").write_bytes(one.to_bytes())
    assert "same entity" in folder.entries()[-1].problem
    assert len(folder.packs()) == 2


def test_a_folder_of_packs(tmp_path):
    """A pack is added once, replaced on request, read again when it changes, and removed."""
    folder = PackFolder(tmp_path / "packs", Base(), TRAINED)
    assert folder.entries() == []
    entry = folder.add(GOOD)
    first = folder.inspect(entry.key).pack
    assert folder.inspect(entry.key).pack is first  # remembered while the file is the same
    with pytest.raises(PackError, match="already"):
        folder.add(GOOD)
    assert folder.add(make_pack(description="newer").to_bytes(), replace=True).key == entry.key
    assert folder.inspect(entry.key).pack.description == "newer"
    assert [pack.entity.id for pack in folder.packs()] == ["Rey Skywalker"]
    folder.remove(entry.key)
    assert folder.entries() == []
    with pytest.raises(UnknownEntityError):
        folder.remove(entry.key)
    with pytest.raises(PackError, match="no folder"):
        PackFolder.existing(tmp_path / "pakcs")
    with pytest.raises(PackError, match=r"none\.stamo"):
        EntityPack.load(tmp_path / "none.stamo")


def change_at_once(folder, data, change, start, told):
    start.wait()
    try:
        if change == "add":
            PackFolder(folder).add(data)
        else:
            PackFolder(folder).remove(change)
        told.put("")
    except StamoError as error:
        told.put(str(error))


def test_of_many_who_add_or_remove_a_pack_at_once_one_does(tmp_path):
    """One of sixteen processes adds the pack, one removes it, and all others are told."""
    context = multiprocessing.get_context("fork")
    for number in range(3):
        packs = [make_pack(entity=replace(make_pack().entity, external_id=id)) for id in ("", "Q1")]
        folder = tmp_path / str(number)
        for expected, change in (("already", "add"), ("There is no pack", "")):
            key = change or next(folder.iterdir()).name.removesuffix(".stamo")
            start, told = context.Event(), context.Queue()
            given = [(folder, pack.to_bytes(), key, start, told) for pack in packs * 8]
            processes = [context.Process(target=change_at_once, args=args) for args in given]
            for process in processes:
                process.start()
            start.set()
            said = [told.get(timeout=60) for _ in processes]
            for process in processes:
                process.join()
            assert said.count("") == 1
            assert all(expected in sentence for sentence in said if sentence)
            assert len(PackFolder(folder).entries()) == (1 if change else 0)


def missing(*asked):
    raise MissingExtraError("tokenizers", "encoder")


@pytest.mark.parametrize(
    ("changes", "load", "problem"),
    [
        ({"kb_fingerprint": "ee" * 32}, None, "knowledge base"),
        ({"encoder": "ee" * 32}, lambda *asked: Encoder(), "encoder eeee"),
        ({"encoder": "ee" * 32}, missing, "pip install"),
    ],
)
def test_a_pack_that_cannot_be_used_is_left_out(tmp_path, monkeypatch, changes, load, problem):
    """It is not added, and one that is there is listed with its problem beside those in use."""
    if load is not None:
        monkeypatch.setattr(store, "_load", load)
    foreign = make_pack(entity=EmergingEntity("Finn", ("Finn", "FN")), **changes)
    foreign.save(tmp_path / "foreign.stamo")
    make_pack().save(tmp_path / "good.stamo")
    (tmp_path / "bad.stamo").write_bytes(GOOD[:-1])
    folder = PackFolder(tmp_path, Base(), TRAINED)
    bad, found, good = folder.entries()
    assert problem in found.problem
    assert "no usable entity pack" in bad.problem
    assert (good.problem, folder.packs()) == ("", [good.pack])
    with pytest.raises((ArtifactMismatchError, MissingExtraError), match=problem):
        folder.add(foreign.to_bytes())
