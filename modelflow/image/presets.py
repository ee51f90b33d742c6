"""Preprocessing of images for known models, under the names that their makers use.

There are three conventions, for values of 0 to 255. Sources are ``preprocess_input`` in
``imagenet_utils`` of `keras.applications`, and torchvision's ``transforms.Normalize`` after
``ToTensor``.

- ``imagenet_torch``: RGB, (x / 255 - mean) / standard deviation of ImageNet.
- ``imagenet_caffe``: BGR, minus the mean of ImageNet, without scaling.
- ``imagenet_tf``: RGB, x / 127.5 - 1.

Keras also uses names of models. Models that scale their input themselves have the preset ``raw``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

PresetName = Literal[
    "imagenet_torch",
    "imagenet_caffe",
    "imagenet_tf",
    "raw",
    "unit",
    "clip",
    "convnext",
    "densenet",
    "efficientnet",
    "efficientnet_v2",
    "inception_resnet_v2",
    "inception_v3",
    "mobilenet",
    "mobilenet_v2",
    "mobilenet_v3",
    "nasnet",
    "resnet",
    "resnet50",
    "resnet_v2",
    "vgg16",
    "vgg19",
    "xception",
]


@dataclass(frozen=True)
class Preset:
    """The conversion of an image to model input: the order of colours, then ``(x - mean) * scale``.

    Attributes:
        pix_fmt: ``rgb``, ``bgr`` or ``gray``. None keeps the format of the image.
        mean, scale: A value for each channel in that order, or one value for all channels.
    """

    pix_fmt: str | None
    mean: Sequence[float]
    scale: Sequence[float]


def _of_ones(mean: Sequence[float], deviation: Sequence[float]) -> Preset:
    """Returns the preset for a mean and a standard deviation of values from 0 to 1."""
    return Preset(
        "rgb",
        tuple(255.0 * value for value in mean),
        tuple(1.0 / (255.0 * value) for value in deviation),
    )


_TORCH = _of_ones((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_CAFFE = Preset("bgr", (103.939, 116.779, 123.68), (1.0,))
_TF = Preset("rgb", (127.5,), (1 / 127.5,))
_RAW = Preset("rgb", (0.0,), (1.0,))

PRESETS: Mapping[PresetName, Preset] = MappingProxyType(
    {
        "imagenet_torch": _TORCH,
        "imagenet_caffe": _CAFFE,
        "imagenet_tf": _TF,
        "raw": _RAW,
        "unit": _of_ones((0.0,), (1.0,)),  # 0 to 1, the result of ToTensor alone
        # OpenAI's CLIP, and models derived from it.
        "clip": _of_ones((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
        "convnext": _RAW,
        "densenet": _TORCH,
        "efficientnet": _RAW,
        "efficientnet_v2": _RAW,
        "inception_resnet_v2": _TF,
        "inception_v3": _TF,
        "mobilenet": _TF,
        "mobilenet_v2": _TF,
        "mobilenet_v3": _RAW,
        "nasnet": _TF,
        "resnet": _CAFFE,
        "resnet50": _CAFFE,
        "resnet_v2": _TF,
        "vgg16": _CAFFE,
        "vgg19": _CAFFE,
        "xception": _TF,
    }
)
"""The presets by name. The first names are conventions, the others Keras's modules and models."""
