r"""Parses forms with files, as browsers and ``curl -F`` send them (RFC 7578).

The body of ``curl -F image=@cat.jpg`` has one part and becomes ``{"image": b"\xff\xd8..."}``.
"""

from modelflow.wire.problem import Code, refuse

try:
    from python_multipart.exceptions import FormParserError
    from python_multipart.multipart import MultipartParser, parse_options_header
except ImportError:  # an extra: a client that sends a form gets an error
    MultipartParser = None

FORM_DATA = "multipart/form-data"
_MOST_FIELDS = 100
_LONGEST_TYPE = 1000  # bytes of the header; the time to parse it grows with the square


def fields_of(body: bytes, content_type: str) -> dict[str, bytes]:
    """Returns the contents of a form's fields by their names.

    Args:
        body: The whole body.
        content_type: The header, with the boundary.

    Raises:
        Problem: The body is no form or is truncated, or has more than 100 fields. Also raised for a
            field that occurs twice, has no name, or has a long head.
    """
    if MultipartParser is None:
        refuse(
            "this server reads no forms; it needs the package python-multipart", Code.UNIMPLEMENTED
        )
    if len(content_type) > _LONGEST_TYPE:
        refuse(f"form: a content type of {len(content_type)} bytes; at most {_LONGEST_TYPE}")
    boundary = parse_options_header(content_type)[1].get(b"boundary", b"")
    if not boundary:
        refuse(f"form: got the content type {content_type!r}; expected a boundary in it")
    form = _Form()
    try:
        parser = MultipartParser(boundary, {name: getattr(form, name) for name in _EVENTS})
        parser.write(body)
        parser.finalize()
    except FormParserError as error:
        refuse(f"form: {error}", cause=error)
    if not form.is_whole:
        refuse(f"form: {len(body)} bytes end before the last boundary")
    return form.fields


class _Form:
    """The form as parsed so far; the parser calls a method at each event."""

    def __init__(self) -> None:
        self.fields: dict[str, bytes] = {}
        self.is_whole = False
        self._headers: list[tuple[bytes, bytes]] = []
        self._name = self._value = b""
        self._parts: list[bytes] = []

    def on_part_begin(self) -> None:
        if len(self.fields) >= _MOST_FIELDS:
            refuse(f"form: got more than {_MOST_FIELDS} fields")
        self._headers, self._parts = [], []

    def on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def on_header_end(self) -> None:
        self._headers.append((self._name.lower(), self._value))
        self._name = self._value = b""

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        self._parts.append(data[start:end])

    def on_part_end(self) -> None:
        named = dict(self._headers).get(b"content-disposition", b"")
        name = parse_options_header(named)[1].get(b"name", b"").decode("utf-8", "replace")
        if not name or name in self.fields:
            what = f"the field {name!r} twice" if name else "a field without a name"
            refuse(f"form: got {what}; expected each input once")
        self.fields[name] = b"".join(self._parts)

    def on_end(self) -> None:
        self.is_whole = True


_EVENTS = [name for name in vars(_Form) if name.startswith("on_")]
