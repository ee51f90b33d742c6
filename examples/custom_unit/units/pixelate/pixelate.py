"""The flow unit pixelate."""

from blocks import coarsened

import modelflow


class Pixelate(modelflow.FlowUnit):
    """Coarsens an image into blocks of one colour."""

    def open(self, config: modelflow.Config) -> None:
        """Stores the options. An error here stops the flow before its start."""
        self.block = config.block
        if self.block < 1:
            message = f"block: got {self.block}; expected 1 or more"
            raise ValueError(message)

    def process(self, ctx: modelflow.Context) -> None:
        """Emits one image for each input, in order."""
        ctx.emit_each(lambda image: coarsened(image.data, self.block))
