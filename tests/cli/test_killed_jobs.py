"""Jobs whose process is killed, again and again: each item once, and the guilty an error."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys

import pytest

from tests import programs

pq = pytest.importorskip("pyarrow.parquet")

UNITS = """
import os, pathlib, signal, time, modelflow
import numpy as np

def noted(data):
    with open("tried.txt", "a") as file:
        file.write(data.get("path") + chr(10))

@modelflow.flowunit(batch_size=4, threads=2)
def size(data: modelflow.Buffer):
    "Gives the size of a text, after some work."
    time.sleep(0.004)
    if data.data.startswith(b"bad"):
        raise ValueError("is bad")
    return len(data.data)

@modelflow.flowunit(batch_size=4, threads=2)
def deadly(data: modelflow.Buffer):
    "Ends the process at some texts."
    noted(data)
    if data.data.startswith(b"poison"):
        os.kill(os.getpid(), signal.SIGSEGV)
    return len(data.data)

class Odd:
    "Has no text."
    def __repr__(self):
        raise RuntimeError("has no text")

ROUND = []
ROUND.append(ROUND)
ODD = [
    lambda: 10**5000,
    lambda: ROUND,
    Odd,
    lambda: np.array([Odd()], object),
]

@modelflow.flowunit(batch_size=4, threads=2)
def varied(data: modelflow.Buffer):
    "Gives what cannot be written, or nothing, for some texts; the process is killed once."
    kind, _, number = bytes(data.data).decode().partition(" ")
    if kind == "compute":
        raise ValueError("is bad")
    if kind == "write":
        return ODD[int(number) % len(ODD)]()
    if number == "500" and not os.path.exists("killed"):
        pathlib.Path("killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return int(number)
"""
TWO_OUTPUTS = """
import os, pathlib, signal, threading, time, modelflow

is_first = not os.path.exists("killed")
is_ahead = threading.Event()

@modelflow.flowunit
def quick(data: modelflow.Buffer):
    "Fails for some texts; in the first run for all behind the 150th, where the process is killed."
    number = int(data.data)
    if number == 160:
        is_ahead.set()
    if number % 50 == 3 or (is_first and number >= 150):
        raise ValueError("is bad")
    return number

@modelflow.flowunit
def slow(data: modelflow.Buffer):
    "Is killed once, `quick` being ahead of its work; fails for some texts, too."
    number = int(data.data)
    if is_first and number >= 140:
        assert is_ahead.wait(30)
        time.sleep(0.01)
    if is_first and number == 150:
        pathlib.Path("killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if number % 50 in (3, 4):
        raise ValueError("is bad")
    return number
"""
COUNT = 300
OUTPUTS = ("o.jsonl", "out/", "o.parquet")


@pytest.fixture
def job(folder):
    """Texts, some of them bad, and a graph that gives their sizes."""
    (folder / "jobs.py").write_text(UNITS)
    (folder / "texts").mkdir()
    for number in range(COUNT):
        text = "bad" if number % 50 == 3 else "x" * number
        (folder / "texts" / f"{number}.txt").write_text(text)
    write_graph(folder, "size")
    return folder


def write_graph(folder, unit):
    (folder / "job.dot").write_text(
        f'digraph {{ input [type=input] unit [flowunit="jobs:{unit}"] output [type=output] '
        "input -> unit -> output }"
    )


def command(output, *more):
    words = ["run", "job.dot", "--input", "texts", "--output", output, "--resume", "o.done", "-q"]
    return [sys.executable, "-m", "modelflow", *words, *more]


def results(folder, output, errors=""):
    """Returns the results by the items' numbers; what is in error is None. Each is there once."""
    if output == "o.jsonl":
        lines = [json.loads(line) for line in (folder / output).read_text().splitlines()]
        found = [(line["path"], line.get("data")) for line in lines]
        assert [line["index"] for line in lines] == list(range(len(lines)))
    elif output == "o.parquet":
        rows = pq.read_table(folder / output).to_pylist()
        found = [(row["path"], row["data"]) for row in rows]
        assert all((row["data"] is None) == bool(row["error"]) for row in rows)
        assert sorted(row["index"] for row in rows) == list(range(len(rows)))
    else:
        names = [name for name in os.listdir(folder / output) if not name.startswith(".")]
        found = [
            (name.partition("_")[2], int((folder / output / name).read_text())) for name in names
        ]
        # Errors go to standard output there; they are in the list of what is done.
        for line in (folder / "o.done").read_text().splitlines()[1:]:
            said = json.loads(line)
            for (path,) in said.get("all") or ([said["done"]] if "done" in said else []):
                name = os.path.basename(path).replace(".txt", ".json")
                if name not in dict(found):
                    found.append((name, None))
    numbered = [(int(os.path.basename(path).partition(".")[0]), data) for path, data in found]
    assert len(dict(numbered)) == len(numbered), "an item is there twice"
    return dict(numbered)


@pytest.mark.slow
@pytest.mark.parametrize("output", OUTPUTS)
def test_killed_at_any_moment_each_item_is_there_once(job, output):
    chance = random.Random()
    for _ in range(6):
        with programs.started(
            command(output), cwd=job, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(chance.uniform(0.2, 2.5))
            process.kill()
    done = programs.run(command(output), cwd=job)
    while "one by one" in done.stderr:
        done = programs.run(command(output), cwd=job)
    loud = [word for word in command(output) if word != "-q"]
    expected = {n: None if n % 50 == 3 else n for n in range(COUNT)}
    assert results(job, output) == expected
    assert f"{COUNT // 50} errors in what was done before" in programs.run(loud, cwd=job).stderr
    assert not (job / "o.done.journal").exists()


@pytest.mark.parametrize("output", OUTPUTS)
def test_an_item_that_kills_its_process_is_an_error_after_three_deaths(job, output):
    write_graph(job, "deadly")
    for number in (7, 130):
        (job / "texts" / f"{number}.txt").write_text("poison")
    codes = []
    while not codes or codes[-1] < 0:
        codes.append(programs.run(command(output, "--errors", "bad"), cwd=job).returncode)
        assert len(codes) <= 7, "it is tried without an end"
    assert codes == [-signal.SIGSEGV] * (len(codes) - 1) + [1]
    expected = {number: number for number in range(COUNT)}
    expected |= dict.fromkeys(range(3, COUNT, 50), 3)
    assert results(job, output) == {**expected, 7: None, 130: None}
    bad = [json.loads(line)["path"] for line in (job / "bad").read_text().splitlines()]
    assert sorted(bad) == ["texts/130.txt", "texts/7.txt"], "one that was done again is told twice"
    tried = (job / "tried.txt").read_text().splitlines()
    assert {tried.count(f"texts/{number}.txt") for number in (7, 130)} == {3}
    # The innocent were at most in one crowd with each of the two, and then alone; what has come
    # into no part yet is lost with each death.
    most = len(codes) if output == "o.parquet" else 3
    assert max(tried.count(f"texts/{number}.txt") for number in expected) <= most


@pytest.mark.parametrize("output", OUTPUTS)
def test_every_tenth_item_fails_somewhere_and_the_job_is_killed(folder, output):
    """Also what fails where no unit is at work, in reading and in writing, is an error there."""
    (folder / "jobs.py").write_text(UNITS)
    (folder / "texts").mkdir()
    write_graph(folder, "varied")
    failing = range(3, 1000, 10)
    for number in range(1000):
        kind = ("read", "compute", "write")[number // 10 % 3] if number in failing else "fine"
        name = f"{number}.npy" if kind == "read" else f"{number}.txt"
        (folder / "texts" / name).write_text(f"{kind} {number}")
    first, then = (programs.run(command(output, "--errors", "bad"), cwd=folder) for _ in range(2))
    assert first.returncode == -signal.SIGKILL, first.stderr
    assert then.returncode == 1, then.stderr
    found = results(folder, output)
    assert found == {n: None if n in failing else n for n in range(1000)}
    lines = [json.loads(line) for line in (folder / "bad").read_text().splitlines()]
    named = [int(os.path.basename(line["path"]).partition(".")[0]) for line in lines]
    assert sorted(named) == list(failing)
    phases = {number: line["error"]["phase"] for number, line in zip(named, lines, strict=True)}
    assert {phases[n] for n in failing} == {"read", "process", "write"}
    assert sum(phase == "write" for phase in phases.values()) == 33


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("a.jsonl", "b.jsonl"),
        ("a/", "b/"),
        ("a.parquet", "b.parquet"),
        ("a.jsonl", "b.parquet"),
        ("a.jsonl", "b/"),
    ],
)
def test_errors_of_several_outputs_are_counted_once(folder, first, second):
    (folder / "jobs.py").write_text(TWO_OUTPUTS)
    (folder / "texts").mkdir()
    for number in range(200):
        (folder / "texts" / f"{number}.txt").write_text(str(number))
    (folder / "job.dot").write_text(
        'digraph { input [type=input] quick [flowunit="jobs:quick"] slow [flowunit="jobs:slow"] '
        "a [type=output] b [type=output] input -> quick -> a input -> slow -> b }"
    )
    words = [*command(f"a={first}", "--output", f"b={second}", "--errors", "bad")]
    killed, then = programs.run(words, cwd=folder), programs.run(words, cwd=folder)
    assert (killed.returncode, then.returncode) == (-signal.SIGKILL, 1), then.stderr
    last = programs.run([word for word in words if word != "-q"], cwd=folder)
    assert "8 errors in what was done before" in last.stderr
    lines = [json.loads(line) for line in (folder / "bad").read_text().splitlines()]
    assert sorted(int(os.path.basename(line["path"])[:-4]) for line in lines) == [
        number for number in range(200) if number % 50 in (3, 4)
    ]


def test_an_innocent_that_is_killed_with_others_is_not_blamed(job):
    write_graph(job, "deadly")
    (job / "texts" / "7.txt").write_text("poison")
    for _ in range(3):
        programs.run(command("o.jsonl"), cwd=job)
    done = programs.run(command("o.jsonl"), cwd=job)
    assert "texts/7.txt: the process has died 3 times while it was worked on" in done.stderr
    bad = [line for line in (job / "o.jsonl").read_text().splitlines() if '"error"' in line]
    assert len(bad) == 1


def test_what_ended_in_order_is_suspected_of_nothing(job):
    def noted():
        return (job / "o.done").read_text().count("\n") if (job / "o.done").exists() else 0

    with programs.started(command("o.jsonl"), cwd=job, stderr=subprocess.PIPE) as process:
        while process.poll() is None and noted() < 2:
            os.sched_yield()
        process.send_signal(signal.SIGTERM)
        process.communicate()
    assert not (job / "o.done.journal").exists()
    programs.run(command("o.jsonl"), cwd=job)
    assert '"died"' not in (job / "o.done").read_text()
    assert results(job, "o.jsonl").keys() == set(range(COUNT))


def test_results_of_something_else_stay(job):
    (job / "out").mkdir()
    (job / "out" / "000007_mine.json").write_text("1")
    done = programs.run(command("out/"), cwd=job)
    assert done.returncode == 1
    assert (
        "000007_mine.json is there already, and the list that --resume names knows" in done.stderr
    )
    assert (job / "out" / "000007_mine.json").read_text() == "1"


def test_a_journal_of_something_else_is_refused(job):
    (job / "o.done.journal").write_text("mine")
    done = programs.run(command("o.jsonl"), cwd=job)
    assert done.returncode == 1
    assert "o.done.journal is no journal of a job; remove it" in done.stderr
