"""The key of a request in the response cache: a hash of its inputs, with types and shapes."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

_KEY_BYTES = 20


def hash_inputs(
    signature: str, items: Mapping[str, Sequence[Any]], parameters: Mapping[str, Any] | None
) -> bytes:
    """Returns the key of a request.

    Args:
        signature: The name of the signature.
        items: The items of each input: arrays, bytes, texts, or JSON values.
        parameters: The parameters that units read, if any.
    """
    found = blake2b(repr((signature, parameters)).encode(), digest_size=_KEY_BYTES)
    for name, column in items.items():
        found.update(f"{name!r} {len(column)}".encode())
        for item in column:
            if isinstance(item, np.ndarray | np.generic) and item.dtype != object:
                array = np.ascontiguousarray(item)
                found.update(f"{array.dtype}{item.shape}".encode())
                # as bytes, because bfloat16 has no buffer of its own
                found.update(array.view(np.uint8).data if array.size else b"")
            elif isinstance(item, bytes):
                found.update(b"b%d " % len(item))
                found.update(item)
            else:
                text = (
                    repr(item.tolist()) if isinstance(item, np.ndarray) else repr(item)
                ).encode()
                found.update(b"r%d " % len(text))
                found.update(text)
    return found.digest()
