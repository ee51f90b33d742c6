"""Tests of certificates and keys, which are checked before the server listens."""

import subprocess

import pytest

from modelflow.errors import ConfigError
from modelflow.http.options import TlsOptions
from modelflow.http.server import server_context
from tests.serve.certificates import Authority


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path / "ca")


def test_a_pair_that_fits_is_taken(authority):
    assert server_context(authority.options(is_mutual=True)).cert_store_stats()["x509_ca"] == 1


def test_a_key_in_the_file_of_its_certificate_is_taken(authority):
    pair = authority.issue()
    pair.cert.write_bytes(pair.cert.read_bytes() + pair.key.read_bytes())
    server_context(TlsOptions(pair.cert, pair.cert))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gone", r"TLS certificate .*gone: cannot be used: No such file"),
        ("", r"TLS certificate .*: cannot be used: Is a directory"),
        ("empty", r"TLS certificate .*empty: not found in the file; expected PEM"),
        ("server.key", r"TLS certificate .*server\.key: not found in the file"),
        ("cut", r"TLS certificate .*cut with the key .*: cannot be used"),
    ],
)
def test_what_is_no_certificate_is_named(authority, name, text):
    pair = authority.issue()
    folder = pair.cert.parent
    (folder / "empty").write_text("")
    (folder / "cut").write_bytes(pair.cert.read_bytes()[:200])
    with pytest.raises(ConfigError, match=text):
        server_context(TlsOptions(folder / name, pair.key))


def test_a_key_that_does_not_fit_is_named(authority):
    pair, other = authority.issue(), authority.issue("other")
    with pytest.raises(ConfigError, match=r"other\.key: it is not the key of .*server\.pem"):
        server_context(TlsOptions(pair.cert, other.key))


@pytest.mark.timeout(60)
def test_a_key_with_a_passphrase_is_refused_and_nobody_is_asked_for_it(authority):
    pair = authority.issue()
    command = ["openssl", "pkey", "-in", pair.key, "-out", pair.key.with_suffix(".locked")]
    subprocess.run([*command, "-aes256", "-passout", "pass:secret"], check=True)
    with pytest.raises(ConfigError, match="the key has a passphrase"):
        server_context(TlsOptions(pair.cert, pair.key.with_suffix(".locked")))


@pytest.mark.parametrize(("days", "text"), [(-1, "certificate has expired")])
def test_a_certificate_that_every_client_would_refuse_is_refused(authority, days, text):
    pair = authority.issue(days=days)
    with pytest.raises(ConfigError, match=rf"server\.pem: {text}; expected one that is valid"):
        server_context(TlsOptions(pair.cert, pair.key))


def test_a_file_without_authorities_is_named(authority, tmp_path):
    pair = authority.issue()
    (tmp_path / "no-ca").write_text("nothing")
    with pytest.raises(ConfigError, match=r"TLS client CA .*no-ca: cannot be used"):
        server_context(TlsOptions(pair.cert, pair.key, tmp_path / "no-ca"))
