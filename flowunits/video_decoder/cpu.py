"""``video_decoder`` on the CPU."""

from flowunits.video_decoder import VideoDecoderOptions
from flowunits.video_decoder.decoding import Decoding
from modelflow import Buffer, Context, FlowUnit
from modelflow.video import Track, load_av


class VideoDecoder(FlowUnit):
    """Keeps a decoder per stream, in the state ``decoding``. Another track gets a new decoder."""

    def open(self, config: VideoDecoderOptions) -> None:
        """Stores the options."""
        self._options = config
        load_av()

    def process(self, ctx: Context) -> None:
        """Decodes packets; a damaged packet becomes an error at its place."""
        values: list[Buffer | ValueError] = []
        for packet in ctx.input():
            try:
                decoding = self._decoding(ctx, packet, values)
            except ValueError as error:
                values.append(error)
            else:
                values += decoding.decode(packet)
        ctx.emit(values)

    def stream_end(self, ctx: Context) -> None:
        """Emits the frames that the decoder still holds."""
        decoding = ctx.state.pop("decoding", None)
        if decoding is not None and not ctx.is_cancelled:
            ctx.emit(decoding.flush())

    def _decoding(
        self, ctx: Context, packet: Buffer, values: list[Buffer | ValueError]
    ) -> Decoding:
        track, current = packet.get("track"), ctx.state.get("decoding")
        if not isinstance(track, Track):
            raise ValueError(
                "in_video_packet: got no meta 'track'; expected packets of a video_demuxer"
            )
        if current is None or current.track != track:
            index = 0
            if current is not None:
                values += current.flush()
                index = current.index
            current = ctx.state["decoding"] = Decoding(track, self._options, index)
        found: Decoding = current
        return found
