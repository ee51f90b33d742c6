"""Tests of codecs, containers and cuts, compared with the frames of PyAV's own decoder."""

import functools
import os
import shutil
import subprocess

import av
import numpy as np
import pytest

import modelflow
from tests.flowunits.videos import COPY, READ_THROUGH_PROCESS, read, write_video

# In CI these tests fail without FFmpeg's program, and are not skipped.
pytestmark = pytest.mark.skipif(
    shutil.which("ffmpeg") is None and not os.environ.get("MODELFLOW_FFMPEG"),
    reason="needs the program ffmpeg",
)

# A name, the containers, and FFmpeg's options of the encoder.
CODECS = {
    "h264": (
        "mp4 mov mkv avi flv ts mpg 3gp nut",
        "libx264 -preset ultrafast -bf 0 -g 4 -pix_fmt yuv420p",
    ),
    "h264-b": ("mp4 mov mkv avi flv ts wmv", "libx264 -bf 3 -g 6 -pix_fmt yuv420p"),
    "h264-open-gop": ("mp4 mkv ts", "libx264 -bf 3 -x264-params open-gop=1:keyint=6:min-keyint=3"),
    "h264-10-bit": ("mp4 mkv", "libx264 -pix_fmt yuv420p10le"),
    "h264-interlaced": ("mp4 ts", "libx264 -g 4 -flags +ildct+ilme -pix_fmt yuv420p"),
    "h264-odd": ("mp4 mkv", "libx264 -pix_fmt yuv444p -s 65x49"),
    "hevc": (
        "mp4 mov mkv ts",
        "libx265 -x265-params log-level=none:keyint=4:pools=1 -pix_fmt yuv420p",
    ),
    "hevc-10-bit": ("mp4 mkv", "libx265 -x265-params log-level=none:pools=1 -pix_fmt yuv420p10le"),
    "mpeg4": ("mp4 mov avi mkv 3gp nut", "mpeg4 -bf 2"),
    "mpeg2": ("mpg ts mov mp4 avi mkv", "mpeg2video -bf 2"),
    "mpeg2-interlaced": ("mpg ts", "mpeg2video -bf 2 -flags +ildct+ilme"),
    "mpeg1": ("mpg ts mp4", "mpeg1video -r 25"),
    "vp8": ("webm mkv avi ogg", "libvpx -deadline realtime"),
    "vp9": ("webm mkv mp4", "libvpx-vp9 -deadline realtime -cpu-used 8"),
    "av1": ("mp4 mkv webm", "libaom-av1 -cpu-used 8 -usage realtime"),
    "mjpeg": ("avi mov mkv mp4", "mjpeg -pix_fmt yuvj420p"),
    "prores": ("mov mkv", "prores_ks -pix_fmt yuv422p10le"),
    "ffv1": ("mkv avi mov", "ffv1"),
    "ffv1-10-bit": ("mkv avi", "ffv1 -pix_fmt yuv420p10le"),
    "huffyuv": ("avi mkv mov", "huffyuv -pix_fmt yuv422p"),
    "ffvhuff": ("avi mkv", "ffvhuff"),
    "utvideo": ("avi mov mkv", "utvideo -pix_fmt gbrp"),
    "utvideo-yuv": ("avi mov mkv", "utvideo -pix_fmt yuv420p"),
    "qtrle": ("mov", "qtrle -pix_fmt rgb24"),
    "qtrle-gray": ("mov", "qtrle -pix_fmt gray"),
    "raw-bgr24": ("avi mov nut", "rawvideo -pix_fmt bgr24"),
    "raw-bgr24-odd": ("avi mov", "rawvideo -pix_fmt bgr24 -s 65x49"),
    "raw-yuv420p": ("avi mkv nut", "rawvideo -pix_fmt yuv420p"),
    "raw-uyvy422": ("mov avi mkv", "rawvideo -pix_fmt uyvy422"),
    "raw-gray": ("avi mov", "rawvideo -pix_fmt gray"),
    "raw-pal8": ("avi mov", "rawvideo -pix_fmt pal8"),
    "png": ("mov avi mkv", "png -pix_fmt rgb24"),
    "jpeg2000": ("mov mxf", "jpeg2000 -r 25"),
    "dnxhd": ("mov mxf", "dnxhd -profile:v dnxhr_sq -pix_fmt yuv422p -s 256x120 -r 25"),
    "dv": ("avi dv", "dvvideo -s 720x576 -pix_fmt yuv420p"),
    "wmv2": ("wmv avi", "wmv2"),
    "msmpeg4": ("avi wmv", "msmpeg4"),
    "flv1": ("flv avi", "flv"),
    "h263": ("3gp avi", "h263 -s 128x96"),
    "theora": ("mkv avi", "libtheora"),
    "cinepak": ("mov avi", "cinepak"),
    "svq1": ("mov", "svq1"),
    "v210": ("mov avi", "v210"),
    "r210": ("mov", "r210"),
    "zmbv": ("avi mkv", "zmbv"),
    "gif": ("gif", "gif"),
}
SOURCE = "-f lavfi -i testsrc2=s=64x48:r=5:d=3"
TONE = "-f lavfi -i sine=d=4.5"
# The middle is omitted, which makes a variable rate; an AVI has empty packets there.
VARIABLE = "-vf select=lt(n\\,4)+gt(n\\,8)*not(mod(n\\,2)) -fps_mode vfr"
CELLS = [(name, ending) for name, (endings, _) in CODECS.items() for ending in endings.split()]
# FFmpeg's own decoders ignore the edit list; the graph's frames are the right ones.
UNTRIMMED = {("qtrle", "mov"), ("qtrle-gray", "mov")}
WAYS = [
    ("h264", "mp4"),
    ("h264-b", "mp4"),
    ("h264-b", "mov"),
    ("h264-b", "mkv"),
    ("h264-b", "flv"),
    ("h264-b", "ts"),
    ("mpeg4", "avi"),
    ("mpeg4", "mp4"),
    ("mpeg2", "mpg"),
    ("vp9", "webm"),
    ("mjpeg", "avi"),
    ("mjpeg", "mov"),
    ("raw-bgr24", "avi"),
    ("ffv1", "mkv"),
]
# Containers that state their length before the frames.
LENGTHS = ("mp4", "mov", "mkv", "webm", "avi", "flv")


def write(path, codec, before="", after=""):
    """Writes a video with FFmpeg's program; returns its path."""
    arguments = f"{SOURCE} {before} -c:v {CODECS[codec][1]} {after}"
    run_ffmpeg(*arguments.split(), path)
    return path


def run_ffmpeg(*arguments):
    """Runs FFmpeg's program; any output fails the test."""
    command = ["ffmpeg", "-v", "error", "-y", "-threads", "1", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr


def decode(path):
    """Yields the frames of PyAV's own decoding, up to the damage: pixels, seconds, angle."""
    with av.open(str(path)) as container:
        cover = av.stream.Disposition.attached_pic
        stream = next(one for one in container.streams.video if not one.disposition & cover)
        try:
            for frame in container.decode(stream):
                yield frame.to_ndarray(format="bgr24"), frame.time, -round(frame.rotation) % 360
        except av.error.FFmpegError:
            return


def assert_equal(frames, wanted):
    """Fails where a frame differs in pixels, time or angle."""
    for number, (frame, (pixels, time, angle)) in enumerate(zip(frames, wanted, strict=True)):
        assert np.array_equal(frame.data, pixels), number
        assert time is None or frame.get("timestamp") == pytest.approx(time, abs=1e-6)
        assert frame.get("rotate_angle") == angle


def assert_same(path, **options):
    """Fails unless a graph gives the frames of PyAV's own decoding; returns how many."""
    wanted = list(decode(path))
    frames, errors, _ = read(path, **options)
    assert errors == []
    assert len(frames) == len(wanted)
    assert_equal(frames, wanted)
    return len(frames)


def trimmed(whole):
    """Writes a copy of a video from its middle on; returns its path."""
    path = whole.with_stem("trimmed")
    run_ffmpeg("-ss", "1.5", "-i", whole, "-c", "copy", path)
    return path


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory):
    """Yields the folder with a codec in each container, whole and trimmed."""

    @functools.cache
    def write_all(codec):
        folder = tmp_path_factory.mktemp(codec)
        endings, encoder = CODECS[codec]
        encoded, copied, cut = [], [], []
        for ending in endings.split():
            path = folder / f"v.{ending}"
            encoded += ["-c:v", *encoder.split(), path]
            if (codec, ending) not in UNTRIMMED:
                cut += ["-ss", "1.5", "-i", path]
                copied += ["-map", len(cut) // 4 - 1, "-c", "copy", path.with_stem("trimmed")]
        run_ffmpeg(*SOURCE.split(), *encoded)
        if cut:
            run_ffmpeg(*cut, *copied)
        return folder

    return write_all


@pytest.mark.parametrize(("codec", "ending"), CELLS)
def test_frames_are_those_of_the_container_whole_and_trimmed(folder_of, codec, ending):
    whole = folder_of(codec) / f"v.{ending}"
    assert assert_same(whole) >= 13  # AVI and mpg lose the last frame
    if (codec, ending) not in UNTRIMMED:
        assert assert_same(whole.with_stem("trimmed")) > 0


@pytest.mark.parametrize("cell", WAYS, ids="-".join)
@pytest.mark.parametrize(
    ("before", "after"),
    [(TONE, ""), (TONE, "-map 1 -map 0"), ("", "-map 0 -map 0"), ("", VARIABLE)],
    ids=["audio", "audio-first", "two-videos", "variable-rate"],
)
def test_other_tracks_and_variable_rates_make_no_difference(tmp_path, cell, before, after):
    codec, ending = cell
    if ending == "flv":
        after = after.replace("-map 0 -map 0", "")  # the container holds one video
    assert_same(write(tmp_path / f"v.{ending}", codec, before, after))


@pytest.mark.parametrize(("codec", "ending"), WAYS)
def test_a_video_that_is_cut_off_gives_the_frames_before(tmp_path, codec, ending):
    moov = "-movflags faststart" if ending in ("mp4", "mov") else ""
    data = write(tmp_path / f"v.{ending}", codec, after=moov).read_bytes()
    cut = tmp_path / f"cut.{ending}"
    cut.write_bytes(data[: len(data) // 2])
    whole = {time: pixels for pixels, time, _ in decode(tmp_path / f"v.{ending}")}
    frames, errors, _ = read(cut)
    assert all(np.array_equal(frame.data, whole[frame.get("timestamp")]) for frame in frames)
    # Only a part of the last packet exists. PyAV makes frames of that part and of the packets that
    # refer to it.
    assert len(frames) >= len(list(decode(cut))) - 2
    assert errors or ending not in LENGTHS


@pytest.mark.parametrize("ending", ["mp4", "mkv", "avi"])
def test_a_copy_keeps_the_times_of_a_variable_rate(tmp_path, ending):
    path = write(tmp_path / "v.mp4", "h264-b", after=VARIABLE)
    graph = COPY % (path, "", tmp_path / f"copy.{ending}")
    with modelflow.Flow(graph) as flow:
        assert flow.wait(60)
    times = [time for _, time, _ in decode(path)]
    copied = [time for _, time, _ in decode(tmp_path / f"copy.{ending}")]
    assert copied == [pytest.approx(time - times[0] + copied[0], abs=0.002) for time in times]


@pytest.mark.parametrize("angle", [90, 180, 270])
@pytest.mark.parametrize("ending", ["mp4", "mov"])
def test_a_rotated_video_says_its_angle(tmp_path, angle, ending):
    path = write_video(tmp_path / f"v.{ending}", 5, rotation=angle)
    assert_same(path)
    assert {turned for _, _, turned in decode(path)} == {360 - angle}


def test_a_cover_before_the_video_is_no_video(tmp_path):
    cover = tmp_path / "cover.png"
    run_ffmpeg("-f", "lavfi", "-i", "color=red:s=32x32", "-frames:v", "1", cover)
    inputs = ("-i", write(tmp_path / "v.mp4", "h264-b"), "-i", cover)
    options = ["-map", "0", "-map", "1", "-c", "copy", "-disposition:v:1", "attached_pic"]
    path = tmp_path / "covered.mp4"
    run_ffmpeg(*inputs, *options, path)
    move_before_tracks(path, b"udta")
    with av.open(str(path)) as container:
        assert container.streams.video[0].codec_context.name == "png"
    assert assert_same(path) == 15


def move_before_tracks(path, kind):
    """Moves a child of the box moov, which is at the end of the file, in front of its tracks."""
    data = path.read_bytes()
    begin = data.rindex(kind) - 4
    box = data[begin : begin + int.from_bytes(data[begin : begin + 4], "big")]
    rest = data[:begin] + data[begin + len(box) :]
    place = rest.index(b"trak") - 4
    path.write_bytes(rest[:place] + box + rest[place:])


@pytest.mark.parametrize(("codec", "ending"), [("h264-b", "mp4"), ("raw-pal8", "mov")])
def test_packets_that_went_through_other_processes_decode_the_same(tmp_path, codec, ending):
    whole = write(tmp_path / f"v.{ending}", codec)
    for path in (whole, trimmed(whole)):
        assert_same(path, graph=READ_THROUGH_PROCESS)
