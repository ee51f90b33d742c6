"""Tests of the documentation as a site: valid links and anchors, and every public name."""

import importlib
import inspect
import json
import re
import sys
from pathlib import Path

import pytest

from tests import programs

ROOT = Path(__file__).resolve().parents[2]
MODULES = (
    "modelflow",
    "modelflow.engine",
    "modelflow.errors",
    "modelflow.image",
    "modelflow.testing",
)


pytest.importorskip("mkdocs", reason="the group dev is not installed")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = programs.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder], cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING -" not in done.stderr
    return folder


def test_every_public_name_is_in_the_reference(site):
    pages = [path.read_text() for path in (site / "reference").glob("python-*.html")]
    described = {name for page in pages for name in re.findall(r'<h2 id="[^"]+">(\w+)', page)}
    for module in MODULES:
        for name in importlib.import_module(module).__all__:
            found = getattr(importlib.import_module(module), name)
            if isinstance(found, type) or inspect.isfunction(found):
                assert name in described, f"{module}.{name}"
    assert "PixFmt" in described  # the name of a type that is not a class


def test_a_method_is_described_with_its_arguments_and_errors():
    page = (ROOT / "docs" / "reference" / "python-modelflow.md").read_text()
    infer = page[page.index("### Flow.infer\n") : page.index("### Flow.ainfer\n")]
    assert "Sends a request in a session of its own" in infer
    assert "timeout: float | None = None," in infer
    assert "- `DeadlineExceeded`: " in infer


def test_every_page_is_in_the_site(site):
    pages = {str(path.relative_to(site)) for path in site.rglob("*.html")}
    written = {
        str(path.relative_to(ROOT / "docs").with_suffix(".html"))
        for path in (ROOT / "docs").rglob("*.md")
        if path.name != "graph_file_forms.md"
    }
    assert written <= pages
    assert {"index.html", "changelog.html", "benchmarks.html", "contributing.html"} <= pages


def test_the_start_page_leads_by_task_to_every_how_to_page(site):
    page = (site / "index.html").read_text()
    for path in (ROOT / "docs" / "how-to").glob("*.md"):
        assert f'href="how-to/{path.stem}.html"' in page, path.name
    assert (site / "images" / "image_classify.svg").is_file()


def test_a_word_of_a_page_is_found_by_the_search(site):
    index = json.loads((site / "search" / "search_index.json").read_text())
    found = {doc["location"].partition("#")[0] for doc in index["docs"] if "Triton" in doc["text"]}
    assert "how-to/move_from_triton.html" in found
