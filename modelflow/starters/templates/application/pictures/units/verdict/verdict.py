"""The flow unit verdict."""

from pathlib import Path
from typing import Any

import modelflow


class Verdict(modelflow.FlowUnit):
    """Names the best class of the scores."""

    def open(self, config: Any) -> None:
        """Stores the options and reads the names of the classes."""
        self.sure = config.sure
        self.labels = Path(__file__).with_name("labels.txt").read_text().split()

    def process(self, ctx: modelflow.Context) -> None:
        """Processes each item separately. A failed item does not affect the others."""
        ctx.emit_each(self.answer)

    def answer(self, buffer: modelflow.Buffer) -> dict[str, Any]:
        """Returns the best class."""
        best = int(buffer.data.argmax())
        score = float(buffer.data[best])
        return {"colour": self.labels[best], "score": score, "is_sure": score >= self.sure}
