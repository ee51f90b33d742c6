"""Tests that ``make release-check`` locks the extras that users can install."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_every_extra_that_users_install_has_a_lock():
    extras = PROJECT["project"]["optional-dependencies"]
    locked = re.search(r"^EXTRAS = (.+)$", (ROOT / "Makefile").read_text(), re.M)[1].split()
    assert sorted(locked) == sorted(extras)


def test_what_works_on_the_project_is_no_extra():
    groups = set(PROJECT["dependency-groups"])
    assert groups == {"dev", "mutants", "release", "test"}
    assert not groups & set(PROJECT["project"]["optional-dependencies"])
