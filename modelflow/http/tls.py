"""Certificate and key of a server: read, and tried on each other, before anything listens."""

import ssl
from dataclasses import dataclass
from pathlib import Path

from modelflow.errors import ConfigError

__all__ = ["TlsOptions", "context_of", "server_context"]


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """What a server speaks TLS with.

    Attributes:
        cert: The certificate (PEM), with those between it and the root: both protocols speak TLS.
        key: Its key (PEM).
        client_ca: Whoever connects must show a certificate that one of these (PEM) has signed.
    """

    cert: Path
    key: Path
    client_ca: Path | None = None


def server_context(options: TlsOptions, protocol: str = "http/1.1") -> ssl.SSLContext:
    """Returns what a server takes connections with.

    Args:
        options: Certificate and key.
        protocol: What is spoken, as clients are told (ALPN): ``http/1.1``, ``h2``.

    Raises:
        ConfigError: a file cannot be read, or the certificate is not valid today.
    """
    context = _loaded(options)
    _try(context, options)
    if options.client_ca is not None:
        try:
            context.load_verify_locations(options.client_ca)
        except (OSError, ValueError) as error:  # OpenSSL's errors are an OSError
            raise ConfigError(_unread("client CA", options.client_ca, error)) from error
        context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols([protocol])
    return context


def context_of(cert: str | Path, key: str | Path | None) -> ssl.SSLContext:
    """Returns a context with a certificate and its key.

    Args:
        cert: The file with the certificate.
        key: The file with the key; None: it is in the same file.

    Raises:
        OSError, ValueError: they cannot be read, or do not belong together.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key, password=_no_passphrase)
    return context


def _loaded(options: TlsOptions) -> ssl.SSLContext:
    # One after the other, as OpenSSL's errors name no file.
    for what, path, mark in (
        ("certificate", options.cert, b"CERTIFICATE-----"),
        ("key", options.key, b"PRIVATE KEY-----"),
    ):
        try:
            text = path.read_bytes()
        except OSError as error:
            raise ConfigError(_unread(what, path, error)) from error
        if b"-----BEGIN " not in text or mark not in text:
            message = f"TLS {what} {path}: there is none in it; expected one as PEM text"
            raise ConfigError(message)
    try:
        return context_of(options.cert, options.key)
    except (OSError, ValueError) as error:
        if getattr(error, "reason", "") == "KEY_VALUES_MISMATCH":
            message = (
                f"TLS key {options.key}: it is not the key of the certificate {options.cert}; "
                "expected the one that the certificate was made with"
            )
            raise ConfigError(message) from error
        raise ConfigError(_unread("certificate", options.cert, error, options.key)) from error


def _try(server: ssl.SSLContext, options: TlsOptions) -> None:
    """Shakes hands in memory, as a client would that trusts the certificate as such.

    What every client would refuse (it has expired, it is not valid yet) is found so.
    """
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # it need not go back to a root
    client.load_verify_locations(options.cert)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(to_client, to_server),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    try:
        while sum(_is_done(end) for end in ends) < len(ends):
            pass  # each has answered what the other had said
    except ssl.SSLCertVerificationError as error:
        message = (
            f"TLS certificate {options.cert}: {error.verify_message}; expected one that is valid "
            "today (openssl x509 -noout -dates -in FILE)"
        )
        raise ConfigError(message) from error
    except ssl.SSLError as error:
        raise ConfigError(_unread("certificate", options.cert, error, options.key)) from error


def _is_done(end: ssl.SSLObject) -> bool:
    try:
        end.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def _no_passphrase() -> str:
    """What OpenSSL asks for: else it would wait at the terminal."""
    message = "the key has a passphrase; expected one without (openssl pkey -in FILE -out FILE)"
    raise ValueError(message)


def _unread(what: str, path: Path, error: Exception, key: Path | None = None) -> str:
    beside = "" if key is None else f" with the key {key}"
    reason = getattr(error, "strerror", None) or str(error)
    return f"TLS {what} {path}{beside}: cannot be used: {reason}"
