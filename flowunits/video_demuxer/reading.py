"""One video while its packets are read: opened, read on, opened again, given up."""

from fractions import Fraction
from typing import Any

from flowunits.video_demuxer import VideoDemuxerOptions
from modelflow import Buffer
from modelflow.video import Track, is_network_address, load_av, open_input, source_label

__all__ = ["Reading"]

# FFmpeg's formats that say how a player turns the frames.
_TURNING = ("mov", "mp4")
# A file ends this much before its own duration says (seconds, and frames): no longer rounding.
_SLACK_SECONDS, _SLACK_FRAMES = 0.5, 3


class Reading:
    """Reads one video; knows when to try again.

    Attributes:
        is_over: Nothing more comes of it.
    """

    def __init__(self, buffer: Buffer, options: VideoDemuxerOptions) -> None:
        """Takes the address; opens nothing yet."""
        self._url = buffer.get("source_url", buffer.data)
        self._meta = {
            key: buffer.get(key) for key in ("source_url", "repeat") if buffer.get(key) is not None
        }
        self._options = options
        self._is_retrying = bool(buffer.get("retry_enable", options.retry_enable))
        self._interval = buffer.get("retry_interval_ms", options.retry_interval_ms) / 1e3
        self._limit = buffer.get("retry_count_limit", options.retry_count_limit)
        self._is_stream = buffer.get("url_type") == "stream"
        self._attempts = 0
        self._index = 0
        self._container: Any = None
        self._packets: Any = iter(())
        self._track: Track | None = None
        self._declared = 0
        self._last = 0.0
        self.is_over = False

    def read(self, most: int) -> tuple[list[Buffer | Exception], float]:
        """Returns up to ``most`` packets, perhaps with an error behind them.

        Returns:
            The values to emit, and after how many seconds to call again.
        """
        values: list[Buffer | Exception] = []
        try:
            if self._container is None:
                self._open()
            for packet in self._packets:
                if packet.size == 0:
                    continue  # the end of the track
                if self._options.key_frame_only and not packet.is_keyframe:
                    continue
                values.append(self._buffer(packet))
                self._attempts = 0
                if self._index == self._options.max_frames:
                    self.close()
                    return values, 0.0
                if len(values) == most:
                    return values, 0.0
            return values, self._ended(values)
        except (load_av().error.FFmpegError, ValueError) as error:
            return values, self._failed(values, error)

    def close(self) -> None:
        """Ends it."""
        self.is_over = True
        self._release()

    def _release(self) -> None:
        container, self._container, self._packets = self._container, None, iter(())
        if container is not None:
            container.close()

    def _ended(self, values: list[Buffer | Exception]) -> float:
        problem = self._cut_off()
        if problem is not None:
            return self._failed(values, ValueError(problem))
        if self._is_stream and self._is_retrying:
            return self._again(values, None)
        self.close()
        return 0.0

    def _failed(self, values: list[Buffer | Exception], error: Exception) -> float:
        if self._is_retrying and not _is_final(error):
            return self._again(values, error)
        self.close()
        values.append(self._error(error))
        return 0.0

    def _again(self, values: list[Buffer | Exception], error: Exception | None) -> float:
        self._release()
        if 0 <= self._limit <= self._attempts:
            self.is_over = True
            if error is not None:
                values.append(self._error(error))
            return 0.0
        self._attempts += 1
        return float(self._interval)

    def _error(self, error: Exception) -> ValueError:
        reason = error if _is_final(error) else getattr(error, "strerror", error)
        tried = f" (tried {self._attempts + 1} times)" if self._attempts else ""
        text = (
            f"video_demuxer: {source_label(str(self._url))!r}, after {self._index} packets: "
            f"{reason}{tried}"
        )
        raised = ValueError(text)
        if _is_final(error):  # what FFmpeg raises holds the whole address, with its secrets
            raised.__cause__ = error
        return raised

    def _open(self) -> None:
        if not isinstance(self._url, str):
            message = f"got {type(self._url).__name__}; expected an address as text"
            raise ValueError(message)
        options = self._options
        container = open_input(
            self._url, options.open_timeout_ms / 1e3, options.read_timeout_ms / 1e3
        )
        self._container = container
        if not container.streams.video:
            message = "it has no video track"
            raise ValueError(message)
        stream = container.streams.video[0]
        self._track = _track(container, stream, source_label(self._url), self._turns(container))
        self._declared = stream.frames
        self._packets = container.demux(stream)

    def _turns(self, container: Any) -> bool:
        return container.format.name.split(",")[0] in _TURNING and not is_network_address(self._url)

    def _buffer(self, packet: Any) -> Buffer:
        assert self._track is not None  # set by _open
        meta = {
            **self._meta,
            "track": self._track,
            "pts": packet.pts,
            "dts": packet.dts,
            "duration": packet.duration,
            "is_keyframe": packet.is_keyframe,
            "index": self._index,
        }
        self._index += 1
        moment = packet.pts if packet.pts is not None else packet.dts
        if moment is not None:
            end = float((moment + (packet.duration or 0)) * self._track.time_base)
            self._last = max(self._last, end)
        return Buffer(bytes(packet), meta)

    def _cut_off(self) -> str | None:
        """Says what is missing of a file that knows how long it is."""
        track = self._track
        if track is None or is_network_address(self._url) or self._options.key_frame_only:
            return None
        if self._declared > self._index:
            return f"it ends after {self._index} of {self._declared} frames; it is cut off"
        slack = max(_SLACK_SECONDS, _SLACK_FRAMES / float(track.rate or 1))
        if not self._declared and self._last and track.duration - self._last > slack:
            return f"it ends at {self._last:.2f} s of {track.duration:.2f} s; it is cut off"
        return None


def _is_final(error: Exception) -> bool:
    """Tells whether another attempt could not end otherwise: no such file, no such scheme."""
    return not isinstance(error, load_av().error.FFmpegError)


def _track(container: Any, stream: Any, source: str, is_turning: bool) -> Track:
    context = stream.codec_context
    if context is None:
        message = "its video is of a codec that this FFmpeg does not know; expected one that it has"
        raise ValueError(message)
    rotation = _rotation(container, stream) if is_turning else 0
    duration = container.duration or 0
    return Track(
        codec=context.name,
        extradata=bytes(context.extradata or b""),
        width=context.width,
        height=context.height,
        rate=stream.average_rate or stream.guessed_rate or Fraction(25),
        time_base=stream.time_base,
        rotation=rotation,
        duration=duration / load_av().time_base,
        source=source,
    )


def _rotation(container: Any, stream: Any) -> int:
    """Gives the clockwise angle, which FFmpeg says of decoded frames alone."""
    av = load_av()
    try:
        frame = next(container.decode(stream), None)
        angle = 0 if frame is None else -round(frame.rotation / 90) * 90 % 360
    except av.error.InvalidDataError:
        angle = 0  # the decoder says so in its place
    container.seek(0)
    return angle
