import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.mark.parametrize(
    ("program", "rows"),
    [
        (
            "overhead",
            ("forward, batch 1", "identity, batch 8", "Flow.infer, us, median", "sessions/s"),
        ),
        ("image_pipeline", ("400x300", "640x480", "1920x1080")),
        ("import_time", ("import numpy", "import modelflow", "% of a processor")),
        ("sessions", ("1000", "8", "50")),
        ("kinds", ("condition, merged", "most buffers by which", "KiB an idle session")),
    ],
)
def test_benchmark_runs_and_prints_its_rows(program, rows):
    done = subprocess.run(
        [sys.executable, str(FOLDER / f"{program}.py"), "--quick"],
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    for row in rows:
        assert any(line.startswith(row) for line in done.stdout.splitlines()), row
