"""The answer over REST: a JSON document, and behind it the outputs that are sent in binary."""

from modelflow.wire.json_text import array_json, json_of
from modelflow.wire.open_inference.infer import InferAnswer, InferRequest
from modelflow.wire.raw_tensor import BF16, to_raw

__all__ = ["infer_answer"]


def infer_answer(answer: InferAnswer, request: InferRequest) -> tuple[bytes, int | None]:
    """Returns the body of an answer, and how many of its bytes are the document.

    The length is None where no output is in binary: then there is nothing but the document.

    Raises:
        Problem: an output has no form in JSON.
    """
    raw: list[bytes] = []
    outputs: list[bytes] = []
    for tensor in answer.outputs:
        parameters = dict(tensor.parameters)
        where = f"output {tensor.name!r}"
        data = b""
        if tensor.datatype == BF16 or request.is_binary(tensor.name):
            raw.append(to_raw(tensor.array, tensor.datatype, where))
            parameters["binary_data_size"] = len(raw[-1])
        else:
            data = b',"data":' + array_json(tensor.array.reshape(-1), where)
        head = {
            "name": tensor.name,
            "datatype": tensor.datatype,
            "shape": list(tensor.array.shape),
            **({"parameters": parameters} if parameters else {}),
        }
        outputs.append(json_of(head)[:-1] + data + b"}")
    head = {
        **({"id": answer.id} if answer.id else {}),
        "model_name": answer.model_name,
        "model_version": answer.model_version,
        **({"parameters": dict(answer.parameters)} if answer.parameters else {}),
    }
    document = json_of(head)[:-1] + b',"outputs":[' + b",".join(outputs) + b"]}"
    return b"".join([document, *raw]), len(document) if raw else None
