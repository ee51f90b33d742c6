"""Which endpoint a path belongs to."""

import pytest

from modelflow.http.exchange import Exchange
from modelflow.http.reply import Reply
from modelflow.serve.router import endpoint, find

ENDPOINTS = (
    endpoint(r"/v1/models/(?P<name>[^/:]+)(?:/versions/(?P<version>\d+))?", GET=lambda e, n: n),
    endpoint(r"/v1/models/(?P<name>[^/:]+):predict", POST=lambda e, n: n),
)


def ask(method, target):
    return find(ENDPOINTS, Exchange(method, target, (), "", lambda *_: None, None))


@pytest.mark.parametrize(
    ("target", "names"),
    [
        ("/v1/models/m", {"name": "m"}),
        ("/V1/Models/m", {"name": "m"}),
        ("/v1/models/my%20model?x=y", {"name": "my model"}),
        ("/v1/models/m/versions/12", {"name": "m", "version": "12"}),
    ],
)
def test_the_names_in_a_path_are_given(target, names):
    answer = ask("GET", target)
    assert not isinstance(answer, Reply)
    assert answer() == names


@pytest.mark.parametrize("target", ["/", "/v1/models/m/versions/x", "/v1/models/m/more", "/v1"])
def test_a_path_that_is_nobodys_is_404(target):
    assert ask("GET", target).status == 404


def test_a_method_that_is_not_allowed_is_405_and_says_which_are():
    reply = ask("DELETE", "/v1/models/m:predict")
    assert (reply.status, reply.headers) == (405, {"allow": "POST"})
