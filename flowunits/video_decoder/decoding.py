"""The decoder of one track."""

from typing import Any

import numpy as np
import numpy.typing as npt

from flowunits.video_decoder import VideoDecoderOptions
from modelflow import Buffer
from modelflow.device import empty
from modelflow.image import Image, convert_color, empty_image
from modelflow.video import Track, build_packet, load_av

__all__ = ["Decoding"]

# FFmpeg's names of the packed formats. Planar formats are made from packed pixels.
_FORMATS = {"bgr": "bgr24", "rgb": "rgb24", "gray": "gray", "nv12": "nv12"}
# FFmpeg's err_detect: detect all errors it can, and raise an error instead of a guess.
_STRICT = "crccheck+bitstream+buffer+explode"


class Decoding:
    """A decoder and the meta that its frames share.

    Attributes:
        track: The decoded track.
        index: The number of the next frame.
    """

    def __init__(self, track: Track, options: VideoDecoderOptions, index: int = 0) -> None:
        """Opens the decoder.

        Raises:
            ValueError: FFmpeg has no such decoder, or the frames have too many pixels.
        """
        av = load_av()
        self.track = track
        self.index = index
        self._av = av
        self._options = options
        self._is_skipping = False
        self._damaged_packet: Buffer | None = None
        self._left = 0  # frames to leave out before the next
        self._packed = options.pix_fmt.removesuffix("p")
        self._reformatter = av.video.reformatter.VideoReformatter()
        rate = track.rate / options.every
        self._meta = {
            "rate_num": rate.numerator,
            "rate_den": rate.denominator,
            "rotate_angle": track.rotation,
            "duration": track.duration,
        }
        self._check_pixels(track.width, track.height)
        if track.width and track.height:  # 0 if the container does not tell the size
            self._check_pixels(*self._find_size(track.width, track.height))
        try:
            self._codec = track.create_decoder()
        except (av.error.FFmpegError, ValueError) as error:
            raise ValueError(
                f"video_decoder: {track.source!r}: no decoder for the codec {track.codec!r}"
            ) from error
        self._codec.copy_opaque = True  # to find the packet of a frame
        self._codec.thread_count = options.codec_threads
        if options.codec_threads != 1:  # most videos have a single slice a frame
            self._codec.thread_type = "AUTO"
        if options.strict:
            self._codec.options = {"err_detect": _STRICT}
        if options.keyframes_only or options.references_only:
            self._codec.skip_frame = "NONKEY" if options.keyframes_only else "NONREF"
        self._is_intra = self._codec.codec.intra_only

    def decode(self, buffer: Buffer) -> list[Buffer | ValueError]:
        """Returns the frames that a packet completes, or its error."""
        if not isinstance(buffer.data, bytes | bytearray | memoryview) or not len(buffer.data):
            found = "0 bytes" if buffer.data == b"" else type(buffer.data).__name__
            return [ValueError(f"in_video_packet: got {found}; expected the bytes of a packet")]
        if self._is_skipping and not buffer.get("is_keyframe"):
            return []
        self._is_skipping = False
        if self._is_intra and not buffer.get("is_discard") and self._is_left_out():
            return []
        values: list[Buffer | ValueError]
        if self._options.strict and buffer.get("is_corrupt"):
            values, is_damaged = [self._damaged(buffer, "the packet is incomplete")], True
        else:
            values, is_damaged = self._run(build_packet(buffer, self.track), buffer)
        if is_damaged and self._options.strict:
            # The next frames depend on the missing data, but would look undamaged to the decoder.
            self._damaged_packet = buffer
            values[-1:-1] = self._run(None, buffer)[0]
            self._codec.flush_buffers()
            self._is_skipping = True
        return values

    def flush(self) -> list[Buffer | ValueError]:
        """Returns the frames that remain at the end of the track."""
        return self._run(None, None)[0]

    def _run(self, packet: Any, buffer: Buffer | None) -> tuple[list[Buffer | ValueError], bool]:
        """Returns frames, perhaps with an error after them, and whether data was damaged."""
        try:
            frames = self._codec.decode(packet)
        except self._av.error.EOFError:
            return [], False  # the decoder was flushed before
        except self._av.error.FFmpegError as error:
            raised = self._damaged(buffer, error.strerror)
            raised.__cause__ = error
            return [raised], True
        values: list[Buffer | ValueError] = []
        for frame in frames:
            if self._is_hidden(frame):
                continue
            if frame.is_corrupt and self._options.strict:
                values.append(self._damaged(buffer, "the frame is incomplete"))
                return values, True
            if self._is_intra or not self._is_left_out():
                values.append(self._frame(frame, buffer))
        return values, False

    def _is_left_out(self) -> bool:
        """Counts a shown frame, and tells whether ``every`` leaves the frame out."""
        is_left_out = self._left > 0
        self._left = self._left - 1 if is_left_out else self._options.every - 1
        return is_left_out

    def _is_hidden(self, frame: Any) -> bool:
        """Tells whether an edit list hides the frame, or its packet was reported as damaged."""
        if frame.opaque is None:
            return False
        (packet,) = frame.opaque
        return packet is self._damaged_packet or bool(packet.get("is_discard"))

    def _damaged(self, buffer: Buffer | None, reason: Any) -> ValueError:
        where = "at its end" if buffer is None else f"packet {buffer.get('index')}"
        rest = "; goes on at the next key frame" if self._options.strict else ""
        return ValueError(f"video_decoder: {self.track.source!r}, {where}: damaged: {reason}{rest}")

    def _frame(self, frame: Any, buffer: Buffer | None) -> Buffer | ValueError:
        index = self.index
        self.index += 1
        try:
            self._check_pixels(frame.width, frame.height)
            image = convert_color(self._image(frame), self._options.pix_fmt)
        except ValueError as error:
            return error
        found = image.to_buffer()
        found.meta.update(self._meta, index=index, timestamp=self._timestamp(frame, index))
        packet = buffer if frame.opaque is None else frame.opaque[0]
        if packet is not None:
            for key in ("source_url", "repeat"):
                if packet.get(key) is not None:
                    found.set(key, packet.get(key))
        return found

    def _timestamp(self, frame: Any, index: int) -> float:
        if frame.pts is None:
            return float(index * self._options.every / self.track.rate)
        return float(frame.pts * (frame.time_base or self.track.time_base))

    def _image(self, frame: Any) -> Image:
        width, height = self._find_size(frame.width, frame.height)
        self._check_pixels(width, height)
        # The mean of the pixels that become one: half the time of a filter (benchmarks/videos.py).
        is_smaller = width < frame.width and height < frame.height
        converted = self._reformatter.reformat(
            frame,
            width,
            height,
            format=_FORMATS[self._packed],
            interpolation="AREA" if is_smaller else None,
        )
        if self._packed == "nv12":
            if height % 2 or width % 2:
                raise ValueError(
                    f"got frames of {width} x {height}; expected an even size for nv12"
                )
            data = empty((height * 3 // 2, width))
            _copy(converted.planes[0], data[:height])
            _copy(converted.planes[1], data[height:])
            return Image(data, "nv12")
        channel = 1 if self._packed == "gray" else 3
        pixels = empty_image(width, height, channel)
        _copy(converted.planes[0], pixels.reshape(height, width * channel))
        return Image(pixels, self._packed)

    def _find_size(self, width: int, height: int) -> tuple[int, int]:
        """Returns the size of the images for frames of a size."""
        wanted_width, wanted_height = self._options.image_width, self._options.image_height
        if not wanted_width and not wanted_height:
            return width, height
        return (
            wanted_width or max(1, round(width * wanted_height / height)),
            wanted_height or max(1, round(height * wanted_width / width)),
        )

    def _check_pixels(self, width: int, height: int) -> None:
        most = self._options.max_pixels
        if width * height > most:
            raise ValueError(
                f"video_decoder: {self.track.source!r}: got frames of {width} x {height} = "
                f"{width * height} pixels; expected at most {most}; set max_pixels to allow more"
            )


def _copy(plane: Any, rows: npt.NDArray[np.uint8]) -> None:
    """Copies a plane, whose lines may be longer than a row, into reused memory."""
    lines = np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)
    np.copyto(rows, lines[: len(rows), : rows.shape[1]])
