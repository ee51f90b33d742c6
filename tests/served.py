"""``modelflow serve`` as a process, and requests from a client."""

import contextlib
import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests import programs

__all__ = ["ask", "serving"]


@contextlib.contextmanager
def serving(
    folder: Path, *words: str, env: Mapping[str, str] | None = None
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Yields the process and its address after all models have loaded; without gRPC."""
    command = [sys.executable, "-m", "modelflow", "serve", *words]
    command += ["--http", "127.0.0.1:0", "--grpc", "off"]
    environment = {**os.environ, **(env or {})}
    with programs.started(
        command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        said = []
        for line in process.stderr:
            said.append(line)
            if found := re.search(r"serves .* at (http://[\d.:]+)$", line):
                yield process, found[1]
                break
        else:
            pytest.fail(f"it has ended without serving: {said}")


def ask(address: str, name: str, value: Any = 0) -> Any:
    """Sends one item to a model; returns its prediction."""
    body = json.dumps({"instances": [value]}).encode()
    with urllib.request.urlopen(f"{address}/v1/models/{name}:predict", body, timeout=60) as answer:
        return json.load(answer)["predictions"][0]
