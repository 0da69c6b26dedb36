#!/usr/bin/env python3
"""Settings of traces and of the log, read and changed by Triton's clients while `peri serve` runs; who may change them; and clients that speak old HTTP or
send no more."""
import http.server
import json
import socket
import threading

import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from served import Served
from typed import main

OFF = {"trace_level": ["OFF"], "trace_rate": "1", "trace_count": "-1", "log_frequency": "0", "trace_file": "", "trace_mode": "opentelemetry"}
LOG = {"log_file": "", "log_info": True, "log_warning": True, "log_error": True, "log_verbose_level": 0, "log_format": "default"}


class Collector(http.server.BaseHTTPRequestHandler):
    names = []

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        Collector.names += [s["name"] for s in body["resourceSpans"][0]["scopeSpans"][0]["spans"] if s["kind"] == 2]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def traces(client, *words, **more):
    said = client.get_trace_settings(*words, **more)
    return said if isinstance(said, dict) else {k: list(v.value) if k == "trace_level" else v.value[0] for k, v in said.settings.items()}


def logs(said):
    return said if isinstance(said, dict) else {k: getattr(v, v.WhichOneof("parameter_choice")) for k, v in said.settings.items()}


class Settings(Served):
    def clients(self):
        return (self.closed(triton_http.InferenceServerClient(f"127.0.0.1:{self.port}")), self.closed(triton_grpc.InferenceServerClient(f"127.0.0.1:{self.grpc_port}")))

    def refused(self, call, *words, want, **more):
        with self.assertRaises(InferenceServerException) as caught:
            call(*words, **more)
        self.assertIn(want, str(caught.exception))

    def test_traces(self):
        collector = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        for name in ("add", "other"):
            self.put(name)
        self.serve("--otlp-endpoint", f"http://127.0.0.1:{collector.server_port}", "--trace-rate", 1000)
        row = self.rows([[1, 2, 3, 4]])

        def traced(want, *models):
            Collector.names.clear()
            for model in models:
                self.assertEqual(self.infer(model, row)[0], 200)
            self.wait_for(lambda: len(Collector.names) >= len(want))
            self.assertEqual(sorted(Collector.names), sorted(want))

        on = {**OFF, "trace_level": ["TIMESTAMPS"], "trace_rate": "1000"}
        for client in self.clients():
            self.assertEqual(traces(client), on)
            self.assertEqual(traces(client, model_name="add"), on)
            self.assertEqual(client.update_trace_settings(model_name="add", settings={"trace_rate": "1", "trace_count": "3"}) is None, False)
            self.assertEqual(traces(client, model_name="add"), {**on, "trace_rate": "1", "trace_count": "3"})
            self.assertEqual(traces(client), on)
            traced(["infer other"], "other")  # the first since the rate was set is drawn
            traced(["infer add"] * 3, "add", "other", "add", "add", "add", "add")
            self.assertEqual(traces(client, model_name="add")["trace_count"], "0")
            client.update_trace_settings(model_name="add", settings={"trace_rate": None, "trace_count": None})
            self.assertEqual(traces(client, model_name="add"), on)
            client.update_trace_settings(settings={"trace_level": ["OFF"]})
            self.assertEqual(traces(client, model_name="add")["trace_level"], ["OFF"])
            client.update_trace_settings(settings={"trace_level": None, "trace_rate": "1000"})
            self.refused(client.get_trace_settings, model_name="nope", want="Request for unknown model : nope")
            self.refused(client.update_trace_settings, settings={"trace_count": "-9"}, want="Expecting value >= -1, got: -9")
            self.refused(client.update_trace_settings, settings={"trace_file": "/tmp/x"}, want="trace file location can not be updated through network protocol")
            self.refused(client.update_trace_settings, settings={"trace_level": ["TENSORS"]}, want="TENSORS")
            self.refused(client.update_trace_settings, settings={"rate": "1"}, want="'rate' is not a trace setting")
            self.assertEqual(traces(client), on)
        self.stop()
        collector.shutdown()
        collector.server_close()

    def test_without_a_collector(self):
        self.put("add")
        self.serve()
        for client in self.clients():
            self.assertEqual(traces(client), OFF)
            self.refused(client.update_trace_settings, settings={"trace_level": ["TIMESTAMPS"]}, want="--otlp-endpoint")
        self.assertEqual(json.loads(self.ask("GET", "/v2/trace/setting")[1]), OFF)
        for method, path, body, want in (("POST", "/v2/trace/setting", "x", 400), ("POST", "/v2/trace/setting", "", 400), ("POST", "/v2/logging", "[]", 400),
                                         ("PUT", "/v2/logging", "", 405), ("GET", "/v2/models/add/versions/1/trace/setting", None, 404)):
            self.assertEqual(self.ask(method, path, body)[0], want, (method, path))

    def test_the_log(self):
        self.put("add")
        self.serve()
        row = self.rows([[1, 2, 3, 4]])
        target = '"target":"/v2/models/add/infer"'
        for k, client in enumerate(self.clients()):
            self.assertEqual(logs(client.get_log_settings()), LOG)
            self.infer("add", row)
            self.assertEqual(self.log.read_text().count(target), k)
            said = client.update_log_settings({"log_verbose_level": 1, "log_format": "ISO8601"})
            self.assertEqual(logs(said), {**LOG, "log_verbose_level": 1, "log_format": "ISO8601"})
            self.infer("add", row)
            self.assertEqual(self.log.read_text().count(target), k + 1)
            self.assertRegex(self.log.read_text(), r'\n\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ V serve: \{"time"')
            self.assertEqual(logs(client.update_log_settings({"log_verbose_level": 0, "log_format": "default"})), LOG)
            self.refused(client.update_log_settings, {"log_file": "/tmp/x"}, want="log file location can not be updated through network protocol")
            self.refused(client.update_log_settings, {"log_format": "x"}, want="invalid argument for log_format, got: x")
            self.refused(client.update_log_settings, {"verbose": 1}, want="'verbose' is not a log setting")
        self.assertIn("logging", self.clients()[0].get_server_metadata()["extensions"])
        self.clients()[1].update_log_settings({"log_info": False})
        self.stop()
        self.assertNotIn("draining", self.log.read_text())

    def test_who_may_change_them(self):
        self.put("add")
        socket_path = self.folder / "manage.sock"
        self.serve("--management-socket", socket_path)
        for client in self.clients():
            self.assertEqual(logs(client.get_log_settings()), LOG)
            self.refused(client.update_log_settings, {"log_info": False}, want="--management-socket")
            self.refused(client.update_trace_settings, settings={"trace_level": ["OFF"]}, want="--management-socket")
        self.assertEqual(self.ask("POST", "/v2/logging", '{"log_info":false}')[0], 403)
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(str(socket_path))
            s.sendall(b'POST /v2/logging HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 18\r\n\r\n{"log_info":false}')
            said = b"".join(iter(lambda: s.recv(65536), b""))
        self.assertIn(b'"log_info":false', said)
        self.assertFalse(self.clients()[0].get_log_settings()["log_info"])

    def test_clients_that_send_no_more(self):
        """As `nc -N` and some proxies do; answered by workers too, after the end was heard."""
        self.put("add")
        self.serve("--inline-us", 0, "--http-socket", self.folder / "http.sock")
        body = json.dumps(self.rows([[1, 2, 3, 4]])).encode()
        request = b"POST /v2/models/add/infer HTTP/1.%d\r\nHost: a\r\nContent-Length: " + str(len(body)).encode() + b"\r\n\r\n" + body
        for version in (1, 0):
            for _ in range(20):
                said = self.raw(request % version, shut=True)
                self.assertIn(b'"data":[2.0,3.0,4.0,5.0]', said)
        said = self.raw((request % 1) * 5 + b"GET /v2", shut=True)
        self.assertEqual(said.count(b"HTTP/1.1 200 OK"), 5, said)
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(str(self.folder / "http.sock"))
            s.sendall(request % 1)
            s.shutdown(socket.SHUT_WR)
            self.assertIn(b"200 OK", b"".join(iter(lambda: s.recv(65536), b"")))
        stay = b"GET /v2/health/live HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
        kept = self.raw(stay * 2 + b"GET /v2/health/live HTTP/1.0\r\n\r\n")  # the last one ends the connection
        self.assertEqual((kept.count(b"HTTP/1.1 200"), kept.count(b"Connection: keep-alive")), (3, 2), kept)


if __name__ == "__main__":
    main()
