"""A Flask application that answers with the main colour of a picture: ``python app.py``."""

import os
from pathlib import Path

import modelflow
from flask import Flask, jsonify, request

app = Flask(__name__)
flow = modelflow.Flow(Path(__file__).with_name("graph.toml"))


@app.post("/colour")
def colour():
    """Answers a request, whose body is a picture, with the output of the graph."""
    try:
        return jsonify(flow.infer(request.get_data(), timeout=10).data)
    except modelflow.FlowUnitError as error:
        if isinstance(error.__cause__, ValueError):  # the picture is invalid
            return jsonify(error=str(error.__cause__)), 400
        raise


if __name__ == "__main__":
    with flow:
        app.run("127.0.0.1", int(os.environ.get("PORT", "8000")), threaded=True)
