"""``httpserver_mjpeg``: shows the images of a running graph in the browser.

The reply is ``multipart/x-mixed-replace``, as cameras send it. Browsers, FFmpeg and OpenCV read it.
"""

from dataclasses import dataclass

from modelflow import FlowUnitSpec, Port, option
from modelflow.http import read_endpoint


@dataclass(frozen=True)
class HttpserverMjpegOptions:
    """The options of ``httpserver_mjpeg``."""

    endpoint: str = option(
        "http://127.0.0.1:8090",
        help="The address for viewers: http or https, host, port (0 for any free port) and path. "
        "Nodes with other paths may share the port. For viewers on other machines, use a network "
        "address of this machine, or 0.0.0.0.",
    )
    max_viewers: int = option(
        8, help="Most viewers at once; the next gets 503.", minimum=1, maximum=1000
    )
    quality: int = option(
        80, help="The quality of the JPEG images, 1..100.", minimum=1, maximum=100
    )
    cert: str = option("", help="The certificate (PEM), for https.", is_path=True)
    key: str = option("", help="The key of the certificate (PEM).", is_path=True)

    def __post_init__(self) -> None:
        """Checks the endpoint.

        Raises:
            ValueError: the endpoint is invalid.
        """
        read_endpoint(self.endpoint)


SPEC = FlowUnitSpec(
    name="httpserver_mjpeg",
    devices={"cpu": "flowunits.httpserver_mjpeg.cpu:HttpserverMjpeg"},
    inputs=(
        Port(
            "in_image",
            "uint8, (H, W, C) or planar (C, H, W), bgr, rgb, gray or nv12; or the bytes of a JPEG "
            "image",
        ),
    ),
    options=HttpserverMjpegOptions,
    description="Shows images in the browser, as a camera does. A slow viewer misses images.",
    group="Output",
    batch_size=1,
    threads=1,
    is_shared=True,
    requires={"httptools": "serve"},
    refuses_with=ValueError,
)
