"""Units of every kind, written for ModelBox."""

import pytest

import modelflow.compat.modelbox as modelbox
from modelflow.registry.registry import Registry
from modelflow.unit.kind import Condition, Count, Expand, Normal, Stream
from tests.compat.modelbox.folders import graph, unit

HEAD = """
import modelbox

OK = modelbox.Status.StatusCode.STATUS_SUCCESS
CONTINUE = modelbox.Status.StatusCode.STATUS_CONTINUE
"""


def told(path, *texts, meta=None):
    """Sends texts through the graph's input ``i``; returns the results at ``o``."""
    flow = modelbox.Flow()
    assert flow.init(str(path))
    status = flow.start_run()
    assert status, str(status)
    external = flow.create_external_data_map()
    if meta:
        values = modelbox.DataMeta()
        values.set_private_string("key", meta)
        external.set_output_meta("i", values)
    external.send("i", modelbox.BufferList([modelbox.Buffer(None, text) for text in texts]))
    external.close()
    found, outputs = [], modelbox.ExtOutputBufferList()
    while external.recv(outputs, 20_000):
        for buffer in outputs.get_buffer_list("o"):
            if buffer.has_error():
                found.append(f"{buffer.get_error_code()}: {buffer.get_error_msg()}")
            else:
                found.append(str(buffer))
    flow.stop()
    return found


def one(folder, body, **base):
    """Returns a graph with one unit; ``body`` has the methods of the unit's class."""
    lines = "\n".join("    " + line for line in body.strip("\n").split("\n"))
    unit(folder, "one", "One", f"{HEAD}\n\nclass One(modelbox.FlowUnit):\n{lines}\n", ["in"],
         ["out"], **base)  # fmt: skip
    return graph(folder, "i[type=input] u[flowunit=one] o[type=output] i -> u:in u:out -> o")


def test_a_stream_unit_keeps_private_data_and_is_told_of_start_and_end(tmp_path):
    path = one(
        tmp_path,
        """
def data_pre(self, ctx):
    ctx.set_private("seen", [])
    ctx.set_private_string("key", ctx.get_input_meta("in").get_private_string("key"))
    return OK

def process(self, ctx):
    for buffer in ctx.input("in"):
        ctx.get_private("seen").append(str(buffer))
        ctx.output("out").push_back(buffer)
    return OK

def data_post(self, ctx):
    ctx.output("out").push_back(ctx.get_private_string("key") + "".join(ctx.get_private("seen")))
    return OK
""",
    )
    assert told(path, "a", "b", "c", meta="meta:") == ["a", "b", "c", "meta:abc"]


def test_a_stream_unit_goes_on_by_events(tmp_path):
    path = one(
        tmp_path,
        """
def process(self, ctx):
    if ctx.event() is None:
        ctx.set_private_int("left", int(str(ctx.input("in")[0])))
    else:
        assert ctx.input("in").size() == 0
        ctx.output("out").push_back(ctx.event().get_private_string("text"))
        ctx.set_private_int("left", ctx.get_private_int("left") - 1)
    if ctx.get_private_int("left") == 0:
        return OK
    event = modelbox.FlowUnitEvent()
    event.set_private_string("text", str(ctx.get_private_int("left")))
    ctx.send_event(event)
    return CONTINUE
""",
    )
    assert told(path, "3") == ["3", "2", "1"]


def test_a_failing_call_and_a_failing_start(tmp_path):
    path = one(
        tmp_path,
        """
def process(self, ctx):
    for buffer in ctx.input("in"):
        if str(buffer) == "bad":
            return modelbox.Status(modelbox.Status.StatusCode.STATUS_INVALID, "is bad")
        if str(buffer) == "worse":
            raise ValueError("is worse")
        if str(buffer) == "forgotten":
            return None
        if str(buffer) == "own":
            buffer.set_error("One.Own", "its own")
        ctx.output("out").push_back(buffer)
    return OK
""",
        stream=False,
        default_batch_size=1,
    )
    first, bad, worse, forgotten, own, last = told(
        path, "a", "bad", "worse", "forgotten", "own", "b"
    )
    assert (first, last) == ("a", "b")
    assert bad == "one.ProcessError: is bad"
    assert "is worse" in worse
    assert "process returned None; expected a Status (is a return missing?)" in forgotten
    assert own == "One.Own: its own"
    (tmp_path / "start").mkdir()
    path = one(
        tmp_path / "start",
        """
def data_pre(self, ctx):
    return modelbox.Status(modelbox.Status.StatusCode.STATUS_FAULT, "does not start")

def process(self, ctx):
    raise AssertionError("is not called")
""",
    )
    assert told(path, "a", "b") == ["one.ProcessError: does not start"] * 2


def test_errors_are_seen_by_units_that_say_so(tmp_path):
    first = f"""{HEAD}
class First(modelbox.FlowUnit):
    def process(self, ctx):
        for buffer in ctx.input("in"):
            if str(buffer) == "bad":
                buffer.set_error("First.Bad", "is bad")
            ctx.output("out").push_back(buffer)
        return OK
"""
    second = f"""{HEAD}
class Second(modelbox.FlowUnit):
    def process(self, ctx):
        for buffer in ctx.input("in"):
            text = buffer.get_error_code() if buffer.has_error() else str(buffer)
            ctx.output("out").push_back(text + str(ctx.has_error()))
        return OK
"""
    unit(tmp_path, "first", "First", first, ["in"], ["out"], stream=False)
    unit(tmp_path, "second", "Second", second, ["in"], ["out"], stream=False,
         exception_visible=True, default_batch_size=1)  # fmt: skip
    path = graph(
        tmp_path,
        "i[type=input] a[flowunit=first] b[flowunit=second] "
        "o[type=output] i -> a:in a:out -> b:in b:out -> o",
    )
    assert told(path, "x", "bad") == ["xFalse", "First.BadTrue"]


CONDITION = f"""{HEAD}
class Choose(modelbox.FlowUnit):
    def process(self, ctx):
        for buffer in ctx.input("in"):
            ctx.output("long" if len(str(buffer)) > 1 else "short").push_back(buffer)
        return OK
"""
UPPER = f"""{HEAD}
class Upper(modelbox.FlowUnit):
    def process(self, ctx):
        for buffer in ctx.input("in"):
            ctx.output("out").push_back(str(buffer).upper())
        return OK
"""


def test_a_condition_whose_branches_meet_behind_a_stream_unit(tmp_path):
    unit(tmp_path, "choose", "Choose", CONDITION, ["in"], ["long", "short"], condition=True)
    unit(tmp_path, "upper", "Upper", UPPER, ["in"], ["out"])  # a stream unit: it is left out
    path = graph(
        tmp_path,
        "i[type=input] c[flowunit=choose] u[flowunit=upper] o[type=output] i -> c:in "
        "c:long -> u:in u:out -> o c:short -> o",
    )
    assert told(path, "a", "bcd", "e", "fg") == ["a", "BCD", "e", "FG"]


def test_a_stream_unit_in_a_branch_may_drop_what_is_merged(tmp_path):
    dropping = UPPER.replace("ctx.output", "len(str(buffer)) == 3 and ctx.output")
    unit(tmp_path, "choose", "Choose", CONDITION, ["in"], ["long", "short"], condition=True)
    unit(tmp_path, "upper", "Upper", dropping, ["in"], ["out"])
    path = graph(
        tmp_path,
        "i[type=input] c[flowunit=choose] u[flowunit=upper] o[type=output] i -> c:in "
        "c:long -> u:in u:out -> o c:short -> o",
    )
    assert sorted(told(path, "a", "bcd", "e", "fg", "h", "ijk")) == ["BCD", "IJK", "a", "e", "h"]


def test_a_stream_unit_is_joined_with_its_input(tmp_path):
    join = f"""{HEAD}
class Join(modelbox.FlowUnit):
    def process(self, ctx):
        for a, b in zip(ctx.input("a"), ctx.input("b")):
            ctx.output("out").push_back(str(a) + str(b))
        return OK
"""
    unit(tmp_path, "upper", "Upper", UPPER, ["in"], ["out"])
    unit(tmp_path, "join", "Join", join, ["a", "b"], ["out"], stream=False)
    path = graph(
        tmp_path,
        "i[type=input] u[flowunit=upper] j[flowunit=join] o[type=output] i -> u:in u:out -> j:a "
        "i -> j:b j:out -> o",
    )
    assert told(path, "a", "b") == ["Aa", "Bb"]


@pytest.mark.parametrize("collapse_all", [True, False])
def test_expand_and_collapse(tmp_path, collapse_all):
    expand = f"""{HEAD}
class Letters(modelbox.FlowUnit):
    def data_pre(self, ctx):
        ctx.set_private("text", str(ctx.input("in")[0]))
        return OK

    def process(self, ctx):
        text = ctx.get_private("text")
        if text:
            ctx.output("out").push_back(text[0])
            ctx.set_private("text", text[1:])
            ctx.send_event(modelbox.FlowUnitEvent())
            return CONTINUE
        return OK
"""
    collapse = f"""{HEAD}
class Whole(modelbox.FlowUnit):
    def data_pre(self, ctx):
        ctx.set_private("parts", [])
        return OK

    def process(self, ctx):
        ctx.get_private("parts").append("".join(str(buffer) for buffer in ctx.input("in")))
        return OK

    def data_post(self, ctx):
        ctx.output("out").push_back("-".join(ctx.get_private("parts")))
        return OK
"""
    unit(tmp_path, "letters", "Letters", expand, ["in"], ["out"], expand=True)
    unit(tmp_path, "upper", "Upper", UPPER, ["in"], ["out"], stream=False)
    unit(tmp_path, "whole", "Whole", collapse, ["in"], ["out"], collapse=True,
         collapse_all=collapse_all)  # fmt: skip
    path = graph(
        tmp_path,
        "i[type=input] e[flowunit=letters] u[flowunit=upper] c[flowunit=whole] o[type=output] "
        "i -> e:in e:out -> u:in u:out -> c:in c:out -> o",
    )
    expected = ["ABC", "", "D"] if collapse_all else ["A-B-C", "", "D"]
    assert told(path, "abc", "", "d") == expected


def test_a_collapse_without_outputs_is_a_sink(tmp_path):
    expand = f"""{HEAD}
class Letters(modelbox.FlowUnit):
    def process(self, ctx):
        for letter in str(ctx.input("in")[0]):
            ctx.output("out").push_back(letter)
        return OK
"""
    sink = f"""{HEAD}
class Whole(modelbox.FlowUnit):
    def process(self, ctx):
        with open({str(tmp_path / "found")!r}, "a") as file:
            print("".join(str(buffer) for buffer in ctx.input("in")), file=file)
        return OK
"""
    unit(tmp_path, "letters", "Letters", expand, ["in"], ["out"], expand=True)
    unit(tmp_path, "whole", "Whole", sink, ["in"], [], collapse=True)
    path = graph(
        tmp_path,
        "i[type=input] e[flowunit=letters] c[flowunit=whole] o[type=output] "
        "i -> e:in e:out -> c:in i -> o",
    )
    assert told(path, "abc", "d") == ["abc", "d"]
    assert (tmp_path / "found").read_text().split() == ["abc", "d"]


@pytest.mark.parametrize(
    ("base", "kind"),
    [
        ({"stream": True}, Stream(Count.ASSUMED)),
        ({"stream": True, "stream_same_count": True}, Stream(Count.SAME)),
        ({"stream": False}, Normal(is_per_stream=True, is_batch_retried=False)),
        ({"condition": True}, Condition(is_batch_retried=False)),
        ({"expand": True}, Expand()),
    ],
)
def test_units_of_every_kind_run_by_the_rules_of_modelbox(tmp_path, base, kind):
    one(tmp_path, "pass", **base)
    assert Registry([tmp_path]).find("one").kind == kind
