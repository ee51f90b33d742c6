"""Asks as a program does that was written for TensorFlow Serving's REST API.

python ask_tensorflow_serving.py [--server http://127.0.0.1:8501]
"""

import argparse
import base64
import json
from pathlib import Path

import requests

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Asks which digits two pictures show, and how two texts sound."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", default="http://127.0.0.1:8501")
    server = parser.parse_args().server

    seven = base64.b64encode((HERE / "seven.png").read_bytes()).decode()
    body = {"instances": [{"b64": seven}, {"b64": seven}]}
    answer = requests.post(f"{server}/v1/models/digit:predict", json=body, timeout=30)
    answer.raise_for_status()
    for text in answer.json()["predictions"]:  # what is no array comes as a text that holds JSON
        (best,) = json.loads(text)
        print(f"digit {best['class']}, {best['score']:.3f}")

    body = {"instances": ["I loved the film.", "The bed was broken."]}
    answer = requests.post(f"{server}/v1/models/sentiment:predict", json=body, timeout=30)
    answer.raise_for_status()
    for text in answer.json()["predictions"]:
        best, _ = json.loads(text)
        print(f"{best['class']}, {best['score']:.3f}")

    status = requests.get(f"{server}/v1/models/sentiment", timeout=30).json()
    print(status["model_version_status"][0]["state"])


if __name__ == "__main__":
    main()
