"""Tests of the cache of remote models: room, locks, ends of copies, and starts without network."""

import json
import logging
import shutil
import threading
from types import SimpleNamespace

import pytest

from modelflow.archive.cache import list_copies
from modelflow.errors import Cancelled, ConfigError
from modelflow.serve.sources.cache import SourceCache
from tests.serve.sources.web_servers import etag_of, serving_files


def copy_of(cache, url):
    found = cache.find(url)
    return found.copy_of([found.path])


def do_nothing():
    """Accepts every chunk."""


def names_of(cache):
    """Returns the names of the models of the copies."""
    return {next(one.path.iterdir()).name for one in list_copies(cache.folder.parent, "models")}


@pytest.fixture
def urls(place):
    found = []
    for name in ("a", "b", "c"):
        place.answers[f"/{name}.onnx"] = name.encode() * 100
        found.append(f"http://{place.address}/{name}.onnx")
    return found


def test_least_recently_used_copies_make_room(urls, tmp_path):
    cache = SourceCache(tmp_path, most_bytes=200)
    for url in urls:
        one = copy_of(cache, url)
        one.fetch(do_nothing)
        one.release()
    assert names_of(cache) == {"b.onnx", "c.onnx"}


def test_copy_in_use_stays(urls, tmp_path):
    cache = SourceCache(tmp_path, most_bytes=200)
    held = copy_of(cache, urls[0])
    held.fetch(do_nothing)
    held.fetch(do_nothing)
    held.release()
    for url in urls[1:]:
        one = copy_of(cache, url)
        one.fetch(do_nothing)
        one.release()
    assert names_of(cache) == {"a.onnx", "c.onnx"}
    held.release()


def test_copy_beyond_the_size_of_the_cache_is_refused(urls, tmp_path):
    with pytest.raises(
        ConfigError, match=r"a\.onnx: 1 file of 0\.0 MB; --cache-size allows 0\.0 MB"
    ):
        copy_of(SourceCache(tmp_path, most_bytes=99), urls[0]).fetch(do_nothing)


def test_full_disk_is_named_before_the_copy(urls, place, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=99))
    with pytest.raises(ConfigError, match=r"the disk of .* has 0\.0 MB left; set --cache-dir"):
        copy_of(SourceCache(tmp_path), urls[0]).fetch(do_nothing)
    assert place.count("/a.onnx") == 0


def test_failed_copy_changes_the_stamp_so_that_a_scan_tries_again(urls, place, tmp_path):
    cache = SourceCache(tmp_path)
    broken = copy_of(cache, urls[0])
    etag = etag_of(place.answers["/a.onnx"])
    data, place.answers["/a.onnx"] = place.answers["/a.onnx"], lambda _: (503, {"ETag": etag}, b"")
    with pytest.raises(ConfigError, match="the server answers 503"):
        broken.fetch(do_nothing)
    place.answers["/a.onnx"] = data
    cache.look_again()
    again = copy_of(cache, urls[0])
    assert again.stamp != broken.stamp
    again.fetch(do_nothing)
    again.release()


def test_cancelled_copy_ends_and_leaves_nothing(urls, tmp_path):
    def refuse():
        raise Cancelled("the load is no longer wanted")

    cache = SourceCache(tmp_path)
    with pytest.raises(Cancelled):
        copy_of(cache, urls[0]).fetch(refuse)
    assert not list(cache.folder.glob("*.part"))
    assert not list_copies(tmp_path, "models")


def test_caches_of_one_folder_copy_once(urls, place, tmp_path, caplog):
    caplog.set_level(logging.INFO, "modelflow")
    begun, waits = threading.Event(), threading.Event()

    def first():
        begun.set()
        assert waits.wait(60)

    class Waiting(logging.Handler):
        def emit(self, record):
            if "waits for another copy" in record.getMessage():
                waits.set()

    handler = Waiting()
    logging.getLogger("modelflow.serve.sources.cache").addHandler(handler)
    one, other = (copy_of(SourceCache(tmp_path), urls[0]) for _ in range(2))
    thread = threading.Thread(target=one.fetch, args=(first,))
    thread.start()
    assert begun.wait(60)
    other.fetch(do_nothing)
    thread.join()
    logging.getLogger("modelflow.serve.sources.cache").removeHandler(handler)
    assert waits.is_set()
    assert place.count("/a.onnx") == 1
    one.release()
    other.release()


def test_copy_with_a_shortened_file_is_replaced(urls, place, tmp_path):
    one = copy_of(SourceCache(tmp_path), urls[0])
    one.fetch(do_nothing)
    path = next(p for p in tmp_path.rglob("a.onnx") if p.stat().st_size)
    path.chmod(0o600)
    path.write_bytes(b"short")
    one.fetch(do_nothing)
    assert path.read_bytes() == b"a" * 100
    assert place.count("/a.onnx") == 2
    one.release()
    one.release()


def test_start_without_the_network_uses_the_last_files(tmp_path, caplog):
    with serving_files() as place:
        place.answers["/a.onnx"] = b"data"
        url = f"http://{place.address}/a.onnx"
        one = copy_of(SourceCache(tmp_path), url)
        one.fetch(do_nothing)
        one.release()
    cache = SourceCache(tmp_path)
    again = copy_of(cache, url)
    again.fetch(do_nothing)
    cache.look_again()
    (warning,) = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    fetched = json.loads(next(cache.folder.glob("*.listing")).read_text())["fetched"]
    assert f"the files of {fetched} count (revision {again.revision})" in warning
    again.release()


def test_first_start_without_the_network_gives_the_reason(tmp_path):
    with serving_files() as place:
        url = f"http://{place.address}/a.onnx"
    assert SourceCache(tmp_path).find(url).error == f"{url}: [Errno 111] Connection refused"


def test_graph_is_read_at_the_scan_and_a_large_file_in_part(place, tmp_path):
    place.answers["/g.toml"] = b"[flow]\nname = 'x'\n"
    place.answers["/m.json"] = b'{"learner"' + b" " * (2 << 20)
    cache = SourceCache(tmp_path)
    assert cache.find(f"http://{place.address}/g.toml").path.read_bytes() == b"[flow]\nname = 'x'\n"
    size = cache.find(f"http://{place.address}/m.json").path.stat().st_size
    assert 16 <= size <= 2 << 20


def test_old_outlines_are_removed(place, tmp_path):
    cache = SourceCache(tmp_path)
    for number in range(6):
        place.answers["/m.onnx"] = b"%d" % number
        cache.find(f"http://{place.address}/m.onnx")
        cache.look_again()
    assert len(list(cache.folder.glob("*.outline"))) == 3


def test_folder_that_others_may_write_to_is_refused(place, tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "models").chmod(0o777)
    with pytest.raises(ConfigError, match="others may write to it"):
        SourceCache(tmp_path).find(f"http://{place.address}/m.onnx")
