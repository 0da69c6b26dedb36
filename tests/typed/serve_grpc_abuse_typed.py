#!/usr/bin/env python3
"""The gRPC port among hostile clients: abuses of HTTP/2 in frames made by hand; good calls go on meanwhile, memory stays, and each ends."""
import concurrent.futures
import pathlib
import re
import socket
import struct
import threading
import time

import numpy
import tritonclient.grpc
from onnx import TensorProto, helper

from frames import CONTINUATION, DATA, END_HEADERS, GOAWAY, HEADERS, PING, PREFACE, PRIORITY, RESET, SETTINGS, WINDOW, call, field, frame, head
from served import Served
from typed import main


def all_abuses():
    """What is sent, by its name."""
    hello = PREFACE + frame(SETTINGS)
    small = b"\0" + struct.pack(">I", 5) + b"\x0a\x03add"
    big_window = frame(SETTINGS, payload=struct.pack(">HI", 4, 0x7fffffff))
    wide = b"\x0a\x04wide\x2a\x12\x0a\x01x\x12\x04FP32\x1a\x02\x01\x01\x3a\x04\0\0\0\0"
    wide = wide.replace(b"\x2a\x12", b"\x2a\x0d")
    wide = b"\0" + struct.pack(">I", len(wide)) + wide
    table = b"\x40\x01a\x7f\x81\x1e" + b"b" * 4000  # into the dynamic table, then named again and again
    return {
        "rapid reset": hello + b"".join(call(k, end=False) + frame(RESET, 0, k, bytes(4)) for k in range(1, 20001, 2)),
        "pings": hello + frame(PING, payload=bytes(8)) * 50_000,
        "settings": hello + frame(SETTINGS, payload=struct.pack(">HI", 4, 70000)) * 50_000,
        "continuations": hello + frame(HEADERS, 0, 1, head()) + frame(CONTINUATION, 0, 1, field("x", b"y" * 16000)) * 500,
        "header of megabytes": hello + frame(HEADERS, 0, 1, head()) + frame(CONTINUATION, 0, 1, table + b"\xbe" * 10000) + frame(CONTINUATION, END_HEADERS, 1, b"\xbe" * 16000),
        "priorities": hello + frame(PRIORITY, 0, 1, bytes(5)) * 50_000,
        "empty data": hello + call(1, end=False) + frame(DATA, 0, 1) * 50_000,
        "window updates": hello + frame(WINDOW, 0, 0, struct.pack(">I", 1)) * 50_000,
        "window overflow": hello + frame(WINDOW, 0, 0, struct.pack(">I", 0x7fffffff)) * 2,
        "window of nothing": PREFACE + frame(SETTINGS, payload=struct.pack(">HI", 4, 0)) + b"".join(call(k, wide) for k in range(1, 21, 2)),
        "windows never opened": PREFACE + big_window + b"".join(call(k, wide) for k in range(1, 21, 2)),
        "stream used twice": hello + call(3, small) + call(1, small) + call(3, small),
        "even stream": hello + call(2, small),
        "frame too long": hello + frame(DATA, 0, 1, b"", length=(1 << 24) - 1) + bytes(100_000),
        "message of 4 GB": hello + call(1, b"\0\xff\xff\xff\xff" + bytes(1000), end=False),
        "slow body": hello + call(1, b"\0\0\0\1\0", end=False),
        "no body": hello + b"".join(call(k, end=False) for k in range(1, 2001, 2)),
        "timeouts": hello + call(1, small, grpc_timeout="0n") + call(3, small, grpc_timeout="-5S") + call(5, small, grpc_timeout="99999999999H"),
        # The server is the one to reset, as the client errs in each stream (CVE-2025-8671).
        "made to reset by windows": hello + b"".join(call(k, small) + frame(WINDOW, 0, k, bytes(4)) for k in range(1, 10001, 2)),
        "made to reset by full windows": hello + b"".join(call(k, small) + frame(WINDOW, 0, k, b"\x7f\xff\xff\xff") * 2 for k in range(1, 10001, 2)),
        "made to reset by data": hello + b"".join(call(k, small) + frame(DATA, 0, k, b"more") for k in range(1, 10001, 2)),
        "made to reset by headers": hello + b"".join(call(k, small) + frame(HEADERS, END_HEADERS, k, head()) for k in range(1, 10001, 2)),
        "made to reset by priorities": hello + b"".join(call(k, end=False) + frame(PRIORITY, 0, k, struct.pack(">IB", k, 0)) for k in range(1, 10001, 2)),
        "endless varint": hello + frame(HEADERS, 0, 1, head() + b"\x7f" + b"\x80" * 16000) + frame(CONTINUATION, 0, 1, b"\x80" * 16000) * 500,
        "tables made and dropped": hello + b"".join(frame(HEADERS, END_HEADERS, k, b"\x20\x3f\xe1\x1f" + head() + table) + frame(RESET, 0, k, bytes(4)) for k in range(1, 4001, 2)),
        "tables named again and again": hello + frame(HEADERS, END_HEADERS, 1, b"\x20\x3f\xe1\x1f" * 4000 + head()),
        "table of 4 GB": hello + frame(HEADERS, END_HEADERS, 1, b"\x3f\xe0\xff\xff\xff\x0f" + head()),
        **{f"{name} of {n} bytes": hello + call(1, small, end=False) + frame(kind, 0, stream, bytes(n)) for name, kind, stream, n in
           (("ping", PING, 0, 7), ("ping", PING, 0, 9), ("reset", RESET, 1, 3), ("reset", RESET, 1, 5), ("settings", SETTINGS, 0, 5), ("settings", SETTINGS, 0, 7),
            ("window", WINDOW, 0, 3), ("window", WINDOW, 1, 5), ("priority", PRIORITY, 1, 4), ("goaway", GOAWAY, 0, 7))},
        "acknowledgement with a payload": hello + frame(SETTINGS, 1, 0, bytes(6)),
        "noise": bytes(k * 7 % 251 for k in range(100_000)),
        "HTTP/1": b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "half a preface": PREFACE[:10],
    }


class Abuse(Served):
    def setUp(self):
        super().setUp()
        self.put("add")
        value = helper.make_tensor_value_info
        zeros = helper.make_node("Expand", ["x", "shape"], ["y"])
        self.put("wide", graph=helper.make_graph([zeros], "g", [value("x", TensorProto.FLOAT, [1, 1])], [value("y", TensorProto.FLOAT, [1000, 1000])],
                                                 [helper.make_tensor("shape", TensorProto.INT64, [2], [1000, 1000])]))

    def send(self, data, seconds=10.0):
        """What comes back for bytes behind a preface until the server closes, or `seconds` pass. None: it did not close."""
        with socket.create_connection(("127.0.0.1", self.grpc_port), timeout=seconds) as s:
            out, until = b"", time.monotonic() + seconds
            try:
                for k in range(0, len(data), 65536):
                    s.sendall(data[k:k + 65536])
                while time.monotonic() < until:
                    piece = s.recv(65536)
                    if not piece:
                        return out
                    out += piece
            except (ConnectionResetError, BrokenPipeError):
                return out
            except TimeoutError:
                pass
            return None

    def resident(self):
        return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{self.server.pid}/status").read_text())[1]) << 10

    def test_abuses(self):
        self.serve("--request-timeout", 2, "--idle-timeout", 2, "--max-grpc-streams", 100, "--max-body-bytes", 1_000_000, "--max-total-body-bytes", 8_000_000)
        abuses = all_abuses()
        c = tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{self.grpc_port}")
        self.addCleanup(c.close)
        x = tritonclient.grpc.InferInput("x", [1, 4], "FP32")
        x.set_data_from_numpy(numpy.ones((1, 4), numpy.float32))
        good, wrong, over = [0], [], threading.Event()

        def ask():
            while not over.is_set():
                try:
                    if not (c.infer("add", [x], client_timeout=100).as_numpy("y") == 2).all():
                        wrong.append("another answer")
                except Exception as e:  # noqa: BLE001: whatever it is, the test says it
                    wrong.append(str(e))
                good[0] += 1
        asking = threading.Thread(target=ask)
        asking.start()
        before = self.resident()
        with concurrent.futures.ThreadPoolExecutor(len(abuses)) as pool:
            said = dict(zip(abuses, pool.map(lambda data: self.send(data, 100.0), abuses.values())))
        self.assertEqual([name for name, answer in said.items() if answer is None], [], "still open")
        count = good[0]
        self.wait_for(lambda: good[0] > count + 10)
        over.set()
        asking.join()
        self.assertEqual(sorted(set(wrong)), [])
        self.wait_for(lambda: self.resident() - before < 64 << 20)
        self.alive()
        self.assertIn("PASSED", self.stop())


if __name__ == "__main__":
    main()
