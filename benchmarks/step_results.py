"""The results of `gpu.py`: tables of all steps, in files that are whole at every moment."""

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from measure import format_cell

__all__ = ["Results", "TableParser"]


class Results:
    """The results of all steps so far; every change is written to the folder at once."""

    def __init__(self, folder: Path, about: Mapping[str, object]) -> None:
        """Starts without a step.

        Args:
            folder: Receives ``results.md`` and ``results.json``, which must not exist.
            about: Facts about the whole run: name -> value.

        Raises:
            OSError: the folder cannot be written, or holds results.
        """
        self._folder, self._about = folder, dict(about)
        self._steps: list[dict[str, Any]] = []
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "results.json").open("x").close()
        self._write()

    def begin(self, name: str, title: str, limit: float) -> None:
        """Adds a step in the state "running"."""
        self._steps.append({"name": name, "title": title, "state": "running", "limit": limit})
        self._steps[-1] |= {"seconds": 0.0, "others": "", "tables": [], "log": ""}
        self._write()

    def add(self, table: dict[str, Any]) -> None:
        """Adds a table to the current step, or replaces the table with the same title."""
        tables = self._steps[-1]["tables"]
        titles = [known["title"] for known in tables]
        if table["title"] in titles:
            tables[titles.index(table["title"])] = table
        else:
            tables.append(table)
        self._write()

    def end(self, state: str, seconds: float, others: float, log: str) -> None:
        """Sets the state of the current step after its end.

        Args:
            state: ``done``, ``failed (STATUS)``, ``out of time``, ``no time`` or ``cut off``.
            seconds: How long the step ran.
            others: The processors that other programs used meanwhile.
            log: The last lines of the log, for a step that is not done.
        """
        self._steps[-1] |= {"state": state, "seconds": seconds, "others": others, "log": log}
        self._write()

    @property
    def has_failed(self) -> bool:
        """Whether a step is not done."""
        return any(step["state"] != "done" for step in self._steps)

    def markdown(self) -> str:
        """Returns the results as Markdown."""
        lines = ["# Results", ""]
        lines += _format_table(["", ""], list(self._about.items()))
        columns = ["step", "state", "seconds", "limit, seconds", "processors used by others"]
        keys = ("name", "state", "seconds", "limit", "others")
        rows = [[step[key] for key in keys] for step in self._steps]
        lines += ["", *_format_table(columns, rows)]
        for step in self._steps:
            lines += ["", f"## {step['title']}"]
            for table in step["tables"]:
                lines += ["", f"**{table['title']}**", ""]
                lines += _format_table(table["columns"], table["rows"])
            if step["log"]:
                lines += ["", f"{step['state']}; the end of {step['name']}.log:", ""]
                lines += ["```text", step["log"], "```"]
        return "\n".join(lines) + "\n"

    def _write(self) -> None:
        """Replaces both files; a disk that is full is no reason to lose the rest of the run."""
        found = json.dumps({"about": self._about, "steps": self._steps}, indent=1)
        for name, text in (("results.json", found), ("results.md", self.markdown())):
            path = self._folder / name
            beside = path.with_suffix(".part")
            try:
                beside.write_text(text)
                beside.replace(path)
            except OSError as error:
                print(f"{path}: not written: {error}", file=sys.stderr)


def _format_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    yield _format_row(columns)
    yield _format_row(["---"] * len(columns))
    yield from map(_format_row, rows)


def _format_row(cells: Sequence[object]) -> str:
    texts = [format_cell(cell).replace("|", "/").replace("\n", " ") for cell in cells]
    return f"| {' | '.join(texts)} |"


class TableParser:
    """Parses the tables in the output of a step: lines of JSON, or the outcomes of pytest."""

    _COLLECTED = re.compile(r"workers \[(\d+) items\]")
    _OUTCOME = re.compile(r"\b(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS) +tests/")
    _REASON = re.compile(r"^(?:FAILED|ERROR) (tests/[^\s\[]+(?:\[.*?\])?)(?: - (.*))?$")
    _SKIPPED = re.compile(r"^SKIPPED \[(\d+)\] (\S+): (.*)$")

    def __init__(self) -> None:
        """Starts without an outcome."""
        self._outcomes: dict[str, int] = {}
        self._reasons: list[list[object]] = []

    def read(self, line: str) -> dict[str, Any] | None:
        """Returns the table that a line of output completes, or None."""
        if line.startswith('{"title": '):
            try:
                found: dict[str, Any] = json.loads(line)
            except ValueError:  # cut off
                return None
            return found if found.keys() == {"title", "columns", "rows"} else None
        if reason := self._REASON.match(line):
            self._reasons.append(["failed", reason[1], (reason[2] or "")[:200]])
        elif skipped := self._SKIPPED.match(line):
            self._reasons.append([f"skipped: {skipped[1]}", skipped[2], skipped[3]])
        elif collected := self._COLLECTED.search(line):
            return self._count("all", int(collected[1]))
        elif outcome := self._OUTCOME.search(line):
            return self._count(outcome[1].lower(), 1)
        else:
            return None
        columns = ["what", "test", "why"]
        return {"title": "Failed and skipped tests", "columns": columns, "rows": self._reasons}

    def _count(self, outcome: str, count: int) -> dict[str, Any]:
        self._outcomes[outcome] = self._outcomes.get(outcome, 0) + count
        rows = [[name, number] for name, number in sorted(self._outcomes.items())]
        return {"title": "tests/gpu", "columns": ["", "tests"], "rows": rows}
