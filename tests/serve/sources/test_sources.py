"""Tests of the sources of models at URLs: listing, copying, and errors of each scheme."""

import hashlib
from pathlib import Path

import pytest

from modelflow.errors import ConfigError
from modelflow.serve.sources.cache import SourceCache
from modelflow.serve.sources.listing import RemoteFile, check_files, scrub
from modelflow.serve.sources.url import is_url, name_of_url, open_source, show
from tests.serve.sources.web_servers import COMMIT, dated, put_artifact, put_repository

MODEL = b"weights" * 1000


def fetch(url, folder, *names):
    """Returns the contents of the files of a copy by name below the outline."""
    found = SourceCache(folder).find(url)
    assert not found.error, found.error
    paths = [found.outline / name for name in names] or [found.path]
    copy = found.copy_of(paths)
    copy.fetch(lambda: None)
    root = copy.locate(found.outline)
    files = {
        one.relative_to(root).as_posix(): one.read_bytes()
        for one in root.rglob("*")
        if one.is_file()
    }
    copy.release()
    return files


# -- every scheme ---------------------------------------------------------------------------------


@pytest.fixture(params=["s3", "hf", "https", "oci"])
def source(request, tmp_path, monkeypatch):
    """A URL, and a function that returns how often the server has sent the model."""
    if request.param == "s3":
        bucket = request.getfixturevalue("bucket")
        bucket.put("team/model.onnx", MODEL)
        return "s3://models/team/model.onnx", lambda: bucket.count("/models/team/model.onnx")
    place = request.getfixturevalue("place")
    if request.param == "hf":
        put_repository(place, {"model.onnx": MODEL, "README.md": b"text"})
        # Not HF_ENDPOINT, which the package reads at its import.
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", f"http://{place.address}")
        path = f"/org/digits/resolve/{COMMIT}/model.onnx"
        template = f"http://{place.address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
        return "hf://org/digits/model.onnx@main", lambda: place.count(path)
    if request.param == "https":
        place.answers["/model.onnx"] = MODEL
        return f"http://{place.address}/model.onnx", lambda: place.count("/model.onnx")
    put_artifact(place, {"model.onnx": MODEL})
    path = f"/v2/team/digits/blobs/sha256:{hashlib.sha256(MODEL).hexdigest()}"
    return f"oci://{place.address}/team/digits:1", lambda: place.count(path)


def test_unchanged_file_is_copied_once(source, tmp_path):
    url, count = source
    assert fetch(url, tmp_path) == {"model.onnx": MODEL}
    first = count()
    assert fetch(url, tmp_path) == {"model.onnx": MODEL}
    assert (first, count()) == (1, 1)


def test_scan_reads_no_model(source, tmp_path):
    url, count = source
    found = SourceCache(tmp_path).find(url)
    assert found.path.name == "model.onnx"
    assert found.path.stat().st_size == 0
    assert count() == 0


# -- buckets --------------------------------------------------------------------------------------


def test_folder_of_a_bucket_has_its_versions_and_their_files(bucket, tmp_path):
    for key in (
        "digits/1/model.onnx",
        "digits/2/model.onnx",
        "digits/2/model.onnx.data",
        "other/x",
    ):
        bucket.put(key, key.encode())
    names = ("digits/2/model.onnx", "digits/2/model.onnx.data")
    found = SourceCache(tmp_path).find("s3://models/digits/")
    assert sorted(one.name for one in found.path.iterdir()) == ["1", "2"]
    assert fetch("s3://models/digits", tmp_path, *names) == {name: name.encode() for name in names}


def test_weights_beside_a_file_of_a_bucket_are_listed(bucket, tmp_path):
    for key in ("a/net.xml", "a/net.bin", "a/other.bin", "a/net/deep.bin"):
        bucket.put(key, b"x")
    found = SourceCache(tmp_path).find("s3://models/a/net.xml")
    assert sorted(one.name for one in found.outline.iterdir()) == ["net.bin", "net.xml"]


@pytest.mark.parametrize("url", ["s3://models/none", "s3://nobody/none"])
def test_missing_folder_of_a_bucket_is_named(bucket, tmp_path, url):
    assert SourceCache(tmp_path).find(url).error == f"{url}: no such file"


# -- web servers ----------------------------------------------------------------------------------


def test_changed_file_is_copied_again(place, tmp_path):
    url = f"http://{place.address}/m.onnx"
    for data in (b"one", b"two"):
        place.answers["/m.onnx"] = data
        assert fetch(url, tmp_path) == {"m.onnx": data}


def test_time_of_change_identifies_a_file_without_an_etag(place, tmp_path):
    url = f"http://{place.address}/m.onnx"
    for when in (0, 0, 60):
        place.answers["/m.onnx"] = dated(b"%d" % when, when)
        assert fetch(url, tmp_path) == {"m.onnx": b"%d" % when}
    assert place.count("/m.onnx") == 2


def test_server_without_head_is_asked_by_get(place, tmp_path):
    def answer(handler):
        status = 405 if handler.command == "HEAD" else 200
        return status, {"ETag": '"1"'}, b"data"

    place.answers["/m.onnx"] = answer
    assert fetch(f"http://{place.address}/m.onnx", tmp_path) == {"m.onnx": b"data"}


def test_broken_connection_leaves_no_copy(place, tmp_path):
    place.answers["/m.onnx"] = lambda _: (200, {"ETag": '"1"', "Content-Length": "100"}, b"part")
    url = f"http://{place.address}/m.onnx"
    found = SourceCache(tmp_path).find(url)
    with pytest.raises(ConfigError, match=r"m\.onnx ended after 4 of 100 bytes"):
        fetch(url, tmp_path)
    assert not list(tmp_path.rglob("*.part"))
    assert not found.copy_of([found.path]).locate(found.path).exists()


def test_file_that_changes_after_the_scan_is_not_copied(place, tmp_path):
    place.answers["/m.onnx"] = b"one"
    found = SourceCache(tmp_path).find(f"http://{place.address}/m.onnx")
    place.answers["/m.onnx"] = b"two"
    with pytest.raises(ConfigError, match=r"the server answers 412|has changed while"):
        found.copy_of([found.path]).fetch(lambda: None)


def test_credentials_are_sent_and_not_shown(place, tmp_path):
    secret = []

    def answer(handler):
        secret.append(handler.headers.get("Authorization"))
        return 403, {}, b""

    place.answers["/m.onnx"] = answer
    url = f"http://user:pass@{place.address}/m.onnx?key=hidden"
    assert SourceCache(tmp_path).find(url).error == (
        f"http://{place.address}/m.onnx: the server answers 403 Forbidden"
    )
    assert secret == ["Basic dXNlcjpwYXNz"]
    assert not [one for one in tmp_path.rglob("*") if one.is_file() and b"pass" in one.read_bytes()]


def test_redirect_without_encryption_is_refused_and_gets_no_credentials(place, tmp_path):
    place.answers["/m.onnx"] = lambda _: (
        302,
        {"Location": "http://models.invalid/m?key=hidden"},
        b"",
    )
    found = SourceCache(tmp_path).find(f"http://a:b@{place.address}/m.onnx")
    assert (
        found.error
        == "http://models.invalid/m: got http; expected https, or a server of this machine"
    )


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("ftp://127.0.0.1/m", "ftp://127.0.0.1/m: got ftp; expected https"),
        ("file:///m?key=hidden", "'file:///m' is not allowed"),
        ("/m.onnx?key=hidden", "infinite loop."),
    ],
)
def test_redirect_elsewhere_is_refused_in_a_line_without_secrets(
    place, tmp_path, location, message
):
    place.answers["/m.onnx"] = lambda _: (302, {"Location": location}, b"")
    error = SourceCache(tmp_path).find(f"http://{place.address}/m.onnx").error
    assert error.endswith(message) or message in error
    assert "hidden" not in error
    assert "\n" not in error


def test_file_without_identity_is_refused(place, tmp_path):
    place.answers["/m.onnx"] = lambda _: (200, {}, b"data")
    error = SourceCache(tmp_path).find(f"http://{place.address}/m.onnx").error
    assert "neither ETag nor Last-Modified" in error


# -- registries -----------------------------------------------------------------------------------


def test_layers_of_an_artifact_are_files_of_a_folder(place, tmp_path):
    layers = {"graph.toml": b"[flow]", "weights/a.onnx": MODEL}
    digest = put_artifact(place, layers)
    files = {f"digits/{name}": data for name, data in layers.items()}
    for reference in (":1", f"@{digest}"):
        assert fetch(f"oci://{place.address}/team/digits{reference}", tmp_path) == files
    assert (
        SourceCache(tmp_path).find(f"oci://{place.address}/team/digits:1").listing.revision
        == digest
    )


def test_layer_with_other_contents_is_refused(place, tmp_path):
    put_artifact(place, {"m.onnx": MODEL})
    path = next(one for one in place.answers if "/blobs/" in one)
    place.answers[path] = MODEL[::-1]
    with pytest.raises(ConfigError, match=r"m\.onnx has the sha256 \w+; expected \w+"):
        fetch(f"oci://{place.address}/team/digits:1", tmp_path)


def test_manifest_with_another_digest_is_refused(place, tmp_path):
    put_artifact(place, {"m.onnx": MODEL})
    wrong = "sha256:" + "0" * 64
    place.answers[f"/v2/team/digits/manifests/{wrong}"] = lambda _: (200, {}, b'{"layers": []}')
    assert (
        "got a manifest of"
        in SourceCache(tmp_path).find(f"oci://{place.address}/team/digits@{wrong}").error
    )


def test_container_image_is_refused(place, tmp_path):
    put_artifact(place, {}, document={"layers": [{"digest": "sha256:" + "0" * 64, "size": 1}]})
    assert (
        "a container image is none"
        in SourceCache(tmp_path).find(f"oci://{place.address}/team/digits:1").error
    )


# -- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["../a", "/a", "a/../b", "a\\b", "a\nb", "a//b", "C:/a", "a/" + "b" * 300]
)
def test_name_that_leads_elsewhere_is_refused(name):
    with pytest.raises(ConfigError, match=r"^s3://x: file "):
        check_files("s3://x", [RemoteFile(name, 1, "e")])


def test_title_of_a_layer_that_leads_elsewhere_is_refused(place, tmp_path):
    put_artifact(place, {"../../m.onnx": MODEL})
    assert (
        "expected a plain path"
        in SourceCache(tmp_path).find(f"oci://{place.address}/team/digits:1").error
    )
    assert not Path(tmp_path, "../m.onnx").exists()


def test_file_that_is_a_folder_too_is_refused():
    with pytest.raises(ConfigError, match="is below a file"):
        check_files("s3://x", [RemoteFile("a", 1, "e"), RemoteFile("a/b", 1, "e")])


def test_too_many_files_are_refused(monkeypatch):
    monkeypatch.setattr("modelflow.serve.sources.listing.MOST_FILES", 2)
    with pytest.raises(ConfigError, match="more than 2 files"):
        check_files("s3://x", [RemoteFile(str(one), 1, "e") for one in range(3)])


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("s4://b/x", r"s4://b/x: no source has the scheme s4 \(s3://, gs://"),
        ("s3://key:secret@b/x", r"s3://b/x: expected s3://bucket/path alone"),
        ("http://models.invalid/m.onnx", "got http; expected https"),
        ("https://models.invalid/", "names no file"),
        ("hf://digits", r"expected hf://owner/repository\[/path\]"),
        ("oci://host/name", "expected oci://registry/repository:tag"),
        ("https://key:secret[@host/m.onnx", r"https://\.\.\.: has no host that can be read"),
        ("https://key:secret#1@host/m.onnx", r"https://\.\.\.: has no host that can be read"),
        ("https://key:secret?1@host/m.onnx", r"https://\.\.\.: has no host that can be read"),
    ],
)
def test_wrong_url_is_refused_with_the_expected_form(url, message):
    with pytest.raises(ConfigError, match=message) as error:
        open_source(url)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("s3://models/team/digits.onnx", "digits"),
        ("s3://models/digits/", "digits"),
        ("s3://models", "models"),
        ("hf://org/digits@v1.0", "digits"),
        ("oci://here:5000/team/digits:1.0", "digits"),
        ("https://here/a%20b.onnx?x=y", "a b"),
    ],
)
def test_name_of_a_model_is_the_last_part_of_the_url(url, name):
    assert name_of_url(url) == name


def test_texts_hold_no_credentials():
    assert show("https://a:b@here/x?key=c#d") == "https://here/x"
    assert scrub("no https://a:b@here/x?key=c 'https://y?z'") == "no https://here/x 'https://y'"
    assert [is_url(one) for one in ("s3://a", "C:/a", Path("s3://a"))] == [True, False, False]
