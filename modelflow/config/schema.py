"""Every key of a graph file with type, default and help text; source of the reference manual."""

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
                "Folders to search for flow units, with their subfolders; relative to "
                "the graph file.",
            ),
            Option(
                "skip-default",
                bool,
                False,
                "Use a built-in or installed unit only if no folder has a unit of the same name.",
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
                "Record the work of every worker for ui.perfetto.dev in DIR/NAME.trace.json.gz.",
            ),
            Option("dir", str, "profile", "The folder of these files, relative to the graph file."),
            Option("session", bool, False, "Trace every session, not one of 100."),
        ),
        "log": (
            Option("level", _LEVELS | None, None, "The lowest level of modelflow's own messages."),
            Option("path", str | None, None, "A file for the messages."),
            Option("screen", bool, True, "Also write the messages to stderr."),
            Option("num", int, 5, "Number of old log files to keep.", minimum=0, maximum=1000),
            Option(
                "size",
                int,
                10_000_000,
                "Size in bytes at which a new log file begins.",
                **_POSITIVE,
            ),
        ),
        "flow": (
            Option("name", str, "", "The name of the graph, used to find it."),
            Option("desc", str, "", "A description of the graph."),
            Option("enable", bool, True, "false: the graph is refused."),
            Option(
                "max_in_flight",
                int | None,
                None,
                "Maximum buffers inside the whole graph. Default: no limit except the queues.",
                **_POSITIVE,
            ),
        ),
        "graph": (
            Option(
                "format",
                Literal["graphviz", "native"] | None,
                None,
                "The form of the graph. Default: by the content of the file.",
            ),
            Option("graphconf", str | list[str], "", "The graph as DOT text (a list: its lines)."),
            Option("graphconffilepath", str, "", "A file with the DOT text, instead of graphconf."),
            Option("strict", bool, True, "false: nodes without any edge are left out."),
            Option("queue_size", int | None, None, "Default of the node attribute.", **_POSITIVE),
            Option("batch_size", int | None, None, "Default of the node attribute.", **_POSITIVE),
            Option("deviceid", str | None, None, "Default of the node attribute."),
            Option(
                "fuse",
                Literal["auto", "off"],
                "auto",
                "auto: neighbours run as one stage, as if they had the same `fuse` name, under "
                "these conditions. The first feeds only the second. Both are normal units on the "
                "cpu that only compute (`is_compute_bound`), with the same batch_size and "
                "cpu_affinity. Neither sets threads, workers or a queue. Neither is a sink, shares "
                "an instance, has calls for each stream, or sets its threads itself. Nodes with a "
                "`fuse` name follow that name. off: join only nodes with the same `fuse` name.",
            ),
            Option("thread-num", int | None, None, "ModelBox's pool size; no effect."),
            Option("max-thread-num", int | None, None, "ModelBox's pool size; no effect."),
            Option("max_executor_thread_num", int | None, None, "ModelBox's; no effect."),
            Option("need_check_output", bool, True, "Outputs are always checked; no effect."),
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
        "queue_size_external": "queue_size limits the buffers that wait for a node",
        "output_type": "each output has its own results, in order",
    }
)

ARG_KEYS: tuple[Option, ...] = (
    Option("default", Any, None, "The value if the caller gives none."),
    Option("desc", str, "", "A description of the argument."),
)

_DATATYPE = Option(
    "datatype",
    Literal[tuple(DATATYPES)] | None,
    None,
    "The element type in the Open Inference Protocol. Default: the type that the unit or the model "
    "declares.",
)
_SHAPE = Option(
    "shape",
    list[int] | None,
    None,
    "The shape of one buffer (one row of a batched array). -1: an axis of any length.",
    minimum=-1,
    maximum=1 << 30,
)
_BATCHED = Option(
    "batched",
    bool,
    True,
    "true: a request's array is split along its first axis, a row for each buffer. false: the "
    "array is one buffer.",
)

# Keys of [serve].
SERVE_OPTIONS: tuple[Option, ...] = (
    Option(
        "isolate",
        bool,
        False,
        "Run the graph in a process of its own in `modelflow serve`, as with `--isolate`. Read "
        "when the server starts.",
    ),
    Option(
        "parameters",
        list[str],
        (),
        "The request parameters that units read from the session's context, under the key "
        "'parameters'. `modelflow serve` refuses all others.",
    ),
    Option(
        "cache",
        str,
        "0B",
        "The size of the response cache of `modelflow serve`, for example 64MiB. Equal inputs then "
        "get the stored outputs. 0B: no cache.",
    ),
    Option("input", Any, MappingProxyType({}), "Properties of each input, for callers."),
    Option("output", Any, MappingProxyType({}), "Properties of each output, for callers."),
)

# Keys of [serve.input.NAME] and [serve.output.NAME].
SERVE_KEYS: Mapping[str, tuple[Option, ...]] = MappingProxyType(
    {
        "input": (
            _DATATYPE,
            _SHAPE,
            _BATCHED,
            Option(
                "format",
                Literal["NCHW", "NHWC"] | None,
                None,
                "The order of the axes of an image, for clients that read the model's "
                "configuration.",
            ),
        ),
        "output": (
            _DATATYPE,
            _SHAPE,
            _BATCHED,
            Option(
                "labels",
                str | list[str],
                (),
                "The class names, or a file with one name on each line (relative to the graph "
                "file).",
            ),
        ),
    }
)

# Keys of [placement.NAME].
PLACEMENT_KEYS: tuple[Option, ...] = (
    Option(
        "replicas",
        str | int,
        "1",
        "Number of replicas, each with all nodes of this placement: '2', or '1..8' to follow the "
        "number of waiting calls.",
    ),
    Option(
        "resources",
        Any,
        MappingProxyType({}),
        "Resources of each replica, named as in Ray: { CPU = 2, GPU = 0.5, memory = '8GiB' }.",
    ),
    Option(
        "labels",
        Any,
        MappingProxyType({}),
        "Labels that a replica's machine must have: { 'ray.io/accelerator-type' = 'H100' }.",
    ),
    Option(
        "strategy",
        Literal["spread", "pack"],
        "spread",
        "spread: put replicas on different machines if possible; pack: on few machines.",
    ),
    Option(
        "in_flight",
        int,
        4,
        "Batches in flight to one replica. More batches wait in the queue before the placed nodes.",
        minimum=1,
        maximum=1024,
    ),
    Option(
        "timeout_ms",
        float | None,
        None,
        "A replica counts as lost after this time without a finished row, if a batch waits for "
        "it. Another replica then gets the batch. Default: no limit for a row, but a replica "
        "without a sign of life for 30 s counts as lost.",
        minimum=1,
        maximum=86_400_000,
    ),
    Option(
        "start_timeout_ms",
        float,
        300_000.0,
        "Maximum time until a replica has loaded its models and is ready.",
        minimum=1,
        maximum=86_400_000,
    ),
    Option(
        "retries",
        int,
        2,
        "How often a batch is sent again after the loss of its replica, finally row by row. Use 0 "
        "if a unit must not run twice on a row; the rows then fail.",
        minimum=0,
        maximum=100,
    ),
)

NODE_ATTRIBUTES: tuple[Option, ...] = (
    Option(
        "type",
        Literal["flowunit", "input", "output"],
        "flowunit",
        "A flow unit, or an input or output of the graph with the node's name.",
    ),
    Option("flowunit", str | None, None, "The unit to run. Default: the unit of the node's name."),
    Option("device", str, "cpu", "cpu, cuda, auto, or a list across devices: 'cuda:0,1;cpu:0'."),
    Option("deviceid", str | None, None, "The device's number, or a list '0,1'. Default: 0."),
    *options_of(NodeOptions),
)

# Keys of [graph] that may also be attributes of the DOT graph.
GRAPH_ATTRIBUTES = ("queue_size", "batch_size", "deviceid", "fuse", "need_check_output")

# Attributes of ModelBox that nodes accept without effect; a note names them.
IGNORED_ATTRIBUTES = ("queue_size_event", "queue_size_external", "output_type", "need_check_output")

# TensorFlow Serving's names of node attributes -> our names.
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
"""Attributes that only Graphviz's drawing uses; removed from the nodes."""
