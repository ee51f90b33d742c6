"""Tests that every consumer receives the producer's data, even if others write to the data."""

import json
import sys
from itertools import chain
from typing import Any, NamedTuple

import cv2
import numpy as np
import pytest

import modelflow
from modelflow.buffer import Buffer
from modelflow.runtime.stages.sharing import freeze, make_writable, writable
from tests import programs

torch = pytest.importorskip("torch")


class Own(np.ndarray):
    """An array of a class of the user's own."""


class Table(NamedTuple):
    """Data that a unit keeps: the same values in three places."""

    array: np.ndarray
    tensor: Any
    memmap: np.memmap


@pytest.fixture
def make_table(tmp_path):
    def make(name):
        array = np.arange(12.0).reshape(3, 4)
        array.tofile(tmp_path / name)
        memmap = np.memmap(tmp_path / name, array.dtype, "r+", shape=array.shape)
        return Table(array, torch.from_numpy(array.copy()), memmap)

    return make


def read_only(array):
    array.flags.writeable = False
    return array


def pooled(values):
    array = modelflow.empty((1 << 14,), values.dtype)
    array[:] = np.resize(values, array.shape)
    return array


# The item number i that a unit emits.
GIVEN = {
    "own array": lambda table, i: table.array[i].copy(),
    "array of the pool": lambda table, i: pooled(table.array[i]),
    "the table itself": lambda table, i: table.array,
    "view": lambda table, i: table.array[i],
    "overlapping views": lambda table, i: table.array.reshape(-1)[i : i + 8],
    "view of an array of the pool": lambda table, i: pooled(table.array[i])[5:],
    "numpy() of a tensor": lambda table, i: table.tensor[i].numpy(),
    "from_dlpack": lambda table, i: np.from_dlpack(table.tensor[i]),
    "tensor": lambda table, i: table.tensor[i],
    "subclass": lambda table, i: table.array[i].view(Own),
    "memmap": lambda table, i: table.memmap[i],
    "array of a memmap": lambda table, i: np.asarray(table.memmap[i]),
    "array of bytes": lambda table, i: np.frombuffer(table.array[i].tobytes()),
    "read-only array": lambda table, i: read_only(table.array[i].copy()),
    "read-only view": lambda table, i: read_only(table.array[i]),
}
# earlier versions cannot export read-only memory
if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
    GIVEN["from_dlpack, read-only"] = lambda table, i: np.from_dlpack(read_only(table.array[i]))


# Values to which the unit keeps no reference.
HANDED_OVER = ("own array", "array of the pool", "view of an array of the pool")


def ask_infer(flow):
    return [flow.infer(i) for i in range(3)]


def ask_map(flow):
    return [answer for _, answer in flow.map(range(3))]


def ask_recv(flow):
    with flow.create_stream_io() as stream:
        for i in range(3):
            stream.send("input", i)
        stream.close_input()
        columns = {name: [stream.recv(name) for _ in range(3)] for name in stream.outputs}
    if len(columns) == 1:
        return columns["a"]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def recording_unit(name, is_in_place, seen):
    """Returns a unit that records its input, and writes to the input if ``is_in_place``."""

    @modelflow.flowunit(name=name, inputs=[modelflow.Port("x", is_in_place=is_in_place)], threads=1)
    def consume(x):
        seen.append(np.asarray(x).copy())
        if is_in_place:
            x[:] = -1
        return x

    return consume


def graph_of(*chains):
    outputs = {chain.split()[-1] for chain in chains}
    nodes = " ".join(f"{name} [type=output]" for name in outputs)
    return f"digraph {{ input [type=input] {nodes} {'; '.join(chains)} }}"


def parts_of(answer):
    return [answer[name] for name in sorted(answer)] if isinstance(answer, dict) else [answer]


@pytest.mark.parametrize("ask", [ask_infer, ask_map, ask_recv])
@pytest.mark.parametrize("threads", [0, None])
@pytest.mark.parametrize("what", GIVEN)
def test_every_consumer_is_given_what_the_producer_gave(make_table, what, threads, ask):
    # The consumers, and whether each writes to its input.
    for writes in ([], [False], [True], [False, False], [True, False], [False, True]):
        check_consumers(make_table, what, threads, ask, writes)


def check_consumers(make_table, what, threads, ask, writes):
    table = make_table("used")

    @modelflow.flowunit(threads=1, hands_over_arrays=what in HANDED_OVER)
    def produce(i):
        return GIVEN[what](table, i)

    seen = [[] for _ in writes]
    units = [recording_unit(f"unit{i}", writes[i], seen[i]) for i in range(len(writes))]
    ways = [f"input -> produce -> unit{i} -> {'ab'[i]}" for i in range(len(writes))]
    graph = graph_of(*(ways or ["input -> produce -> a"]))
    with modelflow.Flow(graph, units=[produce, *units], threads=threads) as flow:
        answers = [parts_of(answer) for answer in ask(flow)]
    wanted = [np.asarray(GIVEN[what](make_table("fresh"), i)).copy() for i in range(3)]
    for place, is_in_place in enumerate(writes):
        for i, array in enumerate(wanted):
            np.testing.assert_array_equal(seen[place][i], array)
            left = np.full_like(array, -1) if is_in_place else array
            np.testing.assert_array_equal(np.asarray(answers[i][place].data), left)
    if not writes:
        for (buffer,), array in zip(answers, wanted, strict=True):
            np.testing.assert_array_equal(np.asarray(buffer.data), array)
    for buffer in chain.from_iterable(answers):  # writable data belongs to the receiver alone
        if type(buffer.data) is np.ndarray and buffer.data.flags.writeable:
            buffer.data[:] = -2
    for used, fresh in zip(table, make_table("fresh"), strict=True):
        np.testing.assert_array_equal(used, fresh)


def change_and_return(make_array, **spec):
    """Returns the addresses that a unit gave and that an in-place unit changed, and the answer."""
    addresses = []

    @modelflow.flowunit(**spec)
    def produce(i):
        array = make_array(i)
        addresses.append(array.ctypes.data)
        return array

    @modelflow.flowunit(inputs=[modelflow.Port("x", is_in_place=True)], hands_over_arrays=True)
    def change(x):
        addresses.append(x.ctypes.data)
        x[:] = -1
        return x

    graph = graph_of("input -> produce -> change -> output")
    with modelflow.Flow(graph, units=[produce, change], threads=0) as flow:
        return addresses, flow.infer(0).data


def write_behind(*units, sent=0):
    """Returns the answer to ``sent`` of these units, and of an in-place unit behind them."""
    change = recording_unit("change", True, [])
    names = " -> ".join(unit.SPEC.name for unit in units)
    graph = graph_of(f"input -> {names} -> change -> output")
    with modelflow.Flow(graph, units=[*units, change], threads=0) as flow:
        return flow.infer(sent).data.tolist()


@pytest.mark.parametrize("what", HANDED_OVER)
def test_an_array_that_is_handed_over_is_written_without_a_copy(make_table, what):
    table = make_table("used")
    (given, changed), answer = change_and_return(
        lambda i: GIVEN[what](table, i), hands_over_arrays=True
    )
    assert given == changed == answer.ctypes.data
    assert answer.flags.writeable


def test_a_unit_that_says_nothing_keeps_its_array():
    kept = np.zeros(3)
    (given, changed), answer = change_and_return(lambda _: kept)
    assert given != changed == answer.ctypes.data
    assert kept.tolist() == [0, 0, 0]


@pytest.mark.parametrize("cut", [lambda x: x, lambda x: x[1:]], ids=["itself", "a view"])
def test_what_was_sent_cannot_be_handed_over(cut):
    @modelflow.flowunit(hands_over_arrays=True)
    def part(x):
        return cut(x)

    sent = np.zeros(3)
    assert write_behind(part, sent=sent) == [-1] * len(cut(sent))
    assert sent.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "how",
    [lambda given: given, list, lambda given: [buffer.data for buffer in given]],
    ids=["its list", "its buffers", "its arrays"],
)
def test_a_unit_that_passes_an_array_on_and_keeps_it_hands_it_over_no_more(how):
    kept = []

    @modelflow.flowunit(hands_over_arrays=True)
    def produce(i):
        return np.zeros(3)

    class Keep(modelflow.FlowUnit):
        SPEC = modelflow.FlowUnitSpec(
            name="keep",
            devices={"cpu": lambda: Keep()},
            inputs=(modelflow.Port("in"),),
            outputs=(modelflow.Port("out"),),
        )

        def process(self, ctx):
            kept.extend(buffer.data for buffer in ctx.input())
            ctx.outputs["out"] = how(ctx.inputs["in"])

    assert write_behind(produce, Keep) == [-1] * 3
    assert kept[0].tolist() == [0, 0, 0]


def test_a_unit_that_puts_an_array_of_its_own_into_its_input_keeps_it(monkeypatch):
    kept = np.zeros(3)
    monkeypatch.setattr(Replace, "make", staticmethod(lambda: kept))

    @modelflow.flowunit(hands_over_arrays=True)
    def produce(i):
        return np.ones(3)

    assert write_behind(produce, Replace) == [-1] * 3
    assert kept.tolist() == [0, 0, 0]


class Replace(modelflow.FlowUnit):
    """Replaces the data of the input buffers."""

    make: Any = None
    SPEC = modelflow.FlowUnitSpec(
        name="replace",
        devices={"cpu": lambda: Replace()},
        inputs=(modelflow.Port("in"),),
        outputs=(modelflow.Port("out"),),
    )

    def process(self, ctx):
        for buffer in ctx.input():
            buffer.data = self.make()
        ctx.emit(ctx.input())


@pytest.mark.parametrize(
    "make", [lambda: str(0.5), lambda: np.frombuffer(b"abc", np.uint8), lambda: [1]]
)
def test_what_a_unit_puts_into_a_buffer_that_it_was_given_is_received_as_it_is(make, monkeypatch):
    monkeypatch.setattr(Replace, "make", staticmethod(make))

    @modelflow.flowunit
    def produce(i):
        return np.zeros(i)

    graph = graph_of("input -> produce -> replace -> output")
    with modelflow.Flow(graph, units=[produce, Replace], threads=0) as flow:
        assert np.array_equal(flow.infer(3).data, make())


def test_frames_and_crops_of_them_are_written_by_run(tmp_path):
    (tmp_path / "parts.py").write_text(
        "import modelflow, numpy as np\n"
        "@modelflow.flowunit(kind='expand')\n"
        "def crops(text):\n"
        "    'Gives a frame and two crops of it.'\n"
        "    frame = np.arange(6)\n"
        "    return [frame, frame[:4], frame[2:]]\n"
    )
    (tmp_path / "items").mkdir()
    for name in "ab":
        (tmp_path / "items" / name).write_text(name)
    graph = graph_of("input -> crops -> output")
    (tmp_path / "graph.dot").write_text(f'{graph[:-1]} crops [flowunit="parts:crops"] }}')
    # Not in the folder: `make mutants` reads its settings from its start folder.
    command = [sys.executable, "-m", "modelflow", "run", str(tmp_path / "graph.dot")]
    done = programs.run([*command, "--input", str(tmp_path / "items")], text=True)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line)["data"] for line in done.stdout.splitlines()]
    assert found == [[0, 1, 2, 3, 4, 5], [0, 1, 2, 3], [2, 3, 4, 5]] * 2


WRITES = {
    "item": lambda x: x.__setitem__(0, 1),
    "sum": lambda x: x.__iadd__(1),
    "sort": lambda x: x.sort(),
    "opencv": lambda x: cv2.line(x, (0, 0), (1, 1), 1),
}


@pytest.mark.parametrize("how", WRITES)
def test_a_unit_that_writes_to_a_read_only_input_is_told_what_to_do(how):
    @modelflow.flowunit
    def write(x):
        return WRITES[how](x)

    with (
        modelflow.Flow(graph_of("input -> write -> output"), units=[write]) as flow,
        pytest.raises(modelflow.FlowUnitError, match=r"copy it, or declare the port is_in_place$"),
    ):
        flow.infer(np.zeros((4, 4), np.uint8))


# -- single buffers ------------------------------------------------------------------------------


def test_writable_keeps_what_is_not_an_array():
    buffer = Buffer("text")
    assert writable(buffer) is buffer


def test_an_array_that_goes_on_to_several_inputs_is_shared():
    buffer = Buffer(np.zeros(3))
    freeze(buffer, is_handed_over=True)
    freeze(buffer, is_handed_over=True)
    assert make_writable(buffer)
    freeze(buffer, is_handed_over=False)
    assert not make_writable(buffer)


def test_a_copy_that_may_be_written_has_the_meta_and_the_deadline_of_the_buffer():
    buffer = Buffer(np.zeros(3), {"a": 1})
    buffer._deadline = 5.0
    freeze(buffer, is_handed_over=False)
    copied = writable(buffer)
    assert copied is not buffer
    assert (copied.meta, copied._deadline) == ({"a": 1}, 5.0)


FOREIGN = {
    "tensor": lambda x: (torch.ones(3) * 0).numpy(),
    "dlpack": lambda x: np.from_dlpack(torch.zeros(3)),
    "bytearray": lambda x: np.frombuffer(bytearray(24)),
    "shaped bytearray": lambda x: np.frombuffer(bytearray(24)).reshape(3, 1)[:, 0],
}


@pytest.mark.parametrize("is_in_place", [True, False])
@pytest.mark.parametrize("what", FOREIGN)
def test_memory_of_another_library_that_is_handed_over_is_copied_or_stays_read_only(
    what, is_in_place
):
    @modelflow.flowunit(hands_over_arrays=True)
    def produce(i):
        return FOREIGN[what](i)

    unit = recording_unit("change", is_in_place, [])
    graph = graph_of("input -> produce -> change -> output")
    with modelflow.Flow(graph, units=[produce, unit], threads=0) as flow:
        for _ in range(2):
            assert flow.infer(0).data.tolist() == [-1 if is_in_place else 0] * 3


def test_a_view_of_an_array_that_was_made_read_only_is_copied():
    array = np.zeros(3)
    buffer = Buffer(array[:])
    freeze(buffer, is_handed_over=True)
    array.flags.writeable = False
    copied = writable(buffer)
    assert copied is not buffer
    assert copied.data.flags.writeable


@pytest.mark.parametrize("make", [lambda a: a.view(Own), np.ma.masked_array], ids=["own", "masked"])
def test_an_array_of_a_subclass_that_was_sent_is_never_written(make):
    @modelflow.flowunit(hands_over_arrays=True)
    def plain(x):
        return np.asarray(x)

    sent = np.zeros(3)
    assert write_behind(plain, sent=make(sent)) == [-1] * 3
    assert sent.tolist() == [0] * 3


@pytest.mark.parametrize("read", [np.frombuffer, lambda x: np.frombuffer(x).reshape(3, 1)[:, 0]])
def test_bytes_that_were_sent_are_never_written(read):
    @modelflow.flowunit(hands_over_arrays=True)
    def array(x):
        return read(x)

    sent = bytearray(24)
    assert write_behind(array, sent=sent) == [-1] * 3
    assert sent == bytearray(24)
