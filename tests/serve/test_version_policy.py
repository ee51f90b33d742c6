"""Tests of the served versions."""

import pytest

from modelflow.errors import ConfigError
from modelflow.serve.repository.source import VersionPolicy, read_policy


@pytest.mark.parametrize(
    ("text", "expected"),
    [("latest", [10]), ("all", [1, 2, 10]), ("2", [2]), ("10, 1", [1, 10]), ("7,1", [1, 7])],
)
def test_versions_are_chosen_by_number_and_what_is_named_need_not_be_there(text, expected):
    assert read_policy(text).choose({10, 2, 1}) == expected


def test_several_of_the_newest_may_be_chosen():
    assert VersionPolicy(latest=2).choose([1, 3, 2]) == [2, 3]
    assert VersionPolicy(latest=2).choose([]) == []


@pytest.mark.parametrize("text", ["", "newest", "1,", "-1", "0", "1;2"])
def test_another_text_says_what_was_expected(text):
    with pytest.raises(ConfigError, match="expected latest, all, or numbers"):
        read_policy(text)
