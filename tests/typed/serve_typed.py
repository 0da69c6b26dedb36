#!/usr/bin/env python3
"""`peri serve` to its clients: KServe v2 by JSON, in binary and by tritonclient as it comes; metadata, statistics, metrics, errors."""
import asyncio
import gzip
import http.client
import json
import struct
import subprocess
import zlib

import numpy
import onnx
import tritonclient.grpc
import tritonclient.http
import tritonclient.http.aio
from onnx import TensorProto, helper
from tritonclient.utils import InferenceServerException

from served import HEAD, Served
from typed import DIGITS, main

TYPES = {"BOOL": TensorProto.BOOL, "UINT8": TensorProto.UINT8, "UINT16": TensorProto.UINT16, "UINT32": TensorProto.UINT32,
         "UINT64": TensorProto.UINT64, "INT8": TensorProto.INT8, "INT16": TensorProto.INT16, "INT32": TensorProto.INT32,
         "INT64": TensorProto.INT64, "FP16": TensorProto.FLOAT16, "FP32": TensorProto.FLOAT, "FP64": TensorProto.DOUBLE,
         "BYTES": TensorProto.STRING}


def identity(types):
    value = helper.make_tensor_value_info
    return helper.make_graph([helper.make_node("Identity", [t], [t + "_out"]) for t in types], "g",
                             [value(t, TYPES[t], ["n", "k"]) for t in types], [value(t + "_out", TYPES[t], ["n", "k"]) for t in types])


class Protocol(Served):
    def test_json_and_binary(self):
        self.put("add")
        self.serve()
        status, said = self.infer("add", {**self.rows([[1, 2, 3, 4], [5, 6, 7, 8]]), "id": "a"})
        self.assertEqual((status, said["id"], said["model_name"], said["model_version"]), (200, "a", "add", "1"))
        self.assertEqual(said["outputs"], [{"name": "y", "datatype": "FP32", "shape": [2, 4], "data": [2, 3, 4, 5, 6, 7, 8, 9]}])
        x = numpy.array([[1, 2, 3, 4]], numpy.float32)
        status, said, headers = self.ask("POST", "/v2/models/add/versions/1/infer", HEAD.encode() + x.tobytes(),
                                         {"Inference-Header-Content-Length": str(len(HEAD))})
        split = int(headers["Inference-Header-Content-Length"])
        self.assertEqual(json.loads(said[:split])["outputs"][0]["parameters"], {"binary_data_size": 16})
        self.assertEqual(said[split:], (x + 1).tobytes())
        for name, pack in (("gzip", gzip.compress), ("deflate", zlib.compress)):
            status, said, headers = self.ask("POST", "/v2/models/add/infer", pack(json.dumps(self.rows([[0, 0, 0, 0]] * 100)).encode()),
                                             {"Content-Encoding": name, "Accept-Encoding": f"br, {name};q=0.9, *;q=0.1"})
            self.assertEqual((status, headers["Content-Encoding"]), (200, name))
            self.assertEqual(json.loads((gzip.decompress if name == "gzip" else zlib.decompress)(said))["outputs"][0]["data"], [1] * 400)

    def test_a_batch_of_none(self):
        """Of a flag it is an error at once; of a request it is the client's, not the model's failure."""
        self.assertIn("dimension 'batch' is 0, and a server forms batches: expected at least 1",
                      self.ends(2, "serve", "--model-repository", self.repository, "--dims", "batch=0"))
        model = self.put("add")
        self.ends(0, "build", model, "-o", self.repository / "add/1/model.engine", "--min-shapes", "x:2x4", "--opt-shapes", "x:2x4", "--max-shapes", "x:4x4", "--no-tune", "--quiet", "--force")
        self.serve()
        for worker in range(2):
            with self.subTest(worker=worker):
                for rows, said in ((0, "dimension 'n' is 0: expected at least 1"), (1, "expected 2 to 4, found 1"), (5, "expected 2 to 4, found 5")):
                    body = {"inputs": [{"name": "x", "shape": [rows, 4], "datatype": "FP32", "data": [1.0] * rows * 4}]}
                    status, text, headers = self.ask("POST", "/v2/models/add/infer", json.dumps(body))
                    self.assertEqual((status, said in text.decode(), headers.get("Retry-After")), (400, True, None), text)
                    self.assertIn("'x': dimension 'n' is ", json.loads(text)["error"])
                    self.assertNotIn("--", text.decode(), "no flag of who builds the engine")
                failures = {reason: self.metric(f'nv_inference_request_failure{{model="add",version="1",reason="{reason}"}}') for reason in ("REJECTED", "BACKEND", "OTHER")}
                self.assertEqual(failures, {"REJECTED": 3, "BACKEND": 0, "OTHER": 0})
                counted = json.loads(self.ask("GET", "/v2/models/add/stats")[1])["model_stats"][0]
                self.assertEqual((counted["execution_count"], counted["batch_stats"]), (0, []), "refused, not run")
                self.assertEqual(self.metric('nv_inference_exec_count{model="add",version="1"}'), 0)
                seen = json.loads(self.peri("top", f"http://127.0.0.1:{self.metrics_port}", "--once", "--json", "-").stdout)["models"][0]
                self.assertEqual((seen["batch_rows"], seen["p50_ms"], seen["p99_ms"]), (None, None, None), "nothing was measured")
                self.assertNotIn('rows="0"', self.ask("GET", "/metrics", port=self.metrics_port)[1].decode())
            for url in (f"http://127.0.0.1:{self.port}", f"grpc://127.0.0.1:{self.grpc_port}"):
                said = self.ends(1, "bench", "-u", url, "-m", "add", "--shape", "x:9,4", "--measurement-interval", "100")
                self.assertRegex(said, "no request succeeded: (status 400|INVALID_ARGUMENT): 'x': dimension 'n' is beyond what the engine was built for: expected 2 to 4, found 9$")
            self.stop()
            if not worker:
                self.serve("--worker-devices", "cpu")

    def test_a_model_without_inputs(self):
        value = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
        node = helper.make_node("Constant", [], ["y"], value=helper.make_tensor("v", TensorProto.FLOAT, [2], [1.0, 2.0]))
        self.put("constant", graph=helper.make_graph([node], "g", [], [value]))
        self.serve()
        for body in ("{}", {"inputs": []}, {"id": "a", "outputs": [{"name": "y"}]}):
            status, said = self.infer("constant", body)
            self.assertEqual((status, said["outputs"][0]["data"]), (200, [1, 2]), body)
        with tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{self.grpc_port}") as c:
            self.assertEqual(c.infer("constant", []).as_numpy("y").tolist(), [1, 2])

    def test_limits_are_flags(self):
        self.put("add")
        self.serve("--max-header-fields", 12, "--max-chunks", 3, "--max-json-depth", 5, "--max-tensors", 2, "--max-json-values", 50)
        one = self.rows([[1, 2, 3, 4]])
        self.assertEqual(self.infer("add", one)[0], 200)
        deep = {**one, "parameters": {"a": [[[[[1]]]]]}}
        many = {**one, "outputs": [{"name": "y"}] * 3}
        for body, want in ((deep, "--max-json-depth"), (many, "3 outputs"), (self.rows([[1, 2, 3, 4]] * 20), "--max-json-values")):
            status, said = self.infer("add", body)
            self.assertEqual((status, want in said["error"]), (400, True), said)
        self.assertEqual(self.ask("GET", "/v2", headers={f"x-{k}": "1" for k in range(9)})[0], 200)
        self.assertEqual(self.ask("GET", "/v2", headers={f"x-{k}": "1" for k in range(12)})[0], 431)
        text = json.dumps(one).encode()
        for pieces, want in ((2, 200), (4, 413)):
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
            size = -(-len(text) // pieces)
            connection.request("POST", "/v2/models/add/infer", iter([text[k:k + size] for k in range(0, len(text), size)]), encode_chunked=True)
            self.assertEqual(connection.getresponse().status, want, pieces)
            connection.close()

    def test_tritonclient(self):
        self.put("all", graph=identity(TYPES), config="max_batch_size: 8\n")
        self.serve()
        client = tritonclient.http.InferenceServerClient(f"127.0.0.1:{self.port}", concurrency=4)
        self.assertTrue(client.is_server_live() and client.is_server_ready() and client.is_model_ready("all"))
        self.assertEqual(client.get_server_metadata()["name"], "peri")
        ports = client.get_model_metadata("all")["inputs"]
        self.assertEqual({p["name"]: (p["datatype"], p["shape"]) for p in ports}, {t: (t, [-1, -1]) for t in TYPES})
        self.assertEqual(client.get_model_config("all")["max_batch_size"], 8)
        inputs, given = [], {}
        for kind, binary in ((t, b) for b in (True, False) for t in TYPES):
            if (kind, binary) == ("FP16", False):
                continue  # tritonclient sends it in binary alone
            dtype = tritonclient.utils.triton_to_np_dtype(kind)
            x = numpy.array([[b"a", b""], [b"\xff\x00" if binary else b"z", b"text"]], numpy.object_) if kind == "BYTES" else numpy.arange(4).reshape(2, 2).astype(dtype)
            given.setdefault(binary, {})[kind] = x
        for binary, tensors in given.items():
            for each in ([*tensors],) if binary else ():
                inputs = []
                for kind in each:
                    inputs.append(tritonclient.http.InferInput(kind, [2, 2], kind))
                    inputs[-1].set_data_from_numpy(tensors[kind], binary_data=True)
                for option in ({}, {"request_compression_algorithm": "gzip", "response_compression_algorithm": "deflate"}):
                    answer = client.infer("all", inputs, request_id="q", **option)
                    for kind in each:
                        self.assertTrue((answer.as_numpy(kind + "_out") == tensors[kind]).all(), kind)
        handles = [client.async_infer("all", inputs) for _ in range(20)]
        for handle in handles:
            self.assertTrue((handle.get_result().as_numpy("INT64_out") == given[True]["INT64"]).all())
        stats = client.get_inference_statistics("all")["model_stats"][0]
        self.assertEqual((stats["inference_count"], stats["execution_count"], stats["inference_stats"]["success"]["count"]), (44, 22, 22))
        self.assertEqual(client.get_model_repository_index(), [{"name": "all", "version": "1", "state": "READY"}])
        with self.assertRaisesRegex(InferenceServerException, "unknown model: 'none' is not found"):
            client.infer("none", inputs)
        with self.assertRaisesRegex(InferenceServerException, "expected 13 inputs but got 1"):
            client.infer("all", inputs[:1])
        client.close()

    def test_tritonclient_by_json_and_asyncio(self):
        self.put("add")
        self.serve()
        x = numpy.array([[1, 2, 3, 4]], numpy.float32)

        async def ask():
            async with tritonclient.http.aio.InferenceServerClient(f"127.0.0.1:{self.port}") as client:
                given = tritonclient.http.aio.InferInput("x", [1, 4], "FP32")
                given.set_data_from_numpy(x, binary_data=False)
                wanted = tritonclient.http.aio.InferRequestedOutput("y", binary_data=False)
                return await asyncio.gather(*(client.infer("add", [given], outputs=[wanted]) for _ in range(10)))
        for answer in asyncio.run(ask()):
            self.assertTrue((answer.as_numpy("y") == x + 1).all())

    def test_errors_have_their_status(self):
        self.put("add")
        self.serve("--max-body-bytes", 10000)
        good = json.dumps(self.rows([[1, 2, 3, 4]]))
        long = json.dumps(self.rows([[1, 2, 3, 4]] * 5000))
        wrong = [("GET", "/", None, 404), ("GET", "/v2/none", None, 404), ("GET", "/v2/models/none", None, 404),
                 ("GET", "/v2/models/add/versions/9", None, 404), ("GET", "/v2/models/add/versions/x", None, 400),
                 ("GET", "/v2/models/add/versions/9/ready", None, 400), ("GET", "/v2/models/../../etc/passwd", None, 404),
                 ("GET", "/v2/models/add/infer", None, 405), ("DELETE", "/v2", None, 405), ("POST", "/v2/models/add/infer", "{", 400),
                 ("POST", "/v2/models/add/infer", long, 413), ("POST", "/v2/models/none/infer", good, 404),
                 ("POST", "/v2/repository/models/add/load", None, 503), ("POST", "/v2/repository/models/..%2f/load", None, 503)]
        for method, path, body, want in wrong:
            status, said, _ = self.ask(method, path, body)
            self.assertEqual(status, want, (path, said))
            if not path.endswith("/ready"):
                self.assertNotIn(str(self.folder), json.loads(said)["error"])
        for headers, body, want in (({"Inference-Header-Content-Length": "9999"}, good, 400), ({"Inference-Header-Content-Length": "x"}, good, 400),
                                    ({"Content-Encoding": "br"}, good, 415), ({"Content-Encoding": "gzip"}, good, 400),
                                    ({"Content-Encoding": "gzip"}, gzip.compress(b" " * 5_000_000), 413)):
            self.assertEqual(self.ask("POST", "/v2/models/add/infer", body, headers)[0], want, headers)
        self.assertEqual(self.infer("add", good)[0], 200)

    def test_a_plus_in_a_name_and_names_that_clients_escape(self):
        """As tritonclient and browsers write a+b: a%2Bb is that model on every path, a+b stays itself, and a space is none."""
        self.put("a+b")
        self.serve("--model-control-mode", "explicit", "--load-model", "*", "--otlp-endpoint", "http://127.0.0.1:9")
        body = json.dumps(self.rows([[1, 2, 3, 4]]))
        for name in ("a+b", "a%2Bb", "a%2bb", "%61+%62"):
            for method, path, sent in (("GET", f"/v2/models/{name}", None), ("GET", f"/v2/models/{name}/ready", None), ("GET", f"/v2/models/{name}/config", None),
                                       ("GET", f"/v2/models/{name}/stats", None), ("GET", f"/v2/models/{name}/versions/1", None), ("GET", f"/v2/health/ready/{name}", None),
                                       ("GET", f"/v2/models/{name}/trace/setting", None), ("POST", f"/v2/models/{name}/infer", body),
                                       ("POST", f"/v2/models/{name}/versions/1/infer", body), ("POST", f"/v2/repository/models/{name}/load", None)):
                status, said, _ = self.ask(method, path, sent)
                self.assertEqual(status, 200, (path, said))
        for name in ("a%20b", "a%2Fb", "a%2", "a%zzb", "a%252Bb"):
            self.assertEqual(self.ask("POST", f"/v2/models/{name}/infer", body)[0], 404, name)
        client = self.closed(tritonclient.http.InferenceServerClient(f"127.0.0.1:{self.port}"))
        self.assertTrue(client.is_model_ready("a+b"))
        given = tritonclient.http.InferInput("x", [1, 4], "FP32")
        given.set_data_from_numpy(numpy.ones((1, 4), numpy.float32))
        self.assertEqual(client.infer("a+b", [given]).as_numpy("y").tolist(), [[2, 2, 2, 2]])

    def test_curl_socket_log_and_metrics(self):
        self.put("add")
        self.serve("--http-socket", self.folder / "s", "--access-log", "access.log")
        (self.folder / "body").write_text(json.dumps(self.rows([[1, 2, 3, 4]] * 2000)))
        curl = ["curl", "-sS", "--unix-socket", self.folder / "s", "--data-binary", f"@{self.folder}/body", "http://localhost/v2/models/add/infer"]
        self.assertEqual(json.loads(subprocess.run(curl, capture_output=True, check=True).stdout)["outputs"][0]["shape"], [2000, 4])
        chunked = [*curl[:2], "-H", "Transfer-Encoding: chunked", *curl[2:]]
        self.assertEqual(json.loads(subprocess.run(chunked, capture_output=True, check=True).stdout)["outputs"][0]["shape"], [2000, 4])
        self.infer("add", "{}")
        labels = '{model="add",version="1"'
        self.assertEqual(self.metric("nv_inference_request_success" + labels), 2)
        self.assertEqual(self.metric("nv_inference_count" + labels), 4000)
        self.assertEqual(self.metric("nv_inference_exec_count" + labels), 2)
        self.assertEqual(self.metric("peri_batch_cuts_total" + labels + ',reason="alone"'), 2)
        wants = {"Accept": "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"}
        status, said, headers = self.ask("GET", "/metrics", port=self.metrics_port, headers=wants)
        self.assertTrue(said.endswith(b"# EOF\n"))
        self.assertEqual(headers["Content-Type"], "application/openmetrics-text; version=1.0.0; charset=utf-8")
        self.assertIn(b"# TYPE peri_progress counter\n", said)
        for accept in ("text/plain", "*/*", "application/openmetrics-text;q=0.3,text/plain;q=0.5", "application/openmetrics-text;q=0", ""):
            status, said, headers = self.ask("GET", "/metrics", port=self.metrics_port, headers={"Accept": accept})
            self.assertEqual((headers["Content-Type"], b"# EOF" in said), ("text/plain; version=0.0.4; charset=utf-8", False), accept)
            self.assertIn(b"# TYPE peri_progress_total counter\n", said)
            self.assertIn(b"# TYPE nv_inference_count counter\n", said)
            self.assertNotIn(b" unknown\n", said)
        self.assertIn("PASSED serve: 2 requests", self.stop())
        self.assertFalse((self.folder / "s").exists())
        rows = [json.loads(line) for line in (self.folder / "access.log").read_text().splitlines()]
        self.assertIn((200, "add"), [(r["status"], r.get("model")) for r in rows])
        self.assertIn((400, "/v2/models/add/infer"), [(r["status"], r["target"]) for r in rows])

    def test_types_that_the_protocol_has_no_name_for(self):
        value = helper.make_tensor_value_info
        graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [value("x", TensorProto.INT4, ["n"])], [value("y", TensorProto.INT4, ["n"])])
        (self.repository / "nibbles/1").mkdir(parents=True)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), self.repository / "nibbles/1/model.onnx")
        self.serve(ready=False)
        index = lambda: json.loads(self.ask("POST", "/v2/repository/index")[1])[0]
        self.wait_for(lambda: "no name" in index().get("reason", ""))
        self.assertIn("'x' is i4, for which the protocol has no name; end it in the model with a Cast", index()["reason"])

    def test_bytes_that_are_no_text(self):
        """JSON cannot carry them: the answer is an error that names binary, which gives them as they are."""
        self.put("text", graph=identity(["BYTES"]))
        self.serve()
        payload = struct.pack("<I", 2) + b"\xff\xfe" + struct.pack("<I", 2) + "\u00e9".encode()
        for parameters, wanted in (({}, 400), ({"binary_data": False}, 400), ({"binary_data": True}, 200)):
            head = json.dumps({"inputs": [{"name": "BYTES", "shape": [1, 2], "datatype": "BYTES", "parameters": {"binary_data_size": len(payload)}}],
                               "outputs": [{"name": "BYTES_out", "parameters": parameters}]})
            status, said, _ = self.ask("POST", "/v2/models/text/infer", head.encode() + payload, {"Inference-Header-Content-Length": str(len(head))})
            self.assertEqual(status, wanted, said)
            if status == 200:
                self.assertTrue(said.endswith(payload), said)
            else:
                self.assertEqual(json.loads(said)["error"], "output 'BYTES_out' holds bytes that are not UTF-8, which JSON cannot carry; "
                                 'ask for it in binary: "parameters":{"binary_data":true} of the output')

    def test_bytes_that_lie(self):
        self.put("text", graph=identity(["BYTES"]))
        self.serve()
        for payload in (struct.pack("<I", 2**32 - 1), b"\1\0", struct.pack("<I", 1) + b"a" + struct.pack("<I", 9)):
            head = json.dumps({"inputs": [{"name": "BYTES", "shape": [1, 2], "datatype": "BYTES", "parameters": {"binary_data_size": len(payload)}}]})
            status, said, _ = self.ask("POST", "/v2/models/text/infer", head.encode() + payload, {"Inference-Header-Content-Length": str(len(head))})
            self.assertEqual(status, 400, said)


if __name__ == "__main__":
    main()
