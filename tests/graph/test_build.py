import dataclasses
import sys

import pytest

from flowunits import crop
from modelflow.errors import (
    CycleError,
    DeviceUnavailableError,
    DisabledGraphError,
    GraphError,
    PortError,
    StreamMismatchError,
    UnknownFlowUnitError,
)
from modelflow.graph.read import read_graph
from modelflow.registry.registry import Registry
from modelflow.unit.kind import Collapse, Condition, Expand, Loop
from modelflow.unit.port import Port
from modelflow.unit.spec import FlowUnitSpec
from modelflow.unit.unit import FlowUnit


def unit(name, inputs=("in",), outputs=("out",), **more):
    more.setdefault("devices", {"cpu": FlowUnit})
    return FlowUnitSpec(
        name, inputs=tuple(map(Port, inputs)), outputs=tuple(map(Port, outputs)), **more
    )


UNITS = (
    unit("one"),
    unit("join", inputs=("a", "b")),
    unit("two", outputs=("x", "y")),
    unit("source", inputs=()),
    unit("sink", outputs=()),
    unit("expand", kind=Expand()),
    unit("collapse", kind=Collapse()),
    unit("condition", outputs=("yes", "no"), kind=Condition()),
    unit("loop", outputs=("back", "exit"), kind=Loop()),
)


def build(text, **more):
    return read_graph(f"digraph g {{ i [type=input] o [type=output] {text} }}", units=UNITS, **more)


def findings(text, error=GraphError, **more):
    with pytest.raises(error) as caught:
        build(text, **more)
    return [finding.message for finding in caught.value.findings]


@pytest.mark.parametrize(
    "text",
    [
        "i -> one -> o",
        "i -> one:in one:out -> o",
        "i:anything -> one -> o:whatever",
        "i -> one -> o i -> one",
        "i -> join:a i -> join:b join -> o",
        "i -> two two:x -> o",
        "i -> o source -> sink",
        "i -> expand -> one -> collapse -> o",
        "i -> condition condition:yes -> one -> join:a condition:no -> join:a "
        "i -> join:b join -> o",
        "a [flowunit=one] b [flowunit=one] i -> a -> b -> o",
    ],
)
def test_right_graphs_are_built(text):
    assert build(text).nodes


def test_ports_left_out_are_filled_in_and_repetitions_dropped():
    graph = build("i -> one -> o i -> one:in")
    assert [f"{e.source}->{e.target}" for e in graph.edges] == ["i:i->one:in", "one:out->o:o"]
    assert (graph.inputs, graph.outputs) == (("i",), ("o",))


def test_nodes_come_in_topological_order():
    graph = build("c [flowunit=one] a [flowunit=one] i -> a -> c -> o")
    assert list(graph.nodes) == ["i", "a", "c", "o"]


def masked(is_optional=True):
    """Returns a unit with three outputs: the first may be optional, the last is."""
    names = {"a": is_optional, "x": False, "mask": True}
    outputs = tuple(Port(name, is_optional=value) for name, value in names.items())
    return FlowUnitSpec("masked", {"cpu": FlowUnit}, (Port("in"),), outputs)


def test_an_edge_that_names_no_output_means_the_one_that_is_not_optional():
    text = "digraph g { i [type=input] o [type=output] i -> masked -> o }"
    graph = read_graph(text, units=[masked()])
    assert [str(edge.source) for edge in graph.edges] == ["i:i", "masked:x"]
    assert graph.notes == ()
    graph = read_graph(text.replace("masked ->", "masked masked:mask ->"), units=[masked()])
    assert [str(edge.source) for edge in graph.edges] == ["i:i", "masked:mask"]
    assert graph.notes == ("node 'masked': buffers of 'x' are dropped: nothing is connected to it",)
    with pytest.raises(PortError, match="edge names no output, and there are several: a, x, mask"):
        read_graph(text, units=[masked(is_optional=False)])


def test_an_edge_that_names_no_input_means_the_one_that_is_not_optional():
    text = "digraph g { i [type=input] o [type=output] i -> crop [w=2 h=2] i -> crop -> o }"
    (to_crop, _) = read_graph(text.replace("i -> crop [w", "crop [w"), units=[crop.SPEC]).edges
    assert str(to_crop.target) == "crop:in_image"
    both = text.replace("i -> crop [w", "r [type=input] r -> crop:in_region crop [w")
    assert len(read_graph(both, units=[crop.SPEC]).edges) == 3


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("i -> on -> o", UnknownFlowUnitError, "unknown flow unit 'on'; did you mean 'one'?"),
        ("i -> one:inn one -> o", PortError, "no input 'inn'; did you mean 'in'? (inputs: in)"),
        ("i -> one one:x -> o", PortError, "no output 'x' (outputs: out)"),
        ("i -> join join -> o", PortError, "edge names no input, and there are several: a, b"),
        ("i -> join:a join -> o", PortError, "input 'b' is not connected"),
        (
            "i -> one -> o one -> source",
            PortError,
            "edge uses an input, but the node has no inputs",
        ),
        (
            "i -> one -> o source -> one",
            GraphError,
            "is fed by i:i (from the graph's input) and source:out (from",
        ),
        ("i -> o one", PortError, "nothing connects it; connect or remove it"),
        ("i -> o a [flowunit=one] one -> a -> one", CycleError, "in a cycle that passes no loop"),
        (
            "i -> o i -> join:a source -> join:b",
            StreamMismatchError,
            "'b' from source:out (from the",
        ),
        (
            "i -> expand -> join:a i -> join:b join -> o",
            StreamMismatchError,
            "expanded by 'expand'",
        ),
        ("i -> collapse -> o", StreamMismatchError, "nothing before it has expanded"),
    ],
)
def test_wrong_edges_are_named(text, error, message):
    found = findings(text, error)
    assert any(message in line for line in found), found


def test_all_mistakes_are_found_at_once_in_file_order():
    text = """
        a [flowunit=resize, widht=3]
        b [flowunit=one, batch_size=0, queue_policy=blok, devce=cpu]
        c [type=inptu]
        i -> b -> o
        b -> nowhere
    """
    found = findings(text)
    for expected in (
        "unknown option 'widht' of unit 'resize'; did you mean 'width'",
        "option 'image_height' of unit 'resize' is required",
        "unknown option 'devce' of unit 'one'; did you mean 'device'?",
        "batch_size: got '0'; expected a number from 1",
        "queue_policy: got 'blok'; expected one of 'block', 'reject'; did you mean 'block'?",
        "type: got 'inptu'; expected one of 'flowunit', 'input', 'output'; did you mean 'input'?",
        "unknown flow unit 'nowhere'",
    ):
        assert any(expected in line for line in found), (expected, found)


def test_settings_come_from_the_node_else_from_the_graph():
    graph = build(
        "queue_size=5 batch_size=3 one [queue_size=9, threads=2, batch_timeout_ms=1.5] "
        "i -> one -> o"
    )
    settings = graph.nodes["one"].settings
    assert (settings.queue_size, settings.batch_size, settings.threads) == (9, 3, 2)
    assert settings.batch_timeout_ms == 1.5


def test_what_a_node_sets_itself_is_told_from_the_graphs_defaults():
    nodes = build(
        "queue_size=5 one [batch_size=3, queue_policy=block] two [flowunit=one, queue_size=5] "
        "three [flowunit=one, max_batch_size=2, max_enqueued_batches=4] "
        "i -> one -> two -> three -> o"
    ).nodes
    assert nodes["one"].settings.given == {"batch_size"}
    assert nodes["two"].settings.given == {"queue_size"}
    assert nodes["three"].settings.given == {"batch_size", "queue_size"}


def test_tensorflow_servings_names_are_understood():
    settings = (
        build(
            "one [max_batch_size=4, batch_timeout_micros=2500, num_batch_threads=3, "
            "max_enqueued_batches=5] i -> one -> o"
        )
        .nodes["one"]
        .settings
    )
    assert (settings.batch_size, settings.batch_timeout_ms) == (4, 2.5)
    assert (settings.threads, settings.queue_size) == (3, 20)
    assert "got max_batch_size beside batch_size; give one" in findings(
        "one [max_batch_size=4, batch_size=2] i -> one -> o"
    )


def test_the_queue_of_one_input_is_set():
    graph = build("join [queue_size_b=3] i -> join:a i -> join:b join -> o")
    assert dict(graph.nodes["join"].settings.queue_sizes) == {"b": 3}
    (message,) = findings("join [queue_size_x=3] i -> join:a i -> join:b join -> o", PortError)
    assert message.startswith("queue_size_x: no input 'x'")


def test_drawing_attributes_are_dropped_and_modelboxs_own_are_named_in_notes():
    graph = build(
        "one [shape=box, color=red, label=x, queue_size_event=3, need_check_output=true] "
        "i -> one -> o"
    )
    assert not graph.nodes["one"].options
    assert {note.split(" has no effect")[0] for note in graph.notes} == {
        "node 'one': queue_size_event",
        "node 'one': need_check_output",
    }


def test_a_drawing_attribute_that_the_unit_has_as_an_option_is_an_option():
    graph = build("r [flowunit=resize, width=3, height=4] i -> r -> o")
    assert dict(graph.nodes["r"].options) == {"width": "3", "height": "4"}


def test_an_absent_device_names_those_there_are():
    with pytest.raises(
        DeviceUnavailableError, match=r"device cuda:9 is not on this machine.*cpu:0"
    ):
        read_graph(
            "digraph { i [type=input] g [device=cuda, deviceid=9] o [type=output] i -> g -> o }",
            units=[unit("g", devices={"cpu": FlowUnit, "cuda": FlowUnit})],
        )
    assert "unit 'one' does not run on 'cuda'; it runs on cpu" in findings(
        "one [device=cuda] i -> one -> o"
    )


def test_a_graph_that_is_not_strict_leaves_lonely_nodes_out():
    text = "[graph]\nstrict=false\ngraphconf='digraph {i[type=input] o[type=output] one i->o}'"
    graph = read_graph(text, units=UNITS)
    assert list(graph.nodes) == ["i", "o"]
    assert graph.notes == ("node 'one': nothing connects it; left out",)


def test_a_graph_that_is_switched_off_or_empty_is_refused():
    with pytest.raises(GraphError, match="enable=false"):
        read_graph("[flow]\nenable=false\n[[node]]\nname='i'\ntype='input'")
    with pytest.raises(GraphError, match="the graph has no node"):
        read_graph("digraph { }")


def test_a_node_that_stands_twice_names_the_first():
    text = "[[node]]\nname='i'\ntype='input'\n[[node]]\nname='i'\ntype='input'"
    with pytest.raises(
        GraphError, match="<text>:4: node 'i': is given twice; the first is at <text>:1"
    ):
        read_graph(text)


def test_paths_in_a_file_are_relative_to_it_and_those_of_the_caller_are_not(tmp_path):
    (tmp_path / "g.dot").write_text('digraph { f [flowunit=file_source, path="x/*"] s f -> s }')
    sink = unit("s", outputs=())
    graph = read_graph(tmp_path / "g.dot", units=[sink])
    assert graph.nodes["f"].options["path"] == str(tmp_path / "x/*")
    graph = read_graph(tmp_path / "g.dot", units=[sink], overrides={"f.path": "y/*"})
    assert graph.nodes["f"].options["path"] == "y/*"


def test_a_branch_that_leads_nowhere_is_noted():
    (note,) = build("i -> condition condition:yes -> o").notes
    assert note == "node 'condition': buffers of 'no' are dropped: nothing is connected to it"


def test_an_unknown_attribute_is_a_note_where_the_graph_is_not_strict():
    text = (
        "[graph]\nstrict=%s\ngraphconf='digraph {i[type=input] o[type=output] "
        "r[flowunit=resize, image_width=4, image_height=4, image_witdh=5] i -> r -> o}'"
    )
    graph = read_graph(text % "false")
    assert any("unknown option 'image_witdh'" in note for note in graph.notes)
    assert "image_witdh" not in graph.nodes["r"].options
    with pytest.raises(GraphError, match="unknown option 'image_witdh'"):
        read_graph(text % "true")


def test_a_mistake_of_several_lines_is_one_mistake():
    @dataclasses.dataclass(frozen=True)
    class Options:
        low: int = 0
        high: int = 0

        def __post_init__(self):
            if self.low > self.high:
                message = "low is above high\nswap them"
                raise ValueError(message)

    text = "digraph { i [type=input] between [low=2, high=1] o [type=output] i -> between -> o }"
    with pytest.raises(GraphError) as caught:
        read_graph(text, units=[unit("between", options=Options)])
    (found,) = caught.value.findings
    assert found.message == "options of unit 'between': low is above high\nswap them"


def test_a_graph_that_is_not_to_run_has_an_error_of_its_own():
    text = "digraph { i [type=input] one o [type=output] i -> one -> o }"
    with pytest.raises(DisabledGraphError, match="enable=false"):
        read_graph(f"[flow]\nenable=false\n[graph]\ngraphconf='{text}'", units=UNITS)


def test_a_package_that_is_not_installed_is_found_before_anything_runs(monkeypatch):
    monkeypatch.setitem(sys.modules, "surely_absent", None)
    needy = unit("needy", requires={"numpy": "all", "surely_absent": "video"})
    graph = "digraph { input [type=input] needy output [type=output] input -> needy -> output }"
    with pytest.raises(GraphError) as caught:
        read_graph(graph, units=[needy])
    assert [str(finding.message) for finding in caught.value.findings] == [
        "unit 'needy' needs the package 'surely_absent', which is not installed; install it with: "
        "pip install 'modelflow-graph[video]'"
    ]
    assert read_graph(graph, units=[needy], check_devices=False).nodes["needy"].spec is needy


@pytest.mark.parametrize(
    ("name", "module"),
    [("video_decoder", "av"), ("video_demuxer", "av"), ("httpserver_sync_receive", "httptools")],
)
def test_built_in_units_say_what_they_need(name, module):
    assert module in Registry().find(name).list_required_modules(None)


@pytest.mark.parametrize(
    ("unit", "module", "extra"),
    [
        ('text_vectorize, path="t.json"', "tokenizers", "text"),
        ("resize, image_width=8, image_height=8, antialias=true", "PIL", "pillow"),
    ],
)
def test_what_options_need_is_looked_for_before_anything_runs(unit, module, extra, monkeypatch):
    graph = f"digraph {{ a [type=input] u [flowunit={unit}] b [type=output] a -> u -> b }}"
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(GraphError, match=rf"needs the package '{module}'.*\[{extra}\]"):
        read_graph(graph)
    without = graph.replace("t.json", "t.txt").replace("antialias=true", "antialias=false")
    assert read_graph(without).nodes["u"].spec


@pytest.mark.parametrize("form", ["{name}", "{name} [flowunit={name}]", "{name} -> i"])
def test_of_many_unknown_nodes_the_first_hundred_are_looked_up_and_the_others_counted(
    form, monkeypatch
):
    looked_up, find = [], Registry.find

    def noting(registry, name):
        looked_up.append(name)
        return find(registry, name)

    monkeypatch.setattr(Registry, "find", noting)
    names = [f"n{number}" for number in range(2000)]
    said = findings(" ; ".join(form.format(name=name) for name in names))
    assert looked_up == names[:100]
    assert len(said) == 101
    assert said[-1] == (
        "these are the first 100 findings, 1900 nodes were not checked: correct these, then "
        "check again"
    )


def test_of_many_wrong_edges_the_first_hundred_are_named_and_the_others_counted():
    edges = " ".join(f"i -> one:p{number}" for number in range(300))
    said = findings(f"one -> o {edges}", PortError)
    assert (said[0], said[99]) == ("no input 'p0' (inputs: in)", "no input 'p99' (inputs: in)")
    assert said[100:] == [
        "these are the first 100 findings, 200 edges were not checked: correct these, then "
        "check again"
    ]


def test_what_many_nodes_lack_is_listed_a_hundred_times_and_then_counted():
    nodes = " ".join(f"n{number} [flowunit=one]" for number in range(150))
    said = findings(f"i -> o {nodes}", PortError)
    assert len(said) == 101
    assert said[-1].startswith("these are the first 100 findings, 50 more were found: ")
