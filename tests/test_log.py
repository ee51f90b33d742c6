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
        modelflow.Flow(tmp_path / "g.toml").start()


def test_a_log_file_on_a_full_disk_is_told_once_and_the_flow_goes_on(tmp_path, capfd):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "flow.log").symlink_to("/dev/full")
    (tmp_path / "g.toml").write_text(TEXT)
    with modelflow.Flow(tmp_path / "g.toml") as flow:
        assert flow.infer(1).data == 1
    path = tmp_path / "logs" / "flow.log"
    message = f"[log] path: cannot write {path}: No space left on device; messages are lost there\n"
    assert capfd.readouterr().err == message


def test_set_log_level_takes_modelboxs_names():
    modelflow.set_log_level("notice")
    assert logging.getLogger("modelflow").level == logging.INFO + 5
    with pytest.raises(ConfigError, match="expected one of DEBUG INFO"):
        modelflow.set_log_level("DEBGU")


def flow_of(section):
    dot = "digraph { i [type=input] o [type=output] i -> o }"
    return modelflow.Flow(f"[log]\n{section}\n[graph]\ngraphconf = '{dot}'")


def state():
    logger = logging.getLogger("modelflow")
    return logger.level, logger.propagate, len(logger.handlers)


def test_a_flow_leaves_the_logger_as_it_was(tmp_path):
    before = state()
    with flow_of(f"level = 'DEBUG'\npath = '{tmp_path}/a.log'\nscreen = false"):
        assert state() == (logging.DEBUG, False, 1)
    assert state() == before


@pytest.mark.parametrize("first_ends_first", [True, False])
def test_two_flows_share_the_logger_and_the_last_gives_it_back(tmp_path, first_ends_first):
    modelflow.set_log_level("NOTICE")
    before = state()
    first = flow_of(f"level = 'ERROR'\npath = '{tmp_path}/a.log'\nscreen = false").start()
    assert state()[:2] == (logging.ERROR, False)
    second = flow_of(f"path = '{tmp_path}/b.log'").start()
    assert state() == (before[0], True, 2)
    one, other = (first, second) if first_ends_first else (second, first)
    one.stop()
    expected = (before[0], True) if first_ends_first else (logging.ERROR, False)
    assert state()[:2] == expected
    other.stop()
    assert state() == before


def test_a_level_that_is_set_while_a_flow_runs_stays():
    with flow_of("level = 'DEBUG'"):
        modelflow.set_log_level("ERROR")
    assert state()[0] == logging.ERROR


def test_a_flow_that_does_not_start_leaves_the_logger_as_it_was():
    before = state()
    text = "[log]\nlevel = 'DEBUG'\n[graph]\ngraphconf = '''digraph { f [flowunit=file_source, "
    text += 'path="/nowhere/*"] s [flowunit=file_sink, path="x"] f -> s }\'\'\''
    with pytest.raises(modelflow.FlowFailed):
        modelflow.Flow(text).start()
    assert state() == before


def test_a_flow_that_cannot_be_started_twice_keeps_its_file(tmp_path):
    before = state()
    with flow_of(f"path = '{tmp_path}/a.log'") as flow:
        with pytest.raises(modelflow.StreamClosed):
            flow.start()
        assert state()[2] == 1
    assert state() == before
