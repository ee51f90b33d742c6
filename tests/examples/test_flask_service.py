import contextlib
import importlib.util
import runpy
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests import programs
from tests.in_process import run_script

pytest.importorskip("tensorflow")
FOLDER = Path(__file__).resolve().parents[2] / "examples" / "flask_service"
# Each with the object that its main block runs.
SERVICES = {"baseline": "", "with_model": "model", "with_flow": "flow"}
CLIENTS = 8


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    run_script(FOLDER / "make_model.py", "--tiny", "--to", folder)
    return folder


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("flask_benchmark", FOLDER / "benchmark.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def answers_of(name, jpegs):
    """Returns the answers of a service to each of several clients at once."""

    def client(_):
        asking = service["app"].test_client()
        return [asking.post("/classify", data=jpeg).json for jpeg in jpegs]

    service = runpy.run_path(str(FOLDER / f"{name}.py"))
    running = SERVICES[name] and service[SERVICES[name]]
    with running or contextlib.nullcontext(), ThreadPoolExecutor(CLIENTS) as pool:
        return list(pool.map(client, range(CLIENTS)))


def test_the_three_services_give_the_same_answers(model, benchmark, monkeypatch):
    monkeypatch.setenv("MODEL", str(model))
    jpegs = benchmark.photographs()
    baseline, *others = (answers_of(name, jpegs) for name in SERVICES)
    for found in (baseline, *others):
        for answers in found:
            assert all(map(benchmark.same, answers, baseline[0]))


@pytest.mark.dear_benchmark
def test_the_benchmark_checks_and_compares_the_three_services(model):
    command = [sys.executable, str(FOLDER / "benchmark.py"), "--model", str(model)]
    command += ["--rounds", "1", "--requests", "40", "--clients", "8"]
    done = programs.run(command)
    assert done.returncode == 0, done.stderr
    _title, header, *rows = done.stdout.splitlines()
    assert header.split()[:2] == ["service", "req/s"]
    assert [row.split()[0] for row in rows] == [*SERVICES]


def test_the_steps_differ_by_a_few_lines():
    baseline, with_model, with_flow = (
        (FOLDER / f"{name}.py").read_text().splitlines() for name in SERVICES
    )
    assert len(set(with_model) - set(baseline)) <= 8
    assert len(set(with_flow) - set(with_model)) <= 8


def test_the_benchmark_refuses_wrong_answers(benchmark):
    right = {"index": 1, "score": 0.5}
    assert benchmark.same(right, {"index": 1, "score": 0.50001})
    assert not benchmark.same(right, {"index": 2, "score": 0.5})
    assert not benchmark.same(right, {"index": 1, "score": 0.6})
