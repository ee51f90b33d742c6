"""Servers on loopback, and a bucket."""

import contextlib
import threading

import pytest

from tests.serve.sources.web_servers import serving_files


@pytest.fixture
def place():
    with serving_files() as place:
        yield place


class Store:
    """A local S3 with the bucket ``models``, which counts its requests.

    Attributes:
        requests: Method, path and range of each request.
    """

    def __init__(self, client, address):
        self.client, self.address = client, address
        self.requests = []

    def put(self, key, data):
        self.client.put_object(Bucket="models", Key=key, Body=data)

    def count(self, path):
        """Returns the number of requests that read a whole file, or the same part again."""
        found = [one for one in self.requests if one[:2] == ("GET", path)]
        parts = [one[2] for one in found if one[2]]
        return len(found) - len(parts) + len(parts) - len(set(parts))


@contextlib.contextmanager
def serving_bucket():
    """Yields a `Store`, and a function that stops its server."""
    import boto3
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        def log(self, *_):
            pass

    backend = DomainDispatcherApplication(create_backend_app)
    requests = []

    def application(environment, start):
        method, path = environment["REQUEST_METHOD"], environment["PATH_INFO"]
        requests.append((method, path, environment.get("HTTP_RANGE", "")))
        return backend(environment, start)

    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=Quiet)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    stopped = threading.Event()

    def stop():
        if not stopped.is_set():
            stopped.set()
            server.shutdown()
            server.server_close()
            thread.join()

    address = f"http://127.0.0.1:{server.port}"
    keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret"}
    client = boto3.client("s3", endpoint_url=address, region_name="us-east-1", **keys)
    try:
        client.create_bucket(Bucket="models")
        store = Store(client, address)
        store.requests = requests
        yield store, stop
    finally:
        for key in (
            client.list_objects_v2(Bucket="models").get("Contents", ())
            if not stopped.is_set()
            else ()
        ):
            client.delete_object(Bucket="models", Key=key["Key"])
        if not stopped.is_set():
            client.delete_bucket(Bucket="models")
        client.close()
        stop()


@pytest.fixture
def bucket(monkeypatch):
    """The credentials and the address of the bucket are in the environment."""
    with serving_bucket() as (store, stop):
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        monkeypatch.setenv("AWS_ENDPOINT_URL", store.address)
        store.stop = stop
        yield store
