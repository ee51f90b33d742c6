"""The flow unit pixelate."""

from blocks import coarsened

import modelflow


class Pixelate(modelflow.FlowUnit):
    """Coarsens an image into blocks of one colour."""

    def open(self, config: modelflow.Config) -> None:
        """Stores the options; raised here, an error stops the flow before it has begun."""
        self.block = config.block
        if self.block < 1:
            message = f"block: got {self.block}; expected 1 or more"
            raise ValueError(message)

    def process(self, ctx: modelflow.Context) -> None:
        """Gives one image for each, in order."""
        ctx.emit_each(lambda image: coarsened(image.data, self.block))
