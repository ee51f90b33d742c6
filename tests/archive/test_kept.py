"""Tests of the archives that a machine keeps, and of their removal."""

import errno
import os
import subprocess
import sys
import threading
import time

import pytest
from click.testing import CliRunner

from modelflow.archive.cache import _alone, hold, list_copies, prune
from modelflow.archive.unpack import unpack
from modelflow.cli.main import cli
from modelflow.errors import ConfigError
from tests.archive.test_sent import archive_of

DAY = 86400.0
NOW = 1_000 * DAY


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("MODELFLOW_CACHE", str(folder))
    return folder


def kept(cache, name, size, days):
    """Returns a copy that was used so many days ago."""
    place = cache / name
    if place.suffix:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(b"x" * size)
    else:
        place.mkdir(parents=True)
        (place / "file").write_bytes(b"x" * size)
    used = place.with_name(f"{place.name}.used")
    used.touch()
    os.utime(used, (NOW - days * DAY, NOW - days * DAY))
    return place


def names(copies):
    return [copy.path.name for copy in copies]


def test_what_is_kept_is_listed_that_which_was_used_last_first(cache):
    kept(cache, "archives/old", 10, 5)
    kept(cache, "sent/new.mfz", 20, 1)
    found = list_copies(cache)
    assert [(copy.path.name, copy.size, copy.is_used) for copy in found] == [
        ("new.mfz", 20, False),
        ("old", 10, False),
    ]
    assert list_copies(cache / "nowhere") == []


@pytest.mark.parametrize(
    ("terms", "left"),
    [
        ({}, []),
        ({"most_bytes": 30}, ["c", "b"]),
        ({"most_bytes": 29}, ["c"]),
        ({"unused_for": 4 * DAY}, ["c", "b"]),
        ({"most_bytes": 45, "unused_for": 2 * DAY}, ["c", "b"]),
        ({"most_bytes": 100}, ["c", "b", "a"]),
    ],
)
def test_what_was_used_longest_ago_goes_until_the_rest_has_room(cache, terms, left):
    for name, size, days in (("a", 20, 5), ("b", 15, 3), ("c", 15, 1)):
        kept(cache, f"archives/{name}", size, days)
    removed = prune(cache, now=NOW, **terms)
    assert names(list_copies(cache)) == left
    assert sorted(names(removed) + left) == ["a", "b", "c"]


def test_what_a_process_uses_stays_until_it_ends_however_it_does(cache):
    place = kept(cache, "archives/a", 10, 50)
    program = (
        "import sys; from pathlib import Path; from modelflow.archive.cache import hold\n"
        "hold(Path(sys.argv[1])); print(flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        assert list_copies(cache)[0].is_used
        assert prune(cache, now=time.time()) == []
        process.kill()
    assert names(prune(cache, now=time.time())) == ["a"]
    assert [*place.parent.iterdir()] == []


def test_what_is_being_unpacked_is_no_copy(cache):
    kept(cache, "archives/a", 10, 50)
    for suffix in (".part", ".old"):
        (cache / "archives" / f"b{suffix}").mkdir()
    assert names(prune(cache, now=time.time())) == ["a"]
    assert {path.name for path in (cache / "archives").iterdir()} == {"b.part", "b.old"}


def test_who_waits_for_a_copy_that_is_removed_keeps_the_one_that_comes_next(cache):
    place = kept(cache, "archives/a", 10, 50)
    waiting = threading.Thread(target=hold, args=(place,))
    with _alone(place) as is_alone:
        assert is_alone
        waiting.start()
        place.with_name("a.used").unlink()
    waiting.join(60)
    assert list_copies(cache)[0].is_used


def test_a_cache_that_is_all_there_can_be_used_where_nothing_can_be_written(
    cache, tmp_path, monkeypatch
):
    archive = archive_of(tmp_path, "g")
    place, _ = unpack(archive)

    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("modelflow.archive.cache._open_lock", refuse)
    monkeypatch.setattr("modelflow.archive.cache._held", {})
    assert unpack(archive)[0] == place
    assert [copy.is_used for copy in list_copies(cache)] == [True]
    assert prune(cache, now=time.time()) == []


def test_a_size_that_is_set_is_kept_when_an_archive_is_unpacked(cache, tmp_path, monkeypatch):
    kept(cache, "archives/a", 5_000, 9)
    kept(cache, "archives/b", 5_000, 8)
    monkeypatch.setenv("MODELFLOW_CACHE_SIZE", "8KB")
    new = archive_of(tmp_path, "g")
    place, _ = unpack(new)
    assert {place.name} < {*names(list_copies(cache))} == {place.name, "b"}
    monkeypatch.setenv("MODELFLOW_CACHE_SIZE", "much")
    with pytest.raises(ConfigError, match="MODELFLOW_CACHE_SIZE: got 'much'; expected a size"):
        unpack(archive_of(tmp_path, "h"))


def test_the_command_lists_and_removes(cache):
    kept(cache, "archives/a", 2_000_000, 0)
    hold(kept(cache, "sent/b.mfz", 10, 0))
    runner = CliRunner()
    listed = runner.invoke(cli, ["cache", "list"])
    assert listed.exit_code == 0
    assert "1.9MiB" in listed.output
    assert "in use" in listed.output
    assert "2 of them" in listed.output
    assert (
        "expected a size with its unit, as in 8GiB"
        in runner.invoke(cli, ["cache", "prune", "--size", "x"]).output
    )
    pruned = runner.invoke(cli, ["cache", "prune"])
    assert "1 removed, 1.9MiB" in pruned.output
    assert (cache / "sent" / "b.mfz").exists()
