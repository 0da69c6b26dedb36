#!/usr/bin/env python3
"""`peri serve` over gRPC: tritonclient as it comes (sync, asyncio, streams), every type, deadlines, cancelling, load generators, and bytes that lie."""
import asyncio
import gzip
import json
import os
import queue
import signal
import struct
import subprocess
import threading
import zlib

import grpc
import numpy
import tritonclient.grpc
import tritonclient.grpc.aio
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException, triton_to_np_dtype

from served import Served
from serve_typed import TYPES, identity
from typed import main

SERVICE = "/inference.GRPCInferenceService/"
MOST_AHEAD = 31  # requests that go to a worker beside those that run, if runs are short: they have begun


class Grpc(Served):
    def client(self, **more):
        self.addCleanup((c := tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{self.grpc_port}", **more)).close)
        return c

    def given(self, x, name="x", module=tritonclient.grpc):
        tensor = module.InferInput(name, x.shape, tritonclient.utils.np_to_triton_dtype(x.dtype))
        tensor.set_data_from_numpy(x)
        return tensor

    def raises(self, code, what, *args, **more):
        with self.assertRaises(InferenceServerException) as caught:
            what(*args, **more)
        self.assertEqual(caught.exception.status(), f"StatusCode.{code}", caught.exception)
        return caught.exception.message()

    def raw(self, method, message, **more):
        """(code, bytes or sentence) of a call whose message is these bytes."""
        with grpc.insecure_channel(f"127.0.0.1:{self.grpc_port}") as channel:
            try:
                return "OK", channel.unary_unary(SERVICE + method)(message, timeout=120, **more)
            except grpc.RpcError as e:
                return e.code().name, e.details()

    def test_every_call(self):
        self.put("all", graph=identity(TYPES), config='max_batch_size: 8\nparameters { key: "threads" value { string_value: "1" } }\n')
        self.put("add")
        self.serve()
        c = self.client()
        self.assertTrue(c.is_server_live() and c.is_server_ready() and c.is_model_ready("all") and c.is_model_ready("all", "1"))
        self.assertFalse(c.is_model_ready("none") or c.is_model_ready("all", "2"))
        self.assertEqual((c.get_server_metadata().name, len(c.get_server_metadata().extensions) > 3), ("peri", True))
        self.assertEqual({p.name: (p.datatype, list(p.shape)) for p in c.get_model_metadata("all").inputs}, {t: (t, [-1, -1]) for t in TYPES})
        config = c.get_model_config("all").config
        self.assertEqual((config.name, config.max_batch_size, config.parameters["threads"].string_value, len(config.input)), ("all", 8, "1", len(TYPES)))
        self.assertEqual([i.data_type for i in config.input if i.name == "BYTES"], [13])
        self.assertEqual([(m.name, m.version, m.state) for m in c.get_model_repository_index().models], [("add", "1", "READY"), ("all", "1", "READY")])
        self.assertIn("is not found", self.raises("NOT_FOUND", c.get_model_metadata, "none"))
        self.assertIn("is not found", self.raises("NOT_FOUND", c.get_model_config, "../add"))
        self.raises("INVALID_ARGUMENT", c.get_model_metadata, "add", "1/infer")
        self.assertIn("explicit", self.raises("UNAVAILABLE", c.load_model, "add"))
        tensors = {}
        for kind in TYPES:
            dtype = triton_to_np_dtype(kind)
            tensors[kind] = numpy.array([[b"a", b""], [b"\xff\x00", b"text"]], numpy.object_) if kind == "BYTES" else numpy.arange(4).reshape(2, 2).astype(dtype)
        inputs = []
        for kind, x in tensors.items():
            inputs.append(tritonclient.grpc.InferInput(kind, [2, 2], kind))
            inputs[-1].set_data_from_numpy(x)
        for compression in (None, "gzip", "deflate"):
            answer = c.infer("all", inputs, request_id="q", compression_algorithm=compression)
            self.assertEqual((answer.get_response().id, answer.get_response().model_version), ("q", "1"))
            for kind, x in tensors.items():
                self.assertTrue((answer.as_numpy(kind + "_out") == x).all(), kind)
        one = c.infer("all", inputs, outputs=[tritonclient.grpc.InferRequestedOutput("FP16_out")])
        self.assertEqual([o.name for o in one.get_response().outputs], ["FP16_out"])
        stats = c.get_inference_statistics("all").model_stats[0]
        self.assertEqual((stats.inference_count, stats.execution_count, stats.inference_stats.success.count), (8, 4, 4))
        self.assertEqual(len(c.get_inference_statistics().model_stats), 2)
        large = numpy.arange(4 * 500_000, dtype=numpy.float32).reshape(-1, 4)
        self.assertTrue((c.infer("add", [self.given(large)]).as_numpy("y") == large + 1).all())

    def test_contents_by_type(self):
        """The elements of every type in the message itself, as clients without raw contents send them; wrong ones are refused."""
        self.put("all", graph=identity(TYPES))
        self.serve()
        fields = {"BOOL": "bool", "INT8": "int", "INT16": "int", "INT32": "int", "INT64": "int64", "UINT8": "uint", "UINT16": "uint", "UINT32": "uint",
                  "UINT64": "uint64", "FP32": "fp32", "FP64": "fp64", "BYTES": "bytes"}

        def request(change=None, **more):
            r = service_pb2.ModelInferRequest(model_name="all", **more)
            for kind in TYPES:
                i = r.inputs.add(name=kind, datatype=kind, shape=[1, 2])
                if kind in fields:
                    getattr(i.contents, fields[kind] + "_contents").extend([b"a", b"bc"] if kind == "BYTES" else [1, 0])
            if change:
                change(r)
            return r
        code, said = self.raw("ModelInfer", request().SerializeToString())
        self.assertEqual(code, "INVALID_ARGUMENT")
        self.assertIn("'FP16' has neither contents nor raw_input_contents", said)
        self.kill()
        kinds = [t for t in TYPES if t != "FP16"]
        self.put("most", graph=identity(kinds))
        self.serve()

        def most(r):
            r.model_name = "most"
            del r.inputs[[i.name for i in r.inputs].index("FP16")]
        code, said = self.raw("ModelInfer", request(most).SerializeToString())
        self.assertEqual(code, "OK", said)
        answer = service_pb2.ModelInferResponse.FromString(said)
        self.assertEqual([o.name for o in answer.outputs], [k + "_out" for k in kinds])
        self.assertEqual(answer.raw_output_contents[kinds.index("BYTES")], b"\1\0\0\0a\2\0\0\0bc")
        self.assertEqual(answer.raw_output_contents[kinds.index("FP64")], struct.pack("<2d", 1, 0))

        def urgent(r):
            most(r)
            r.parameters["priority"].int64_param = 9
        self.assertEqual(self.raw("ModelInfer", request(urgent).SerializeToString())[0], "OK", "a level that the model has not is the default one")

        def at(r, kind):
            return next(i for i in r.inputs if i.name == kind)
        for change, words in ((lambda r: at(r, "INT8").contents.int_contents.__setitem__(0, 128), "'INT8': 128 is out of the range of INT8"),
                              (lambda r: at(r, "BOOL").contents.bool_contents.append(True), "holds 3 elements, its shape 2"),
                              (lambda r: at(r, "INT32").contents.uint_contents.append(1), "contents of another type"),
                              (lambda r: at(r, "FP32").shape.append(1), "unexpected shape for input 'FP32'"),
                              (lambda r: at(r, "FP32").shape.__setitem__(0, 2**62), "'FP32': the number of elements overflows"),
                              (lambda r: r.raw_input_contents.append(b"abcd"), "contents field must not be specified"),
                              (lambda r: at(r, "FP32").parameters["shared_memory_region"].__setattr__("string_param", "a"), "shared memory"),
                              (lambda r: r.parameters["priority"].__setattr__("int64_param", -9), "'priority' is out of range"),
                              (lambda r: r.outputs.add(name="nothing"), "unexpected inference output 'nothing'"),
                              (lambda r: r.inputs.add(name="FP32", datatype="FP32", shape=[1, 2]), "given twice")):
            def both(r):
                most(r)
                change(r)
            code, said = self.raw("ModelInfer", request(both).SerializeToString())
            self.assertIn(code, ("INVALID_ARGUMENT", "UNIMPLEMENTED"), words)
            self.assertIn(words, said)
        said = self.raw("ModelInfer", service_pb2.ModelInferRequest(model_name="a\x1b[31m\u202eb").SerializeToString())
        self.assertEqual(said, ("NOT_FOUND", r"Request for unknown model: 'a\x1b[31m\u202eb' is not found"), "no terminal obeys an error")

    def test_asyncio_and_streams(self):
        self.put("add")
        self.serve("--grpc-threads", 2, "--grpc-socket", self.folder / "g")
        xs = [numpy.full((1 + k % 3, 4), k, numpy.float32) for k in range(200)]

        async def ask():
            async with tritonclient.grpc.aio.InferenceServerClient(f"unix:{self.folder}/g") as c:
                answers = await asyncio.gather(*(c.infer("add", [self.given(x, module=tritonclient.grpc.aio)]) for x in xs))

                async def requests():
                    for k, x in enumerate(xs):
                        yield {"model_name": "add", "inputs": [self.given(x, module=tritonclient.grpc.aio)], "request_id": str(k)}
                return answers, [pair async for pair in c.stream_infer(requests())]
        answers, streamed = asyncio.run(ask())
        for x, a in zip(xs, answers):
            self.assertTrue((a.as_numpy("y") == x + 1).all())
        self.assertEqual([(r.get_response().id, e) for r, e in streamed], [(str(k), None) for k in range(200)])
        for x, (r, _) in zip(xs, streamed):
            self.assertTrue((r.as_numpy("y") == x + 1).all())
        c, said = self.client(), queue.Queue()
        c.start_stream(lambda result, error: said.put((result, error)))
        c.async_stream_infer("add", [self.given(xs[7])], request_id="a", enable_empty_final_response=True)
        c.async_stream_infer("none", [self.given(xs[7])])
        c.async_stream_infer("add", [self.given(xs[8])], request_id="b")
        first, wrong, last = (said.get(timeout=120) for _ in range(3))
        self.assertEqual((first[0].get_response().id, first[0].get_response().parameters["triton_final_response"].bool_param), ("a", True))
        self.assertIn("is not found", wrong[1].message())
        self.assertEqual(last[0].get_response().id, "b")
        c.stop_stream()
        with grpc.insecure_channel(f"127.0.0.1:{self.grpc_port}") as channel:
            wrong = service_pb2.ModelInferRequest(model_name="add", id="that one")
            wrong.inputs.add(name="z", datatype="FP32", shape=[1, 4])
            told, = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelStreamInfer(iter([wrong]), timeout=120)
            self.assertEqual((told.error_message, told.infer_response.id), ("unexpected inference input 'z'", "that one"))
        done = queue.Queue()
        c.async_infer("add", [self.given(xs[5])], lambda result, error: done.put(result))
        self.assertTrue((done.get(timeout=120).as_numpy("y") == xs[5] + 1).all())
        self.assertIn("PASSED", self.stop())
        self.assertFalse((self.folder / "g").exists())

    def test_deadlines_and_cancelling(self):
        """What a client gave up before it began is dropped: it is counted as cancelled, and never runs."""
        self.put("add", config="instance_group { count: 1 kind: KIND_CPU }\n")
        self.serve("--stuck-kill-secs", 0, "--canary-secs", 0, "--inline-us", 0)
        c, x = self.client(), numpy.ones((3, 4), numpy.float32)
        self.assertTrue((c.infer("add", [self.given(x)]).as_numpy("y") == x + 1).all())
        worker, = self.children()
        self.halt(worker)  # so that those which go ahead to it go on for as long as is needed
        done, begun = queue.Queue(), 1 + MOST_AHEAD
        for n in range(1, begun + 1):
            c.async_infer("add", [self.given(x)], lambda result, error: done.put(error))
            self.wait_for(lambda: self.metric("peri_open_requests ") == n)
        late = self.raises("DEADLINE_EXCEEDED", c.infer, "add", [self.given(x)], client_timeout=1)
        self.assertTrue(late)
        self.wait_for(lambda: self.metric("peri_open_requests ") == begun)
        waiting = c.async_infer("add", [self.given(x)], lambda result, error: done.put(error))
        self.wait_for(lambda: self.metric("peri_open_requests ") == begun + 1)
        waiting.cancel()
        labels = '{model="add",version="1"'
        self.wait_for(lambda: self.metric("peri_open_requests ") == begun)
        os.kill(worker, signal.SIGCONT)
        outcomes = [done.get(timeout=120) for _ in range(begun + 1)]
        self.assertEqual(sum(e is None for e in outcomes), begun, outcomes)
        self.wait_for(lambda: self.metric("nv_inference_request_success" + labels) == 1 + begun)
        self.assertEqual(self.metric("nv_inference_request_failure" + labels + ',reason="CANCELED"'), 2)
        self.assertEqual(self.metric("nv_inference_exec_count" + labels), 1 + begun)

    def test_messages_that_lie(self):
        self.put("add")
        self.serve("--max-body-bytes", 1_000_000)
        good = service_pb2.ModelInferRequest(model_name="add", raw_input_contents=[bytes(16)])
        good.inputs.add(name="x", datatype="FP32", shape=[1, 4])
        good = good.SerializeToString()
        self.assertEqual(self.raw("ModelInfer", good)[0], "OK")
        for message, code in ((b"", "NOT_FOUND"), (b"\xff" * 11, "INVALID_ARGUMENT"), (b"\x3a\xff\xff\xff\xff\x0f", "INVALID_ARGUMENT"),
                              (good + b"\x0b\x0c", "INVALID_ARGUMENT"), (b"\x2a\x00" * 100_000, "RESOURCE_EXHAUSTED"),
                              (b"\x3a\x00" * 100_000, "RESOURCE_EXHAUSTED"), (b"\xf8\x07\x01" * 100_000, "RESOURCE_EXHAUSTED"),
                              (good + bytes(2_000_000), "RESOURCE_EXHAUSTED"), (good[:-3], "INVALID_ARGUMENT"),
                              (good + b"\x3a\x00", "INVALID_ARGUMENT"), (b"\x0a\x03add\x2a\x03\x0a\x01\xff", "INVALID_ARGUMENT"),
                              (gzip.compress(bytes(50_000_000)), "RESOURCE_EXHAUSTED"), (zlib.compress(bytes(50_000_000)), "RESOURCE_EXHAUSTED"),
                              (gzip.compress(good), "OK"), (gzip.compress(gzip.compress(good)), "INVALID_ARGUMENT"), (zlib.compress(gzip.compress(good)), "INVALID_ARGUMENT"),
                              (gzip.compress(good)[:-5], "INVALID_ARGUMENT")):
            found, said = self.raw("ModelInfer", message)
            self.assertEqual(found, code, (message[:20], said))
            self.assertLess(len(said), 2100)
        self.assertEqual(self.raw("Nothing", b"")[0], "UNIMPLEMENTED")
        self.assertEqual(self.raw("ServerLive", b"\xff")[0], "INVALID_ARGUMENT")
        self.assertEqual(self.raw("RepositoryModelLoad", b"\x12\x06../add")[0], "NOT_FOUND")
        self.assertEqual(self.raw("ModelInfer", good, compression=grpc.Compression.Gzip)[0], "OK")
        with grpc.insecure_channel(f"127.0.0.1:{self.grpc_port}") as channel:
            self.assertEqual(channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=120), b"\x08\x01")
        self.alive()
        self.assertNotIn("libprotobuf", self.log.read_text(), "clients write nothing into the log")

    def test_wrk_and_h2load(self):
        self.put("add")
        self.serve()
        r = service_pb2.ModelInferRequest(model_name="add", raw_input_contents=[bytes(16)])
        r.inputs.add(name="x", datatype="FP32", shape=[1, 4])
        body = r.SerializeToString()
        (self.folder / "body").write_bytes(b"\0" + struct.pack(">I", len(body)) + body)
        said = subprocess.run(["h2load", "-n", "2000", "-c", "4", "-m", "10", "-d", self.folder / "body", "-H", "content-type: application/grpc", "-H", "te: trailers",
                               f"http://127.0.0.1:{self.grpc_port}{SERVICE}ModelInfer"], capture_output=True, timeout=100, check=True).stdout.decode()
        self.assertIn("2000 succeeded, 0 failed, 0 errored", said)
        (self.folder / "post.lua").write_text(f"wrk.method = 'POST'\nwrk.body = [==[{json.dumps(self.rows([[1, 2, 3, 4]]))}]==]\n")
        said = subprocess.run(["wrk", "-t1", "-c8", "-d1s", "-s", self.folder / "post.lua", f"http://127.0.0.1:{self.port}/v2/models/add/infer"],
                              capture_output=True, timeout=100, check=True).stdout.decode()
        self.assertNotIn("Non-2xx", said)
        self.assertNotIn("Socket errors", said)
        self.wait_for(lambda: self.metric('nv_inference_request_success{model="add",version="1"') > 2000)

    def test_clients_that_go_away(self):
        """Channels closed in the middle of calls and streams; the server answers others meanwhile and drains to its end."""
        self.put("add")
        self.serve()
        x, wrong = numpy.ones((1, 4), numpy.float32), []

        def leave(k):
            for _ in range(15):
                c = tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{self.grpc_port}", channel_args=[("grpc.use_local_subchannel_pool", 1)])
                if k % 2:
                    c.start_stream(lambda result, error: None)
                    for _ in range(20):
                        c.async_stream_infer("add", [self.given(x)])
                    c.stop_stream(cancel_requests=True)
                else:
                    for _ in range(20):
                        c.async_infer("add", [self.given(x)], lambda result, error: None)
                c.close()
        threads = [threading.Thread(target=leave, args=[k]) for k in range(4)]
        for t in threads:
            t.start()
        c = self.client()
        while any(t.is_alive() for t in threads):
            wrong += [] if (c.infer("add", [self.given(x)]).as_numpy("y") == x + 1).all() else ["wrong"]
        self.assertEqual(wrong, [])
        self.assertIn("PASSED", self.stop())


if __name__ == "__main__":
    main()
