"""``(x - mean) * scale`` a channel on tensors, with the same float32 arithmetic as on the CPU."""

from typing import Any

from modelflow.device.torch_memory import load_torch
from modelflow.image.channel_scale import ChannelScale


def scaled(data: Any, layout: str, scale: ChannelScale) -> Any:
    """Returns scaled data: float32, equal bit by bit to `ChannelScale.apply`.

    Args:
        data: A batch of numbers: (N, ...), the channels last (``hwc``) or third from the end
            (``chw``).
        layout: Of each item.
        scale: The values, which `ChannelScale.check` has found to fit.
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
