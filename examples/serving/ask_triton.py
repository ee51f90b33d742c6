"""A client for Triton, used with modelflow over HTTP, or over gRPC with --grpc.

python ask_triton.py [--server 127.0.0.1:8501]
python ask_triton.py --grpc [--server 127.0.0.1:8500]

Needs tritonclient[http,grpc].
"""

import argparse
import json
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Finds the shapes in two copies of a picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server")
    parser.add_argument("--grpc", action="store_true")
    given = parser.parse_args()
    if given.grpc:
        import tritonclient.grpc as triton

        server = given.server or "127.0.0.1:8500"
    else:
        import tritonclient.http as triton

        server = given.server or "127.0.0.1:8501"

    pictures = np.array([(HERE / "shapes.png").read_bytes()] * 2, dtype=np.object_)
    tensor = triton.InferInput("image", [len(pictures)], "BYTES")
    tensor.set_data_from_numpy(pictures)
    with triton.InferenceServerClient(server) as client:
        assert client.is_model_ready("detect_classify")
        answer = (
            client.infer("detect_classify", [tensor], client_timeout=30)
            if given.grpc
            else (client.infer("detect_classify", [tensor]))
        )
    for text in answer.as_numpy("objects"):
        names = sorted(found["classes"][0]["class"] for found in json.loads(text))
        print(f"{len(names)} shapes: {', '.join(names)}")


if __name__ == "__main__":
    main()
