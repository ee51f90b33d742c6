import logging

import pytest

import modelflow
from modelflow.errors import ConfigError

TEXT = """
[log]
level = "INFO"
path = "logs/flow.log"
screen = false
[graph]
graphconf = 'digraph logged { i [type=input] o [type=output] i -> o }'
"""


@pytest.fixture(autouse=True)
def level():
    logger = logging.getLogger("modelflow")
    before = logger.level
    yield
    logger.setLevel(before)


def test_the_log_section_writes_a_file_while_the_flow_runs(tmp_path):
    (tmp_path / "g.toml").write_text(TEXT)
    with modelflow.Flow(tmp_path / "g.toml") as flow:
        flow.infer(1)
    text = (tmp_path / "logs" / "flow.log").read_text()
    assert "INFO flow 'logged' starts" in text
    assert "INFO flow 'logged' has stopped" in text
    assert not logging.getLogger("modelflow").handlers


def test_a_log_file_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "logs").write_text("a file in the way")
    (tmp_path / "g.toml").write_text(TEXT)
    with pytest.raises(ConfigError, match=r"\[log\] path: cannot write .*flow.log"):
        modelflow.Flow(tmp_path / "g.toml").start_run()


def test_set_log_level_takes_modelboxs_names():
    modelflow.set_log_level("notice")
    assert logging.getLogger("modelflow").level == logging.INFO + 5
    with pytest.raises(ConfigError, match="expected one of DEBUG INFO"):
        modelflow.set_log_level("DEBGU")


def test_a_profile_that_is_asked_for_is_named_in_a_note():
    flow = modelflow.Flow(TEXT.replace("[log]", "[profile]\ntrace = true\nprofile = false\n[log]"))
    (note,) = flow.graph.notes
    assert note.startswith("[profile]: trace has no effect: this version writes no trace")
