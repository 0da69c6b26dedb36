"""Frames of HTTP/2 made by hand, for the tests of what no library would send."""
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RESET, SETTINGS, PING, GOAWAY, WINDOW, CONTINUATION = 0, 1, 2, 3, 4, 6, 7, 8, 9
END_STREAM, END_HEADERS = 1, 4


def frame(kind, flags=0, stream=0, payload=b"", length=None):
    return struct.pack(">I", len(payload) if length is None else length)[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def field(name, value):
    """A header as a literal without index."""
    def text(b):
        n = len(b)
        if n < 127:
            return bytes([n]) + b
        rest, out = n - 127, b"\x7f"
        while rest > 127:
            out += bytes([rest & 127 | 128])
            rest >>= 7
        return out + bytes([rest]) + b
    return b"\x00" + text(name.encode()) + text(value if isinstance(value, bytes) else value.encode())


def head(method="ModelInfer", **more):
    fields = {":method": "POST", ":scheme": "http", ":path": f"/inference.GRPCInferenceService/{method}", ":authority": "a",
              "content-type": "application/grpc", "te": "trailers", **{k.replace("_", "-"): v for k, v in more.items()}}
    return b"".join(field(k, v) for k, v in fields.items())


def call(stream, body=b"", end=True, **more):
    return frame(HEADERS, END_HEADERS, stream, head(**more)) + (frame(DATA, END_STREAM if end else 0, stream, body) if body or end else b"")


def message(body):
    """A message as gRPC frames it."""
    return b"\0" + struct.pack(">I", len(body)) + body
