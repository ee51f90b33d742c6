"""``packed_planar_transpose`` on CUDA."""

from modelflow import Context, FlowUnit
from modelflow.image.tensor import ImageBatch, convert_images, emit_images


class PackedPlanarTranspose(FlowUnit):
    """Moves the channels of the images of equal size in the batch together."""

    def process(self, ctx: Context) -> None:
        """Processes the batch."""
        emit_images(ctx, _transposed)


def _transposed(images: ImageBatch) -> ImageBatch:
    return convert_images(images, images.pix_fmt, "chw")
