"""URLs, and requests as bytes."""

from pathlib import Path

import pytest

from modelflow.errors import ConfigError
from modelflow.insight.load.http_request import HttpBody, HttpUrl, request_of


def test_a_request_has_what_the_url_and_the_body_say():
    url = HttpUrl.read("http://[::1]:8500/v1/m:predict?a=b")
    assert (url.host, url.port, url.is_tls) == ("::1", 8500, False)
    found = request_of(url, HttpBody(b"{}", "application/json"), "post", [("X-Key", "k")])
    assert found == (
        b"POST /v1/m:predict?a=b HTTP/1.1\r\nHost: [::1]:8500\r\nX-Key: k\r\n"
        b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    )


def test_a_header_wins_over_the_type_of_the_body_and_get_has_no_length():
    url = HttpUrl.read("https://there")
    assert (url.path, url.port, url.is_tls) == ("/", 443, True)
    found = request_of(url, HttpBody(b"", "text/plain"), "GET", [("content-type", "a/b")])
    assert found == b"GET / HTTP/1.1\r\nHost: there\r\ncontent-type: a/b\r\n\r\n"


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("ftp://x", "expected a URL in ASCII that begins with http:// or https://"),
        ("http://", "expected a URL in ASCII"),
        ("http://x:port/", "is no URL: Port could not be cast"),
        ("http://x/\r\nInjected: 1", "expected a URL in ASCII"),
        ("http://x/ä", "expected a URL in ASCII"),
        ("http://x/a b", "expected a URL without a user and blanks"),
        ("http://me:secret@x/", "for a user give a header"),
    ],
)
def test_what_is_no_url_is_refused(url, text):
    with pytest.raises(ConfigError, match=text):
        HttpUrl.read(url)


@pytest.mark.parametrize(
    ("method", "header", "text"),
    [
        ("HEAD", ("a", "b"), "method: got 'HEAD'; expected POST, GET"),
        ("P T", ("a", "b"), "method: got 'P T'"),
        ("GET", ("a b", "c"), "header a b: 'c': expected a name"),
        ("GET", ("a", "b\r\nc: d"), "header a: .* expected a name"),
        ("GET", ("Host", "x"), "header Host: is made of the URL and the body"),
    ],
)
def test_what_would_break_a_request_is_refused(method, header, text):
    with pytest.raises(ConfigError, match=text):
        request_of(HttpUrl.read("http://x"), HttpBody(), method, [header])


def test_certificates_that_cannot_be_read_are_a_clear_error():
    with pytest.raises(ConfigError, match=r"certificates none\.pem: cannot be read: No such file"):
        HttpUrl.read("https://x").context(Path("none.pem"))
    with pytest.raises(ConfigError, match="expected https:// where certificates are given"):
        HttpUrl.read("http://x").context(Path("none.pem"))
