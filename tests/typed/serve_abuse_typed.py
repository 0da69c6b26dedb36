#!/usr/bin/env python3
"""`peri serve` among hostile clients: each is refused or cut off in bounded time and memory, and good requests go on meanwhile."""
import json
import pathlib
import random
import re
import socket
import threading
import time

from served import Served
from typed import main

GOOD = '{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]}]}'


def post(body=b"", *fields, path="/v2/models/add/infer", length=None):
    length = len(body) if length is None else length
    return b"\r\n".join([b"POST " + path.encode() + b" HTTP/1.1", b"Host: a", b"Content-Length: %d" % length, *fields, b"", b""]) + body


class Abuse(Served):
    def setUp(self):
        super().setUp()
        self.put("add")

    def status(self, said):
        return said.split(b" ", 2)[1].decode() if said.startswith(b"HTTP/1.1 ") else said[:40]

    def test_requests_that_are_none(self):
        self.serve("--max-header-bytes", 4096, "--max-body-bytes", 100000)
        many = b"GET /v2 HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n"
        for data, want in ((b"GET /v2 HTTP/1.1\r\nA: " + b"a" * 1_000_000 + b"\r\n\r\n", "431"), (many, "431"),
                           (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n", "431"), (b"GET /v2 HTTP/1.1\nHost: a\n\n", "400"),
                           (b"\x16\x03\x01\x02\x00", "400"), (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "400"),
                           (b"GET /v2 HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", "400"),
                           (post(b"", b"Content-Length: 7"), "400"), (post(b"", b"Transfer-Encoding: chunked"), "400"),
                           (post(length=10**15), "413"), (post(b"", b"Expect: 200-maybe"), "400"),
                           (b"POST /v2/models/add/infer HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", "400"),
                           (b"POST /v2/models/add/infer HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * 70000, "413"),
                           (b"POST /v2/models/add/infer HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + b"40000\r\n" + b"a" * 0x40000, "413")):
            said = self.raw(data)
            self.assertEqual(self.status(said), want, data[:80])
        self.alive()

    def test_host_and_empty_lines(self):
        """RFC 9112: one Host field, and line ends before a request are passed over, however they come."""
        self.serve()
        live = b"GET /v2/health/live HTTP/1.%d\r\n%bConnection: close\r\n\r\n"
        host = b"Host: a\r\n"
        for version, fields, want in ((1, b"", "400"), (1, host * 2, "400"), (0, host * 2, "400"), (0, b"", "200"), (1, host, "200")):
            said = self.raw(live % (version, fields))
            self.assertEqual(self.status(said), want, (version, fields))
            self.assertEqual(b"Host field" in said, want == "400", said)
        for lines in (b"\r\n", b"\r\n" * 3, b"\r\n" * 50_000):
            self.assertEqual(self.status(self.raw(lines + live % (1, host))), "200", len(lines))
        behind = post(GOOD.encode()) + b"\r\n" + post(GOOD.encode()) + b"\r\n" + live % (1, host)
        self.assertEqual(self.raw(behind).count(b"HTTP/1.1 200"), 3)
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as s:
            for byte in b"\r\n\r\n" + live % (1, host):
                s.sendall(bytes([byte]))
            self.assertTrue(s.recv(1000).startswith(b"HTTP/1.1 200"))
        self.assertEqual(self.status(self.raw(b"\r" + live % (1, host))), "400")
        self.alive()

    def test_bodies_that_are_none(self):
        self.serve()
        deep = '{"inputs":' + "[" * 100_000
        values = json.dumps({"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [[]] * 3_000_000}]})
        for body in ("", "null", deep, '{"inputs":' + '{"a":' * 100_000, values, '{"a":1,"a":2}', '{"inputs":[{"name":"\\ud800"}]}', '{"inputs":[1e999]}',
                     '{"inputs":[%s]}' % ",".join(['{"name":"x"}'] * 5000), GOOD.replace("[1,4]", "[4611686018427387904,4]"),
                     GOOD.replace("[1,4]", "[-1,4]"), GOOD.replace("[1,2,3,4]", "[nan]"), GOOD.replace("FP32", "a" * 100_000)):
            status, said = self.infer("add", body)
            self.assertEqual(status, 400, body[:100])
            self.assertLess(len(said["error"]), 1000)
        self.assertEqual(self.infer("add", GOOD)[0], 200)

    def test_slow_clients_are_cut_off(self):
        self.serve("--request-timeout", 1, "--idle-timeout", 1)
        open_sockets = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(60)]
        beginnings = [b"", b"G", b"POST /v2/models/add/infer HTTP/1.1\r\nHost: ", post(length=50) + b"{"]
        for k, s in enumerate(open_sockets):
            s.sendall(beginnings[k % 4])
        self.assertEqual(self.infer("add", GOOD)[0], 200)
        for s in open_sockets:
            s.settimeout(60)  # half of what the server gives by itself
            try:
                while s.recv(1000):
                    pass
            except ConnectionResetError:
                pass
            s.close()
        self.alive()

    def test_readers_that_do_not_read(self):
        self.serve("--max-body-bytes", 8 << 20)
        body = json.dumps({"inputs": [{"name": "x", "shape": [20000, 4], "datatype": "FP32", "data": [0.1] * 80000}]}).encode()
        held = []
        for _ in range(8):
            s = socket.create_connection(("127.0.0.1", self.port))
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.sendall(post(body))
            held.append(s)
        self.assertEqual(self.infer("add", GOOD)[0], 200)
        for s in held:
            s.close()
        self.wait_for(lambda: self.ask("GET", "/metrics", port=self.metrics_port)[1].decode().find("\nperi_open_requests 0\n") >= 0)
        self.alive()

    def test_clients_that_go_away(self):
        self.serve("--inline-us", 0)
        rng = random.Random(7)
        whole = post(GOOD.encode())

        def vanish(seed):
            mine = random.Random(seed)
            for _ in range(250):
                with socket.create_connection(("127.0.0.1", self.port)) as s:
                    s.sendall(whole * mine.randrange(1, 4) + whole[:mine.randrange(len(whole))])
                    if mine.random() < 0.5:
                        s.recv(mine.randrange(1, 300))
        threads = [threading.Thread(target=vanish, args=(rng.random(),)) for _ in range(4)]
        for t in threads:
            t.start()
        for _ in range(50):
            self.assertEqual(self.infer("add", GOOD)[0], 200)
        for t in threads:
            t.join()
        self.wait_for(lambda: self.ask("GET", "/metrics", port=self.metrics_port)[1].decode().find("\nperi_open_requests 0\n") >= 0)
        self.assertIn("PASSED", self.stop())

    def test_pipelines_and_pieces(self):
        """Answers come in the order of requests, each with its own, wherever a network cuts them and whatever is slower."""
        for flags in ((), ("--inline-us", 0)):
            self.serve(*flags)
            for pieces in (1, 3, 40):
                rng, sent = random.Random(pieces), b""
                for k in range(300):
                    body = GOOD.replace("[1,2,3,4]", f"[{k},{k},{k},{k}]").encode()
                    if k % 3 == 0:
                        chunks = b"".join(b"%x\r\n%s\r\n" % (len(c), c) for c in (body[:k], body[k:]) if c)
                        sent += b"POST /v2/models/add/infer HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
                    else:
                        sent += post(body, b"X: " + b"x" * rng.randrange(3000))
                sent += b"GET /v2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
                cuts = sorted(rng.randrange(len(sent)) for _ in range(pieces - 1))
                with socket.create_connection(("127.0.0.1", self.port), timeout=60) as s:
                    threading.Thread(target=lambda: [s.sendall(sent[a:b]) for a, b in zip([0, *cuts], [*cuts, len(sent)])]).start()
                    said = b""
                    while piece := s.recv(65536):
                        said += piece
                values = [int(float(v)) for v in re.findall(rb'"data":\[([0-9.]+),', said)]
                self.assertEqual(values, [k + 1 for k in range(300)], (flags, pieces))
            self.stop()
        self.serve()
        with socket.create_connection(("127.0.0.1", self.port)) as s:
            for byte in post(GOOD.encode(), b"Connection: close"):
                s.sendall(bytes([byte]))
            out = b""
            while piece := s.recv(65536):
                out += piece
        self.assertIn(b'"data":[2.0,3.0,4.0,5.0]', out)

    def test_connections_are_bounded(self):
        self.serve("--max-connections", 20)
        held = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(60)]
        time.sleep(0.3)
        for s in held:
            s.close()
        self.wait_for(lambda: self.raw(b"GET /v2/health/live HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").startswith(b"HTTP/1.1 200"))

    def test_memory_is_given_back(self):
        self.serve()
        body = json.dumps({"inputs": [{"name": "x", "shape": [100000, 4], "datatype": "FP32", "data": [0] * 400000}]})
        resident = []
        for _ in range(12):
            self.assertEqual(self.infer("add", body)[0], 200)
            resident.append(int(pathlib.Path(f"/proc/{self.server.pid}/statm").read_text().split()[1]) * 4096)
        self.assertLess(resident[-1] - resident[3], 16 << 20, resident)


if __name__ == "__main__":
    main()
