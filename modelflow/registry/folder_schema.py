"""The keys of a unit file, from which the reference manual is generated, too."""

from types import MappingProxyType

from modelflow.unit.option import Option

BASE_KEYS: tuple[Option, ...] = (
    Option("name", str, help="the name in flowunit="),
    Option("type", str, help="python, c++, inference, or the name of a unit to configure"),
    Option("device", str, "cpu", "The kind of device for which the unit was written."),
    Option("version", str, "1.0.0", "x.y.z"),
    Option("description", str, "", "One sentence."),
    Option("group_type", str, "", "A heading for lists."),
    Option(
        "entry",
        str,
        "",
        "Python: file@ClassName; c++: the library; inference: the model's file or folder.",
    ),
    Option(
        "virtual_type", str, "", "For inference: the engine, or module:Class for a PythonModel."
    ),
    Option("stream", bool | None, None, "A stream unit. The default is true for type python."),
    Option("condition", bool, False, "A condition unit."),
    Option("collapse", bool, False, "A collapse unit."),
    Option("collapse_all", bool, True, "The unit gets the whole sub-stream in one call."),
    Option("expand", bool, False, "An expand unit."),
    Option("loop", bool, False, "A loop unit."),
    Option("stream_same_count", bool, False, "A stream unit that keeps the count: `Count.SAME`."),
    Option("max_batch_size", int | None, None, "Most buffers in a call; 0: no limit.", minimum=0),
    Option("default_batch_size", int | None, None, "Default of batch_size.", minimum=1),
    Option("exception_visible", bool, False, "The unit may get buffers with an error."),
    Option(
        "compute_bound",
        bool,
        False,
        "Calls only compute, on any thread. Adjacent nodes of this kind share one stage.",
    ),
    Option(
        "one_by_one",
        bool,
        False,
        "Calls process their rows one after the other. Rows that take long get their own call.",
    ),
    Option(
        "hands_over_arrays",
        bool,
        False,
        "The unit keeps no array that it emits, so the next node may write to it.",
    ),
    Option(
        "is_input_contiguous",
        bool,
        True,
        "A key of ModelBox, without effect: batches are always gathered into one array.",
    ),
)

PORT_KEYS: tuple[Option, ...] = (
    Option("name", str, help="the port's name, of any characters"),
    Option("type", str | None, None, "The element type: uint8, float, ..."),
    Option("device", str | None, None, "The device of the data. The default is the node's."),
    Option("description", str, "", "The data of the port: shape, order, range."),
)

# Types of units that this version cannot run, with advice.
TYPES = MappingProxyType({"java": "Java units are not run; write the unit in Python"})

ENCRYPTION_MESSAGE = (
    "[encryption]: encrypted models need a decryption plug-in, and none is registered; "
    "give the model unencrypted"
)
