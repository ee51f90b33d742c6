"""What meta say of a payload beside its type, where a protocol's and a unit's views differ."""

__all__ = ["PAYLOAD_MARKS", "RAW", "TEXT"]

# The bytes are what somebody has written, and may be read as a text.
TEXT = "is_text"
# The array stands for its bytes: it is answered as these, not as numbers.
RAW = "is_raw"

PAYLOAD_MARKS = frozenset({RAW, TEXT})
