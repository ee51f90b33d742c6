"""Tests of the endpoint to which a path belongs."""

import pytest

from modelflow.serve.access.keys import Group
from modelflow.serve.access.router import Form, Router, endpoint

ENDPOINTS = (
    endpoint(r"/v1/models/(?P<name>[^/:]+)(?:/versions/(?P<version>\d+))?", GET=lambda e, n: n),
    endpoint(r"/v1/models/(?P<name>[^/:]+):predict", POST=lambda e, n: n),
)


ROUTER = Router(ENDPOINTS)


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
    for _ in range(2):  # by the router, and from its cache
        found = ROUTER.find("GET", target)
        assert found.answer(None, found.names) == names


@pytest.mark.parametrize("target", ["/", "/v1/models/m/versions/x", "/v1/models/m/more", "/v1"])
def test_a_path_that_is_nobodys_is_404(target):
    assert ROUTER.find("GET", target).answer.status == 404


def test_a_method_that_is_not_allowed_is_405_and_says_which_are():
    reply = ROUTER.find("DELETE", "/v1/models/m:predict").answer
    assert (reply.status, reply.headers) == (405, {"allow": "POST"})


def test_of_many_paths_and_long_ones_each_has_its_own_names():
    here = Router(ENDPOINTS)
    for name in [*(f"m{number}" for number in range(3000)), "m0", "m" * 5000]:
        assert here.find("GET", f"/v1/models/{name}?x").names == {"name": name}


@pytest.mark.parametrize(
    ("path", "route", "group"),
    [
        ("/v1/models/m:Predict", "/v1/models/{name}:predict", Group.INFER),
        ("/v1/models/m/labels/x:predict", "/v1/models/{name}/labels/{label}:predict", Group.INFER),
        ("/models", "/models", None),
        ("/elsewhere", None, Group.INFER),
        ("/v1/models/" + "m" * 1000 + ":predict", "/v1/models/{name}:predict", Group.INFER),
    ],
)
def test_a_path_has_a_form_in_which_nothing_is_named(path, route, group):
    model = r"/v1/models/(?P<name>[^/:]+)(?:/labels/(?P<label>[^/:]+))?:predict"
    here = Router([endpoint(model, POST=print), endpoint("/models", GET=print).of(None)])
    for _ in range(2):
        assert here.find("POST", path).form == Form(route, group)
