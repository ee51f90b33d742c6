"""Tests of videos: from files and the network, decoded and encoded, whole, cut off and damaged."""

import contextlib
import os
import socket
import threading
from dataclasses import replace
from fractions import Fraction
from http.server import BaseHTTPRequestHandler

import av
import numpy as np
import pytest

import modelflow
from flowunits import video_decoder, video_demuxer, video_encoder, video_input
from modelflow import Buffer, ConfigError
from modelflow.testing import run_unit
from modelflow.video import Track
from tests.flowunits.local_server import LocalServer, Quiet
from tests.flowunits.rtsp_server import RtspServer
from tests.flowunits.videos import COPY, RATE, READ, frames_of, picture, read, write_video

CODECS = [("libx264", "mkv"), ("mpeg4", "mp4"), ("mpeg4", "avi")]
SHAPES = {"rgb": (120, 160, 3), "gray": (120, 160, 1), "nv12": (180, 160), "bgrp": (3, 120, 160)}


@pytest.fixture(scope="session")
def video(tmp_path_factory):
    return write_video(tmp_path_factory.mktemp("videos") / "a.mp4", movflags="faststart")


@pytest.mark.parametrize(("codec", "ending"), CODECS)
def test_every_frame_comes_in_order_with_its_place_in_time(tmp_path, codec, ending):
    frames, errors, _ = read(write_video(tmp_path / f"v.{ending}", codec=codec))
    assert not errors
    assert [frame.get("index") for frame in frames] == list(range(60))
    for number, frame in enumerate(frames):
        assert abs(frame.get("timestamp") - number / RATE) < 0.002
        assert (frame.get("rate_num"), frame.get("rate_den")) == (RATE, 1)
        assert (frame.get("width"), frame.get("height"), frame.get("pix_fmt")) == (160, 120, "bgr")
        assert np.abs(frame.data.astype(int) - picture(number)).mean() < 8


@pytest.mark.parametrize(("pix_fmt", "shape"), SHAPES.items())
def test_frames_come_in_other_formats(video, pix_fmt, shape):
    frames, _, _ = read(video, decode=f", pix_fmt={pix_fmt}")
    assert len(frames) == 60
    assert {frame.data.shape for frame in frames} == {shape}
    assert {frame.get("pix_fmt") for frame in frames} == {pix_fmt}


def test_only_so_many_frames_or_key_frames(video):
    assert len(read(video, demux=", max_frames=7")[0]) == 7
    assert [f.get("timestamp") for f in read(video, decode=", keyframes_only=true")[0]] == [
        pytest.approx(number / RATE) for number in range(0, 60, 12)
    ]
    assert len(read(video, demux=", key_frame_only=true")[0]) == 5


@pytest.mark.parametrize(("rotation", "clockwise"), [(90, 270), (-90, 90), (180, 180)])
def test_the_rotation_of_the_file_is_the_meta_of_its_frames(tmp_path, rotation, clockwise):
    frames, _, _ = read(write_video(tmp_path / "v.mp4", 5, rotation=rotation))
    assert [frame.get("rotate_angle") for frame in frames] == [clockwise] * 5


def test_a_video_that_is_cut_off_gives_its_good_frames_then_the_error(video, tmp_path):
    cut = tmp_path / "cut.mp4"
    cut.write_bytes(video.read_bytes()[: video.stat().st_size // 2])
    frames, errors, found = read(cut)
    assert 5 < len(frames) < 55
    *partial, error = errors  # a part of the last packet may exist
    assert all("damaged" in text for text in partial)
    assert f"it ends after {len(frames) + len(partial)} of 60 frames; it is cut off" in error
    # The decoder still holds some frames when the error passes.
    assert error in found[-8:]
    for number, frame in enumerate(frames):
        assert np.abs(frame.data.astype(int) - picture(number)).mean() < 8


def test_a_video_without_a_count_is_known_to_be_cut_off_by_its_duration(tmp_path):
    whole = write_video(tmp_path / "a.mkv")
    cut = tmp_path / "cut.mkv"
    cut.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    frames, errors, _ = read(cut)
    assert 5 < len(frames) < 55
    assert "s of 2.40 s; it is cut off" in errors[-1]


def test_a_damaged_part_is_an_error_and_the_rest_is_good(video, tmp_path):
    data = bytearray(video.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 200] = np.random.default_rng(0).bytes(200)
    damaged = tmp_path / "damaged.mp4"
    damaged.write_bytes(data)
    frames, errors, _ = read(damaged)
    assert errors
    assert all("damaged" in error for error in errors)
    assert len(frames) >= 35
    places = [round(frame.get("timestamp") * RATE) for frame in frames]
    assert max(places) == 59  # decoding went on after the damage
    for place, frame in zip(places, frames, strict=True):
        assert np.abs(frame.data.astype(int) - picture(place)).mean() < 8
    concealed, errors_left, _ = read(damaged, decode=", strict=false")
    assert len(concealed) > len(frames)
    assert all("next key frame" in text for text in errors)
    assert not any("next key frame" in text for text in errors_left)


@pytest.mark.parametrize(
    ("address", "what"),
    [
        ("/no/such.mp4", "which is no file; expected a video"),
        ("concat:a.mp4|b.mp4", "which is no file; expected a video"),
        ("ftp://host/a.mp4", "expected a path, or http, https, rtsp"),
        ("http://user:secret@127.0.0.1:9/a.mp4", "'http://127.0.0.1:9/a.mp4', after 0 packets"),
    ],
)
def test_what_cannot_be_opened_says_so(address, what):
    frames, (error,), _ = read(address)
    assert not frames
    assert what in error
    assert "secret" not in error


@pytest.mark.parametrize(
    ("sent", "what"), [(b"\0" * 20_000, "20000 bytes"), (7, "int"), (np.zeros(9), "ndarray")]
)
def test_what_is_no_address_is_described_in_short(sent, what):
    found = run_unit(video_demuxer.SPEC, {"in_video_url": [sent]})
    (error,) = found["out_video_packet"]
    assert (
        f"in_video_url: got {what}; expected the address of a video as text. Put a video_input"
        in (error.get_error_msg())
    )
    assert len(error.get_error_msg()) < 300


def test_a_file_that_is_no_video_says_so(tmp_path):
    text = tmp_path / "text.mp4"
    text.write_text("no video at all " * 100)
    assert "Invalid data found" in read(text)[1][0]


def test_packets_of_something_else_are_errors():
    track = Track("mpeg4", b"", 64, 48, Fraction(25), Fraction(1, 25))
    packets = [b"bytes", Buffer(b"bytes", {"track": "x"}), Buffer(b"", {"track": track})]
    packets += [Buffer(7, {"track": track}), Buffer(b"x", {"track": replace(track, codec="h9")})]
    packets.append(Buffer(b"x", {"track": replace(track, width=100_000, height=100_000)}))
    expected = ["got no meta 'track'"] * 2 + ["got 0 bytes", "got int", "no decoder for the codec"]
    expected.append("expected at most 40000000")
    found = run_unit(video_decoder.SPEC, {"in_video_packet": packets})["out_video_frame"]
    for text, buffer in zip(expected, found, strict=True):
        assert text in buffer.get_error_msg()


def test_a_good_video_is_never_called_damaged(tmp_path):
    """Tests that bytes behind a packet, which decoders read, do not matter."""
    for number in range(8):
        path = write_video(tmp_path / f"{number}.mp4", 30, codec="mpeg4", size=(320, 240))
        frames, errors, _ = read(path)
        assert (len(frames), errors) == (30, [])


class Server(LocalServer):
    """An HTTP server that sends a video, and first refuses requests or breaks connections."""

    def __init__(self, data, refused=0, broken=0, has_length=True):
        self.asked = 0
        server = self

        class Handler(Quiet, BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                server.asked += 1
                if server.asked <= refused:
                    self.send_error(503)
                    return
                self.send_response(200)
                if has_length:
                    self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                is_broken = server.asked <= refused + broken
                self.wfile.write(data[: len(data) // 2] if is_broken else data)
                self.close_connection = True

        super().__init__(Handler)

    @property
    def address(self):
        return f"{self.root}/video.ts"


@pytest.fixture(scope="session")
def stream_data(tmp_path_factory):
    return write_video(tmp_path_factory.mktemp("videos") / "s.ts").read_bytes()


def test_a_stream_of_the_network_is_read(stream_data):
    with Server(stream_data) as server:
        frames, errors, _ = read(server.address)
    assert (len(frames), errors) == (60, [])


def test_a_stream_that_does_not_open_is_tried_again(stream_data):
    retry = {"retry_enable": True, "retry_interval_ms": 1, "retry_count_limit": 5}
    with Server(stream_data, refused=3) as server:
        frames, errors, _ = read(server.address, meta=retry)
        assert server.asked == 4
    assert (len(frames), errors) == (60, [])


def test_attempts_are_limited_and_the_error_says_how_many(stream_data):
    options = ", retry_enable=true, retry_interval_ms=1, retry_count_limit=2"
    with Server(stream_data, refused=100) as server:
        frames, (error,), _ = read(server.address, demux=options)
        assert server.asked == 3
    assert not frames
    assert "(tried 3 times)" in error


def test_a_file_without_a_length_ends_where_the_server_ends(stream_data):
    options = ", retry_enable=true, retry_interval_ms=1"
    with Server(stream_data, has_length=False) as server:
        frames, errors, _ = read(server.address, demux=options)
        assert server.asked == 1
    assert (len(frames), errors) == (60, [])


def test_a_file_that_breaks_off_goes_on_where_it_was(stream_data):
    options = ", retry_enable=true, retry_interval_ms=1"
    with Server(stream_data, broken=2) as server:
        frames, errors, _ = read(server.address, demux=options)
        assert server.asked == 3
    assert errors == []
    assert [frame.get("index") for frame in frames] == list(range(60))
    for number, frame in enumerate(frames):
        assert np.abs(frame.data.astype(int) - picture(number)).mean() < 8


def test_a_file_that_always_breaks_off_at_one_place_is_given_up(stream_data):
    options = ", retry_enable=true, retry_interval_ms=1, retry_count_limit=2"
    with Server(stream_data, broken=100) as server:
        frames, errors, _ = read(server.address, demux=options)
        assert server.asked == 3
    assert 20 < len(frames) < 40
    assert "(tried 3 times)" in errors[-1]


@pytest.mark.parametrize("position", [48, 140])
def test_an_avi_whose_header_counts_another_frame_is_whole(tmp_path, position):
    """Tests the counts of the file (dwTotalFrames) and of the stream (dwLength)."""
    path = write_video(tmp_path / "v.avi", 30, codec="mpeg4")
    data = bytearray(path.read_bytes())
    assert int.from_bytes(data[position : position + 4], "little") == 30
    data[position : position + 4] = (31).to_bytes(4, "little")
    path.write_bytes(data)
    frames, errors, _ = read(path)
    assert (len(frames), errors) == (30, [])


def test_a_live_stream_that_ends_is_opened_again_until_the_limit(stream_data):
    retry = {"url_type": "stream", "retry_enable": True, "retry_interval_ms": 1}
    with Server(stream_data) as server:
        demux = ", retry_count_limit=1, max_frames=150"
        frames, errors, _ = read(server.address, demux=demux, meta=retry)
        assert server.asked == 3
    assert (len(frames), errors) == (150, [])
    assert [frame.get("index") for frame in frames] == list(range(150))


def test_a_camera_that_is_lost_is_opened_again_and_every_frame_that_came_is_kept_in_order(tmp_path):
    parts = [
        write_video(tmp_path / f"{place}.ts", count, "mpeg2video", start=10 * place).read_bytes()
        for place, count in enumerate((30, 20, 40))
    ]
    demux = ", retry_enable=true, retry_interval_ms=1, retry_count_limit=2"
    with RtspServer(parts) as server, modelflow.Flow(READ % (demux, "")) as flow:
        stream = flow.create_stream_io()
        stream.send("input", server.address)
        stream.close_input()
        buffers = []
        with contextlib.suppress(modelflow.EndOfStream):
            while True:
                buffers.append(stream.recv(timeout=60, errors="return"))
        counts = flow.stats()["demux"].figures["connections"]
        assert server.asked == 5  # twice in vain
    frames = [buffer for buffer in buffers if not buffer.error]
    # The end of the last frame of each connection did not come.
    sent = [*range(29), *range(10, 29), *range(20, 59)]
    assert [frame.get("index") for frame in frames] == list(range(len(sent)))
    for number, frame in zip(sent, frames, strict=True):
        assert np.abs(frame.data.astype(int) - picture(number)).mean() < 8
    (error,) = [buffer.error for buffer in buffers if buffer.error]
    assert "(tried 3 times)" in str(error)
    assert counts == {"opened": 3, "reopened": 2, "failed": 2}


def test_a_camera_that_is_joined_between_key_frames_gives_frames_from_the_next(tmp_path):
    whole = write_video(tmp_path / "a.ts", 60, "mpeg2video").read_bytes()
    late = whole[188 * (len(whole) // 188 // 4) :]  # begins inside a frame and a group of pictures
    demux = ", retry_enable=true, retry_interval_ms=1, retry_count_limit=0"
    with RtspServer([late]) as server:
        frames, errors, _ = read(server.address, demux=demux)
    assert not errors
    assert 24 <= len(frames) < 59
    for number, frame in zip(range(60 - 1 - len(frames), 59), frames, strict=True):
        assert np.abs(frame.data.astype(int) - picture(number)).mean() < 8


@pytest.mark.parametrize("demux", ["", ", retry_enable=true, retry_interval_ms=1"])
def test_a_camera_that_sends_nothing_is_an_error(demux):
    with RtspServer([b""]) as server:
        frames, (error,), _ = read(server.address, demux=demux + ", retry_count_limit=1")
    assert not frames
    assert "video_demuxer: 'rtsp://" in str(error)


def test_waiting_to_reconnect_ends_at_once_when_the_flow_is_stopped(stream_data):
    retry = {"retry_enable": True, "retry_interval_ms": 3_600_000}
    with Server(stream_data, refused=100) as server:
        flow = modelflow.Flow(READ % ("", "")).start()
        stream = flow.create_stream_io()
        stream.send("input", Buffer(server.address, retry))
        stream.close_input()
        with pytest.raises(TimeoutError):
            stream.recv(timeout=0.5)
        flow.stop(drain=False)


def test_the_description_of_a_source_leads_to_its_video(video, tmp_path):
    graph = f"""digraph described {{
        source [flowunit=data_source_generator, url="{video}"]
        parse [flowunit=data_source_parser, retry_count_limit=3]
        demux [flowunit=video_demuxer]
        output [type=output]
        source -> parse -> demux -> output
    }}"""
    with modelflow.Flow(graph) as flow:
        (source,) = flow.scheduler.sources
        stream = flow.create_stream_io(source=source)
        packets = list(stream)
    assert len(packets) == 60
    assert packets[0].get("is_keyframe")
    assert packets[7].get("source_url") == str(video)


def test_descriptions_that_do_not_fit_say_why():
    from flowunits import data_source_parser

    items = [b"{", b"[]", b"{}", b'{"url": "x", "url_type": "y"}', b'{"url": "gopher://x"}', 7]
    items.append(b'{"url": "x", "source_type": "obs"}')
    found = run_unit(data_source_parser.SPEC, {"in_data": items})["out_video_url"]
    expected = ["no JSON", "JSON of type list", "got url=None", "got url_type='y'"]
    expected += ["gopher://x", "got int", "got the source_type 'obs'"]
    for text, buffer in zip(expected, found, strict=True):
        assert text in buffer.get_error_msg()


def test_a_copy_plays_and_has_every_frame(video, tmp_path):
    with modelflow.Flow(COPY % (video, "", tmp_path / "copy.mp4")) as flow:
        assert flow.wait(60)
    copied = frames_of(tmp_path / "copy.mp4")
    assert len(copied) == 60
    for number, pixels in enumerate(copied):
        assert np.abs(pixels.astype(int) - picture(number)).mean() < 10
    assert [path.name for path in tmp_path.iterdir()] == ["copy.mp4"]


def test_videos_that_a_program_sends_are_named_after_their_files(tmp_path):
    graph = f"""digraph copy {{
        url [type=input] demux [flowunit=video_demuxer] decode [flowunit=video_decoder]
        encode [flowunit=video_encoder, default_dest_url="{tmp_path}/copy_{{stem}}.mp4"]
        url -> demux -> decode -> encode
    }}"""
    with modelflow.Flow(graph) as flow:
        for name, count in (("a", 3), ("b", 20)):
            stream = flow.create_stream_io()
            stream.send("url", str(write_video(tmp_path / f"{name}.mp4", count)))
            stream.close_input()
            assert stream.wait(60)
    assert len(frames_of(tmp_path / "copy_a.mp4")) == 3
    assert len(frames_of(tmp_path / "copy_b.mp4")) == 20


@pytest.mark.parametrize(
    ("sent", "is_sent"), [("{video}", True), (b"bytes", False), ("", False), (None, False)]
)
def test_the_text_that_is_sent_goes_before_the_meta_and_frames_say_what_was_opened(
    video, tmp_path, sent, is_sent
):
    other = str(write_video(tmp_path / "other.mp4", 3))
    data = str(video) if is_sent else sent
    packets = run_unit(video_demuxer.SPEC, {"in_video_url": [Buffer(data, {"source_url": other})]})[
        "out_video_packet"
    ]
    frames = run_unit(video_decoder.SPEC, {"in_video_packet": packets})["out_video_frame"]
    assert len(frames) == (60 if is_sent else 3)
    assert {frame.get("source_url") for frame in frames} == {str(video) if is_sent else other}


def test_several_videos_run_at_once(video, tmp_path):
    with modelflow.Flow(COPY % (video, ", repeat=4", tmp_path / "{stem}_{repeat}.mp4")) as flow:
        assert flow.wait(60)
    for number in range(4):
        assert len(frames_of(tmp_path / f"a_{number}.mp4")) == 60


def test_two_sessions_do_not_write_one_file(video, tmp_path):
    with modelflow.Flow(COPY % (video, ", repeat=2", tmp_path / "one.mp4")) as flow:
        assert flow.wait(60)
        (source,) = flow.scheduler.sources
        stream = flow.create_stream_io(source=source)
        texts = {str(error) for error in stream.errors}
    assert len(frames_of(tmp_path / "one.mp4")) == 60
    assert not texts or any("put {repeat} or {stem}" in text for text in texts)


def test_a_video_can_be_played_whatever_went_wrong_before(video, tmp_path):
    @modelflow.flowunit
    def every_third_fails(frame: Buffer):
        """Fails for some frames."""
        if frame.get("index") % 3 == 1:
            message = "no"
            raise ValueError(message)
        return frame

    graph = (COPY % (video, "", tmp_path / "rest.mp4")).replace(
        "decode -> encode", "decode -> every_third_fails -> encode"
    )
    with modelflow.Flow(graph, units=[every_third_fails]) as flow:
        assert flow.wait(60)
        (source,) = flow.scheduler.sources
        stream = flow.create_stream_io(source=source)
        assert stream._session.progress.error_count == 20
    with av.open(str(tmp_path / "rest.mp4")) as container:
        times = [frame.time for frame in container.decode(video=0)]
    assert times == [pytest.approx(n / RATE, abs=0.001) for n in range(60) if n % 3 != 1]


def encoded(frames, path, **options):
    return run_unit(
        video_encoder.SPEC, {"in_video_frame": frames}, default_dest_url=str(path), **options
    )


def test_frames_of_another_size_are_errors(tmp_path):
    errors = encoded([picture(0)] * 8 + [picture(0, 80, 60)] * 8, tmp_path / "v.mp4")["errors"]
    assert len(errors) == 8
    assert "got 80 x 60 pixels in a video of 160 x 120" in errors[0].get_error_msg()
    assert len(frames_of(tmp_path / "v.mp4")) == 8


# The container -> the seconds of its time unit, and its encoders.
CONTAINERS = {
    "mp4": (1 / 32768, ("mpeg4", "libx264")),
    "mov": (1 / 32768, ("mpeg4", "libx264")),
    "mkv": (1 / 1000, ("mpeg4", "libx264")),
    "ts": (1 / 32768, ("mpeg4", "libx264")),
    "flv": (1 / 1000, ("flv", "libx264")),
    "avi": (1e-9, ("mpeg4", "libx264")),
}
ODD_TIMES = [0.0, 0.04, 0.06, 0.16, 0.193, 0.443, 0.483, 0.503, 0.603, 0.636, 0.886, 0.926]
RATES = {
    "constant": (Fraction(25), [n / 25 for n in range(24)]),
    "ntsc": (Fraction(30000, 1001), [n * 1001 / 30000 for n in range(24)]),
    "variable": (Fraction(100000, 8577), ODD_TIMES),
    "offset": (Fraction(25), [6.4 + n / 25 for n in range(24)]),
}
CELLS = [
    (ending, encoder, rate)
    for ending, (_, encoders) in CONTAINERS.items()
    for encoder in encoders
    for rate in RATES
]


def timed(rate, times):
    meta = {"rate_num": rate.numerator, "rate_den": rate.denominator}
    return [
        Buffer(picture(n), meta if time is None else {**meta, "timestamp": time})
        for n, time in enumerate(times)
    ]


def times_of(path):
    """Returns the times of a file's frames, from the first frame."""
    with av.open(str(path)) as container:
        times = [frame.time for frame in container.decode(video=0)]
    return [time - times[0] for time in times]


@pytest.mark.parametrize(("ending", "encoder", "name"), CELLS)
def test_frames_keep_their_times(tmp_path, ending, encoder, name):
    rate, times = RATES[name]
    path = tmp_path / f"v.{ending}"
    assert not encoded(timed(rate, times), path, encoder=encoder)["errors"]
    found = times_of(path)
    if (ending, name) == ("avi", "variable"):  # no times, but one rate and every frame
        places = [time * float(rate) for time in found]
        assert len(set(map(round, places))) == len(times)
        assert places == pytest.approx(list(map(round, places)), abs=0.01)
        return
    tick = CONTAINERS[ending][0]
    assert found == [pytest.approx(time - times[0], abs=tick) for time in times]


@pytest.mark.parametrize("encoder", ["mpeg4", "libx264"])
@pytest.mark.parametrize("ending", ["mp4", "mov", "mkv"])
def test_a_video_says_its_colour_space(tmp_path, ending, encoder):
    path = tmp_path / f"v.{ending}"
    assert not encoded([picture(0, 1280, 720)] * 2, path, encoder=encoder)["errors"]
    with av.open(str(path)) as container:
        next(container.decode(video=0))
        context = container.streams.video[0].codec_context
        assert context.colorspace == 5  # BT.601
        # 16 to 235, or unspecified
        assert context.color_range in ((0, 1) if ending == "mov" else (1,))
        assert (context.color_primaries, context.color_trc) == (1, 1)  # BT.709


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([None, None, None], [0, 0.04, 0.08]),
        ([5.0, None, 5.09], [0, 0.04, 0.09]),
        ([5.0, 5.0, 5.06], [0, 0.04, 0.1]),
        ([9.0, 9.1, 0.0, 0.03, 0.2], [0, 0.1, 0.14, 0.17, 0.34]),
        ([0.0, float("nan"), 0.1], [0, 0.04, 0.1]),
    ],
    ids=["none", "missing", "repeated", "from-the-beginning", "no-number"],
)
def test_a_frame_without_a_later_time_follows_the_last_one(tmp_path, times, expected):
    assert not encoded(timed(Fraction(25), times), tmp_path / "v.mkv")["errors"]
    assert times_of(tmp_path / "v.mkv") == [pytest.approx(time, abs=0.001) for time in expected]


@pytest.mark.parametrize("ending", ["mp4", "mkv", "avi", "flv"])
def test_frames_without_meta_and_of_odd_size_make_a_video(tmp_path, ending):
    frames = [picture(n, 161, 121) for n in range(10)]
    encoder = {"encoder": "flv"} if ending == "flv" else {}
    assert not encoded(frames, tmp_path / f"v.{ending}", **encoder)["errors"]
    assert [f.shape for f in frames_of(tmp_path / f"v.{ending}")] == [(120, 160, 3)] * 10


def test_where_a_video_cannot_be_written_the_frames_say_so(tmp_path):
    (tmp_path / "file").write_text("")
    (error,) = encoded([picture(0)], tmp_path / "file" / "v.mp4")["errors"]
    assert "NotADirectoryError" in error.get_error_msg() or "FileExists" in error.get_error_msg()
    with pytest.raises(ValueError, match="got 'h999', which this FFmpeg does not have"):
        encoded([picture(0)], tmp_path / "v.mp4", encoder="h999")


def test_options_that_do_not_fit_are_errors():
    with pytest.raises(ConfigError, match="repeat"):
        video_input.SPEC.configure({"source_url": "a", "repeat": 0})
    with pytest.raises(ConfigError, match="empty text"):
        video_input.SPEC.configure({"source_url": ""})
    with pytest.raises(ConfigError, match="max_frames"):
        video_demuxer.SPEC.configure({"max_frames": -1})


def is_listening(port):
    """Returns whether a server listens at a port of this machine, without a connection."""
    with open("/proc/net/tcp") as table:
        rows = [line.split() for line in table.readlines()[1:]]
    return any(int(row[1].rpartition(":")[2], 16) == port and row[3] == "0A" for row in rows)


def test_a_video_is_published_over_rtsp(video):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url, received = f"rtsp://127.0.0.1:{port}/live", []

    def serve():
        """Runs FFmpeg's own side of a server that receives streams."""
        with av.open(url, options={"rtsp_flags": "listen", "listen_timeout": "30"}) as container:
            received.extend(frame.to_ndarray(format="bgr24") for frame in container.decode(video=0))

    server = threading.Thread(target=serve)
    server.start()
    while not is_listening(port):
        assert server.is_alive()
    with modelflow.Flow(COPY % (video, "", url)) as flow:
        assert flow.wait(60)
        (source,) = flow.scheduler.sources
        stream = flow.create_stream_io(source=source)
        assert not stream.errors
    server.join()
    assert len(received) == 60
    for number, pixels in enumerate(received):
        assert np.abs(pixels.astype(int) - picture(number)).mean() < 10


def test_errors_hold_no_secrets_of_an_address():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    _, (error,), _ = read(f"http://me:p@ss@127.0.0.1:{port}/a.mp4?token=hush&x=1")
    assert f"'http://127.0.0.1:{port}/a.mp4?...'" in error
    assert "hush" not in error
    assert "ss@" not in error


def test_the_draft_of_a_video_cannot_be_foreseen_and_does_not_stay(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").write_text("precious")
    (tmp_path / f".v.mp4.{os.getpid()}.part").symlink_to(tmp_path / "elsewhere")
    drafts: list[str] = []

    def refused(draft, target):
        drafts.append(draft)
        raise OSError("no space left")

    monkeypatch.setattr("flowunits.video_encoder.encoding.os.replace", refused)
    encoded([picture(0)] * 3, tmp_path / "v.mp4")
    assert (tmp_path / "elsewhere").read_text() == "precious"
    assert len(drafts) == 1
    assert not os.path.exists(drafts[0])


def test_a_video_of_an_unknown_codec_is_an_error_of_its_own(tmp_path):
    path = write_video(tmp_path / "v.mkv", codec="mpeg4")
    data = path.read_bytes()
    assert b"V_MPEG4/ISO/ASP" in data
    path.write_bytes(data.replace(b"V_MPEG4/ISO/ASP", b"V_UNKNOWN/X/ASP"))
    frames, (text,), _ = read(path)
    assert frames == []
    assert "a codec that this FFmpeg does not know" in text
    assert "AttributeError" not in text
