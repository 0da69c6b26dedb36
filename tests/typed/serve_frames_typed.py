#!/usr/bin/env python3
"""The gRPC port and clients that go, or stop to read, at a named moment; calls at once; deadlines of nothing; messages written as no library writes them."""
import pathlib
import re
import socket
import struct
import time

import grpc
import numpy
import tritonclient.grpc
from onnx import TensorProto, helper
from tritonclient.grpc import service_pb2
from tritonclient.utils import InferenceServerException

from frames import DATA, END_HEADERS, HEADERS, PREFACE, RESET, SETTINGS, call, frame, head, message
from served import Served
from typed import main

HELLO = PREFACE + frame(SETTINGS)
NO_WINDOW = PREFACE + frame(SETTINGS, payload=struct.pack(">HI", 4, 0))
CANCEL = struct.pack(">I", 8)


def asked(model, dims=(1, 1), raw=None, **more):
    r = service_pb2.ModelInferRequest(model_name=model, raw_input_contents=[bytes(4 * int(numpy.prod(dims))) if raw is None else raw], **more)
    r.inputs.add(name="x", datatype="FP32", shape=dims)
    return r


class Frames(Served):
    def setUp(self):
        super().setUp()
        self.sockets = []
        self.put("add")

    def put_wide(self):
        """4 MB for one number."""
        value = helper.make_tensor_value_info
        zeros = helper.make_node("Expand", ["x", "shape"], ["y"])
        self.put("wide", graph=helper.make_graph([zeros], "g", [value("x", TensorProto.FLOAT, [1, 1])], [value("y", TensorProto.FLOAT, [1000, 1000])],
                                                 [helper.make_tensor("shape", TensorProto.INT64, [2], [1000, 1000])]))

    def put_slow(self, layers=20):
        """Some tenths of a second for one number, one after the other."""
        value, size = helper.make_tensor_value_info, 700
        weight = helper.make_tensor("w", TensorProto.FLOAT, [size, size], numpy.eye(size, dtype=numpy.float32).tobytes(), raw=True)
        nodes = [helper.make_node("Expand", ["x", "shape"], ["t0"])]
        nodes += [helper.make_node("MatMul", [f"t{k}", "w"], [f"t{k + 1}"]) for k in range(layers)]
        nodes += [helper.make_node("ReduceSum", [f"t{layers}"], ["y"], keepdims=1)]
        self.put("slow", graph=helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, [1, 1])], [value("y", TensorProto.FLOAT, [1, 1])],
                                                 [weight, helper.make_tensor("shape", TensorProto.INT64, [2], [300, size])]),
                 config='instance_group { count: 1 }\nparameters { key: "threads" value { string_value: "1" } }\n')

    def resident(self):
        return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{self.server.pid}/status").read_text())[1]) << 10

    def connect(self, data):
        s = socket.create_connection(("127.0.0.1", self.grpc_port), timeout=60)
        self.addCleanup(s.close)
        s.sendall(data)
        self.sockets.append(s)
        return s

    def ends_well(self):
        for s in self.sockets:  # one that answers no ping would hold the library for its 20 s
            s.close()
        self.assertIn("PASSED", self.stop())

    def until(self, s, what, seconds=60):
        """What was heard by the time that it holds `what`."""
        heard, end = b"", time.monotonic() + seconds
        while what not in heard:
            self.assertLess(time.monotonic(), end, heard[-300:])
            piece = s.recv(65536)
            self.assertNotEqual(piece, b"", f"closed: {heard[-300:]}")
            heard += piece
        return heard

    def client(self):
        self.addCleanup((c := tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{self.grpc_port}")).close)
        return c

    def infer(self, c, model):
        x = tritonclient.grpc.InferInput("x", [1, 4] if model == "add" else [1, 1], "FP32")
        x.set_data_from_numpy(numpy.ones(x.shape(), numpy.float32))
        return c.infer(model, [x], client_timeout=60).as_numpy("y")

    def raw(self, method, body, **more):
        with grpc.insecure_channel(f"127.0.0.1:{self.grpc_port}") as channel:
            try:
                return "OK", channel.unary_unary("/inference.GRPCInferenceService/" + method)(body, timeout=60, **more)
            except grpc.RpcError as e:
                return e.code().name, e.details()

    def open_requests(self):
        return self.metric("peri_open_requests ")

    def test_deadlines_of_nothing(self):
        """Past before they began: told so by their status, and nothing runs. What is no deadline is none."""
        self.serve()
        good = message(asked("add", (1, 4)).SerializeToString())
        for timeout in ("0n", "0u", "0m", "0S", "0H"):
            s = self.connect(HELLO + call(1, good, grpc_timeout=timeout))
            self.assertEqual(re.search(rb"grpc-status.(\d+)", self.until(s, b"grpc-message"))[1], b"4", timeout)
        self.wait_for(lambda: self.open_requests() == 0)
        self.assertEqual(self.metric('nv_inference_exec_count{model="add",version="1"'), 0)
        for timeout in ("-5S", "x", "5", "99999999999H", "99999999H"):
            heard = self.until(self.connect(HELLO + call(1, good, grpc_timeout=timeout)), b"grpc-status")
            self.assertRegex(heard, rb"grpc-status.0", timeout)

    def test_cancels_in_each_state(self):
        """By a reset and by an end of the connection: what waited never runs, what was held is given back."""
        self.put_slow(layers=100)
        self.put_wide()
        self.serve("--max-total-body-bytes", 9_000_000, "--max-body-bytes", 1_000_000, "--canary-secs", 0)
        c = self.client()
        slow, wide, good = (message(asked(m, d).SerializeToString()) for m, d in (("slow", (1, 1)), ("wide", (1, 1)), ("add", (1, 4))))
        before = self.resident()
        labels = '{model="slow",version="1"'

        def finished():
            """Slow requests that ran to their end: before the state that they should be in was seen, or left."""
            return self.metric("nv_inference_request_success" + labels)

        def cancelled():
            return self.metric("nv_inference_request_failure" + labels + ',reason="CANCELED"')

        def answered(s, _):
            self.until(s, b"grpc-status")

        def under_way(count):
            return lambda s, ended: self.wait_for(lambda: self.open_requests() == count or finished() > ended)

        def soon(s, _):
            time.sleep(0.02)
        # By state: what opens the connection, what is sent, how the state is seen, and how many requests of it are cancelled.
        states = {
            "before its message": (HELLO, call(1, end=False), soon, 0),
            "half a message": (HELLO, frame(HEADERS, END_HEADERS, 1, head()) + frame(DATA, 0, 1, good[:20]), soon, 0),
            "before its end": (HELLO, call(1, good, end=False), soon, 0),
            "running": (HELLO, call(1, slow), under_way(1), 1),
            "queued": (HELLO, call(1, slow) + call(3, slow), under_way(2), 2),
            "while it is answered": (NO_WINDOW, call(1, wide), lambda s, _: self.until(s, b"application/grpc"), 0),
            "after its answer": (HELLO, call(1, good), answered, 0),
        }

        def caught(name, by_reset):
            """One client that goes; False where the state was over too soon, as on a machine that is busy."""
            hello, data, ready, count = states[name]
            ended, gone = finished(), cancelled()
            s = self.connect(hello + data)
            ready(s, ended)
            if by_reset:
                s.sendall(frame(RESET, 0, 3, CANCEL) * (name == "queued") + frame(RESET, 0, 1, CANCEL))
            else:
                s.close()
            self.wait_for(lambda: self.open_requests() == 0)
            self.wait_for(lambda: finished() > ended or cancelled() - gone == count)
            return finished() == ended
        for name in states:
            for by_reset in (True, False, True):  # of the answers of 4 MB two may be held
                self.wait_for(lambda name=name, by_reset=by_reset: caught(name, by_reset))

        def taken(model, want):
            """False while the answer of a client that went is still held."""
            try:
                return (self.infer(c, model) == want).all()
            except InferenceServerException as e:
                self.assertIn("UNAVAILABLE", str(e.status()))
                return False
        for model, want in (("add", 2), ("wide", 1)):
            for _ in range(3):
                self.wait_for(lambda model=model, want=want: taken(model, want))
        self.wait_for(lambda: self.resident() - before < 32 << 20)
        self.ends_well()

    def test_answers_that_nobody_reads(self):
        """They hold no more than is allowed in all while their clients hang; others are told, small ones go on; in time they are cut off."""
        self.put_wide()
        self.serve("--max-total-body-bytes", 9_000_000, "--max-body-bytes", 1_000_000, "--write-timeout", 3)
        c = self.client()
        self.assertEqual(self.infer(c, "wide").size, 1_000_000)
        before = self.resident()
        wide = message(asked("wide").SerializeToString())
        for _ in range(3):
            self.connect(NO_WINDOW + b"".join(call(k, wide) for k in range(1, 41, 2)))
        codes = []

        def refused():
            try:
                self.infer(c, "wide")
                codes.append("OK")
            except InferenceServerException as e:
                codes.append(e.status())
                self.assertIn("have not read", e.message())
            return codes[-1] == "StatusCode.RESOURCE_EXHAUSTED"
        self.wait_for(refused)
        self.assertLess(self.resident() - before, 48 << 20, "60 answers of 4 MB, of which two may be held")
        self.assertTrue((self.infer(c, "add") == 2).all())
        self.wait_for(lambda: not refused())
        self.assertEqual(set(codes), {"OK", "StatusCode.RESOURCE_EXHAUSTED"})
        self.ends_well()

    def test_calls_at_once_are_bounded(self):
        """More streams than are allowed, then streams that are reset as soon as they are asked: the requests under way stay within the bound."""
        self.put_slow(10)
        self.serve("--max-grpc-streams", 40)
        self.assertEqual(self.infer(self.client(), "slow").size, 1)
        slow, most = message(asked("slow").SerializeToString()), 0
        s = self.connect(HELLO + b"".join(call(k, slow) for k in range(1, 801, 2)))
        self.wait_for(lambda: self.open_requests() > 1)
        for _ in range(30):
            most = max(most, self.open_requests())
        s.close()
        self.assertLessEqual(most, 80, "of a client that never says that it knows the bound")
        self.wait_for(lambda: self.open_requests() == 0)
        most, s = 0, self.connect(HELLO)
        for k in range(1, 4001, 2):
            s.sendall(call(k, slow) + frame(RESET, 0, k, CANCEL))
            if k % 99 == 0:
                most = max(most, self.open_requests())
        self.assertLessEqual(most, 80)
        s.close()
        self.wait_for(lambda: self.open_requests() == 0)
        ran = self.metric('nv_inference_exec_count{model="slow",version="1"')
        self.assertLess(ran, 1000, "what is reset before it began does not run")
        c = self.client()
        for _ in range(100):  # one after the other on a connection: those that have ended do not count
            self.assertTrue((self.infer(c, "add") == 2).all())
        self.ends_well()

    def test_an_end_at_every_byte(self):
        self.serve()
        whole = HELLO + call(1, message(asked("add", (1, 4)).SerializeToString()))
        for cut in range(len(whole)):
            with socket.create_connection(("127.0.0.1", self.grpc_port)) as s:
                s.sendall(whole[:cut])
                if cut % 2:
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.assertTrue((self.infer(self.client(), "add") == 2).all())
        self.wait_for(lambda: self.open_requests() == 0)
        self.ends_well()

    def test_messages_as_no_library_writes_them(self):
        self.serve()
        good = asked("add", (1, 4), raw=struct.pack("<4f", 1, 2, 3, 4)).SerializeToString()
        answer = service_pb2.ModelInferResponse.FromString(self.raw("ModelInfer", good)[1])
        self.assertEqual(struct.unpack("<4f", answer.raw_output_contents[0]), (2, 3, 4, 5))

        def same(body):
            code, said = self.raw("ModelInfer", body)
            self.assertEqual(code, "OK", said)
            self.assertEqual(service_pb2.ModelInferResponse.FromString(said).raw_output_contents, answer.raw_output_contents)

        def part(number, payload):
            return bytes([number << 3 | 2, len(payload)]) + payload
        raw = part(7, struct.pack("<4f", 1, 2, 3, 4))
        name, kind = part(1, b"x"), part(2, b"FP32")
        same(part(1, b"add") + part(5, name + kind + b"\x18\x01\x18\x04") + raw)  # the shape not packed
        same(part(1, b"add") + part(5, name + kind + b"\x18\x01\x1a\x01\x04") + raw)  # one half of it packed
        same(part(1, b"none") + part(1, b"add") + part(5, name + kind + b"\x1a\x02\x01\x04") + raw)  # the last of two names
        floats = b"".join(b"\x35" + struct.pack("<f", v) for v in (1, 2, 3, 4))  # fp32_contents, one by one
        same(part(1, b"add") + part(5, name + kind + b"\x1a\x02\x01\x04" + part(5, floats)))
        same(part(1, b"add") + part(5, name + kind + b"\x1a\x02\x01\x04" + part(5, floats[:10]) + part(5, floats[10:])))  # a message in two halves
        priority, text = part(1, b"priority"), part(3, b"urgent")
        same(good + part(4, priority + part(2, b"\x10\x77" + b"\x10\x00")))  # a choice made twice: the last holds
        same(good + part(4, priority + part(2, text + b"\x10\x00")))
        same(good + b"\x28\x01\x38\x01\x25\0\0\0\0")  # known fields of another kind are unknown ones
        for body, words in ((good + part(4, priority + part(2, b"\x10\x00" + text)), "priority"), (good + part(4, priority + part(2, b"\x10\x00\x08\x01")), "priority"),
                            (b"\x08\x05" + good[5:], ""), (part(1, b"add") + b"\x2d\0\0\0\0" + raw, "expected 1 inputs"),
                            (part(1, b"add") + part(5, name + kind + b"\x1d\x01\0\0\0") + raw, "unexpected shape"),
                            (part(1, b"add") + part(5, name + kind + b"\x1a\x02\x01\x04" + part(5, b"\x30\x01")), ""),
                            (good + b"\x2b\x2c", "kind that is not known"), (good + b"\x2c", "kind that is not known"), (good + b"\x2f", "kind that is not known")):
            code, said = self.raw("ModelInfer", body)
            self.assertIn(code, ("INVALID_ARGUMENT", "NOT_FOUND"), (body, said))
            self.assertIn(words, said)
        for long in ("a" * (1 << 20), "../" * 300_000, "\u00e9" * (1 << 19), "a\0" * 1000):
            for method, body in (("ModelInfer", asked(long).SerializeToString()), ("ModelConfig", service_pb2.ModelConfigRequest(name=long).SerializeToString()),
                                 ("ModelReady", service_pb2.ModelReadyRequest(name=long).SerializeToString()),
                                 ("ModelConfig", service_pb2.ModelConfigRequest(name="add", version=long).SerializeToString()),
                                 ("RepositoryModelLoad", service_pb2.RepositoryModelLoadRequest(model_name=long).SerializeToString()),
                                 ("TraceSetting", service_pb2.TraceSettingRequest(model_name=long).SerializeToString())):
                code, said = self.raw(method, body)
                self.assertIn(code, ("NOT_FOUND", "INVALID_ARGUMENT"), (method, long[:9]))
                self.assertLess(len(said), 500)
        for body in (part(1, b"\xff\xfe"), part(1, b"add") + part(5, part(1, b"\xff"))):
            self.assertEqual(self.raw("ModelInfer", body)[0], "INVALID_ARGUMENT")
        self.alive()

    def test_what_a_message_may_ask_for(self):
        self.serve("--max-message-depth", 3, "--max-tensors", 5)
        deep = asked("add", (1, 4))
        self.assertEqual(self.raw("ModelInfer", deep.SerializeToString())[0], "OK")
        deep.parameters["mine"].int64_param = 1
        self.assertEqual(self.raw("ModelInfer", deep.SerializeToString())[0], "OK")
        deep.inputs[0].parameters["mine"].int64_param = 1  # the fourth level
        code, said = self.raw("ModelInfer", deep.SerializeToString())
        self.assertEqual((code, "--max-message-depth" in said), ("RESOURCE_EXHAUSTED", True), said)
        for outputs, words in ((["y", "y"], "asked for twice"), (["y"] * 6, "--max-tensors"), (["z"], "unexpected inference output")):
            r = asked("add", (1, 4))
            for name in outputs:
                r.outputs.add(name=name)
            code, said = self.raw("ModelInfer", r.SerializeToString())
            self.assertEqual((code, words in said), ("INVALID_ARGUMENT", True), said)
        for key in ("triton_final_response", "triton_x"):
            r = asked("add", (1, 4))
            r.parameters[key].bool_param = True
            code, said = self.raw("ModelInfer", r.SerializeToString())
            self.assertEqual((code, "reserved" in said), ("INVALID_ARGUMENT", True), said)


if __name__ == "__main__":
    main()
