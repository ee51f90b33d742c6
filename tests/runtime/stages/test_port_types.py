import numpy as np
import pytest

from modelflow.buffer import Buffer
from modelflow.runtime.stages.call import PortTypes
from modelflow.unit.port import Port


def test_arrays_of_another_type_are_found_and_everything_else_is_let_be():
    types = PortTypes.of([Port("a"), Port("b", dtype="uint8")], ["b"])
    column = [Buffer(np.zeros(2, "u1")), Buffer(np.zeros(2)), Buffer(b"bytes"), Buffer(None)]
    assert [(row, str(error)) for row, error in types.wrong_in(0, column)] == [
        (1, "b: got a float64 array; expected uint8")
    ]


def test_a_port_without_a_type_takes_all():
    types = PortTypes.of([Port("a"), Port("b", dtype="uint8")], ["a", "b"])
    assert list(types.wrong_in(0, [Buffer(np.zeros(2))])) == []
    assert PortTypes.of([Port("a")], ["a"]) is None


def test_all_columns_of_a_call_are_checked_in_buffers_or_not():
    types = PortTypes.of([Port("a"), Port("b", dtype="uint8")], ["a", "b"])
    good = np.zeros(2, "u1")
    types.check([[np.zeros(2)], [good, Buffer(good), None, b"bytes"]])
    for bad in (np.zeros(2), Buffer(np.zeros(2))):
        with pytest.raises(ValueError, match="b: got a float64 array; expected uint8"):
            types.check([[good], [good, bad]])
