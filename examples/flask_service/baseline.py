"""The usual first version: each request decodes, resizes and runs the model separately."""

import os
from pathlib import Path

import cv2
import numpy as np
import tensorflow as tf
from flask import Flask, jsonify, request

MODEL = os.environ.setdefault("MODEL", str(Path(__file__).with_name("model")))
app = Flask(__name__)
model = tf.saved_model.load(f"{MODEL}/saved_model")
serve = model.signatures["serving_default"]


def preprocess(jpeg: bytes) -> np.ndarray:
    image = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)
    image = cv2.resize(image, (224, 224))
    return image.astype(np.float32) - np.array((123.68, 116.78, 103.94), np.float32)


def classify(jpeg: bytes) -> np.ndarray:
    scores = serve(image=tf.constant(preprocess(jpeg)[None]))["scores"]
    return scores.numpy()[0]


@app.post("/classify")
def answer():
    scores = classify(request.get_data())
    best = int(scores.argmax())
    return jsonify(index=best, score=float(scores[best]))


@app.get("/stats")
def stats():
    return jsonify(mean_batch_size=1.0)


if __name__ == "__main__":
    app.run("127.0.0.1", int(os.environ.get("PORT", "8000")), threaded=True)
