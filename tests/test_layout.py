"""Tests that the tests mirror the code."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_every_module_of_the_runtime_has_a_test_file_of_its_name():
    runtime, tests = ROOT / "modelflow" / "runtime", ROOT / "tests" / "runtime"
    modules = [p.relative_to(runtime) for p in runtime.rglob("*.py") if p.name != "__init__.py"]
    wanted = [module.with_name(f"test_{module.name}") for module in modules]
    assert [str(path) for path in wanted if not (tests / path).is_file()] == []
