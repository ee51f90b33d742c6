"""``image_decoder`` on CUDA."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from flowunits.image_decoder import ImageDecoderOptions, nvjpeg
from flowunits.image_decoder.cpu import ImageDecoder as HostDecoder
from flowunits.image_decoder.encoded import TURNS, PixelCount, decoded_format
from flowunits.image_decoder.header import Header
from modelflow import Buffer, Context, FlowUnit
from modelflow.device import memory_of
from modelflow.device.torch_memory import TorchMemory, load_torch
from modelflow.image import Image
from modelflow.image.tensor import ImageBatch, by_groups, convert_images

_END_OF_IMAGE = b"\xff\xd9"


class ImageDecoder(FlowUnit):
    """Decodes plain JPEGs with nvJPEG, a batch at a time, and other images on the CPU.

    The CPU decodes other formats, JPEGs that nvJPEG refuses, and JPEGs without an end marker.
    Errors therefore have the same text as on the CPU. Decoded images are uploaded together.
    """

    def open(self, config: ImageDecoderOptions) -> None:
        """Stores the options and loads the decoders.

        Raises:
            MissingDependencyError: torchvision is not installed.
        """
        nvjpeg.load_torchvision_io()
        self._options = config
        self._host = HostDecoder()
        self._host.open(config)
        memory = memory_of(self.device.kind)
        assert isinstance(memory, TorchMemory)  # the memory of the device kind of this class
        self._memory = memory

    def process(self, ctx: Context) -> None:
        """Decodes the batch, then turns and converts the images of each size at once."""
        count = PixelCount(self._options.max_batch_pixels)
        decoded = by_groups(ctx.input(), lambda buffer: self._read(buffer, count), self._decode)
        ctx.emit(by_groups(decoded, self._group, self._finish))

    def _read(self, buffer: Buffer, count: PixelCount) -> tuple[Hashable, Any]:
        data, header = self._host.read(buffer.data, count)
        is_plain = header.is_plain_jpeg and bytes(data[-1024:]).rfind(_END_OF_IMAGE) >= 0
        return is_plain, (data, header)

    def _decode(self, is_plain_jpeg: bool, items: list[tuple[Any, Header]]) -> list[Any]:
        """Returns for each item an image with its orientation, a finished buffer, or an error."""
        if not is_plain_jpeg:
            return self._decode_on_host(items)
        torch = load_torch()
        encoded = [torch.from_numpy(np.array(data)) for data, _ in items]
        is_gray = decoded_format(self._options.pix_fmt) == "gray"
        try:
            tensors = nvjpeg.decode_jpegs(encoded, is_gray, self._memory.torch_device(self.device))
        except torch.cuda.OutOfMemoryError:
            raise
        except RuntimeError:  # for one unknown image: single calls find the image and its error
            if len(items) == 1:
                return self._decode_on_host(items)
            return [self._decode(True, [item])[0] for item in items]
        pix_fmt = "gray" if is_gray else "rgbp"
        return [
            (Image(tensor, pix_fmt, "chw"), header.orientation)
            for tensor, (_, header) in zip(tensors, items, strict=True)
        ]

    def _decode_on_host(self, items: list[tuple[Any, Header]]) -> list[Any]:
        found: list[Any] = []
        for item in items:
            try:
                found.append(self._host.decode(*item).to_buffer())
            except ValueError as error:
                found.append(error)
        good = [value for value in found if isinstance(value, Buffer)]
        uploaded = self._memory.upload([buffer.data for buffer in good], self.device)
        for buffer, data in zip(good, uploaded, strict=True):
            buffer.data = data
        return found

    def _group(self, decoded: Any) -> tuple[Hashable, Any]:
        if isinstance(decoded, ValueError):
            raise decoded
        if isinstance(decoded, Buffer):
            return None, decoded
        image, orientation = decoded
        return (tuple(image.data.shape), orientation), image

    def _finish(self, key: Any, images: list[Any]) -> Sequence[Buffer]:
        if key is None:
            return images
        batch = ImageBatch.of(images)
        if not self._options.ignore_orientation:
            batch = _upright(batch, key[1])
        pix_fmt = self._options.pix_fmt
        layout = "chw" if pix_fmt.endswith("p") else "hwc"
        return convert_images(batch, pix_fmt, layout).to_buffers()


def _upright(batch: ImageBatch, orientation: int) -> ImageBatch:
    is_transposed, flip = TURNS.get(orientation, (False, None))
    nchw = batch.nchw.transpose(2, 3) if is_transposed else batch.nchw
    if flip is not None:
        nchw = nchw.flip({0: (2,), 1: (3,), -1: (2, 3)}[flip])
    return batch.with_nchw(nchw)
