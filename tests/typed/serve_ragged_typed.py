#!/usr/bin/env python3
"""`peri serve` and requests of unlike lengths in one run, other dims for clients than the model's, what a graph refuses; health that is watched."""
import json
import queue
import shutil
import threading

import grpc
import numpy
import tritonclient.grpc
import tritonclient.http
from onnx import TensorProto, helper

from served import Served
from typed import main

CONFIG = """max_batch_size: 16
input [ { name: "x" data_type: TYPE_FP32 dims: [ -1 ] allow_ragged_batch: true }, { name: "k" data_type: TYPE_INT64 dims: [ -1 ] allow_ragged_batch: true } ]
batch_input [
  { kind: BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO target_name: "begins" data_type: TYPE_INT64 source_input: "k" },
  { kind: BATCH_ELEMENT_COUNT target_name: "count" data_type: TYPE_FP32 source_input: "x" },
  { kind: BATCH_MAX_ELEMENT_COUNT_AS_SHAPE target_name: "most" data_type: TYPE_FP32 source_input: "x" }
]
output [ { name: "same" data_type: TYPE_FP32 dims: [ -1 ] } ]
batch_output [ { target_name: "same" kind: BATCH_SCATTER_WITH_INPUT_SHAPE source_input: "x" } ]
dynamic_batching { max_queue_delay_microseconds: 2000000 preferred_batch_size: [ 4 ] }
"""


def ragged():
    """same = sigmoid(x), elementwise; sum: of each request's k; size: its count, and nothing of a tensor as long as the longest."""
    value, node = helper.make_tensor_value_info, helper.make_node
    i64, one = TensorProto.INT64, lambda n, v: helper.make_tensor(n, TensorProto.INT64, [len(v)], v)
    nodes = [node("Sigmoid", ["x"], ["same"]), node("CumSum", ["k", "axis"], ["sums"]), node("Concat", ["zero", "sums"], ["from_zero"], axis=0),
             node("Slice", ["begins", "first", "end", "zero"], ["ends"]), node("Slice", ["begins", "zero", "last", "zero"], ["starts"]),
             node("Gather", ["from_zero", "ends"], ["high"]), node("Gather", ["from_zero", "starts"], ["low"]), node("Sub", ["high", "low"], ["sum"]),
             node("ReduceSum", ["most"], ["nothing"], keepdims=1), node("Mul", ["nothing", "none"], ["none_of_it"]), node("Add", ["count", "none_of_it"], ["size"])]
    return helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, ["total"]), value("k", i64, ["other"]), value("begins", i64, ["m"]),
                                          value("count", TensorProto.FLOAT, ["n"]), value("most", TensorProto.FLOAT, ["longest"])],
                             [value("same", TensorProto.FLOAT, ["total"]), value("sum", i64, ["rows"]), value("size", TensorProto.FLOAT, ["n"])],
                             [helper.make_tensor("axis", i64, [], [0]), one("zero", [0]), one("first", [1]), one("end", [2 ** 40]), one("last", [-1]),
                              helper.make_tensor("none", TensorProto.FLOAT, [1], [0.0])])


class Ragged(Served):
    def config_of(self, name):
        return json.loads(self.ask("GET", f"/v2/models/{name}/config")[1])

    def test_requests_of_unlike_lengths_share_a_run(self):
        self.put("ragged", graph=ragged(), config=CONFIG)
        self.serve()
        told = self.config_of("ragged")
        self.assertEqual([(i["name"], i["dims"], i.get("allow_ragged_batch")) for i in told["input"]], [("x", [-1], True), ("k", [-1], True)])
        self.assertEqual([b["kind"] for b in told["batch_input"]], ["BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO", "BATCH_ELEMENT_COUNT", "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE"])
        self.assertIn("bit for bit", told["parameters"]["peri_note"]["string_value"])
        self.assertTrue(told["parameters"]["peri_batch_sizes"]["string_value"].startswith("1,2,3,4"), told)
        c, got = tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{self.grpc_port}"), queue.Queue()
        self.addCleanup(c.close)
        self.assertEqual([b.target_name[0] for b in c.get_model_config("ragged").config.batch_input], ["begins", "count", "most"])
        random = numpy.random.default_rng(1)

        def ask(n, module=tritonclient.grpc):
            x, k = random.standard_normal((1, n)).astype(numpy.float32), random.integers(-9, 9, (1, n + 2))
            inputs = [module.InferInput("x", x.shape, "FP32"), module.InferInput("k", k.shape, "INT64")]
            inputs[0].set_data_from_numpy(x)
            inputs[1].set_data_from_numpy(k)
            return inputs, x, k
        asked = [ask(n) for n in (1, 7, 300, 40)]
        for k, (inputs, _, _) in enumerate(asked):
            c.async_infer("ragged", inputs, lambda result, error, k=k: got.put((k, error or result)))
        for k, r in [got.get(timeout=120) for _ in asked]:
            alone = c.infer("ragged", asked[k][0]) if k == 0 else r
            self.assertEqual(r.as_numpy("same").shape, asked[k][1].shape)
            self.assertTrue(numpy.allclose(r.as_numpy("same"), 1 / (1 + numpy.exp(-asked[k][1])), atol=1e-6))
            self.assertEqual((r.as_numpy("sum").tolist(), r.as_numpy("size").tolist()), ([asked[k][2].sum()], [asked[k][1].size]))
            self.assertEqual(r.as_numpy("same").tobytes(), alone.as_numpy("same").tobytes())
        stats = json.loads(self.ask("GET", "/v2/models/ragged/stats")[1])["model_stats"][0]
        self.assertEqual(stats["inference_count"], 5)
        self.assertLess(stats["execution_count"], 5)
        http = tritonclient.http.InferenceServerClient(f"127.0.0.1:{self.port}")
        inputs, x, k = ask(5, tritonclient.http)
        self.assertEqual(http.infer("ragged", inputs).as_numpy("sum").tolist(), [k.sum()])
        http.close()
        body = {"inputs": [{"name": "x", "shape": [2, 1], "datatype": "FP32", "data": [1, 2]}, {"name": "k", "shape": [2, 1], "datatype": "INT64", "data": [1, 2]}]}
        status, said = self.infer("ragged", body)
        self.assertEqual((status, "batch-size 1" in said["error"]), (400, True), said)

    def test_what_the_graph_refuses(self):
        self.put("rows", config='max_batch_size: 4\ninput { name: "x" dims: -1 allow_ragged_batch: true }\n')
        self.put("gpu", config="instance_group { kind: KIND_GPU }\n")
        self.put("key", config="optimization { execution_accelerators { } }\n")
        self.put("good", config="instance_group { kind: KIND_CPU count: 2 }\n")
        shutil.copytree(self.repository / "good", self.repository / "broken")
        (self.repository / "broken/1/model.engine").write_bytes(b"PERI is not an engine")
        self.serve(ready=False)
        reasons = {(m["name"], m["state"]): m.get("reason", "") for m in self.tried(5)}
        self.assertIn("'x' of the model is [n,4]", reasons["rows", "UNAVAILABLE"])
        self.assertIn("peri build --backend cuda", reasons["gpu", "UNAVAILABLE"])
        self.assertIn("'execution_accelerators'", reasons["key", "UNAVAILABLE"])
        self.assertIn(("good", "READY"), reasons)
        for (name, _), reason in reasons.items():
            self.assertNotIn(str(self.folder), reason, name)
        self.assertIn(str(self.repository), self.log.read_text(), "the log has the paths")

    def test_what_a_ragged_block_says_is_held_against_the_model(self):
        self.put("type", graph=ragged(), config=CONFIG.replace('name: "same" data_type: TYPE_FP32', 'name: "same" data_type: TYPE_INT64'))
        self.put("dims", graph=ragged(), config=CONFIG.replace("TYPE_FP32 dims: [ -1 ] } ]", "TYPE_FP32 dims: [ -1, 3 ] } ]"))
        self.put("input", graph=ragged(), config=CONFIG.replace('name: "x" data_type: TYPE_FP32', 'name: "x" data_type: TYPE_INT32'))
        self.serve(ready=False)
        reasons = {m["name"]: m.get("reason", "") for m in self.tried(3)}
        self.assertIn("output 'same' is of another type than the model's: expected TYPE_FP32, found TYPE_INT64", reasons["type"])
        self.assertIn("output 'same' has other dims than the model's", reasons["dims"])
        self.assertIn("input 'x' is of another type than the model's: expected TYPE_FP32, found TYPE_INT32", reasons["input"])

    def test_reshape(self):
        value = helper.make_tensor_value_info
        graph = helper.make_graph([helper.make_node("Concat", ["x", "x"], ["y"], axis=1)], "g", [value("x", TensorProto.FLOAT, ["n", 1])], [value("y", TensorProto.FLOAT, ["n", 2])])
        self.put("m", graph=graph, config="""max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: [ ] reshape: { shape: [ 1 ] } } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 2, 1 ] reshape: { shape: [ 2 ] } } ]
dynamic_batching { }
""")
        self.serve()
        status, said = self.infer("m", {"inputs": [{"name": "x", "shape": [3], "datatype": "FP32", "data": [1, 2, 3]}]})
        self.assertEqual((status, said["outputs"][0]["shape"], said["outputs"][0]["data"]), (200, [3, 2, 1], [1, 1, 2, 2, 3, 3]), said)
        self.assertEqual(self.infer("m", {"inputs": [{"name": "x", "shape": [3, 1], "datatype": "FP32", "data": [1, 2, 3]}]})[0], 400)
        self.assertEqual([i.get("reshape") for i in self.config_of("m")["input"]], [{"shape": [1]}])

    def test_health_is_watched(self):
        self.put("add")
        self.put("other")
        self.serve("--model-control-mode", "explicit", "--load-model", "add")
        with grpc.insecure_channel(f"127.0.0.1:{self.grpc_port}") as channel:
            check, watch = channel.unary_unary("/grpc.health.v1.Health/Check"), channel.unary_stream("/grpc.health.v1.Health/Watch")
            asked = {name: b"\x0a" + bytes([len(name)]) + name for name in (b"add", b"other", b"../add", b"inference.GRPCInferenceService")}
            self.assertEqual([check(asked[n], timeout=120) for n in (b"add", b"inference.GRPCInferenceService")], [b"\x08\x01"] * 2)
            for name in (b"other", b"../add"):
                with self.assertRaises(grpc.RpcError) as caught:
                    check(asked[name], timeout=120)
                self.assertEqual(caught.exception.code(), grpc.StatusCode.NOT_FOUND)
            whole, seen = watch(b"", timeout=120), watch(asked[b"other"], timeout=120)
            self.assertEqual((next(whole), next(seen)), (b"\x08\x01", b"\x08\x03"))
            self.assertEqual(self.ask("POST", "/v2/repository/models/other/load")[0], 200)
            self.assertEqual(next(seen), b"\x08\x01")
            self.assertEqual(self.ask("POST", "/v2/repository/models/other/unload")[0], 200)
            self.assertEqual(next(seen), b"\x08\x03")
            many = [watch(asked[b"add"], timeout=120) for _ in range(20)]
            self.assertEqual({next(w) for w in many}, {b"\x08\x01"})
            for w in many:
                w.cancel()
            stop = threading.Thread(target=lambda: self.assertIn("PASSED", self.stop()))
            stop.start()
            with self.assertRaises(grpc.RpcError) as caught:
                while True:
                    next(whole)
            stop.join()
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAVAILABLE)


if __name__ == "__main__":
    main()
