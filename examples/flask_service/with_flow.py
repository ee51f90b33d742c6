"""Step 2: the whole path becomes a graph with overlapping stages."""

import os
from pathlib import Path

import numpy as np
from flask import Flask, jsonify, request

import modelflow

MODEL = os.environ.setdefault("MODEL", str(Path(__file__).with_name("model")))
app = Flask(__name__)
flow = modelflow.Flow(Path(__file__).with_name("classify.toml"))


def classify(jpeg: bytes) -> np.ndarray:
    with flow.create_stream_io() as stream:
        stream.send("image", jpeg)
        return stream.recv("scores").data


@app.post("/classify")
def answer():
    scores = classify(request.get_data())
    best = int(scores.argmax())
    return jsonify(index=best, score=float(scores[best]))


@app.get("/stats")
def stats():
    return jsonify(mean_batch_size=flow.stats()["infer"].mean_batch_size)


if __name__ == "__main__":
    with flow:
        app.run("127.0.0.1", int(os.environ.get("PORT", "8000")), threaded=True)
