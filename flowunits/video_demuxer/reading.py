"""Reads the packets of one video, and opens the video again after an interruption."""

import errno
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

from flowunits.video_demuxer import VideoDemuxerOptions
from modelflow import Buffer
from modelflow.video import (
    Track,
    is_network_address,
    load_av,
    open_input,
    read_packet,
    source_label,
)

__all__ = ["Reading"]

# FFmpeg's format with the rotation for players and a correct number of frames: mp4, mov, 3gp.
_MOV = "mov"
# Schemes of live streams: packets that were missed during an interruption are lost.
_LIVE = ("rtsp", "rtsps", "rtmp", "rtmps", "rtp", "udp", "tcp", "srt")
# A shorter end than the declared duration, by this many seconds or frames, is no rounding error.
_SLACK_SECONDS, _SLACK_FRAMES = 0.5, 3
# A live stream is joined anywhere. Packets before its first key frame cannot be decoded. A stream
# without key frames for so many packets has none (intra refresh), and is passed on as it is.
_MOST_BEFORE_KEY = 500
_NOTHING = "the stream ended without a packet; is the camera on?"


class Reading:
    """Reads one video and decides when to try again.

    Attributes:
        is_over: Whether the video has no more packets.
    """

    def __init__(
        self,
        buffer: Buffer,
        options: VideoDemuxerOptions,
        openings: Iterator[int],
        counts: Counter[str],
    ) -> None:
        """Stores the address; opens nothing yet.

        Args:
            buffer: The address, with its meta.
            options: The options.
            openings: The numbers of the tracks of the stream.
            counts: Gets the counts ``opened``, ``reopened`` and ``failed``.
        """
        self._openings = openings
        self._counts = counts
        is_sent = isinstance(buffer.data, str) and buffer.data
        self._url = buffer.data if is_sent else buffer.get("source_url", buffer.data)
        meta = {"source_url": self._url, "repeat": buffer.get("repeat")}
        self._meta = {key: value for key, value in meta.items() if value is not None}
        self._options = options
        self._is_retrying = bool(buffer.get("retry_enable", options.retry_enable))
        self._interval = buffer.get("retry_interval_ms", options.retry_interval_ms) / 1e3
        self._limit = buffer.get("retry_count_limit", options.retry_count_limit)
        scheme = self._url.partition("://")[0].lower() if isinstance(self._url, str) else ""
        self._is_live = buffer.get("url_type") == "stream" or scheme in _LIVE
        self._attempts = 0
        self._index = 0
        self._before_key = 0
        self._shown = 0
        self._read = 0
        self._reached = 0
        self._container: Any = None
        self._packets: Any = iter(())
        self._track: Track | None = None
        self._stream: Any = None
        self._declared = 0
        self._last = 0.0
        self.is_over = False

    def read(self, most: int) -> tuple[list[Buffer | Exception], float]:
        """Returns up to ``most`` packets, perhaps with an error after them.

        Returns:
            The values to emit, and the seconds after which to call again.
        """
        if not isinstance(self._url, str):
            self.close()
            return [ValueError(_refuse(self._url))], 0.0
        values: list[Buffer | Exception] = []
        try:
            if self._container is None:
                self._open()
            for packet in self._packets:
                if not self._is_wanted(packet):
                    continue
                values.append(self._buffer(packet))
                self._attempts = 0
                self._shown += not packet.is_discard
                if self._shown == self._options.max_frames > 0:
                    self.close()
                    return values, 0.0
                if len(values) == most:
                    return values, 0.0
            return values, self._ended(values)
        except (load_av().error.FFmpegError, ValueError) as error:
            return values, self._failed(values, error)

    def close(self) -> None:
        """Ends the reading and closes the container."""
        self.is_over = True
        self._release()

    def _release(self) -> None:
        container, self._container, self._packets = self._container, None, iter(())
        if container is not None:
            container.close()

    def _is_wanted(self, packet: Any) -> bool:
        if packet.size == 0:
            return False  # this packet marks the end of the stream
        moment = packet.pts if packet.pts is not None else packet.dts
        if moment is not None:
            end = float((moment + (packet.duration or 0)) * packet.time_base)
            self._last = max(self._last, end)
        if packet.stream_index != self._stream.index:
            return False
        self._read += 1
        if self._read <= self._reached:
            return False  # emitted before the interruption
        self._reached = 0 if self._is_live else self._read
        if self._before_key and not packet.is_keyframe:
            self._before_key -= 1
            return False
        self._before_key = 0
        return packet.is_keyframe or not self._options.key_frame_only

    def _ended(self, values: list[Buffer | Exception]) -> float:
        problem = None if is_network_address(self._url) else self._cut_off()
        if problem is not None:
            return self._failed(values, ValueError(problem))
        if self._is_live:
            return self._again(values, None)
        self.close()
        return 0.0

    def _failed(self, values: list[Buffer | Exception], error: Exception) -> float:
        if self._is_complete(error):
            return self._ended(values)
        self._counts["failed"] += 1
        return self._again(values, error)

    def _is_complete(self, error: Exception) -> bool:
        """Tells whether an error is the end of a file whose server does not send its length."""
        is_end = isinstance(error, OSError) and error.errno == errno.EIO and not self._is_live
        is_promised = self._container is None or (self._container.size or 0) > 0
        return is_end and self._read > 0 and not is_promised and self._cut_off() is None

    def _again(self, values: list[Buffer | Exception], error: Exception | None) -> float:
        """Waits for another attempt, or ends; ``error`` is None at the end of a live stream."""
        self._release()
        is_hopeless = not self._is_retrying or (error is not None and _is_final(error))
        if is_hopeless or 0 <= self._limit <= self._attempts:
            self.is_over = True
            if error is None and not self._index:
                error = ValueError(_NOTHING)
            if error is not None:
                values.append(self._error(error))
            return 0.0
        self._attempts += 1
        return float(self._interval)

    def _error(self, error: Exception) -> ValueError:
        reason = error if _is_final(error) else getattr(error, "strerror", error)
        tried = f" (tried {self._attempts + 1} times)" if self._attempts else ""
        text = (
            f"video_demuxer: {source_label(self._url)!r}, after {self._index} packets: "
            f"{reason}{tried}"
        )
        raised = ValueError(text)
        if _is_final(error):  # FFmpeg's errors contain the whole address with its secrets
            raised.__cause__ = error
        return raised

    def _open(self) -> None:
        self._container = container = self._open_container()
        if not container.streams.video:
            raise ValueError("it has no video track")
        self._stream = stream = _choose_stream(container.streams.video)
        self._counts["opened"] += 1
        self._counts["reopened"] += self._track is not None
        is_mov = container.format.name.split(",")[0] == _MOV
        if self._track is None or self._is_live:
            rotation = self._find_rotation(stream.index) if is_mov else 0
            track = _track(container, stream, source_label(self._url), rotation)
            self._track = replace(track, opening=next(self._openings))
        self._declared = stream.frames if is_mov else 0  # AVI counts only shown frames, and wrongly
        self._read = 0
        self._before_key = _MOST_BEFORE_KEY if self._is_live else 0
        self._packets = container.demux()

    def _open_container(self) -> Any:
        options = self._options
        return open_input(self._url, options.open_timeout_ms / 1e3, options.read_timeout_ms / 1e3)

    def _find_rotation(self, index: int) -> int:
        """Returns the clockwise angle, which FFmpeg reports only for decoded frames.

        Decodes in a second container. After a seek back, a container of a trimmed video returns
        other packets.
        """
        if is_network_address(self._url):
            return 0
        try:
            with self._open_container() as container:
                frame = next(container.decode(container.streams[index]), None)
        except load_av().error.InvalidDataError:
            return 0  # the decoder reports the error at its place
        return 0 if frame is None else -round(frame.rotation / 90) * 90 % 360

    def _buffer(self, packet: Any) -> Buffer:
        buffer = read_packet(packet)
        buffer.meta.update(self._meta, track=self._track, index=self._index)
        self._index += 1
        return buffer

    def _cut_off(self) -> str | None:
        """Returns the reason why a file with a declared length is truncated, or None."""
        track = self._track
        if track is None:
            return None
        if self._declared > self._read:
            return f"it ends after {self._read} of {self._declared} frames; it is cut off"
        slack = max(_SLACK_SECONDS, _SLACK_FRAMES / float(track.rate or 1))
        has_times = self._last > 0 or self._read == 0
        if not self._declared and has_times and track.duration - self._last > slack:
            return f"it ends at {self._last:.2f} s of {track.duration:.2f} s; it is cut off"
        return None


def _refuse(found: Any) -> str:
    what = f"{len(found)} bytes" if isinstance(found, bytes) else type(found).__name__
    return (
        f"video_demuxer: in_video_url: got {what}; expected the address of a video as text. Put a "
        "video_input with source_url=ADDRESS in the place of the input, or send the address as "
        "text"
    )


def _is_final(error: Exception) -> bool:
    """Tells whether another attempt would fail as well, as for a missing file."""
    return not isinstance(error, load_av().error.FFmpegError)


def _track(container: Any, stream: Any, source: str, rotation: int) -> Track:
    context = stream.codec_context
    if context is None:
        raise ValueError(
            "its video is of a codec that this FFmpeg does not know; expected one that it has"
        )
    duration = container.duration or 0
    return Track(
        codec=context.name,
        extradata=bytes(context.extradata or b""),
        width=context.width,
        height=context.height,
        # Not the average rate: a variable rate would give two frames the same place.
        rate=stream.guessed_rate or stream.average_rate or Fraction(25),
        time_base=stream.time_base,
        rotation=rotation,
        duration=duration / load_av().time_base,
        source=source,
        parameters=Track.read_parameters(context),
    )


def _choose_stream(streams: Any) -> Any:
    """Returns the first video track; a cover picture only if all tracks are cover pictures."""
    attached = load_av().stream.Disposition.attached_pic
    return next((each for each in streams if not each.disposition & attached), streams[0])
