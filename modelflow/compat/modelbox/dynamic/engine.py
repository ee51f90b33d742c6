"""`ModelBoxEngine`: a graph that a program describes while the program runs."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from modelflow.compat.modelbox.configuration import Configuration
from modelflow.compat.modelbox.dynamic.data_handler import DataHandler, Source, only_end
from modelflow.compat.modelbox.dynamic.part import End, Inlet, Part, PartRun, Step
from modelflow.compat.modelbox.status import Status, StatusCode, status_of
from modelflow.errors import ConfigError, FlowFailed, ModelflowError, StreamClosed, did_you_mean
from modelflow.flow import Flow
from modelflow.graph.read import read_graph
from modelflow.registry.registry import Registry

if TYPE_CHECKING:
    from modelflow.buffer import Buffer as NativeBuffer
    from modelflow.compat.modelbox.buffer import Buffer


# Pushed buffers wait for the graph up to this number; then the graph starts (ModelBox's queue
# size).
_WAITING = 32
# The most results that wait. A video is read at most so many frames ahead of the iteration.
_RESULTS = 64
_ANY_NUMBER = 1 << 40
# The most flows for graphs on buffers that are kept for the next buffer.
_KEPT_FLOWS = 8


class ModelBoxEngine:
    """A graph that is described unit by unit, and runs when a result is asked for.

    ::

        engine = ModelBoxEngine()
        engine.init({})
        url = engine.create_input({"input"})
        url.setmeta("source_url", "in.mp4")
        url.close()
        packets = engine.execute("video_demuxer", {}, url)
        for frame in engine.execute("video_decoder", {"pix_fmt": "bgr"}, packets):
            small = engine.execute("resize", {"image_width": "64", "image_height": "48"}, frame)
            ...
        engine.close()

    Connected units run together. They start when the program iterates over the first result, or
    pushes more than a queue holds. A graph that ends only in units without outputs starts when its
    input is closed. Otherwise a graph starts in `close`. After the start no unit can be added. A
    unit that is executed on a `Buffer` is a graph of its own: you can describe and run it while
    another graph runs.

    Mistakes in a description are errors of `execute`. A failure while a graph runs is an error of
    the buffer, of the iteration, or of `close`. For one thread.
    """

    def __init__(self) -> None:
        self._settings: dict[str, Any] = {}
        self._registry: Registry | None = None
        self._is_closed = False
        # The members with which graphs begin that have not run yet.
        self._roots: list[Inlet | Step] = []
        self._runs: list[PartRun] = []
        self._flows: dict[str, Flow] = {}

    def init(self, config: Configuration | Mapping[str, Any]) -> Status:
        """Takes ``dir``, ``skip-default``, ``queue_size`` and ``batch_size``.

        The section of a `Configuration` before a key (``drivers.dir``) is optional.

        Returns:
            ``STATUS_BADCONF`` if a key, a value or a unit's file has an error.
        """
        try:
            settings = _settings(config)
            self._registry = Registry(
                settings.get("set_drivers_dir", ()),
                skip_default=settings.get("set_skip_default_drivers", False),
            )
        except (ModelflowError, ValueError) as error:
            return status_of(error, StatusCode.STATUS_BADCONF)
        self._settings = settings
        return Status()

    def create_input(self, ports: Iterable[str] = ("input",)) -> DataHandler:
        """Adds an input of the graph.

        Args:
            ports: The ports of the input. A unit with several inputs that gets the whole input
                reads each port by its name.

        Raises:
            ModelflowError: `init` was not called, or no port is named.
            StreamClosed: The engine is closed.
        """
        self._require_registry("create_input")
        names = [ports] if isinstance(ports, str) else sorted(ports)
        if not names:
            raise ModelflowError("create_input: got no port; expected the name of one at least")
        inlets = {name: Inlet(name=name) for name in names}
        self._roots += inlets.values()
        return DataHandler(self, {name: (inlet, None) for name, inlet in inlets.items()})

    def execute(
        self,
        name: str,
        config: Mapping[str, Any] | None = None,
        data: Source | Mapping[str, Source] | None = None,
    ) -> DataHandler:
        """Adds a unit to the graph, and returns its outputs.

        Args:
            name: The unit, unless ``config`` names another one as ``flowunit``.
            config: The attributes and options, as those of a node.
            data: The sources: a handler, a `Buffer`, or a mapping with one of them for each input.
                None for a unit without inputs.

        Raises:
            ModelflowError: `init` was not called, a source already runs or belongs to another
                engine, or a unit without outputs has failed on buffers.
            StreamClosed: The engine is closed.
            GraphError, ConfigError: No such unit, port or option exists. The message names the
                nearest.
        """
        registry, attributes = self._require_registry("execute"), dict(config or {})
        links = self._links(name, data)
        spec = registry.find(str(attributes.get("flowunit", name)))
        outputs = spec.output_names
        part = Part(step := Step(unit=name, attributes=attributes, links=links, outputs=outputs))
        read_graph(part.describe(self._settings)[0], registry=registry)  # checks the part so far
        for source, _ in links.values():
            source.consumers.append(step)
        if not links:
            self._roots.append(step)
        elif not outputs and part.is_constant:
            self._run(part).finish()
        return DataHandler(self, {port: (step, port) for port in outputs})

    def close(self) -> Status:
        """Runs described graphs that have not run yet, waits for all, and frees everything.

        A graph is left out if all of its units have outputs, because nobody can see its results.

        Returns:
            A failure with the first error of units without outputs, or of a whole graph.
        """
        return self._end(PartRun.finish, drain=True)

    def shutdown(self) -> Status:
        """Ends running graphs at once, and drops graphs that have not run yet.

        Returns:
            A failure if a whole graph has failed.
        """
        return self._end(PartRun.abort, drain=False)

    # -- for handlers ---------------------------------------------------------------------------

    def take(self, step: Step, port: str) -> "Buffer | None":
        """Returns the next buffer of a result, or None at its end; starts the graph if needed."""
        self._require_registry("next")
        run = step.run or self._run(Part(step))
        found = run.take(step, port)
        if run.is_over and run in self._runs:
            self._runs.remove(run)
        return found

    def push(self, inlet: Inlet, buffers: "Iterator[NativeBuffer]") -> Status:
        """Sends buffers to an input, or stores them until the graph runs."""
        try:
            self._require_registry("pushdata")
            for buffer in buffers:
                if inlet.run is not None:
                    inlet.run.send(inlet, buffer)
                    continue
                inlet.waiting.append(buffer)
                if inlet.consumers and len(inlet.waiting) > _WAITING:
                    self._run(Part(inlet))
        except (ModelflowError, FlowFailed) as error:
            return status_of(error)
        return Status()

    def close_end(self, member: Inlet | Step, port: str | None) -> None:
        """Closes an input, or drops an output."""
        if isinstance(member, Step):
            assert port is not None  # a unit's ends are its outputs
            member.unwanted.add(port)
            member.wanted.discard(port)
            if member.run is not None:
                member.run.drop(member, port)
            return
        member.is_closed = True
        part = Part(member)
        if member.run is not None:
            member.run.close_inputs()
        elif part.steps and not part.results and all(inlet.is_closed for inlet in part.inlets):
            self._run(part)

    # -- running --------------------------------------------------------------------------------

    def _links(
        self, name: str, data: Source | Mapping[str, Source] | None
    ) -> dict[str | None, End]:
        links: dict[str | None, End]
        if isinstance(data, DataHandler):
            links = data.sources(self)
        elif isinstance(data, Mapping):
            links = {port: only_end(source, self) for port, source in data.items()}
        else:
            links = {} if data is None else {None: only_end(data, self)}
        for source, _ in links.values():
            if source.run is not None:
                what = source.unit if isinstance(source, Step) else source.name
                raise ModelflowError(
                    f"execute {name!r}: {what!r} runs already; execute all its readers before "
                    "taking the first result, or execute on the buffers of its output"
                )
        return links

    def _run(self, part: Part) -> PartRun:
        """Starts a part; the flow of a graph on buffers is kept for the next buffers."""
        desc, names, outputs = part.describe(self._settings)
        inlets = {inlet: names[inlet] for inlet in part.inlets}
        key = repr(desc.to_config()) if part.is_constant else ""
        flow = self._flows.get(key)
        if flow is None:
            # A program that pushes cannot read at the same time: then any number of results waits.
            is_short = all(inlet.is_closed and len(inlet.waiting) <= 1 for inlet in inlets)
            bound = _RESULTS if is_short else _ANY_NUMBER
            graph = read_graph(desc, registry=self._registry)
            flow = Flow(graph, results_bound=bound).start()
            if key and len(self._flows) < _KEPT_FLOWS:
                self._flows[key] = flow
        run = PartRun(flow, inlets, outputs, is_owner=flow not in self._flows.values())
        for member in part.members:
            member.run = run
        self._roots = [root for root in self._roots if root.run is None]
        if run.is_owner:
            self._runs.append(run)
        run.begin()
        return run

    def _end(self, end: Callable[[PartRun], None], *, drain: bool) -> Status:
        if self._is_closed:
            return Status()
        self._is_closed = True
        results = [_tried(partial(self._run_unseen, root)) for root in self._roots if drain]
        results += [_tried(partial(end, run)) for run in self._runs]
        results += [_tried(partial(flow.stop, drain)) for flow in self._flows.values()]
        self._roots, self._runs, self._flows = [], [], {}
        return next((status for status in results if not status), Status())

    def _run_unseen(self, root: Inlet | Step) -> None:
        """Runs the part of a member, if any unit of the part has no outputs."""
        part = Part(root)
        if root.run is None and any(not step.outputs for step in part.steps):
            for step in part.steps:
                step.wanted, step.unwanted = set(), set(step.outputs)
            self._run(part)

    def _require_registry(self, call: str) -> Registry:
        if self._is_closed:
            raise StreamClosed(f"{call}: this ModelBoxEngine is closed; make another one")
        if self._registry is None:
            raise ModelflowError(
                f"{call}: this ModelBoxEngine knows no units yet; call init(config) first"
            )
        return self._registry


def _tried(step: Callable[[], Any]) -> Status:
    try:
        step()
    except (ModelflowError, FlowFailed) as error:
        return status_of(error)
    return Status()


# Keys without section, and the methods of FlowGraphDesc that set them.
_SETTINGS = {
    "dir": "set_drivers_dir",
    "skip-default": "set_skip_default_drivers",
    "queue_size": "set_queue_size",
    "batch_size": "set_batch_size",
}
_SECTIONS = ("", "graph", "drivers", "driver")


def _settings(config: Configuration | Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of a configuration or a mapping: method -> value.

    Keys in sections that no engine reads are ignored, as everywhere in ModelBox.

    Raises:
        ConfigError: A key is unknown, or a value has another form.
        ValueError: A `Configuration` cannot hold a value.
    """
    values = config if isinstance(config, Configuration) else Configuration()
    for key, value in config.items() if isinstance(config, Mapping) else ():
        values.set(key, value)
    found: dict[str, Any] = {}
    for key in values.keys():  # noqa: SIM118 - it is no mapping
        section, _, name = key.rpartition(".")
        if section not in _SECTIONS or name == "queue_size_external":  # without effect
            continue
        if name not in _SETTINGS:
            near, known = did_you_mean(name, _SETTINGS), ", ".join(_SETTINGS)
            raise ConfigError(f"init: unknown key {name!r}{near} (keys: {known})")
        text, expected = values.get_string(key), ""
        value = values.get_string_list(key)
        if name == "skip-default":
            value, expected = values.get_bool(key, None), "true or false"
        elif name != "dir":
            value, expected = values.get_int(key) if text.isdecimal() else 0, "a number from 1"
        if expected and value in (None, 0) and value is not False:
            raise ConfigError(f"init: {key}: got {text!r}; expected {expected}")
        found[_SETTINGS[name]] = value
    return found
