"""``video_input`` on the CPU."""

from flowunits.video_input import VideoInputOptions
from modelflow import Buffer, Context, FlowUnit


class VideoInput(FlowUnit):
    """Emits one address in each call; the next queue then bounds the number of open videos."""

    def open(self, config: VideoInputOptions) -> None:
        """Stores the options."""
        self._options = config

    def process(self, ctx: Context) -> None:
        """Emits the address again."""
        number: int = ctx.state.get("number", 0)
        url = self._options.source_url
        ctx.emit([Buffer(url, {"source_url": url, "repeat": number})])
        ctx.state["number"] = number + 1
        if number + 1 == self._options.repeat:
            ctx.finish()
