"""Folders that are written whole or not at all."""

import contextlib
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from modelflow.files.whole_folder import whole_folder
from tests import programs


def names(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("is_there", [False, True])
def test_a_new_or_empty_folder_is_filled(is_there, tmp_path):
    place = tmp_path / "deep" / "place"
    if is_there:
        place.mkdir(parents=True)
    with whole_folder(place) as draft:
        (draft / "a").mkdir()
        (draft / "a" / "b").write_text("x")
        assert not place.exists() or all(name.startswith(".place.") for name in names(place))
    assert names(place) == ["a", "a/b"]
    assert names(tmp_path / "deep") == ["place", "place/a", "place/a/b"]


def test_where_the_block_fails_nothing_is_left(tmp_path):
    with pytest.raises(KeyError), whole_folder(tmp_path / "place") as draft:
        (draft / "a").write_text("x")
        raise KeyError
    assert names(tmp_path) == []


def test_what_is_there_is_not_written_over(tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("x")
    (tmp_path / "file").write_text("x")
    before = names(tmp_path)
    for name in ("full", "file"):
        with pytest.raises(FileExistsError), whole_folder(tmp_path / name):
            pytest.fail("it was given a folder")
    assert names(tmp_path) == before


def test_by_force_files_of_the_same_names_are_replaced_and_others_stay(tmp_path):
    place = tmp_path / "place"
    (place / "a").mkdir(parents=True)
    for name in ("a/b", "mine"):
        (place / name).write_text("before")
    with whole_folder(place, is_forced=True) as draft:
        (draft / "a").mkdir()
        (draft / "a" / "b").write_text("behind")
        (draft / "c").write_text("behind")
    assert {name: (place / name).read_text() for name in ("a/b", "mine", "c")} == {
        "a/b": "behind",
        "mine": "before",
        "c": "behind",
    }
    assert names(tmp_path) == ["place", "place/a", "place/a/b", "place/c", "place/mine"]


def test_a_file_never_takes_the_place_of_a_folder(tmp_path):
    (tmp_path / "place" / "a").mkdir(parents=True)
    with pytest.raises(FileExistsError), whole_folder(tmp_path / "place", is_forced=True) as draft:
        (draft / "A").write_text("x")
        (draft / "a").write_text("x")
    assert names(tmp_path) == ["place", "place/a"]


@pytest.mark.parametrize("given", [".", "../place", "link", "link/"])
def test_an_empty_folder_stays_the_one_that_it_is(given, tmp_path, monkeypatch):
    place = tmp_path / "place"
    place.mkdir()
    (tmp_path / "link").symlink_to("place")
    before = place.stat().st_ino
    monkeypatch.chdir(tmp_path if "link" in given else place)
    with whole_folder(Path(given)) as draft:
        (draft / "a").mkdir()
        (draft / "a" / "b").write_text("x")
    assert names(place) == ["a", "a/b"]
    assert place.stat().st_ino == before
    assert (tmp_path / "link").is_symlink()


def test_a_link_to_nothing_is_not_written_over(tmp_path):
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(FileExistsError), whole_folder(tmp_path / "link"):
        pytest.fail("it was given a folder")
    assert names(tmp_path) == ["link"]


WRITE = """
import sys, time
from pathlib import Path
from modelflow.files.whole_folder import whole_folder
with whole_folder(Path(sys.argv[1])) as draft:
    (draft / "a").write_text("x")
    print("begun", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("is_there", [False, True])
def test_what_a_killed_process_left_goes_and_what_another_writes_stays(is_there, tmp_path):
    place = tmp_path / "place"
    if is_there:
        place.mkdir()
    command = [sys.executable, "-c", WRITE, place]
    with programs.started(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "begun\n"
        with contextlib.suppress(FileExistsError), whole_folder(tmp_path / "place", is_forced=True):
            pass
        (left,) = [name for name in names(tmp_path) if name.endswith(".part")]
        assert (tmp_path / left / "a").exists()
        if not is_there:
            place.rmdir()
        process.send_signal(signal.SIGKILL)
        process.wait(programs.LIMIT)
    with whole_folder(place) as draft:
        (draft / "b").write_text("x")
    assert names(tmp_path) == ["place", "place/b"]
