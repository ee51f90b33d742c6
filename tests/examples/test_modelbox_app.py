import sys
from pathlib import Path

from tests import programs

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "modelbox_app"


def test_the_application_runs_as_it_stands():
    done = programs.run([sys.executable, "app.py"], cwd=FOLDER)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [
        "a buffer at a time: ['(48, 64, 3) 10.0', '(48, 64, 3) 30.0', '(48, 64, 3) 50.0']",
        "the session ended with: End of file",
        "lists: ['10.0', '30.0', '50.0']",
        "the unit by itself: 50",
    ]
    assert done.stderr == ""
