"""Which model a request means."""

import pytest

from modelflow.serve.models import Models
from modelflow.wire.problem import Code, Problem


class Model:
    def __init__(self, name, version):
        self.name, self.version = name, version


@pytest.fixture
def models():
    made = Models()
    for version in (2, 10, 1):
        made.add(Model("m", version))
    return made


@pytest.mark.parametrize(
    ("version", "expected"), [("", 10), ("0", 10), ("1", 1), ("2", 2), ("010", 10)]
)
def test_a_version_is_found_and_without_one_the_newest(models, version, expected):
    assert models.find("m", version).version == expected


@pytest.mark.parametrize(
    ("name", "version", "label", "code", "text"),
    [
        ("x", "", "", Code.NOT_FOUND, r"Servable not found for request: Latest\(x\)"),
        ("m", "5", "", Code.NOT_FOUND, r"Servable not found for request: Specific\(m, 5\)"),
        ("m", "", "best", Code.INVALID_ARGUMENT, "Unrecognized servable version label: best"),
    ],
)
def test_what_is_not_there_says_so(models, name, version, label, code, text):
    with pytest.raises(Problem, match=text) as problem:
        models.find(name, version, label)
    assert problem.value.code is code


def test_the_versions_of_a_model_are_given_newest_first(models):
    assert [model.version for model in models.versions("m")] == [10, 2, 1]
    with pytest.raises(Problem, match="Could not find any versions of model x"):
        models.versions("x")
    assert len(list(models)) == 3


def test_two_of_one_name_and_version_are_refused(models):
    with pytest.raises(ValueError, match="two models 'm' of version 2"):
        models.add(Model("m", 2))
