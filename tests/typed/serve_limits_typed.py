#!/usr/bin/env python3
"""Bounds of `peri serve` on what clients send, each at the value that its flag gives it: one under it is taken, one over it refused by the flag's name."""
import base64

import numpy
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from onnx import TensorProto, helper
from tritonclient.utils import InferenceServerException

from served import Served
from typed import main

STATEFUL = """max_batch_size: 4
sequence_batching { state [ { input_name: "kept" output_name: "keep" data_type: TYPE_FP32 dims: [ 1 ] } ] }
"""


def port(name, kind, *dims):
    return helper.make_tensor_value_info(name, kind, list(dims))


class Limits(Served):
    def clients(self):
        return (self.closed(triton_http.InferenceServerClient(f"127.0.0.1:{self.port}")), self.closed(triton_grpc.InferenceServerClient(f"127.0.0.1:{self.grpc_port}")))

    def put_all(self):
        graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [port("x", TensorProto.STRING, "n")], [port("y", TensorProto.STRING, "n")])
        self.put("words", graph=graph)
        ports = [port(n, TensorProto.FLOAT, "n", 1) for n in ("x", "kept", "sum", "keep")]
        nodes = [helper.make_node("Add", ["x", "kept"], ["sum"]), helper.make_node("Identity", ["sum"], ["keep"])]
        self.put("sum", graph=helper.make_graph(nodes, "g", ports[:2], ports[2:]), config=STATEFUL)
        self.put("add")

    def refused(self, flag, call):
        with self.assertRaises(InferenceServerException) as caught:
            call()
        self.assertIn(flag, str(caught.exception))
        self.alive()

    def test_lengths_of_texts_and_names(self):
        self.put_all()
        self.serve("--max-element-bytes", 10, "--max-sequence-id-bytes", 4)
        http, grpc = self.clients()
        for module, client, binary in ((triton_http, http, True), (triton_http, http, False), (triton_grpc, grpc, None)):
            for size in (10, 11):
                x = module.InferInput("x", [1], "BYTES")
                more = {} if binary is None else {"binary_data": binary}
                x.set_data_from_numpy(numpy.array([b"a" * size], object), **more)
                if size == 10:
                    self.assertEqual(client.infer("words", [x]).as_numpy("y")[0], b"a" * 10)
                else:
                    self.refused("--max-element-bytes", lambda: client.infer("words", [x]))
            x = module.InferInput("x", [1, 1], "FP32")
            x.set_data_from_numpy(numpy.ones((1, 1), numpy.float32))
            self.assertEqual(client.infer("sum", [x], sequence_id="abcd", sequence_start=True, sequence_end=True).as_numpy("sum"), 1)
            self.refused("--max-sequence-id-bytes", lambda: client.infer("sum", [x], sequence_id="abcde", sequence_start=True, sequence_end=True))

    def test_messages_of_grpc(self):
        self.put_all()
        self.serve("--max-message-parts", 20, "--max-message-depth", 4, "--max-tensors", 5, "--max-json-values", 40)
        client = self.clients()[1]
        x = triton_grpc.InferInput("x", [1, 4], "FP32")
        x.set_data_from_numpy(numpy.ones((1, 4), numpy.float32))
        self.assertEqual(client.infer("add", [x]).as_numpy("y")[0, 0], 2)
        self.refused("--max-message-parts", lambda: client.infer("add", [x], parameters={f"p{k}": 1 for k in range(30)}))
        self.refused("--max-tensors", lambda: client.infer("add", [x] * 6))
        self.assertIn("--max-json-values", self.infer("add", self.rows([[1, 2, 3, 4]] * 20))[1]["error"])
        status, said = self.infer("add", {"inputs": [{"name": "x"}] * 6})
        self.assertEqual((status, "--max-tensors" in said["error"]), (400, True), said)

    def test_flags_out_of_range_are_named(self):
        for flag, bad in (("--max-message-depth", 1), ("--max-message-parts", 1), ("--max-element-bytes", 0), ("--max-text-bytes", 0), ("--max-texts", "x"),
                          ("--max-sequence-id-bytes", 0), ("--max-own-connections", 0), ("--max-stream-requests", 0), ("--min-ping-secs", -1)):
            self.assertIn(flag, self.ends(2, "serve", "--model-repository", self.repository, f"{flag}={bad}"))
        profile = self.folder / "p.yaml"
        profile.write_text("max-sequence-id-bytes: 0\n")
        self.assertIn("--max-sequence-id-bytes", self.ends(2, "serve", "--model-repository", self.repository, "--profile", profile))

    def test_words_of_tritons_server(self):
        """Either taken, or told what to do in their place."""
        for word, want in (("--allow-grpc=false", "give --grpc-port -1"), ("--strict-model-config=false", "leave it out"), ("--backend-directory=/x", "no backends"),
                           ("--cache-config=local,size=1", "--cache-mib"), ("--trace-config=rate=1", "--otlp-endpoint"), ("--log-file=x", "--log FILE"),
                           ("--log-info=1", "/v2/logging"), ("--metrics-config=counter_latencies=false", "/metrics has"), ("--host-policy=0,numa-node=0", "numactl"),
                           ("--http-header-forward-pattern=x", "no header fields"), ("--reuse-http-port=1", "a proxy"), ("--model-load-gpu-limit=0:0.5", "no memory for"),
                           ("--model-namespacing=true", "one repository"), (f"--model-repository={self.repository}", "link the folders of all models into one"), ("--grpc-server-cert=x", "--tls-certificate"), ("--rate-limit=off", "--rate-limit-resource"),
                           ("--grpc-use-ssl-mutual=true", "--tls-client-ca"), ("--grpc-root-cert=x", "--tls-client-ca"), ("--grpc-keepalive-time=1", "--min-ping-secs"),
                           ("--grpc-max-connection-age=1", "no age"), ("--vertex-ai-port=1", "KServe v2"), ("--allow-sagemaker=true", "KServe v2"),
                           ("--min-supported-compute-capability=7.0", "peri doctor"), ("--enable-peer-access=true", "no effect")):
            self.assertIn(want, self.ends(2, "serve", "--model-repository", self.repository, word))
        self.put("add")
        self.assertIn("--model-store", self.ends(2, "serve", "--model-repository", self.repository, "--model-store", self.repository))
        taken = ("--http-thread-count", 2, "--http-max-input-size", 1000000, "--metrics-address", "127.0.0.1", "--grpc-address=127.0.0.1", "--log-verbose=1", "--id", "mine")
        self.serve(*taken)
        self.assertEqual(self.infer("add", self.rows([[1, 2, 3, 4]]))[0], 200)
        self.assertIn('"target":"/v2/models/add/infer"', self.log.read_text())
        self.assertEqual([c.get_server_metadata() for c in self.clients()][0]["name"], "mine")
        self.assertIn("explicit would let everyone", self.ends(2, "serve", "--model-repository", self.repository, "--grpc-address", "0.0.0.0", "--model-control-mode", "explicit"))

    def test_tritons_raw_requests_and_shared_memory(self):
        self.put("add")
        self.serve()
        row = numpy.arange(8, dtype=numpy.float32)
        status, said, headers = self.ask("POST", "/v2/models/add/infer", row.tobytes(), {"Inference-Header-Content-Length": "0"})
        self.assertEqual(status, 200, said)
        numpy.testing.assert_array_equal(numpy.frombuffer(said[int(headers["Inference-Header-Content-Length"]):], numpy.float32), row + 1)
        for body in (row.tobytes() + b"x", row.tobytes()[:3]):
            status, said, _ = self.ask("POST", "/v2/models/add/infer", body, {"Inference-Header-Content-Length": "0"})
            self.assertEqual((status, f"expected a multiple of 16, got {len(body)}" in said.decode()), (400, True), said)
        for client in self.clients():
            for kind in ("system", "cuda"):
                said = getattr(client, f"get_{kind}_shared_memory_status")()
                self.assertEqual(len(said if isinstance(said, list) else said.ListFields()), 0)
                getattr(client, f"unregister_{kind}_shared_memory")()
            self.refused("shared memory of clients is not taken", lambda: client.register_system_shared_memory("a", "/a", 4))
            self.refused("shared memory of clients is not taken", lambda: client.register_cuda_shared_memory("a", base64.b64encode(bytes(64)), 0, 4))
        for method, path, want in (("POST", "/v2/health/live", 405), ("GET", "/v2/repository/index", 405), ("POST", "/v2/systemsharedmemory/status", 405)):
            self.assertEqual(self.ask(method, path)[0], want, path)
        read, post = "GET, HEAD", "POST"
        for method, path, allowed in (("POST", "/v2/health/live", read), ("GET", "/v2/repository/index", post), ("DELETE", "/v2", read), ("POST", "/v2", read),
                                      ("GET", "/v2/models/add/infer", post), ("PUT", "/v2/models/add/versions/1/infer", post), ("PUT", "/v2/logging", "GET, HEAD, POST"),
                                      ("PATCH", "/v2/models/infer", read), ("GET", "/v2/models/add/generate", post), ("POST", "/v2/models/add/config", read),
                                      ("GET", "/v2/cudasharedmemory/register", post), ("GET", "/v1/embeddings", post), ("DELETE", "/v1/models", read),
                                      ("PUT", "/v2/trace/setting", "GET, HEAD, POST")):
            status, _, fields = self.ask(method, path)
            self.assertEqual((status, fields.get("Allow")), (405, allowed), (method, path))
        self.assertIn(b"only GET, HEAD and POST are known", self.ask("DELETE", "/v2")[1])
        self.assertEqual(self.ask("POST", "/metrics", port=self.metrics_port)[2].get("Allow"), read)
        self.assertNotIn("Allow", self.ask("GET", "/v2")[2])
        self.assertIn("'inputs': member is missing", self.infer("add", "{}")[1]["error"])
        self.assertIn("'x': wrong kind of value: expected number, found string", self.infer("add", self.rows([["a", 2, 3, 4]]))[1]["error"])
        self.assertIn("version 9 is not found", self.ask("GET", "/v2/models/add/versions/9")[1].decode())

    def test_tensors_in_regions_of_clients(self):
        """An input, an output or a whole request that names one is refused with 501 before a model runs, over HTTP and gRPC."""
        self.put("add")
        self.serve()
        for module, client in zip((triton_http, triton_grpc), self.clients()):
            def given():
                x = module.InferInput("x", [1, 4], "FP32")
                x.set_data_from_numpy(numpy.ones((1, 4), numpy.float32))
                return x
            there, out = module.InferInput("x", [1, 4], "FP32"), module.InferRequestedOutput("y")
            there.set_shared_memory("peri", 16)
            out.set_shared_memory("peri", 16, 8)
            for inputs, more in (([there], {}), ([given()], {"outputs": [out]}), ([given()], {"parameters": {"shared_memory_region": "peri"}}),
                                 ([given()], {"parameters": {"shared_memory_offset": 4}}), ([given()], {"parameters": {"shared_memory_byte_size": 16}})):
                with self.assertRaises(InferenceServerException) as caught:
                    client.infer("add", inputs, **more)
                self.assertIn(caught.exception.status(), ("501", "StatusCode.UNIMPLEMENTED"), caught.exception)
                self.assertIn("shared memory of clients is not taken", caught.exception.message())
            self.assertEqual(client.infer("add", [given()]).as_numpy("y")[0, 0], 2)
        self.assertEqual(self.metric('nv_inference_exec_count{model="add",version="1"'), 2)

    def test_numbers_that_json_lacks(self):
        """As Triton takes and writes them: bare; the texts of them are taken too."""
        self.put("add")
        self.serve()
        x = numpy.array([[numpy.nan, numpy.inf, -numpy.inf, 1]], numpy.float32)
        client = self.clients()[0]
        for sent, asked in ((False, False), (False, True), (True, False)):
            given = triton_http.InferInput("x", x.shape, "FP32")
            given.set_data_from_numpy(x, binary_data=sent)
            answer = client.infer("add", [given], outputs=[triton_http.InferRequestedOutput("y", binary_data=asked)])
            numpy.testing.assert_array_equal(answer.as_numpy("y"), x + 1)
        body = '{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[%s]}]}'
        for data in ("NaN,Infinity,-Infinity,0", '"NaN","Infinity","-Infinity",0', "-NaN,Inf,-Inf,0"):
            status, said, _ = self.ask("POST", "/v2/models/add/infer", body % data)
            self.assertEqual(status, 200, said)
            self.assertIn(b'"data":[NaN,Infinity,-Infinity,1', said)
        for data in ("nan,1,2,3", "+Infinity,1,2,3", "null,1,2,3", "1e400,1,2,3"):
            self.assertEqual(self.ask("POST", "/v2/models/add/infer", body % data)[0], 400, data)
        status, said, _ = self.ask("POST", "/v2/models/add/infer", body.replace("[1,4]", "[1,NaN]") % "1,2,3,4")
        self.assertEqual(status, 400, said)


if __name__ == "__main__":
    main()
