#!/usr/bin/env python3
"""`peri serve` and the ways in which HTTP lets a client ask for the same: HEAD, a target with its host, a name with quoted characters."""
import http.client
import json

import numpy
import tritonclient.grpc
import tritonclient.http

from served import Served
from typed import main


class Paths(Served):
    def test_head(self):
        """Is answered as GET is, without the body: monitors and `curl -I` ask so, and what follows on the connection is its own answer."""
        self.put("add")
        access = self.folder / "access.log"
        self.serve("--access-log", access)
        for port, paths in ((self.port, ("/v2/health/live", "/v2/health/ready", "/v2", "/v2/models/add", "/v2/models/add/config", "/v2/models/stats", "/v1/models",
                                         "/v2/models/add/infer", "/v2/none", "/none")), (self.metrics_port, ("/dashboard", "/none"))):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            self.addCleanup(connection.close)
            for path in paths:
                told = []
                for method in ("GET", "HEAD", "GET"):
                    connection.request(method, path)
                    reply = connection.getresponse()
                    body = reply.read()
                    self.assertEqual(len(body), 0 if method == "HEAD" else int(reply.headers["Content-Length"]), (method, path))
                    told.append((reply.status, reply.headers["Content-Type"], int(reply.headers["Content-Length"]) > 0))
                self.assertEqual(told, told[:1] * 3, path)
        both = self.raw(b"HEAD /v2 HTTP/1.1\r\nHost: a\r\n\r\nGET /v2/health/live HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        first, second, rest = both.split(b"\r\n\r\n")
        self.assertEqual((first[:15], second[:15], rest), (b"HTTP/1.1 200 OK", b"HTTP/1.1 200 OK", b""))
        self.stop()
        rows = [json.loads(line) for line in access.read_text().splitlines()]
        self.assertEqual({r["method"] for r in rows}, {"GET", "HEAD"})

    def test_a_target_with_its_host(self):
        """As clients send it through a proxy, and RFC 9112 has every server take it."""
        self.put("add")
        keys = self.folder / "keys"
        keys.write_text("a-key-of-the-test\n")
        keys.chmod(0o600)
        self.serve("--api-keys", keys, ready=False)
        self.wait_for(lambda: self.ask("GET", "/v2/health/ready", headers={"Authorization": "Bearer a-key-of-the-test"})[0] == 200)
        key = b"Authorization: Bearer a-key-of-the-test\r\n"
        for target, field, status in ((b"http://a:8000/v2", key, b"200"), (b"HTTP://a/v2/models/add?x=y", key, b"200"), (b"https://a/v2/health/ready", key, b"200"),
                                      (b"http://a/v2/health/live", b"", b"200"), (b"http://a/v2", b"", b"401"), (b"http://a/v2/health/live/../..", b"", b"401"),
                                      (b"http://a", key, b"404"), (b"http://a?b=/v2", key, b"404"), (b"ftp://a/v2", key, b"404"), (b"/http://a/v2", key, b"404")):
            said = self.raw(b"GET %s HTTP/1.1\r\nHost: a\r\n%sConnection: close\r\n\r\n" % (target, field))
            self.assertEqual(said[9:12], status, (target, said))

    def test_openais_paths_that_are_none(self):
        self.put("add")
        self.serve()
        for method, path, status, code in (("GET", "/v1/none", 404, None), ("GET", "/v1/models/none", 404, "model_not_found"), ("GET", "/v1/models/add", 404, "model_not_found"), ("GET", "/v1/embeddings", 405, None)):
            found, said, _ = self.ask(method, path)
            self.assertEqual((found, json.loads(said)["error"]["code"]), (status, code), path)

    def test_names_with_quoted_characters(self):
        """Triton's client quotes a '+'."""
        name, x = "a+b.c-d_e", numpy.zeros((1, 4), numpy.float32)
        self.put(name)
        self.serve("--otlp-endpoint", "http://127.0.0.1:9")
        for module, port in ((tritonclient.http, self.port), (tritonclient.grpc, self.grpc_port)):
            client = self.closed(module.InferenceServerClient(f"127.0.0.1:{port}"))
            given = module.InferInput("x", x.shape, "FP32")
            given.set_data_from_numpy(x)
            self.assertTrue(client.is_model_ready(name) and client.is_model_ready(name, "1"))
            self.assertTrue((client.infer(name, [given]).as_numpy("y") == 1).all())
            self.assertTrue(client.get_model_config(name) and client.get_inference_statistics(name))
        client = self.closed(tritonclient.http.InferenceServerClient(f"127.0.0.1:{self.port}"))
        given = tritonclient.http.InferInput("x", x.shape, "FP32")
        given.set_data_from_numpy(x)
        client.update_trace_settings(name, {"trace_level": ["TIMESTAMPS"], "trace_rate": "1", "trace_count": "5"})
        for _ in range(2):
            client.infer(name, [given])
        self.assertEqual(client.get_trace_settings(name)["trace_count"], "3", "its own requests are traced")
        for quoted, status in (("a%2Bb.c-d_e", 200), ("%61%2bb%2ec%2Dd%5fe", 200), ("a%252Bb.c-d_e", 404), ("a%2Bb.c-d_e%", 404), ("a%2Bb.c-d_e%2", 404), ("a%2gb", 404),
                               ("%2e%2e%2fa%2Bb.c-d_e", 404), ("a%2Bb.c-d_e%00", 404), ("x%2f..%2fa+b.c-d_e", 404)):
            self.assertEqual(self.ask("GET", f"/v2/models/{quoted}")[0], status, quoted)


if __name__ == "__main__":
    main()
