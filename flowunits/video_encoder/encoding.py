"""The encoder of one video."""

import math
import os
import secrets
import threading
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from flowunits.video_encoder import VideoEncoderOptions
from modelflow import Buffer
from modelflow.image import convert_color, read_image
from modelflow.video import is_network_address, load_av, source_label

__all__ = ["Encoding"]

_FORMATS = {"mp4": "mp4", "flv": "flv", "mkv": "matroska", "rtsp": "rtsp", "ts": "mpegts"}
_SCHEMES = {"rtsp": "rtsp", "rtmp": "flv", "rtmps": "flv", "udp": "mpegts", "tcp": "mpegts"}
_DEFAULT_RATE = Fraction(25)
# MPEG-4 stores the time of a frame in 16 bits, in ticks of a fraction of a second.
_MOST_TICKS = 65535
# FFmpeg's numbers of the matrix, of the range 16 to 235, and of primaries and transfer (sRGB's).
_BT601, _LIMITED, _BT709 = 5, 1, 1

# Files that are being written. Two sessions must not write the same file.
_targets: set[str] = set()
_lock = threading.Lock()


class Encoding:
    """Writes one video: a stream, or a file with a temporary name until the video is complete."""

    def __init__(self, target: str, options: VideoEncoderOptions, first: Buffer) -> None:
        """Opens the target for videos with the size and the rate of the first frame.

        Raises:
            ValueError: another session writes the file, or the file cannot be written.
        """
        self._target = target
        self._is_file = not is_network_address(target)
        self._part = target
        if self._is_file:
            path = Path(target)
            path.parent.mkdir(parents=True, exist_ok=True)
            # A name that cannot be guessed: FFmpeg would write through a symbolic link of that
            # name.
            self._part = str(path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}"))
            _claim(target)
        try:
            self._open(options, first)
        except BaseException:
            self._drop_part()
            _free(target)
            raise

    def _open(self, options: VideoEncoderOptions, first: Buffer) -> None:
        av = load_av()
        self._av = av
        image = read_image(first, "in_video_frame", allow_nv12=True)
        self._size = image.width, image.height
        rate = Fraction(first.get("rate_num") or 0, first.get("rate_den") or 1) or _DEFAULT_RATE
        rate = 1 / max((1 / rate).limit_denominator(_MOST_TICKS), Fraction(1, _MOST_TICKS))
        try:
            kind = self._format(options)
            settings = {"rtsp_transport": "tcp"} if kind == "rtsp" else {}
            self._container = av.open(self._part, "w", format=kind, options=settings)
            self._stream = self._container.add_stream(options.encoder, rate=rate)
        except (av.error.FFmpegError, ValueError) as error:
            raise ValueError(
                f"video_encoder: {source_label(self._target)!r} cannot be begun: {error}"
            ) from error
        # The usual chroma subsampling requires an even size.
        self._stream.width, self._stream.height = (max(2, side // 2 * 2) for side in self._size)
        self._stream.pix_fmt = "yuv420p"
        self._stream.bit_rate = options.bit_rate
        # The colour space that PyAV converts to. Without it players assume BT.709 for HD. MP4
        # stores all four values or none.
        context = self._stream.codec_context
        context.colorspace, context.color_range = _BT601, _LIMITED
        context.color_primaries = context.color_trc = _BT709
        self._rate = rate
        # A container with a time for each frame gets a fine time base: 25 -> 65525 ticks a second.
        is_variable = self._container.format.flags & av.format.Flags.variable_fps.value
        finer = _MOST_TICKS // rate.numerator * rate.denominator if is_variable else 1
        self._ticks = rate * finer
        context.time_base = 1 / self._ticks
        # Such a container cannot store that a frame is shown later than it is decoded.
        if not is_variable:
            context.max_b_frames = 0
        self._next = 0
        self._seconds = -float(1 / rate)
        self._shift = math.nan

    def encode(self, buffers: Sequence[Buffer]) -> None:
        """Encodes frames.

        Raises:
            ValueError: a frame is no image, has another size than the first, or cannot be written.
        """
        for buffer in buffers:
            frame = self._frame(buffer)
            try:
                for packet in self._stream.encode(frame):
                    self._container.mux(packet)
            except self._av.error.FFmpegError as error:
                raise ValueError(
                    f"video_encoder: {source_label(self._target)!r}: {error}"
                ) from error

    def close(self) -> None:
        """Writes the remaining packets and renames the file to its final name.

        Raises:
            ValueError: the file cannot be written.
        """
        try:
            try:
                for packet in self._stream.encode():
                    self._container.mux(packet)
            finally:
                self._container.close()
            if self._is_file:
                os.replace(self._part, self._target)
        except (self._av.error.FFmpegError, OSError) as error:
            self._drop_part()  # an incomplete file would keep a full disk full
            raise ValueError(
                f"video_encoder: {source_label(self._target)!r} cannot be finished: {error}"
            ) from error
        finally:
            _free(self._target)

    def _drop_part(self) -> None:
        if self._is_file:
            Path(self._part).unlink(missing_ok=True)

    def _format(self, options: VideoEncoderOptions) -> str | None:
        if options.format != "auto":
            return _FORMATS[options.format]
        if self._is_file:
            # By the ending of the target, because the temporary file has another name.
            ending = Path(self._target).suffix.lower().lstrip(".")
            return _FORMATS.get(ending) or ending or "mp4"
        return _SCHEMES.get(self._target.partition("://")[0].lower())

    def _frame(self, buffer: Buffer) -> Any:
        image = read_image(buffer, "in_video_frame", allow_nv12=True)
        if (image.width, image.height) != self._size:
            raise ValueError(
                f"in_video_frame: got {image.width} x {image.height} pixels in a video of "
                f"{self._size[0]} x {self._size[1]}; put a resize or a padding before it"
            )
        packed = convert_color(image, "bgr", "hwc").data
        frame = self._av.VideoFrame.from_ndarray(packed, format="bgr24")
        frame.pts, frame.time_base = self._position(buffer), 1 / self._ticks
        return frame

    def _position(self, buffer: Buffer) -> int:
        """Returns the frame's time in ticks since the first frame; missing frames leave a gap.

        A frame without a time follows the last frame after the length of a frame. The same applies
        if its time is not later than the last (a reopened camera begins at 0). The next frames keep
        their distance.
        """
        moment = buffer.get("timestamp")
        following = self._seconds + float(1 / self._rate)
        if isinstance(moment, int | float) and math.isfinite(moment):
            if not moment + self._shift > self._seconds:
                self._shift = following - moment
            following = moment + self._shift
        self._seconds = following
        place = max(self._next, round(following * self._ticks))
        self._next = place + 1
        return place


def _claim(target: str) -> None:
    with _lock:
        if target in _targets:
            raise ValueError(
                f"video_encoder: {target!r} is being written by another session; put {{repeat}} or "
                "{stem} into default_dest_url"
            )
        _targets.add(target)


def _free(target: str) -> None:
    with _lock:
        _targets.discard(target)
