"""The first unit of ``mnist_http.toml``, which reads the image of a request."""

import base64
import binascii
import json

from modelflow import BadRequest, Buffer, Context, FlowUnit

_IMAGES = (b"\x89PNG", b"\xff\xd8", b"RIFF", b"BM", b"II*\0", b"MM\0*")


class DigitImage(FlowUnit):
    """Emits the bytes of an encoded image."""

    def process(self, ctx: Context) -> None:
        """Reads each body separately. A body without an image fails alone."""
        ctx.emit_each(_image)


def _image(buffer: Buffer) -> bytes:
    body = bytes(buffer)
    if body.startswith(_IMAGES):
        return body
    text = _field(body) if body.lstrip().startswith(b"{") else body
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        message = (
            f"got {len(body)} bytes that are no image and no base64 ({error}); expected an encoded "
            "image, base64, or JSON with image_base64"
        )
        raise BadRequest(message) from error


def _field(body: bytes) -> str:
    try:
        value = json.loads(body)
    except ValueError as error:
        message = f"got a body that begins as JSON and is none: {error}"
        raise BadRequest(message) from error
    text = value.get("image_base64")
    if not isinstance(text, str):
        message = f"got JSON with the keys {sorted(value)}; expected image_base64, a text"
        raise BadRequest(message)
    return text
