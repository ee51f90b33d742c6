import asyncio
import os
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

import modelflow
from modelflow.config.read import find_graph
from modelflow.errors import (
    ConfigError,
    DeadlineExceeded,
    FlowFailed,
    FlowUnitError,
    GraphError,
    StreamClosed,
    UnknownFlowUnitError,
)
from modelflow.plan import SLOW_ROW

ECHO = "digraph echo { input [type=input] half output [type=output] input -> half -> output }"


@modelflow.flowunit
def half(number: int):
    if number % 2:
        raise ValueError(f"{number} is odd")
    return number // 2


@pytest.fixture
def flow():
    with modelflow.Flow(ECHO, units=[half]) as running:
        yield running


def test_infer_gives_one_answer(flow):
    assert flow.infer(4).data == flow.infer({"input": 4}).data == 2


def test_infer_raises_the_units_error(flow):
    with pytest.raises(FlowUnitError, match=r"node 'half'.*5 is odd"):
        flow.infer(5)


def test_rows_that_take_long_leave_one_by_one_though_they_came_at_once():
    are_sent, may_go_on = threading.Event(), threading.Event()

    @modelflow.flowunit
    def slow(number: int):
        if number == 0:
            assert are_sent.wait(60)
        if number <= 0:
            time.sleep(2 * SLOW_ROW)
        elif number > 1:
            assert may_go_on.wait(60)
        return number

    graph = "digraph { input [type=input] slow [threads=1] output [type=output] "
    with modelflow.Flow(graph + "input -> slow -> output }", units=[slow]) as flow:
        flow.infer(-1)  # the call is known to take long
        stream = flow.create_stream_io()
        for number in range(9):
            stream.send("input", number)
        stream.close_input()
        are_sent.set()
        assert [stream.recv(timeout=60).data for _ in range(2)] == [0, 1]
        may_go_on.set()
        assert [buffer.data for buffer in stream] == list(range(2, 9))


async def ask(call, value, **limit):
    return await call(value, **limit)


ASKS = {
    "infer": lambda flow, value, **limit: flow.infer(value, **limit),
    "infer at once": lambda flow, value, **limit: flow.infer(value, wait=False, **limit),
    "ainfer": lambda flow, value, **limit: asyncio.run(ask(flow.ainfer, value, **limit)),
    "ainfer at once": lambda flow, value, **limit: asyncio.run(
        ask(flow.ainfer, value, wait=False, **limit)
    ),
}


@pytest.fixture
def hanging():
    """Returns a flow whose unit is known to be quick, but hangs for a negative number."""
    may_go_on = threading.Event()

    @modelflow.flowunit
    def quick(number: int):
        if number < 0:
            may_go_on.wait(20)
        return number

    with modelflow.Flow(ECHO.replace("half", "quick"), units=[quick]) as flow:
        for number in range(20):
            flow.infer(number)
        yield flow
        may_go_on.set()


@pytest.mark.parametrize("entrance", ASKS)
@pytest.mark.parametrize(
    ("limit", "kind"),
    [
        ({"timeout": 0.05}, TimeoutError),
        ({"deadline": 0.05}, DeadlineExceeded),
        ({"timeout": 0.05, "deadline": 60.0}, TimeoutError),
        ({"timeout": 60.0, "deadline": 0.05}, DeadlineExceeded),
    ],
)
def test_an_answer_is_waited_for_as_long_as_was_said_whatever_the_unit_does(
    hanging, entrance, limit, kind
):
    with pytest.raises(TimeoutError) as raised:
        ASKS[entrance](hanging, -1, **limit)
    assert type(raised.value) is kind


def test_the_values_of_a_session_are_waited_for_as_long_as_was_said(hanging):
    with pytest.raises(TimeoutError):
        hanging.create_stream_io().exchange({"input": (1, -1)}, timeout=0.05)


def test_a_deadline_that_ends_the_wait_is_told_with_its_length(hanging):
    with pytest.raises(DeadlineExceeded, match=r"^no answer within 0\.05 s, its deadline; the req"):
        hanging.infer(-1, deadline=0.05)


def test_infer_of_wrong_inputs_names_those_there_are():
    graph = (
        "digraph { a [type=input] b [type=input] x [type=output] y [type=output] a -> x b -> y }"
    )
    with modelflow.Flow(graph) as flow:
        answers = flow.infer({"a": 1, "b": 2})
        assert {name: buffer.data for name, buffer in answers.items()} == {"x": 1, "y": 2}
        with pytest.raises(KeyError, match=r"got the inputs \['a'\]; expected \['a', 'b'\]"):
            flow.infer({"a": 1})
        with pytest.raises(KeyError, match="give a mapping"):
            flow.infer(1)
        assert flow.scheduler.count_held() == {}  # no session was begun for them


def test_infer_where_sources_feed_the_graph_names_them():
    @modelflow.flowunit
    def numbers():
        yield from range(3)

    graph = "digraph { numbers o [type=output] numbers -> o }"
    with (
        modelflow.Flow(graph, units=[numbers]) as flow,
        pytest.raises(StreamClosed, match="has no input; it is fed by its sources: 'numbers'"),
    ):
        flow.infer(1)


def test_a_mapping_may_be_the_value_of_the_only_input():
    with modelflow.Flow("digraph { i [type=input] o [type=output] i -> o }") as flow:
        assert flow.infer({"some": "data"}).data == {"some": "data"}


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("digraph { a [flowunit=resise] b [type=output] a -> b }", UnknownFlowUnitError),
        ("digraph {", ConfigError),
        ("/no/such/file.toml", ConfigError),
        ("digraph { }", GraphError),
    ],
)
def test_a_wrong_graph_is_found_at_once(source, error):
    with pytest.raises(error):
        modelflow.Flow(source)


def test_a_flow_is_started_once_and_stopped_once():
    flow = modelflow.Flow(ECHO, units=[half])
    with pytest.raises(StreamClosed, match="the flow is not running; call start"):
        flow.create_stream_io()
    assert not flow.scheduler.is_running
    with pytest.raises(StreamClosed, match="it is new"):
        flow.create_stream_io()
    flow.start()
    assert flow.is_running
    stream = flow.create_stream_io({"user": "me"})
    assert stream.context == {"user": "me"}
    flow.stop()
    flow.stop()
    assert flow.wait(60)
    with pytest.raises(StreamClosed, match="it is stopped"):
        flow.create_stream_io()


def test_the_ready_graphs_are_found_by_name():
    assert modelflow.Flow(find_graph("digits")).graph.name == "digits"
    with pytest.raises(ConfigError, match="no graph is named 'digts'; did you mean 'digits'"):
        find_graph("digts")


def test_overrides_and_args_change_the_graph():
    flow = modelflow.Flow(ECHO, units=[half], overrides={"half.threads": 3, "*.batch_size": "2"})
    stage = flow.scheduler.plan.stages["half"]
    assert (stage.threads, stage.batch_size) == (3, 2)


def test_a_graph_built_in_code_runs():
    desc = modelflow.FlowGraphDesc()
    source = desc.add_input("number")
    twice = desc.add_function(lambda_twice, ["x"], ["y"], source)
    desc.add_output("answer", twice)
    with modelflow.Flow(desc) as flow:
        assert flow.infer(21).data == 42


def lambda_twice(x):
    return 2 * x


def test_a_mapping_is_a_graph():
    graph = {
        "node": [{"name": "i", "type": "input"}, {"name": "half"}, {"name": "o", "type": "output"}],
        "edge": [{"from": "i", "to": "half"}, {"from": "half", "to": "o"}],
    }
    with modelflow.Flow(graph, units=[half]) as flow:
        assert flow.infer(8).data == 4


def test_ainfer_answers_many_at_once(flow):
    async def use():
        return [b.data for b in await asyncio.gather(*(flow.ainfer(2 * i) for i in range(50)))]

    assert asyncio.run(use()) == list(range(50))


def test_a_flow_in_an_asynchronous_block():
    async def use():
        async with modelflow.Flow(ECHO, units=[half]) as flow:
            return (await flow.ainfer(6)).data

    assert asyncio.run(use()) == 3


def test_32_threads_use_infer_and_streams_at_once(flow):
    wrong = []

    def use(number):
        stream = flow.create_stream_io()
        for i in range(10):
            if flow.infer(2 * number).data != number:
                wrong.append(number)
            stream.send("input", 2 * i)
        stream.close_input()
        if [b.data for b in stream] != list(range(10)):
            wrong.append(number)

    threads = [threading.Thread(target=use, args=(n,), name=f"modelflow/t{n}") for n in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_threads_0_runs_on_the_calling_thread():
    seen = set()

    @modelflow.flowunit
    def where(x):
        seen.add(threading.current_thread())
        return x

    graph = "digraph { input [type=input] where output [type=output] input -> where -> output }"
    with modelflow.Flow(graph, units=[where], threads=0) as flow:
        assert flow.infer(1).data == 1
    assert seen == {threading.current_thread()}
    with pytest.raises(ValueError, match="expected None, or 0"):
        modelflow.Flow(graph, threads=3)


def test_a_graph_with_sources_runs_to_its_end():
    got = []

    @modelflow.flowunit
    def numbers(*, count: int = 5):
        yield from range(count)

    @modelflow.flowunit(outputs=())
    def keep(value):
        got.append(value)

    flow = modelflow.Flow(
        "digraph { numbers [count=20] keep numbers -> keep }", units=[numbers, keep]
    )
    with flow:
        flow.wait()
    assert got == list(range(20))
    assert not flow.is_running


def test_results_of_a_source_are_received_from_its_stream():
    @modelflow.flowunit
    def numbers(*, count: int = 5):
        yield from range(count)

    graph = "digraph { numbers half output [type=output] numbers -> half -> output }"
    with modelflow.Flow(graph, units=[numbers, half]) as flow:
        stream = flow.create_stream_io(source="numbers")
        assert stream.recv().data == 0
        with pytest.raises(FlowUnitError):
            stream.recv()
        with pytest.raises(StreamClosed, match="has no input; it is fed by its sources: 'numbers'"):
            flow.create_stream_io()
        unknown = r"no source 'number'; did you mean 'numbers'\? \(sources: 'numbers'\)"
        with pytest.raises(KeyError, match=unknown):
            flow.create_stream_io(source="number")
        with pytest.raises(
            TypeError, match="context: got 'numbers'; expected a mapping, or source="
        ):
            flow.create_stream_io("numbers")


def test_a_failing_open_leaves_nothing_behind():
    class Broken(modelflow.FlowUnit):
        SPEC = modelflow.FlowUnitSpec(
            "broken",
            {"cpu": lambda: Broken()},
            inputs=(modelflow.Port("in"),),
            outputs=(modelflow.Port("out"),),
        )

        def open(self, config):
            raise OSError("no camera")

    graph = "digraph { input [type=input] broken output [type=output] input -> broken -> output }"
    with pytest.raises(FlowFailed) as caught, modelflow.Flow(graph, units=[Broken]):
        pass
    assert "node 'broken' (unit 'broken') failed in open: OSError: no camera" in str(
        caught.value.exceptions[0]
    )


def test_leaving_the_block_by_an_error_drops_what_is_queued():
    gate = threading.Event()

    @modelflow.flowunit
    def slow(x):
        gate.wait(5)
        return x

    graph = "digraph { i [type=input] slow [threads=1] o [type=output] i -> slow -> o }"
    with pytest.raises(ZeroDivisionError), modelflow.Flow(graph, units=[slow]) as flow:
        stream = flow.create_stream_io()
        for i in range(20):
            stream.send("i", i)
        gate.set()
        raise ZeroDivisionError
    with pytest.raises(StreamClosed):
        while True:
            stream.recv()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_flow_is_refused_in_a_forked_process(flow):
    child = os.fork()
    if child == 0:
        try:
            flow.infer(2)
        except StreamClosed as error:
            os._exit(7 if "forked" in str(error) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_stats_tell_what_each_node_did(flow):
    for i in range(10):
        flow.infer(2 * i)
    stats = flow.stats()["half"]
    assert (stats.node, stats.buffers, stats.errors) == ("half", 10, 0)


@pytest.mark.parametrize("fuse", ["off", "auto"])
def test_nodes_that_run_as_one_stage_unasked_keep_their_errors_and_figures(fuse):
    graph = (
        f"digraph {{ fuse={fuse} input [type=input] first [flowunit=half] second [flowunit=half] "
        "output [type=output] input -> first -> second -> output }"
    )
    computing = replace(half.SPEC, is_compute_bound=True)
    with modelflow.Flow(graph, units=[computing]) as flow:
        assert len(flow.scheduler.plan.stages) == (1 if fuse == "auto" else 2)
        assert flow.infer(8).data == 2
        with pytest.raises(FlowUnitError, match=r"node 'first'.*3 is odd"):
            flow.infer(3)
        with pytest.raises(FlowUnitError, match=r"node 'second'.*5 is odd"):
            flow.infer(10)
        figures = {name: (node.buffers, node.errors) for name, node in flow.stats().items()}
    assert figures == {"first": (3, 1), "second": (2, 1)}  # 3 passes by "second" in error


def test_a_real_picture_goes_through_real_units():
    cv2 = pytest.importorskip("cv2")
    picture = np.random.default_rng(1).integers(0, 255, (60, 80, 3), np.uint8)
    _, png = cv2.imencode(".png", picture)
    graph = (
        "digraph { input [type=input] image_decoder resize [width=20, height=10] mean [mean=1] "
        "output [type=output] input -> image_decoder -> resize -> mean -> output }"
    )
    with modelflow.Flow(graph) as flow:
        answer = flow.infer(png.tobytes())
    expected = cv2.resize(picture, (20, 10)).astype(np.float32) - 1
    assert np.array_equal(answer.data, expected)
    assert (answer.get("width"), answer.get("height")) == (20, 10)
