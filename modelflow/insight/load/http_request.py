"""The URL of a server, and its requests as the bytes of HTTP/1.1."""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from modelflow.errors import ConfigError
from modelflow.files.unix_socket import NO_UNIX, is_unix

_SCHEMES = {"http": 80, "https": 443}
# Headers that are derived from the URL and the body, and that a caller may not set.
_OURS = ("host", "content-length", "transfer-encoding", "connection")


@dataclass(frozen=True, slots=True)
class HttpUrl:
    """The URL of a server, in parts.

    Attributes:
        text: The URL as given.
        host: The host name or address.
        port: The port as given, or the default port of the scheme.
        path: The path with the query; begins with a slash.
        authority: Host and port, as in the header ``Host``.
        is_tls: Whether the scheme is https.
    """

    text: str
    host: str
    port: int
    path: str
    authority: str
    is_tls: bool

    @classmethod
    def read(cls, text: str) -> "HttpUrl":
        """Parses a URL.

        Raises:
            ConfigError: The text is not a URL with the scheme http or https.
        """
        if is_unix(text):
            raise ConfigError(f"{text}: {NO_UNIX}")
        try:
            parts = urlsplit(text)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise ConfigError(f"{text}: is no URL: {error}") from error
        if parts.scheme not in _SCHEMES or not host or not text.isascii() or not text.isprintable():
            raise ConfigError(
                f"{text}: expected a URL in ASCII that begins with http:// or https://"
            )
        if parts.username is not None or " " in text:
            raise ConfigError(
                f"{text}: expected a URL without a user and blanks; for a user give a header"
            )
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        is_tls = parts.scheme == "https"
        return cls(text, host, port or _SCHEMES[parts.scheme], path, parts.netloc, is_tls)

    def context(self, ca: Path | None = None) -> ssl.SSLContext | None:
        """Returns the TLS context for connections, or None for http.

        Args:
            ca: A PEM file of certificates to trust in addition to the system's.

        Raises:
            ConfigError: The file cannot be read, or the scheme is not https.
        """
        if not self.is_tls:
            if ca is not None:
                raise ConfigError(f"{self.text}: expected https:// where certificates are given")
            return None
        context = ssl.create_default_context()
        if ca is not None:
            try:
                context.load_verify_locations(ca)
            except (OSError, ValueError) as error:  # `ssl.SSLError` is an OSError
                reason = error.strerror if isinstance(error, OSError) else error
                raise ConfigError(f"certificates {ca}: cannot be read: {reason}") from error
        return context


@dataclass(frozen=True, slots=True)
class HttpBody:
    """The body of a request.

    Attributes:
        data: The bytes of the body.
        content_type: The content type, or None for no such header.
    """

    data: bytes = b""
    content_type: str | None = None


def request_of(
    url: HttpUrl, body: HttpBody, method: str, headers: Sequence[tuple[str, str]] = ()
) -> bytes:
    """Returns the bytes of a request, headers and body.

    Args:
        url: The URL of the request.
        body: The body of the request.
        method: The HTTP method: POST, GET, ...
        headers: Further headers. A ``Content-Type`` here overrides the one of the body.

    Raises:
        ConfigError: The method or a header is not valid, or the header is derived from the URL and
            the body.
    """
    if not (method.isascii() and method.isalpha()) or method.upper() in ("HEAD", "CONNECT"):
        raise ConfigError(f"method: got {method!r}; expected POST, GET, PUT, PATCH or DELETE")
    lines = [f"{method.upper()} {url.path} HTTP/1.1", f"Host: {url.authority}"]
    given = set()
    for name, value in headers:
        _check(name, value)
        given.add(name.lower())
        lines.append(f"{name}: {value}")
    if body.content_type is not None and "content-type" not in given:
        lines.append(f"Content-Type: {body.content_type}")
    if body.data or method.upper() in ("POST", "PUT", "PATCH"):
        lines.append(f"Content-Length: {len(body.data)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body.data


def _check(name: str, value: str) -> None:
    is_name = bool(name) and name.isascii() and name.replace("-", "").replace("_", "").isalnum()
    is_value = all(
        ord(letter) < 256 and (letter.isprintable() or letter == "\t") for letter in value
    )
    if not is_name or not is_value:
        raise ConfigError(
            f"header {name}: {value!r}: expected a name of letters, digits and -, and a line"
        )
    if name.lower() in _OURS:
        raise ConfigError(f"header {name}: is made of the URL and the body, and cannot be given")
