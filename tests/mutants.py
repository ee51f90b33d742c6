"""Breaks the runtime in one small way after another, and lists the changes that no test notices.

python tests/mutants.py [MODULE ...]      as make mutants ONLY="outbox kinds.normal"

mutmut plants the mutants, tests/mutant_forks.py tries each with the tests that call its function.
The results are in mutants/, from which an interrupted run continues. A mutant that was noticed is
tried again when its function has changed, a survivor each time. The file tests/mutants.toml holds
the mutants that need no test, each with its reason. The program ends with 1 if any other mutant
survives.
"""

import argparse
import contextlib
import importlib
import io
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ALLOWED = ROOT / "tests" / "mutants.toml"
PACKAGE = "modelflow.runtime"
# The tests of the runtime itself; the random graphs would take a day.
TESTS = (
    "tests/runtime",
    "tests/device/test_plug_in.py",
    "tests/test_flow.py",
    "tests/plan",
    "tests/test_request.py",
    "tests/test_stream_io.py",
)
_PLUGINS = ("-p", "no:xdist", "-p", "no:cacheprovider", "-p", "tests.mutant_forks")
# A mutant has its own limit, which pytest's limits would replace.
_OPTIONS = ("-qq", "-o", "timeout=0", "-o", "faulthandler_timeout=0", "-o", "addopts=")
# The results of a mutant, as in mutmut's files.
_CODES = {"survived": 0, "killed": 1, "no-tests": 33, "hangs": 36}
_UNNOTICED = (None, _CODES["survived"], _CODES["no-tests"])


@dataclass(frozen=True)
class Mutant:
    """A small change.

    Attributes:
        function: The changed function: ``modelflow.runtime.stages.outbox.Outbox.emit``.
        was, becomes: The lines that differ, without the lines around them. Line numbers, and
            mutmut's own numbers, change with every edit of the file.
    """

    function: str
    was: str
    becomes: str

    def __str__(self) -> str:
        return f"{self.function}\n    - {self.was}\n    + {self.becomes}"


@dataclass(frozen=True)
class Reasons:
    """The reasons in ``tests/mutants.toml`` why mutants need no test.

    Attributes:
        mutants: Single survivors, and why each stays.
        classes: Patterns of ``was -> becomes`` for changes that are not tried at all, and the
            reasons.
    """

    mutants: Mapping[Mutant, str]
    classes: Mapping[re.Pattern[str], str]

    def class_of(self, mutant: Mutant) -> re.Pattern[str] | None:
        """Returns the first class that a mutant is of."""
        change = f"{mutant.was} -> {mutant.becomes}"
        return next((pattern for pattern in self.classes if pattern.fullmatch(change)), None)


def read_reasons(text: str) -> Reasons:
    """Reads ``tests/mutants.toml``.

    Raises:
        ValueError: An entry lacks a key, or its reason.
    """
    entries = tomllib.loads(text)
    mutants = {
        Mutant(entry["function"], entry["was"], entry["becomes"]): entry["reason"]
        for entry in _entries(entries, "mutant", {"function", "was", "becomes", "reason"})
    }
    classes = {
        re.compile(entry["change"]): entry["reason"]
        for entry in _entries(entries, "class", {"change", "reason"})
    }
    return Reasons(mutants, classes)


def _entries(
    found: Mapping[str, Sequence[dict[str, str]]], kind: str, keys: Collection[str]
) -> Iterator[dict[str, str]]:
    for number, entry in enumerate(found.get(kind, ()), 1):
        if set(entry) != set(keys) or not entry["reason"].strip():
            message = (
                f"{ALLOWED.name}: {kind} {number}: got {sorted(entry)}; expected {sorted(keys)}, "
                "each with a text"
            )
            raise ValueError(message)
        yield entry


def mutant_of(name: str, diff: str) -> Mutant:
    """Makes a mutant from mutmut's name and the diff of the function."""
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


def main() -> int:
    """Runs the mutants, and prints the survivors; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("module", nargs="*", help="of modelflow.runtime: outbox, kinds.normal")
    parser.add_argument("--forks", type=int, default=os.cpu_count(), help="mutants at a time")
    given = parser.parse_args()
    os.chdir(ROOT)
    planted = Planted([f"{PACKAGE}.{name.removeprefix(f'{PACKAGE}.')}" for name in given.module])
    reasons = read_reasons(ALLOWED.read_text())
    planted.run(list(planted.to_try(reasons)), given.forks)
    became = planted.became()
    useless = [] if given.module else list(unused(became, reasons))
    for what in useless:
        print(f"{ALLOWED.name}: not needed any more: {what}")
    return report(became, reasons) or (1 if useless else 0)


class Planted:
    """The mutants of some modules, in ``mutants/``, and their results.

    Attributes:
        mutants: mutmut's name for each -> the mutant.
        codes: mutmut's name for each -> its result; None for a mutant that was not tried.
    """

    def __init__(self, modules: Sequence[str] = ()) -> None:
        """Plants the changed modules and reads the results; without ``modules``, of all modules."""
        self._folder = ROOT / "mutants"
        self._folder.mkdir(exist_ok=True)
        self._results = self._folder / "results.txt"
        self._keep_results()
        _plant()
        self.mutants: dict[str, Mutant] = {}
        self.codes: dict[str, int | None] = {}
        for data in _data():
            for name, code in data.exit_code_by_key.items():
                if not modules or name.rpartition(".")[0] in modules:
                    self.codes[name] = code
                    self.mutants[name] = mutant_of(name, _diff(name, data.path))

    def to_try(self, reasons: Reasons) -> Iterator[str]:
        """Yields the names of unnoticed mutants, except for mutants that need no test."""
        for name, code in self.codes.items():
            mutant = self.mutants[name]
            is_known = code is not None and mutant in reasons.mutants
            if code in _UNNOTICED and not is_known and reasons.class_of(mutant) is None:
                yield name

    def became(self) -> dict[Mutant, int | None]:
        """Returns the result of each mutant; of two equal mutants, the result of the survivor."""
        found: dict[Mutant, int | None] = {}
        for name, mutant in self.mutants.items():
            if mutant not in found or self.codes[name] in _UNNOTICED:
                found[mutant] = self.codes[name]
        return found

    def run(self, names: Sequence[str], forks: int) -> None:
        """Tries mutants. Ctrl-C ends the run and keeps the results so far."""
        wanted = self._folder / "wanted.txt"
        wanted.write_text("\n".join(names))
        files = ("--mutants", wanted, "--mutant-calls", self._folder / "calls.json")
        command = [sys.executable, "-m", "pytest", *_PLUGINS, *_OPTIONS, *files]
        command += ["--mutant-results", self._results, "--mutant-forks", str(forks), *TESTS]
        # Programs that the tests start must find the mutant as well.
        environment = {**os.environ, "PYTHONPATH": str(self._folder)}
        try:
            if names:
                subprocess.run(command, env=environment, cwd=self._folder, check=True)
        finally:
            self.codes |= self._keep_results()

    def _keep_results(self) -> dict[str, int | None]:
        """Moves the results of a run into mutmut's files, which know which functions change."""
        lines = self._results.read_text().splitlines() if self._results.exists() else ()
        codes: dict[str, int | None] = {
            name: _CODES[became] for name, became in (line.split() for line in lines)
        }
        for data in _data():
            new = {name: code for name, code in codes.items() if name in data.exit_code_by_key}
            if new:
                data.exit_code_by_key |= new
                data.save()
        self._results.unlink(missing_ok=True)
        return codes


def unused(mutants: Collection[Mutant], reasons: Reasons) -> Iterator[Mutant | str]:
    """Yields the entries of ``tests/mutants.toml`` that no mutant of the whole runtime has."""
    used = {reasons.class_of(mutant) for mutant in mutants}
    yield from (pattern.pattern for pattern in reasons.classes if pattern not in used)
    yield from (mutant for mutant in reasons.mutants if mutant not in mutants)


def report(mutants: Mapping[Mutant, int | None], reasons: Reasons) -> int:
    """Prints the work to be done; returns the exit status.

    ``mutants`` has the result of each. ``reasons`` may have entries of other modules.
    """
    classes = {mutant: reasons.class_of(mutant) for mutant in mutants}
    tried = {mutant: code for mutant, code in mutants.items() if classes[mutant] is None}
    survivors = {mutant for mutant, code in tried.items() if code in _UNNOTICED}
    open_ones = {mutant for mutant in survivors if tried[mutant] is None}
    unknown = survivors - open_ones - set(reasons.mutants)
    noticed = set(reasons.mutants) & set(tried) - survivors
    for word, found in (("SURVIVED", unknown), ("NOTICED, but listed:", noticed)):
        for mutant in sorted(found, key=str):
            print(f"{word} {mutant}")
    print(
        f"{len(mutants)} mutants: {len(mutants) - len(tried)} of a class that needs no test, "
        f"{len(tried) - len(survivors)} noticed, {len(survivors) - len(open_ones)} survivors "
        f"({len(unknown)} not in {ALLOWED.name}), {len(open_ones)} not tried"
    )
    if unknown:
        print(f"write a test that notices each, or an entry with the reason in {ALLOWED}")
    return 1 if unknown or noticed or open_ones else 0


def _plant() -> None:
    main = importlib.import_module("mutmut.__main__")
    shutil.rmtree(ROOT / "mutants" / "tests", ignore_errors=True)  # else a deleted test stays
    with contextlib.redirect_stdout(io.StringIO()):
        main.copy_src_dir()
        main.copy_also_copy_files()
        main.create_mutants(os.cpu_count())


def _data() -> Iterator[Any]:
    """Yields mutmut's file of each module of the runtime."""
    main = importlib.import_module("mutmut.__main__")
    for path in main.walk_mutatable_files():
        data = main.SourceFileMutationData(path=path)
        data.load()
        yield data


def _diff(name: str, path: Path) -> str:
    return str(importlib.import_module("mutmut.__main__").get_diff_for_mutant(name, path=path))


if __name__ == "__main__":
    sys.exit(main())
