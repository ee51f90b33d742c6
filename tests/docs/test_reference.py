import importlib.util
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_reference_pages_say_what_the_code_says(monkeypatch):
    monkeypatch.syspath_prepend(DOCS)  # as in a program's run
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    for path, text in generate.pages().items():
        assert path.read_text() == text, f"{path.name} is out of date; run `make docs`"


def test_every_built_in_unit_is_in_the_manual():
    from flowunits import SPECS

    page = (DOCS / "reference" / "units.md").read_text()
    for built_in in SPECS:
        assert f"### `{built_in.name}`" in page
