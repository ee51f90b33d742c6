"""Certificates made for a test, and clients that trust them."""

import datetime
import ssl
from dataclasses import dataclass
from pathlib import Path

import trustme

from modelflow.http.options import TlsOptions

HOST = "127.0.0.1"


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as files."""

    cert: Path
    key: Path


class Authority:
    """A certificate authority with a folder for its certificates."""

    def __init__(self, folder):
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self._ca = trustme.CA()
        self.path = folder / "ca.pem"
        self._ca.cert_pem.write_to_path(self.path)

    def issue(self, name="server", *, days=1, **more):
        """Returns a pair that is valid from two days ago for so many days from now."""
        now = datetime.datetime.now(datetime.UTC)
        issued = self._ca.issue_cert(
            HOST,
            "localhost",
            not_before=now - datetime.timedelta(days=2),
            not_after=now + datetime.timedelta(days=days),
            **more,
        )
        pair = Pair(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        pair.cert.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        pair.key.write_bytes(issued.private_key_pem.bytes())
        return pair

    def options(self, *, is_mutual=False):
        pair = self.issue()
        return TlsOptions(pair.cert, pair.key, self.path if is_mutual else None)

    def client(self, pair=None):
        """Returns the TLS context of a client: the trusted authority, and the certificate."""
        context = ssl.create_default_context(cafile=self.path)
        if pair is not None:
            context.load_cert_chain(pair.cert, pair.key)
        return context
