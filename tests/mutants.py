"""Breaks the runtime in one small way after another, and lists what no test notices.

python tests/mutants.py [MODULE ...]      as make mutants ONLY="outbox kinds.loop"

mutmut plants the mutants, runs each against the tests that call its function, ends those that hang,
and goes on where it was interrupted (what it knows lies in mutants/). This program compares what
survives with tests/mutants.toml, which holds the survivors that stay, each with its reason. It ends
with 1 where there is a survivor that is not in it.
"""

import argparse
import importlib
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ALLOWED = ROOT / "tests" / "mutants.toml"
PACKAGE = "modelflow.runtime"
# What mutmut says of a mutant that no test has noticed; where it stopped, it has not looked.
_SURVIVED = ("survived", "no tests")
_UNFINISHED = ("not checked", "check was interrupted by user")


@dataclass(frozen=True)
class Mutant:
    """A change that no test notices.

    Attributes:
        function: Where it is: ``modelflow.runtime.outbox.Outbox.emit``.
        was, becomes: The lines that differ, without what stands around them; numbers of lines, and
            mutmut's own numbers, change with every edit of the file.
    """

    function: str
    was: str
    becomes: str

    def __str__(self) -> str:
        return f"{self.function}\n    - {self.was}\n    + {self.becomes}"


def allowed_mutants(text: str) -> dict[Mutant, str]:
    """Reads ``tests/mutants.toml``: the survivors that stay, and why.

    Raises:
        ValueError: an entry lacks a key, or its reason.
    """
    found = {}
    for number, entry in enumerate(tomllib.loads(text).get("mutant", ()), 1):
        keys = {"function", "was", "becomes", "reason"}
        if set(entry) != keys or not entry["reason"].strip():
            message = (
                f"{ALLOWED.name}: mutant {number}: got {sorted(entry)}; expected {sorted(keys)}"
            )
            raise ValueError(message)
        found[Mutant(entry["function"], entry["was"], entry["becomes"])] = entry["reason"]
    return found


def mutant_of(name: str, diff: str) -> Mutant:
    """Makes a mutant of mutmut's name for it and of the diff of its function."""
    module, _, function = name.rpartition("__mutmut_")[0].rpartition(".")
    plain = re.sub(r"^xǁ(\w+)ǁ", r"\1.", function)
    plain = plain.removeprefix("x_") if plain == function else plain
    was, becomes = (
        " ".join(
            line[1:].strip()
            for line in diff.splitlines()
            if line.startswith(sign) and not line.startswith(sign * 3)
        )
        for sign in "-+"
    )
    return Mutant(f"{module}.{plain}", was, becomes)


def names_by_status(results: str, modules: Sequence[str]) -> dict[str, list[str]]:
    """Reads ``mutmut results``: status -> the names of mutants in ``modules``."""
    found: dict[str, list[str]] = {}
    for line in results.splitlines():
        name, _, status = line.strip().partition(": ")
        if any(name.startswith(f"{module}.") for module in modules):
            found.setdefault(status, []).append(name)
    return found


def main() -> int:
    """Runs the mutants, and prints those that survive; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("module", nargs="*", help="of modelflow.runtime: outbox, kinds.loop")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    given = parser.parse_args()
    modules = [f"{PACKAGE}.{name.removeprefix(f'{PACKAGE}.')}" for name in given.module]
    modules = modules or [PACKAGE]
    os.chdir(ROOT)
    command = [sys.executable, "-m", "mutmut", "run", "--max-children", str(given.workers)]
    (ROOT / "mutants").mkdir(
        exist_ok=True
    )  # Python forgets a folder that is not there at its start
    # Programs that the tests start must find the mutant as well.
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "mutants")}
    patterns = [f"{module}.*" for module in modules]
    done = subprocess.run([*command, *patterns], env=environment, check=False)
    if done.returncode:
        print("mutmut has failed; see what it says above", file=sys.stderr)
        return done.returncode
    statuses = names_by_status(_told("results"), modules)
    unfinished = sum(len(statuses.get(status, ())) for status in _UNFINISHED)
    return report(set(_survivors(statuses)), allowed_mutants(ALLOWED.read_text()), unfinished)


def report(survivors: set[Mutant], allowed: dict[Mutant, str], unfinished: int) -> int:
    """Prints what is to be done; returns the exit status."""
    unknown = sorted(survivors - set(allowed), key=str)
    for mutant in unknown:
        print(f"SURVIVED {mutant}")
    print(f"{len(survivors)} survivors, {len(unknown)} of them not in {ALLOWED.name}")
    if unfinished:
        print(f"{unfinished} mutants were not looked at; run it again to go on")
    if unknown:
        print(f"write a test that notices each, or an entry with the reason in {ALLOWED}")
    return 1 if unknown or unfinished else 0


def _survivors(statuses: dict[str, list[str]]) -> Iterator[Mutant]:
    for status in _SURVIVED:
        for name in statuses.get(status, ()):
            yield mutant_of(name, _told("show", name))


def _told(*arguments: str) -> str:
    """What a command of mutmut prints, in this process: its start takes seconds."""
    from click.testing import CliRunner

    cli = importlib.import_module("mutmut.__main__").cli
    return CliRunner().invoke(cli, arguments, catch_exceptions=False).output


if __name__ == "__main__":
    sys.exit(main())
