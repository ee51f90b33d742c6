"""``video_input`` on the CPU."""

from flowunits.video_input import VideoInputOptions
from modelflow import Buffer, Context, FlowUnit


class VideoInput(FlowUnit):
    """Gives one address a call, so that the queue behind bounds how many videos are begun."""

    def open(self, config: VideoInputOptions) -> None:
        """Takes the options."""
        self._options = config

    def process(self, ctx: Context) -> None:
        """Gives the address once more."""
        number: int = ctx.state.get("number", 0)
        url = self._options.source_url
        ctx.emit([Buffer(url, {"source_url": url, "repeat": number})])
        ctx.state["number"] = number + 1
        if number + 1 == self._options.repeat:
            ctx.finish()
