#!/usr/bin/env python3
"""`peri serve` over HTTP and inputs that parsers elsewhere fell over: encodings within encodings, doubled fields, odd numbers and names, ends at every byte,
readers that never read, one connection too many, noise on its own ports."""
import http.client
import json
import pathlib
import random
import re
import socket
import struct
import subprocess
import zlib

from onnx import TensorProto, helper

from served import Served
from typed import main

GOOD = b'{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]}]}'
INFER = b"/v2/models/add/infer"


def request(body, *fields, path=INFER, sized=True):
    lines = [b"POST " + path + b" HTTP/1.1", b"Host: a", *([b"Content-Length: %d" % len(body)] if sized else []), *fields]
    return b"\r\n".join([*lines, b"", b""]) + body


class Hostile(Served):
    def setUp(self):
        super().setUp()
        self.put("add")

    def status(self, said):
        return int(said.split(b" ", 2)[1]) if said.startswith(b"HTTP/1.1 ") else said[:40]

    def resident(self, pid=None):
        return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid or self.server.pid}/status").read_text())[1]) << 10

    def open_to(self, port, *socket_options, unix=None):
        s = socket.socket(socket.AF_UNIX if unix else socket.AF_INET)
        self.addCleanup(s.close)
        for option in socket_options:
            s.setsockopt(socket.SOL_SOCKET, *option)
        s.settimeout(60)
        s.connect(str(unix) if unix else ("127.0.0.1", port))
        return s

    def heard(self, s):
        """What comes until the other side closes."""
        out = b""
        try:
            while piece := s.recv(65536):
                out += piece
        except ConnectionResetError:
            pass
        return out

    def test_encodings_within_encodings(self):
        """Known ones are taken once and by themselves; of a body whose end is not known nothing is read as another request."""
        self.serve()
        packed = zlib.compress(GOOD, wbits=31)
        close, chunks = b"Connection: close", b"%x\r\n%s\r\n0\r\n\r\n"
        self.assertEqual(self.status(self.raw(request(packed, b"Content-Encoding: gzip", close))), 200)
        for fields in ((b"Content-Encoding: gzip, gzip",), (b"Content-Encoding: gzip", b"Content-Encoding: gzip"), (b"Content-Encoding: gzip", b"Content-Encoding: identity"),
                       (b"Content-Encoding: identity", b"Content-Encoding: gzip"), (b"Content-Encoding: gzip gzip",), (b"Content-Encoding: x-gzip;q=1",)):
            for body in (packed, zlib.compress(packed, wbits=31), GOOD):
                self.assertEqual(self.status(self.raw(request(body, *fields, close))), 415, fields)
        inner = b"GET /v2/models/add/config HTTP/1.1\r\nHost: a\r\n\r\n"
        for fields in ((b"Transfer-Encoding: gzip, chunked",), (b"Transfer-Encoding: gzip",), (b"Transfer-Encoding: identity",), (b"Transfer-Encoding: chunked, gzip",),
                       (b"Transfer-Encoding: chunked, chunked",), (b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"),
                       (b"Transfer-Encoding: gzip", b"Transfer-Encoding: chunked"), (b"Transfer-Encoding: xchunked",), (b"Transfer-Encoding:",)):
            for body in (chunks % (len(packed), packed), inner):
                said = self.raw(request(body, *fields, sized=False))
                self.assertEqual((self.status(said), len(re.findall(rb"HTTP/1.1 \d", said))), (400, 1), fields)
        self.assertEqual(self.status(self.raw(request(chunks % (len(GOOD), GOOD), b"transfer-encoding:  Chunked ", close, sized=False))), 200)
        self.alive()

    def test_fields_given_twice_and_numbers_at_their_ends(self):
        self.serve()
        head, close = b"Inference-Header-Content-Length: ", b"Connection: close"
        for fields in ((head + b"74", head + b"74"), (head + b"74", head + b"0"), (head + b"-1",), (head + b"18446744073709551616",), (head + b"74 ",) * 2):
            self.assertEqual(self.status(self.raw(request(GOOD, *fields, close))), 400, fields)
        self.assertEqual(self.status(self.raw(request(GOOD, head + b"%d" % len(GOOD), close))), 200)
        row = {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}
        for more in ({"outputs": [{"name": "y", "parameters": {"classification": -1}}]}, {"outputs": [{"name": "y", "parameters": {"classification": -(1 << 63)}}]},
                     {"outputs": [{"name": "y", "parameters": {"classification": 1.5}}]}, {"outputs": [{"name": "y", "parameters": {"classification": 1 << 64}}]},
                     {"parameters": {"priority": -1}}, {"parameters": {"timeout": -1}}, {"parameters": {"timeout": 1 << 63}}, {"parameters": {"sequence_start": -1}}):
            status, said = self.infer("add", {"inputs": [row], **more})
            self.assertEqual(status, 400, (more, said))
        status, said = self.infer("add", {"inputs": [row], "outputs": [{"name": "y", "parameters": {"classification": (1 << 63) - 1}}]})
        self.assertEqual((status, said["outputs"][0]["shape"]), (200, [1, 4]))
        for key in ("triton_final_response", "triton_", "triton_x"):  # what a server says of itself is not a client's to say
            for place in ({"parameters": {key: True}}, {"outputs": [{"name": "y", "parameters": {key: True}}]}):
                status, said = self.infer("add", {"inputs": [row], **place})
                self.assertEqual((status, "reserved" in said["error"], key in said["error"]), (400, True, True), said)
            status, said = self.infer("add", {"inputs": [{**row, "parameters": {key: 1}}]})
            self.assertEqual(status, 400, said)
        status, said = self.infer("add", {"inputs": [row], "parameters": {"tritonic": 1, "mine": "x", "triton_enable_empty_final_response": True}})
        self.assertEqual((status, "parameters" in said), (200, False))

    def test_numbers_of_tensors(self):
        """-0 and what is just in or out of an integer's range; a number that no float has becomes the nearest."""
        value = helper.make_tensor_value_info
        kinds = {"FP32": TensorProto.FLOAT, "FP64": TensorProto.DOUBLE, "UINT64": TensorProto.UINT64, "INT64": TensorProto.INT64, "INT8": TensorProto.INT8}
        for kind, t in kinds.items():
            self.put(kind, graph=helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [value("x", t, ["n"])], [value("y", t, ["n"])]))
        self.serve()
        for kind, text, want in (("FP32", "-0.0", "-0.0"), ("FP32", "-0", "0.0"), ("FP64", "-0.0", "-0.0"), ("FP64", "-0e5", "-0.0"), ("INT8", "-0", "0"), ("UINT64", "-0", "0"),
                                 ("FP64", "18446744073709551616", "1.8446744073709552e19"), ("FP32", "18446744073709551616", "1.8446744073709552e19"),
                                 ("UINT64", "18446744073709551615", "18446744073709551615"), ("UINT64", "18446744073709551616", None), ("UINT64", "-1", None),
                                 ("INT64", "9223372036854775807", "9223372036854775807"), ("INT64", "-9223372036854775808", "-9223372036854775808"),
                                 ("INT64", "9223372036854775808", None), ("INT64", "-9223372036854775809", None), ("INT64", "18446744073709551616", None),
                                 ("INT8", "128", None), ("INT8", "-129", None), ("INT8", "1e400", None), ("UINT64", "1e400", None), ("FP64", "5e-324", "5e-324")):
            status, said, _ = self.ask("POST", f"/v2/models/{kind}/infer", '{"inputs":[{"name":"x","shape":[1],"datatype":"%s","data":[%s]}]}' % (kind, text))
            if want is None:
                self.assertEqual(status, 400, (kind, text, said))
                continue
            self.assertEqual(status, 200, said)
            found = re.search(rb'"data":\[([^\]]*)\]', said)[1].decode()
            self.assertEqual((float(found) if kind[0] == "F" else int(found), found[0] == "-"), (float(want) if kind[0] == "F" else int(want), want[0] == "-"), (kind, text, found))

    def test_names_that_are_none(self):
        """NULs, bytes that are no UTF-8, names of a megabyte: an answer that is JSON, a line of the log that is, and nothing opened."""
        self.serve("--max-header-bytes", 1 << 20, "--log-verbose=1")
        names = (b"%00", b"add%00", b"%2e%2e%2fadd", b"\xff\xfe", b"\xc0\xaf..", b"add\x80", b"%ff", b"\xf0\x9f\x92\xa9", b"a" * 500_000, b"\xff" * 500_000, b"..", b".", b"add;x", b"%2561dd", b"%61d", b"add%2f", b"add%zz", b"add%")
        for name in names:
            for path in (b"/v2/models/" + name, b"/v2/models/" + name + b"/infer", b"/v2/models/add/versions/" + name + b"/infer", b"/v1/models/" + name,
                         b"/v2/repository/models/" + name + b"/load", b"/v2/models/" + name + b"/trace/setting", b"/v2/models/add/" + name):
                said = self.raw(request(GOOD, b"Connection: close", path=path))
                self.assertIn(self.status(said), (400, 404, 405, 503), path[:80])
                body = said.partition(b"\r\n\r\n")[2]
                self.assertLess(len(body), 2000)
                if body:
                    self.assertIn("error", json.loads(body.decode("utf-8")), path[:80])
        for name in (b"nul\0", b"cr\r", b"space "):
            self.assertEqual(self.status(self.raw(request(GOOD, b"Connection: close", path=b"/v2/models/" + name))), 400, name)
        self.alive()
        self.stop()
        lines = [row for row in self.log.read_bytes().split(b"\n") if b'"target"' in row]
        self.assertGreater(len(lines), len(names))
        for row in lines:
            json.loads(row[row.index(b"{"):].decode("utf-8"))

    def test_an_end_at_every_byte(self):
        """A request cut off behind each of its bytes, by an end and by a reset: nothing of it stays, and what came whole is answered."""
        self.serve("--inline-us", 0)
        whole = request(GOOD, b"Connection: close")
        chunked = request(b"10\r\n" + GOOD[:16] + b"\r\n%x\r\n" % (len(GOOD) - 16) + GOOD[16:] + b"\r\n0\r\n\r\n", b"Transfer-Encoding: chunked", sized=False)
        for sent in (whole, chunked):
            for cut in range(len(sent) + 1):
                with socket.create_connection(("127.0.0.1", self.port), timeout=60) as s:
                    s.sendall(sent[:cut])
                    s.shutdown(socket.SHUT_WR)
                    said = self.heard(s)
                    self.assertEqual(b'"data":[2.0,3.0,4.0,5.0]' in said, cut == len(sent), (cut, said))
                with socket.create_connection(("127.0.0.1", self.port)) as s:
                    s.sendall(sent[:cut])
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.wait_for(lambda: self.metric("peri_open_requests ") == 0)
        self.assertEqual(self.infer("add", GOOD)[0], 200)

    def test_readers_that_never_read(self):
        """Their replies hold no more than is allowed in all, others are answered meanwhile, and they are cut off in time."""
        value = helper.make_tensor_value_info
        shape = helper.make_tensor("shape", TensorProto.INT64, [2], [2000, 1000])
        self.put("wide", graph=helper.make_graph([helper.make_node("Expand", ["x", "shape"], ["y"])], "g", [value("x", TensorProto.FLOAT, [1, 1])],
                                                 [value("y", TensorProto.FLOAT, [2000, 1000])], [shape]))
        self.serve("--max-total-body-bytes", 20_000_000, "--max-body-bytes", 1_000_000, "--write-timeout", 2, "--min-bytes-per-s", 8_000_000)
        body = b'{"inputs":[{"name":"x","shape":[1,1],"datatype":"FP32","data":[3]}],"parameters":{"binary_data_output":true}}'
        status, said, _ = self.ask("POST", "/v2/models/wide/infer", body)
        self.assertEqual((status, len(said) > 8_000_000), (200, True))
        before = self.resident()
        held = []
        for _ in range(30):
            held.append(self.open_to(self.port, (socket.SO_RCVBUF, 4096)))
            held[-1].sendall(request(body, b"Connection: close", path=b"/v2/models/wide/infer"))
        told = []

        def refused():
            told.append(self.ask("POST", "/v2/models/wide/infer", body))
            return told[-1][0] == 503
        self.wait_for(refused)
        self.assertIn(b"--max-total-body-bytes", told[-1][1])
        self.assertGreaterEqual(int(told[-1][2]["Retry-After"]), 1)
        self.assertEqual(self.infer("add", GOOD)[0], 200)
        self.assertLess(self.resident() - before, 64 << 20, "30 replies of 8 MB, of which two may be held")
        self.wait_for(lambda: self.ask("POST", "/v2/models/wide/infer", body)[0] == 200)  # the clients are still there
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        self.addCleanup(connection.close)
        for _ in range(5):  # what is read leaves room, on a connection that stays, too
            connection.request("POST", "/v2/models/wide/infer", body)
            reply = connection.getresponse()
            self.assertEqual((reply.status, len(reply.read()) > 8_000_000), (200, True))
        lengths = [len(self.heard(s)) for s in held]
        self.assertLess(max(lengths), 8_000_000, "each was refused, or cut off in the middle")
        self.wait_for(lambda: self.metric("peri_open_requests ") == 0)

    def fill(self, count, port=None, unix=None):
        """Holds `count` connections that are answered; the next is closed without a word; one that goes makes room."""
        ask = b"GET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n"

        def answered(s):
            try:
                s.sendall(ask)
                return s.recv(65536).startswith(b"HTTP/1.1 ")
            except (ConnectionResetError, BrokenPipeError):
                return False
        held = []

        def all_held():
            s = self.open_to(port, unix=unix)
            if answered(s):
                held.append(s)
            else:
                s.close()
            return len(held) == count
        self.wait_for(all_held)
        for _ in range(10):
            with self.open_to(port, unix=unix) as s:
                self.assertFalse(answered(s), "one more than the limit")
        held.pop().close()
        self.wait_for(all_held)
        for s in held:
            self.assertTrue(answered(s), "those that were there stay")
            s.close()

    def test_connections_are_bounded(self):
        manage = self.folder / "manage"
        self.serve("--max-connections", 20, "--max-own-connections", 6, "--management-socket", manage)
        self.fill(20, self.port)
        self.fill(6, self.metrics_port)
        self.fill(6, unix=manage)

    def test_noise_on_the_servers_own_ports(self):
        manage = self.folder / "manage"
        self.serve("--management-socket", manage, "--max-header-bytes", 4096, "--max-body-bytes", 100_000, "--request-timeout", 2)
        rng = random.Random(5)
        many = b"GET /metrics HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n"
        sent = [(b"GET /metrics HTTP/1.1\r\nA: " + b"a" * 100_000 + b"\r\n\r\n", 431), (many, 431), (b"\x16\x03\x01\x02\x00\x01", 400), (b"\0" * 5000, 400),
                (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400), (request(b"", b"Transfer-Encoding: gzip", path=b"/metrics", sized=False), 400),
                (b"POST /dashboard/data HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n", 413), (b"GET /metrics HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * 70_000, 413)]
        sent += [(rng.randbytes(rng.randrange(1, 3000)), None) for _ in range(40)]
        sent += [(b"GET /metrics HTTP/1.1\r\nHost: a\r\n" + rng.randbytes(200) + b"\r\n\r\n", None) for _ in range(20)]
        for port, unix in ((self.metrics_port, None), (None, manage)):
            for data, want in sent:
                s = self.open_to(port, unix=unix)
                try:
                    s.sendall(data)
                    s.shutdown(socket.SHUT_WR)
                except OSError:
                    pass  # it was answered and closed before all was sent
                said = self.heard(s)
                if want:
                    self.assertIn(self.status(said) if said else want, (want,), data[:60])
        curl = ["curl", "-sS", "-X", "POST", "--unix-socket", manage, "-w", "%{http_code}"]
        for path, want in (("/v2/repository/models/..%2fadd/load", "400"), ("/v2/repository/models/%00/load", "400"), ("/v2/repository/index/x", "404")):
            said = subprocess.run([*curl, "http://localhost" + path], capture_output=True, check=True, text=True).stdout
            self.assertIn(said[-3:], (want, "503"), said)
        self.assertEqual(self.ask("GET", "/metrics", port=self.metrics_port)[0], 200)
        said = subprocess.run([*curl, "http://localhost/v2/repository/index"], capture_output=True, check=True, text=True).stdout
        self.assertIn('"READY"', said)
        self.alive()
        self.assertIn("PASSED", self.stop())


if __name__ == "__main__":
    main()
