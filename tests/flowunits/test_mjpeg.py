"""``httpserver_mjpeg`` with several viewers: FFmpeg, a browser and plain sockets."""

import contextlib
import http.client
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import av
import cv2
import numpy as np
import pytest

import modelflow
from tests.browser import browsing, needs_browser
from tests.flowunits.http_service import free_port
from tests.programs import LIMIT

GRAPH = """digraph show {{
    image [type=input]
    show [flowunit=httpserver_mjpeg, endpoint="{address}"{options}]
    other [flowunit=tell]
    told [type=output]
    image -> show
    image -> other -> told
}}"""


@modelflow.flowunit
def tell(image):
    """Shows that the rest of the graph has seen an image."""
    return True


class Show:
    """A graph that shows the images that `send` sends."""

    def __init__(self, options=""):
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}/camera"
        text = GRAPH.format(address=self.address, options=options)
        self.flow = modelflow.Flow(text, units=[tell])

    def __enter__(self):
        self.flow.start()
        self.stream = self.flow.create_stream_io()
        return self

    def __exit__(self, *_):
        self.flow.stop()

    def send(self, *images):
        """Sends images, and returns when the graph has passed them on."""
        for image in images:
            self.stream.send("image", image)
            assert self.stream.recv(timeout=LIMIT).data

    def wait_for_viewers(self, count):
        while self.counts()["came"] < count:
            threading.Event().wait(0.01)

    def counts(self):
        return self.flow.stats()["show"].figures["viewers"]

    def connect(self):
        """Returns a socket that has asked for the images and has read nothing."""
        viewer = socket.create_connection(("127.0.0.1", self.port), LIMIT)
        viewer.sendall(b"GET /camera HTTP/1.1\r\nHost: x\r\n\r\n")
        return viewer


def grey(number):
    return np.full((48, 64, 3), 10 * number, np.uint8)


def read_numbers(address, last):
    """Reads images with FFmpeg up to number ``last``; returns the numbers."""
    numbers = []
    with av.open(address, format="mpjpeg", timeout=LIMIT) as container:
        for frame in container.decode(video=0):
            numbers.append(round(frame.to_ndarray(format="gray").mean() / 10))
            if numbers[-1] == last:
                return numbers
    raise AssertionError(f"the images end after {numbers}")


def test_every_viewer_sees_the_images_in_order_up_to_the_last():
    with Show() as show, ThreadPoolExecutor(3) as viewers:
        show.send(grey(1))
        found = [viewers.submit(read_numbers, show.address, 20) for _ in range(3)]
        show.wait_for_viewers(3)
        show.send(*(grey(number) for number in range(2, 21)))
        while not all(viewer.done() for viewer in found):
            show.send(grey(20))
        for viewer in found:
            numbers = viewer.result()
            assert numbers == sorted(numbers)
            assert (numbers[0], numbers[-1]) == (1, 20)


def read_jpegs(file):
    """Yields the images of a reply, by the lengths in its parts."""
    while line := file.readline():
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
            assert file.readline() == b"\r\n"
            yield file.read(length)


def open_reply(viewer):
    reply = http.client.HTTPResponse(viewer)
    reply.begin()
    return reply


def test_a_viewer_gets_the_newest_image_when_it_comes_and_the_bytes_of_a_jpeg_as_they_are():
    jpeg = cv2.imencode(".jpg", grey(3))[1].tobytes()
    with Show() as show:
        show.send(grey(1), jpeg)
        with contextlib.closing(show.connect()) as viewer:
            reply = open_reply(viewer)
            assert reply.getheader("content-type").startswith("multipart/x-mixed-replace")
            jpegs = read_jpegs(reply)
            found = [next(jpegs)]
            while found[-1] != jpeg:  # the graph may be a little behind
                found.append(next(jpegs))
            assert len(found) <= 3


def test_a_slow_viewer_misses_images_and_holds_neither_the_graph_nor_other_viewers():
    numbers = np.random.default_rng(1)
    images = [numbers.integers(0, 255, (480, 640, 3), np.uint8) for _ in range(40)]
    right = cv2.imencode(".jpg", images[-1], [cv2.IMWRITE_JPEG_QUALITY, 80])[1].tobytes()
    with Show() as show, contextlib.ExitStack() as ends:
        show.send(images[0])
        slow, quick = (ends.enter_context(contextlib.closing(show.connect())) for _ in range(2))
        jpegs = read_jpegs(open_reply(quick))
        next(jpegs)
        show.send(*images[1:])  # returns although one viewer reads nothing
        while next(jpegs) != right:
            pass
        assert show.counts()["missed"] > 0
        found = []
        for jpeg in read_jpegs(open_reply(slow)):
            found.append(jpeg)
            if jpeg == right:  # the newest, although the viewer was away
                break
        assert len(found) < len(images)


def test_there_are_only_so_many_viewers_until_one_leaves():
    with Show(", max_viewers=1") as show:
        show.send(grey(1))
        viewer = show.connect()
        assert next(read_jpegs(open_reply(viewer)))
        for _ in range(3):
            with contextlib.closing(show.connect()) as other:
                assert open_reply(other).status == 503
        viewer.close()
        status = 503
        while status == 503:  # the server sees a moment later that the viewer has left
            with contextlib.closing(show.connect()) as other:
                status = open_reply(other).status
        assert status == 200


def test_the_end_of_the_flow_ends_viewers_that_read_and_viewers_that_do_not():
    noise = np.random.default_rng(1).integers(0, 255, (480, 640, 3), np.uint8)
    with Show() as show:
        show.send(noise)
        viewers = [show.connect() for _ in range(2)]
        jpegs = read_jpegs(open_reply(viewers[0]))
        assert next(jpegs)
        show.wait_for_viewers(2)
    with pytest.raises((StopIteration, ConnectionError)):
        while True:
            next(jpegs)
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", show.port), LIMIT)
    for viewer in viewers:
        viewer.close()


def test_data_that_is_no_image_is_an_error_of_its_own():
    text = GRAPH.format(address="http://127.0.0.1:0", options="")
    with modelflow.Flow(text, units=[tell]) as flow:
        stream = flow.create_stream_io()
        for data in (b"no image", np.zeros((2, 70_000, 3), np.uint8), grey(1)):
            stream.send("image", data)
        stream.close_input()
        assert len(list(stream)) == 3
    assert flow.stats()["show"].errors == 2


def test_a_path_that_another_node_serves_and_an_address_without_scheme_are_mistakes():
    two = """digraph two {
        image [type=input]
        a [flowunit=httpserver_mjpeg, endpoint="http://127.0.0.1:%d/a"]
        b [flowunit=httpserver_mjpeg, endpoint="http://127.0.0.1:%d/%s"]
        image -> a
        image -> b
    }"""
    port = free_port()
    with modelflow.Flow(two % (port, port, "b")):
        pass
    with pytest.raises(modelflow.FlowFailed) as failed, modelflow.Flow(two % (port, port, "a")):
        pass
    assert "another node of this process listens there" in str(failed.value.exceptions)
    with pytest.raises(modelflow.GraphError, match="expected http://HOST:PORT/PATH"):
        modelflow.Flow(two.replace("http://", "") % (port, port, "b"))


@needs_browser
def test_a_browser_shows_the_images():
    with Show() as show:
        show.send(grey(5))
        with browsing() as browser:
            browser.page.goto(show.address, wait_until="commit")  # the page never ends
            size = """
                const image = document.querySelector("img");
                return image && image.naturalWidth && [image.naturalWidth, image.naturalHeight];
            """
            assert browser.until(size) == [64, 48]
