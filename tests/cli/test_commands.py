import json

import click
import pytest

from modelflow.cli.main import cli


def test_check_says_that_all_is_well(modelflow_here):
    done = modelflow_here("check", "small.toml")
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        done.stdout == "small.toml: ok: 4 nodes, 3 edges, 4 threads\n"
        or "ok: 4 nodes" in done.stdout
    )


def test_check_lists_every_mistake_with_its_line(modelflow_here, folder):
    text = (folder / "small.toml").read_text()
    wrong = text.replace("resize", "resise").replace(
        "image_decoder,", "image_decoder, pix_fmt=rbg,"
    )
    (folder / "wrong.toml").write_text(wrong)
    done = modelflow_here("check", "wrong.toml")
    assert done.returncode == 1
    assert done.stdout == ""
    first, second = done.stderr.splitlines()
    assert first.startswith("wrong.toml:9: node 'decode': option 'pix_fmt': got 'rbg'")
    assert second.startswith(
        "wrong.toml:10: node 'shrink': unknown flow unit 'resise'; did you mean"
    )


def test_check_advises_and_all_is_well_nevertheless(modelflow_here, folder):
    text = (folder / "small.toml").read_text()
    (folder / "full.toml").write_text(text.replace(", scaled_decode=false", ""))
    done = modelflow_here("check", "full.toml")
    assert done.returncode == 0
    assert "full.toml: ok: 4 nodes" in done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith("advice: full.toml:9: node 'decode': only resize reads its pictures")
    assert "scaled_decode=true, min_width=8, min_height=6." in line


def test_check_verbose_explains_the_plan(modelflow_here):
    done = modelflow_here("check", "-v", "small.toml", "--set", "shrink.threads=3")
    row = next(line for line in done.stdout.splitlines() if line.startswith("shrink"))
    assert "3 (as the node says)" in row
    assert "in_image 32" in row
    assert "transfers: none" in done.stdout


def test_check_verbose_shows_which_nodes_run_as_one_stage_and_why(modelflow_here, folder):
    text = (folder / "small.toml").read_text()
    (folder / "auto.toml").write_text(text.replace("[graph]", '[graph]\nfuse = "auto"'))
    (folder / "named.toml").write_text(text.replace("image_height=6", "image_height=6, fuse=a"))
    auto = modelflow_here("check", "-v", "auto.toml")
    assert "on those of decode ([graph] fuse=auto)" in auto.stdout, auto.stderr
    named = modelflow_here("check", "-v", "named.toml", "--set", "decode.fuse=a")
    assert "on those of decode (fuse=a)" in named.stdout, named.stderr


def test_check_verbose_prints_what_the_graph_takes_and_gives(modelflow_here):
    done = modelflow_here("check", "-v", "small.toml")
    found = [line for line in done.stdout.splitlines() if line.startswith(("input ", "output "))]
    assert found == [
        "input input: any type, an item a row",
        "output output: UINT8 (?, ?, ?), an item a row",
    ]


def test_units_lists_every_unit_and_describes_one(modelflow_here):
    listed = modelflow_here("units")
    assert "image_decoder" in listed.stdout
    assert listed.returncode == 0
    one = modelflow_here("units", "resize")
    assert "image_width  (a whole number; required; also width)" in one.stdout
    assert "my_node [flowunit=resize, image_width=..., image_height=...]" in one.stdout


def test_units_as_json_can_be_read(modelflow_here):
    (unit,) = json.loads(modelflow_here("units", "image_decoder", "--json").stdout)
    assert unit["inputs"][0]["name"] == "in_encoded_image"


def test_units_of_an_unknown_name_gives_the_nearest(modelflow_here):
    done = modelflow_here("units", "resiz")
    assert done.returncode == 1
    assert "did you mean 'resize'" in done.stderr


def test_new_unit_and_graph_work_together(modelflow_here, folder):
    assert modelflow_here("new", "unit", "louder", "--dir", "units").returncode == 0
    (folder / "g.toml").write_text(
        "[driver]\ndir = ['units']\n[graph]\ngraphconf = '''digraph { input [type=input] "
        "louder output [type=output] input -> louder -> output }'''\n"
    )
    assert modelflow_here("check", "g.toml").returncode == 0
    assert modelflow_here("new", "graph", "fresh").returncode == 0
    assert modelflow_here("check", "fresh.toml").returncode == 0
    again = modelflow_here("new", "graph", "fresh")
    assert again.returncode == 1
    assert "is there already" in again.stderr


@pytest.mark.parametrize("form", ["toml", "graphviz", "yaml", "json", "dot"])
def test_convert_keeps_the_graph(modelflow_here, folder, form):
    name = f"other.{'toml' if form == 'graphviz' else form}"
    done = modelflow_here("convert", "small.toml", "--format", form, "-o", name)
    assert done.returncode == 0, done.stderr
    more = ("--set", "shrink.image_width=8") if form == "dot" else ()
    done = modelflow_here("run", name, "--input", "photos/9.png", *more)
    assert json.loads(done.stdout)["data"]["shape"] == [6, 8, 3], done.stderr


@pytest.mark.parametrize("name", ["p.svg", "p.dot", "p.mmd"])
def test_draw_writes_a_picture(modelflow_here, folder, name):
    done = modelflow_here("draw", "small.toml", "-o", name)
    assert done.returncode == 0, done.stderr
    data = (folder / name).read_bytes()
    assert data.startswith({"p.svg": b"<", "p.dot": b"digraph", "p.mmd": b"flow"}[name])
    assert b"shrink" in data


def test_version_names_what_is_installed(modelflow_here):
    done = modelflow_here("version")
    assert done.stdout.startswith("modelflow ")
    assert "devices: cpu:0" in done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(modelflow_here, shell):
    assert "modelflow" in modelflow_here("completion", shell).stdout


@pytest.mark.parametrize(
    ("direction", "words"), [("down", "flowchart TD"), ("auto", "flowchart LR")]
)
def test_a_picture_has_the_direction_of_the_option(modelflow_here, direction, words):
    done = modelflow_here(
        "draw", "small.toml", "--format", "mermaid", "-o", "-", "--direction", direction
    )
    assert done.stdout.startswith(words)


@pytest.mark.parametrize("command", ["run", "check", "draw", "convert", "units", "new", "version"])
def test_every_command_has_help(modelflow_here, command):
    done = modelflow_here(command, "--help")
    assert done.returncode == 0
    assert "Usage: modelflow" in done.stdout
    assert "\\b" not in done.stdout


def test_the_list_of_commands_has_the_first_sentence_of_the_help_of_each():
    context = click.Context(cli, terminal_width=400, max_content_width=400)
    listed = cli.get_help(context).partition("Commands:\n")[2].splitlines()
    commands = [cli.get_command(context, name) for name in cli.list_commands(context)]
    shown = [one for one in commands if not one.hidden]
    assert [line.split(maxsplit=1) for line in listed] == [
        [one.name, one.get_short_help_str(400)] for one in shown
    ]


def test_debug_shows_the_traceback(modelflow_here):
    done = modelflow_here("--debug", "check", "nothing.toml")
    assert "Traceback" in done.stderr
    assert "Traceback" not in modelflow_here("check", "nothing.toml").stderr


def test_check_answers_editors_in_json(modelflow_here, folder):
    (folder / "wrong.toml").write_text(
        (folder / "small.toml").read_text().replace("_width", "_wdth")
    )
    done = modelflow_here("check", "--json", "wrong.toml")
    found = json.loads(done.stdout)
    assert (done.returncode, found["ok"]) == (1, False)
    first = found["findings"][0]
    assert (first["file"], first["line"], first["node"]) == ("wrong.toml", 10, "shrink")
    assert "did you mean 'image_width'?" in first["message"]
    done = modelflow_here("check", "--json", "small.toml")
    found = json.loads(done.stdout)
    assert (done.returncode, found["ok"], found["findings"]) == (0, True, [])
    assert [row["node"] for row in found["plan"]] == ["decode", "shrink"]


def test_what_no_plan_can_be_made_of_is_a_finding_in_json(modelflow_here, folder):
    text = "digraph { i [type=input] a [flowunit=mean, fuse=x] b [flowunit=mean] "
    text += "c [flowunit=mean, fuse=x] o [type=output] i -> a -> b -> c -> o }"
    (folder / "apart.dot").write_text(text)
    done = modelflow_here("check", "--json", "apart.dot")
    (finding,) = json.loads(done.stdout)["findings"]
    assert done.returncode == 1
    assert "node 'c': fuse='x': it cannot run with node 'a'" in finding["message"]


OPENED = """
import modelflow, pathlib

class Own(modelflow.FlowUnit):
    SPEC = modelflow.FlowUnitSpec("own", {"cpu": lambda: Own()}, outputs=(modelflow.Port("out"),))

    def open(self, config):
        pathlib.Path("opened").touch()

    def process(self, ctx):
        pathlib.Path("processed").touch()
        ctx.finish()

    def close(self):
        pathlib.Path("closed").touch()
"""


def test_check_opens_units_where_it_is_asked_to_and_runs_none(modelflow_here, folder):
    (folder / "own.py").write_text(OPENED)
    (folder / "own.dot").write_text(
        'digraph { own [flowunit="own:Own"] output [type=output] own -> output }'
    )
    assert modelflow_here("check", "own.dot").returncode == 0
    assert not (folder / "opened").exists()
    assert modelflow_here("check", "--open", "own.dot").returncode == 0
    assert (folder / "opened").exists()
    assert (folder / "closed").exists()
    assert not (folder / "processed").exists()


def test_units_may_stand_beside_a_graph_in_another_folder(modelflow_here, folder):
    (folder / "there").mkdir()
    (folder / "there" / "own.py").write_text(OPENED)
    (folder / "there" / "own.dot").write_text(
        'digraph { own [flowunit="own:Own"] output [type=output] own -> output }'
    )
    done = modelflow_here("check", "there/own.dot")
    assert done.returncode == 0, done.stderr
