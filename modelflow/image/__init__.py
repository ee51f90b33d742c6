"""Images and boxes as flow units pass them: what image units of your own build on.

An image is a uint8 array and its format, the meta ``pix_fmt`` and ``layout``: packed (H, W, C)
under layout ``hwc``, planar (C, H, W) under ``chw``; ``nv12`` is (H * 3 / 2, W). The format belongs
to the array (`modelflow.pixels`): the unit that makes an array sets it, sizes are read from
the array. An array that a unit of yours makes of one image, or of several of one format, has
theirs; where it has another one (``cv2.cvtColor``), or is made of images of several, the unit says
so: ``Buffer(array, {"pix_fmt": "rgb"})``, or ``like(image, array)``.

Importing this package loads NumPy alone; OpenCV is loaded by `opencv`.
"""

from modelflow.image.box import Box, read_box, read_boxes, suppress
from modelflow.image.channel_scale import ChannelScale
from modelflow.image.color import PIX_FMTS, PixFmt, convert_color
from modelflow.image.encode import ENCODINGS, encode_image
from modelflow.image.fit import fit_size
from modelflow.image.image import Image, empty_image, image_of_pillow, like, read_image
from modelflow.image.labels import read_labels
from modelflow.image.opencv import (
    INTERPOLATION_HELP,
    Interpolation,
    interpolation_flag,
    opencv,
    own_name,
)
from modelflow.image.presets import PRESETS, Preset, PresetName
from modelflow.image.smooth import smoothly_resized
from modelflow.pixels import FILTERS, UNREADABLE, is_pillow, pillow_image

__all__ = [
    "ENCODINGS",
    "FILTERS",
    "INTERPOLATION_HELP",
    "PIX_FMTS",
    "PRESETS",
    "UNREADABLE",
    "Box",
    "ChannelScale",
    "Image",
    "Interpolation",
    "PixFmt",
    "Preset",
    "PresetName",
    "convert_color",
    "empty_image",
    "encode_image",
    "fit_size",
    "image_of_pillow",
    "interpolation_flag",
    "is_pillow",
    "like",
    "opencv",
    "own_name",
    "pillow_image",
    "read_box",
    "read_boxes",
    "read_image",
    "read_labels",
    "smoothly_resized",
    "suppress",
]
