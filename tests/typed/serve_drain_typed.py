#!/usr/bin/env python3
"""`peri serve` that is told to end while streams of gRPC stand open: idle ones are ended at once, the others when they have their answers."""
import json
import os
import queue
import signal
import threading
import time

import grpc
import numpy
from onnx import TensorProto, helper
from tritonclient.grpc import service_pb2

from served import Served
from typed import main

METHOD = "/inference.GRPCInferenceService/ModelStreamInfer"


class Stream:
    """A stream that stays open, as a client that has no more to ask just now keeps it."""

    def __init__(self, port):
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        self.asks, self.got, self.end = queue.Queue(), queue.Queue(), queue.Queue()
        call = self.channel.stream_stream(METHOD, lambda m: m.SerializeToString(), service_pb2.ModelStreamInferResponse.FromString)(iter(self.asks.get, None))

        def hear():
            try:
                for answer in call:
                    self.got.put(answer)
                self.end.put("OK")
            except grpc.RpcError as e:
                self.end.put(f"{e.code().name}: {e.details()}")
        threading.Thread(target=hear, daemon=True).start()

    def ask(self, name, first):
        request = service_pb2.ModelInferRequest(model_name=name, id=str(first))
        request.inputs.add(name="x", datatype="FP32", shape=[1, 4]).contents.fp32_contents.extend([first, 1, 2, 3])
        self.asks.put(request)

    def close(self):
        self.asks.put(None)
        self.channel.close()


class Drain(Served):
    def test_a_signal_while_it_loads(self):
        """A warm-up of a minute: in the worker and in the server's own process a signal ends it at once."""
        value, size = helper.make_tensor_value_info, 700
        constants = [helper.make_tensor("w", TensorProto.FLOAT, [size, size], numpy.eye(size, dtype=numpy.float32).tobytes(), raw=True),
                     helper.make_tensor("shape", TensorProto.INT64, [2], [300, size])]
        nodes = [helper.make_node("Expand", ["x", "shape"], ["t0"]), *(helper.make_node("MatMul", [f"t{k}", "w"], [f"t{k + 1}"]) for k in range(10)),
                 helper.make_node("ReduceSum", ["t10"], ["y"], keepdims=1)]
        graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, [1, 1])], [value("y", TensorProto.FLOAT, [1, 1])], constants)
        warm = 'model_warmup { name: "w" count: 1000 inputs { key: "x" value { data_type: TYPE_FP32 dims: [ 1, 1 ] zero_data: true } } }'
        self.put("slow", graph=graph, config=warm)
        for flags in ((), ("--in-process",)):
            for _ in range(3):  # a machine that stands still for a moment is no fault of the server
                self.serve(*flags, ready=False)
                self.wait_for(lambda: json.loads(self.ask("POST", "/v2/repository/index")[1])[0]["state"] == "LOADING")
                time.sleep(0.3)
                began = time.monotonic()
                self.server.send_signal(signal.SIGINT)
                self.assertEqual(self.server.wait(60), 0, self.log.read_text()[-1500:])
                took = time.monotonic() - began
                self.assertNotIn("starting another", self.log.read_text(), "the worker was ended, and no other begins")
                self.assertNotIn("worker process", self.log.read_text(), "no model is to blame")
                if took < 1:
                    break
            self.assertLess(took, 1, flags)

    def test_streams(self):
        self.put("add")
        self.serve("--exit-timeout-secs", 600, "--stuck-kill-secs", 0, "--canary-secs", 0)
        idle, used, busy = (Stream(self.grpc_port) for _ in range(3))
        for s in (idle, used, busy):
            self.addCleanup(s.close)
        for s in (used, busy):
            s.ask("add", 5)
            self.assertEqual(s.got.get(timeout=120).infer_response.id, "5")
        worker = self.children()[0]
        self.halt(worker)
        for k in range(3):
            busy.ask("add", 10 + k)
        self.wait_for(lambda: self.metric("peri_open_requests ") == 3)
        self.server.send_signal(signal.SIGTERM)
        for s in (idle, used):
            self.assertEqual(s.end.get(timeout=120), "UNAVAILABLE: the server takes no more calls")
        self.assertTrue(busy.end.empty() and self.server.poll() is None, "it has not all its answers")
        os.kill(worker, signal.SIGCONT)
        self.assertEqual([busy.got.get(timeout=120).infer_response.id for _ in range(3)], ["10", "11", "12"])
        self.assertEqual(busy.end.get(timeout=120), "UNAVAILABLE: the server takes no more calls")
        self.assertEqual(self.server.wait(120), 0, "long before --exit-timeout-secs")
        self.assertIn("PASSED serve: 5 requests", self.log.read_text())

    def test_a_stream_that_goes_on(self):
        """Asks again with each answer: what was taken is answered, and then it is ended, too."""
        self.put("add")
        self.serve("--exit-timeout-secs", 600, "--canary-secs", 0)
        restless = [Stream(self.grpc_port) for _ in range(4)]
        ends, answered = [], [0] * len(restless)
        for s in restless:
            self.addCleanup(s.close)

        def go_on(k):
            while restless[k].end.empty():
                restless[k].ask("add", answered[k] % 1000)
                try:
                    if restless[k].got.get(timeout=1).infer_response.id != str(answered[k] % 1000):
                        ends.append("another's answer")
                    answered[k] += 1
                except queue.Empty:
                    pass
            ends.append(restless[k].end.get())
        threads = [threading.Thread(target=go_on, args=(k,), daemon=True) for k in range(len(restless))]
        for t in threads:
            t.start()
        self.wait_for(lambda: min(answered) > 20)
        self.server.send_signal(signal.SIGTERM)
        until = time.monotonic() + 120
        for t in threads:
            t.join(max(0, until - time.monotonic()))
        self.assertFalse(any(t.is_alive() for t in threads), "a stream was not ended")
        self.assertEqual(set(ends), {"UNAVAILABLE: the server takes no more calls"})
        self.assertEqual(self.server.wait(120), 0, "long before --exit-timeout-secs")
        self.assertIn("PASSED", self.log.read_text())

    def test_requests_that_take_too_long(self):
        """Each of them, over HTTP and gRPC, is told, and has its line in the access log; the exit code is 1."""
        self.put("add")
        log = self.folder / "access.log"
        self.serve("--exit-timeout-secs", 1, "--stuck-kill-secs", 0, "--canary-secs", 0, "--access-log", log)
        self.assertEqual(self.infer("add", self.rows([[1, 2, 3, 4]]))[0], 200)
        stream = Stream(self.grpc_port)
        self.addCleanup(stream.close)
        worker = self.children()[0]
        self.halt(worker)
        said = []
        asking = [threading.Thread(target=lambda: said.append(self.infer("add", self.rows([[1, 2, 3, 4]])))) for _ in range(3)]
        for t in asking:
            t.start()
        stream.ask("add", 7)
        self.wait_for(lambda: self.metric("peri_open_requests ") == 4)
        self.server.send_signal(signal.SIGTERM)
        self.assertEqual(self.server.wait(120), 1)
        os.kill(worker, signal.SIGCONT)
        for t in asking:
            t.join()
        why = "the server has ended before this request was answered; it may be sent again"
        self.assertEqual(said, [(503, {"error": why})] * 3)
        self.assertEqual(stream.got.get(timeout=60).error_message, why)
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        self.assertEqual(sorted(line["status"] for line in lines if line["target"].endswith("infer")), [200] + [503] * 4)
        self.assertIn("FAILED serve: 4 requests not answered within 1 s, and told so (503)", self.log.read_text())


if __name__ == "__main__":
    main()
