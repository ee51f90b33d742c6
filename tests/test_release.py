"""What ``make release-check`` locks is what there is to install."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OURS = {"dev", "mutants", "release", "test"}  # for those who work on modelflow


def test_every_extra_that_users_install_has_a_lock():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = set(project["optional-dependencies"])
    locked = re.search(r"^EXTRAS = (.+)$", (ROOT / "Makefile").read_text(), re.M)[1].split()
    assert sorted(locked) == sorted(extras - OURS)
