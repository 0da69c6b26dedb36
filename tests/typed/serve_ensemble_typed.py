#!/usr/bin/env python3
"""Ensembles of `peri serve`: graphs of models, checked when they are loaded, with the types of their edges."""
import json
import shutil
import socket
import threading

import numpy
import tritonclient.grpc
from onnx import TensorProto, helper, numpy_helper

from served import Served
from typed import main

PORTS = ('input [{ name: "a" data_type: TYPE_FP32 dims: [-1, 4] }]\noutput [{ name: "d" data_type: TYPE_FP32 dims: [-1, 4] }]\n')


def step(model, given, made):
    return f'{{ model_name: "{model}" model_version: -1 input_map {{ key: "x" value: "{given}" }} output_map {{ key: "y" value: "{made}" }} }}'


SUMS = """max_batch_size: 8
sequence_batching {
  max_sequence_idle_microseconds: 30000000
  oldest { max_candidate_sequences: 64 }
  control_input [ { name: "START" control [ { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } ] } ]
  state [ { input_name: "kept" output_name: "keep" data_type: TYPE_FP32 dims: [ 4 ] } ]
}
"""


def running_sum():
    """y: what came since START, in four columns."""
    value = helper.make_tensor_value_info
    ports = [value(n, TensorProto.FLOAT, ["n", 1 if n == "START" else 4]) for n in ("x", "kept", "START", "y", "keep")]
    one = helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0])
    nodes = [helper.make_node("Sub", ["one", "START"], ["going"]), helper.make_node("Mul", ["kept", "going"], ["old"]), helper.make_node("Add", ["old", "x"], ["y"]),
             helper.make_node("Identity", ["y"], ["keep"])]
    return helper.make_graph(nodes, "g", ports[:3], ports[3:], [one])


class Ensembles(Served):
    def ensemble(self, name, *steps, ports=PORTS, more=""):
        (self.repository / name / "1").mkdir(parents=True)
        (self.repository / name / "config.pbtxt").write_text(
            f'platform: "ensemble"\n{ports}ensemble_scheduling {{ {more} step [ {", ".join(steps)} ] }}\n')

    def test_a_cache_forgets_what_replaced_models_said(self):
        self.put("one")
        self.put("two")
        cached = "response_cache { enable: true }\n"
        self.ensemble("both", step("one", "a", "b"), step("two", "b", "d"), ports=PORTS + cached)
        inner = '{ model_name: "both" model_version: -1 input_map { key: "a" value: "a" } output_map { key: "d" value: "d" } }'
        self.ensemble("nested", inner, ports=PORTS + cached)
        self.serve("--model-control-mode", "explicit", "--load-model", "*", "--open-management")

        def said(name, value):
            status, answer = self.infer(name, {"inputs": [{"name": "a", "shape": [1, 4], "datatype": "FP32", "data": [value] * 4}]})
            self.assertEqual(status, 200, answer)
            return answer["outputs"][0]["data"][0]

        def hits(name):
            return self.metric(f'nv_cache_num_hits_per_model{{model="{name}",version="1"}}')
        for name in ("both", "nested"):
            self.assertEqual([said(name, 1), said(name, 1), hits(name)], [3, 3, 1])
        self.put("one", add=100.0)
        self.assertEqual(self.ask("POST", "/v2/repository/models/one/load", "{}")[0], 200)
        for name in ("both", "nested"):
            before = hits(name)
            self.assertEqual([said(name, 1), said(name, 1), hits(name) > before], [102, 102, True], name)

    def test_a_tensor_that_fits_no_step_is_named(self):
        self.put("add")
        self.ensemble("open", step("add", "a", "d"), ports=PORTS.replace("[-1, 4]", "[-1, -1]"))
        self.serve()
        status, said = self.infer("open", {"inputs": [{"name": "a", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]})
        self.assertEqual(status, 400, said)
        self.assertIn("the tensor 'a' does not fit the input 'x' of the ensemble's model 'add': expected f32[n,4], found f32[1,2]", said["error"])

    def test_sequences_go_through(self):
        """A step that remembers: sequences of many clients at once, sent without waiting, in order and apart; what top says of them."""
        self.put("half", graph=helper.make_graph(
            [helper.make_node("Mul", ["x", "h"], ["y"])], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])], [helper.make_tensor("h", TensorProto.FLOAT, [1], [0.5])]),
            config='max_batch_size: 8\ninstance_group [ { count: 3 kind: KIND_CPU } ]\n')
        self.put("sum", graph=running_sum(), config=SUMS)
        ports = 'max_batch_size: 8\n' + PORTS.replace("[-1, 4]", "[4]")
        self.ensemble("both", step("half", "a", "b"), step("sum", "b", "d"), ports=ports)
        self.ensemble("nested", '{ model_name: "both" model_version: -1 input_map { key: "a" value: "a" } output_map { key: "d" value: "d" } }', ports=ports)
        self.serve()
        wrong, lock = [], threading.Lock()

        def follow(sequence, name):
            c, got, done = self.closed(tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{self.grpc_port}")), [], threading.Event()

            def came(result, error):
                got.append((result, error))
                if len(got) == 25:
                    done.set()
            c.start_stream(came)
            for k in range(25):
                x = tritonclient.grpc.InferInput("a", [1, 4], "FP32")
                x.set_data_from_numpy(numpy.full((1, 4), 2 * (sequence + k), numpy.float32))
                c.async_stream_infer(name, [x], sequence_id=sequence, sequence_start=k == 0, sequence_end=k == 24)
            done.wait(120)
            c.stop_stream()
            want = 0
            for k, (result, error) in enumerate(got):
                want += sequence + k
                if error or result.as_numpy("d").tolist() != [[want] * 4]:
                    with lock:
                        wrong.append((name, sequence, k, want, str(error) if error else result.as_numpy("d")))
            if len(got) != 25:
                wrong.append((name, sequence, len(got)))
        threads = [threading.Thread(target=follow, args=(s, ("both", "nested")[s % 2])) for s in range(1, 13)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])
        body = {"inputs": [{"name": "a", "shape": [1, 4], "datatype": "FP32", "data": [2, 2, 2, 2]}]}
        status, said = self.infer("both", body)
        self.assertEqual(status, 400)
        self.assertIn("correlation ID", said["error"])
        status, said = self.infer("both", {**body, "parameters": {"sequence_id": 99}})
        self.assertIn("must specify the START flag", said["error"])
        for k in range(2):
            status, said = self.infer("both", {**body, "parameters": {"sequence_id": "left", "sequence_start": k == 0}})
            self.assertEqual((status, said["outputs"][0]["data"]), (200, [k + 1] * 4))
        top = self.peri("top", f"http://127.0.0.1:{self.metrics_port}", "--once")
        lines = top.stdout.decode().splitlines()
        self.assertIn("  sequences 1 of 64; 13 begun, 12 ended", lines)  # those of the other go through it
        self.assertTrue(any(line.startswith("  sequences 1 of 64, 16 B kept; 13 begun, 12 ended") for line in lines), lines)
        said = json.loads(self.peri("top", f"http://127.0.0.1:{self.metrics_port}", "--once", "--json", "-").stdout)
        self.assertEqual({m["name"]: m["sequences"]["active"] for m in said["models"] if "sequences" in m}, {"both": 1, "nested": 0, "sum": 1})

    def test_requests_at_a_step_are_bounded(self):
        """max_inflight_requests: all are answered, and no more of them stand at a model than that."""
        size = 400
        weight = numpy_helper.from_array(numpy.eye(size, dtype=numpy.float32), "w")
        value = helper.make_tensor_value_info
        nodes = [helper.make_node("MatMul", ["x" if k == 0 else f"t{k}", "w"], ["y" if k == 9 else f"t{k + 1}"]) for k in range(10)]
        self.put("slow", graph=helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, ["n", size])], [value("y", TensorProto.FLOAT, ["n", size])], [weight]),
                 config='instance_group [ { count: 1 kind: KIND_CPU } ]\n')
        ports = PORTS.replace("4]", f"{size}]")
        self.ensemble("bounded", step("slow", "a", "b"), step("slow", "b", "d"), ports=ports, more="max_inflight_requests: 2")
        self.serve("--max-queue", "4", "--inline-us", "0")
        config = json.loads(self.ask("GET", "/v2/models/bounded/config")[1])["ensemble_scheduling"]
        self.assertEqual((config["max_inflight_requests"], [s["model_name"] for s in config["step"]]), (2, ["slow", "slow"]))
        answers = []

        def ask(k):
            body = {"inputs": [{"name": "a", "shape": [40, size], "datatype": "FP32", "data": [k] * (40 * size)}]}
            status, said = self.infer("bounded", body)
            answers.append(status == 200 and set(said["outputs"][0]["data"]) == {k} or said)
        threads = [threading.Thread(target=ask, args=[k]) for k in range(24)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(answers, [True] * 24, "a queue of four would refuse some of 24 at once")

    def test_clients_that_leave(self):
        """Requests whose clients go while a step works on them are dropped, and the next one is answered."""
        size = 512
        weight = numpy_helper.from_array(numpy.eye(size, dtype=numpy.float32), "w")
        value = helper.make_tensor_value_info
        nodes = [helper.make_node("MatMul", ["x" if k == 0 else f"t{k}", "w"], ["y" if k == 39 else f"t{k + 1}"]) for k in range(40)]
        self.put("slow", graph=helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, ["n", size])], [value("y", TensorProto.FLOAT, ["n", size])], [weight]),
                 config='instance_group [ { count: 1 kind: KIND_CPU } ]\n')
        self.ensemble("twice", step("slow", "a", "b"), step("slow", "b", "d"), ports=PORTS.replace("4]", f"{size}]"))
        self.serve()
        x = numpy.ones((512, size), numpy.float32)
        head = json.dumps({"inputs": [{"name": "a", "shape": list(x.shape), "datatype": "FP32", "parameters": {"binary_data_size": x.nbytes}}],
                           "parameters": {"binary_data_output": True}})
        request = (f"POST /v2/models/twice/infer HTTP/1.1\r\nHost: a\r\nInference-Header-Content-Length: {len(head)}\r\n"
                   f"Content-Length: {len(head) + x.nbytes}\r\n\r\n{head}").encode() + x.tobytes()
        gone = 'nv_inference_request_failure{model="twice",version="1",reason="CANCELED"'
        for _ in range(10):
            sockets = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(4)]
            for s in sockets:
                s.sendall(request)
            for s in sockets:
                s.close()
        self.wait_for(lambda: self.metric(gone) >= 10)
        status, said, _ = self.ask("POST", "/v2/models/twice/infer", head.encode() + x.tobytes(), {"Inference-Header-Content-Length": str(len(head))})
        self.assertEqual((status, said[-x.nbytes:]), (200, x.tobytes()))

    def test_models_come_and_go_with_it(self):
        """Explicit control by a client of Triton's: an ensemble brings its models, and takes away those that nobody else has."""
        for name in ("one", "ten"):
            self.put(name, add=1.0)
        self.ensemble("all", step("ten", "a", "b"), step("one", "b", "d"))
        self.serve("--model-control-mode", "explicit", "--load-model", "ten")
        client = self.closed(tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{self.grpc_port}"))
        ready = lambda: [name for name in ("all", "one", "ten") if client.is_model_ready(name)]
        client.load_model("all")
        self.assertEqual(ready(), ["all", "one", "ten"])
        client.unload_model("all")
        self.assertEqual(ready(), ["one", "ten"])
        client.load_model("all")
        client.unload_model("all", unload_dependents=True)
        self.assertEqual(ready(), ["ten"])
        status, said, _ = self.ask("POST", "/v2/repository/models/ten/unload", '{"parameters":{"unload_dependents":"yes"}}')
        self.assertEqual((status, "unload_dependents" in said.decode()), (400, True))
        self.assertEqual(ready(), ["ten"])

    def test_a_graph_of_models(self):
        self.put("one", add=1.0)
        self.put("ten", add=10.0)
        self.ensemble("all", step("ten", "b", "c"), step("one", "a", "b"), step("one", "c", "d"))
        self.serve()
        request = {"inputs": [{"name": "a", "shape": [2, 4], "datatype": "FP32", "data": list(range(8))}]}
        for _ in range(5):
            status, said = self.infer("all", request)
            self.assertEqual((status, said["outputs"]), (200, [{"name": "d", "datatype": "FP32", "shape": [2, 4], "data": [v + 12 for v in range(8)]}]))
        self.assertEqual(self.metric('nv_inference_request_success{model="one",version="1"'), 10)
        self.assertEqual(self.infer("all", {"inputs": [{"name": "a", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}]})[0], 400)
        self.assertEqual(json.loads(self.ask("GET", "/v2/models/all")[1])["inputs"], [{"name": "a", "datatype": "FP32", "shape": [-1, 4]}])
        self.assertIn("PASSED serve: 5 requests in ", self.stop(), "those of clients: neither the steps of an ensemble nor what is refused")

    def row(self, name):
        """The state and the reason of a model's only row of the index."""
        rows = [r for r in json.loads(self.ask("POST", "/v2/repository/index")[1]) if r["name"] == name]
        self.assertEqual(len(rows), 1, rows)
        return rows[0]["state"], rows[0].get("reason", "")

    def states(self, name):
        """Whether the index, the model's readiness and the server's say that it is ready."""
        return [self.row(name)[0] == "READY"] + [self.ask("GET", path)[0] == 200 for path in (f"/v2/models/{name}/ready", "/v2/health/ready")]

    def test_a_model_without_inputs(self):
        """A step of constants is run for each request, with a bound on requests and without."""
        value = helper.make_tensor_value_info
        constant = helper.make_tensor("c", TensorProto.FLOAT, [4], [1, 2, 3, 4])
        self.put("const", graph=helper.make_graph([helper.make_node("Add", ["c", "c"], ["y"])], "g", [], [value("y", TensorProto.FLOAT, [4])], [constant]))
        self.put("plus", graph=helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g",
                                                 [value("x", TensorProto.FLOAT, ["n", 4]), value("w", TensorProto.FLOAT, [4])], [value("y", TensorProto.FLOAT, ["n", 4])]))
        steps = ('{ model_name: "const" output_map { key: "y" value: "k" } }',
                 '{ model_name: "plus" input_map [ { key: "x" value: "a" }, { key: "w" value: "k" } ] output_map { key: "y" value: "d" } }')
        self.ensemble("some", *steps, more="max_inflight_requests: 2")
        self.ensemble("any", *steps)
        self.serve()
        for name in ("some", "any") * 3:
            status, said = self.infer(name, {"inputs": [{"name": "a", "shape": [1, 4], "datatype": "FP32", "data": [1, 1, 1, 1]}]})
            self.assertEqual((status, said.get("error"), said.get("outputs", [{}])[0].get("data")), (200, None, [3, 5, 7, 9]))

    def test_it_follows_its_models_at_once(self):
        """Unloaded, loaded again: the index and both readinesses say so with the answer, also of an ensemble of an ensemble."""
        self.put("one", add=1.0)
        self.ensemble("z", step("one", "a", "d"))
        self.ensemble("a", '{ model_name: "z" model_version: -1 input_map { key: "a" value: "a" } output_map { key: "d" value: "d" } }')
        self.serve("--model-control-mode", "explicit", "--load-model", "a", "--canary-secs", "30")
        for _ in range(3):
            self.assertEqual(self.ask("POST", "/v2/repository/models/one/unload")[0], 200)
            self.assertEqual([self.states(name) for name in ("a", "z")], [[False] * 3] * 2)
            self.assertEqual(self.row("z")[1], "its model 'one': the model is not loaded")
            self.assertEqual(self.row("a")[1], "its model 'z': its model 'one': the model is not loaded")
            self.assertEqual(self.ask("POST", "/v2/repository/models/one/load")[0], 200)
            self.assertEqual([self.states(name) for name in ("a", "z")], [[True] * 3] * 2)

    def test_a_model_is_replaced_by_one_that_does_not_fit(self):
        """The index, the log and readiness say why, and so does each answer, which blames the server; until one that fits is back."""
        request = {"inputs": [{"name": "a", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]}
        wider = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 5])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 5])])
        self.put("one", 1, config="version_policy: { all { } }\n")
        self.put("one", 3, graph=wider)
        self.ensemble("pinned", step("one", "a", "d").replace("model_version: -1", "model_version: 1"))
        self.ensemble("latest", step("one", "a", "d"))
        self.serve("--model-control-mode", "explicit", "--load-model", "pinned")
        status, said, _ = self.ask("POST", "/v2/repository/models/latest/load")
        self.assertEqual(status, 400)
        self.assertIn("input 'x' of step 'one' is another tensor than that of the ensemble's input 'a': expected f32[n,5], found f32[", said.decode())
        self.put("one", 3)
        for model in ("one", "latest"):
            self.assertEqual(self.ask("POST", f"/v2/repository/models/{model}/load")[0], 200)
        self.assertEqual((self.states("latest"), self.infer("latest", request)[0]), ([True] * 3, 200))
        self.put("one", 3, graph=wider)
        self.assertEqual(self.ask("POST", "/v2/repository/models/one/load")[0], 200)
        self.assertEqual((self.states("latest"), self.states("pinned")), ([False] * 3, [True, True, False]))
        why = "its models no longer fit: input 'x' of step 'one' is another tensor than that of the ensemble's input 'a': expected f32[n,5], found f32["
        self.assertIn(why, self.row("latest")[1])
        self.assertIn("latest version 1 is not ready: " + why, self.log.read_text())
        status, said = self.infer("latest", request)
        self.assertEqual(status, 503)
        self.assertIn("the ensemble's models no longer fit: input 'x' of step 'one'", said["error"])
        self.assertEqual(self.infer("pinned", request)[0], 200)
        value = helper.make_tensor_value_info
        self.put("one", 3, graph=helper.make_graph([helper.make_node("Neg", ["x"], ["z"])], "g", [value("x", TensorProto.FLOAT, ["n", 4])], [value("z", TensorProto.FLOAT, ["n", 4])]))
        self.assertEqual(self.ask("POST", "/v2/repository/models/one/load")[0], 200)
        status, said = self.infer("latest", request)
        self.assertEqual((status, "output 'y' of step 'one' is none of the model's" in said["error"]), (503, True), said)
        shutil.rmtree(self.repository / "one/1")
        self.assertEqual(self.ask("POST", "/v2/repository/models/one/load")[0], 200)
        self.assertEqual(self.row("pinned")[1], "its model 'one': the model has no version 1 now; served: 3")
        self.assertIn("the ensemble's model 'one': the model has no version 1 now; served: 3", self.infer("pinned", request)[1]["error"])

    def test_what_does_not_fit_is_refused_at_load(self):
        self.put("one", add=1.0)
        self.ensemble("circle", step("one", "c", "b"), step("one", "b", "c"), step("one", "a", "d"))
        self.ensemble("missing", step("none", "a", "d"))
        self.put("broken")
        (self.repository / "broken/1/model.engine").write_text("not an engine")
        self.ensemble("failed", step("broken", "a", "d"))
        self.ensemble("twice", step("one", "a", "d"), step("one", "a", "d"))
        self.ensemble("types", step("one", "a", "d"), ports=PORTS.replace('"a" data_type: TYPE_FP32', '"a" data_type: TYPE_INT8'))
        self.ensemble("dims", step("one", "a", "d"), ports=PORTS.replace('"d" data_type: TYPE_FP32 dims: [-1, 4]', '"d" data_type: TYPE_FP32 dims: [-1, 5]'))
        self.ensemble("output", step("one", "a", "e"))
        self.ensemble("port", step("one", "a", "d").replace('key: "x"', 'key: "z"'))
        self.ensemble("input", step("one", "a", "d"), ports=PORTS.replace("input [", 'input [{ name: "b" data_type: TYPE_FP32 dims: [-1, 4] }, '))
        self.ensemble("tensor", step("one", "a", "d"), step("one", "a", "e"))
        inner = step("one", "a", "d").replace('key: "x"', 'key: "a"').replace('key: "y"', 'key: "d"')
        for name, of in (("round", "back"), ("back", "round"), ("beside", "back")):
            self.ensemble(name, inner.replace('"one"', f'"{of}"'))
        self.put("four", config="max_batch_size: 4\n")
        self.ensemble("large", step("four", "a", "d"), ports="max_batch_size: 8\n" + PORTS.replace("[-1, 4]", "[4]"))
        self.serve(ready=False)
        said = {row["name"]: row.get("reason", "") for row in self.tried(17)}
        for name, want in (("circle", "circle"), ("missing", "step 'none': there is no such model"), ("failed", "step 'broken': the model could not be loaded"), ("twice", "made twice"), ("types", "i8"), ("dims", "5"),
                           ("output", "made by no step"), ("input", "the ensemble's input 'b' is used by no step"), ("tensor", "tensor 'e', output 'y' of step 'one', is used by no step"), ("port", "'z'"), ("one", ""),
                           ("round", "step 'back' leads back to the ensemble itself"), ("back", "step 'round' leads back to the ensemble itself"), ("beside", "step 'back': the model could not be loaded"),
                           ("large", "the ensemble's max_batch_size is above that of step 'four': expected at most 4, found 8")):
            self.assertIn(want, said[name], name)

    def test_a_step_runs_no_larger_batch_than_its_model_takes(self):
        self.put("four", config="max_batch_size: 4\n")
        self.ensemble("rows", step("four", "a", "d"))
        self.serve()
        for rows, wanted in ((4, 200), (5, 400)):
            status, said = self.infer("rows", {"inputs": [{"name": "a", "shape": [rows, 4], "datatype": "FP32", "data": [1] * (4 * rows)}]})
            self.assertEqual(status, wanted, said)
        self.assertIn("the tensor 'a' has 5 rows, and the ensemble's model 'four' takes at most 4", said["error"])


if __name__ == "__main__":
    main()
