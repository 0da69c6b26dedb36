#!/usr/bin/env python3
"""`peri serve --max-total-body-bytes`: what requests hold together, over HTTP and gRPC, as it came and as it was compressed."""
import gzip
import json
import os
import pathlib
import queue
import signal
import socket
import threading
import time
import zlib

import numpy
import tritonclient.grpc
from tritonclient.utils import InferenceServerException

from served import Served
from typed import main

ROWS = 250_000  # 4 MB
LIMIT = 32 << 20


def bomb(compress=None, rows=ROWS):
    """A right request of so many rows of zeros: its JSON, its body."""
    head = json.dumps({"inputs": [{"name": "x", "shape": [rows, 4], "datatype": "FP32", "parameters": {"binary_data_size": rows * 16}}],
                       "outputs": [{"name": "y", "parameters": {"binary_data": True}}]}).encode()
    return len(head), (compress or bytes)(head + bytes(rows * 16))


class Budget(Served):
    def setUp(self):
        super().setUp()
        self.put("add")

    def resident(self):
        return int(pathlib.Path(f"/proc/{self.server.pid}/statm").read_text().split()[1]) * 4096

    def post(self, head, body, **headers):
        return self.ask("POST", "/v2/models/add/infer", body, {"Inference-Header-Content-Length": str(head), **headers})

    def all_at_once(self, number, ask):
        """Asks while the worker stands, so that whatever is taken is held; what each was told. The worker goes on once the last has come."""
        worker, said = self.children()[0], queue.Queue()
        self.halt(worker)
        threads = [threading.Thread(target=lambda: said.put(ask())) for _ in range(number)]
        for t in threads:
            t.start()
        until, most = time.monotonic() + 120, 0
        while said.qsize() + self.metric("peri_open_requests ") < number and time.monotonic() < until:
            most = max(most, self.resident())
            time.sleep(0.005)
        os.kill(worker, signal.SIGCONT)
        for t in threads:
            t.join()
        return [said.get() for _ in range(number)], most

    def bombs(self, ask, refusals, packed=True):
        """Of 4 MB, packed in some kilobytes, of which at most eight fit beside the one that is at the worker; and again, when all is given back."""
        self.serve("--max-total-body-bytes", LIMIT, "--stuck-kill-secs", 0, "--canary-secs", 0, "--worker-memory-mib", 1024, "--http-threads", 4,
                   "--grpc-threads", 4)
        self.assertEqual(ask(), "answered")
        before = self.resident()
        for _ in range(2):
            said, most = self.all_at_once(24, ask)
            self.assertEqual(set(said) - {"answered", refusals}, set(), said)
            self.assertTrue(4 <= said.count("answered") <= 10, said)
            if packed:  # else the library of gRPC holds what has come before the server is asked
                self.assertLess(most - before, 2.5 * LIMIT, "what they hold, and what growing took for a moment")
        self.assertEqual(ask(), "answered")

    def test_bombs_over_http(self):
        for compress, name in ((gzip.compress, "gzip"), (zlib.compress, "deflate")):
            head, body = bomb(compress)
            self.assertLess(len(body), 20000)

            def ask():
                status, said, headers = self.post(head, body, **{"Content-Encoding": name})
                if status == 200:
                    at = int({k.lower(): v for k, v in headers.items()}["inference-header-content-length"])
                    return "answered" if (numpy.frombuffer(said[at:], numpy.float32) == 1).all() else "wrong"
                return f"{status} {headers.get('Retry-After')} {'--max-total-body-bytes' in said.decode()}"
            self.bombs(ask, "503 1 True")
            self.stop()

    def test_bombs_over_grpc(self):
        x = numpy.zeros((ROWS, 4), numpy.float32)
        for name in ("gzip", "deflate", None):
            def ask():
                with tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{self.grpc_port}") as c:
                    given = tritonclient.grpc.InferInput("x", x.shape, "FP32")
                    given.set_data_from_numpy(x)
                    try:
                        return "answered" if (c.infer("add", [given], compression_algorithm=name).as_numpy("y") == 1).all() else "wrong"
                    except InferenceServerException as e:
                        return f"{e.status()} {'--max-total-body-bytes' in e.message()}"
            self.bombs(ask, "StatusCode.RESOURCE_EXHAUSTED True", packed=name is not None)
            self.stop()

    def test_bodies_as_they_are(self):
        """By their length, and in chunks: 503 with a hint, and once the others are answered there is room again."""
        self.serve("--max-total-body-bytes", 10_000_000, "--canary-secs", 0)
        head, body = bomb()
        fields = b"POST /v2/models/add/infer HTTP/1.1\r\nHost: a\r\nInference-Header-Content-Length: %d\r\n" % head
        held = []
        for _ in range(2):  # 8 MB that are said to come
            held.append(socket.create_connection(("127.0.0.1", self.port)))
            held[-1].sendall(fields + b"Content-Length: %d\r\n\r\n" % len(body) + body[:1000])
        third = fields + b"Content-Length: %d\r\n\r\n" % len(body)
        said = self.wait_for(lambda: (s := self.raw(third)).startswith(b"HTTP/1.1 503") and s)
        self.assertIn(b"--max-total-body-bytes", said)
        self.assertIn(b"Retry-After: 1\r\n", said)
        chunk = b"10000\r\n" + body[:0x10000] + b"\r\n"
        said = self.raw(fields + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 100)
        self.assertTrue(said.startswith(b"HTTP/1.1 503"), said[:200])
        self.assertIn(b"--max-total-body-bytes", said)
        small = bomb(rows=10)
        self.assertEqual(self.post(*small)[0], 200, "a small one has room")
        for s in held:
            s.close()
        self.wait_for(lambda: self.post(head, body)[0] == 200)

    def all_taken(self, s):
        """Whether nothing that was sent lies in the kernel any more, on either side."""
        mine = s.getsockname()[1]
        rows = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
        ends = [{int(row[k].split(":")[1], 16) for k in (1, 2)} for row in rows]
        queues = [row[4] for row, ports in zip(rows, ends) if ports == {mine, self.port}]
        return len(queues) == 2 and set(queues) == {"00000000:00000000"}

    def test_memory_that_grows_in_chunks(self):
        """What a body in chunks has grown to is held, and not only what has come of it; where others leave less it grows by less."""
        self.serve("--max-total-body-bytes", 10_000_000, "--canary-secs", 0)
        head, body = bomb()  # 4 MB
        fields = b"POST /v2/models/add/infer HTTP/1.1\r\nHost: a\r\nInference-Header-Content-Length: %d\r\n" % head

        def chunks(data):
            return b"".join(b"%x\r\n" % len(data[k:k + 65536]) + data[k:k + 65536] + b"\r\n" for k in range(0, len(data), 65536))
        with socket.create_connection(("127.0.0.1", self.port)) as s:
            s.sendall(fields + b"Transfer-Encoding: chunked\r\n\r\n" + chunks(bytes(4_600_000)))  # in memory of 8 MB and more
            self.wait_for(lambda: self.all_taken(s))
            self.assertEqual(self.post(head, body)[0], 503)
        self.wait_for(lambda: self.post(head, body)[0] == 200)
        large_head, large = bomb(rows=600_000)  # 9.6 MB, more than the half of all
        first = fields.replace(b"%d\r\n" % head, b"%d\r\n" % large_head)
        end = b"0\r\n\r\n"
        self.assertEqual(self.raw(first + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks(large) + end)[9:12], b"200")
        middle_head, middle = bomb(rows=400_000)  # 6.4 MB, beside 3 MB of another
        first = fields.replace(b"%d\r\n" % head, b"%d\r\n" % middle_head)
        with socket.create_connection(("127.0.0.1", self.port)) as s:
            s.sendall(fields + b"Content-Length: 3000000\r\n\r\n" + body[:1000])
            self.wait_for(lambda: self.post(*bomb(rows=450_000))[0] == 503)
            self.assertEqual(self.raw(first + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks(middle) + end)[9:12], b"200")

    def test_a_body_that_never_fits(self):
        """Is told so once: no waiting makes room for it. By its length, in chunks, by what it expands to, over gRPC; one that fits has room."""
        self.serve("--max-total-body-bytes", 200_000)
        head, body = bomb(rows=20_000)  # 320 kB
        fields = b"POST /v2/models/add/infer HTTP/1.1\r\nHost: a\r\nInference-Header-Content-Length: %d\r\n" % head
        chunk = b"1000\r\n" + body[:0x1000] + b"\r\n"
        _, packed = bomb(gzip.compress, rows=20_000)
        for request in (fields + b"Content-Length: %d\r\n\r\n" % len(body), fields + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 60,
                        fields + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed) + packed):
            said = self.raw(request, wait=2)
            self.assertTrue(said.startswith(b"HTTP/1.1 413"), said[:300])
            self.assertIn(b"the body takes more memory than all requests together may hold (--max-total-body-bytes)", said)
            self.assertNotIn(b"Retry-After", said)
        for compress in (None, "gzip"):
            with tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{self.grpc_port}") as c:
                x = numpy.zeros((20_000, 4), numpy.float32)
                given = tritonclient.grpc.InferInput("x", x.shape, "FP32")
                given.set_data_from_numpy(x)
                with self.assertRaises(InferenceServerException) as caught:
                    c.infer("add", [given], compression_algorithm=compress)
                self.assertEqual(caught.exception.status(), "StatusCode.RESOURCE_EXHAUSTED")
                self.assertIn("the body takes more memory than all requests together may hold", caught.exception.message())
        small = bomb(rows=1000)
        self.assertEqual(self.post(*small)[0], 200)
        self.stop()
        said = self.ends(2, "serve", "--model-repository", self.repository, "--max-body-bytes", "2001", "--max-total-body-bytes", "2000")
        self.assertIn("--max-total-body-bytes is less than --max-body-bytes", said)
        self.serve("--max-total-body-bytes", 2000)
        body = json.dumps(self.rows([[1, 2, 3, 4]])).encode()
        said = self.raw(b"POST /v2/models/add/infer HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
        self.assertTrue(said.startswith(b"HTTP/1.1 200"), said[:300])

    def test_a_refusal_arrives(self):
        """Behind a body that is larger than all that is taken, however small that is."""
        self.serve("--max-body-bytes", 1024)
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", self.port), timeout=60) as s:
                s.sendall(b"POST /v2/models/add/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\n\r\n")
                for _ in range(9):
                    s.sendall(bytes(100_000))
                self.assertTrue(s.recv(4096).startswith(b"HTTP/1.1 413"))

    def test_a_reply_larger_than_all_of_it(self):
        """Goes by itself: nobody who waits would make it smaller."""
        self.serve("--max-total-body-bytes", 1_000_000)
        rows = 40_000
        request = {"inputs": [{"name": "x", "shape": [rows, 4], "datatype": "FP32", "parameters": {"binary_data_size": rows * 16}}],
                   "outputs": [{"name": "y", "parameters": {"binary_data": False}}]}
        head = json.dumps(request).encode()
        for _ in range(2):
            status, said, _ = self.post(len(head), head + numpy.full(rows * 4, 0.123456, numpy.float32).tobytes())
            self.assertEqual(status, 200, said[:200])
            self.assertGreater(len(said), 1_000_000)


if __name__ == "__main__":
    main()
