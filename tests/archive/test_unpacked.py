"""Tests of copies of archives: complete or absent, verified each time, replaced if different."""

import os
import shutil
import stat
import sys
from pathlib import Path

import pytest

from modelflow.archive.archive import Archive
from modelflow.archive.manifest import Manifest
from modelflow.archive.unpack import cache_folder, unpack
from modelflow.archive.write import write_archive
from modelflow.errors import ConfigError
from tests import programs

FILES = {"graph.toml": b"[graph]\n", "units/net.py": b"x = 1\n" * 500}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MODELFLOW_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def packed(tmp_path):
    path = tmp_path / "net.mfz"
    write_archive(path, Manifest("0.1.0", ">=3.11", "net", "graph.toml", {}), FILES)
    return path


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_an_archive_is_unpacked_once_for_its_user_alone(packed, cache):
    folder, manifest = unpack(packed)
    assert contents(folder) == FILES
    assert manifest.graph == "graph.toml"
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    before = (folder / "graph.toml").stat().st_ino
    assert unpack(packed)[0] == folder
    assert (folder / "graph.toml").stat().st_ino == before


@pytest.mark.parametrize("harm", ["change", "add", "remove", "link"])
def test_a_copy_that_differs_is_made_anew(packed, tmp_path, harm):
    folder, _ = unpack(packed)
    file = folder / "units" / "net.py"
    if harm == "add":
        (folder / "units" / "sitecustomize.py").write_text("evil")
    else:
        file.unlink()
    if harm == "change":
        file.write_bytes(FILES["units/net.py"].replace(b"1", b"2", 1))
    if harm == "link":
        other = tmp_path / "other"
        other.write_bytes(FILES["units/net.py"])
        file.symlink_to(other)
    assert contents(unpack(packed)[0]) == FILES
    assert not file.is_symlink()


def test_a_damaged_archive_is_refused_though_its_copy_is_there(packed):
    unpack(packed)
    raw = packed.read_bytes()
    packed.write_bytes(raw.replace(b"x = 1\n", b"x = 2\n", 1))
    with pytest.raises(ConfigError, match="copy the archive again"):
        unpack(packed)


def test_a_damaged_archive_leaves_nothing_behind(packed, cache):
    packed.write_bytes(packed.read_bytes().replace(b"x = 1\n", b"x = 2\n", 1))
    with pytest.raises(ConfigError, match="copy the archive again"):
        unpack(packed)
    assert [
        path for path in (cache / "archives").iterdir() if path.suffix not in (".lock", ".used")
    ] == []


def test_what_a_killed_process_left_is_removed(packed, cache):
    with Archive(packed) as archive:
        draft = cache / "archives" / f"{archive.digest}.part"
    (cache / "archives").mkdir(parents=True, mode=0o700)
    draft.mkdir()
    (draft / "graph.toml").write_text("half")
    folder, _ = unpack(packed)
    assert contents(folder) == FILES
    assert not draft.exists()


def test_many_processes_at_once_unpack_it_together(packed, cache):
    program = (
        "import sys; from pathlib import Path; from modelflow.archive.unpack import unpack; "
        "print(unpack(Path(sys.argv[1]))[0])"
    )
    with programs.started([sys.executable, "-c", program, packed], stdout=-1, text=True) as one:
        others = [programs.run([sys.executable, "-c", program, packed]) for _ in range(3)]
        first, _ = one.communicate(timeout=programs.LIMIT)
    assert {first, *(other.stdout for other in others)} == {f"{unpack(packed)[0]}\n"}
    assert sorted(path.suffix for path in (cache / "archives").iterdir()) == ["", ".lock", ".used"]


def test_a_folder_that_others_may_write_to_is_refused(packed, cache):
    (cache / "archives").mkdir(parents=True)
    (cache / "archives").chmod(0o777)
    with pytest.raises(ConfigError, match=r"others may write to it .*MODELFLOW_CACHE"):
        unpack(packed)


def test_a_cache_that_others_may_write_to_is_refused(packed, cache):
    cache.mkdir()
    cache.chmod(0o777)
    with pytest.raises(ConfigError, match=r"cache: others may write to it .*MODELFLOW_CACHE"):
        unpack(packed)
    assert list(cache.iterdir()) == []


def test_a_cache_that_is_made_is_its_users_alone(packed, cache):
    before = os.umask(0)
    try:
        unpack(packed)
    finally:
        os.umask(before)
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700


@pytest.mark.parametrize("suffix", ["", ".part", ".old"])
@pytest.mark.parametrize("leads", ["folder", "copy", "nowhere", "file"])
def test_a_link_in_the_cache_is_replaced_and_not_followed(packed, tmp_path, suffix, leads):
    place, _ = unpack(packed)
    elsewhere = tmp_path / "elsewhere"
    place.rename(elsewhere) if leads == "copy" else shutil.rmtree(place)
    if leads == "folder":
        elsewhere.mkdir()
        (elsewhere / "mine").write_text("mine")
    if leads == "file":
        elsewhere.write_text("mine")
    before = contents(elsewhere)
    place.with_name(f"{place.name}{suffix}").symlink_to(elsewhere)
    assert contents(unpack(packed)[0]) == FILES
    assert not place.is_symlink()
    assert contents(elsewhere) == before
    assert sorted(path.suffix for path in place.parent.iterdir()) == ["", ".lock", ".used"]


def test_a_place_that_cannot_be_written_is_told(packed, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MODELFLOW_CACHE", str(tmp_path / "file"))
    with pytest.raises(ConfigError, match=r"cannot be unpacked into .*set MODELFLOW_CACHE"):
        unpack(packed)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no small disk to be had")
def test_a_full_disk_leaves_nothing_behind(packed, cache):
    # A limit of file sizes stands in for a full disk, because both are errors of the same call.
    program = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from modelflow.archive.unpack import unpack\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "unpack(Path(sys.argv[1]))\n"
    )
    done = programs.run([sys.executable, "-c", program, packed])
    assert "cannot be unpacked into" in done.stderr
    assert [
        path for path in (cache / "archives").iterdir() if path.suffix not in (".lock", ".used")
    ] == []


def test_another_python_is_refused(tmp_path):
    path = tmp_path / "old.mfz"
    write_archive(path, Manifest("0.1.0", "<3.0", "net", "graph.toml", {}), FILES)
    with pytest.raises(ConfigError, match=r"is for Python <3.0; this is 3"):
        unpack(path)


def test_the_cache_is_where_the_environment_says(monkeypatch, tmp_path):
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("MODELFLOW_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "modelflow"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder() == tmp_path / "home" / ".cache" / "modelflow"
    assert os.fspath(cache_folder()).startswith(str(tmp_path))
