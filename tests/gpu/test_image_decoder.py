"""Tests of ``image_decoder`` on CUDA: odd and damaged JPEGs, and memory of earlier images."""

import sys

import numpy as np
import pytest
from PIL import Image as PilImage

from flowunits.image_decoder import SPEC, nvjpeg
from modelflow.device.torch_memory import load_torch
from modelflow.errors import MissingDependencyError
from modelflow.testing import run_unit
from tests import torch_as_cuda
from tests.gpu.conftest import decode_as_nvjpeg, jpeg_difference

torch = load_torch()


def decode(files, device, **options):
    return run_unit(SPEC, {"in_encoded_image": files}, device=device, **options)["out_image"]


def check_same(files, **options):
    """Checks that the decoder gives the same on CUDA as on the CPU, errors and meta included."""
    on_cpu, on_cuda = (decode(files, device, **options) for device in ("cpu", "cuda"))
    assert len(on_cpu) == len(on_cuda) == len(files)
    for place, (expected, got) in enumerate(zip(on_cpu, on_cuda, strict=True)):
        assert got.get_error_msg() == expected.get_error_msg(), place
        assert got.meta == expected.meta
        if not expected.has_error():
            assert (got.data.dtype, got.data.shape) == (expected.data.dtype, expected.data.shape)
            difference = np.abs(got.data.astype(int) - expected.data).mean()
            assert difference <= jpeg_difference(), place


@pytest.fixture
def turned(photo, encode):
    """Returns a JPEG in each orientation that EXIF has."""
    exif, found = PilImage.Exif(), []
    for orientation in range(1, 9):
        exif[0x0112] = orientation
        found.append(encode(photo, exif=exif.tobytes()))
    return found


@pytest.fixture
def files(photo, other_photo, encode, turned):
    """Returns encoded images of many kinds."""
    jpeg = encode(photo)
    others = [encode(other_photo, kind) for kind in ("PNG", "WEBP", "BMP")]
    odd = [
        encode(other_photo),
        encode(photo, mode="CMYK"),
        encode(photo[..., 0]),
        encode(photo, progressive=True),
        encode(photo[..., 0], progressive=True),
        encode(photo[:1, :1]),
        encode(photo[:3, :17]),
        encode(photo, comment=b"a comment"),
        encode(photo, restart_marker_rows=1),
        encode(photo, quality=1),
        encode(photo, quality=100, subsampling=0),
        encode(photo, subsampling=1),
        encode(photo, optimize=True),
    ]
    return [jpeg, *turned, *others, *odd, np.frombuffer(jpeg, np.uint8)]


def cut_in_the_middle(jpeg):
    return jpeg[: len(jpeg) // 2]


def cut_in_the_header(jpeg):
    return jpeg[:40]


def garbled(jpeg):
    middle = len(jpeg) // 2
    return jpeg[:middle] + b"\xff\x00" * 100 + bytes(200) + jpeg[middle + 400 :]


def no_image(jpeg):
    return b"no image"


def empty(jpeg):
    return b""


DAMAGES = [cut_in_the_middle, cut_in_the_header, garbled, no_image, empty]


@pytest.mark.parametrize("pix_fmt", ["bgr", "rgb", "gray", "bgrp", "rgbp"])
def test_every_kind_is_decoded_as_on_the_cpu(files, pix_fmt):
    check_same(files, pix_fmt=pix_fmt)


def test_a_jpeg_that_lacks_its_end_marker_alone_is_decoded_as_on_the_cpu(files):
    check_same([files[0][:-2], files[0], files[0][:-1]])


def test_what_only_pillow_reads_is_decoded_as_on_the_cpu(photo, encode):
    check_same([encode(photo, "GIF"), encode(photo), encode(photo[:20], "JPEG2000")])


def test_options_are_obeyed_as_on_the_cpu(files, other_photo, encode):
    check_same(files, ignore_orientation=True)
    check_same(files, max_pixels=100_000)
    even = [encode(other_photo[:400]), encode(other_photo[:300])]
    check_same([*even, *files], pix_fmt="nv12")


@pytest.mark.parametrize("damage", DAMAGES)
def test_only_the_guilty_item_of_a_batch_fails(photo, other_photo, encode, damage):
    good = [encode(photo), encode(other_photo), encode(photo, progressive=True)]
    bad = damage(encode(photo, quality=95))
    check_same([*good, *good, None])
    found = decode([*good, bad, *good, None], "cuda")
    failed = [buffer.has_error() for buffer in found]
    assert failed[:3] + failed[4:] == [False] * 6 + [True]
    for buffer, same in zip(found[:3], found[4:7], strict=True):
        np.testing.assert_array_equal(buffer.data, same.data)
    # The hardware decoder may ignore damage inside the picture's data.
    if not (torch_as_cuda.has_gpu() and damage is garbled):
        assert failed[3]
        assert found[3].get_error_msg() == decode([bad], "cpu")[0].get_error_msg()


def test_jpegs_are_decoded_in_one_call_unless_one_is_damaged(photo, encode, monkeypatch):
    sizes, real = [], nvjpeg.decode_jpegs

    def counted(encoded, is_gray, device):
        sizes.append(len(encoded))
        return real(encoded, is_gray, device)

    monkeypatch.setattr(nvjpeg, "decode_jpegs", counted)
    jpeg = encode(photo)
    decode([jpeg] * 5, "cuda")
    assert sizes == [5]

    def fails(encoded, is_gray, device):
        sizes.append(len(encoded))
        return decode_as_nvjpeg(encoded, is_gray, device)

    monkeypatch.setattr(nvjpeg, "decode_jpegs", fails)
    decode([jpeg, garbled(jpeg)], "cuda")
    assert sizes == [5, 2, 1, 1]


def test_out_of_memory_is_not_taken_for_a_damaged_image(fake_cuda, photo, encode, monkeypatch):
    def exhausted(encoded, mode, device):
        message = "Error while decoding JPEG images: CUDA out of memory. Tried to allocate 9 GiB."
        raise RuntimeError(message)

    fake_cuda.use_torchvision(exhausted)
    (buffer,) = decode([encode(photo)], "cuda")
    assert "OutOfMemoryError: Error while decoding JPEG images" in buffer.get_error_msg()


def test_pixels_are_allocated_for_a_private_stream_and_kept_for_their_reader(
    fake_cuda, photo, encode
):
    def decode_jpeg(encoded, mode, device):
        assert fake_cuda.current is not fake_cuda.worker
        return decode_as_nvjpeg(encoded, False, "cpu")

    fake_cuda.use_torchvision(decode_jpeg)
    (buffer,) = decode([encode(photo)], "cuda")
    assert buffer.data.shape == photo.shape
    assert fake_cuda.events[:2] == [("wait", "worker", "private 1"), ("record", "worker")]


def test_the_decoder_says_what_to_install(monkeypatch):
    monkeypatch.undo()
    torch_as_cuda.install(monkeypatch)
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(MissingDependencyError, match=r"torchvision.*modelflow-graph\[cuda\]"):
        decode([b""], "cuda")


@pytest.mark.cuda
def test_pixels_that_the_gpu_still_reads_are_not_overwritten(memory, cuda, photo, encode):
    """Tests a slow reader: earlier images have been freed, but not yet been read."""
    device = memory.torch_device(cuda)
    jpegs = [encode(np.roll(photo, 30 * turn, axis=1)) for turn in range(8)]
    encoded = [torch.frombuffer(bytearray(jpeg), dtype=torch.uint8) for jpeg in jpegs]
    with memory.running(cuda):
        expected = [nvjpeg.decode_jpegs([one], False, device)[0].clone() for one in encoded]
        torch.cuda.synchronize()
        for _ in range(5):
            copies = []
            torch.cuda._sleep(200_000_000)  # cycles: about 0.1 s
            for one in encoded:
                (pixels,) = nvjpeg.decode_jpegs([one], False, device)
                copies.append(pixels.clone())
                del pixels
            torch.cuda.synchronize()
            for place, (copied, right) in enumerate(zip(copies, expected, strict=True)):
                assert torch.equal(copied, right), place
