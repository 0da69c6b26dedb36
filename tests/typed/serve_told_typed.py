#!/usr/bin/env python3
"""What `peri serve` tells of itself: why a reload failed, a configuration whole, what a cache did, models that lie in no version's folder."""
import json
import re
import resource
import shutil
import subprocess

import numpy
import onnx
import tritonclient.grpc
import tritonclient.http
from onnx import TensorProto, helper, parser
from tritonclient.utils import InferenceServerException

from served import Served
from typed import PERI, main

SIZES = """<ir_version: 9, opset_import: ["" : 17]>
g (float[p,length] a, float[q,1] b) => (float[p,k] ab, float y) {
  ab = Concat<axis = 1>(a, b)
  s = Shape<start = 1>(a)
  one = Constant<value_ints = [1]>()
  is1 = Equal(s, one)
  y = If(is1) <then_branch = yes () => (float[m] v) { v = Squeeze(a, one) }, else_branch = no () => (float[m,n] w) { w = Neg(a) }>
}"""

class Told(Served):
    def value(self):
        status, said = self.infer("add", self.rows([[0, 0, 0, 0]]))
        return said["outputs"][0]["data"][0] if status == 200 else status

    def test_a_load_that_is_refused_for_what_it_says(self):
        """A configuration that no model of the repository has: the request is told, and all is as it was, ready too."""
        self.put("add", config="max_batch_size: 4\n")
        self.serve("--model-control-mode", "explicit", "--load-model", "add")
        client = self.closed(tritonclient.http.InferenceServerClient(f"127.0.0.1:{self.port}"))
        wider = json.dumps({"max_batch_size": 4, "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": [5]}]})
        for config, words in (("max_batch_size: 4", "JSON"), (wider, "expected")):
            with self.assertRaisesRegex(InferenceServerException, words):
                client.load_model("add", config=config)
            self.assertEqual((client.is_server_ready(), client.is_model_ready("add"), self.value()), (True, True, 1.0))
            self.assertEqual(client.get_model_repository_index(), [{"name": "add", "version": "1", "state": "READY"}])
        client.unload_model("add")
        with self.assertRaisesRegex(InferenceServerException, "expected"):
            client.load_model("add", config=wider)
        self.assertEqual([(r["state"], r["reason"]) for r in client.get_model_repository_index()], [("UNAVAILABLE", "not loaded")])
        self.assertTrue(client.is_server_ready())

    def test_versions_that_are_not_there(self):
        self.put("add", config="version_policy: { specific: { versions: [7] } }\n")
        self.put("half", config="version_policy: { specific: { versions: [1, 7] } }\n")
        self.serve("--model-control-mode", "explicit", "--load-model", "half")
        with self.assertRaisesRegex(InferenceServerException, "version_policy wants 7, and there are 1; correct version_policy"):
            self.closed(tritonclient.http.InferenceServerClient(f"127.0.0.1:{self.port}")).load_model("add")
        self.assertIn("half: version_policy wants version 7, and there is no folder of it", self.log.read_text())

    def test_what_a_failed_reload_says(self):
        """The version before goes on, and the index has the reason, for a configuration that cannot be read as for a model."""
        self.put("add", config="max_batch_size: 4\n")
        self.serve("--model-control-mode", "poll", "--repository-poll-secs", 0.1)

        def row():
            return json.loads(self.ask("POST", "/v2/repository/index")[1])[0]
        self.assertEqual((row()["state"], row().get("reason")), ("READY", None))
        (self.repository / "add/config.pbtxt").write_text("max_batch_sise: 4\n")
        self.wait_for(lambda: "reason" in row())
        self.assertEqual(row()["state"], "READY")
        self.assertIn("the version before goes on", row()["reason"])
        self.assertIn("max_batch_sise", row()["reason"])
        self.assertEqual(self.value(), 1.0)
        (self.repository / "add/config.pbtxt").write_text("max_batch_size: 8\n")
        self.wait_for(lambda: "reason" not in row())

    def test_a_configuration_is_told_whole(self):
        """What it asks for besides ports and batches, over HTTP and gRPC; a cache's hits and misses with it."""
        self.put("add", config="""max_batch_size: 4
response_cache { enable: true }
optimization { priority: PRIORITY_MAX cuda { graphs: true } input_pinned_memory { enable: false } }
model_warmup [ { name: "w" batch_size: 2 count: 3 inputs { key: "x" value { data_type: TYPE_FP32 dims: [ 4 ] random_data: true } } } ]
""")
        self.serve("--model-control-mode", "explicit", "--load-model", "add", "--access-log", "access.log")
        http = tritonclient.http.InferenceServerClient(f"127.0.0.1:{self.port}")
        grpc = tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{self.grpc_port}")
        self.addCleanup(http.close)
        self.addCleanup(grpc.close)
        found = http.get_model_config("add")
        self.assertEqual(found["response_cache"], {"enable": True})
        self.assertEqual(found["optimization"], {"priority": "PRIORITY_MAX", "cuda": {"graphs": True}, "input_pinned_memory": {"enable": False}})
        self.assertEqual(found["model_warmup"], [{"name": "w", "batch_size": 2, "count": 3, "inputs": {"x": {"data_type": "TYPE_FP32", "dims": [4], "random_data": True}}}])
        told = grpc.get_model_config("add").config
        self.assertEqual((told.response_cache.enable, told.optimization.priority, told.optimization.cuda.graphs, told.optimization.HasField("input_pinned_memory")), (True, 1, True, True))
        self.assertEqual((told.model_warmup[0].name, told.model_warmup[0].count, told.model_warmup[0].inputs["x"].random_data), ("w", 3, True))
        http.load_model("add", config=json.dumps(found))
        self.assertEqual([self.value() for _ in range(3)], [1.0] * 3)
        stats = http.get_inference_statistics("add")["model_stats"][0]["inference_stats"]
        self.assertEqual((stats["cache_hit"]["count"], stats["cache_miss"]["count"]), (2, 1), stats)
        self.assertGreater(stats["cache_miss"]["ns"], 0)
        grpc.close()
        http.close()
        self.stop()
        lines = [json.loads(row) for row in (self.folder / "access.log").read_text().splitlines()]
        inferences = [row for row in lines if row["target"].endswith("/infer")]
        self.assertEqual([("cached" in row, "run_us" in row, "cut" in row) for row in inferences], [(False, True, True)] + 2 * [(True, False, False)])

    def test_files_beside_the_versions_are_followed(self):
        """Labels that change are those of the next answer: of a server that polls, and of one that is told to load."""
        config = 'output { name: "y" label_filename: "labels" }\n'
        labels = self.repository / "add/labels"

        def label():
            answer = self.infer("add", {**self.rows([[0, 0, 0, 9]]), "outputs": [{"name": "y", "parameters": {"classification": 1}}]})[1]
            return answer["outputs"][0]["data"][0].split(":")[-1]
        self.put("add", config=config)
        labels.write_text("a\nb\nc\nd\n")
        self.serve("--model-control-mode", "poll", "--repository-poll-secs", 0.1)
        self.assertEqual(label(), "d")
        labels.write_text("a\nb\nc\nsomething else\n")
        self.wait_for(lambda: label() == "something else")
        self.stop()
        self.serve("--model-control-mode", "explicit", "--load-model", "add")
        labels.write_text("a\nb\nc\nanother\n")
        self.assertEqual(label(), "something else")
        self.assertEqual(self.ask("POST", "/v2/repository/models/add/load", "{}")[0], 200)
        self.assertEqual(label(), "another")
        loads = self.log.read_text().count("loaded add")
        self.assertEqual(self.ask("POST", "/v2/repository/models/add/load", "{}")[0], 200)
        self.assertEqual(self.log.read_text().count("loaded add"), loads, "nothing is new")

    def test_models_outside_a_folder_of_a_version_are_told(self):
        model = self.put("add", engine=False)
        shutil.copy(model, self.repository / "loose.onnx")
        (self.repository / "half").mkdir()
        shutil.copy(model, self.repository / "half/model.onnx")
        self.serve(ready=False)
        self.assertIn("the file 'loose.onnx' is not served, since it is in no version's folder: move it to 'loose/1/model.onnx'", self.log.read_text())
        self.assertIn("the file 'half/model.onnx' is not served, since it is in no version's folder: move it to 'half/1/model.onnx'", self.log.read_text())
        self.assertEqual(self.log.read_text().count("is not served"), 2)

    def test_what_stops_a_start_is_told_once(self):
        (self.repository / "none/1").mkdir(parents=True)
        self.serve(ready=False)
        self.wait_for(lambda: "cannot load none" in self.log.read_text())
        reason = json.loads(self.ask("POST", "/v2/repository/index")[1])[0]["reason"]
        self.assertTrue(reason.startswith("the folder '1' holds no model"), reason)
        self.stop()
        r = self.peri("serve", "--model-repository", self.repository, "--http-port", 0, "--grpc-port", -1, "--metrics-port", -1,
                      preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32)))
        self.assertEqual(r.returncode, 1, r.stderr.decode())
        self.assertIn("RLIMIT_NOFILE), found 32; raise it: ulimit -n 1024", r.stderr.decode())

    def test_classes_of_rows_without_a_batch_size(self):
        self.put("add", config='output { name: "y" label_filename: "labels" }\n')
        (self.repository / "add/labels").write_text("a\nb\nc\nd\n")
        self.serve()
        status, said = self.infer("add", self.rows([[1, 4, 2, 3], [9, 8, -9, 7]]) | {"outputs": [{"name": "y", "parameters": {"classification": 2}}]})
        self.assertEqual((status, said["outputs"][0]["shape"]), (200, [2, 2]), said)
        self.assertEqual(said["outputs"][0]["data"], ["5.000000:1:b", "4.000000:3:d", "10.000000:0:a", "9.000000:1:b"])

    def test_labels_that_do_not_fit_the_classes(self):
        for name, lines in (("add", "a\nb\n"), ("fits", "a\nb\nc\nd\n"), ("ends", "a\nb\nc\nd\n\n")):
            self.put(name, config='output { name: "y" label_filename: "labels" }\n')
            (self.repository / name / "labels").write_text(lines)
        self.serve()
        said = self.log.read_text()
        self.assertIn("add: the label_filename 'labels' has 2 lines for output 'y', which has 4 classes", said)
        self.assertEqual(said.count("the label_filename"), 1, said)

    def test_a_signal_is_its_normal_end(self):
        self.put("add")
        self.serve("--json", "end.json")
        self.assertIn("PASSED serve", self.stop())
        self.assertFalse(json.loads((self.folder / "end.json").read_text())["interrupted"])

    def test_its_name_is_one_line(self):
        for name in ("a\nb", "a\x1b[31m", "a\x7f"):
            self.assertIn("--id is not a name", self.ends(2, "serve", "--model-repository", self.repository, "--id", name))

    def test_classes_that_the_model_names(self):
        """Of ZipMap, in the order of the columns: in answers of a server, where no label_filename names others, and by run and inspect."""
        value, node = helper.make_tensor_value_info, helper.make_node
        graph = helper.make_graph([node("Softmax", ["x"], ["p"]), node("ZipMap", ["p"], ["y"], domain="ai.onnx.ml", classlabels_strings=["setosa", "b:c", "virginica", "a"])], "g",
                                  [value("x", TensorProto.FLOAT, ["n", 4])], [helper.make_value_info("y", helper.make_sequence_type_proto(helper.make_map_type_proto(
                                      TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, []))))])
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)], ir_version=8)
        for name, config in (("iris", None), ("named", 'max_batch_size: 8 output { name: "y" label_filename: "labels" }\n')):
            (self.repository / name / "1").mkdir(parents=True)
            onnx.save(made, self.repository / name / "1/model.onnx")
            if config:
                (self.repository / name / "config.pbtxt").write_text(config)
        (self.repository / "named/labels").write_text("k\nl\nm\nn\n")
        self.serve()
        row = self.rows([[0, 0, 0, 9], [9, 0, 0, 0]]) | {"outputs": [{"name": "y", "parameters": {"classification": 1}}]}
        for name, want in (("iris", ["0:a", "2:setosa"]), ("named", ["0:k", "2:m"])):
            status, said = self.infer(name, row)
            self.assertEqual(status, 200, said)
            self.assertEqual([text.split(":", 1)[1] for text in said["outputs"][0]["data"]], want)
        self.stop()
        engine = self.folder / "iris.engine"
        self.ends(0, "build", self.repository / "iris/1/model.onnx", "-o", engine, "--no-tune", "--quiet")
        self.assertIn("classes of y: a, b:c, setosa, virginica", self.peri("inspect", engine).stdout.decode())
        self.assertEqual(json.loads(self.peri("inspect", engine, "--json", "-").stdout)["class_names"], {"y": ["a", "b:c", "setosa", "virginica"]})
        numpy.save(self.folder / "x.npy", numpy.array([[0, 9, 0, 0]], numpy.float32))
        said = json.loads(self.peri("run", engine, "-i", "x=x.npy", "--top-k", "2", "--json", "-").stdout)["answers"]["y"]["top"][0]
        self.assertEqual([(c["index"], c["label"]) for c in said], [(1, "b:c"), (0, "a")])
        (self.folder / "own").write_text("p\nq\nr\ns\n")
        self.assertIn("[1] q", self.peri("run", engine, "-i", "x=x.npy", "--top-k", "1", "--labels", "own").stdout.decode())

    def test_sizes_that_are_fixed_and_names_that_are_one_dimension(self):
        """By the log's line of the load and by the configuration that clients read."""
        onnx.save(parser.parse_model(SIZES), self.folder / "sizes.onnx")
        (self.repository / "sizes/1").mkdir(parents=True)
        self.ends(0, "build", self.folder / "sizes.onnx", "-o", self.repository / "sizes/1/model.engine", "--dims", "length=1", "--no-tune", "--no-verify", "--quiet")
        self.put("plain")
        self.serve()
        parameters = json.loads(self.ask("GET", "/v2/models/sizes/config")[1])["parameters"]
        self.assertEqual((parameters["peri_fixed_dims"], parameters["peri_same_dims"]), ({"string_value": "length=1"}, {"string_value": "q=p"}))
        note = "sizes that the structure of the model depends on are fixed: length=1; 'q' is the dimension 'p'"
        self.assertIn(note, parameters["peri_note"]["string_value"])
        self.assertIn(f"loaded sizes version 1: {note}", self.log.read_text())
        self.assertNotIn("dims", json.loads(self.ask("GET", "/v2/models/plain/config")[1])["parameters"].__str__())

    def test_the_notes_of_an_import(self):
        """At the start that builds the model, and at the next, which takes the engine kept."""
        (self.repository / "sizes/1").mkdir(parents=True)
        onnx.save(parser.parse_model(SIZES), self.repository / "sizes/1/model.onnx")
        for start in ("builds", "loads"):
            self.serve()
            note = json.loads(self.ask("GET", "/v2/models/sizes/config")[1])["parameters"]["peri_note"]["string_value"]
            self.stop()
            self.assertRegex(note, "'q' is the dimension 'p', as node '[^']+' requires", start)
            self.assertEqual(note.count("is the dimension"), 1, note)
            self.assertIn(f"loaded sizes version 1: {note}", self.log.read_text())

    def test_quiet_keeps_warnings_and_errors(self):
        self.put("add")
        (self.repository / "broken/1").mkdir(parents=True)
        (self.repository / "broken/1/model.onnx").write_text("nothing")
        self.log = self.folder / "serve.log"
        with open(self.log, "w") as log:
            self.server = subprocess.Popen([PERI, "serve", "--model-repository", self.repository, "--http-port", "0", "--metrics-port", "0", "--grpc-port", "-1", "--no-tune", "--quiet"],
                                           cwd=self.folder, env=self.environment, stdout=log, stderr=log)
        self.wait_for(lambda: "broken" in self.log.read_text())
        self.stop()
        said = self.log.read_text()
        self.assertNotIn("listening", said)
        self.assertNotIn("loaded add", said)
        self.assertIn("PASSED serve", said)

    def test_a_server_of_grpc_alone(self):
        self.put("add")
        self.log = self.folder / "serve.log"
        words = ("serve", "--model-repository", self.repository, "--http-port", "-1", "--metrics-port", "-1", "--no-tune")
        self.assertIn("nothing to listen on", self.ends(2, *words, "--grpc-port", "-1"))
        with open(self.log, "w") as log:
            self.server = subprocess.Popen([PERI, *words, "--grpc-port", "0"], cwd=self.folder, env=self.environment, stdout=log, stderr=log)
        port = self.wait_for(lambda: re.search(r"listening on gRPC at 127.0.0.1:(\d+)", self.log.read_text()))[1]
        client = self.closed(tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{port}"))
        self.wait_for(client.is_server_ready)
        x = tritonclient.grpc.InferInput("x", [1, 4], "FP32")
        x.set_data_from_numpy(numpy.zeros((1, 4), numpy.float32))
        self.assertEqual(client.infer("add", [x]).as_numpy("y").tolist(), [[1.0] * 4])
        self.assertIn("PASSED", self.stop())


if __name__ == "__main__":
    main()
