"""The keys of a unit file; the reference manual is generated from it."""

from types import MappingProxyType

from modelflow.unit.option import Option

BASE_KEYS: tuple[Option, ...] = (
    Option("name", str, help="the name in flowunit="),
    Option("type", str, help="python, c++, inference, or the unit that this one configures"),
    Option("device", str, "cpu", "The device kind it was written for."),
    Option("version", str, "1.0.0", "x.y.z"),
    Option("description", str, "", "One sentence."),
    Option("group_type", str, "", "A heading for lists."),
    Option(
        "entry",
        str,
        "",
        "Python: file@ClassName; c++: the library; inference: the model's file or folder.",
    ),
    Option("virtual_type", str, "", "Inference: the engine."),
    Option("stream", bool | None, None, "A stream unit; left out: true for type python."),
    Option("condition", bool, False, "A condition unit."),
    Option("collapse", bool, False, "A collapse unit."),
    Option("collapse_all", bool, True, "It is called with the whole sub-stream."),
    Option("expand", bool, False, "An expand unit."),
    Option("loop", bool, False, "A loop unit."),
    Option("stream_same_count", bool, False, "A stream unit that keeps the count: `Count.SAME`."),
    Option("max_batch_size", int | None, None, "Most buffers in a call; 0: no bound.", minimum=0),
    Option("default_batch_size", int | None, None, "Default of batch_size.", minimum=1),
    Option("exception_visible", bool, False, "It can be given buffers in error."),
    Option(
        "compute_bound",
        bool,
        False,
        "Calls do nothing but compute, on any thread: neighbours of that sort are one stage.",
    ),
    Option(
        "one_by_one",
        bool,
        False,
        "Calls work on their rows one after the other: those that take long get a call each.",
    ),
    Option("is_input_contiguous", bool, True, "ModelBox's; batches are always gathered once."),
)

PORT_KEYS: tuple[Option, ...] = (
    Option("name", str, help="the port's name, of any characters"),
    Option("type", str | None, None, "The element type: uint8, float, ..."),
    Option("device", str | None, None, "The device that the data must be on; none: the node's."),
    Option("description", str, "", "What passes here: shape, order, range."),
)

# Types of units that this version does not run, and what to do.
TYPES = MappingProxyType({"java": "Java units are not run; write the unit in Python"})

ENCRYPTION_MESSAGE = (
    "[encryption]: encrypted models need a decryption plug-in, and none is registered; "
    "give the model unencrypted"
)
