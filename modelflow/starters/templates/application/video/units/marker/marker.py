"""The flow unit marker."""

from typing import Any

import cv2
import modelflow


class Marker(modelflow.FlowUnit):
    """Finds the brightest square of an image."""

    def open(self, config: Any) -> None:
        """Stores the options."""
        self.side = config.side

    def process(self, ctx: modelflow.Context) -> None:
        """Processes each frame separately. A failed frame does not affect the others."""
        ctx.emit_each(self.region)

    def region(self, buffer: modelflow.Buffer) -> list[dict[str, int]]:
        """Returns the square of ``side`` pixels whose mean is the highest."""
        gray = cv2.boxFilter(buffer.data.mean(axis=2), -1, (self.side, self.side))
        _, _, _, (x, y) = cv2.minMaxLoc(gray)
        half = self.side // 2
        return [{"x": x - half, "y": y - half, "w": self.side, "h": self.side}]
