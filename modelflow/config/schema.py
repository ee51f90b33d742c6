"""Every key of a graph file: type, default, meaning. The reference manual is generated from it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from modelflow.config.node_settings import NodeOptions
from modelflow.unit.option import Option, options_of
from modelflow.wire.tensor import DATATYPES

_POSITIVE: Any = {"minimum": 1, "maximum": 1 << 30}
_LEVELS = Literal["DEBUG", "INFO", "NOTICE", "WARN", "ERROR", "FATAL", "OFF"]

SECTIONS: Mapping[str, tuple[Option, ...]] = MappingProxyType(
    {
        "driver": (
            Option(
                "dir",
                list[str],
                (),
                "Folders that are searched, with those inside them, for flow units; relative to "
                "the file.",
            ),
            Option(
                "skip-default",
                bool,
                False,
                "Use built-in and installed units only where no folder has the name.",
            ),
        ),
        "profile": (
            Option(
                "profile",
                bool,
                False,
                "Write the flow's figures to DIR/NAME.stats.json, once a minute and at the end.",
                aliases=("performance",),
            ),
            Option(
                "trace",
                bool,
                False,
                "Record what every worker does, for ui.perfetto.dev, to DIR/NAME.trace.json.gz.",
            ),
            Option("dir", str, "profile", "The folder of these files; relative to the graph file."),
            Option("session", bool, False, "Follow every session in the trace, not one of 100."),
        ),
        "log": (
            Option("level", _LEVELS | None, None, "The level of modelflow's own messages."),
            Option("path", str | None, None, "A file for the messages."),
            Option("screen", bool, True, "Messages to stderr as well."),
            Option("num", int, 5, "How many old log files are kept.", minimum=0, maximum=1000),
            Option(
                "size",
                int,
                10_000_000,
                "Size in bytes at which a log file is changed.",
                **_POSITIVE,
            ),
        ),
        "flow": (
            Option("name", str, "", "The name under which the graph is found."),
            Option("desc", str, "", "What the graph is for."),
            Option("enable", bool, True, "False: the graph is refused."),
            Option(
                "max_in_flight",
                int | None,
                None,
                "Most buffers inside the whole graph at once; none: no bound but the queues.",
                **_POSITIVE,
            ),
        ),
        "graph": (
            Option(
                "format",
                Literal["graphviz", "native"] | None,
                None,
                "How the graph is written; none: by content.",
            ),
            Option("graphconf", str | list[str], "", "The graph as DOT text (a list: its lines)."),
            Option(
                "graphconffilepath", str, "", "A file with the DOT text, in place of graphconf."
            ),
            Option("strict", bool, True, "False: nodes that nothing connects are left out."),
            Option("queue_size", int | None, None, "Default of the node attribute.", **_POSITIVE),
            Option("batch_size", int | None, None, "Default of the node attribute.", **_POSITIVE),
            Option("deviceid", str | None, None, "Default of the node attribute."),
            Option(
                "fuse",
                Literal["auto", "off"],
                "auto",
                "auto: neighbours run as one stage, as if they bore the same `fuse`, where one "
                "feeds the other and nothing else, both only compute (their units say so: "
                "`is_compute_bound`), the same batch_size and cpu_affinity hold for both, and "
                "neither says anything of its threads, workers or queue: normal units on the cpu, "
                "no sinks, none with a shared instance, calls a stream, or threads that the unit "
                "sets. Nodes that bear a name obey it. off: only what bears a name is joined.",
            ),
            Option("thread-num", int | None, None, "ModelBox's pool size; without effect."),
            Option("max-thread-num", int | None, None, "ModelBox's pool size; without effect."),
            Option("max_executor_thread_num", int | None, None, "ModelBox's; without effect."),
            Option("need_check_output", bool, True, "Outputs are always checked; without effect."),
        ),
    }
)

WITHOUT_EFFECT: Mapping[str, str] = MappingProxyType(
    {
        "thread-num": "each node has its own threads; see the node attribute 'threads'",
        "max-thread-num": "each node has its own threads; see the node attribute 'threads'",
        "max_executor_thread_num": "each node has its own threads; see 'threads'",
        "need_check_output": "the number of outputs is always checked",
        "queue_size_event": "events are not queued",
        "queue_size_external": "queue_size bounds what waits for a node",
        "output_type": "each output gives its own results in order",
    }
)

ARG_KEYS: tuple[Option, ...] = (
    Option("default", Any, None, "The value where none is given."),
    Option("desc", str, "", "What it is for."),
)

_DATATYPE = Option(
    "datatype",
    Literal[tuple(DATATYPES)] | None,
    None,
    "The element type, as the Open Inference Protocol calls it; none: what the unit or the model "
    "says.",
)
_SHAPE = Option(
    "shape",
    list[int] | None,
    None,
    "The shape of one buffer (one row, where the array is batched); -1: an axis of any length.",
    minimum=-1,
    maximum=1 << 30,
)
_BATCHED = Option(
    "batched",
    bool,
    True,
    "A request's array is cut along its first axis, a buffer a row; false: it is one buffer.",
)

# Of [serve].
SERVE_OPTIONS: tuple[Option, ...] = (
    Option(
        "isolate",
        bool,
        False,
        "`modelflow serve` gives the graph a process of its own, as with `--isolate`; read when "
        "the server starts.",
    ),
    Option("input", Any, MappingProxyType({}), "What callers must know of each input."),
    Option("output", Any, MappingProxyType({}), "What callers must know of each output."),
)

# Of [serve.input.NAME] and [serve.output.NAME].
SERVE_KEYS: Mapping[str, tuple[Option, ...]] = MappingProxyType(
    {
        "input": (_DATATYPE, _SHAPE, _BATCHED),
        "output": (
            _DATATYPE,
            _SHAPE,
            _BATCHED,
            Option(
                "labels",
                str | list[str],
                (),
                "The names of the classes, or a file with one on each line (relative to the graph "
                "file).",
            ),
        ),
    }
)

# Of [placement.NAME].
PLACEMENT_KEYS: tuple[Option, ...] = (
    Option(
        "replicas",
        str | int,
        "1",
        "How many run, each with all that is placed here: '2'; or '1..8', as many as the calls "
        "that wait need.",
    ),
    Option(
        "resources",
        Any,
        MappingProxyType({}),
        "What each takes of its machine, in Ray's words: { CPU = 2, GPU = 0.5, memory = '8GiB' }.",
    ),
    Option(
        "labels",
        Any,
        MappingProxyType({}),
        "What its machine is labelled with: { 'ray.io/accelerator-type' = 'H100' }.",
    ),
    Option(
        "strategy",
        Literal["spread", "pack"],
        "spread",
        "spread: replicas go to different machines where that can be; pack: to few.",
    ),
    Option(
        "in_flight",
        int,
        4,
        "Batches that are under way to one replica at once; the others wait in the queue before "
        "the cut.",
        minimum=1,
        maximum=1024,
    ),
    Option(
        "timeout_ms",
        float | None,
        None,
        "A replica that has done no row that a batch waits for, for so long, counts as lost, and "
        "another is asked; none: a row may take as long as it takes, and a replica is lost that "
        "has given no sign of life for 30 s.",
        minimum=1,
        maximum=86_400_000,
    ),
    Option(
        "start_timeout_ms",
        float,
        300_000.0,
        "How long a replica may take until it has loaded its models and is ready.",
        minimum=1,
        maximum=86_400_000,
    ),
    Option(
        "retries",
        int,
        2,
        "How often a batch is sent again whose replica was lost, at last row by row; 0 where a "
        "unit must not run twice on a row: the rows are then in error.",
        minimum=0,
        maximum=100,
    ),
)

NODE_ATTRIBUTES: tuple[Option, ...] = (
    Option(
        "type",
        Literal["flowunit", "input", "output"],
        "flowunit",
        "A flow unit, or the graph's own input or output port, named after the node.",
    ),
    Option("flowunit", str | None, None, "Which unit runs; none: the one named as the node."),
    Option("device", str, "cpu", "cpu, cuda, auto, or a list across devices: 'cuda:0,1;cpu:0'."),
    Option("deviceid", str | None, None, "The device's number, or a list '0,1'; none: 0."),
    *options_of(NodeOptions),
)

# Keys of [graph] that may stand in the DOT graph itself.
GRAPH_ATTRIBUTES = ("queue_size", "batch_size", "deviceid", "fuse", "need_check_output")

# Accepted on nodes and named in a note: ModelBox reads them, they have no meaning here.
IGNORED_ATTRIBUTES = ("queue_size_event", "queue_size_external", "output_type", "need_check_output")

# TensorFlow Serving's names of node attributes.
SERVING_ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "max_batch_size": "batch_size",
        "batch_timeout_micros": "batch_timeout_ms",
        "num_batch_threads": "threads",
        "max_enqueued_batches": "queue_size",
    }
)

_DRAWING = """
    bgcolor color colorscheme comment dir fillcolor fixedsize fontcolor fontname fontsize group
    height href image label labelloc labeljust layout margin nodesep ordering orientation
    pencolor penwidth peripheries pos rank rankdir ranksep regular shape shapefile sides skew
    splines style tooltip URL width xlabel
"""
DRAWING_ATTRIBUTES = frozenset(_DRAWING.split())
"""What Graphviz draws with; dropped from the nodes."""
