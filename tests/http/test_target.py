"""Targets of requests, in all forms."""

import pytest

from modelflow.http.request import split_target


@pytest.mark.parametrize(
    ("target", "path", "host"),
    [
        ("/a?b", "/a?b", None),
        ("/http://h/a", "/http://h/a", None),
        ("*", "*", None),
        ("h:443", "h:443", None),
        ("http://h:8501/v1/models/m:predict?x=/y", "/v1/models/m:predict?x=/y", "h:8501"),
        ("hTTps://h", "/", "h"),
        ("http://h?b", "/?b", "h"),
        ("http://[::1]:1/a", "/a", "[::1]:1"),
        ("http:///a", "http:///a", None),
        ("http://u:p@h/a", "http://u:p@h/a", None),
        ("ftp://h/a", "ftp://h/a", None),
        ("", "", None),
    ],
)
def test_path_and_host_of_a_target(target, path, host):
    assert split_target(target) == (path, host)
