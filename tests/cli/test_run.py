import http.client
import json
import os
import signal
import socket
import subprocess
import sys

import cv2
import numpy as np
import pytest

from modelflow.buffer import Buffer
from modelflow.job.error_report import ErrorReport
from modelflow.job.inputs import feeds_of
from modelflow.job.writer import ResultWriter
from tests import programs
from tests.cli import impatient


def modelflow_started(folder, *arguments, command=(sys.executable, "-m", "modelflow"), **more):
    """Yields the command ``run`` in a separate process, for the time of the block."""
    command = [*command, "run", *arguments]
    return programs.started(command, stderr=subprocess.PIPE, text=True, cwd=folder, **more)


def lines(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_results_are_json_lines_in_natural_order_and_the_summary_is_on_stderr(modelflow_here):
    done = modelflow_here("run", "small.toml", "--input", "input=photos/*.png")
    assert done.returncode == 0, done.stderr
    found = lines(done)
    assert [line["path"] for line in found] == ["photos/9.png", "photos/10.png"]
    assert [line["index"] for line in found] == [0, 1]
    assert found[0]["data"]["shape"] == [6, 8, 3]
    assert found[0]["data"]["max"] == 9
    assert found[0]["meta"]["width"] == 8
    assert "2 items, 0 errors" in done.stderr


@pytest.mark.parametrize("what", ["photos", "photos/9.png", "input=photos"])
def test_the_only_input_need_not_be_named(modelflow_here, what):
    done = modelflow_here("run", "small.toml", "--input", what)
    assert done.returncode == 0, done.stderr
    assert lines(done)[0]["path"] == "photos/9.png"


def test_an_image_comes_from_standard_input(modelflow_here, folder):
    data = (folder / "photos" / "9.png").read_bytes()
    done = modelflow_here("run", "small.toml", "--input", "-", input=data, text=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["data"]["max"] == 9


def test_results_go_into_a_folder_as_files(modelflow_here, folder):
    done = modelflow_here("run", "small.toml", "--input", "photos", "--output", "output=out/")
    assert done.returncode == 0, done.stderr
    assert sorted(os.listdir(folder / "out")) == ["000000_9.png", "000001_10.png"]
    assert cv2.imread(str(folder / "out" / "000001_10.png")).max() == 10
    assert done.stdout == ""


def test_what_is_no_image_goes_into_a_folder_as_an_array(modelflow_here, folder):
    (folder / "parts.py").write_text(
        "import modelflow, numpy as np\n"
        "@modelflow.flowunit\n"
        "def part(image):\n"
        "    'Gives a part of the numbers.'\n"
        "    return np.array(image).reshape(-1)[:5]\n"
    )
    (folder / "parts.dot").write_text(
        'digraph { input [type=input] d [flowunit=image_decoder] p [flowunit="parts:part"] '
        "output [type=output] input -> d -> p -> output }"
    )
    done = modelflow_here("run", "parts.dot", "--input", "photos", "--output", "out/")
    assert done.returncode == 0, done.stderr
    assert np.load(folder / "out" / "000001_10.npy").tolist() == [10] * 5


def test_json_lines_hold_the_digits_of_a_float32_and_null_for_what_is_not_finite(
    modelflow_here, folder
):
    (folder / "tenths.py").write_text(
        "import modelflow, numpy as np\n"
        "@modelflow.flowunit\n"
        "def tenth(image):\n"
        "    'Returns a tenth, and a NaN.'\n"
        "    return modelflow.Buffer(np.float32([0.1, np.nan]), {'score': np.float32(0.1)})\n"
    )
    (folder / "tenths.dot").write_text(
        'digraph { input [type=input] p [flowunit="tenths:tenth"] output [type=output] '
        "input -> p -> output }"
    )
    for more in ((), ("--full",)):
        done = modelflow_here("run", "tenths.dot", "--input", "photos/9.png", *more)
        assert '"data": [0.1, null]' in done.stdout
        assert '"score": 0.1}' in done.stdout


def test_results_go_into_a_file_as_json_lines(modelflow_here, folder):
    done = modelflow_here("run", "small.toml", "--input", "photos", "--output", "out.jsonl")
    assert done.returncode == 0, done.stderr
    assert len((folder / "out.jsonl").read_text().splitlines()) == 2


def test_a_broken_picture_is_one_error_line_and_the_exit_code_is_1(modelflow_here, folder):
    (folder / "photos" / "9b.jpg").write_bytes(b"\xff\xd8\xff\xe0 not a picture")
    for more, code in (((), 1), (("--keep-going",), 0)):
        done = modelflow_here("run", "small.toml", "--input", "photos", *more)
        assert done.returncode == code
        found = lines(done)
        assert ["error" in line for line in found] == [False, True, False]
        error = found[1]["error"]
        assert (error["node"], error["unit"], error["type"]) == (
            "decode",
            "image_decoder",
            "ValueError",
        )
        assert "3 items, 1 error, " in done.stderr
        assert "\nerror: photos/9b.jpg: node 'decode' (unit 'image_decoder')" in done.stderr


def test_an_error_names_the_line_of_the_users_code(modelflow_here, folder):
    unit = "import modelflow\n\n@modelflow.flowunit\ndef odd(value):\n    raise KeyError(value)\n"
    (folder / "mine.py").write_text(unit)
    (folder / "odd.dot").write_text(
        'digraph { input [type=input] odd [flowunit="mine:odd"] output [type=output]'
        " input -> odd -> output }"
    )
    done = modelflow_here("run", "odd.dot", "--input", "photos/9.png")
    assert done.returncode == 1
    assert lines(done)[0]["error"]["where"] == "mine.py:5"


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("small.toml/x/", "cannot make the folder small.toml/x: Not a directory"),
        ("small.toml/x.json", "cannot make the folder small.toml: File exists"),
        ("other.png/", "cannot make the folder other.png: File exists"),
        (f"{'x' * 300}.json", "x.json: File name too long"),
    ],
)
def test_an_output_that_cannot_be_written_is_said(modelflow_here, folder, where, message):
    (folder / "other.png").touch()
    done = modelflow_here("run", "small.toml", "--input", "photos", "--output", f"output={where}")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"--output output={where}: cannot " in done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("where", ["/dev/full", "-", "full.json"])
def test_a_disk_that_is_full_is_said_with_how_far_the_run_came(modelflow_here, folder, where):
    (folder / "full.json").symlink_to("/dev/full")
    words = ("run", "small.toml", "--input", "photos", "--output", where)
    if where == "-":
        command = f"python -m modelflow {' '.join(words)} > /dev/full"
        done = programs.run(["sh", "-c", command], cwd=folder)
    else:
        done = modelflow_here(*words)
    assert done.returncode == 1
    named = "standard output" if where == "-" else where
    assert f"--output {where}: cannot write {named}: No space left on device" in done.stderr
    assert "failed: " in done.stderr
    assert "Traceback" not in done.stderr


def test_a_table_that_cannot_be_written_is_said(folder):
    pytest.importorskip("pyarrow")
    command = (
        "ulimit -f 1; exec python -m modelflow run small.toml --input photos --output t.parquet"
    )
    done = programs.run(["sh", "-c", command], cwd=folder)
    assert done.returncode == 1
    assert "--output t.parquet: cannot write t.parquet: " in done.stderr
    assert "Traceback" not in done.stderr
    assert list(folder.glob("*.parquet*")) == []


def test_a_result_that_was_collapsed_names_the_file_that_it_is_of(modelflow_here, folder):
    (folder / "words.py").write_text(
        "import modelflow\n\n\n"
        "@modelflow.flowunit(kind='expand')\ndef split(data):\n"
        "    return bytes(data).decode().split()\n\n\n"
        "@modelflow.flowunit(kind='collapse')\ndef total(words):\n"
        "    return sum(map(int, words))\n"
    )
    (folder / "total.dot").write_text(
        'digraph { input [type=input] split [flowunit="words:split"] '
        'total [flowunit="words:total"] output [type=output] '
        "input -> split -> total -> output }"
    )
    for number, text in enumerate(("1 2", "3 x", "4 5")):
        (folder / f"{number}.txt").write_text(text)
    resumed = ["--resume", "done", "--output", "out.jsonl"]
    for more in ([], resumed):
        done = modelflow_here("run", "total.dot", "--input", "?.txt", *more)
        text = (folder / "out.jsonl").read_text() if more else done.stdout
        found = list(map(json.loads, text.splitlines()))
        assert [line["path"] for line in found] == ["0.txt", "1.txt", "2.txt"]
        assert [line.get("data") for line in found] == [3, None, 9]
        assert "error: 1.txt: node 'total'" in done.stderr
    (folder / "00.txt").write_text("7")  # goes behind the earlier results
    modelflow_here("run", "total.dot", "--input", "*.txt", *resumed)
    last = json.loads((folder / "out.jsonl").read_text().splitlines()[-1])
    assert (last["index"], last["path"], last["data"]) == (3, "00.txt", 7)


def test_a_file_that_cannot_be_read_is_an_error_of_its_own(modelflow_here, folder):
    picture = folder / "photos" / "9.png"
    picture.unlink()
    picture.symlink_to("/proc/self/mem")  # a file whose beginning is unreadable, for root too
    done = modelflow_here("run", "small.toml", "--input", "photos")
    assert done.returncode == 1
    assert ["error" in line for line in lines(done)] == [True, False]


def test_arrays_are_read_from_npy_files_and_never_unpickled(modelflow_here, folder):
    (folder / "through.dot").write_text(
        "digraph { input [type=input] r [flowunit=resize, width=2, height=2] "
        "output [type=output] input -> r -> output }"
    )
    np.save(folder / "a.npy", np.full((4, 4, 3), 7, np.uint8))
    np.save(folder / "b.npy", np.array([{}], dtype=object), allow_pickle=True)
    done = modelflow_here("run", "through.dot", "--input", "*.npy")
    good, bad = lines(done)
    assert good["data"]["shape"] == [2, 2, 3]
    assert "allow_pickle=False" in bad["error"]["message"]
    assert done.returncode == 1


def test_set_and_arg_change_the_graph(modelflow_here):
    done = modelflow_here(
        "run",
        "small.toml",
        "--input",
        "photos/9.png",
        "--set",
        "shrink.image_height=4",
        "--arg",
        "width=5",
    )
    assert lines(done)[0]["data"]["shape"] == [4, 5, 3]


def test_sync_gives_the_same_results(modelflow_here):
    threaded = modelflow_here("run", "small.toml", "--input", "photos")
    inline = modelflow_here("run", "small.toml", "--input", "photos", "--sync")
    assert inline.stdout == threaded.stdout
    assert inline.returncode == 0


@pytest.mark.parametrize("sync", [(), ("--sync",)])
def test_a_source_is_run_to_its_end_into_an_output(modelflow_here, folder, sync):
    (folder / "source.dot").write_text(
        'digraph { files [flowunit=file_source, path="photos"] d [flowunit=image_decoder] '
        "output [type=output] files -> d -> output }"
    )
    done = modelflow_here("run", "source.dot", *sync)
    assert done.returncode == 0, done.stderr
    assert len(lines(done)) == 2


def test_where_nothing_comes_out_the_items_are_what_the_last_node_was_given(modelflow_here, folder):
    pytest.importorskip("av")
    from tests.flowunits.videos import COPY, write_video

    source = write_video(folder / "v.mp4", 60)
    graph = COPY.replace(
        "[flowunit=video_decoder]", "[flowunit=video_decoder, keyframes_only=true]"
    )
    (folder / "copy.dot").write_text(graph % (source, "", folder / "copy.mp4"))
    done = modelflow_here("run", "copy.dot")
    assert done.returncode == 0, done.stderr
    assert "5 items, 0 errors" in done.stderr  # frames; 60 packets


@pytest.mark.parametrize("sync", [(), ("--sync",)])
def test_errors_that_end_at_a_sink_are_counted(modelflow_here, folder, sync):
    (folder / "photos" / "x.jpg").write_bytes(b"no picture")
    (folder / "sink.dot").write_text(
        'digraph { files [flowunit=file_source, path="photos"] d [flowunit=image_decoder] '
        'save [flowunit=file_sink, path="saved/{stem}.png"] files -> d -> save }'
    )
    done = modelflow_here("run", "sink.dot", *sync)
    assert done.returncode == 1
    assert "3 items, 1 error, " in done.stderr
    assert "error: photos/x.jpg: node 'd' (unit 'image_decoder')" in done.stderr
    assert sorted(os.listdir(folder / "saved")) == ["10.png", "9.png"]


SOURCE = """
import threading
import modelflow

over = threading.Event()


class Numbers(modelflow.FlowUnit):
    SPEC = modelflow.FlowUnitSpec(
        "numbers", {"cpu": lambda: Numbers()}, outputs=(modelflow.Port("n"),),
        kind=modelflow.Source(opens_sessions=True))

    def process(self, ctx):
        ctx.emit([0, 1, 2, 3])
        ctx.finish()

    def close(self):
        over.set()


@modelflow.flowunit(outputs=())
def fail(n):
    "Fails when the source is long over."
    over.wait(60)
    raise KeyError("lost")
"""


def test_errors_of_sessions_that_a_source_opened_are_counted(modelflow_here, folder):
    (folder / "late.py").write_text(SOURCE)
    (folder / "late.dot").write_text(
        'digraph { n [flowunit="late:Numbers"] f [flowunit="late:fail"] n -> f }'
    )
    done = modelflow_here("run", "late.dot")
    assert done.returncode == 1
    assert "4 errors" in done.stderr
    told = "node 'f' (unit 'fail') failed in process: KeyError: 'lost' (late.py:25)"
    assert [line for line in done.stderr.splitlines() if "KeyError" in line] == [
        *(4 * [f"error: {told}"]),
        f"      4 x KeyError in 'f', first: {told}",
    ]
    assert modelflow_here("run", "late.dot", "--keep-going").returncode == 0


@pytest.mark.parametrize("sync", [(), ("--sync",)])
def test_errors_of_what_is_fed_into_sinks_are_told_with_their_files(modelflow_here, folder, sync):
    (folder / "fails.py").write_text(
        "import modelflow\n"
        "@modelflow.flowunit(outputs=())\n"
        "def fail(value: modelflow.Buffer):\n"
        "    'Fails.'\n"
        "    raise ValueError('all the same')\n"
    )
    (folder / "fails.dot").write_text(
        'digraph { input [type=input] f [flowunit="fails:fail"] input -> f }'
    )
    done = modelflow_here("run", "fails.dot", "--input", "photos", *sync)
    assert done.returncode == 1
    assert "2 items, 2 errors" in done.stderr
    told = "node 'f' (unit 'fail') failed in process: ValueError: all the same (fails.py:5)"
    for name in ("9", "10"):
        assert f"error: photos/{name}.png: {told}" in done.stderr
    assert f"      2 x ValueError in 'f', first: photos/9.png: {told}" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("small.toml",), 2, "the graph's input 'input' gets nothing; give for example --input"),
        (("small.toml", "--input", "nothing*"), 1, "nothing fits it as a pattern"),
        (("small.toml", "--input", "inptu=photos"), 2, "no input 'inptu'; did you mean 'input'"),
        (("small.toml", "--input", "photos", "--input", "photos"), 2, "is given twice"),
        (("small.toml", "--input", "photos", "--output", "x=y"), 2, "no output 'x'"),
        (("small.toml", "--set", "shrink"), 2, "expected KEY=VALUE"),
        (("small.toml", "--set", "shrnk.device=cpu"), 1, "did you mean 'shrink'"),
        (("smal.toml",), 1, "there is no such file; did you mean 'small.toml'"),
        (("no_such_name",), 1, "no graph is named 'no_such_name'"),
    ],
)
def test_wrong_arguments_say_what_is_wrong(modelflow_here, arguments, code, message):
    done = modelflow_here("run", *arguments)
    assert message in done.stderr
    assert done.returncode == code
    assert "Traceback" not in done.stderr


def test_a_unit_that_does_not_open_is_named(modelflow_here, folder):
    (folder / "graph.dot").write_text(
        'digraph { files [flowunit=file_source, path="nothing/*"] d [flowunit=image_decoder] '
        "output [type=output] files -> d -> output }"
    )
    done = modelflow_here("run", "graph.dot")
    assert done.returncode == 1
    assert "node 'files' (unit 'file_source') failed in open" in done.stderr
    assert "Traceback" not in done.stderr


def test_ctrl_c_ends_at_once_with_130(folder):
    (folder / "endless.dot").write_text(
        'digraph { files [flowunit=file_source, path="photos", repeat=-1] '
        "d [flowunit=image_decoder] output [type=output] files -> d -> output }"
    )
    with modelflow_started(folder, "endless.dot", stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=programs.LIMIT)
    assert process.returncode == 130, errors
    assert errors.endswith("stopped\n")
    assert "Traceback" not in errors


def test_ctrl_c_ends_with_130_and_names_the_unit_that_does_not_come_back(folder):
    (folder / "stuck.py").write_text(
        "import threading\nimport modelflow\n"
        "class Stuck(modelflow.FlowUnit):\n"
        "    def open(self, config):\n"
        "        print('opens', flush=True)\n"
        "        threading.Event().wait()\n"
        "    def process(self, ctx):\n"
        "        pass\n"
        "stuck = modelflow.FlowUnitSpec('stuck', {'cpu': Stuck}, inputs=(modelflow.Port('in'),))\n"
    )
    (folder / "stuck.dot").write_text(
        'digraph { files [flowunit=file_source, path="photos"] s [flowunit="stuck:stuck"] '
        "files -> s }"
    )
    with modelflow_started(
        folder, "stuck.dot", stdout=subprocess.PIPE, command=impatient.COMMAND
    ) as process:
        assert process.stdout.readline() == "opens\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=programs.LIMIT)
    assert process.returncode == 130, errors
    assert "node 's' (unit 'stuck') failed in open: did not return within" in errors
    assert "Traceback" not in errors


def test_sigterm_finishes_what_is_under_way_and_ends_with_143(folder):
    (folder / "endless.dot").write_text(
        'digraph { files [flowunit=file_source, path="photos", repeat=-1] '
        "d [flowunit=image_decoder] output [type=output] files -> d -> output }"
    )
    with modelflow_started(folder, "endless.dot", "--output", "out") as process:
        while not (folder / "out").is_dir() or len(list((folder / "out").iterdir())) < 3:
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=programs.LIMIT)
    assert process.returncode == 143, errors
    written = len(list((folder / "out").iterdir()))
    assert errors.startswith(f"{written} items, "), errors


def test_sigterm_while_a_unit_opens_ends_the_run_in_order_with_143(folder):
    (folder / "slow_unit.py").write_text(
        "import pathlib, time, modelflow\n"
        "class Slow(modelflow.FlowUnit):\n"
        "    def open(self, config):\n"
        "        pathlib.Path('opening').touch()\n"
        "        while not pathlib.Path('go').exists(): time.sleep(0.01)\n"
        "    def process(self, ctx):\n"
        "        ctx.emit(ctx.input())\n"
        "    def close(self):\n"
        "        pathlib.Path('closed').touch()\n"
        "Slow.SPEC = modelflow.FlowUnitSpec('slow', {'cpu': Slow},\n"
        "    inputs=(modelflow.Port('in'),), outputs=(modelflow.Port('out'),))\n"
    )
    (folder / "slow.dot").write_text(
        'digraph { files [flowunit=file_source, path="photos", repeat=-1] '
        's [flowunit="slow_unit:Slow"] output [type=output] files -> s -> output }'
    )
    with modelflow_started(folder, "slow.dot") as process:
        while not (folder / "opening").exists():
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        (folder / "go").touch()
        _, errors = process.communicate(timeout=programs.LIMIT)
    assert process.returncode == 143, errors
    assert (folder / "closed").exists()


def test_sigterm_answers_the_requests_under_way(folder):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "slow_unit.py").write_text(
        "import pathlib, time, modelflow\n"
        "@modelflow.flowunit\n"
        "def slow(body):\n"
        "    'Waits for a file.'\n"
        "    pathlib.Path('begun').touch()\n"
        "    while not pathlib.Path('go').exists(): time.sleep(0.01)\n"
        "    return body\n"
    )
    (folder / "web.dot").write_text(
        f'digraph {{ r [flowunit=httpserver_sync_receive, endpoint="http://127.0.0.1:{port}", '
        'time_out_ms=600000] w [flowunit="slow_unit:slow"] a [flowunit=httpserver_sync_reply] '
        "r -> w -> a }"
    )
    with modelflow_started(folder, "web.dot") as process:
        assert f"listens at http://127.0.0.1:{port}/" in process.stderr.readline()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=programs.LIMIT)
        connection.request("POST", "/", b"body")
        while not (folder / "begun").exists():
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        (folder / "go").touch()
        assert connection.getresponse().read() == b"body"
        connection.close()
        process.communicate(timeout=programs.LIMIT)
    assert process.returncode == 143


def test_a_reader_that_goes_away_ends_the_run_quietly(folder):
    (folder / "endless.dot").write_text(
        'digraph { files [flowunit=file_source, path="photos", repeat=-1] '
        "d [flowunit=image_decoder] output [type=output] files -> d -> output }"
    )
    done = programs.run(
        ["sh", "-c", "python -m modelflow run -q endless.dot | head -n 1"], cwd=folder
    )
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""


def test_a_folder_that_is_not_empty_is_told_of(modelflow_here):
    arguments = ("run", "small.toml", "--input", "photos", "--output", "out/")
    assert "not empty" not in modelflow_here(*arguments).stderr
    done = modelflow_here(*arguments)
    assert "note: out/ is not empty: its files stay next to the new files" in done.stderr
    assert done.returncode == 0


def test_results_in_a_folder_are_whole_or_not_there(tmp_path):
    written = []

    def interrupted(file, array, **more):
        file.write(b"half of it")
        written.append(array)
        raise KeyboardInterrupt

    errors = ErrorReport(None, print, is_resumed=False)
    writer = ResultWriter([f"{tmp_path}/out/"], ["output"], errors, print).open(True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(np, "save", interrupted)
        with pytest.raises(KeyboardInterrupt):
            writer.write("output", Buffer(np.zeros(3)))
    assert len(written) == 1
    assert os.listdir(tmp_path / "out") == []


@pytest.mark.parametrize("what", ["large.bin", "-"])
def test_what_is_larger_than_an_item_may_be_is_its_error(folder, monkeypatch, what):
    monkeypatch.setattr("modelflow.job.inputs._MAX_BYTES", 9)
    (folder / "large.bin").write_bytes(bytes(10))
    (feed,) = feeds_of([what], ["input"])
    with (folder / "large.bin").open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        (buffer,) = feed
    assert f"{what}: larger than 9 bytes" in str(buffer.error)
