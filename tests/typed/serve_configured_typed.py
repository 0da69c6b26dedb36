#!/usr/bin/env python3
"""`peri serve` over repositories written for Triton: every form of configuration that its documentation shows for what this server does."""
import json
import struct
import threading

import numpy
import onnx
import tritonclient.grpc
import tritonclient.http
from onnx import TensorProto, helper, numpy_helper
from tritonclient.utils import InferenceServerException

from served import Served
from typed import main

PORTS = """input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 4 ] } ]
"""


def picture():
    """Scores of five classes of an image, NHWC, batch 1: sums over a fifth of it each."""
    value = helper.make_tensor_value_info
    shape = numpy_helper.from_array(numpy.array([1, 5, 12], numpy.int64), "shape")
    axes = numpy_helper.from_array(numpy.array([2], numpy.int64), "axes")
    nodes = [helper.make_node("Reshape", ["image:0", "shape"], ["r"]), helper.make_node("ReduceSum", ["r", "axes"], ["scores:0"], keepdims=0)]
    return helper.make_graph(nodes, "g", [value("image:0", TensorProto.FLOAT, [1, 5, 4, 3])], [value("scores:0", TensorProto.FLOAT, [1, 5])], [shape, axes])


def sum_and_difference(kind):
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("Add", ["A", "B"], ["SUM"]), helper.make_node("Sub", ["A", "B"], ["DIFFERENCE"])]
    return helper.make_graph(nodes, "g", [value(n, kind, ["n", 16]) for n in "AB"], [value(n, kind, ["n", 16]) for n in ("SUM", "DIFFERENCE")])


def counter():
    """What came since START, by a state of the server's own."""
    value = helper.make_tensor_value_info
    ports = [value(n, TensorProto.INT32, ["n", 1]) for n in ("INPUT", "kept", "START", "READY", "OUTPUT", "keep")]
    one = numpy_helper.from_array(numpy.array([1], numpy.int32), "one")
    nodes = [helper.make_node("Sub", ["one", "START"], ["going"]), helper.make_node("Mul", ["kept", "going"], ["old"]), helper.make_node("Add", ["old", "INPUT"], ["new"]),
             helper.make_node("Mul", ["new", "READY"], ["OUTPUT"]), helper.make_node("Identity", ["OUTPUT"], ["keep"])]
    return helper.make_graph(nodes, "g", ports[:4], ports[4:], [one])


class Configured(Served):
    def note(self, name):
        said = json.loads(self.ask("GET", f"/v2/models/{name}/config")[1])
        return said["parameters"].get("peri_note", {}).get("string_value", "")

    def why(self, name, count):
        """The index's reason for a model that did not load, once all have been tried."""
        return {r["name"]: r.get("reason", "") for r in self.tried(count)}[name]

    def test_an_image_classifier(self):
        """Its own batch in the model, dims without it, a format, labels, and classes asked for by both clients."""
        self.put("flowers", graph=picture(), config="""
name: "flowers"
platform: "onnxruntime_onnx"
max_batch_size : 0
input [
  { name: "image:0" data_type: TYPE_FP32 format: FORMAT_NHWC dims: [ 5, 4, 3 ] reshape { shape: [ 1, 5, 4, 3 ] } }
]
output [
  { name: "scores:0" data_type: TYPE_FP32 dims: [ 5 ] reshape { shape: [ 1, 5 ] } label_filename: "flowers.txt" }
]
""")
        (self.repository / "flowers/flowers.txt").write_text("aster\nbryony\r\n\ndahlia\n")
        self.serve()
        x = numpy.zeros((5, 4, 3), numpy.float32)
        x[:, 0, 0] = [0.5, 3, -1, 3, 2.25]
        want = [b"3.000000:1:bryony", b"3.000000:3:dahlia", b"2.250000:4"]
        for module, port in ((tritonclient.http, self.port), (tritonclient.grpc, self.grpc_port)):
            with module.InferenceServerClient(f"127.0.0.1:{port}") as c:
                given = module.InferInput("image:0", x.shape, "FP32")
                given.set_data_from_numpy(x)
                asked = module.InferRequestedOutput("scores:0", class_count=3)
                self.assertEqual(c.infer("flowers", [given], outputs=[asked]).as_numpy("scores:0").tolist(), want)
                self.assertEqual(c.infer("flowers", [given]).as_numpy("scores:0").tolist(), [0.5, 3, -1, 3, 2.25])
                asked = module.InferRequestedOutput("scores:0", class_count=99)
                self.assertEqual(c.infer("flowers", [given], outputs=[asked]).as_numpy("scores:0").shape, (5,))
        body = {"inputs": [{"name": "image:0", "shape": [5, 4, 3], "datatype": "FP32", "data": x.tolist()}],
                "outputs": [{"name": "scores:0", "parameters": {"classification": 1}}]}
        status, said = self.infer("flowers", body)
        self.assertEqual((status, said["outputs"]), (200, [{"name": "scores:0", "datatype": "BYTES", "shape": [1], "data": ["3.000000:1:bryony"]}]))
        body["outputs"][0]["parameters"]["classification"] = -1
        self.assertEqual(self.infer("flowers", body)[0], 400)
        config = json.loads(self.ask("GET", "/v2/models/flowers/config")[1])
        self.assertEqual(config["output"][0]["label_filename"], "flowers.txt")

    def test_a_queue_without_batches(self):
        """As in Triton: dynamic_batching of a model without batches is served, each request by itself, by the rules of its queue."""
        self.put("none", config="dynamic_batching { priority_levels: 2 default_priority_level: 1 }")
        self.put("one", config="max_batch_size: 1 dynamic_batching { }")
        self.serve()
        self.assertEqual((self.note("none"), self.note("one")), ("no batches: max_batch_size is 0", "no batches: max_batch_size is 1"))
        for name in ("none", "one"):
            status, said = self.infer(name, self.rows([[1, 2, 3, 4]]))
            self.assertEqual((status, said["outputs"][0]["data"]), (200, [2, 3, 4, 5]))
        status, said = self.infer("one", self.rows([[1, 2, 3, 4]] * 2))
        self.assertEqual((status, "batch-size must be <= 1" in said["error"]), (400, True), said)

    def test_policies_of_queues_are_told(self):
        self.put("queued", config="max_batch_size: 8 dynamic_batching { priority_levels: 2 default_priority_level: 1 default_queue_policy { timeout_action: DELAY max_queue_size: 9 } "
                 "priority_queue_policy { key: 2 value { default_timeout_microseconds: 70000 allow_timeout_override: true } } }")
        self.serve()
        for module, port, words in ((tritonclient.http, self.port, {}), (tritonclient.grpc, self.grpc_port, {"as_json": True})):
            with module.InferenceServerClient(f"127.0.0.1:{port}") as c:
                told = c.get_model_config("queued", **words)
                batching = told.get("config", told)["dynamic_batching"]
                self.assertEqual((batching["default_queue_policy"]["timeout_action"], batching["default_queue_policy"]["max_queue_size"]), ("DELAY", 9))
                self.assertEqual(list(batching["priority_queue_policy"]), ["2"])
                second = batching["priority_queue_policy"]["2"]
                self.assertEqual((int(second["default_timeout_microseconds"]), second["allow_timeout_override"], second.get("timeout_action", "REJECT")), (70000, True, "REJECT"))

    def test_classes_of_a_batch(self):
        self.put("add", config="max_batch_size: 8\n" + PORTS)
        self.put("lost", config="max_batch_size: 8\n" + PORTS.replace("dims: [ 4 ] } ]\noutput", "dims: [ 4 ] } ]\noutput").replace(
            'name: "y"', 'label_filename: "none.txt" name: "y"'))
        self.serve(ready=False)
        self.assertIn("none.txt", self.why("lost", 2))
        body = self.rows([[1, 4, 2, 3], [9, 9, -9, 9], ["NaN", 1, 2, 0]])
        body["inputs"][0]["data"][2] = [float("nan"), 1, 2, 0]
        head = {"inputs": [{"name": "x", "shape": [3, 4], "datatype": "FP32", "parameters": {"binary_data_size": 48}}],
                "outputs": [{"name": "y", "parameters": {"classification": 2}}]}
        data = struct.pack("<12f", *(v for row in body["inputs"][0]["data"] for v in row))
        head = json.dumps(head).encode()
        status, said = self.infer("add", head + data, headers={"Inference-Header-Content-Length": str(len(head))})
        self.assertEqual((status, said["outputs"][0]["shape"]), (200, [3, 2]))
        self.assertEqual(said["outputs"][0]["data"], ["5.000000:1", "4.000000:3", "10.000000:0", "10.000000:1", "3.000000:2", "2.000000:1"])

    def test_models_of_two_inputs(self):
        for name, kind, np in (("ints", "INT32", numpy.int32), ("bytes", "INT8", numpy.int8)):
            self.put(name, graph=sum_and_difference(getattr(TensorProto, kind)), config=f"""
name: "{name}"
platform: "onnxruntime_onnx"
max_batch_size: 8
input [ {{ name: "A" data_type: TYPE_{kind} dims: [ 16 ] }}, {{ name: "B" data_type: TYPE_{kind} dims: [ 16 ] }} ]
output [ {{ name: "SUM" data_type: TYPE_{kind} dims: [ 16 ] }}, {{ name: "DIFFERENCE" data_type: TYPE_{kind} dims: [ 16 ] }} ]
version_policy: {{ all {{ }}}}
""")
        self.serve()
        for name, kind, np in (("ints", "INT32", numpy.int32), ("bytes", "INT8", numpy.int8)):
            with tritonclient.http.InferenceServerClient(f"127.0.0.1:{self.port}") as c:
                inputs = []
                for n, v in (("A", numpy.arange(16, dtype=np)), ("B", numpy.full(16, 3, np))):
                    inputs.append(tritonclient.http.InferInput(n, [1, 16], kind))
                    inputs[-1].set_data_from_numpy(v[None])
                answer = c.infer(name, inputs)
                self.assertEqual(answer.as_numpy("SUM").tolist(), [list(range(3, 19))])
                self.assertEqual(answer.as_numpy("DIFFERENCE").tolist(), [list(range(-3, 13))])

    def test_a_sequence_with_a_parameter_of_its_backend(self):
        self.put("running", graph=counter(), config="""
name: "running"
platform: "onnxruntime_onnx"
max_batch_size: 8
sequence_batching {
  max_sequence_idle_microseconds: 10000000
  oldest { max_candidate_sequences: 1024 max_queue_delay_microseconds: 1000 }
  control_input [
    { name: "START" control [ { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } ] },
    { name: "READY" control [ { kind: CONTROL_SEQUENCE_READY int32_false_true: [ 0, 1 ] } ] }
  ]
  state [ { input_name: "kept" output_name: "keep" data_type: TYPE_INT32 dims: [ 1 ] } ]
}
input [ { name: "INPUT" data_type: TYPE_INT32 dims: [ 1 ] } ]
output [ { name: "OUTPUT" data_type: TYPE_INT32 dims: [ 1 ] } ]
parameters [ { key: "work_takes_ms" value: { string_value: "3" } } ]
instance_group [ { count: 2 kind: KIND_CPU } ]
""")
        self.serve()
        self.assertIn("'work_takes_ms' changes nothing", self.note("running"))
        config = json.loads(self.ask("GET", "/v2/models/running/config")[1])
        self.assertEqual(config["parameters"]["work_takes_ms"], {"string_value": "3"})
        for k, (value, want) in enumerate(((5, 5), (6, 11), (7, 18))):
            request = {"inputs": [{"name": "INPUT", "shape": [1, 1], "datatype": "INT32", "data": [value]}],
                       "parameters": {"sequence_id": 42, "sequence_start": k == 0, "sequence_end": k == 2}}
            status, said = self.infer("running", request)
            self.assertEqual((status, said["outputs"][0]["data"]), (200, [want]), said)

    def test_places_and_claims(self):
        """Groups of GPUs, the rate limiter's resources and priorities, host policies: loaded, or refused with the flag that would serve them."""
        claim = 'instance_group [ { count: 2 kind: KIND_CPU %s rate_limiter { resources [ { name: "R1" count: 4 }, { name: "R2" global: True count: 2 } ] priority: 2 } } ]\n'
        self.put("claims", add=2.0, config="max_batch_size: 4\ndynamic_batching { }\n" + PORTS + claim % 'host_policy: "policy_0"')
        self.put("other", add=3.0, config="max_batch_size: 4\n" + PORTS + claim % "" + "optimization { priority: PRIORITY_MAX }\n")
        self.put("greedy", config=PORTS.replace("[ 4 ]", "[ -1, 4 ]") + claim.replace("count: 4", "count: 9") % "")
        self.put("unlike", config=PORTS.replace("[ 4 ]", "[ -1, 4 ]") + claim.replace("global: True", "global: False") % "")
        self.put("gpus", config="instance_group [ { count: 1 kind: KIND_GPU gpus: [ 0 ] }, { count: 2 kind: KIND_GPU gpus: [ 1, 2 ] } ]\n")
        self.serve("--rate-limit-resource", "R1:4", ready=False)
        self.assertIn("hold 9 of the resource 'R1', of which there are 4", self.why("greedy", 5))
        self.assertIn("'R2' is global for one model", self.why("unlike", 5))
        self.assertIn("GPU 1", self.why("gpus", 5))
        self.assertIn("--worker-devices cuda:0,cuda:1,cuda:2", self.why("gpus", 5))
        self.assertIn("host_policy 'policy_0' changes nothing", self.note("claims"))
        with tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{self.grpc_port}") as c:
            limiter = c.get_model_config("claims").config.instance_group[0].rate_limiter
            self.assertEqual((limiter.priority, [(r.name, getattr(r, "global"), r.count) for r in limiter.resources]), (2, [("R1", False, 4), ("R2", True, 2)]))
        wrong = []

        def ask(name, add):
            for k in range(100):
                status, said = self.infer(name, self.rows([[k, k, k, k]]))
                if status != 200 or said["outputs"][0]["data"] != [k + add] * 4:
                    wrong.append((name, said))
        threads = [threading.Thread(target=ask, args=a) for a in (("claims", 2), ("other", 3)) * 3]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])
        self.kill()
        for wrong in ("R1", "R1:", ":3", "R1:x", "R1:-1"):
            self.assertIn("NAME:COUNT", self.ends(2, "serve", "--model-repository", self.repository, f"--rate-limit-resource={wrong}"))

    def test_gpus_by_number(self):
        """Devices that compute as GPUs do stand for them: a model runs where its groups say."""
        folder = self.repository / "there/1"
        folder.mkdir(parents=True)
        self.put("model")
        self.ends(0, "build", self.folder / "model-1.onnx", "-o", folder / "model.engine", "--backend", "null", "--no-tune", "--quiet")
        (folder.parent / "config.pbtxt").write_text("instance_group [ { count: 1 kind: KIND_GPU gpus: [ 0 ] }, { count: 3 kind: KIND_GPU gpus: [ 2 ] } ]\n")
        self.serve("--worker-devices", "null:0,null:1,null:2")
        self.assertEqual(self.infer("there", self.rows([[1, 2, 3, 4]]))[1]["outputs"][0]["data"], [2, 3, 4, 5])
        config = json.loads(self.ask("GET", "/v2/models/there/config")[1])
        for worker in ("worker 0, null:0", "worker 2, null:2"):
            used, total = (f'nv_gpu_memory_{what}_bytes{{gpu_uuid="{worker}"}}' for what in ("used", "total"))
            self.wait_for(lambda: used in self.ask("GET", "/metrics", port=self.metrics_port)[1].decode())
            self.assertLess(self.metric(used), self.metric(total))
        self.assertEqual([(g["kind"], g["count"], g["gpus"]) for g in config["instance_group"]], [("KIND_GPU", 1, [0]), ("KIND_GPU", 3, [2])])

    def test_named_configurations_and_files_in_folders(self):
        """configs/NAME.pbtxt where the server is told NAME, config.pbtxt elsewhere; model.onnx as a folder of its files."""
        self.put("one", config="max_batch_size: 2\n" + PORTS)
        (self.repository / "one/configs").mkdir()
        (self.repository / "one/configs/large.pbtxt").write_text("max_batch_size: 16\n" + PORTS)
        self.put("two", config="max_batch_size: 3\n" + PORTS)
        folder = self.repository / "outside/1/model.onnx"
        folder.mkdir(parents=True)
        made = onnx.load(self.folder / "one-1.onnx")
        onnx.save(made, folder / "model.onnx", save_as_external_data=True, location="weights", size_threshold=0)
        self.serve("--model-config-name", "large")
        sizes = [json.loads(self.ask("GET", f"/v2/models/{m}/config")[1])["max_batch_size"] for m in ("one", "two")]
        self.assertEqual(sizes, [16, 3])
        self.assertEqual(self.infer("outside", self.rows([[1, 2, 3, 4]]))[1]["outputs"][0]["data"], [2, 3, 4, 5])
        self.stop()
        self.serve()
        self.assertEqual(json.loads(self.ask("GET", "/v2/models/one/config")[1])["max_batch_size"], 2)
        self.stop()
        self.assertIn("plain file name", self.ends(2, "serve", "--model-repository", self.repository, "--model-config-name", "../x"))


assert InferenceServerException
if __name__ == "__main__":
    main()
