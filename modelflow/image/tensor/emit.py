"""Processes equal rows of a batch together and emits the results in the order of the batch."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from modelflow.buffer import Buffer
from modelflow.device.torch_memory import load_torch, stack_tensors
from modelflow.image.channel_scale import ChannelScale
from modelflow.image.image import read_image
from modelflow.image.tensor.batch import ImageBatch
from modelflow.unit.unit import Context


def by_groups(
    rows: Iterable[Any],
    read: Callable[[Any], tuple[Hashable, Any]],
    work: Callable[[Any, list[Any]], Sequence[Any]],
) -> list[Any]:
    """Calls ``work`` once for each group of equal rows and returns its results in input order.

    A ``ValueError`` becomes the result of the rows for which it was raised, and of no other rows.

    Args:
        rows: The rows.
        read: Called with a row. Returns the key of its group, and an item for ``work``.
        work: Called with the key and the items of a group. Returns a value for each item.
    """
    values: list[Any] = []
    groups: dict[Hashable, tuple[list[int], list[Any]]] = {}
    for place, row in enumerate(rows):
        try:
            key, item = read(row)
        except ValueError as error:
            values.append(error)
            continue
        values.append(None)
        places, items = groups.setdefault(key, ([], []))
        places.append(place)
        items.append(item)
    for key, (places, items) in groups.items():
        try:
            results = work(key, items)
        except ValueError as error:
            results = [error] * len(places)
        for place, value in zip(places, results, strict=True):
            values[place] = value
    return values


def emit_images(
    ctx: Context,
    function: Callable[..., ImageBatch | list[Buffer]],
    *ports: str,
    parameter: Callable[..., Hashable] | None = None,
    allow_nv12: bool = False,
) -> None:
    """Calls ``function`` once for the images of each size and format.

    Args:
        ctx: The call's context.
        function: Called with the images as one batch, and with the parameter if given. Returns as
            many images, as a batch or as buffers. A ``ValueError`` fails all of them.
        ports: The inputs, beginning with the port of the images. The default is the only input.
        parameter: Called with the same arguments as the ``function`` of `Context.emit_each`. Images
            with different results are processed separately.
        allow_nv12: Whether ``function`` can process nv12.
    """
    where = ports[0] if ports else "in_image"
    columns = [ctx.inputs[port] for port in ports] if ports else [ctx.input()]

    def read(row: tuple[Buffer, ...]) -> tuple[Hashable, Any]:
        image = read_image(row[0], where, allow_nv12=allow_nv12)
        extra = () if parameter is None else (parameter(*row),)
        return (tuple(image.data.shape), image.pix_fmt, image.layout, extra), image

    def work(key: Any, images: list[Any]) -> list[Buffer]:
        found = function(ImageBatch.of(images), *key[-1])
        return found.to_buffers() if isinstance(found, ImageBatch) else found

    ctx.emit(by_groups(zip(*columns, strict=True), read, work))


def emit_scaled(ctx: Context, scale: ChannelScale) -> None:
    """Scales data of equal shape and type together."""

    def read(buffer: Buffer) -> tuple[Hashable, Any]:
        data, layout = scale.check(buffer)
        return (layout, tuple(data.shape), data.dtype), data

    def work(key: Any, items: list[Any]) -> Sequence[Any]:
        rows: Sequence[Any] = scale_images(stack_tensors(items), key[0], scale).unbind(0)
        return rows

    ctx.emit(by_groups(ctx.input(), read, work))


def scale_images(data: Any, layout: str, scale: ChannelScale) -> Any:
    """Returns scaled data: float32, equal bit by bit to `ChannelScale.apply`.

    Args:
        data: A batch of numbers (N, ...), with the channels last (``hwc``) or third from the end
            (``chw``).
        layout: The layout of each item.
        scale: The values, which `ChannelScale.check` has accepted.
    """
    torch = load_torch()
    if data.dtype == torch.bool or torch.promote_types(data.dtype, torch.float32) != torch.float32:
        data = data.to(torch.float32)
    is_planar = layout == "chw" and data.ndim > 3
    for function, values in ((torch.sub, scale.mean), (torch.mul, scale.scale)):
        if values is not None:
            factor = torch.from_numpy(values).to(data.device, non_blocking=True)
            data = function(data, factor[:, None, None] if is_planar else factor)
    return data.to(torch.float32)
