"""Tests that the layers are kept, and that a planted violation is found."""

import configparser
import shutil
import sys
from pathlib import Path

import pytest

from tests import programs

ROOT = Path(__file__).resolve().parents[1]
pytest.importorskip("importlinter")


def contracts(folder):
    program = "import sys; from importlinter.cli import lint_imports_command as c; sys.exit(c())"
    return programs.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, '.'); {program}"],
        cwd=folder,
    )


# A line planted in a file -> the name of the contract that the line breaks.
VIOLATIONS = {
    ("modelflow/graph/build.py", "import modelflow.runtime.scheduler"): "flow one way",
    ("modelflow/cli/run/command.py", "import modelflow.plan"): "never into the runtime",
    ("modelflow/runtime/workers/worker.py", "import opentelemetry"): "Tracing alone knows",
    ("modelflow/buffer.py", "import flowunits.resize"): "does not know any flow unit",
    ("flowunits/resize/cpu.py", "import modelflow.runtime.stages.call"): "only the public names",
    ("flowunits/resize/cpu.py", "import flowunits.mean"): "do not import one another",
    (
        "modelflow/runtime/session/segment.py",
        "import modelflow.runtime.stages.stage",
    ): "Inside the runtime",
}


def test_the_contracts_are_kept_and_each_planted_violation_is_caught(tmp_path):
    for package in ("modelflow", "flowunits"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, tmp_path / package, ignore=ignored)
    shutil.copy(ROOT / "setup.cfg", tmp_path)
    done = contracts(tmp_path)
    assert done.returncode == 0, done.stdout
    for file, line in VIOLATIONS:
        with (tmp_path / file).open("a") as code:
            code.write(f"\n{line}\n")
    done = contracts(tmp_path)
    assert done.returncode == 1
    broken = [text for text in done.stdout.splitlines() if text.endswith("BROKEN")]
    for contract in VIOLATIONS.values():
        assert any(contract in text for text in broken), done.stdout


# The names that units, and their authors, may import. The rest of the package may change any day.
PUBLIC = {
    "modelflow." + name
    for name in (
        "device",
        "errors",
        "files",
        "http",
        "image",
        "testing",
        "video",
    )
}


def test_every_module_is_public_or_forbidden_to_units():
    settings = configparser.ConfigParser(comment_prefixes=(";", "#"))
    settings.read(ROOT / "setup.cfg")
    contract = settings["importlinter:contract:units-use-public-names"]
    forbidden = set(contract["forbidden_modules"].split())
    modules = {
        f"modelflow.{path.stem}" for path in (ROOT / "modelflow").iterdir() if path.suffix == ".py"
    }
    modules |= {
        f"modelflow.{path.parent.name}" for path in (ROOT / "modelflow").glob("*/__init__.py")
    }
    assert forbidden | PUBLIC == modules - {"modelflow.__init__"}
    assert not forbidden & PUBLIC
