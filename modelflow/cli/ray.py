"""``modelflow ray``: graphs on a Ray cluster."""

import contextlib
import copy
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from modelflow.cli.graph_choice import GraphChoice
from modelflow.cli.graph_options import graph_options, tell_environment
from modelflow.cli.ray_address import address_option
from modelflow.cli.ray_serve import ray_serve
from modelflow.cli.run import run, run_graph
from modelflow.cli.telling import tell
from modelflow.errors import ConfigError
from modelflow.exit_code import ExitCode

if TYPE_CHECKING:
    from modelflow.buffer import Buffer
    from modelflow.cli.feeding import Feed
    from modelflow.config.placement import PlacementConfig
    from modelflow.graph.graph import Graph
    from modelflow.remote import Engine
    from modelflow.tune.cut import Crossing
    from modelflow.tune.sample import Sample

__all__ = ["ray"]

# How many items show what rows are like.
_MOST_ITEMS = 16


@click.group()
def ray() -> None:
    """Runs graphs on a Ray cluster: nodes with 'placement=NAME' run in actors, on the machines that
    [placement.NAME] describes; the others here. What they mean does not change.

    \b
    modelflow ray plan graph.toml
    modelflow ray run graph.toml --address auto --input 'photos/*.jpg' --output out/
    modelflow ray serve app.mfz --address auto --replicas 2..8 --http machine:8501
    modelflow ray status --address auto
    """


ray.add_command(ray_serve)


@ray.command()
@graph_options
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="[PORT=]FILE|DIR|GLOB",
    help=f"Runs the graph here with the first {_MOST_ITEMS} of these, all of it, to see how large "
    "rows are and what its nodes take for them.",
)
def plan(graph: GraphChoice, inputs: tuple[str, ...]) -> int:
    """Says what would run where, what crosses, and what that costs. Needs no cluster.

    \b
    modelflow ray plan graph.toml --input 'photos/*.jpg'
    """
    from modelflow.tune.cut import cuts_of

    checked = graph.read(check_devices=bool(inputs))
    cuts = cuts_of(checked, _sample(checked, inputs) if inputs else None)
    placements = checked.config.placements
    for cut in cuts:
        least, most = placements[cut.placement].replicas
        count = f"{least}" if least == most else f"{least} to {most}"
        plural = "s" if most > 1 else ""
        click.echo(f"{cut.placement} ({count} replica{plural}): {' -> '.join(cut.nodes)}")
        for how, crossings in (("in", cut.entering), ("out", cut.leaving)):
            for crossing in crossings:
                click.echo(f"  {how:3} {_crossing(crossing)}")
        cost = cut.row_us
        told = "(no unit says how large rows are; give --input)"
        if cost is not None:
            told = f"{cost:.0f} us a row"
        if cut.work_us is not None:
            told += f"; of what is done there: {cut.work_us:.0f} us"
        click.echo(
            f"  batches of up to {cut.batch_size}; processor time of the way there and back: {told}"
        )
        for text in cut.advice:
            tell("advice", text)
    far = {name for cut in cuts for name in cut.nodes}
    here = [name for name, node in checked.nodes.items() if name not in far and node.spec]
    click.echo(f"here: {', '.join(here) or 'nothing'}")
    if not cuts:
        tell("note", _NOWHERE)
    return ExitCode.OK


_NOWHERE = (
    "no node is placed; 'modelflow ray run' places all of them together, each replica with the "
    "whole graph"
)


def _sample(graph: "Graph", inputs: tuple[str, ...]) -> "Sample":
    """Runs the graph with some files.

    Raises:
        click.UsageError, ConfigError: there are none, or they are for no input of it.
    """
    from modelflow.cli.feeding import feeds_of
    from modelflow.tune.sample import sample_of

    feeds = feeds_of(inputs, graph.inputs)
    items = [dict(zip(graph.inputs, buffers, strict=True)) for buffers in _first(feeds)]
    found = sample_of(graph, items)
    if found.failed:
        tell("note", f"{len(found.failed)} of {found.items} items failed: {found.failed[0]}")
    return found


def _first(feeds: "Sequence[Feed]") -> "Iterator[tuple[Buffer, ...]]":
    return itertools.islice(zip(*feeds, strict=True), _MOST_ITEMS)


def _crossing(crossing: "Crossing") -> str:
    size = "" if crossing.size is None else f", {crossing.size / 1000:.1f} kB a row"
    tensor = f"  {crossing.tensor}" if crossing.tensor else ""
    return f"{crossing.end}{tensor}{size}"


class _PlacedChoice(GraphChoice):
    """A graph whose placed nodes an engine runs, or all of it."""

    _engine: "Engine"
    _placement: "PlacementConfig"
    _given: Sequence[str]
    _is_quiet: bool

    def run_by(
        self,
        engine: "Engine",
        placement: "PlacementConfig",
        given: Sequence[str],
        *,
        is_quiet: bool,
    ) -> "_PlacedChoice":
        """Says what runs its parts; and how what runs a graph that places none.

        Args:
            engine: What runs them.
            placement: Of a graph that places none.
            given: The options that say so.
            is_quiet: Nothing is noted.
        """
        self._engine, self._placement, self._given = engine, placement, given
        self._is_quiet = is_quiet
        return self

    def read(
        self,
        changes: Mapping[str, Any] | None = None,
        *,
        check_devices: bool = True,  # noqa: ARG002 - the devices are elsewhere
    ) -> "Graph":
        """Returns the graph in front; see `GraphChoice.read`."""
        from modelflow.remote import nodes_in_order, placed, spread, whole

        graph = super().read(changes, check_devices=False)
        if any(node.settings.placement for node in graph.nodes.values()):
            if self._given:
                told = ", ".join(self._given)
                verb = "does" if len(self._given) == 1 else "do"
                self._note(f"{told} {verb} nothing: the graph places nodes, as [placement] says")
            return placed(graph, self._engine)
        in_order = nodes_in_order(graph)
        if not in_order:
            return whole(graph, self._engine, self._placement)
        graph = spread(graph, self._placement)
        units = [node for node in graph.nodes.values() if node.spec is not None]
        here = [node.name for node in units if not node.settings.placement]
        self._note(
            f"here {'run' if len(here) > 1 else 'runs'} {', '.join(map(repr, here))}: "
            f"{in_order[0]!r} needs the items one after the other; the rest runs in the cluster"
            if len(here) < len(units)
            else f"all of it runs here: {in_order[0]!r} needs the items one after the other"
        )
        return graph if len(here) == len(units) else placed(graph, self._engine)

    def _note(self, text: str) -> None:
        if not self._is_quiet:
            tell("note", text)


def _whole_options(command: click.decorators.FC) -> click.decorators.FC:
    """Adds the options that say what runs a graph that places no node."""
    options = (
        click.option(
            "--replicas",
            default="1",
            metavar="N|MIN..MAX",
            help="Of a graph that places no node: how many actors run the whole of it; between two "
            "numbers as many as the items that wait need.  [default: 1]",
        ),
        click.option("--cpus", type=click.FloatRange(0), default=1.0, help="Of each."),
        click.option("--gpus", type=click.FloatRange(0), default=0.0, help="Of each."),
        click.option("--memory", metavar="SIZE", help="Of each: 8GiB."),
        click.option(
            "--resources",
            multiple=True,
            metavar="NAME=AMOUNT",
            help="Of each, of what the machines of the cluster say they have.",
        ),
        click.option(
            "--label", "labels", multiple=True, metavar="NAME=VALUE", help="Of their machines."
        ),
        click.option(
            "--timeout",
            type=click.FloatRange(0, min_open=True),
            metavar="SECONDS",
            help="An actor that has done no item that is waited for in so long counts as lost; "
            "without it an item may take as long as it takes.",
        ),
        click.option(
            "--in-flight",
            type=click.IntRange(1, 1024),
            default=4,
            help="Messages under way to one actor at once.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


_WHOLE = ("replicas", "cpus", "gpus", "memory", "resources", "labels", "timeout", "in_flight")


def _placement_of(given: Mapping[str, Any]) -> "PlacementConfig":
    """Returns what the options say of a graph that places none.

    Raises:
        click.UsageError: a value is of another form.
    """
    from modelflow.config.placement import PlacementConfig, replicas_of
    from modelflow.sizes import bytes_of

    try:
        replicas = replicas_of(given["replicas"])
    except ConfigError as error:
        message = f"--replicas: {error}"
        raise click.UsageError(message) from error
    resources = {"CPU": given["cpus"], "GPU": given["gpus"]}
    resources |= {name: _amount(name, text) for name, text in _pairs("--resources", given)}
    if given["memory"] is not None:
        size = bytes_of(given["memory"])
        if size is None:
            message = f"--memory: got {given['memory']!r}; expected a size such as 8GiB"
            raise click.UsageError(message)
        resources["memory"] = size
    return PlacementConfig(
        "whole",
        replicas,
        {name: amount for name, amount in resources.items() if amount},
        dict(_pairs("--label", given)),
        in_flight=given["in_flight"],
        timeout=given["timeout"],
    )


def _pairs(option: str, given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for text in given["resources" if option == "--resources" else "labels"]:
        name, mark, value = text.partition("=")
        if not (name and mark and value):
            message = f"{option}: got {text!r}; expected NAME=VALUE"
            raise click.UsageError(message)
        yield name, value


def _amount(name: str, text: str) -> float:
    try:
        amount = float(text)
    except ValueError:
        amount = -1.0
    if not 0 <= amount < math.inf:
        message = f"--resources: {name}: got {text!r}; expected a number of at least 0"
        raise click.UsageError(message)
    return amount


@ray.command("run", params=list(map(copy.copy, run.params)))
@address_option
@_whole_options
@click.pass_context
def ray_run(context: click.Context, /, address: str | None, **options: Any) -> int:
    """Runs a graph as 'modelflow run' does, with what it places in actors of a cluster.

    A graph that places nothing is run whole by each of --replicas actors, whatever it is made of:
    files are read and results are written here. What is lost with an actor or a machine is done
    again; an item that kills its actor three times is an error. With --resume the same command goes
    on after whatever ended it.

    \b
    modelflow ray run graph.toml --address auto --input 'photos/*.jpg' --output out/
    modelflow ray run graph.mfz --replicas 1..8 --gpus 1 --input photos --output scores.jsonl \\
        --resume scores.done
    """
    of_whole = {name: options.pop(name) for name in _WHOLE}
    placement = _placement_of(of_whole)
    given = [
        f"--{name.removesuffix('s') if name == 'labels' else name.replace('_', '-')}"
        for name in _WHOLE
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT
    ]
    choice = _PlacedChoice(options.pop("graph"), options.pop("overrides"), options.pop("args"))
    if not options["quiet"]:
        tell_environment(choice.environment)
    with _engine(address) as engine:
        choice.run_by(engine, placement, given, is_quiet=options["quiet"])
        return run_graph(context, choice, **options)


@contextlib.contextmanager
def _engine(address: str | None) -> "Iterator[Engine]":
    from modelflow.ray import RayEngine, connected

    with connected(address) as cluster:
        yield RayEngine(cluster)


@ray.command()
@address_option
def status(address: str | None) -> int:
    """Says what a cluster has, what of it is free, and what of modelflow runs there.

    \b
    modelflow ray status --address auto
    """
    from modelflow.ray import connected

    with connected(address) as cluster:
        for machine in cluster.machines():
            click.echo(str(machine))
        click.echo(f"free: {cluster.free_text()}")
        actors, silent = cluster.asked_actors()
        for actor in actors:
            click.echo(str(actor))
        for name in silent:
            click.echo(
                f"replica {name}: does not answer; it starts, waits for a machine with room, or "
                "hangs"
            )
        if not actors and not silent:
            click.echo("no replica of modelflow runs there")
    return ExitCode.OK
