"""Computes the size of an image that is fitted into another size with its ratio kept."""


def fit_size(width: int, height: int, most: tuple[int, int]) -> tuple[int, int]:
    """Returns the largest size of the same ratio that fits into ``most``, in whole pixels.

    The limiting side is met exactly. The other side is rounded to the nearest pixel and is at least
    one. A half is rounded to the even number, as in Python and in most letterboxes. Example: 640 x
    427 into 224 x 224 is 224 x 149.

    Args:
        width: The width of the image.
        height: The height of the image.
        most: The width and height to fit into.
    """
    most_width, most_height = most
    # Compares in whole numbers, which finds the limiting side exactly.
    if width * most_height >= height * most_width:
        return most_width, max(1, round(height * most_width / width))
    return max(1, round(width * most_height / height)), most_height
