"""The documentation as a site: links and anchors lead somewhere, every public name is in it."""

import importlib
import inspect
import re
import sys
from pathlib import Path

import pytest

import modelflow
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
    page = (site / "reference" / "python.html").read_text()
    described = set(re.findall(r'id="([\w.]+)"', page))
    for module in MODULES:
        for name in importlib.import_module(module).__all__:
            found = getattr(importlib.import_module(module), name)
            if isinstance(found, type) or inspect.isfunction(found):
                assert f"{found.__module__}.{found.__name__}" in described, f"{module}.{name}"
    assert "modelflow.image.PixFmt" in described  # the name of a type, which is no class
    assert "typing.Literal" not in described


def test_a_method_is_described_with_what_it_raises(site):
    page = (site / "reference" / "python.html").read_text()
    infer = page[page.index('id="modelflow.flow.flow.Flow.infer"') :][:20_000]
    assert "Sends one request in a session of its own" in infer
    assert "DeadlineExceeded" in infer


def test_every_page_is_in_the_site(site):
    pages = {str(path.relative_to(site)) for path in site.rglob("*.html")}
    written = {
        str(path.relative_to(ROOT / "docs").with_suffix(".html"))
        for path in (ROOT / "docs").rglob("*.md")
        if path.name != "graph_file_forms.md"
    }
    assert written <= pages
    assert {"index.html", "changelog.html", "benchmarks.html", "contributing.html"} <= pages


def test_the_start_page_is_the_readme(site):
    page = (site / "index.html").read_text()
    assert 'href="tutorial.html"' in page
    assert "images/image_classify.svg" in page
    assert (site / "images" / "image_classify.svg").is_file()
    assert modelflow.__doc__
