"""Tests of archives in pieces: received once a machine, from any sender, despite crashes."""

import threading

import pytest
from click.testing import CliRunner

from modelflow.archive.received import SentArchives, digest_of
from modelflow.cli.main import cli
from modelflow.errors import ConfigError

LONG = 60.0


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MODELFLOW_CACHE", str(tmp_path / "cache"))


def archive_of(folder, name):
    """Returns an archive of a graph of that name."""
    graph, archive = folder / f"{name}.dot", folder / f"{name}.mfz"
    graph.write_text(f"digraph {name} {{ a [type=input]; b [type=output]; a -> b }}")
    assert CliRunner().invoke(cli, ["pack", str(graph), "-o", str(archive)]).exit_code == 0
    return archive


@pytest.fixture
def packed(tmp_path):
    return archive_of(tmp_path, "g")


def send(archives, digest, content, size=100, sender="me"):
    """Sends an archive as a caller does; returns whether the receiver wanted the archive."""
    if archives.has(digest, sender):
        return False
    for offset in range(0, len(content), size):
        archives.receive(digest, sender, offset, content[offset : offset + size])
    archives.receive(digest, sender, len(content), b"")
    return True


def test_an_archive_is_received_once_by_all_processes_of_a_machine(packed):
    digest, content = digest_of(packed), packed.read_bytes()
    one, other = SentArchives(), SentArchives()
    assert send(one, digest, content)
    assert not send(other, digest, content)
    assert other.path_of(digest).read_bytes() == content


@pytest.mark.parametrize("is_same", [True, False])
def test_who_comes_while_it_is_received_waits_and_has_it_then(packed, is_same):
    digest, content = digest_of(packed), packed.read_bytes()
    one, told = SentArchives(), []
    other = one if is_same else SentArchives()
    assert not one.has(digest, "first")
    waiting = threading.Thread(target=lambda: told.append(other.has(digest, "second")))
    waiting.start()
    one.receive(digest, "first", 0, content)
    assert not told
    one.receive(digest, "first", len(content), b"")
    waiting.join(LONG)
    assert told == [True]


def test_who_begins_again_or_goes_in_the_middle_leaves_it_to_the_next(packed, monkeypatch):
    digest, content = digest_of(packed), packed.read_bytes()
    archives = SentArchives()
    assert not archives.has(digest, "first")
    archives.receive(digest, "first", 0, content[:50])
    assert not archives.has(digest, "first")
    archives.receive(digest, "first", 0, content[:50])
    monkeypatch.setattr("modelflow.archive.received._GONE", 0.0)
    assert send(archives, digest, content, sender="second")
    assert archives.path_of(digest).read_bytes() == content
    with pytest.raises(OSError, match="are not those that follow"):
        archives.receive(digest, "first", 50, content[50:])


@pytest.mark.parametrize("spoil", [lambda content: b"", lambda content: content[:-30]])
def test_what_is_not_whole_any_more_is_sent_again(packed, spoil):
    digest, content = digest_of(packed), packed.read_bytes()
    assert send(SentArchives(), digest, content)
    SentArchives().path_of(digest).write_bytes(spoil(content))
    assert send(SentArchives(), digest, content)


def test_what_was_changed_on_its_way_is_refused(packed):
    digest, content = digest_of(packed), bytearray(packed.read_bytes())
    place = content.index(b"input")
    content[place] ^= 1
    archives = SentArchives()
    with pytest.raises(ConfigError):
        send(archives, digest, bytes(content))
    assert not archives.path_of(digest).exists()


def test_a_piece_of_another_place_is_refused(packed):
    digest = digest_of(packed)
    archives = SentArchives()
    assert not archives.has(digest, "me")
    with pytest.raises(OSError, match="bytes from 7 on are not those that follow"):
        archives.receive(digest, "me", 7, b"x")
    assert send(archives, digest, packed.read_bytes())


def test_what_is_another_archive_is_refused_and_not_kept(packed, tmp_path):
    digest = digest_of(packed)
    archives = SentArchives()
    with pytest.raises(ConfigError, match="got another archive"):
        send(archives, digest, archive_of(tmp_path, "h").read_bytes())
    assert not archives.path_of(digest).exists()
    assert send(archives, digest, packed.read_bytes())
