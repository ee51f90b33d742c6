"""The size that an image has where it is to fit into another one with its ratio kept."""


def fit_size(width: int, height: int, most: tuple[int, int]) -> tuple[int, int]:
    """Returns the largest size of the same ratio that fits into ``most``, in whole pixels.

    The side that limits is met exactly; the other is rounded to the nearest pixel (a half to the
    even one, as Python and most letterboxes do), and is one at least. 640 x 427 into 224 x 224 is
    224 x 149.

    Args:
        width: Of the image.
        height: Of the image.
        most: The width and height to fit into.
    """
    most_width, most_height = most
    if width * most_height >= height * most_width:  # in whole numbers: which side limits is exact
        return most_width, max(1, round(height * most_width / width))
    return max(1, round(width * most_height / height)), most_height
