"""One track while it is decoded."""

from typing import Any

import numpy as np
import numpy.typing as npt

from flowunits.video_decoder import VideoDecoderOptions
from modelflow import Buffer
from modelflow.device import empty
from modelflow.image import Image, convert_color, empty_image
from modelflow.video import Track, load_av

__all__ = ["Decoding"]

# Our formats as FFmpeg calls them; the planar ones are made of the packed ones.
_FORMATS = {"bgr": "bgr24", "rgb": "rgb24", "gray": "gray", "nv12": "nv12"}
# FFmpeg's err_detect: all that it can notice, and an error for it instead of a guess.
_STRICT = "crccheck+bitstream+buffer+explode"


class Decoding:
    """A decoder, and what its frames are told.

    Attributes:
        track: What it decodes.
        index: The number of the next frame.
    """

    def __init__(self, track: Track, options: VideoDecoderOptions, index: int = 0) -> None:
        """Opens the decoder.

        Raises:
            ValueError: there is no such decoder, or the frames have too many pixels.
        """
        av = load_av()
        self.track = track
        self.index = index
        self._av = av
        self._options = options
        self._packed = options.pix_fmt.removesuffix("p")
        self._reformatter = av.video.reformatter.VideoReformatter()
        self._meta = {
            "rate_num": track.rate.numerator,
            "rate_den": track.rate.denominator,
            "rotate_angle": track.rotation,
            "duration": track.duration,
        }
        self._check_pixels(track.width, track.height)
        try:
            self._codec = av.CodecContext.create(track.codec, "r")
        except av.error.FFmpegError as error:
            message = f"video_decoder: {track.source!r}: no decoder for the codec {track.codec!r}"
            raise ValueError(message) from error
        self._codec.extradata = track.extradata or None
        self._codec.width, self._codec.height = track.width, track.height
        self._codec.thread_count = options.codec_threads
        if options.strict:
            self._codec.options = {"err_detect": _STRICT}
        if options.keyframes_only:
            self._codec.skip_frame = "NONKEY"

    def decode(self, buffer: Buffer) -> list[Buffer | ValueError]:
        """Returns the frames that a packet completes, or its error."""
        packet = self._av.Packet(buffer.data)
        packet.pts, packet.dts = buffer.get("pts"), buffer.get("dts")
        packet.time_base = self.track.time_base
        return self._run(packet, buffer)

    def flush(self) -> list[Buffer | ValueError]:
        """Returns the frames that are left, at the end of the track."""
        return self._run(None, None)

    def _run(self, packet: Any, buffer: Buffer | None) -> list[Buffer | ValueError]:
        try:
            return [self._frame(frame, buffer) for frame in self._codec.decode(packet)]
        except self._av.error.EOFError:
            return []  # it was flushed before
        except self._av.error.FFmpegError as error:
            where = "at its end" if buffer is None else f"packet {buffer.get('index')}"
            text = f"video_decoder: {self.track.source!r}, {where}: damaged: {error.strerror}"
            raised = ValueError(text)
            raised.__cause__ = error
            return [raised]

    def _frame(self, frame: Any, buffer: Buffer | None) -> Buffer | ValueError:
        index = self.index
        self.index += 1
        if frame.is_corrupt and self._options.strict:
            return ValueError(f"video_decoder: {self.track.source!r}, frame {index}: damaged")
        try:
            self._check_pixels(frame.width, frame.height)
            image = convert_color(self._image(frame), self._options.pix_fmt)
        except ValueError as error:
            return error
        found = image.to_buffer()
        found.meta.update(self._meta, index=index, timestamp=self._timestamp(frame, index))
        if buffer is not None:
            for key in ("source_url", "repeat"):
                if buffer.get(key) is not None:
                    found.set(key, buffer.get(key))
        return found

    def _timestamp(self, frame: Any, index: int) -> float:
        if frame.pts is None:
            return float(index / self.track.rate)
        return float(frame.pts * (frame.time_base or self.track.time_base))

    def _image(self, frame: Any) -> Image:
        converted = self._reformatter.reformat(frame, format=_FORMATS[self._packed])
        height, width = frame.height, frame.width
        if self._packed == "nv12":
            if height % 2 or width % 2:
                message = f"got frames of {width} x {height}; expected an even size for nv12"
                raise ValueError(message)
            data = empty((height * 3 // 2, width))
            _copy(converted.planes[0], data[:height])
            _copy(converted.planes[1], data[height:])
            return Image(data, "nv12")
        channel = 1 if self._packed == "gray" else 3
        pixels = empty_image(width, height, channel)
        _copy(converted.planes[0], pixels.reshape(height, width * channel))
        return Image(pixels, self._packed)

    def _check_pixels(self, width: int, height: int) -> None:
        most = self._options.max_pixels
        if width * height > most:
            message = (
                f"video_decoder: {self.track.source!r}: got frames of {width} x {height} = "
                f"{width * height} pixels; expected at most {most}; set max_pixels to allow more"
            )
            raise ValueError(message)


def _copy(plane: Any, rows: npt.NDArray[np.uint8]) -> None:
    """Copies a plane, whose lines may be longer than a row, into memory that is reused."""
    lines = np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)
    np.copyto(rows, lines[: len(rows), : rows.shape[1]])
