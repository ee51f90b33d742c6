"""Tests of pages' sessions: a difference from the page is noticed."""

import pytest

from tests.console import run_session

PRINTS = "import sys; print('rows 12 at 3.5 ms'); print('end')"
SERVES = (
    "print('serves a at http://127.0.0.1:4567', flush=True); import time; "
    "exec('try: time.sleep(999)\\nexcept KeyboardInterrupt: pass')"
)


@pytest.mark.parametrize(
    "session",
    [
        f'$ python -c "{PRINTS}"\nrows 7 at 1.25 us\n...\n',
        "$ curl file://$PWD/answer.json\n{'score': 0.99, 'index': 3}\n",
        f'$ python -c "{SERVES}" &\nserves a at http://127.0.0.1:8501\n$ echo 8501\n4567\n',
        '$ modelflow check --json none.toml\n  "ok": false,\n',
    ],
)
def test_what_a_page_shows_is_found(session, tmp_path):
    (tmp_path / "answer.json").write_text("{'score': 0.9999, 'index': 3}\n")
    run_session(session, tmp_path)


@pytest.mark.parametrize(
    ("session", "message"),
    [
        (f'$ python -c "{PRINTS}"\nend\nrows 7 at 1.25 us\n', "rows 7"),
        ("$ curl file://$PWD/answer.json\n{'score': 0.99, 'index': 4}\n", "'index': 4"),
        ("$ curl file://$PWD/answer.json\n{'score': 0.9, 'index': 3}\n", "'score': 0.9,"),
        ("$ curl file://$PWD/none\n", "exit code 37"),
        ("$ true &\nserves a at http://127.0.0.1:8501\n", "has not come"),
        (f'$ python -c "{SERVES}" &\nserves b at http://127.0.0.1:8501\n', "has not come"),
        ("$ modelflow serve a.toml\n", "the page shows no line"),
    ],
)
def test_what_differs_is_an_error(session, message, tmp_path):
    (tmp_path / "answer.json").write_text("{'score': 0.9999, 'index': 3}\n")
    with pytest.raises(AssertionError, match=message):
        run_session(session, tmp_path)
