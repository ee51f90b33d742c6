"""Sends pictures to the server: ``python client.py PICTURE...``."""

import json
import os
import sys
import urllib.request
from pathlib import Path

URL = os.environ.get("URL", "http://127.0.0.1:8501")


def ask(picture: bytes) -> dict[str, object]:
    """Returns the server's answer for a picture."""
    request = urllib.request.Request(
        f"{URL}/v2/models/@NAME@/generate", picture, {"Content-Type": "image/jpeg"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)["answer"]


if __name__ == "__main__":
    for path in sys.argv[1:]:
        print(path, ask(Path(path).read_bytes()))
