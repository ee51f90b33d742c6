"""Checks of pages for screen readers, with axe-core."""

import json
from pathlib import Path

import pytest

__all__ = ["serious"]

AXE = Path(__file__).resolve().parents[2] / "studio" / "node_modules" / "axe-core" / "axe.min.js"


def serious(page, scope="document"):
    """Returns the serious and critical problems of a page as text, ``""`` without problems."""
    if not AXE.exists():
        pytest.skip("axe-core is not installed: npm ci, in studio/")
    page.evaluate(AXE.read_text())
    found = page.evaluate(f"async () => (await axe.run({scope})).violations")
    told = [
        (one["id"], [node["html"][:200] for node in one["nodes"]])
        for one in found
        if one["impact"] in ("serious", "critical")
    ]
    return json.dumps(told, indent=1) if told else ""
