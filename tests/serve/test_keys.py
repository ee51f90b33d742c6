"""Files of API keys."""

import pytest

from modelflow.errors import ConfigError
from modelflow.serve.access.keys import Group, Keys, key_of
from modelflow.wire.problem import Code, Problem


def keys(tmp_path, text):
    path = tmp_path / "keys"
    path.write_text(text)
    return Keys(path)


def test_a_key_alone_opens_everything_and_one_behind_groups_opens_these(tmp_path):
    found = keys(tmp_path, "# a comment\n\n one \ninfer,metrics two\n")
    for group in Group:
        found.check("one", group)
    found.check("two", Group.INFER)
    with pytest.raises(Problem, match="for infer and metrics, not for repository") as error:
        found.check("two", Group.REPOSITORY)
    assert error.value.code is Code.PERMISSION_DENIED


@pytest.mark.parametrize("key", [None, "", "thre", "threee", "é", "#"])
def test_what_is_no_key_is_not_authenticated(tmp_path, key):
    with pytest.raises(Problem) as error:
        keys(tmp_path, "three").check(key, Group.INFER)
    assert error.value.code is Code.UNAUTHENTICATED


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file has no key; expected a line: KEY, or GROUPS KEY"),
        ("# nothing", "the file has no key"),
        ("ok\ninfer metrics s3cret", ":2: got a group and no key"),
        ("infer s3cret s4cret", ":1: word 3 is no limit; expected requests=N/s, .*, with N from 1"),
        ("s3cret requests=0/s", ":1: word 2 is no limit"),
        ("s3cret rows=1/m rows=s4cret", ":1: word 3 is no limit"),
        ("infer s3cret rows=1/s rows=2/s", ":1: word 4 limits rows/s again"),
        ("metrics s3cret rows=1/s", ":1: got a limit for a key without the group infer"),
        ("infer requests=1/s", ":1: got a limit and no key"),
        ("infr s3cret==", r"did you mean 'infer'\?"),
        ("infr s3cret", r":1: got the group 'infr'; expected .*; did you mean 'infer'\?"),
        ("s3cret infer", ":1: got a group and no key"),
        ("s3cret s4cret", ":1: got a word that is no group; expected infer, repository, metrics"),
        ("infer,metrics", ":1: got a group and no key"),
        ("s3cré", ":1: a key that headers cannot carry"),
        ("s3cret\ninfer s3cret", ":2: the key repeats an earlier line"),
    ],
)
def test_a_line_that_is_none_is_named_and_no_key_is_shown(tmp_path, text, message):
    with pytest.raises(ConfigError, match=message) as error:
        keys(tmp_path, text)
    assert "s3cr" not in str(error.value)
    assert "s4cr" not in str(error.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(ConfigError, match="gone: cannot be read: No such file"):
        Keys(tmp_path / "gone")
    (tmp_path / "keys").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="it is not UTF-8 text"):
        Keys(tmp_path / "keys")


@pytest.mark.parametrize(
    ("line", "limits"),
    [
        ("infer k==", []),
        ("k== requests=5/s", ["requests=5/s"]),
        ("infer k rows=3/m requests=1/s", ["rows=3/m", "requests=1/s"]),
    ],
)
def test_limits_follow_the_key(tmp_path, line, limits):
    quota = keys(tmp_path, line).check("k==" if "k==" in line else "k", Group.INFER)
    assert [*map(str, quota.limits)] == limits if quota else not limits


def test_a_key_is_nowhere_in_the_memory_of_the_keys(tmp_path):
    assert "s3cret" not in repr(vars(keys(tmp_path, "s3cret")))


@pytest.mark.parametrize(
    ("key", "authorization", "found"),
    [
        (None, None, None),
        ("k", None, "k"),
        (" k ", "Bearer other", "k"),
        (None, "Bearer k", "k"),
        (None, "bearer  k ", "k"),
        (None, "Basic k", None),
        (None, "Bearer", None),
    ],
)
def test_a_key_stands_in_one_of_two_headers(key, authorization, found):
    assert key_of(key, authorization) == found
