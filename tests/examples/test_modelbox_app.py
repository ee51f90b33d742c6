from pathlib import Path

from tests.in_process import run_script

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "modelbox_app"


def test_the_application_runs_as_it_stands(monkeypatch, capsys):
    monkeypatch.chdir(FOLDER)
    monkeypatch.syspath_prepend(FOLDER)
    run_script(FOLDER / "app.py")
    said = capsys.readouterr()
    assert said.out.splitlines() == [
        "a buffer at a time: ['(48, 64, 3) 10.0', '(48, 64, 3) 30.0', '(48, 64, 3) 50.0']",
        "the session ended with: End of file",
        "lists: ['10.0', '30.0', '50.0']",
        "the unit by itself: 50",
    ]
    assert said.err == ""
