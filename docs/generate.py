"""Writes the reference pages from docstrings and options: ``python docs/generate.py``."""

import functools
import importlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, get_origin

import click
from python_page import PythonPage

import modelflow
from modelflow.cli.main import cli
from modelflow.cli.serve.other_servers import TENSORFLOW_SERVING, TRITON
from modelflow.config.schema import (
    ARG_KEYS,
    GRAPH_ATTRIBUTES,
    NODE_ATTRIBUTES,
    PLACEMENT_KEYS,
    SECTIONS,
    SERVE_KEYS,
    SERVE_OPTIONS,
    SERVING_ALIASES,
    WITHOUT_EFFECT,
)
from modelflow.engine import InferenceOptions, engine_names, find_engine
from modelflow.registry.folder_schema import BASE_KEYS, PORT_KEYS
from modelflow.registry.registry import Registry
from modelflow.signals import ExitCode
from modelflow.unit.option import Option, options_of, type_name
from modelflow.unit.spec import FlowUnitSpec, Port

HERE = Path(__file__).resolve().parent
NOTE = "<!-- Written by docs/generate.py; change what it is made from, and run `make docs`. -->\n"

_SERVE = {
    "input": (
        "The type and shape of the graph's input `NAME` for clients. Needed where neither the unit "
        "behind the input nor its model states them. `modelflow check -v` prints them. A "
        "contradiction to a unit is an error of `modelflow check`, a contradiction to a loaded "
        "model an error of the start. TOML, YAML and JSON have this section, also next to a DOT "
        "text. A DOT file alone has no place for it.\n"
    ),
    "output": "The same for an output.\n",
}


def command_line() -> Iterator[str]:
    """Gives the page of the command line: the help of every command."""
    yield "# Command line\n"
    yield NOTE
    yield "The help of every command. See also the [exit codes](exit-codes.md).\n"
    for name, command in _commands(cli, "modelflow"):
        # With the group's settings, because click keeps the first help option that it makes. The
        # page would depend on the commands that this process has run.
        context = click.Context(command, info_name=name, **cli.context_settings)
        yield f"## `{name}`\n\n```text\n{command.get_help(context)}\n```\n"


def _commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for inner in sorted(command.list_commands(context)):
            found = command.get_command(context, inner)
            if found is not None and not found.hidden:
                yield from _commands(found, f"{name} {inner}")


def exit_codes() -> Iterator[str]:
    """Gives the page of the exit codes."""
    yield "# Exit codes\n"
    yield NOTE
    rows = [(str(code.value), code.meaning, code.example) for code in ExitCode]
    yield _rows(("code", "means", "for example"), rows)


def other_servers() -> Iterator[str]:
    """Gives the page of the flags of other servers, with their counterparts."""
    yield "# Flags of TensorFlow Serving and Triton\n"
    yield NOTE
    yield (
        "`modelflow serve` prints these counterparts when it gets such a flag. "
        "[Features of three servers](../features_of_servers.md) compares the protocols.\n"
    )
    for server, flags in (("TensorFlow Serving", TENSORFLOW_SERVING), ("Triton", TRITON)):
        yield f"## {server}\n"
        dash = "-" if server == "Triton" else "_"
        rows = [(f"`--{flag[2:].replace('_', dash)}`", text) for flag, text in flags.items()]
        yield _rows((server, "modelflow serve"), rows)


def graph_file() -> Iterator[str]:
    """Gives the page of the graph file: every section, key and attribute."""
    yield "# Graph file\n"
    yield NOTE
    yield (HERE / "graph_file_forms.md").read_text(encoding="utf-8")
    yield "## Sections\n"
    yield (
        "Unknown sections and keys are errors. `${NAME}` in any text is the environment's; "
        "`\\${` stands for itself.\n"
    )
    for section, options in SECTIONS.items():
        yield f"### `[{section}]`\n"
        yield _list(options)
    yield "### `[args.NAME]`\n"
    yield "A parameter: a node attribute whose whole value is `$NAME` is replaced by it.\n"
    yield _list(ARG_KEYS)
    yield "### `[serve]`\n"
    yield _list(SERVE_OPTIONS)
    for side, options in SERVE_KEYS.items():
        yield f"### `[serve.{side}.NAME]`\n"
        yield _SERVE[side]
        yield _list(options)
    yield "### `[placement.NAME]`\n"
    yield "A kind of machine that nodes may be placed on, by their attribute `placement`.\n"
    yield _list(PLACEMENT_KEYS)
    yield "## Node attributes\n"
    yield _list(NODE_ATTRIBUTES)
    yield (
        "`queue_size_PORT` bounds the queue of one input. Anything else is an option of the unit.\n"
    )
    defaults = ", ".join(f"`{name}`" for name in GRAPH_ATTRIBUTES)
    yield f"These keys of `[graph]` may be attributes of the DOT graph as well: {defaults}.\n"
    aliases = ", ".join(f"`{theirs}` ({ours})" for theirs, ours in SERVING_ALIASES.items())
    yield f"TensorFlow Serving's names are understood: {aliases}.\n"
    yield "### Accepted without effect\n"
    yield "\n".join(f"- `{key}`: {why}" for key, why in WITHOUT_EFFECT.items()) + "\n"
    yield "## The unit file `NAME.toml`\n\n### `[base]`\n"
    yield _list(BASE_KEYS)
    yield "### `[input.inputN]`, `[output.outputN]`\n\nNumbered from 1 without gaps.\n"
    yield _list(PORT_KEYS)
    yield "`[config]` holds the unit's options with their defaults.\n"


def units() -> Iterator[str]:
    """Gives the page of the built-in flow units."""
    yield "# Flow units\n"
    yield NOTE
    yield "`modelflow units` prints this list, with the units of your own folders and packages.\n"
    specs = [s for s in Registry().specs() if s.group != "Functions"]
    for group in sorted({spec.group for spec in specs}):
        yield f"## {group}\n"
        for spec in specs:
            if spec.group == group:
                yield from _unit(spec)


def inference() -> Iterator[str]:
    """Gives the page of the options of models."""
    yield "# Models\n"
    yield NOTE
    yield (
        "A model's unit is described by a unit file ([graph file](graph-file.md)); `modelflow "
        "model FILE --toml units/NAME/NAME.toml` writes one. Its options, in `[config]`, on its "
        "node, or as arguments of `modelflow.Model`:\n"
    )
    shared = {option.name for option in options_of(InferenceOptions)}
    yield "## Every engine\n"
    yield _list(options_of(InferenceOptions))
    for name in engine_names():
        engine = find_engine(name)
        own = [one for one in options_of(engine.options) if one.name not in shared]
        yield f"## `{name}`\n"
        yield (
            f"Files ending in {', '.join(f'`{suffix}`' for suffix in engine.suffixes)}; runs on "
            f"{', '.join(engine.device_kinds)}.\n"
        )
        yield _list(own)


def python() -> Iterator[str]:
    """Yields the index of the public Python names."""
    yield "# Python\n"
    yield NOTE
    yield "The public names, by module. Each links to its signature, arguments and errors.\n"
    page = _python_page()
    for title, module, names in _sections():
        yield f"## {title}\n"
        file = f"{_page_name(module)}.md"
        rows = [
            (
                f"[`{name}`]({file}#{_anchor(page.heading(_home(module, name), name))})",
                page.summary(_home(module, name)),
            )
            for name in names
        ]
        yield _rows(("name", "meaning"), rows)


def _python_module(title: str, module: str, names: Sequence[str]) -> Iterator[str]:
    """Yields the page of the names of a module."""
    yield f"# {title}\n"
    yield NOTE
    yield "All names are in the [index](python.md).\n"
    page = _python_page()
    for name in names:
        source = "modelflow" if name in modelflow.__all__ else module
        yield from page.describe(_home(module, name), source, name)


@functools.cache
def _python_page() -> PythonPage:
    return PythonPage()  # reads all sources of the package


def _page_name(module: str) -> str:
    return f"python-{module.removeprefix('modelflow.').replace('.', '-')}"


def _sections() -> Iterator[tuple[str, str, Sequence[str]]]:
    """Yields title, module and names of each page, with every name once."""
    named: set[str] = set()
    for title, module, names in _public_names():
        fresh = [name for name in names if _home(module, name) not in named]
        named |= {_home(module, name) for name in fresh}
        if fresh:
            yield title, module, fresh


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


_MODULES = {
    "modelflow.device": "Devices (`modelflow.device`)",
    "modelflow.engine": "Engines (`modelflow.engine`)",
    "modelflow.errors": "Errors (`modelflow.errors`)",
    "modelflow.http": "HTTP (`modelflow.http`)",
    "modelflow.image": "Images (`modelflow.image`)",
    "modelflow.testing": "Tests of units (`modelflow.testing`)",
    "modelflow.video": "Videos (`modelflow.video`)",
    "modelflow.profile.interval": "Figures between two moments (`modelflow.profile.interval`)",
    "modelflow.remote.ray": "Ray clusters (`modelflow.remote.ray`)",
    "modelflow.remote": "Parts of a graph elsewhere (`modelflow.remote`)",
    "modelflow.runtime.stats": "Statistics, as `Flow.stats` returns them",
    "modelflow.serve.options": "Options of servers (`modelflow.serve.options`)",
    "modelflow.serve.server": "Servers (`modelflow.serve.server`)",
}


# Names of a module that also holds the engine's own counters.
_SELECTED = {"modelflow.runtime.stats": ("FlowStats", "NodeStats", "RequestStats", "Histogram")}


def _public_names() -> Iterator[tuple[str, str, Sequence[str]]]:
    own = [name for name in modelflow.__all__ if not name.startswith("_")]
    errors = set(importlib.import_module("modelflow.errors").__all__)
    yield "`modelflow`", "modelflow", [name for name in own if name not in errors]
    for module, title in _MODULES.items():
        names = _SELECTED.get(module) or importlib.import_module(module).__all__
        yield title, module, [n for n in names if callable(_named(module, n))]


def _named(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


def _home(module: str, name: str) -> str:
    """Returns the path of the definition of a public name, which has its docstring."""
    found = _named(module, name)
    if get_origin(found) is Literal:  # it knows neither its name nor its module
        return f"{module}.{name}"
    return f"{getattr(found, '__module__', module)}.{getattr(found, '__name__', name)}"


def _unit(spec: FlowUnitSpec) -> Iterator[str]:
    kind = "source" if spec.is_source else "sink" if spec.is_sink else str(spec.kind)
    aliases = f", also `{'`, `'.join(spec.aliases)}`" if spec.aliases else ""
    yield f"### `{spec.name}`{aliases}\n"
    article = "An" if kind.startswith("e") else "A"
    yield f"{spec.description} {article} {kind} unit, on {', '.join(spec.devices)}.\n"
    for title, ports in (("Inputs", spec.inputs), ("Outputs", spec.outputs)):
        if ports:
            yield f"{title}:\n"
            yield "".join(_port(port) for port in ports)
    if spec.option_list:
        yield "Options:\n"
        yield _list(spec.option_list)


def _port(port: Port) -> str:
    optional = " (optional)" if port.is_optional else ""
    return f"- `{port.name}`{optional}: {port.description}\n"


def _list(options: Sequence[Option]) -> str:
    return "".join(
        f"- `{option.name}`"
        + "".join(f" or `{alias}`" for alias in option.aliases)
        + f" ({type_name(option.type)}{_bounds(option)}; {_default(option)}): {option.help}\n"
        for option in options
    )


def _default(option: Option) -> str:
    return "required" if option.is_required else f"default {_shown(option.default)}"


def _bounds(option: Option) -> str:
    low, high = option.minimum, option.maximum
    low_text = f", at least {low:g}" if low is not None else ""
    return low_text + (f", at most {high:g}" if high is not None and high < 1 << 30 else "")


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, tuple | list):
        return f"`{','.join(map(str, value))}`" if value else "none"
    if isinstance(value, bool):
        return str(value).lower()
    return f"`{value}`" if value != "" else "none"


def _rows(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return (
        "\n".join("| " + " | ".join(c.replace("|", "\\|") for c in row) + " |" for row in lines)
        + "\n"
    )


PAGES = {
    "command-line": command_line,
    "exit-codes": exit_codes,
    "other-servers": other_servers,
    "graph-file": graph_file,
    "units": units,
    "inference": inference,
    "python": python,
}


def pages() -> dict[Path, str]:
    """Returns the text of every generated page."""
    texts = {name: page() for name, page in PAGES.items()}
    for title, module, names in _sections():
        texts[_page_name(module)] = _python_module(title, module, names)
    return {
        HERE / "reference" / f"{name}.md": "\n".join(text).rstrip() + "\n"
        for name, text in texts.items()
    }


if __name__ == "__main__":
    for path, text in pages().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(path)
