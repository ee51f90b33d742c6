import pytest

from modelflow.serve.grpc.service import Service
from modelflow.wire.proto import HEALTH


def test_a_service_answers_exactly_the_methods_of_its_descriptor():
    with pytest.raises(ValueError, match=r"got methods \['Chek'\]; expected \['Check', 'List'"):
        Service("grpc.health.v1.Health", HEALTH, {"Chek": print})


def test_methods_know_their_streams_and_messages():
    answers = dict.fromkeys(("Check", "List", "Watch"), print)
    methods = {one.name: one for one in Service("grpc.health.v1.Health", HEALTH, answers).methods()}
    kinds = {name: (one.is_stream_in, one.is_stream_out) for name, one in methods.items()}
    assert kinds == {"Check": (False, False), "List": (False, False), "Watch": (False, True)}
    assert methods["Check"].parse(b"\n\x01x").service == "x"
