import importlib.util
import sys
from pathlib import Path

import pytest

from tests import programs

pytest.importorskip("tensorflow")
FOLDER = Path(__file__).resolve().parents[2] / "examples" / "flask_service"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    command = [sys.executable, str(FOLDER / "make_model.py"), "--tiny", "--to", str(folder)]
    programs.run(command, check=True)
    return folder


def test_the_three_services_give_the_same_answers_under_load(model):
    done = programs.run(
        [
            sys.executable,
            str(FOLDER / "benchmark.py"),
            "--model",
            str(model),
            "--rounds",
            "1",
            "--requests",
            "40",
            "--clients",
            "8",
        ],
    )
    assert done.returncode == 0, done.stderr
    _title, header, *rows = done.stdout.splitlines()
    assert header.split()[:2] == ["service", "req/s"]
    assert [row.split()[0] for row in rows] == ["baseline", "with_model", "with_flow"]


def test_the_steps_differ_by_a_few_lines():
    baseline, with_model, with_flow = (
        (FOLDER / f"{name}.py").read_text().splitlines()
        for name in ("baseline", "with_model", "with_flow")
    )
    assert len(set(with_model) - set(baseline)) <= 8
    assert len(set(with_flow) - set(with_model)) <= 8


def test_the_benchmark_refuses_wrong_answers(model):
    spec = importlib.util.spec_from_file_location("flask_benchmark", FOLDER / "benchmark.py")
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    right = {"index": 1, "score": 0.5}
    assert benchmark.same(right, {"index": 1, "score": 0.50001})
    assert not benchmark.same(right, {"index": 2, "score": 0.5})
    assert not benchmark.same(right, {"index": 1, "score": 0.6})
