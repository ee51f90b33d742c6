"""A client for TensorFlow Serving's REST API, used with modelflow.

python ask_tensorflow_serving.py [--server http://127.0.0.1:8501]
"""

import argparse
import base64
import json
from pathlib import Path

import requests

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Classifies two pictures of digits, and the sentiment of two texts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", default="http://127.0.0.1:8501")
    server = parser.parse_args().server

    seven = base64.b64encode((HERE / "seven.png").read_bytes()).decode()
    body = {"instances": [{"b64": seven}, {"b64": seven}]}
    answer = requests.post(f"{server}/v1/models/digit:predict", json=body, timeout=30)
    answer.raise_for_status()
    for text in answer.json()["predictions"]:  # results other than arrays are JSON in a text
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
