"""Tests of ``models.config``, in TensorFlow Serving's format."""

import pytest

from modelflow.errors import ConfigError
from modelflow.serve.repository.config import read_model_config

TEXT = """
model_config_list {
  config {
    name: "digits" base_path: "/models/digits" model_platform: "tensorflow"
    model_version_policy { specific { versions: 42 versions: 43 } }
    version_labels { key: "stable" value: 42 }
    version_labels { key: "canary" value: 43 }
  }
  config: { name: "all" base_path: "here/all" model_version_policy: { all: {} } }
  config { name: "two" base_path: "two" model_version_policy { latest { num_versions: 2 } } }
  config { name: "one" base_path: "one" }
}
"""


@pytest.fixture
def file(tmp_path):
    return tmp_path / "models.config"


def test_names_paths_versions_and_labels_are_read(file):
    file.write_text(TEXT)
    digits, every, two, one = read_model_config(file)
    assert (digits.name, str(digits.origin)) == ("digits", "/models/digits")
    assert digits.settings.labels == {"stable": 42, "canary": 43}
    assert digits.settings.policy.choose([1, 42, 43]) == [42, 43]
    assert every.origin == file.parent / "here" / "all"
    there = [1, 2, 3]
    chosen = [source.settings.policy.choose(there) for source in (every, two, one)]
    assert chosen == [[1, 2, 3], [2, 3], [3]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("model_config_list { config { nam: 'm' } }", r"models\.config:1.*did you mean 'name'"),
        ("model_config_list { config { name: 'm' } }", r"config 0 \(m\) has no base_path"),
        ("model_config_list { config { base_path: '/m' } }", r"config 0 \(/m\) has no name"),
        ("custom_model_config { }", "custom_model_config; expected model_config_list"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(file, text, expected):
    file.write_text(text)
    with pytest.raises(ConfigError, match=expected):
        read_model_config(file)


def test_a_file_that_is_not_there_says_so(file):
    with pytest.raises(ConfigError, match=r"models\.config: cannot be read"):
        read_model_config(file)
