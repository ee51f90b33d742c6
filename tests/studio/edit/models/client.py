"""A client of an editor that sends the last text with each task, as a page does."""

import cv2
import numpy as np

from modelflow import Flow
from tests.studio.edit.test_editor import asked

SHAPES = ("circle", "square", "triangle")


def picture(*shapes, size=(240, 320)):
    """Returns a PNG image of bright shapes, each (name, x, y, radius), on a dark ground."""
    image = np.full((*size, 3), 30, np.uint8)
    for name, x, y, radius in shapes:
        if name == "circle":
            cv2.circle(image, (x, y), radius, (240, 200, 180), cv2.FILLED, cv2.LINE_AA)
            continue
        corners = 4 if name == "square" else 3
        turns = np.pi / 4 + 2 * np.pi * np.arange(corners) / corners
        points = np.stack([x + radius * np.cos(turns), y + radius * np.sin(turns)], axis=1)
        cv2.fillPoly(image, [np.round(points).astype(np.int32)], (120, 220, 250), cv2.LINE_AA)
    return cv2.imencode(".png", image)[1].tobytes()


class Client:
    """A client of an editor.

    Attributes:
        text: The text of the graph.
    """

    def __init__(self, editor, home):
        self._editor, self._home = editor, home
        self.text = self.ask("open")["text"]

    def try_task(self, task, **body):
        """Returns the status and the answer of a task."""
        return asked(self._editor, task, {"text": getattr(self, "text", ""), **body})

    def ask(self, task, **body):
        """Returns the answer of a task that succeeds."""
        status, answer = self.try_task(task, **body)
        assert status == 200, answer
        return answer

    def refuse(self, task, **body):
        """Returns the error of a task that fails."""
        status, answer = self.try_task(task, **body)
        assert status in (400, 422), answer
        return answer["error"]

    def bring(self, path, use, settings=None, **more):
        """Brings in a model, and checks that the new graph is right if its node is connected."""
        answer = self.ask("bring", path=path, use=use, settings=settings or {}, **more)
        self.text = answer["text"]
        assert use == "plain" or self.ask("look")["findings"] == []
        return answer

    def nodes(self):
        """Returns the attributes of the nodes in the picture."""
        boxes = self.ask("look")["picture"]["boxes"]
        return {box["name"]: box["attributes"] for box in boxes}

    def edges(self):
        """Returns the edges in the picture."""
        wires = self.ask("look")["picture"]["wires"]
        return {(wire["source"], wire["target"]) for wire in wires}

    def infer(self, *pictures):
        """Returns the result of the graph for each picture."""
        path = self._home / "graph.toml"
        path.write_text(self.text)
        with Flow(path) as flow:
            return [flow.infer(one).data for one in pictures]
