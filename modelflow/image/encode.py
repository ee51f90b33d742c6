"""Encodes images with OpenCV."""

from modelflow.image.color import convert_color
from modelflow.image.image import Image
from modelflow.image.opencv import opencv

ENCODINGS = ("jpeg", "jpg", "png", "webp", "bmp", "tiff", "tif")


def encode_image(image: Image, encoding: str, quality: int = 95) -> bytes:
    """Returns the bytes that ``cv2.imencode`` returns for an image.

    Args:
        image: The image, of any pixel format and layout.
        encoding: One of `ENCODINGS`.
        quality: 1..100, for JPEG and WebP.

    Raises:
        ValueError: the encoding is unknown, or cannot represent an image of that size.
    """
    if encoding not in ENCODINGS:
        raise ValueError(
            f"got the image encoding {encoding!r}; expected one of {', '.join(ENCODINGS)}"
        )
    cv2 = opencv()
    parameters = []
    if encoding in ("jpeg", "jpg"):
        parameters = [cv2.IMWRITE_JPEG_QUALITY, quality]
    elif encoding == "webp":
        parameters = [cv2.IMWRITE_WEBP_QUALITY, quality]
    pixels = convert_color(image, "gray" if image.pix_fmt == "gray" else "bgr", "hwc").data
    reason = "OpenCV gives no reason"
    is_encoded, encoded = False, None
    try:
        is_encoded, encoded = cv2.imencode(f".{encoding}", pixels, parameters)
    except cv2.error as error:
        reason = error.err
    if not is_encoded or encoded is None:
        raise ValueError(
            f"got an image of {image.width} x {image.height} pixels, which {encoding} cannot hold "
            f"({reason})"
        )
    return bytes(encoded)
