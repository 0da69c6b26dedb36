#!/usr/bin/env python3
"""`peri serve` over a repository that changes: versions, control modes, reloads under load, batches that change no bit, overload."""
import http.client
import json
import os
import random
import shutil
import signal
import threading

import grpc as rpc
import numpy
import tritonclient.grpc
import tritonclient.http
from onnx import TensorProto, helper, numpy_helper
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

from served import HEAD, Served
from typed import DIGITS, main

BATCHES = 'max_batch_size: 8\ndynamic_batching { max_queue_delay_microseconds: 2000 }\ninstance_group { count: 1 kind: KIND_CPU }\n'


class Repository(Served):
    def value(self, name="add", version=None):
        path = f"/v2/models/{name}/" + (f"versions/{version}/" if version else "") + "infer"
        status, said, _ = self.ask("POST", path, json.dumps(self.rows([[0, 0, 0, 0]])))
        return json.loads(said)["outputs"][0]["data"][0] if status == 200 else status

    def test_versions_and_onnx(self):
        self.put("add", 1, add=1.0)
        self.put("add", 2, add=2.0, engine=False)
        self.put("both", 1, add=1.0)
        self.put("both", 2, add=2.0, config="version_policy: { all { } }")
        self.serve()
        self.assertEqual((self.value(), self.value(version=1), self.value(version=2)), (2.0, 404, 2.0))
        self.assertEqual((self.value("both"), self.value("both", 1), self.value("both", 2)), (2.0, 1.0, 2.0))
        self.stop()
        self.serve()  # the engine of the .onnx was kept
        self.assertEqual(self.value(), 2.0)

    def test_a_restart_with_other_flags_serves_another_engine(self):
        self.put("add", engine=False)
        kept = self.folder / "kept"
        self.environment["PERI_CACHE"] = str(kept)

        def served(*flags):
            self.serve(*flags)
            try:
                ports = json.loads(self.ask("GET", "/v2/models/add")[1])["inputs"]
                return ports[0]["datatype"], self.value() if ports[0]["datatype"] == "FP32" else None
            finally:
                self.stop()
        self.assertEqual(served("--no-cache"), ("FP32", 1.0))
        self.assertEqual(list(kept.glob("serve/*")), [])
        self.assertEqual(served(), ("FP32", 1.0))
        first = list(kept.glob("serve/*.engine"))
        self.assertEqual(served("--io-dtype", "f16"), ("FP16", None))
        self.assertEqual(served("--provider", "reference"), ("FP32", 1.0))
        self.assertEqual((len(first), len(list(kept.glob("serve/*.engine")))), (1, 3))
        # What is kept is what is served, and --no-cache looks at nothing that is.
        self.put("other", add=5.0)
        first[0].write_bytes((self.repository / "other/1/model.engine").read_bytes())
        self.assertEqual(served(), ("FP32", 5.0))
        self.assertEqual(served("--no-cache"), ("FP32", 1.0))

    def test_types_of_inputs_and_outputs_are_changed_where_they_can_be(self):
        value = helper.make_tensor_value_info
        ports = [value(name, TensorProto.INT64, ["n", 4]) for name in "xy"]
        self.put("whole", engine=False, graph=helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "g", ports[:1], ports[1:]))
        self.put("add", engine=False)
        self.serve("--io-dtype", "f16")
        kinds = [json.loads(self.ask("GET", f"/v2/models/{name}")[1])["inputs"][0]["datatype"] for name in ("whole", "add")]
        self.assertEqual(kinds, ["INT64", "FP16"])

    def test_kept_engines_have_a_limit(self):
        """The least recently used go first. What a server uses stays, whoever else loads and whoever clears."""
        kept = self.folder / "cache/serve"
        kept.mkdir(parents=True)
        self.environment["PERI_ENGINE_CACHE_MIB"] = "1"
        other = kept / "0123456789abcdef.engine"

        def put_other(when):
            other.write_bytes(bytes(2 << 20))
            os.utime(other, (when, when))

        put_other(1000)
        self.put("m", engine=False)
        self.serve()
        (mine,) = kept.glob("*.engine")
        self.assertNotEqual(mine, other)
        os.utime(mine, (1000, 1000))
        put_other(2000)
        first, self.server = self.server, None
        try:
            self.serve("--io-dtype", "f16")  # writes another engine
            self.assertTrue(mine.exists())
            self.assertFalse(other.exists())
            self.ends(0, "cache", "list", "--json", self.folder / "list.json")
            listed = json.loads((self.folder / "list.json").read_text())["serve"]
            self.assertEqual((listed["files"], listed["in_use"], listed["most_bytes"]), (2, 2, 1 << 20))
            self.kill()
            self.assertIn("1 file in use left", self.ends(0, "cache", "clear"))
            self.assertEqual(list(kept.glob("*.engine")), [mine])
        finally:
            self.kill()
            self.server = first
        self.kill()
        self.assertIn("deleted", self.ends(0, "cache", "clear"))
        self.assertFalse(mine.exists())
        # Where it cannot be written it is served all the same.
        kept.mkdir(exist_ok=True)
        os.mkfifo(mine)
        self.serve()
        self.assertEqual(self.value("m"), 1.0)
        self.assertIn("the engine is not kept", self.log.read_text())

    def test_what_cannot_be_served_says_why(self):
        self.put("good")
        self.put("config", config="max_batch_size: 4\nfoo: 3\n")
        self.put("ports", config='input { name: "z" data_type: TYPE_FP32 dims: 4 }')
        self.put("types", config='input { name: "x" data_type: TYPE_INT8 dims: [-1, 4] }')
        (self.repository / "empty" / "1").mkdir(parents=True)
        (self.repository / "broken" / "1").mkdir(parents=True)
        (self.repository / "broken" / "1" / "model.engine").write_bytes(b"PERIENG\nnothing")
        self.serve(ready=False)
        self.wait_for(lambda: self.value("good") == 1.0)
        said = {row["name"]: row.get("reason", "") for row in self.tried(6)}
        self.assertIn("line 2: 'foo'", said["config"])
        self.assertIn("'z'", said["ports"])
        self.assertIn("TYPE_FP32", said["types"])
        self.assertIn("no model", said["empty"])
        self.assertNotEqual(said["broken"], "")
        self.assertEqual(self.ask("GET", "/v2/health/ready")[0], 400)
        self.assertEqual(self.ask("GET", "/v2/models/good/ready")[0], 200)

    def test_a_configurations_files_lie_beside_it(self):
        """Whatever it names, nothing outside the model's folder is read, though it is there."""
        for folder in (self.folder, self.repository):
            (folder / "secret").write_text("a\nb\nc\nd\n")
        self.put("add")
        (self.repository / "add/1/model.engine").rename(self.folder / "good.engine")
        value = helper.make_tensor_value_info
        ports = [value(n, TensorProto.FLOAT, ["n", 1]) for n in ("x", "kept", "sum", "keep")]
        nodes = [helper.make_node("Add", ["x", "kept"], ["sum"]), helper.make_node("Identity", ["sum"], ["keep"])]
        stateful = helper.make_graph(nodes, "g", ports[:2], ports[2:])
        names = ("../secret", "../../secret", str(self.folder / "secret"), "..", ".", "a/../../secret", "sub/secret", "secret\\000")
        for k, name in enumerate(names):
            state = 'sequence_batching { state [ { input_name: "kept" output_name: "keep" data_type: TYPE_FP32 dims: [ 1 ] initial_state { name: "i" data_type: TYPE_FP32 dims: [ 1 ] data_file: "%s" } } ] }'
            configs = {"labels": 'output { name: "y" data_type: TYPE_FP32 dims: [ -1, 4 ] label_filename: "%s" }\n', "file": 'default_model_filename: "%s"\n', "state": "max_batch_size: 4\n" + state,
                       "warm": 'model_warmup { name: "w" inputs { key: "x" value { data_type: TYPE_FP32 dims: [ 1, 4 ] input_data_file: "%s" } } }'}
            for kind, config in configs.items():
                model = self.repository / f"{kind}{k}"
                (model / "1").mkdir(parents=True)
                (model / "config.pbtxt").write_text(config % (name.replace("secret", "good.engine") if kind == "file" else name))
                if kind != "file":
                    shutil.copy(self.folder / "good.engine", model / "1/model.engine")
        self.put("state", graph=stateful)
        for k in range(len(names)):
            shutil.copy(self.repository / "state/1/model.engine", self.repository / f"state{k}/1/model.engine")
        self.serve(ready=False)
        for row in self.tried(2 + 4 * len(names)):
            if row["name"][-1].isdigit():
                why = "holds a NUL" if row["name"].endswith(str(len(names) - 1)) else "plain file name"
                self.assertEqual((row["state"], why in row["reason"]), ("UNAVAILABLE", True), row)
                self.assertNotIn(str(self.folder), row["reason"].replace(str(self.folder / "secret"), ""))

    def test_explicit_control(self):
        self.put("add")
        self.put("other", add=5.0)
        said = self.ends(2, "serve", "--model-repository", self.repository, "--http-port", "0", "--metrics-port", "0", "--grpc-port", "0", "--model-control-mode", "explicit",
                         "--load-model", "nothing", "--load-model", "other")
        self.assertIn("the repository has no folder 'nothing', which --load-model names", said)
        self.serve("--model-control-mode", "explicit", "--load-model", "other")
        self.assertEqual((self.value(), self.value("other")), (404, 5.0))
        self.assertEqual(self.ask("POST", "/v2/repository/models/add/load")[0], 200)
        self.assertEqual(self.value(), 1.0)
        self.put("add", 1, add=3.0)
        self.assertEqual(self.value(), 1.0)
        self.assertEqual(self.ask("POST", "/v2/repository/models/add/load", "{}")[0], 200)
        self.assertEqual(self.value(), 3.0)
        self.assertEqual(self.ask("POST", "/v2/repository/models/add/unload", '{"parameters":{"unload_dependents":false}}')[0], 200)
        self.assertEqual(self.value(), 404)
        self.assertEqual(self.ask("POST", "/v2/repository/models/none/load")[0], 404)
        self.assertEqual(self.ask("POST", "/v2/repository/models/..%2fx/load")[0], 400)
        for key, words in (("file:1/model.onnx", "no files"), ("other", "'other' is not known")):
            status, said, _ = self.ask("POST", "/v2/repository/models/add/load", json.dumps({"parameters": {key: "{}"}}))
            self.assertEqual((status, words in said.decode()), (501, True), said)
        self.assertEqual(self.ask("POST", "/v2/repository/models/add/load")[0], 200)
        for body, words in (([], "the request's body is not an object: expected an object of JSON, or nothing, found array"), ("text", "not an object"), (3, "not an object"),
                            ({"parameters": []}, "'parameters' is not an object: expected an object, found array"), ({"parameters": "config"}, "'parameters' is not an object"),
                            ({"parameters": 7}, "'parameters' is not an object"),
                            ({"parameters": {"config": {"max_batch_size": 4}}}, "'config' is not a string: expected the text of a configuration in JSON"),
                            ({"parameters": {"config": 4}}, "found number"), ({"parameters": {"unload_dependents": 1}}, "'unload_dependents' is neither true nor false")):
            for what in ("load", "unload"):
                if what == "unload" and "config" in json.dumps(body):
                    continue
                status, said, _ = self.ask("POST", f"/v2/repository/models/add/{what}", json.dumps(body))
                self.assertEqual((status, words in json.loads(said)["error"]), (400, True), (body, said))
        for body in ([], 3, {"ready": 3}):
            self.assertEqual(self.ask("POST", "/v2/repository/index", json.dumps(body))[0], 400, body)
        self.assertEqual(self.value(), 3.0, "what was refused has changed nothing")
        self.assertIn("PASSED serve: 5 requests", self.stop(), "of versions that are no more too")

    def test_a_configuration_of_a_load(self):
        """As Triton's clients send it: it holds until the next load, names no files, and what is wrong changes nothing."""
        self.put("add", config="max_batch_size: 4\n")
        (self.repository / "add/labels").write_text("a secret\n")
        self.serve("--model-control-mode", "explicit", "--load-model", "add")
        http = self.closed(tritonclient.http.InferenceServerClient(f"127.0.0.1:{self.port}"))
        grpc = self.closed(tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{self.grpc_port}"))

        def batch():
            return http.get_model_config("add")["max_batch_size"]
        port = {"name": "y", "data_type": "TYPE_FP32", "dims": [4]}
        given = {"max_batch_size": 16, "dynamic_batching": {"max_queue_delay_microseconds": "100"}, "output": [port],
                 "instance_group": [{"count": 2, "kind": "KIND_CPU"}], "parameters": {"threads": {"string_value": "1"}}}
        http.load_model("add", config=json.dumps(given))
        found = http.get_model_config("add")
        self.assertEqual((found["max_batch_size"], found["dynamic_batching"]["max_queue_delay_microseconds"], self.value()), (16, 100, 1.0))
        grpc.load_model("add", config=json.dumps({"name": "add", "max_batch_size": "8"}))
        self.assertEqual((batch(), "dynamic_batching" in http.get_model_config("add")), (8, False))
        file = {"string_value": "labels"}
        for wrong, words in ((given | {"output": [port | {"label_filename": "labels"}]}, "'label_filename'"),
                             ({"default_model_filename": "labels"}, "'default_model_filename'"),
                             ({"max_batch_size": 4, "model_warmup": [{"name": "w", "batch_size": 1, "inputs": {"x": {
                                 "data_type": "TYPE_FP32", "dims": [4], "input_data_file": "../labels"}}}]}, "'input_data_file'"),
                             ({"name": "other"}, "expected add"), ({"no_such_key": 1}, "no_such_key"), ({"parameters": {"threads": file}}, "'threads'")):
            for client in (http, grpc):
                with self.assertRaisesRegex(InferenceServerException, words):
                    client.load_model("add", config=json.dumps(wrong))
        for text in ("", "[]", "max_batch_size: 2", "{", '{"a":' * 30, "{" + " " * (2 << 20) + "}"):
            self.assertRaises(InferenceServerException, http.load_model, "add", config=text)
        self.assertEqual((batch(), self.value()), (8, 1.0), "what is served goes on")
        http.load_model("add")
        self.assertEqual(batch(), 4, "the folder's own again")
        http.load_model("add", config=json.dumps(http.get_model_config("add")))
        self.assertEqual((batch(), self.value()), (4, 1.0))
        note = 'a "pair" \U0001f600 \\ud83d \\\U0001f680 \u00e9'
        http.load_model("add", config=json.dumps({"parameters": {"note": {"string_value": note}}}))
        self.assertEqual(http.get_model_config("add")["parameters"]["note"]["string_value"], note)
        self.assertIn("cannot load add: the configuration of the load request: not valid JSON at byte 1", self.log.read_text())

    def test_parameters_of_a_load_over_grpc(self):
        """Of the wrong kind, or a file's: refused by name, where bytes were once taken for nothing and the load went on without them."""
        self.put("add")
        self.serve("--model-control-mode", "explicit", "--load-model", "add")
        client = self.closed(tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{self.grpc_port}"))
        with self.assertRaisesRegex(InferenceServerException, "UNIMPLEMENTED.*no files are taken"):
            client.load_model("add", config="{}", files={"file:1/model.onnx": b"\xff\0"})
        stub = service_pb2_grpc.GRPCInferenceServiceStub(self.closed(rpc.insecure_channel(f"127.0.0.1:{self.grpc_port}")))
        Value = service_pb2.ModelRepositoryParameter
        given = ((stub.RepositoryModelLoad, service_pb2.RepositoryModelLoadRequest, (
            ("file:x", Value(bytes_param=b""), "UNIMPLEMENTED", "no files are taken"), ("file:x", Value(int64_param=3), "UNIMPLEMENTED", "no files are taken"),
            ("config", Value(bytes_param=b"{}"), "INVALID_ARGUMENT", "the parameter 'config' holds bytes: expected a bool, number or string"),
            ("config", Value(bool_param=True), "INVALID_ARGUMENT", "'config' is not a string"), ("config", Value(int64_param=-3), "INVALID_ARGUMENT", "'config' is not a string"),
            ("config", Value(), "INVALID_ARGUMENT", "the parameter 'config' holds nothing"), ("other", Value(int64_param=1), "UNIMPLEMENTED", "'other' is not known"))),
                 (stub.RepositoryModelUnload, service_pb2.RepositoryModelUnloadRequest, (
                     ("unload_dependents", Value(string_param="yes"), "INVALID_ARGUMENT", "'unload_dependents' is neither true nor false"),
                     ("unload_dependents", Value(int64_param=1), "INVALID_ARGUMENT", "'unload_dependents' is neither true nor false"),
                     ("unload_dependents", Value(bytes_param=b"1"), "INVALID_ARGUMENT", "'unload_dependents' holds bytes"),
                     ("config", Value(string_param="{}"), "UNIMPLEMENTED", "'config' is not known"))))
        for call, message, cases in given:
            for key, value, code, words in cases:
                with self.assertRaises(rpc.RpcError) as caught:
                    call(message(model_name="add", parameters={key: value}))
                self.assertEqual((caught.exception.code().name, words in caught.exception.details()), (code, True), (key, value, caught.exception.details()))
        self.assertEqual(self.value(), 1.0)

    def test_reloads_fail_no_request(self):
        self.put("add", 1, add=1.0)
        self.serve("--model-control-mode", "poll", "--repository-poll-secs", 0.1)
        seen, stop = [], threading.Event()

        def ask():
            while not stop.is_set():
                seen.append(self.value())
        threads = [threading.Thread(target=ask) for _ in range(4)]
        for t in threads:
            t.start()
        for n in range(2, 7):
            self.put("add", 1 if n % 2 else n, add=float(n))
            self.wait_for(lambda: seen and (seen[-1] == n or n % 2))
        (self.repository / "add" / "7").mkdir()
        (self.repository / "add" / "7" / "model.engine").write_bytes(b"nothing")
        self.wait_for(lambda: "cannot load add" in self.log.read_text())
        count = len(seen)
        self.wait_for(lambda: len(seen) > count + 20)
        stop.set()
        for t in threads:
            t.join()
        self.assertEqual(set(seen) - {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, set(), "every request was answered")
        self.assertGreater(len(set(seen)), 2)
        self.wait_for(lambda: "unloaded add" in self.log.read_text())

    def test_batches_change_no_bit(self):
        """10,000 answers of a network under mixed load are those of `peri run`, byte for byte."""
        folder = self.repository / "digits" / "1"
        folder.mkdir(parents=True)
        self.ends(0, "build", DIGITS, "-o", folder / "model.engine", "--no-tune", "--quiet")
        (folder.parent / "config.pbtxt").write_text(BATCHES)
        rng = numpy.random.default_rng(3)
        cases = []
        for k in range(8):
            x = rng.standard_normal((1 + k % 3, 1, 8, 8)).astype(numpy.float32)
            numpy.save(self.folder / "x.npy", x)
            self.ends(0, "run", folder / "model.engine", "--input", f"image={self.folder}/x.npy", "--output-dir", self.folder / f"o{k}", "--quiet")
            name = next(iter(json.loads((self.folder / f"o{k}" / "outputs.json").read_text()).values()))
            y = numpy.load(self.folder / f"o{k}" / (name if isinstance(name, str) else name["file"]))
            head = json.dumps({"inputs": [{"name": "image", "shape": list(x.shape), "datatype": "FP32", "parameters": {"binary_data_size": x.nbytes}}],
                               "parameters": {"binary_data_output": True}})
            cases.append((head.encode() + x.tobytes(), {"Inference-Header-Content-Length": str(len(head))}, y.tobytes()))
        self.serve("--inline-us", 0)
        wrong = []

        def ask(seed):
            mine, connection = random.Random(seed), http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
            for _ in range(1250):
                body, headers, want = mine.choice(cases)
                connection.request("POST", "/v2/models/digits/infer", body, headers)
                reply = connection.getresponse()
                said = reply.read()
                if reply.status != 200 or said[int(reply.getheader("Inference-Header-Content-Length")):] != want:
                    wrong.append((reply.status, said[:200]))
            connection.close()
        threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])
        stats = json.loads(self.ask("GET", "/v2/models/digits/stats")[1])["model_stats"][0]
        config = json.loads(self.ask("GET", "/v2/models/digits/config")[1])
        if config["parameters"]["peri_batch_sizes"]["string_value"]:
            self.assertLess(stats["execution_count"], 10000, "no batch was made")
        else:
            self.assertEqual(stats["execution_count"], 10000, config)

    def test_a_model_whose_rows_meet_is_not_batched(self):
        value = helper.make_tensor_value_info
        weight = numpy_helper.from_array(numpy.array([0], numpy.int64), "axes")
        graph = helper.make_graph([helper.make_node("ReduceMean", ["x", "axes"], ["m"]), helper.make_node("Sub", ["x", "m"], ["y"])], "g",
                                  [value("x", TensorProto.FLOAT, ["n", 4])], [value("y", TensorProto.FLOAT, ["n", 4])], [weight])
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
        folder = self.repository / "mean" / "1"
        folder.mkdir(parents=True)
        (folder / "model.onnx").write_bytes(made.SerializeToString())
        (folder.parent / "config.pbtxt").write_text(BATCHES)
        self.serve()
        config = json.loads(self.ask("GET", "/v2/models/mean/config")[1])
        self.assertEqual(config["parameters"]["peri_batch_sizes"]["string_value"], "")
        self.assertIn("differs from that of a single run", config["parameters"]["peri_note"]["string_value"])

    def test_overload_is_refused_with_a_hint(self):
        size, value = 512, helper.make_tensor_value_info
        weight = helper.make_tensor("w", TensorProto.FLOAT, [size, size], numpy.zeros(size * size, numpy.float32))
        nodes = [helper.make_node("MatMul", ["x" if k == 0 else f"t{k}", "w"], ["y" if k == 40 else f"t{k + 1}"]) for k in range(41)]
        self.put("slow", graph=helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, ["n", size])], [value("y", TensorProto.FLOAT, ["n", size])], [weight]))
        self.serve("--max-queue", 2, "--inline-us", 0, "--stuck-kill-secs", 0, "--canary-secs", 0)
        worker, = self.children()
        self.halt(worker)  # so that nothing is done before the queue is full
        head = json.dumps({"inputs": [{"name": "x", "shape": [256, size], "datatype": "FP32", "parameters": {"binary_data_size": 256 * size * 4}}],
                           "parameters": {"binary_data_output": True}})
        statuses = []

        def ask():
            status, _, headers = self.ask("POST", "/v2/models/slow/infer", head.encode() + bytes(256 * size * 4), {"Inference-Header-Content-Length": str(len(head))})
            statuses.append((status, headers.get("Retry-After")))
        threads = [threading.Thread(target=ask) for _ in range(16)]
        for t in threads:
            t.start()
        self.wait_for(lambda: statuses)
        os.kill(worker, signal.SIGCONT)
        for t in threads:
            t.join()
        self.assertEqual({s for s, _ in statuses}, {200, 503}, statuses)
        self.assertTrue(all(int(hint) >= 1 for status, hint in statuses if status == 503), statuses)
        self.assertEqual(self.metric('nv_inference_request_failure{model="slow",version="1",reason="REJECTED"'), sum(s == 503 for s, _ in statuses))

    def test_a_folder_whose_name_is_none_of_a_model_is_told(self):
        self.put("add")
        for name in ("my model", "größe", ".git"):
            (self.repository / name / "1").mkdir(parents=True)
        self.serve()
        self.assertEqual(self.log.read_text().count("is not a model: expected a name of letters"), 2, self.log.read_text())
        self.assertIn("the folder 'my model' is not a model", self.log.read_text())
        self.stop()
        self.assertNotIn("died", self.log.read_text(), "the end of a worker that was meant to end is not a fall")

    def test_a_signal_drains(self):
        self.put("add")
        self.serve()
        self.assertEqual(self.value(), 1.0)
        self.assertIn("PASSED serve: 1 request ", self.stop())


assert HEAD
if __name__ == "__main__":
    main()
