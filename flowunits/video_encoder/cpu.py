"""``video_encoder`` on the CPU."""

from pathlib import Path

from flowunits.video_encoder import VideoEncoderOptions
from flowunits.video_encoder.encoding import Encoding
from modelflow import Buffer, Context, FlowUnit
from modelflow.files.path_template import PathTemplate
from modelflow.video import is_network_address, load_av


class VideoEncoder(FlowUnit):
    """Keeps an encoder per stream, in the state ``encoding``, which the first frame creates."""

    def open(self, config: VideoEncoderOptions) -> None:
        """Stores the options.

        Raises:
            ValueError: FFmpeg has no such encoder, or the address is invalid.
        """
        av = load_av()
        self._options = config
        if config.encoder not in av.codecs_available:
            raise ValueError(
                f"option 'encoder': got {config.encoder!r}, which this FFmpeg does not have"
            )
        is_network_address(config.default_dest_url)

    def process(self, ctx: Context) -> None:
        """Encodes frames.

        Raises:
            ValueError: the video cannot be started.
        """
        if "failure" in ctx.state:  # without its first frames the video would be useless
            raise ctx.state["failure"]
        encoding = ctx.state.get("encoding")
        if encoding is None:
            try:
                encoding = ctx.state["encoding"] = self._begin(ctx, ctx.input()[0])
            except (ValueError, OSError) as error:
                ctx.state["failure"] = error
                raise
        encoding.encode(ctx.input())

    def stream_end(self, ctx: Context) -> None:
        """Finishes the video, even if the session was cancelled."""
        encoding = ctx.state.pop("encoding", None)
        if encoding is not None:
            encoding.close()

    def _begin(self, ctx: Context, first: Buffer) -> Encoding:
        target = ctx.session.get("dest_url", self._options.default_dest_url)
        if not is_network_address(target):
            source = str(first.get("source_url", "video"))
            values = {**first.all_meta(), "stem": Path(source).stem}
            target = str(PathTemplate(target).fill(values))
        return Encoding(target, self._options, first)
