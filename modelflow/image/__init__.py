"""Images and boxes that flow units exchange, and the functions for image units of your own.

An image is a uint8 array with a format, the meta ``pix_fmt`` and ``layout``. Layout ``hwc`` is
packed (H, W, C), layout ``chw`` planar (C, H, W). An ``nv12`` image is (H * 3 / 2, W).
The format belongs to the array (`modelflow.pixels`). The unit that makes an array sets its format,
and the size follows from the array.

If your unit makes an array from one image, or from images of the same format, the array inherits
this format. The unit must set a format that differs (``cv2.cvtColor``), or the format of an array
from images of several formats. Use ``Buffer(array, {"pix_fmt": "rgb"})`` or ``like(image, array)``.

This package imports only NumPy. `opencv` imports OpenCV.
"""

from modelflow.image.box import Box, read_box, read_boxes, suppress
from modelflow.image.channel_scale import ChannelScale
from modelflow.image.color import PIX_FMTS, PixFmt, convert_color
from modelflow.image.encode import ENCODINGS, encode_image
from modelflow.image.fit import cut_image, fit_size, pad_image, spread_colour
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
from modelflow.image.smooth import resize_smoothly
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
    "cut_image",
    "empty_image",
    "encode_image",
    "fit_size",
    "image_of_pillow",
    "interpolation_flag",
    "is_pillow",
    "like",
    "opencv",
    "own_name",
    "pad_image",
    "pillow_image",
    "read_box",
    "read_boxes",
    "read_image",
    "read_labels",
    "resize_smoothly",
    "spread_colour",
    "suppress",
]
