"""Tests of the model that a request names."""

import pytest

from modelflow.serve.repository.models import Models
from modelflow.wire.problem import Code, Problem
from modelflow.wire.tf_serving.documents import State, VersionStatus


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


def test_the_one_that_was_added_last_answers_for_its_version(models):
    before, after = models.find("m", "2"), Model("m", 2)
    models.add(after)
    models.remove(before)  # the model has been replaced, and the other stays
    assert models.find("m", "2") is after


def test_a_version_of_more_digits_than_a_number_can_have_is_not_there(models):
    with pytest.raises(Problem, match="Servable not found"):
        models.find("m", "1" * 5000)


def test_what_is_asked_for_and_not_there_yet_is_being_loaded(models):
    models.expect("new", is_due=True)
    for ask in (models.find, models.versions, models.statuses):
        with pytest.raises(Problem, match="LOADING") as problem:
            ask("new")
        assert problem.value.code is Code.UNAVAILABLE
    models.note("new", VersionStatus(3, State.LOADING))
    with pytest.raises(Problem, match="LOADING"):
        models.find("new", "3")
    with pytest.raises(Problem, match="LOADING"):
        models.find("new", label="stable")
    with pytest.raises(Problem, match=r"not found for request: Specific\(new, 4\)"):
        models.find("new", "4")
    assert models.unready()["new"] == "LOADING"


def test_what_has_failed_says_why_and_is_not_ready(models):
    models.expect("new", is_due=True)
    models.note("new", VersionStatus(3, State.END, "UNKNOWN", "it is torn"))
    models.settle("new", is_complete=False)
    with pytest.raises(Problem, match=r"Latest\(new\)") as problem:
        models.find("new")
    assert problem.value.code is Code.NOT_FOUND
    assert models.unready()["new"] == "version 3: it is torn"
    assert ("new", models.statuses("new")[0], "it is torn") in models.index()


def test_a_model_is_ready_from_when_all_was_there_until_nothing_is(models):
    models.settle("m", is_complete=True)
    assert models.unready() == {}
    models.note("m", VersionStatus(11, State.LOADING))
    models.remove(models.find("m"))
    assert models.unready() == {}
    for model in models.versions("m"):
        models.remove(model)
    assert list(models.unready()) == ["m"]
    models.dismiss("m")
    assert models.unready() == {}


def test_what_comes_later_makes_a_server_no_less_ready_until_it_was_there(models):
    models.expect("late")
    assert models.unready() == {}
    late = Model("late", 1)
    models.add(late)
    models.settle("late", is_complete=True)
    models.remove(late)
    assert list(models.unready()) == ["late"]


def test_a_label_moves_only_to_a_version_that_is_loaded(models):
    models.move_label("m", "stable", 2)
    with pytest.raises(Problem, match="not currently available for inference") as problem:
        models.move_label("m", "stable", 3)
    assert problem.value.code is Code.FAILED_PRECONDITION
    assert models.find("m", label="stable").version == 2
    with pytest.raises(Problem, match=r"Unrecognized.*did you mean 'stable'"):
        models.find("m", label="stabel")
    models.keep_labels("m", {})
    with pytest.raises(Problem, match="Unrecognized"):
        models.find("m", label="stable")
