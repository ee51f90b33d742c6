"""The model "words" behind Flask, for gunicorn: ``gunicorn words_flask:app``."""

from flask import Flask, request
from words import score

app = Flask(__name__)


@app.post("/v1/models/words:predict")
def predict() -> dict[str, list[float]]:
    """Answers as TensorFlow Serving does."""
    return {"predictions": [score(text) for text in request.get_json(force=True)["instances"]]}
