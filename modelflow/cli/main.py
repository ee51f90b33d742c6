"""The command ``modelflow``: its subcommands, global options and exit codes."""

import errno
import os
import sys
from importlib import import_module
from typing import Any

import click

import modelflow
from modelflow.cli.options.environment import name_variables
from modelflow.cli.options.parameters import Choice
from modelflow.cli.terminal.messages import (
    LevelFormatter,
    TerminalHandler,
    colour_wish,
    tell,
    tell_error,
    tell_failed,
)
from modelflow.errors import FlowFailed, ModelflowError
from modelflow.log import LEVELS, set_log_level
from modelflow.signals import ExitCode, limit_exit

# Command -> its module. Only the module of the command that runs is imported.
_COMMANDS = {
    "cache": "release.pack",
    "check": "graph.check",
    "completion": "completion",
    "convert": "graph.convert",
    "dashboard": "insight.live",
    "deploy": "release.deploy",
    "doctor": "insight.doctor",
    "draw": "graph.convert",
    "edit": "graph.edit",
    "graphs": "graph.lists",
    "init": "graph.new",
    "load": "insight.load",
    "model": "graph.model",
    "new": "graph.new",
    "pack": "release.pack",
    "profile": "insight.profile",
    "ray": "ray.command",
    "replica": "serve.replica",
    "run": "run.command",
    "schema": "graph.lists",
    "serve": "serve.command",
    "top": "insight.live",
    "tune": "insight.tune",
    "units": "graph.lists",
    "version": "version",
}

# The first sentence of the help of each command that is not hidden. `modelflow --help` shows these
# without importing the modules.
_SENTENCES = {
    "cache": "Lists and removes cached archives.",
    "check": "Finds every mistake of a graph, and prints each with its line.",
    "completion": "Prints the script that completes modelflow in a shell.",
    "convert": "Writes a graph in another format: native TOML, TOML with DOT, YAML, JSON or DOT.",
    "dashboard": (
        "Shows a running flow in the browser: its graph, rates, queues, errors and bottleneck."
    ),
    "deploy": (
        "Writes a folder to deploy GRAPH: an archive of the graph (see modelflow pack) and the "
        "files for TARGET."
    ),
    "doctor": ("Names the bottleneck of a flow, the evidence, the change to make, and its gain."),
    "draw": "Draws a graph, with a colour for each device and a mark for each kind of unit.",
    "edit": (
        "Edits a graph file in the browser: its picture, its units' options, its text, its "
        "mistakes."
    ),
    "graphs": "Lists the graphs that come with modelflow.",
    "init": "Writes the application NAME into a folder of that name.",
    "load": "Sends load to a graph or to a running server, and shows rates and latencies.",
    "model": "Shows a model's ports, a unit file for the model, and the time of a batch.",
    "new": "Writes a new flow unit, model or graph that works, for you to change.",
    "pack": "Packs a graph with its units, models, files and modules into one archive.",
    "profile": "Runs a graph for some time and shows how each node's workers spent the time.",
    "ray": "Runs graphs on a Ray cluster.",
    "run": "Runs a graph: a graph file, or the name of a graph that comes with modelflow.",
    "schema": "Prints the JSON Schema of graph files.",
    "serve": "Serves graphs and models to the clients of TensorFlow Serving and Open Inference.",
    "top": (
        "Shows the current figures of each node of a running flow: rates, use of its workers' "
        "time, queues."
    ),
    "tune": "Finds faster settings of threads, batch sizes and queues, and shows the change.",
    "units": "Lists every flow unit that a graph can use, or describes the unit NAME.",
    "version": "Prints the versions of modelflow and of its libraries, and the available devices.",
}

# Error numbers of a failed write to standard output. Its OSError names no file; others name one.
_UNWRITTEN = (errno.EBADF, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC)


class _Unread(Exception):  # noqa: N818 - no error of ours
    """Raised if the reader of standard output has closed the pipe (``| head``)."""


class _Commands(click.Group):
    def list_commands(self, _: click.Context) -> list[str]:
        return [*_COMMANDS]

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        width = formatter.width - 6 - max(map(len, _SENTENCES))
        rows = [
            (name, click.Command(name, help=sentence).get_short_help_str(width))
            for name, sentence in _SENTENCES.items()
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        # For an unknown name all commands are loaded, because click suggests the nearest name.
        for name in [cmd_name] if cmd_name in _COMMANDS else _COMMANDS:
            if name not in self.commands:
                module = import_module(f"modelflow.cli.{_COMMANDS[name]}")
                command: click.Command = getattr(module, name)
                name_variables(command, f"MODELFLOW_{name.upper()}", is_told=True)
                self.add_command(command)
        return super().get_command(ctx, cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()  # a failed write is reported here, not at the interpreter's exit
            return result
        except BrokenPipeError as error:  # click would end with 1
            raise _Unread from error


@click.group(
    cls=_Commands,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        "show_default": True,
    },
)
@click.option(
    "--log-level",
    type=Choice(list(LEVELS), case_sensitive=False),
    default="NOTICE",
    help="The lowest level of modelflow's own log messages to show.",
)
@click.option("--debug", is_flag=True, help="Show the Python traceback of an error.")
@click.version_option(message="%(version)s", version=modelflow.__version__)
@click.pass_context
def cli(context: click.Context, log_level: str, debug: bool) -> None:
    """Runs graphs of flow units: pipelines for decoding, resizing, inference and more.

    \b
    modelflow init colours                a working application to start from
    modelflow check graph.toml            find every mistake before the graph runs
    modelflow run graph.toml --input 'input=*.jpg'
    modelflow profile graph.toml --input 'input=*.jpg'
    modelflow doctor graph.toml --input 'input=*.jpg'   the bottleneck, and a change
    modelflow tune graph.toml --input 'input=*.jpg'     better threads and batches
    modelflow load graph.toml --input 'input=*.jpg' --rate 200   latency under load
    modelflow run graph.toml --dashboard  watch the run in the browser
    modelflow edit graph.toml             edit the graph as a picture, in the browser
    modelflow pack graph.toml             the graph and its files in one archive
    modelflow serve graph.toml            answer requests over the network
    modelflow deploy docker graph.toml -o image   an image, a chart, objects for Kubernetes
    modelflow units                       the units that a graph can use
    modelflow model resnet50.onnx         inputs, outputs and speed of a model
    """
    import logging

    from modelflow.cli.terminal.progress import show_opening
    from modelflow.flow.life import watch_starts

    logging.addLevelName(LEVELS["NOTICE"], "NOTICE")
    wish = colour_wish()
    handler = TerminalHandler()
    handler.setFormatter(LevelFormatter(is_coloured=sys.stderr.isatty() if wish is None else wish))
    logging.basicConfig(handlers=[handler])
    context.color = wish
    context.with_resource(watch_starts(show_opening))
    set_log_level(log_level)
    context.obj = {"debug": debug}
    # As with python -m, a unit named by its module ("units:mean") may be in the current folder.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


name_variables(cli, "MODELFLOW")


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line and exits with its `ExitCode`."""
    words = sys.argv[1:] if arguments is None else arguments
    code = _code(words)
    if arguments is None:  # this call ends the process, which belongs to this program alone
        limit_exit()
    try:
        sys.stdout.flush()
    except OSError:  # reported already, or the reader has gone; the flush at exit must not fail
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    _leave_hung_threads(code)
    sys.exit(code)


def _code(words: list[str]) -> int:  # noqa: PLR0911 - a way to end each
    try:
        result: Any = cli.main(args=words, prog_name="modelflow", standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("stopped", err=True)
        return ExitCode.INTERRUPTED
    except click.ClickException as error:
        error.show()
        _tell_quotes(error.message, words)
        return error.exit_code
    except FlowFailed as failure:
        if "--debug" in words:
            raise
        tell_failed(failure)
        return ExitCode.INTERRUPTED if _is_interrupted(failure) else ExitCode.FAILED
    except ModelflowError as error:
        if "--debug" in words:
            raise
        tell_error(str(error))
        return ExitCode.FAILED
    except _Unread:
        return ExitCode.UNREAD
    except OSError as error:
        if error.errno not in _UNWRITTEN or error.filename or "--debug" in words:
            raise
        tell_error(f"standard output: cannot be written: {error.strerror}")
        return ExitCode.FAILED
    return int(result or ExitCode.OK)


def _tell_quotes(message: str, words: list[str]) -> None:
    """Prints a note if the shell has expanded ``--input *.jpg`` to several words."""
    option = next((word for word in words[:-1] if word in ("--input", "--body")), "")
    if "unexpected extra argument" in message and option:
        suffix = os.path.splitext(words[words.index(option) + 1])[1]
        tell(
            "note",
            f"the shell replaces a pattern by file names; quote the pattern: {option} '*{suffix}'",
        )


def _is_interrupted(error: BaseException) -> bool:
    """Tells whether the flow failed because of a Ctrl-C."""
    before = error.__context__
    while before is not None and not isinstance(before, KeyboardInterrupt):
        before = before.__context__
    return before is not None


def _leave_hung_threads(code: int) -> None:
    """Ends the process at once if the thread of a unit hangs.

    The normal exit could wait for the thread. It could also crash, because engine libraries free
    memory that the thread still uses.
    """
    import threading

    hung = [t for t in threading.enumerate() if t.name.startswith("modelflow/") and t.is_alive()]
    if hung:
        sys.stderr.flush()
        os._exit(code)
