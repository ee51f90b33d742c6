"""The options of ``modelflow serve`` that are fields of `ServeOptions`, and their values."""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from modelflow.cli.options.parameters import Choice, GroupedCommand
from modelflow.cli.serve.other_servers import counterparts_of
from modelflow.http.options import TlsOptions
from modelflow.serve.options import (
    CONNECTIONS,
    GUARDS,
    REQUESTS,
    SERVED,
    GrpcKind,
    Option,
    ServeOptions,
)

_LONGEST = 86_400  # seconds: a day
_MOST = 1 << 53


class _Seconds(click.FloatRange):
    """A finite number of seconds: more than 0, at most a day."""

    def __init__(self) -> None:
        super().__init__(0, _LONGEST, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = super().convert(value, param, ctx)
        if found != found:
            self.fail(f"{value!r} is not a number of seconds.", param, ctx)
        return found


class _Percent(click.ParamType):  # type: ignore[type-arg]
    """A percentage: more than 0%, at most 100%."""

    name = "percent"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        text = str(value)
        try:
            found = float(text.removesuffix("%"))
        except ValueError:
            found = 0.0
        if not 0 < found <= 100:
            self.fail(f"got {text!r}; expected more than 0%, at most 100%, such as 1%", param, ctx)
        return found


_KINDS: Mapping[str, Callable[[Option], Mapping[str, Any]]] = {
    "count": lambda one: {"type": click.IntRange(one.least, _MOST)},
    "seconds": lambda _: {"type": click.FloatRange(0)},
    "timeout": lambda _: {"type": _Seconds()},
    "percent": lambda _: {"type": _Percent()},
    "choice": lambda one: {"type": Choice(one.words)},
    "path": lambda _: {"type": click.Path(path_type=Path)},
    "log": lambda _: {"type": click.Path(allow_dash=True)},
    "texts": lambda _: {"multiple": True},
    "flag": lambda _: {"is_flag": True},
}


def _read_help(kind: type) -> dict[str, str]:
    """Returns the texts of the attributes in the docstring of a class."""
    text = inspect.cleandoc(kind.__doc__ or "").partition("Attributes:\n")[2]
    found = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", text, re.MULTILINE)
    return {name: " ".join(map(str.strip, lines.splitlines())) for name, lines in found}


def _list_options() -> Iterator[tuple[Option, Any, str]]:
    """Yields every option of a field, with its default and its help."""
    defaults, texts = ServeOptions(), _read_help(ServeOptions)
    for one in fields(ServeOptions):
        default = getattr(defaults, one.name)
        if option := one.metadata.get("option"):
            yield option, default, texts.get(one.name, "")  # no text if Python runs with -OO
        if options := one.metadata.get("options"):
            inner = _read_help(one.metadata["type"])
            for name, option in options.items():
                yield option, getattr(default, name, None), inner.get(name, "")


_ALL = tuple(_list_options())


def field_options(group: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Returns a decorator that adds the options of a group to a command."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for one, default, text in reversed(_ALL):
            if one.group != group:
                continue
            how = {"help": text, "metavar": one.metavar, **_KINDS[one.kind](one)}
            if one.kind in ("count", "seconds", "timeout", "choice"):
                how["default"] = str(default) if one.kind == "choice" else default
            command = click.option(one.flag, **how)(command)
        return command

    return add


def _names(group: str) -> list[str]:
    return [one.name for one, *_ in _ALL if one.group == group]


class ServeCommand(GroupedCommand):
    """The command ``modelflow serve``, with its options in groups."""

    groups = {  # noqa: RUF012
        SERVED: [
            *("overrides", "args", "versions", "labels", "config_file", "batching_file"),
            *("cache_dir", "cache_size"),
            *("on", "share"),
            *_names(SERVED),
        ],
        REQUESTS: _names(REQUESTS),
        CONNECTIONS: _names(CONNECTIONS),
        GUARDS: _names(GUARDS),
    }

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the arguments; the error for a flag of another server names the counterpart."""
        given, known = list(args), {name for one in self.params for name in one.opts}
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            unknown = [argument for argument in given if argument.partition("=")[0] not in known]
            if not (lines := counterparts_of(unknown)):
                raise
            raise click.UsageError(
                f"No such option {error.option_name!r}. Flags of TensorFlow Serving or Triton, and "
                f"their counterparts:{lines}",
                ctx,
            ) from error


def options_given(given: Mapping[str, Any]) -> ServeOptions:
    """Returns the options of the server: addresses, limits and TLS.

    Args:
        given: The values of all options, by parameter; ``http`` and ``grpc`` as host and port.

    Raises:
        click.UsageError: The certificate or its key is missing, but the other or a CA is given. Or
            payloads are to be logged without a place for them.
    """
    if given["payload_log"] is None and given["log_payloads"] is not None:
        raise click.UsageError(
            f"--log-payloads {given['log_payloads']:g}%: there is no log for the payloads; "
            "expected --payload-log FILE|URL as well"
        )
    host, port = given["http"]
    grpc_host, grpc_port = given["grpc"]
    found: dict[str, Any] = {"grpc_host": grpc_host, "grpc_port": grpc_port}
    for one in fields(ServeOptions):
        if option := one.metadata.get("option"):
            found[one.name] = given[option.name]
        elif options := one.metadata.get("options"):
            make = _tls if one.name == "tls" else one.metadata["type"]
            found[one.name] = make(**{name: given[inner.name] for name, inner in options.items()})
    found["grpc_server"] = GrpcKind(found["grpc_server"])
    return ServeOptions(host=host, http_port=port, **found)


def _tls(cert: Path | None, key: Path | None, client_ca: Path | None) -> TlsOptions | None:
    if cert is None and key is None and client_ca is None:
        return None
    if cert is None or key is None:
        missing = "--tls-cert" if cert is None else "--tls-key"
        raise click.UsageError(
            f"{missing} is missing: TLS takes --tls-cert FILE and --tls-key FILE"
        )
    return TlsOptions(cert, key, client_ca)
