"""Tests of jobs on the command line: failed items, progress, and resuming."""

import base64
import fcntl
import json
import os
import re
import signal
import subprocess
import sys

import cv2
import numpy as np
import pytest

from modelflow.files.json_value import is_in_short, show_value
from modelflow.image import Box
from modelflow.wire.json_writer import json_line
from tests import programs

UNITS = """
import os, pathlib, signal, modelflow, numpy as np

@modelflow.flowunit
def size(data: modelflow.Buffer):
    "Gives the size of a text; ends the process at one of them, while a mark is there."
    if data.get("path") == "texts/37.txt" and pathlib.Path("mark").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    if data.data.startswith(b"bad"):
        raise ValueError("is bad")
    return len(data.data)

@modelflow.flowunit
def many(data):
    return np.zeros((100, 100), np.float32)

@modelflow.flowunit(outputs=())
def lost(data):
    pass
"""


def graph(*nodes, unit="jobs:size", output="output [type=output]"):
    names = " -> ".join(["input", "unit", *nodes])
    return f'digraph {{ input [type=input] unit [flowunit="{unit}"] {output} {names} }}'


@pytest.fixture
def job(folder):
    """Returns a folder with sixty texts, five of them bad, and a graph that gives their sizes."""
    (folder / "jobs.py").write_text(UNITS)
    (folder / "job.dot").write_text(graph("output"))
    (folder / "texts").mkdir()
    for number in range(60):
        text = "bad" if number % 12 == 3 else "x" * number
        (folder / "texts" / f"{number}.txt").write_text(text)
    return folder


BOX = {"x": 1, "y": 2, "w": 3, "h": 4, "score": 0.5, "class_id": 0, "label": "cat"}
RUN = ("run", "job.dot", "--input", "texts", "--output", "o.jsonl")
RESUMED = (*RUN, "--resume", "o.done")


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def numbers(found):
    return [int(os.path.basename(line["path"])[:-4]) for line in found]


def test_each_bad_item_is_named_and_they_are_summed_up(modelflow_here, job):
    done = modelflow_here(*RUN)
    assert done.returncode == 1
    what = "node 'unit' (unit 'size') failed in process: ValueError: is bad (jobs.py:10)"
    told = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert told == [f"error: texts/{number}.txt: {what}" for number in (3, 15, 27, 39, 51)]
    *_, total, summary = done.stderr.splitlines()
    assert total.startswith("60 items, 5 errors, ")
    assert summary == f"      5 x ValueError in 'unit', first: texts/3.txt: {what}"


def test_an_item_that_fails_on_two_outputs_is_one_error(modelflow_here, job):
    (job / "job.dot").write_text(
        'digraph { input [type=input] unit [flowunit="jobs:size"] a [type=output] '
        "b [type=output] input -> unit unit -> a unit -> b }"
    )
    done = modelflow_here(*RUN[:4], "--errors", "bad.jsonl")
    assert "\n60 items, 5 errors, " in done.stderr
    assert numbers(lines(job / "bad.jsonl")) == [3, 15, 27, 39, 51]
    assert sum('"error"' in line for line in done.stdout.splitlines()) == 10
    unnamed = modelflow_here(*RUN[:4], "--output", "out/")
    assert "several outputs (a, b); name one, for example --output a=out/" in unnamed.stderr


def test_errors_go_into_a_file_with_what_is_known_of_their_items(modelflow_here, job):
    done = modelflow_here(*RUN, "--errors", "bad.jsonl")
    assert done.returncode == 1
    found = lines(job / "bad.jsonl")
    assert numbers(found) == [3, 15, 27, 39, 51]
    assert found[1] == {
        "index": 15,
        "output": "output",
        "path": "texts/15.txt",
        "error": {
            "node": "unit",
            "unit": "size",
            "phase": "process",
            "where": "jobs.py:10",
            "type": "ValueError",
            "message": "node 'unit' (unit 'size') failed in process: ValueError: is bad",
        },
        "meta": {},
    }


def test_errors_that_cannot_be_written_are_said_before_anything_runs(modelflow_here, job):
    done = modelflow_here(*RUN, "--errors", "no/such/e.jsonl")
    message = "--errors no/such/e.jsonl: cannot be written: No such file or directory\n"
    assert (done.returncode, done.stderr) == (1, message)


def test_with_debug_an_error_is_told_with_its_traceback(modelflow_here, job):
    done = modelflow_here("--debug", *RUN)
    assert '    raise ValueError("is bad")\nValueError: is bad' in done.stderr


def test_quiet_says_nothing_but_errors(modelflow_here, job):
    done = modelflow_here(*RUN, "--quiet")
    assert len(done.stderr.splitlines()) == 5
    assert "ValueError: is bad" in done.stderr


def test_options_may_come_from_the_environment(modelflow_here, job):
    more = {"MODELFLOW_RUN_QUIET": "1", "MODELFLOW_RUN_KEEP_GOING": "1"}
    done = modelflow_here(*RUN, env=more)
    assert done.returncode == 0
    assert "items" not in done.stderr


def test_a_job_whose_process_is_killed_goes_on_and_has_each_item_once(
    modelflow, modelflow_here, job
):
    (job / "mark").touch()
    done = modelflow(*RESUMED)
    assert done.returncode == -signal.SIGKILL
    before = len((job / "o.done").read_text().splitlines()) - 1
    (job / "o.jsonl").write_bytes((job / "o.jsonl").read_bytes() + b'{"index": 36, "cut o')
    (job / "o.done").write_bytes((job / "o.done").read_bytes() + b'{"done": ["te')
    (job / "mark").unlink()
    done = modelflow_here(*RESUMED)
    assert done.returncode == 1
    assert f"done before, {60 - before} items left" in done.stderr or not before
    # Items in progress at the kill are processed first.
    assert sorted(numbers(lines(job / "o.jsonl"))) == list(range(60))
    assert [line["index"] for line in lines(job / "o.jsonl")] == list(range(60))
    done = modelflow_here(*RESUMED)
    assert done.returncode == 1, "who starts it again until all is well is told that it is"
    assert "0 items, 0 errors" in done.stderr
    assert "5 errors in earlier runs" in done.stderr
    assert modelflow_here(*RESUMED, "--keep-going").returncode == 0
    assert len(lines(job / "o.jsonl")) == 60


def test_what_is_new_is_all_that_a_finished_job_does_again(modelflow_here, job):
    modelflow_here(*RESUMED)
    (job / "texts" / "0a.txt").write_text("new")
    done = modelflow_here(*RESUMED, "--errors", "bad.jsonl")
    assert done.returncode == 1
    assert "1 item, 0 errors" in done.stderr
    assert lines(job / "o.jsonl")[-1] == {
        "index": 60, "output": "output", "path": "texts/0a.txt", "data": 3, "meta": {},
    }  # fmt: skip


def test_a_graph_that_has_changed_since_is_told(modelflow_here, job):
    said = "job.dot: has changed since --resume o.done was begun. Finished inputs stay as they are"
    modelflow_here(*RESUMED)
    assert said not in modelflow_here(*RESUMED).stderr
    assert said in modelflow_here(*RESUMED, "--set", "unit.batch_size=2").stderr
    (job / "job.dot").write_text(graph("output").replace("]", ", batch_size=3]", 2))
    done = modelflow_here(*RESUMED)
    assert "60 items done before" in done.stderr
    assert said in done.stderr
    first, *others = (job / "o.done").read_text().splitlines(keepends=True)
    old = json.dumps({"job": json.loads(first)["job"]}) + "\n"
    (job / "o.done").write_text("".join([old, *others]))  # in the form of an earlier version
    done = modelflow_here(*RESUMED)
    assert "60 items done before" in done.stderr
    assert said not in done.stderr


def test_a_file_is_the_same_however_it_is_named(modelflow_here, job):
    modelflow_here(*RESUMED)
    for texts in ("./texts", str(job / "texts"), str(job / "texts" / "*.txt")):
        done = modelflow_here(*(word if word != "texts" else texts for word in RESUMED))
        assert "60 items done before, 0 items left" in done.stderr
    assert len(lines(job / "o.jsonl")) == 60


def test_a_job_into_a_folder_goes_on_as_well(modelflow, modelflow_here, job):
    (job / "mark").touch()
    into_folder = (*RUN[:-1], "out/", "--resume", "o.done")
    assert modelflow(*into_folder).returncode == -signal.SIGKILL
    (job / "out" / ".000007_7.json.0123456789ab.part").write_text("cut o")
    (job / "mark").unlink()
    assert modelflow_here(*into_folder).returncode == 1
    found = sorted(os.listdir(job / "out"))
    good = [number for number in range(60) if number % 12 != 3]
    assert found == [f"{number:06d}_{number}.json" for number in good]


def test_after_a_ctrl_c_it_is_said_how_far_the_job_came(job):
    (job / "slow.py").write_text(
        "import modelflow, time\n"
        "@modelflow.flowunit(batch_size=1)\n"
        "def slow(data):\n"
        "    time.sleep(1)\n"
        "    return len(data)\n"
    )
    (job / "job.dot").write_text(graph("output", unit="slow:slow"))
    command = [sys.executable, "-m", "modelflow", *RUN[:-2]]
    with programs.started(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=job
    ) as process:
        assert json.loads(process.stdout.readline())["data"] == 0
        process.send_signal(signal.SIGINT)
        told = process.communicate()[1]
    assert process.returncode == 130
    assert re.search(r"^stopped: [1-9]\d* of 60 items, 0 errors, ", told, re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            RUN[:-2],
            2,
            "output 'output' goes to standard output, which keeps nothing; give --output",
        ),
        ((*RUN[:3], "-", *RUN[4:]), 2, "input 'input' comes from standard input; give files"),
        (("run", "many.dot", *RUN[2:-2]), 1, "node 'unit' writes its own results"),
        (("run", "part.dot", *RUN[2:]), 1, "output 'output' does not get exactly one result"),
        (("run", "digits"), 1, "the graph has no input"),
    ],
)
def test_what_cannot_be_gone_on_with_is_refused(modelflow_here, job, arguments, code, message):
    (job / "many.dot").write_text(graph(unit="jobs:lost", output=""))
    part = (
        "import modelflow\n"
        "@modelflow.flowunit(kind='condition', outputs=('good', 'bad'))\n"
        "def part(data):\n"
        "    return {'good': data}\n"
        "@modelflow.flowunit(outputs=())\n"
        "def drop(data):\n"
        "    pass\n"
    )
    (job / "part.py").write_text(part)
    (job / "part.dot").write_text(
        'digraph { input [type=input] unit [flowunit="part:part"] output [type=output] '
        'drop [flowunit="part:drop"] input -> unit unit:good -> output unit:bad -> drop }'
    )
    done = modelflow_here(*arguments, "--resume", "o.done")
    assert message in done.stderr
    assert done.returncode == code
    assert not (job / "o.done").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}\n", "o.done:1: got b'{}'; expected a list that --resume has written"),
        (
            '{"job": {"graph": "job.dot", "outputs": {"output": "o.jsonl"}}}\n'
            '{"done": ["a"], "sizes": {}, "failed": {"my": 1}}\n',
            "o.done:2: got",
        ),
        ('{"job": {}}\n', 'it is of another job: {}; expected {"graph": "job.dot", '),
        ("\xff\n", "o.done:1: got"),
        ('{"my":1}', """o.done:1: got b'{"my":1}'; expected a list that --resume has written"""),
    ],
)
def test_a_list_of_something_else_is_refused_and_stays(modelflow_here, job, text, message):
    (job / "o.done").write_text(text, encoding="latin-1")
    done = modelflow_here(*RESUMED)
    assert (done.returncode, message in done.stderr) == (1, True), done.stderr
    assert (job / "o.done").read_text(encoding="latin-1") == text


@pytest.mark.parametrize("kind", ["device", "pipe"])
def test_a_list_that_is_no_file_is_refused(modelflow_here, job, kind):
    if kind == "pipe":
        os.mkfifo(job / "o.done")
    else:
        (job / "o.done").symlink_to("/dev/null")
    done = modelflow_here(*RESUMED)
    assert done.returncode == 1
    assert "--resume o.done: is no file; expected a file, or a free name" in done.stderr


@pytest.mark.parametrize(
    "line",
    [
        '{"done": 5, "sizes": {"output": 0}}',
        '{"done": "ab", "sizes": {"output": 0}}',
        '{"done": ["ab"], "sizes": []}',
        '{"done": ["ab"], "sizes": {"output": "0"}}',
        '{"done": ["ab"], "sizes": {"output": -1}}',
        '{"done": ["ab"], "sizes": {"other": 0}}',
        '{"done": ["ab"], "sizes": {"output": 0}, "more": 1}',
        '{"all": ["ab"], "sizes": {"output": 0}}',
        '{"all": 1, "sizes": {"output": 0}}',
        '{"died": [5], "run": 1}',
        '{"died": [], "run": -1}',
        '{"died": [], "run": 99999999999999999999}',
        "[" * 100_000,
    ],
)
def test_a_list_that_is_damaged_is_refused_with_its_line_and_nothing_is_lost(
    modelflow_here, job, line
):
    modelflow_here(*RESUMED)
    results = (job / "o.jsonl").read_bytes()
    count = len((job / "o.done").read_text().splitlines())
    with (job / "o.done").open("a") as file:
        file.write(f"{line}\n")
    done = modelflow_here(*RESUMED)
    assert (done.returncode, "Traceback" in done.stderr) == (1, False), done.stderr
    assert f"--resume o.done:{count + 1}: got {line[:60].encode()!r}; expected" in done.stderr
    assert (job / "o.jsonl").read_bytes() == results


def test_results_that_are_gone_are_not_gone_on_with(modelflow_here, job):
    modelflow_here(*RESUMED)
    (job / "o.jsonl").unlink()
    done = modelflow_here(*RESUMED)
    assert done.returncode == 1
    assert "o.jsonl is not there any more, and had" in done.stderr
    assert not (job / "o.jsonl").exists()


def test_a_folder_without_files_is_told_as_that(modelflow_here, job):
    (job / "empty").mkdir()
    done = modelflow_here("run", "job.dot", "--input", "empty")
    assert done.returncode == 1
    assert "--input empty: is a folder without files" in done.stderr


def test_results_that_have_shrunk_are_not_gone_on_with(modelflow_here, job):
    modelflow_here(*RESUMED)
    (job / "o.jsonl").write_text("")
    done = modelflow_here(*RESUMED)
    assert done.returncode == 1
    assert "o.jsonl has 0 bytes, and had" in done.stderr


def test_a_folder_that_has_lost_results_is_not_gone_on_with(modelflow_here, job):
    into_folder = (*RUN[:-1], "out/", "--resume", "o.done")
    assert modelflow_here(*into_folder).returncode == 1  # five are in error
    listed = (job / "o.done").read_text()
    results = sorted((job / "out").iterdir())
    again = modelflow_here(*into_folder)
    assert (again.returncode, sorted((job / "out").iterdir())) == (1, results), again.stderr
    results[0].unlink()
    done = modelflow_here(*into_folder)
    assert done.returncode == 1
    assert "--output out/: out has 54 results, and had 55 when the job ended; to" in done.stderr
    assert (job / "o.done").read_text() == listed


def test_arrays_are_whole_up_to_a_size_and_beyond_it_on_request(modelflow_here, job):
    (job / "job.dot").write_text(graph("output", unit="jobs:many"))
    run = (*RUN[:3], "texts/7.txt")
    done = modelflow_here(*run)
    assert json.loads(done.stdout)["data"]["shape"] == [100, 100]
    assert done.stderr.count("--full writes them whole") == 1
    done = modelflow_here(*run, "--full")
    assert json.loads(done.stdout)["data"] == np.zeros((100, 100)).tolist()
    assert "--full" not in done.stderr


def test_images_are_whole_as_images(modelflow_here, folder):
    done = modelflow_here("run", "small.toml", "--input", "photos/9.png", "--full")
    png = base64.b64decode(json.loads(done.stdout)["data"]["png"])
    image = cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_COLOR)
    assert (image == np.full((6, 8, 3), 9)).all()


def test_what_was_made_from_an_image_does_not_tell_of_the_image(modelflow_here, folder):
    (folder / "parts.py").write_text(
        "import modelflow\n"
        "@modelflow.flowunit\n"
        "def scores(image):\n"
        "    'Gives a mapping.'\n"
        "    return {'blue': float(image[0, 0, 0])}\n"
    )
    (folder / "parts.dot").write_text(
        'digraph { input [type=input] d [flowunit=image_decoder] p [flowunit="parts:scores"] '
        "output [type=output] input -> d -> p -> output }"
    )
    done = modelflow_here("run", "parts.dot", "--input", "photos/9.png")
    assert json.loads(done.stdout) == {
        "index": 0, "output": "output", "path": "photos/9.png", "data": {"blue": 9.0}, "meta": {},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("value", "short", "whole"),
    [
        (np.float32(0.5), 0.5, 0.5),
        (np.arange(4096), list(range(4096)), list(range(4096))),
        (b"a text\n", {"bytes": 7, "text": "a text\n"}, {"bytes": 7, "text": "a text\n"}),
        (b"\xff\x00", {"bytes": 2}, {"bytes": 2, "base64": "/wA="}),
        (
            {1: (b"\0", None)},
            {"1": [{"bytes": 1}, None]},
            {"1": [{"bytes": 1, "base64": "AA=="}, None]},
        ),
        (1j, "1j", "1j"),
        ([Box(*BOX.values())], [BOX], [BOX]),
        ("half of a letter: \udcff", "half of a letter: \udcff", "half of a letter: \udcff"),
        (2**70, 2**70, 2**70),
        (np.complex64(1j), "1j", "1j"),
        (np.float32(0.1), 0.1, 0.1),
        (np.float16(0.1), 0.1, 0.1),
        ({"a": [np.float32(0.1), np.int64(2)]}, {"a": [0.1, 2]}, {"a": [0.1, 2]}),
        (np.array([0.1, np.nan, -np.inf], "f4"), [0.1, None, None], [0.1, None, None]),
        (np.array([{"a": np.float32(0.1)}, None]), [{"a": 0.1}, None], [{"a": 0.1}, None]),
        (
            (float("nan"), np.longdouble("inf"), np.bool_(True)),
            [None, None, True],
            [None, None, True],
        ),
        (10**30, 10**30, 10**30),
        (
            np.full(5000, np.nan, np.float32),
            {"dtype": "float32", "shape": [5000], "min": None, "max": None, "first": [None] * 4},
            [None] * 5000,
        ),
    ],
)
def test_values_in_short_and_whole(value, short, whole):
    assert json.loads(json_line(show_value(value))) == json.loads(json_line(short))
    assert json.loads(json_line(show_value(value, is_whole=True))) == json.loads(json_line(whole))
    assert is_in_short(value) == (short != whole)


def test_a_list_that_another_run_has_is_refused(modelflow_here, job):
    modelflow_here(*RESUMED)
    before = (job / "o.done").read_bytes(), (job / "o.jsonl").read_bytes()
    with (job / "o.done").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done = modelflow_here(*RESUMED)
    assert (done.returncode, "--resume o.done: is in use by another run" in done.stderr) == (1, 1)
    assert ((job / "o.done").read_bytes(), (job / "o.jsonl").read_bytes()) == before
    assert "0 items" in modelflow_here(*RESUMED).stderr


@pytest.mark.parametrize("there", [True, False])
def test_a_list_is_no_other_file_of_the_run(modelflow_here, job, there):
    if there:
        (job / "o.done").write_text('{"my": 1}\n')
    done = modelflow_here(*RUN[:-1], "./o.done", "--resume", "o.done")
    message = "--resume: is the file of --output output=./o.done; give each a file of its own"
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert (job / "o.done").exists() == there
    done = modelflow_here(*RUN, "--resume", "o.done", "--errors", "o.jsonl")
    assert "--errors: is the file of --output output=o.jsonl" in done.stderr


@pytest.mark.parametrize(
    ("words", "option", "reader"),
    [
        (("--output", "texts/7.txt"), "--output output=texts/7.txt", "--input input"),
        (("--output", "link"), "--output output=link", "--input input"),
        (("--output", "hard.jsonl"), "--output output=hard.jsonl", "--input input"),
        (("--errors", "./texts/7.txt"), "--errors", "--input input"),
        (("--resume", "texts/7.txt", "--output", "o.jsonl"), "--resume", "--input input"),
        (("--trace", "texts/7.txt"), "--trace", "--input input"),
        (("--output", "job.dot"), "--output output=job.dot", "GRAPH"),
        (("--errors", "job.dot"), "--errors", "GRAPH"),
        (("--output", "jobs.py"), "--output output=jobs.py", "GRAPH"),
    ],
)
def test_nothing_is_written_over_what_is_read(modelflow_here, job, words, option, reader):
    (job / "link").symlink_to("texts/7.txt")
    os.link(job / "texts" / "7.txt", job / "hard.jsonl")
    before = (job / "job.dot").read_text(), (job / "texts" / "7.txt").read_text()
    done = modelflow_here(*RUN[:4], *words)
    assert done.returncode == 2
    assert f"{option}: " in done.stderr
    assert f" is read by {reader}, and would be overwritten; give another file" in done.stderr
    assert before == ((job / "job.dot").read_text(), (job / "texts" / "7.txt").read_text())
    assert (
        modelflow_here(*RUN[:4], "--output", "/dev/null", "--errors", "/dev/null").returncode == 1
    )


def test_a_result_of_a_folder_is_not_written_over_an_input(modelflow_here, job):
    (job / "few").mkdir()
    (job / "few" / "000001_b.json").write_text("mine")
    (job / "few" / "b.txt").write_text("b")
    done = modelflow_here("run", "job.dot", "--input", "few", "--output", "few/")
    assert done.returncode == 1
    assert "few/000001_b.json is one of the inputs; give another folder" in done.stderr
    assert (job / "few" / "000001_b.json").read_text() == "mine"
    assert (job / "few" / "000000_000001_b.json").read_text() == "4\n"


@pytest.mark.parametrize("output", ["parts.parquet", "out/"])
def test_results_of_another_list_stay(modelflow_here, job, output):
    if output.endswith("parquet"):
        pytest.importorskip("pyarrow")
    into = (*RUN[:-1], output)
    modelflow_here(*into, "--resume", "o.done")
    before = sorted(os.listdir(job / output))
    for _ in range(2):  # a list that was not begun counts as none
        done = modelflow_here(*into, "--resume", "o.dnoe")
        assert "is there already, and the list that --resume names knows" in done.stderr
        assert (done.returncode, sorted(os.listdir(job / output))) == (1, before)
        assert not (job / "o.dnoe").exists()
    assert "0 items" in modelflow_here(*into, "--resume", "o.done").stderr


@pytest.mark.parametrize("output", ["-", "o.jsonl", "out/", "o.parquet"])
def test_a_file_whose_name_is_no_utf8_is_worked_on_as_any_other(modelflow_here, job, output):
    if output.endswith("parquet"):
        pytest.importorskip("pyarrow")
    try:
        for name, text in ((b"\xff.txt", "abc"), (b"\xfe.txt", "bad")):
            (job / "texts" / os.fsdecode(name)).write_text(text)
    except OSError:
        pytest.skip("this disk takes no such names")
    done = modelflow_here(*RUN[:-1], output, "--errors", "bad.jsonl")
    assert (done.returncode, "62 items, 6 errors" in done.stderr) == (1, True), done.stderr
    assert lines(job / "bad.jsonl")[-1]["path"] == "texts/\udcfe.txt"
    if output == "out/":
        assert len(os.listdir(os.fsencode(job / "out"))) == 56
    elif output != "o.parquet":
        text = done.stdout if output == "-" else (job / output).read_text()
        assert json.loads(text.splitlines()[-1])["path"] == "texts/\udcff.txt"


def test_errors_that_the_disk_does_not_take_end_the_job_with_one_line(modelflow_here, job):
    (job / "lost.py").write_text(
        "import modelflow\n"
        "@modelflow.flowunit(outputs=())\n"
        "def lost(data):\n"
        "    raise ValueError('is bad')\n"
    )
    (job / "lost.dot").write_text(graph(unit="lost:lost", output=""))
    message = "--errors /dev/full: cannot be written: No space left on device\n"
    for name in ("job.dot", "lost.dot"):
        words = ("run", name, "--input", "texts", "--errors", "/dev/full")
        done = modelflow_here(*words)
        assert done.returncode == 1
        assert done.stderr.endswith(message)


def test_results_are_utf8_whatever_the_terminal_takes(modelflow_here, job):
    (job / "texts" / "0\xe9.txt").write_text("")
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    words = [sys.executable, "-m", "modelflow", *RUN[:3], "texts/0\xe9.txt"]
    done = programs.run(words, cwd=job, env=env, text=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["path"] == "texts/0\xe9.txt"


def test_a_file_that_no_reader_takes_is_the_error_of_its_item(modelflow_here, job):
    (job / "few").mkdir()
    for name, contents in {
        "0.txt": b"a",
        "1.npy": b"",
        "2.npy": b"no array",
        "3.txt": b"b",
    }.items():
        (job / "few" / name).write_bytes(contents)
    done = modelflow_here("run", "job.dot", "--input", "few", "--output", "few.jsonl")
    assert done.returncode == 1
    assert [line.get("error", {}).get("phase") for line in lines(job / "few.jsonl")] == [
        *(None, "read", "read", None)
    ]


def test_a_long_name_and_a_masked_array_stop_nobody(modelflow_here, job):
    (job / "few").mkdir()
    for name in ("a" * 250, "b"):
        (job / "few" / f"{name}.txt").write_text(name)
    (job / "masked.py").write_text(
        "import modelflow, numpy as np\n"
        "@modelflow.flowunit\n"
        "def masked(data):\n"
        "    return len(data) if len(data) > 1 else np.ma.masked_array([1, 2], [0, 1])\n"
    )
    (job / "masked.dot").write_text(graph("output", unit="masked:masked"))
    done = modelflow_here("run", "masked.dot", "--input", "few", "--output", "out/")
    assert done.returncode == 1
    assert "2 items, 1 error" in done.stderr
    assert (
        "b.txt: node 'output' (unit 'output') failed in write: TypeError: got a masked"
        in done.stderr
    )
    (written,) = (job / "out").iterdir()
    assert written.name == f"000000_{'a' * 220}.json"
