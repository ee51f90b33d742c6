"""Servers on loopback that count their requests: files, a Hugging Face hub, a registry."""

import contextlib
import email.utils
import hashlib
import http.server
import json
import threading

TOKEN = "let-me-in"
TITLE = "org.opencontainers.image.title"
COMMIT = "c0ffee" * 6 + "c0ff"


class Place:
    """The answers of a server by path, and its requests.

    Attributes:
        answers: Path -> contents, or a function of the handler that returns status, headers and
            contents.
        requests: Method, path and headers of each request.
    """

    def __init__(self):
        self.answers = {}
        self.requests = []
        self.address = ""

    def count(self, path, method="GET"):
        return sum(one[:2] == (method, path) for one in self.requests)


def etag_of(data):
    return f'"{hashlib.sha256(data).hexdigest()[:16]}"'


@contextlib.contextmanager
def serving_files():
    """Yields a `Place` whose contents have an ETag."""
    place = Place()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            path = self.path.partition("?")[0]
            place.requests.append((self.command, path, dict(self.headers)))
            found = place.answers.get(path)
            if found is None:
                status, headers, data = 404, {}, b""
            elif callable(found):
                status, headers, data = found(self)
            else:
                status, headers, data = 200, {"ETag": etag_of(found)}, found
            if wanted := self.headers.get("If-Match"):
                status = status if wanted == headers.get("ETag") else 412
            self.send_response(status)
            for name, value in {"Content-Length": str(len(data)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        do_HEAD = do_GET  # noqa: N815 - the name of the standard library

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    place.address = f"127.0.0.1:{server.server_port}"
    try:
        yield place
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def dated(data, when=0.0):
    """Returns an answer with the time of the last change, and without an ETag."""
    return lambda _: (200, {"Last-Modified": email.utils.formatdate(when, usegmt=True)}, data)


def put_repository(place, files, name="org/digits", commit=COMMIT):
    """Serves files as the Hub does: an index with hashes, and each file of the commit."""
    siblings = [
        {
            "rfilename": path,
            "size": len(data),
            "blobId": hashlib.sha1(data).hexdigest(),
            **({"lfs": _pointer(data)} if path.endswith(".onnx") else {}),
        }
        for path, data in files.items()
    ]
    document = json.dumps({"id": name, "sha": commit, "siblings": siblings}).encode()

    def index(_):
        return 200, {"Content-Type": "application/json"}, document

    for path in ("", "/revision/main", f"/revision/{commit}"):
        place.answers[f"/api/models/{name}{path}"] = index
    for path, data in files.items():
        place.answers[f"/{name}/resolve/{commit}/{path}"] = data


def _pointer(data):
    return {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 100}


def put_artifact(place, layers, name="team/digits", tag="1", document=None):
    """Serves an artifact for readers with a token; returns the digest of its manifest."""

    def guarded(data, headers):
        def answer(handler):
            if handler.headers.get("Authorization") != f"Bearer {TOKEN}":
                realm = f"http://{place.address}/token"
                scope = f"repository:{name}:pull"
                challenge = f'Bearer realm="{realm}",service="here",scope="{scope}"'
                return 401, {"WWW-Authenticate": challenge}, b""
            return 200, headers, data

        return answer

    found = []
    for title, data in layers.items():
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        found.append({"digest": digest, "size": len(data), "annotations": {TITLE: title}})
        place.answers[f"/v2/{name}/blobs/{digest}"] = guarded(data, {})
    manifest = json.dumps(document or {"schemaVersion": 2, "layers": found}).encode()
    digest = f"sha256:{hashlib.sha256(manifest).hexdigest()}"
    headers = {"Docker-Content-Digest": digest}
    for reference in (tag, digest):
        place.answers[f"/v2/{name}/manifests/{reference}"] = guarded(manifest, headers)
    place.answers["/token"] = lambda _: (200, {}, json.dumps({"token": TOKEN}).encode())
    return digest
