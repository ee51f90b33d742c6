"""A camera: an RTSP server that sends a transport stream over TCP, and breaks connections off."""

import socketserver
import struct
import threading

# Bytes of one packet of RTP: seven packets of a transport stream.
_PART = 7 * 188
_TRANSPORT_STREAM = 33
_SDP = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=camera\r\nt=0 0\r\nm=video 0 RTP/AVP 33\r\n"


class RtspServer:
    """Serves a part of a video in each connection, and then ends the connection without a word."""

    def __init__(self, parts):
        self.parts = parts
        self.asked = 0
        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.camera = self
        self.address = f"rtsp://127.0.0.1:{self._server.server_address[1]}/live"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        while request := self.rfile.readline().decode():
            headers = dict(line.split(": ", 1) for line in iter(self.read_line, ""))
            method, body = request.split()[0], ""
            head = f"RTSP/1.0 200 OK\r\nCSeq: {headers['CSeq']}\r\nSession: 1\r\n"
            head += REPLIES.get(method, "")
            if method == "DESCRIBE":
                body = _SDP
                head += f"Content-Type: application/sdp\r\nContent-Length: {len(body)}\r\n"
            self.wfile.write(f"{head}\r\n{body}".encode())
            if method == "PLAY":
                return self.play()
        return None

    def read_line(self):
        return self.rfile.readline().decode().strip()

    def play(self):
        camera = self.server.camera
        data = dict(enumerate(camera.parts)).get(camera.asked, b"")
        camera.asked += 1
        for place in range(0, len(data), _PART):
            part = data[place : place + _PART]
            count = place // _PART
            head = struct.pack("!BBHII", 0x80, _TRANSPORT_STREAM, count, 3600 * count, 7)
            self.wfile.write(struct.pack("!cBH", b"$", 0, 12 + len(part)) + head + part)


REPLIES = {
    "OPTIONS": "Public: DESCRIBE, SETUP, PLAY, TEARDOWN\r\n",
    "SETUP": "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n",
}
