"""Tests that an archive which differs from the packed state is rejected before any use."""

import dataclasses
import hashlib
import json
import re
import stat
import struct
import zipfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modelflow.archive.archive import MODE, Archive
from modelflow.archive.manifest import MANIFEST, Manifest, name_problem
from modelflow.archive.write import write_archive
from modelflow.errors import ConfigError

FILES = {"graph.toml": b"[graph]\n", "units/net.py": b"x = 1\n" * 500, "empty": b""}
SAID = Manifest("0.1.0", ">=3.11", "net", "graph.toml", {}, modules=("units",))


@pytest.fixture
def packed(tmp_path):
    path = tmp_path / "net.mfz"
    write_archive(path, SAID, FILES)
    return path


def check(path):
    with Archive(path) as archive:
        archive.verify()


def zipped(path, members, **more):
    """Writes a zip of (name, bytes, changes of the member)."""
    with zipfile.ZipFile(path, "w") as file:
        for name, data, *changes in members:
            member = zipfile.ZipInfo(name)
            member.external_attr = MODE << 16
            for key, value in (changes or [{}])[0].items():
                setattr(member, key, value)
            file.writestr(member, data)


def said(files, changes=None):
    table = {
        name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in files.items()
    }
    return json.dumps({**SAID.fields(), "files": table, **(changes or {})}).encode()


def test_a_packed_archive_is_verified_and_gives_its_files(packed):
    with Archive(packed) as archive:
        archive.verify()
        assert archive.manifest.modules == ("units",)
        assert b"".join(archive.chunks("units/net.py")) == FILES["units/net.py"]
        assert archive.manifest.files.keys() == FILES.keys()


def test_two_packs_of_the_same_files_are_the_same_bytes(packed, tmp_path):
    again = tmp_path / "again.mfz"
    write_archive(again, SAID, dict(reversed(FILES.items())))
    assert again.read_bytes() == packed.read_bytes()


def test_a_changed_byte_of_a_file_is_refused_by_its_name(packed):
    raw = bytearray(packed.read_bytes())
    raw[raw.index(FILES["units/net.py"]) + 7] ^= 1
    packed.write_bytes(raw)
    with pytest.raises(ConfigError, match=r"net\.mfz: units/net\.py: .*copy the archive again"):
        check(packed)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None
)
@given(st.data())
def test_no_change_of_an_archive_is_taken_for_what_was_packed(packed, tmp_path, data):
    raw = packed.read_bytes()
    with Archive(packed) as archive:
        expected = {name: b"".join(archive.chunks(name)) for name in archive.manifest.files}
    changed = bytearray(raw)
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    changed = changed[: data.draw(st.integers(len(raw) - 30, len(raw)))]
    other = tmp_path / "changed.mfz"
    other.write_bytes(changed)
    try:
        with Archive(other) as archive:
            found = {name: b"".join(archive.chunks(name)) for name in archive.manifest.files}
    except ConfigError as error:
        assert str(error).startswith(str(other))  # noqa: PT017 - either is right
    else:
        # A byte without meaning (a version, a time), or one of the manifest's own words.
        assert set(found.values()) == set(expected.values())


@pytest.mark.parametrize(
    "name",
    [
        "../evil",
        "/etc/passwd",
        "C:/evil",
        "a//b",
        "a/./b",
        "a\\b",
        "a\nb",
        "x" * 256,
        "/".join(["x" * 200] * 6),
        ".hidden",
        "a/__pycache__/b.pyc",
        "",
    ],
)
def test_a_name_that_leads_elsewhere_is_refused(tmp_path, name):
    assert name_problem(name)
    path = tmp_path / "evil.mfz"
    files = {"graph.toml": b"", name or "/": b"evil"}
    zipped(path, [(MANIFEST, said(files)), *files.items()])
    with pytest.raises(ConfigError, match=re.escape(str(path))):
        check(path)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"external_attr": (stat.S_IFLNK | 0o777) << 16}, "got a link"),
        ({"external_attr": (stat.S_IFREG | 0o4755) << 16}, "got a mode"),
        ({"compress_type": zipfile.ZIP_DEFLATED}, "is compressed"),
    ],
)
def test_a_member_that_is_no_plain_file_is_refused(tmp_path, changes, what):
    path = tmp_path / "evil.mfz"
    zipped(path, [(MANIFEST, said({"graph.toml": b"x"})), ("graph.toml", b"x", changes)])
    with pytest.raises(ConfigError, match=f"graph.toml.*{what}"):
        check(path)


def test_a_bomb_is_refused_before_any_of_it_is_unpacked(tmp_path):
    path = tmp_path / "bomb.mfz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(MANIFEST, said({"graph.toml": b""}))
        file.writestr("graph.toml", bytes(50_000_000))
    with pytest.raises(ConfigError, match=r"expected an uncompressed file|got a mode"):
        check(path)


def test_members_that_share_their_bytes_are_refused(packed):
    raw = bytearray(packed.read_bytes())
    with zipfile.ZipFile(packed) as file:
        first, second = sorted(file.infolist(), key=lambda member: member.header_offset)[:2]
    old, new = struct.pack("<L", second.header_offset), struct.pack("<L", first.header_offset)
    at = raw.index(old, raw.index(b"PK\1\2", raw.index(b"PK\1\2") + 4))
    raw[at : at + 4] = new
    packed.write_bytes(raw)
    with pytest.raises(ConfigError, match=r"net\.mfz: "):
        check(packed)


def test_a_member_inside_another_one_is_refused(tmp_path):
    path = tmp_path / "inner.mfz"
    zipped(path, [("inner", b"x")])
    inner = path.read_bytes()[: 30 + len("inner") + 1]  # a whole member, as data of the other
    files = {"graph.toml": inner, "inner": b"x"}
    zipped(path, [("graph.toml", inner), ("inner", b"x"), (MANIFEST, said(files))])
    check(path)
    raw = bytearray(path.read_bytes())
    entry = raw.index(b"inner", raw.index(b"PK\1\2")) - 46
    struct.pack_into("<L", raw, entry + 42, raw.index(inner))
    path.write_bytes(raw)
    with pytest.raises(ConfigError, match="inner: overlaps another file"):
        check(path)


def test_a_file_of_the_same_size_with_another_hash_is_refused(tmp_path):
    path = tmp_path / "other.mfz"
    zipped(path, [(MANIFEST, said({"graph.toml": b"x"})), ("graph.toml", b"y")])
    with pytest.raises(ConfigError, match=r"graph\.toml: has the sha256 a1fce4.* is damaged or"):
        check(path)


def test_a_name_twice_is_refused(tmp_path):
    path = tmp_path / "twice.mfz"
    members = [(MANIFEST, said({"graph.toml": b"a"})), ("graph.toml", b"a"), ("graph.toml", b"b")]
    with pytest.warns(UserWarning, match="Duplicate"):
        zipped(path, members)
    with pytest.raises(ConfigError, match=r"graph.toml: is in it twice"):
        check(path)


@pytest.mark.parametrize("left", [4, 100, -30])
def test_one_that_is_cut_off_is_told_as_that(tmp_path, left):
    path = tmp_path / "cut.mfz"
    zipped(path, [(MANIFEST, said({"graph.toml": b"x"})), ("graph.toml", b"x", {})])
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(ConfigError, match=r"is cut off after \d+ bytes: it has no end; copy it"):
        check(path)


@pytest.mark.parametrize(
    ("members", "what"),
    [
        ({"graph.toml": b"x", "more": b""}, "more: is not named in modelflow.json"),
        ({}, "graph.toml: is missing"),
        ({"graph.toml": b"xy"}, "graph.toml: has 2 bytes; expected 1"),
        ({"graph.toml": b"x", "graph.toml/a": b""}, "graph.toml: is a file and a folder"),
    ],
)
def test_members_and_manifest_are_the_same(tmp_path, members, what):
    path = tmp_path / "other.mfz"
    zipped(path, [(MANIFEST, said({"graph.toml": b"x"})), *members.items()])
    with pytest.raises(ConfigError, match=what):
        check(path)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"form": 2}, "got the form 2; this version of modelflow reads the form 1"),
        ({"graph": "other.toml"}, "graph: got 'other.toml'"),
        ({"modules": ["../.."]}, "modules: '../..'"),
        ({"args": {"a": 1}}, "args: got .*expected texts by name"),
        ({"more": 1}, "more: got 1; expected one of"),
        ({"extras": ["onnx]' && touch /pwned"]}, "extras: got .*; expected a list of names as in"),
        ({"extras": ["onnx\n"]}, "extras: got"),
        ({"packages": ["-r evil"]}, "packages: got .*; expected a list of names of distributions"),
        ({"modelflow": "0.1.0\nExecStartPre=evil"}, "modelflow: got .*; expected a version as in"),
        ({"modelflow": "0.1.0\n"}, "modelflow: got"),
        ({"modelflow": 1}, "modelflow: got 1; expected a version"),
        ({"python": ">=3.11\n"}, "python: got .*; expected versions as in '>=3.11'"),
        ({"python": "3.11"}, "python: got '3.11'; expected versions"),
        ({"name": "a\nb"}, "name: got .*; expected a text of 1 to 255 letters"),
        ({"name": ""}, "name: got ''; expected a text"),
        ({"inputs": [{"name": "a\nb"}]}, "inputs: got"),
        ({"files": {"graph.toml": {"size": -1, "sha256": "0" * 64}}}, "files: got"),
        ({"files": {"graph.toml": {"size": True, "sha256": "0" * 64}}}, "files: got"),
    ],
)
def test_a_manifest_is_read_without_trust(tmp_path, changes, what):
    path = tmp_path / "other.mfz"
    zipped(path, [(MANIFEST, said({"graph.toml": b"x"}, changes)), ("graph.toml", b"x")])
    with pytest.raises(ConfigError, match=what):
        check(path)


@pytest.mark.parametrize("raw", [b"", b"PK", b"no zip" * 100, b"[" * 100_000])
def test_what_is_no_archive_is_refused(tmp_path, raw):
    path = tmp_path / "no.mfz"
    path.write_bytes(raw)
    with pytest.raises(ConfigError, match=r"no\.mfz: is no"):
        check(path)


def test_nothing_but_an_archive_is_overwritten(tmp_path):
    path = tmp_path / "thesis.mfz"
    path.write_text("mine")
    with pytest.raises(ConfigError, match="is not overwritten"):
        write_archive(path, SAID, FILES)
    assert path.read_text() == "mine"
    with pytest.raises(ConfigError, match=r"got the suffix '.zip'"):
        write_archive(tmp_path / "a.zip", SAID, FILES)


def test_a_file_that_cannot_be_read_leaves_no_archive(tmp_path):
    with pytest.raises(ConfigError, match="gone: cannot be packed"):
        write_archive(tmp_path / "a.mfz", SAID, {**FILES, "gone": tmp_path / "gone"})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("python", [">=3.11", "== 3.12.*", ">=3.11,<4", ">=3.11, !=3.12.1, <4.0a1"])
def test_versions_as_packages_say_them_are_read(tmp_path, python):
    changes = {"python": python, "modelflow": "1.2.0rc1.post2.dev3+g1a2b", "name": "Größe 1"}
    changes |= {"extras": ["onnx"], "packages": ["opencv-python", "ruamel.yaml", "six"]}
    zipped(
        tmp_path / "a.mfz", [(MANIFEST, said({"graph.toml": b"x"}, changes)), ("graph.toml", b"x")]
    )
    with Archive(tmp_path / "a.mfz") as archive:
        assert archive.manifest.python == python


def test_a_manifest_that_no_reader_takes_is_not_written(tmp_path):
    evil = dataclasses.replace(SAID, extras=("onnx]' && touch /pwned",))
    with pytest.raises(ConfigError, match=r"-o .*a\.mfz: modelflow\.json: extras: got"):
        write_archive(tmp_path / "a.mfz", evil, FILES)
    assert list(tmp_path.iterdir()) == []
