"""The ready graph detect_classify, against the same calls by hand, in Python and when served."""

import base64
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from modelflow import Flow
from tests.served import ask, serving

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from detect_by_hand import (  # type: ignore[import-not-found]
    GRAPH,
    ByHand,
    differences,
    picture,
)

PICTURES = [picture(number) for number in range(40)]
WITH_CROPS = """
    keep[flowunit=gather, meta="box_index"]
    crops[type=output]
    crop -> keep -> crops
}'''"""


@pytest.fixture(scope="module")
def by_hand():
    """Returns the objects of each picture."""
    hand = ByHand()
    found = [hand.find([encoded])[0] for encoded in PICTURES]
    assert sum(map(len, found)) > 100
    assert any(not objects for objects in found)
    return found


def test_every_box_crop_and_class_is_that_by_hand(by_hand):
    text = GRAPH.read_text().rstrip().removesuffix("}'''") + WITH_CROPS
    graph = text.replace('"models/', f'"{GRAPH.parent}/models/')
    with Flow(graph) as flow:
        stream = flow.create_stream_io()
        for encoded in PICTURES:
            stream.send("image", encoded)
        stream.close_input()
        for objects in by_hand:
            assert not differences(objects, stream.recv("objects").data)
            crops = stream.recv("crops").data
            assert len(crops) == len(objects)
            for one, crop in zip(objects, crops, strict=True):
                np.testing.assert_array_equal(crop["value"], one["crop"])


def test_clients_of_both_protocols_get_what_is_found_by_hand(by_hand, tmp_path):
    triton = pytest.importorskip("tritonclient.http")
    with serving(tmp_path, str(GRAPH)) as (_, address):
        client = triton.InferenceServerClient(address.removeprefix("http://"))
        for encoded, objects in zip(PICTURES[:12], by_hand, strict=False):
            image = {"b64": base64.b64encode(encoded).decode()}
            assert not differences(objects, json.loads(ask(address, "detect_classify", image)))
            tensor = triton.InferInput("image", [1], "BYTES")
            tensor.set_data_from_numpy(np.array([encoded], object))
            answer = client.infer("detect_classify", [tensor]).as_numpy("objects")
            assert not differences(objects, json.loads(answer.reshape(-1)[0]))
        client.close()
