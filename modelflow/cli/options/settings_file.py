"""The option ``--config serve.toml``: the options of a command from a file."""

from pathlib import Path
from typing import Any

import click

from modelflow.config.document import read_text, read_toml
from modelflow.errors import ConfigError, Location, did_you_mean


def config_option(command: Any) -> Any:
    """Adds the option ``--config`` to a command."""
    return click.option(
        "--config",
        type=click.Path(path_type=Path),
        is_eager=True,
        expose_value=False,
        callback=_read,
        metavar="FILE.toml",
        help="Read options from a file. A key is an option's name without the leading dashes, with "
        "_ for inner dashes. The command line wins. Paths are relative to the file.",
    )(command)


def read_setting(name: str) -> Any:
    """Returns the file's value for an argument of the command, or an empty tuple."""
    return (click.get_current_context().default_map or {}).get(name, ())


def _read(context: click.Context, _: click.Parameter, path: Path | None) -> None:
    if path is None:
        return
    try:
        document = read_toml(read_text(path), str(path))
    except ConfigError as error:
        raise click.ClickException(str(error)) from error
    known = {_key(one): one for one in context.command.params if one.expose_value}
    found: dict[str, Any] = {}
    for key, value in document.values.items():
        at = document.at(key)
        if key not in known:
            near = did_you_mean(key, known)
            raise click.ClickException(
                f"{at}: there is no key {key!r}{near}; expected one of {', '.join(known)}"
            )
        option = known[key]
        assert option.name is not None  # every parameter has one
        found[option.name] = _fit(context, option, value, path, at)
    context.default_map = {**(context.default_map or {}), **found}


def _key(one: click.Parameter) -> str:
    """Returns the key of a parameter in the file: ``max_body`` for ``--max-body``."""
    if isinstance(one, click.Argument):
        return one.name or ""
    return max(one.opts, key=len).lstrip("-").replace("-", "_")


def _beside(path: Path, option: click.Parameter, text: str) -> str:
    """Returns a path of the file relative to the current folder."""
    if isinstance(option, click.Argument):  # NAME=PATH, or PATH
        name, mark, place = text.rpartition("=")
        return f"{name}{mark}{path.parent / place}"
    is_path = isinstance(option.type, click.Path) and text != "-" and "://" not in text
    return str(path.parent / text) if is_path else text


def _fit(
    context: click.Context, option: click.Parameter, value: Any, path: Path, at: Location
) -> Any:
    where = f"{at}: {_key(option)}"
    if not (option.multiple or option.nargs == -1):
        return _one(context, option, value, path, where)
    if not isinstance(value, list):
        raise click.ClickException(f"{where}: got {value!r}; expected a list of texts")
    return tuple(_one(context, option, each, path, where) for each in value)


def _one(
    context: click.Context, option: click.Parameter, value: Any, path: Path, where: str
) -> Any:
    expected, kinds = _describe_expected(option)
    if type(value) not in kinds:
        raise click.ClickException(f"{where}: got {value!r}; expected {expected}")
    if isinstance(value, str):
        value = _beside(path, option, value)
    try:
        return option.type.convert(value, option, context)
    except click.BadParameter as error:
        raise click.ClickException(f"{where}: {error.message}") from error


def _describe_expected(option: click.Parameter) -> tuple[str, tuple[type, ...]]:
    if isinstance(option, click.Option) and option.is_flag:
        return "true or false", (bool,)
    if isinstance(option.type, click.IntRange):
        return "a whole number", (int,)
    if isinstance(option.type, click.FloatRange):
        return "a number", (int, float)
    return "a text", (str,)
