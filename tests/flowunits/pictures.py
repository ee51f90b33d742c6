"""Pictures of other programs (writer x format x kind of pixels); small, and made for each test."""

import contextlib
import io
import shutil
import subprocess
from typing import Any

import cv2
import numpy as np
import PIL
import pillow_heif
from PIL import Image

pillow_heif.register_heif_opener()

WIDTH, HEIGHT = 23, 17  # odd sizes: rows end within bytes, blocks and chroma samples

_Y, _X = np.mgrid[:HEIGHT, :WIDTH]
RGB = np.stack([_X * 255 // WIDTH, _Y * 255 // HEIGHT, (_X * 7 + _Y * 5) % 256], -1).astype(
    np.uint8
)
ALPHA = ((_X + _Y) * 255 // (WIDTH + HEIGHT)).astype(np.uint8)


def _pillow_modes():
    colour = Image.fromarray(RGB)
    gray = colour.convert("L")
    with_alpha = Image.fromarray(np.dstack([RGB, ALPHA]))
    return {
        "RGB": colour,
        "L": gray,
        "1": colour.convert("1"),
        "P2": colour.quantize(2),
        "P16": colour.quantize(16),
        "P256": colour.quantize(256),
        "PA": with_alpha.quantize(16),
        "RGBA": with_alpha,
        "LA": with_alpha.convert("LA"),
        "CMYK": colour.convert("CMYK"),
        "YCbCr": colour.convert("YCbCr"),
        "LAB": colour.convert("LAB"),
        "I;16": Image.fromarray(np.asarray(gray).astype(np.uint16) * 257),
        "I": gray.convert("I"),
        "F": gray.convert("F"),
    }


_JPEG = "RGB L 1 CMYK YCbCr"
_PNG = "RGB L 1 P2 P16 P256 PA RGBA LA I;16"
_ANY = "RGB L 1 P2 P16 P256 PA RGBA LA CMYK YCbCr LAB I;16 I F"

# Format -> options for Pillow -> the modes that Pillow writes with them.
PILLOW = {
    "JPEG": {"": _JPEG, "progressive": _JPEG, "subsampling=0": _JPEG, "orientation=6": _JPEG},
    "PNG": {"": _PNG, "bits=4": "P16"},
    "WEBP": {"": "RGB L P16 RGBA LA", "lossless": "RGB RGBA"},
    "BMP": {"": "RGB L 1 P2 P16 P256 RGBA"},
    "TIFF": {
        "": _ANY,
        "compression=tiff_lzw": _ANY,
        "compression=tiff_adobe_deflate": _ANY,
        "compression=packbits": _ANY,
        "compression=zstd": _ANY,
        "compression=jpeg": "RGB L CMYK YCbCr",
        "compression=group3": "1",
        "compression=group4": "1",
        "big_tiff": "RGB L P16",
    },
    "GIF": {"": "RGB L 1 P2 P16 P256 PA RGBA"},
    "AVIF": {"": "RGB L P16 RGBA"},
    "JPEG2000": {"": "RGB L RGBA LA I;16", "no_jp2": "RGB L"},
    "ICO": {"": "RGB L 1 P16 RGBA", "bitmap_format=bmp": "RGB L RGBA"},
    "PPM": {"": "RGB L 1 I;16"},
    "QOI": {"": "RGB RGBA"},
    "MPO": {"": "RGB L"},
    "HEIF": {"": "RGB L RGBA"},
}
# older versions end the process that writes this format
if int(PIL.__version__.partition(".")[0]) < 12:
    del PILLOW["TIFF"]["compression=zstd"]
OPENCV = {
    "jpg": "bgr gray bgra",
    "png": "bgr gray bgra bgr16 gray16",
    "webp": "bgr bgra",
    "bmp": "bgr gray bgra",
    "tiff": "bgr gray bgra bgr16 gray16",
    "ppm": "bgr",
    "pgm": "gray",
}
# Ending -> encoder and ffmpeg's pixel formats.
FFMPEG = {
    "jpg": ("mjpeg", "yuvj420p yuvj422p yuvj444p gray"),
    "png": ("png", "rgb24 rgba gray ya8 pal8 monob rgb48be gray16be rgba64be"),
    "bmp": ("bmp", "bgra bgr24 rgb565le rgb555le rgb444le rgb8 gray pal8 monob monow"),
    "tiff": ("tiff", "rgb24 rgb48le pal8 rgba gray ya8 gray16le monob monow yuv420p yuv444p"),
    "gif": ("gif", "pal8 rgb8 gray"),
    "jp2": ("jpeg2000", "rgb24 gray yuv420p"),
    "ppm": ("ppm", "rgb24"),
    "pgm": ("pgm", "gray"),
    "pbm": ("pbm", "monow"),
}
# ImageMagick's name of a format -> the arguments it is called with.
_MAGICK = ("", "-type Grayscale", "-type Palette", "-type Bilevel", "-depth 16", "-alpha on")
MAGICK = {
    "jpg": ("", "-type Grayscale", "-colorspace CMYK", "-interlace Plane", "-orient RightTop"),
    "png": _MAGICK,
    "bmp": (*_MAGICK, "-compress RLE"),
    "bmp2": _MAGICK,
    "bmp3": (*_MAGICK, "-compress RLE -type Palette"),
    "tiff": (
        *_MAGICK,
        "-compress RLE",
        "-compress LZW",
        "-compress Zip",
        "-compress JPEG",
        "-compress Group4 -type Bilevel",
        "-endian MSB",
        "-interlace Plane",
        "-colorspace CMYK",
        "-orient RightTop",
    ),
    "gif": ("", "-type Grayscale", "-interlace GIF"),
    "ico": ("", "-type Palette"),
    "ppm": ("", "-type Grayscale", "-type Bilevel"),
}

PICTURES = (
    [
        ("pillow", name, told, mode)
        for name, kinds in PILLOW.items()
        for told, modes in kinds.items()
        for mode in modes.split()
    ]
    + [("opencv", ending, "", kind) for ending, kinds in OPENCV.items() for kind in kinds.split()]
    + [
        ("ffmpeg", ending, codec, pix_fmt)
        for ending, (codec, pix_fmts) in FFMPEG.items()
        for pix_fmt in pix_fmts.split()
    ]
    + [("magick", name, told, "") for name, kinds in MAGICK.items() for told in kinds]
)


def is_there(writer):
    """Returns whether the program that writes is installed."""
    return {"ffmpeg": shutil.which("ffmpeg"), "magick": _magick()}.get(writer, True)


def written(picture, folder):
    """Returns the bytes of a picture of `PICTURES`."""
    writer, name, told, kind = picture
    return _WRITERS[writer](name, told, kind, folder)


def _by_pillow(name, told, mode, _folder):
    options: dict[str, Any] = {}
    for text in told.split():
        key, _, value = text.partition("=")
        if key == "orientation":
            exif = Image.Exif()
            exif[0x112] = int(value)
            options["exif"] = exif
        else:
            options[key] = (int(value) if value.isdigit() else value) if value else True
    file = io.BytesIO()
    _pillow_modes()[mode].save(file, name, **options)
    return file.getvalue()


def _by_opencv(ending, _told, kind, _folder):
    bgr = RGB[..., ::-1]
    arrays = {
        "bgr": bgr,
        "gray": bgr[..., 1],
        "bgra": np.dstack([bgr, ALPHA]),
        "bgr16": bgr.astype(np.uint16) * 257,
        "gray16": bgr[..., 1].astype(np.uint16) * 257,
    }
    return cv2.imencode(f".{ending}", np.ascontiguousarray(arrays[kind]))[1].tobytes()


def _by_ffmpeg(ending, codec, pix_fmt, folder):
    path = folder / f"picture.{ending}"
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{WIDTH}x{HEIGHT}", "-i", "-"]
    target = ["-frames:v", "1", "-c:v", codec, "-pix_fmt", pix_fmt, "-strict", "-1"]
    container = "gif" if ending == "gif" else "image2"
    command = ["ffmpeg", "-v", "error", *source, *target, "-f", container, str(path)]
    subprocess.run(command, input=RGB.tobytes(), check=True, capture_output=True)
    return path.read_bytes()


def _by_magick(name, told, _kind, folder):
    path = folder / "picture"
    command = [_magick(), "png:-", *told.split(), f"{name}:{path}"]
    png = _by_pillow("PNG", "", "RGB", folder)
    subprocess.run(command, input=png, check=True, capture_output=True)
    return path.read_bytes()


def _magick():
    """Returns ImageMagick's program, ``magick`` from version 7 on; ``convert`` may be another."""
    return shutil.which("magick") or shutil.which("convert-im6.q16")


_WRITERS = {
    "pillow": _by_pillow,
    "opencv": _by_opencv,
    "ffmpeg": _by_ffmpeg,
    "magick": _by_magick,
}


def _list_others():
    """Returns the pictures of other formats that Pillow itself writes, without a warning."""
    Image.init()
    found = []
    for name in sorted(set(Image.SAVE) - set(PILLOW) - {"WMF", "HDF5", "GRIB", "BUFR", "IM"}):
        for mode in ("RGB", "L", "1", "P256", "RGBA"):
            with contextlib.suppress(OSError, ValueError, KeyError):
                _by_pillow(name, "", mode, None)
                found.append(("pillow", name, "", mode))
    return found


OTHER = _list_others()
