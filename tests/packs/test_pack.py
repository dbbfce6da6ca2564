import json
import os
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
    SettingsError,
    UnknownEntityError,
)
from stamo.features import encoder as encoders
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


def test_a_saved_pack_comes_back(tmp_path):
    """What is loaded equals what was saved, value by value."""
    pack = make_pack()
    pack.save(tmp_path / "rey.stamo")
    loaded = EntityPack.load(tmp_path / "rey.stamo", Base(), TRAINED)
    assert loaded.entity == pack.entity
    assert loaded.titles == TITLES
    for name in ("priors", "neighbours", "relatedness", "vector"):
        assert getattr(loaded, name).tobytes() == getattr(pack, name).tobytes()
    assert loaded.groups["bias"].tolist() == [0.5]
    assert loaded.history == pack.history
    assert loaded.notes == pack.notes
    assert loaded.fingerprint == pack.fingerprint


def test_equal_packs_have_equal_bytes():
    """The order of groups and notes does not reach the file, and it is small."""
    one = make_pack(
        groups={"a": np.zeros(2, np.float32), "b": np.ones(4, np.float32)},
        notes={"x": "1", "y": "2"},
    )
    two = make_pack(
        groups={"b": np.ones(4, np.float32), "a": np.zeros(2, np.float32)},
        notes={"y": "2", "x": "1"},
    )
    assert one.to_bytes() == two.to_bytes()
    assert len(one.to_bytes()) < 3000


def test_a_pack_without_neighbours_is_a_pack():
    """An entity that met no other one still has names and a vector."""
    empty = make_pack(
        neighbours=np.zeros(0, np.int32), titles=(), relatedness=np.zeros(0, np.float32)
    )
    assert EntityPack.from_bytes(empty.to_bytes()).titles == ()


def test_a_vector_may_say_nothing():
    """Where no word near its mentions is known there is none; the pack is whole all the same."""
    pack = make_pack(vector=np.zeros_like(unit()))
    assert not EntityPack.from_bytes(pack.to_bytes()).vector.any()


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
        "correction-context": 6,
        "correction-entities": 4,
        "correction-longer-name": 2,
        "none-longer-name": 2,
        "correction-scale": 1,
        "correction-bias": 1,
        "decision-shift": 1,
        "keyphrase": 4,
        "surface": 0,
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


@pytest.mark.parametrize("name", ["correction-about", "none-about"])
def test_a_line_is_weighed_where_there_is_one(name):
    """Weights of the line about the entity have one value, and need the line."""
    groups = correction(**{name: np.ones(1, np.float32)})
    known = EmergingEntity("Rey Skywalker", ("Rey", "Rey Skywalker"), "a scavenger")
    make_pack(entity=known, groups=groups)
    with pytest.raises(PackError, match="a line about the entity but has none"):
        make_pack(groups=groups)
    with pytest.raises(PackError, match=f"{name}.* of shape"):
        make_pack(entity=known, groups=groups | {name: np.ones(2, np.float32)})


@pytest.mark.parametrize("name", ["correction-scale", "correction-bias"])
def test_a_correction_needs_scale_and_bias(name):
    """The linear correction cannot be computed without them."""
    groups = correction()
    del groups[name]
    with pytest.raises(PackError, match=f"no '{name}'"):
        make_pack(groups=groups)


def test_a_view_may_be_left_out():
    """An entity that was learned with fewer views is a pack."""
    groups = correction()
    del groups["correction-words"]
    assert "correction-words" not in make_pack(groups=groups).groups


def tampered(change_record=None, change_tensors=None):
    """Bytes with a right checksum over wrong content, as an attacker would write them."""
    record, tensors = pack_bytes.parse_bytes(make_pack().to_bytes())
    tensors = dict(tensors)
    (change_record or (lambda r: None))(record)
    (change_tensors or (lambda t: None))(tensors)
    return pack_bytes.to_bytes(record, tensors)


@pytest.mark.parametrize(
    "data",
    [
        tampered(lambda r: r.update(aliases=[])),
        tampered(lambda r: r.update(aliases=["a", "b", "c", "d"])),
        tampered(lambda r: r.update(aliases=["Rey", "Rey"])),
        tampered(lambda r: r.update(aliases=[1, 2])),
        tampered(lambda r: r.update(aliases="Re")),
        tampered(lambda r: r.update(entity="")),
        tampered(lambda r: r.update(version=99)),
        tampered(lambda r: r.update(format="other")),
        tampered(lambda r: r.update(history=[1])),
        tampered(lambda r: r.update(history={"slot": 1})),
        tampered(lambda r: r.update(description=None)),
        tampered(lambda r: r.update(kb=None)),
        tampered(lambda r: r.update(entity=3)),
        tampered(lambda r: r.update(about=3)),
        tampered(lambda r: r.update(about=["a"])),
        tampered(lambda r: r.update(encoder=None)),
        tampered(lambda r: r.update(encoder=[])),
        tampered(lambda r: r.update(labels={})),
        tampered(lambda r: r.pop("labels")),
        tampered(None, lambda t: t.pop("prior")),
        tampered(None, lambda t: t.update(prior=np.array([np.nan, 1], np.float32))),
        tampered(None, lambda t: t.update(prior=np.array([1, 1], np.int32))),
        tampered(None, lambda t: t.update(titles=np.array([255, 254], np.uint8))),
        tampered(None, lambda t: t.update(extra=np.zeros(3, np.float32))),
        tampered(None, lambda t: t.update(embedding=np.zeros((2, 3), np.float32))),
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


@settings(max_examples=200, deadline=None)
@given(st.binary(min_size=4, max_size=4), st.sampled_from(["prior", "relatedness", "embedding"]))
def test_no_bits_become_a_value_that_is_not_finite(bits, name):
    """Whatever the bits of a number are, a loaded pack holds finite numbers only."""

    def change(tensors):
        values = tensors[name].copy()
        values[:1] = np.frombuffer(bits, np.float32)
        tensors[name] = values

    try:
        pack = EntityPack.from_bytes(tampered(None, change))
    except PackError:
        return
    for values in (pack.priors, pack.relatedness, pack.vector):
        assert np.isfinite(values).all()


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


def test_a_failed_write_keeps_the_old_pack(tmp_path, monkeypatch):
    """When the disk fails, the old file is untouched and nothing else is left behind."""
    path = tmp_path / "rey.stamo"
    make_pack().save(path)

    def fail(handle):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        make_pack(description="new").save(path)
    assert path.read_bytes() == GOOD
    assert [p.name for p in tmp_path.iterdir()] == ["rey.stamo"]


def test_a_missing_file_is_one_sentence(tmp_path):
    """The name of the missing file is in the message."""
    with pytest.raises(PackError, match=r"none\.stamo"):
        EntityPack.load(tmp_path / "none.stamo")


def test_a_folder_adds_replaces_and_removes(tmp_path):
    """A pack is added once, replaced on request, inspected and removed by its key."""
    folder = PackFolder(tmp_path / "packs", Base(), TRAINED)
    assert folder.entries() == []
    entry = folder.add(GOOD)
    with pytest.raises(PackError, match="already"):
        folder.add(GOOD)
    newer = make_pack(description="newer")
    assert folder.add(newer.to_bytes(), replace=True).key == entry.key
    assert folder.inspect(entry.key).pack.description == "newer"
    assert [pack.entity.id for pack in folder.packs()] == ["Rey Skywalker"]
    folder.remove(entry.key)
    assert folder.entries() == []
    with pytest.raises(UnknownEntityError):
        folder.remove(entry.key)


def test_a_folder_shows_what_is_wrong_with_a_file(tmp_path):
    """A damaged or foreign pack is listed with its problem and never linked with."""
    (tmp_path / "bad.stamo").write_bytes(GOOD[:-1])
    make_pack(kb_fingerprint="ee" * 32).save(tmp_path / "foreign.stamo")
    make_pack().save(tmp_path / "good.stamo")
    folder = PackFolder(tmp_path, Base(), TRAINED)
    problems = {entry.key: entry.problem for entry in folder.entries()}
    assert "no usable entity pack" in problems["bad"]
    assert "knowledge base" in problems["foreign"]
    assert problems["good"] == ""
    assert len(folder.packs()) == 1
    with pytest.raises(ArtifactMismatchError):
        folder.add(make_pack(kb_fingerprint="ee" * 32).to_bytes())


class Encoder:
    """An encoder of two dimensions, installed."""

    fingerprint = "c3" * 32

    def encode(self, texts):
        return np.zeros((len(texts), 2), np.float32)


def test_a_pack_of_another_encoder_is_left_out(tmp_path, monkeypatch):
    """It is not added, and one that is there is listed with its problem beside those in use."""
    monkeypatch.setattr(encoders, "_load", lambda *asked: Encoder())
    foreign = make_pack(encoder="ee" * 32, entity=EmergingEntity("Finn", ("Finn", "FN")))
    foreign.save(tmp_path / "foreign.stamo")
    make_pack(encoder=Encoder.fingerprint).save(tmp_path / "good.stamo")
    folder = PackFolder(tmp_path, Base(), TRAINED)
    assert {entry.key: bool(entry.problem) for entry in folder.entries()} == {
        "foreign": True,
        "good": False,
    }
    with pytest.raises(ArtifactMismatchError, match="encoder eeee"):
        folder.add(foreign.to_bytes())
    assert len(list(tmp_path.iterdir())) == 2


def test_a_pack_without_its_encoder_is_left_out(tmp_path, monkeypatch):
    """Where the extra is not installed, the packs that need it are listed with what to install."""

    def missing(*asked):
        raise MissingExtraError("tokenizers", "encoder")

    monkeypatch.setattr(encoders, "_load", missing)
    make_pack(encoder="ee" * 32).save(tmp_path / "a.stamo")
    (entry,) = PackFolder(tmp_path, Base(), TRAINED).entries()
    assert "pip install" in entry.problem


@pytest.mark.parametrize("name", ["correction-sentence", "none-sentence"])
@pytest.mark.parametrize("shape", [(0,), (2,), (7,)])
def test_weights_of_sentences_fit_the_encoder(name, shape, monkeypatch):
    """Their number is told by the encoder: three readings of two dimensions."""
    monkeypatch.setattr(encoders, "_load", lambda *asked: Encoder())
    right = {name: np.ones(6, np.float32)}
    make_pack(encoder=Encoder.fingerprint, groups=correction() | right).check(Base(), TRAINED)
    wrong = make_pack(
        encoder=Encoder.fingerprint, groups=correction() | {name: np.ones(shape, np.float32)}
    )
    with pytest.raises(PackError, match=f"{name}.*, not 6"):
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


def test_an_entity_needs_a_sensible_alias():
    """The rules for emerging entities hold for packs as well."""
    with pytest.raises(SettingsError):
        make_pack(entity=replace(make_pack().entity, aliases=("",)))


def test_metadata_is_readable_without_stamo():
    """Anyone can read the record with a JSON parser; it names format, entity and partners."""
    size = int.from_bytes(GOOD[:8], "little")
    header = json.loads(GOOD[8 : 8 + size])
    record = json.loads(header["__metadata__"]["stamo"])["pack"]
    assert record["format"] == "stamo-pack"
    assert record["aliases"] == ["Rey", "Rey Skywalker"]
    assert (record["kb"], record["model"]) == (KB, MODEL)


def test_a_changed_file_is_read_again(tmp_path):
    """A folder remembers its packs only while their files stay the same."""
    folder = PackFolder(tmp_path)
    entry = folder.add(GOOD)
    first = folder.inspect(entry.key).pack
    assert folder.inspect(entry.key).pack is first
    make_pack(description="other").save(entry.path)
    assert folder.inspect(entry.key).pack.description == "other"
    entry.path.write_bytes(GOOD[:-1])
    assert folder.packs() == []


def test_identity_travels_in_a_pack():
    """Id, type and URL are read back; a pack without them keeps its old bytes."""
    plain = EntityPack.from_bytes(GOOD)
    entity = replace(plain.entity, external_id="Q1", type="person", url="https://example.org")
    named = replace(plain, entity=entity)
    assert EntityPack.from_bytes(named.to_bytes()).entity == entity
    assert plain.to_bytes() == GOOD
    assert b"identity" not in GOOD


@pytest.mark.parametrize("identity", [[], {"id": 3}, {"name": "x"}, {"url": "javascript:x"}])
def test_a_foreign_identity_is_refused(identity):
    """Whatever a pack says of its identity, it is a line of text or the pack is none."""
    record, tensors = pack_bytes.parse_bytes(GOOD)
    with pytest.raises(PackError):
        EntityPack.from_bytes(pack_bytes.to_bytes(record | {"identity": identity}, tensors))


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


def test_a_missing_folder_is_no_empty_one(tmp_path):
    """A misspelled folder is told."""
    with pytest.raises(PackError, match="no folder"):
        PackFolder.existing(tmp_path / "pakcs")
