"""What is sent to a server: a URL, and requests as the bytes of HTTP/1.1."""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from modelflow.errors import ConfigError

_SCHEMES = {"http": 80, "https": 443}
# What a request must have, and is made of the URL and the body.
_OURS = ("host", "content-length", "transfer-encoding", "connection")


@dataclass(frozen=True, slots=True)
class HttpUrl:
    """Where requests go.

    Attributes:
        text: As it was given.
        host: A name or an address.
        port: As given, or that of the scheme.
        path: With the query; begins with a slash.
        authority: Host and port as the header ``Host`` has them.
        is_tls: Its scheme is https.
    """

    text: str
    host: str
    port: int
    path: str
    authority: str
    is_tls: bool

    @classmethod
    def read(cls, text: str) -> "HttpUrl":
        """Reads a URL.

        Raises:
            ConfigError: it is none of http or https.
        """
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
        """Returns what connections are made with; None: without TLS.

        Args:
            ca: Certificates (PEM) that are trusted beside the system's.

        Raises:
            ConfigError: they cannot be read, or the URL is not of https.
        """
        if not self.is_tls:
            if ca is not None:
                raise ConfigError(f"{self.text}: expected https:// where certificates are given")
            return None
        context = ssl.create_default_context()
        if ca is not None:
            try:
                context.load_verify_locations(ca)
            except (OSError, ValueError) as error:  # OpenSSL's errors are an OSError
                reason = error.strerror if isinstance(error, OSError) else error
                raise ConfigError(f"certificates {ca}: cannot be read: {reason}") from error
        return context


@dataclass(frozen=True, slots=True)
class HttpBody:
    """What a request carries.

    Attributes:
        data: Its bytes.
        content_type: What they are; None: that is not said.
    """

    data: bytes = b""
    content_type: str | None = None


def request_of(
    url: HttpUrl, body: HttpBody, method: str, headers: Sequence[tuple[str, str]] = ()
) -> bytes:
    """Returns a request, head and body.

    Args:
        url: Where it goes.
        body: What it carries.
        method: POST, GET, ...
        headers: More of them; they win over the content type.

    Raises:
        ConfigError: the method or a header is none, or one that is not the caller's to set.
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
