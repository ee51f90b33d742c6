"""The options of ``image_preprocess`` for the settings of a model. Pure."""

from collections.abc import Mapping
from typing import Any

from modelflow.errors import ConfigError
from modelflow.image.presets import PRESETS, PresetName

RANGES: tuple[PresetName, ...] = (
    "unit",
    "raw",
    "imagenet_torch",
    "imagenet_tf",
    "imagenet_caffe",
    "clip",
)
"""The presets that a model's values can have; ``unit`` is 0 to 1, ``raw`` 0 to 255."""


def preprocess_options(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options for the settings ``layout``, ``colours`` and ``range``.

    A preset sets its own order of colours. For other colours the mean and the factor of the preset
    are written out, which is possible if they are equal for all channels.

    Raises:
        ConfigError: The layout is unknown, or the range exists for other colours only.
    """
    layout = settings.get("layout")
    if layout is None:
        raise ConfigError(
            "settings: layout: the model does not say it; give hwc (channels last) or chw "
            "(channels first)"
        )
    name: PresetName = settings.get("range") or "unit"
    preset = PRESETS[name]
    colours = settings.get("colours") or ("gray" if settings.get("channels") == 1 else "rgb")
    if colours == preset.pix_fmt:
        return {"output_layout": layout, "preset": name}
    mean, factor = set(preset.mean), set(preset.scale)
    if len(mean) > 1 or len(factor) > 1:
        raise ConfigError(
            f"settings: range: {name} has a value for each channel of {preset.pix_fmt}; expected "
            f"unit, raw or imagenet_tf for {colours}"
        )
    options = {"out_pix_fmt": colours, "output_layout": layout}
    if mean != {0.0}:
        options["mean"] = repr(preset.mean[0])
    if factor != {1.0}:
        options["standard_deviation_inverse"] = repr(preset.scale[0])
    return options
