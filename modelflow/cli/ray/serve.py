"""The command ``modelflow ray serve``: servers on a Ray cluster, each with its own listener."""

import threading
import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from modelflow.cli.options.parameters import FiniteRange
from modelflow.cli.options.settings_file import read_setting
from modelflow.cli.ray.options import address_option, read_replicas
from modelflow.cli.serve.command import serve
from modelflow.cli.serve.models import build_config
from modelflow.cli.serve.on_option import PROCESSES, check_far
from modelflow.cli.terminal.messages import tell
from modelflow.config.override import Environment
from modelflow.errors import ConfigError
from modelflow.signals import ExitCode, termination

if TYPE_CHECKING:
    from modelflow.remote.ray.servers import Servers


_LOOK = 1.0  # seconds between two checks of the number of waiting rows
_LOCAL = ("--http=127.0.0.1:0", "--grpc=127.0.0.1:0")
# Seconds for which a leaving server still answers clients that have not noticed yet.
_DELAY = 5.0


@click.command("serve", context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[NAME=]SOURCE... [OPTIONS]")
@address_option
@click.option(
    "--replicas",
    default="1",
    metavar="N|MIN..MAX",
    help="Number of servers. With MIN..MAX it follows the number of waiting rows.",
)
@click.option("--cpus", type=FiniteRange(0), default=1.0, help="CPUs of each server.")
@click.option("--gpus", type=FiniteRange(0), default=0.0, help="GPUs of each server.")
@click.option(
    "--start-timeout",
    type=FiniteRange(0, min_open=True),
    default=300.0,
    help="Seconds until a server must have loaded all models and answer.",
)
def ray_serve(words: Sequence[str], address: str | None, replicas: str, **options: Any) -> int:
    """Serves models on the machines of a cluster. Each server is 'modelflow serve' with its own
    listener, and takes every option of that command. Archives are sent to the machines; other files
    must exist there. Placed nodes run in actors, which all servers of the command share.

    The host 'machine' is the address of the machine that a server runs on. Without --http each
    server answers at 127.0.0.1 and a free port. Put a load balancer in front of the servers, with
    the health check /v2/health/ready. A server that ends is replaced. SIGHUP replaces the servers
    one by one, and the new servers read the archives again. SIGTERM ends the servers after the
    accepted requests. Ctrl-C ends them at once.

    \b
    modelflow ray serve app.mfz --address auto --replicas 2..8 --http machine:8501
    """
    from modelflow.config.placement import PlacementConfig
    from modelflow.remote.ray import connect
    from modelflow.remote.ray.host_servers import HostServers
    from modelflow.remote.ray.served import RayServed
    from modelflow.remote.ray.servers import Servers

    with serve.make_context("serve", list(words), click.get_current_context().parent) as context:
        given = {**context.params, "sources": context.params["sources"] or read_setting("sources")}
        if context.get_parameter_source("drain_delay") is ParameterSource.DEFAULT:
            given["drain_delay"] = _DELAY
    if given["on"] is not None:
        check_far(given["on"], given["share"])
    drain = float(given["drain_timeout"] + given["drain_delay"])
    least, most = read_replicas(replicas)
    wanted, patience = {"CPU": options["cpus"], "GPU": options["gpus"]}, options["start_timeout"]
    resources = {name: amount for name, amount in wanted.items() if amount}
    placement = PlacementConfig("server", (least, most), resources, start_timeout=patience)
    name = uuid.uuid4().hex[:12]
    _send_files(words, given, name)  # reports mistakes before the cluster is used
    with connect(address) as cluster:
        apart = HostServers(cluster, placement) if _has_port(words, given) else None
        send = partial(_send_files, words, given, name)
        servers = Servers(
            lambda number: RayServed(
                cluster, placement, f"{name}/server/{number}", send, drain, apart
            ),
            (least, most),
            partial(tell, "note"),
            patience,
        )
        return _run(servers, is_scaled=least < most)


def _run(servers: "Servers", *, is_scaled: bool) -> int:
    asked, is_rolling = threading.Event(), threading.Event()
    try:
        with termination(asked, servers.stop, is_rolling.set):
            servers.start()
            while not asked.wait(_LOOK):
                if is_rolling.is_set():
                    is_rolling.clear()
                    servers.roll()
                elif is_scaled:
                    servers.look()
    except KeyboardInterrupt as interrupt:
        servers.kill()
        raise click.exceptions.Abort from interrupt
    finally:
        servers.stop()
    return ExitCode.TERMINATED


def _send_files(
    words: Sequence[str], given: Mapping[str, Any], share: str
) -> tuple[list[str], dict[str, Path]]:
    """Returns the arguments for another machine, and the archives that they name.

    Raises:
        ConfigError: An archive does not exist, or is damaged.
    """
    from modelflow.archive.archive import Archive
    from modelflow.archive.suffix import is_archive_file

    found: list[str] = []
    archives: dict[str, Path] = {}
    for word in words:
        model, mark, path = word.rpartition("=")
        if not word.startswith("-") and is_archive_file(Path(path)):
            with Archive(Path(path)) as archive:
                archive.verify()
            name = Path(path).name
            if archives.setdefault(name, Path(path)) != Path(path):  # the same name elsewhere
                name = f"{archive.digest}{Path(path).suffix}"
                archives[name] = Path(path)
            found.append(f"{model or Path(path).stem}={name}")
        elif not word.startswith("-") and Path(path).exists():
            found.append(f"{model}{mark}{Path(path).resolve()}")
        else:
            found.append(word)
    is_given = {word.partition("=")[0] for word in words}
    local = [one for one in _LOCAL if one.partition("=")[0] not in is_given]
    delay = f"--drain-delay={given['drain_delay']:g}"
    return [*local, *found, delay, *_far(given, share)], archives


def _has_port(words: Sequence[str], given: Mapping[str, Any]) -> bool:
    """Tells whether all servers have a fixed port, so a machine has room for one server only."""
    is_given = {word.partition("=")[0] for word in words}
    addresses = [given[name] for name in ("http", "grpc") if f"--{name}" in is_given]
    return any(not one.endswith((":0", "off")) and one != "0" for one in addresses)


def _far(given: Mapping[str, Any], name: str) -> list[str]:
    """Returns the options that make all servers share the actors of placed nodes."""
    from modelflow.remote.ray.server_actor import CLUSTER

    on = given["on"]
    if on is None and _is_placed(given):
        on = CLUSTER
    if on is None or on == PROCESSES:
        return [] if on is None else [f"--on={on}"]
    return [f"--on={on}", f"--share={given['share'] or name}"]


def _is_placed(given: Mapping[str, Any]) -> bool:
    """Tells whether a served graph places nodes, if the graph can be read here."""
    try:
        found = build_config(given, Environment()).placing()
    except ConfigError:  # the servers report it, or have files that are missing here
        return False
    if found.unread and not found.models:
        names = ", ".join(found.unread)
        text = f"{names}: cannot be read here; if it places nodes, give --on auto"
        tell("note", text)
    return bool(found.models)
