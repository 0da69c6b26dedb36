# label: slow
"""Bodies beyond 2 GiB over HTTP and messages of more than 1 GB over gRPC, one after the other, are answered or refused, and the server goes on. Sends what it
has in pieces, so that the server alone holds it."""
import os, pathlib, socket, struct, sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv/bin/python"  # has what makes models
if not PYTHON.exists():
    sys.exit(77)
if pathlib.Path(sys.prefix).resolve() != PYTHON.parents[1].resolve():
    os.execv(PYTHON, [str(PYTHON), "-B", __file__, *sys.argv[1:]])
sys.argv = [sys.argv[0], str(pathlib.Path(sys.argv[1]).resolve() / "bin" / "peri"), str(ROOT)]
sys.path.insert(0, str(ROOT / "tests/typed"))
from onnx import TensorProto, helper

from frames import DATA, END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS, WINDOW, frame, head
from served import Served
from typed import main

PIECE = b"\1" * (1 << 20)


class Large(Served):
    def put_ends(self):
        """The first and the last of any number of bytes."""
        value = helper.make_tensor_value_info
        one = lambda n, v: helper.make_tensor(n, TensorProto.INT64, [1], [v])
        nodes = [helper.make_node("Slice", ["x", "zero", "one", "zero"], ["first"]), helper.make_node("Slice", ["x", "last", "end", "zero"], ["rest"]),
                 helper.make_node("Concat", ["first", "rest"], ["y"], axis=0)]
        self.put("ends", graph=helper.make_graph(nodes, "g", [value("x", TensorProto.UINT8, ["n"])], [value("y", TensorProto.UINT8, ["m"])],
                                                 [one("zero", 0), one("one", 1), one("last", -1), one("end", 2 ** 62)]))

    def send(self, s, size, first, last):
        s.sendall(bytes([first]) + PIECE[1:])
        for at in range(len(PIECE), size, len(PIECE)):
            n = min(len(PIECE), size - at)
            s.sendall(PIECE[:n] if at + n < size else PIECE[:n - 1] + bytes([last]))

    def test_http(self):
        self.put_ends()
        self.put("add")
        self.serve("--in-process", "--max-body-bytes", 3 << 30, "--max-total-body-bytes", 3 << 30)
        for size, model, want in (((2 << 30) + 5, "ends", 200), ((2 << 30) + 5, "add", 400), ((2 << 30) + 5, "ends", 200), ((3 << 30) + 1, "ends", 413)):
            json = b'{"inputs":[{"name":"x","shape":[%d],"datatype":"UINT8","parameters":{"binary_data_size":%d}}]}' % (size, size)
            with socket.create_connection(("127.0.0.1", self.port), timeout=300) as s:
                s.sendall(b"POST /v2/models/%s/infer HTTP/1.1\r\nHost: a\r\nConnection: close\r\nInference-Header-Content-Length: %d\r\nContent-Length: %d\r\n\r\n%s"
                          % (model.encode(), len(json), len(json) + size, json))
                if want != 413:
                    self.send(s, size, 7, 9)
                said = b""
                while piece := s.recv(65536):
                    said += piece
            self.assertEqual(int(said.split(b" ", 2)[1]), want, said[:500])
            self.assertEqual(b'"data":[7,9]' in said, want == 200, said[-300:])
        self.assertEqual(self.infer("add", self.rows([[1, 2, 3, 4]]))[0], 200)
        self.assertIn("PASSED", self.stop())

    def read_frame(self, s):
        def exactly(n):
            out = b""
            while len(out) < n:
                piece = s.recv(n - len(out))
                self.assertNotEqual(piece, b"", "closed")
                out += piece
            return out
        header = exactly(9)
        return header[3], header[4], struct.unpack(">I", header[5:])[0], exactly(struct.unpack(">I", b"\0" + header[:3])[0])

    def call(self, size):
        """What comes back for a message with so many raw bytes, sent as fast as its windows open."""
        tensor = b"\x0a\x01x\x12\x05UINT8\x18" + self.varint(size)
        body = b"\x0a\x04ends\x2a" + self.varint(len(tensor)) + tensor + b"\x3a" + self.varint(size)
        whole = 5 + len(body) + size
        with socket.create_connection(("127.0.0.1", self.grpc_port), timeout=300) as s:
            s.sendall(PREFACE + frame(SETTINGS) + frame(HEADERS, END_HEADERS, 1, head()))
            windows, initial, sent, answer = {0: 65535, 1: 65535}, 65535, 0, b""
            start = b"\0" + struct.pack(">I", whole - 5) + body
            while True:
                n = min(16384, windows[0], windows[1], whole - sent)
                if n > 0:
                    piece = (start + b"\7" + PIECE)[sent:sent + n] if sent < len(start) + 1 else PIECE[:n]
                    n = len(piece)
                    if sent + n == whole:
                        piece = piece[:-1] + b"\x09"
                    s.sendall(frame(DATA, END_STREAM if sent + n == whole else 0, 1, piece))
                    sent, windows = sent + n, {k: v - n for k, v in windows.items()}
                    continue
                kind, flags, stream, payload = self.read_frame(s)
                if kind == WINDOW:
                    windows[stream] += struct.unpack(">I", payload)[0]
                elif kind == SETTINGS and not flags:
                    for k in range(0, len(payload), 6):
                        name, v = struct.unpack(">HI", payload[k:k + 6])
                        if name == 4:
                            windows[1], initial = windows[1] + v - initial, v
                    s.sendall(frame(SETTINGS, 1))
                elif kind in (DATA, HEADERS):
                    answer += payload
                    if kind == HEADERS and flags & END_STREAM:
                        return answer
                elif kind == 6 and not flags:
                    s.sendall(frame(6, 1, 0, payload))
                self.assertNotIn(kind, (3, 7), payload)

    def varint(self, n):
        out = b""
        while n > 127:
            out, n = out + bytes([n & 127 | 128]), n >> 7
        return out + bytes([n])

    def test_grpc(self):
        self.put_ends()
        self.put("add")
        self.serve("--in-process", "--max-body-bytes", (1 << 31) - 1, "--max-total-body-bytes", 3 << 30)
        for _ in range(2):
            answer = self.call(1_100_000_000)
            self.assertRegex(answer, rb"grpc-status.0")
            self.assertIn(b"\x32\x02\7\x09", answer, "raw_output_contents")
        self.assertEqual(self.infer("add", self.rows([[1, 2, 3, 4]]))[0], 200)
        self.assertIn("PASSED", self.stop())


main()
