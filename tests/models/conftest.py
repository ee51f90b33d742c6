"""The models of an engine, written once, and one server for all of them."""

import contextlib
import importlib.util
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace

import pytest

from modelflow.engine.lookup import ENGINES as FOUND
from tests import programs
from tests.models.kind import ENGINES, Kind
from tests.serve.grpc.stub import stub

PACKAGES = ("grpc", "ml_dtypes", "onnx", "onnxruntime", "openvino", "tensorflow", "torch")
# The table covers all engines, so the tests need all of them.
collect_ignore_glob = [] if all(map(importlib.util.find_spec, PACKAGES)) else ["test_*.py"]

BATCHING = """
max_batch_size { value: 4 }
batch_timeout_micros { value: 20000 }
num_batch_threads { value: 2 }
"""


def pytest_configure(config):
    # Users have TorchScript models, and the tests must make them.
    config.addinivalue_line("filterwarnings", "ignore:.torch.jit:DeprecationWarning")


@dataclass
class Cell:
    """A kind of model in an engine.

    Attributes:
        key: The kind's name in the table.
        source: The source for `Model` and a server: the file, or the unit if the file has no types.
    """

    engine: str
    key: str
    kind: Kind
    folder: Path

    @cached_property
    def path(self):
        from tests.models.files import write

        self.folder.mkdir(exist_ok=True)
        return write(self.folder, self.engine, self.kind, self.key)

    @property
    def name(self):
        """Returns the model's name in a server."""
        return re.sub(r"\W", "_", self.key)

    @property
    def graph(self):
        _ = self.path
        return self.folder / "graph.toml"

    @property
    def source(self):
        path = self.path
        has_no_types = self.engine in ("torch script", "python class")
        return self.folder / "unit" if has_no_types else path

    @cached_property
    def answers(self):
        """Returns the engine's results for each row, called by hand."""
        from tests.models.by_hand import answers

        return answers(self.path, self.engine, self.kind)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Installs the plug-in's entry points as pip does; returns the folder."""
    folder = tmp_path_factory.mktemp("installed")
    info = folder / "kinds-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kinds\nVersion: 1.0\n")
    point = "[modelflow.engines]\nkind = tests.models.plug_in:KindEngine\n"
    (info / "entry_points.txt").write_text(point)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        FOUND.refresh()
        yield folder
    FOUND.refresh()


@pytest.fixture(scope="module")
def cells(installed, tmp_path_factory):
    """Returns the cells by engine and kind."""
    from tests.models.kinds import KINDS

    folder = tmp_path_factory.mktemp("kinds")
    found = {}
    for engine in ENGINES:
        for place, (name, kind) in enumerate(KINDS.items()):
            if kind.is_had_by(engine):
                where = folder / f"{engine.replace(' ', '_')}-{place}"
                found[engine, name] = Cell(engine, name, kind, where)
    return found


@pytest.fixture(scope="module")
def environment(installed):
    """Returns the environment of a program that has the plug-in."""
    places = [str(installed), str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places))}


@pytest.fixture(scope="module")
def servers(cells, environment, tmp_path_factory):
    """Yields the addresses of ``modelflow serve`` with all models of an engine, engine by engine.

    Not a fixture of each engine: pytest would start a server for each test.
    """
    running = {}
    with contextlib.ExitStack() as stack:

        def of(engine):
            if engine not in running:
                stack.close()
                running.clear()
                sources = [f"{c.name}={c.source}" for (of, _), c in cells.items() if of == engine]
                folder = tmp_path_factory.mktemp("served")
                running[engine] = stack.enter_context(serving(folder, sources, environment))
            return running[engine]

        yield of


@contextlib.contextmanager
def serving(folder, sources, environment):
    (folder / "batching.txt").write_text(BATCHING)
    command = [sys.executable, "-m", "modelflow", "serve", *sources]
    command += ["--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]
    command += ["--batching-parameters-file", folder / "batching.txt"]
    with (
        ThreadPoolExecutor(1) as pool,
        programs.started(
            command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True
        ) as process,
    ):
        found = addresses(process.stderr)
        pool.submit(process.stderr.read)  # else its later output would fill the pipe
        with stub(found) as found.stub:
            yield found


def addresses(lines):
    """Reads the addresses of a server that has loaded its models."""
    said = ""
    for line in lines:
        said += line
        found = re.findall(r"^serves .* (?:at http://|over gRPC at )([\d.:]+)$", said, re.MULTILINE)
        if len(found) == 2:
            return SimpleNamespace(address=f"http://{found[0]}", grpc_address=found[1])
    pytest.fail(f"it has ended without serving: {said}")
