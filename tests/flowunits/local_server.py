"""A real HTTP server of this machine."""

import threading
from http.server import ThreadingHTTPServer


class Quiet:
    """A mixin for handlers that disables the log."""

    def log_message(self, *args):
        pass


class LocalServer:
    """Answers with ``handler`` inside the block, on a thread of its own."""

    def __init__(self, handler):
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    @property
    def root(self):
        """Returns the server's address."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"
