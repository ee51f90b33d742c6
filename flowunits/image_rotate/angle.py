"""Reads the angle from the meta of a buffer."""

from modelflow import Buffer

__all__ = ["angle_of"]


def angle_of(buffer: Buffer) -> int:
    """Returns the meta ``rotate_angle``: 0, 90, 180 or 270.

    Raises:
        ValueError: the meta is missing, or is no multiple of 90.
    """
    angle = buffer.get("rotate_angle")
    if isinstance(angle, bool) or not isinstance(angle, int) or angle % 90:
        found = "no meta 'rotate_angle'" if angle is None else f"the meta rotate_angle={angle!r}"
        raise ValueError(
            f"in_image: got {found}; expected a multiple of 90, or the option rotate_angle"
        )
    return angle % 360
