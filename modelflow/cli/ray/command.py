"""The command group ``modelflow ray``: graphs on a Ray cluster."""

import copy
import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from modelflow.cli.options.graph_choice import GraphChoice
from modelflow.cli.options.graph_options import graph_options, tell_environment
from modelflow.cli.options.parameters import declare_repeated
from modelflow.cli.ray.options import ACTOR_OPTIONS, actor_options, address_option, placement_of
from modelflow.cli.ray.serve import ray_serve
from modelflow.cli.run.command import run, run_graph
from modelflow.cli.terminal.messages import tell
from modelflow.signals import ExitCode

if TYPE_CHECKING:
    from modelflow.config.placement import PlacementConfig
    from modelflow.graph.graph import Graph
    from modelflow.insight.tune.cut import Crossing
    from modelflow.insight.tune.sample import Sample
    from modelflow.remote import PlacementEngine


# Number of sample items, to measure the size of rows.
_MOST_ITEMS = 16


@click.group()
def ray() -> None:
    """Runs graphs on a Ray cluster. Nodes with 'placement=NAME' run in actors, on the machines that
    [placement.NAME] describes. The other nodes run here. The results are the same as without a
    cluster.

    \b
    modelflow ray plan graph.toml
    modelflow ray run graph.toml --address auto --input 'photos/*.jpg' --output out/
    modelflow ray serve app.mfz --address auto --replicas 2..8 --http machine:8501
    modelflow ray status --address auto
    """


ray.add_command(ray_serve)


@ray.command()
@graph_options
@declare_repeated(
    "--input",
    "inputs",
    "[PORT=]FILE|DIR|GLOB",
    f"Run the whole graph here with the first {_MOST_ITEMS} items, to measure the size of rows "
    "and the time of the nodes.",
)
def plan(graph: GraphChoice, inputs: tuple[str, ...]) -> int:
    """Shows where each node would run, which data crosses, and the cost. Needs no cluster.

    \b
    modelflow ray plan graph.toml --input 'photos/*.jpg'
    """
    from modelflow.insight.tune.cut import cuts_of

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
        told = "(no unit declares the size of rows; give --input)"
        if cost is not None:
            told = f"{cost:.0f} us a row"
        if cut.work_us is not None:
            told += f"; of the work there: {cut.work_us:.0f} us"
        click.echo(f"  batches of up to {cut.batch_size}; processor time of the transfers: {told}")
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
    """Runs the graph with some files, and returns the measurements.

    Raises:
        click.UsageError, ConfigError: There are no files, or they fit no input of the graph.
    """
    from modelflow.insight.tune.sample import sample_of
    from modelflow.job.inputs import feeds_of

    feeds = feeds_of(inputs, graph.inputs)
    first = itertools.islice(zip(*feeds, strict=True), _MOST_ITEMS)
    items = [dict(zip(graph.inputs, buffers, strict=True)) for buffers in first]
    found = sample_of(graph, items)
    if found.failed:
        tell("note", f"{len(found.failed)} of {found.items} items failed: {found.failed[0]}")
    return found


def _crossing(crossing: "Crossing") -> str:
    size = "" if crossing.size is None else f", {crossing.size / 1000:.1f} kB a row"
    tensor = f"  {crossing.tensor}" if crossing.tensor else ""
    return f"{crossing.end}{tensor}{size}"


class _PlacedChoice(GraphChoice):
    """A graph whose placed nodes (or, without placements, all nodes) run on an engine."""

    engine: "PlacementEngine"
    """The engine that runs the placed parts."""
    placement: "PlacementConfig"
    """The placement for a graph that places no node."""
    given: Sequence[str]
    """The options of the command line that set this placement."""
    is_quiet: bool
    """Whether notes are suppressed."""

    def read(
        self,
        changes: Mapping[str, Any] | None = None,
        *,
        check_devices: bool = True,  # noqa: ARG002 - the devices are on other machines
    ) -> "Graph":
        """Returns the graph for this process, with proxies for the placed nodes; see
        `GraphChoice.read`.
        """
        from modelflow.remote import nodes_in_order, place_nodes

        graph = super().read(changes, check_devices=False)
        if any(node.settings.placement for node in graph.nodes.values()):
            if self.given:
                told = ", ".join(self.given)
                verb = "does" if len(self.given) == 1 else "do"
                self._note(f"{told} {verb} nothing: the graph places nodes, as [placement] says")
            return place_nodes(graph, self.engine)
        front = place_nodes(graph, self.engine, default=self.placement)
        here = [
            name
            for name, node in graph.nodes.items()
            if node.spec is not None and front.nodes.get(name) is node
        ]
        if here:
            self._note(
                f"here {'run' if len(here) > 1 else 'runs'} {', '.join(here)}: node "
                f"{nodes_in_order(graph)[0]!r} needs the items one after the other"
            )
        return front

    def _note(self, text: str) -> None:
        if not self.is_quiet:
            tell("note", text)


@ray.command("run", params=list(map(copy.copy, run.params)))
@address_option
@actor_options
@click.pass_context
def ray_run(context: click.Context, /, address: str | None, **options: Any) -> int:
    """Runs a graph as 'modelflow run' does, with its placed nodes in actors of a cluster.

    If the graph places no node, each of --replicas actors runs the whole graph. Files are read and
    results are written on this machine. The items of a lost actor or machine are processed again.
    An item that kills its actor three times becomes an error. With --resume the same command
    continues after an interruption.

    \b
    modelflow ray run graph.toml --address auto --input 'photos/*.jpg' --output out/
    modelflow ray run graph.mfz --replicas 1..8 --gpus 1 --input photos --output scores.jsonl \\
        --resume scores.done
    """
    placement = placement_of({name: options.pop(name) for name in ACTOR_OPTIONS})
    choice = _PlacedChoice(options.pop("graph"), options.pop("overrides"), options.pop("args"))
    choice.placement, choice.is_quiet = placement, options["quiet"]
    choice.given = [
        option
        for name, option in ACTOR_OPTIONS.items()
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT
    ]
    if not choice.is_quiet:
        tell_environment(choice.environment)
    from modelflow.remote.ray import RayEngine, connect

    with connect(address) as cluster:
        choice.engine = RayEngine(cluster)
        return run_graph(context, choice, **options)


@ray.command()
@address_option
def status(address: str | None) -> int:
    """Shows the machines of a cluster, its free resources, and the replicas of modelflow.

    \b
    modelflow ray status --address auto
    """
    from modelflow.remote.ray import connect

    with connect(address) as cluster:
        for machine in sorted(cluster.machines(), key=lambda machine: machine.address):
            click.echo(str(machine))
        click.echo(f"free: {cluster.free_text()}")
        actors, silent = cluster.ask_actors()
        for actor in actors:
            click.echo(str(actor))
        for name in silent:
            click.echo(
                f"replica {name}: does not answer. It starts, waits for a machine with room, or "
                "hangs"
            )
        if not actors and not silent:
            click.echo("no replica of modelflow runs there")
    return ExitCode.OK
