"""``draw_bbox`` on the CPU."""

from flowunits.draw_bbox import DrawBboxOptions
from modelflow import Buffer, Context, FlowUnit
from modelflow.image import Box, Image, opencv, read_boxes, read_image, read_labels

# OpenCV keeps coordinates in 16 bits plus a fraction, but a box may be far outside of the image.
_FAR = 32_000


class DrawBbox(FlowUnit):
    """Draws with OpenCV into the array of the image."""

    def open(self, config: DrawBboxOptions) -> None:
        """Reads the labels."""
        self._options = config
        values = config.colors
        self._colors = [values[at : at + 3] for at in range(0, len(values), 3)]
        self._labels = read_labels(config.labels) if config.labels else ()

    def process(self, ctx: Context) -> None:
        """Draws into each image separately."""
        ctx.emit_each(self._draw, "in_image", "in_region")

    def _draw(self, buffer: Buffer, region: Buffer) -> Buffer:
        image = read_image(buffer)
        if image.is_planar:
            raise ValueError(
                "in_image: got layout 'chw'; expected 'hwc'; put draw_bbox before the "
                "packed_planar_transpose"
            )
        for box in read_boxes(region.data):
            self._draw_box(image, box)
        return image.to_buffer()

    def _draw_box(self, image: Image, box: Box) -> None:
        cv2 = opencv()
        color = self._colors[box.class_id % len(self._colors)]
        left, top = _near(box.x), _near(box.y)
        corner = (_near(box.x + box.w), _near(box.y + box.h))
        cv2.rectangle(image.data, (left, top), corner, color, self._options.thickness)
        scale = self._options.font_scale
        if scale:
            text = f"{self._name(box)} {box.score:.2f}"
            baseline = max(top - self._options.thickness, round(24 * scale))
            cv2.putText(
                image.data, text, (left, baseline), cv2.FONT_HERSHEY_SIMPLEX, scale, color, 2
            )

    def _name(self, box: Box) -> str:
        if 0 <= box.class_id < len(self._labels) and not box.label:
            return self._labels[box.class_id]
        return box.label or str(box.class_id)


def _near(value: float) -> int:
    return int(min(max(value, -_FAR), _FAR))
