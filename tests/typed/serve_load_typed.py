#!/usr/bin/env python3
"""`peri bench --endpoint`: what it measures, what it refuses, and what it keeps of a load that is cut or loses its server."""
import http.server
import json
import signal
import subprocess
import threading

import numpy

from served import Served
from typed import PERI, main

BATCHED = "max_batch_size: 8\ndynamic_batching { max_queue_delay_microseconds: 200 }\n"


class Losing(http.server.ThreadingHTTPServer):
    """A server of one model whose requests after the first so many are lost: no connection, no answer, or an error."""

    def __init__(self, how, answers):
        self.how, self.answers, self.asked, self.over = how, answers, 0, threading.Event()
        super().__init__(("127.0.0.1", 0), Answering)

    def __enter__(self):
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.over.set()
        if self.how != "gone":
            self.shutdown()
        self.server_close()


class Answering(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    lock = threading.Lock()

    def do_GET(self):
        self.say(200, {"name": "m", "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}], "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 4]}]})

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        with self.lock:
            self.server.asked += 1
            lost = self.server.asked > self.server.answers
        if lost and self.server.how == "gone":
            self.server.shutdown()
            self.server.socket.close()
            self.close_connection = True
        elif lost and self.server.how == "silent":
            self.server.over.wait(60)
            self.close_connection = True
        else:
            self.say(500 if lost else 200, {})

    def say(self, status, what):
        body = json.dumps(what).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Load(Served):
    def endpoint(self):
        return f"http://127.0.0.1:{self.port}"

    def object_of(self, *words):
        r = self.peri(*words, "--json", "-")
        return r.returncode, json.loads(r.stdout)

    def test_bench_loads_a_server(self):
        self.put("add", config=BATCHED)
        self.put("plain")
        self.serve()
        quick = ("-p", "100", "--stability-percentage", "900", "--warm-up", "20")
        code, said = self.object_of("bench", "--endpoint", self.endpoint(), "-m", "add", "-i", "http", "--concurrency-range", "1:5:2", *quick)
        self.assertEqual((code, [p["concurrency"] for p in said["points"]]), (0, [1, 3, 5]))
        for p in said["points"]:
            self.assertEqual((p["errors"], p["stable"], sum(n for _, n in p["service_ms"]["histogram"])), ({}, True, p["ok"]))
            self.assertLessEqual(p["latency_ms"]["p50"], p["latency_ms"]["p99"])
        answered = sum(p["ok"] for p in said["points"])
        grpc = f"grpc://127.0.0.1:{self.grpc_port}"
        for words in (("-u", grpc), ("-u", f"127.0.0.1:{self.grpc_port}", "-i", "gRPC")):
            code, said = self.object_of("bench", *words, "-m", "add", "-b", "3", "--concurrency-range", "1:5:4", *quick)
            self.assertEqual((code, [p["concurrency"] for p in said["points"]], said["points"][1]["errors"]), (0, [1, 5], {}))
            answered += sum(p["ok"] for p in said["points"])
        code, said = self.object_of("bench", "-u", grpc, "-m", "add", "--request-rate-range", "100", *quick)
        self.assertEqual((code, said["points"][0]["distribution"], said["points"][0]["errors"]), (0, "poisson", {}))
        large = self.object_of("bench", "-u", grpc, "-m", "plain", "-b", "20000", *quick)
        self.assertEqual((large[0], large[1]["points"][0]["errors"]), (0, {}), "requests and answers beyond HTTP/2's first windows")
        self.assertLessEqual(answered, self.metric('nv_inference_request_success{model="add",version="1"'))
        code, said = self.object_of("bench", "-u", self.endpoint(), "-m", "add", "-b", "2", "--request-rate-range", "50:100:50", "-l", "1000", *quick)
        self.assertEqual((code, len(said["points"]), said["points"][0]["distribution"]), (0, 2, "poisson"))
        self.assertLess(said["points"][0]["per_second"], 120)
        (self.folder / "data.json").write_text(json.dumps({"data": [{"x": [1, 2, 3, 4]}, {"x": {"content": [5, 6, 7, 8], "shape": [4]}}]}))
        before = self.metric('nv_inference_request_success{model="plain",version="1"')
        for url in (self.endpoint(), grpc):
            code, said = self.object_of("bench", "-u", url, "-m", "plain", "-x", "1", "--request-count", "20", "--warmup-request-count", "3", "-H", "X-Tenant: a", "--input-data", "data.json",
                                        "--concurrency-range", "2")
            self.assertEqual((code, said["points"][0]["ok"], said["points"][0]["errors"]), (0, 20, {}), said)
        self.assertEqual(self.metric('nv_inference_request_success{model="plain",version="1"') - before, 46)
        self.assertIn("-m NAME", self.ends(2, "bench", "--endpoint", self.endpoint()))
        for words, want in ((("--async",), "are in flight"), (("-f", "x.csv"), "--json FILE"), (("--streaming",), "one answer"), (("--measurement-mode", "count_windows"), "--request-count N"),
                            (("--max-threads", "4"), "one thread"), (("--request-count", "5", "-p", "100"), "leave one of them out"), (("-H", "Host: x"), "of their own"),
                            (("--shared-memory", "system"), "in the requests")):
            self.assertIn(want, self.ends(2, "bench", "-u", self.endpoint(), "-m", "add", *words))
        self.assertIn("--threads N", self.ends(2, "bench", "model.onnx", "-x", "4"))
        for url in (f"grpc://127.0.0.1:{self.port}", f"http://127.0.0.1:{self.grpc_port}"):
            self.assertIn("is it the port of another", self.ends(1, "bench", "--endpoint", url, "-m", "add"))
        self.assertIn("0 for any that is free", self.ends(1, "serve", "--model-repository", self.repository, "--http-port", self.port, "--grpc-port", -1, "--metrics-port", -1))
        self.assertIn("unknown model", self.ends(1, "bench", "-u", self.endpoint(), "-m", "none"))
        self.assertIn("NOT_FOUND", self.ends(1, "bench", "-u", grpc, "-m", "none"))
        self.assertIn("contradicts the URL's scheme", self.ends(2, "bench", "-u", self.endpoint(), "-m", "add", "-i", "grpc"))
        self.assertIn("protocol", self.ends(1, "bench", "-u", f"grpc://127.0.0.1:{self.port}", "-m", "add"))
        self.assertIn("http", self.ends(2, "bench", "-u", self.endpoint(), "-m", "add", "-i", "smoke"))
        self.assertIn("--endpoint", self.ends(2, "bench", "model.onnx", "--concurrency-range", "1:4"))
        for wrong in ("4:1", "1:2:0", "0:4", "a", "1:2:3:4", ""):
            self.assertIn("range", self.ends(2, "bench", "-u", self.endpoint(), "-m", "add", "--concurrency-range", wrong))
        self.assertEqual(self.peri("bench", "-u", self.endpoint(), "-m", "add", "-p", "10", "-s", "0.01", "--max-trials", "3").returncode, 5)
        self.stop()
        self.assertIn("Connection refused", self.ends(1, "bench", "-u", self.endpoint(), "-m", "add"))

    def test_sequences_of_a_file_are_requests(self):
        """Of a server that takes them, each step one; of one that does not, the remedy is a load of sequences."""
        (self.folder / "data.json").write_text(json.dumps({"data": [[{"x": [1, 2, 3, 4]}, {"x": [5, 6, 7, 8]}], {"x": [1, 2, 3, 4]}]}))
        for answers, want in ((100, 0), (0, 1)):
            with Losing("failing", answers) as server:
                words = ("bench", "-u", f"127.0.0.1:{server.server_port}", "-m", "m", "--request-count", "4", "--warmup-request-count", "1", "--input-data", "data.json")
                said = self.ends(want, *words)
            self.assertEqual("needs requests of sequences: --sequence-length N" in said, want == 1, said)

    def test_bench_compares_answers_with_validation_data(self):
        self.put("plain")  # adds 1
        self.serve()
        data = [{"x": [1, 2, 3, 4]}, {"x": [5, 6, 7, 8]}]
        right = [{"y": [2, 3, 4, 5]}, {"y": {"content": [6, 7, 8, 9.001], "shape": [4]}}]
        wrong = [right[0], {"y": [6, 7, 8, 9.1]}]
        for url in (self.endpoint(), f"grpc://127.0.0.1:{self.grpc_port}"):
            words = ("bench", "-u", url, "-m", "plain", "--request-count", "20", "--warmup-request-count", "2", "--input-data", "data.json")
            for wanted, rows, want in ((right, 1, (0, 0, 20)), (wrong, 1, (3, 10, 10)), ([wrong[1]] * 2, 1, (3, 20, 0)), (wrong, 2, (3, 20, 0)), (right, 2, (0, 0, 20))):
                (self.folder / "data.json").write_text(json.dumps({"data": data, "validation_data": wanted}))
                code, said = self.object_of(*words, "-b", rows)
                self.assertEqual((code, said["mismatches"], said["points"][0]["ok"]), want, said)
                self.assertEqual((said["points"][0]["mismatches"], said["points"][0]["errors"]), (want[1], {"wrong answer": want[1]} if want[1] else {}))
                self.assertEqual((said["complete"], said["points"][0]["latency_ms"]["p50"] is None, said["points"][0]["failed_ms"]["max"] is None), (True, want[2] == 0, want[1] == 0))
                if want[1]:
                    self.assertIn("output 'y': element 7: expected 9.1" if wanted is wrong and rows == 2 else "", said["points"][0]["error_messages"]["wrong answer"])
                    self.assertRegex(self.ends(3, *words, "-b", rows), "answers differ from 'validation_data'")
        line = self.peri(*words, "-b", 1, "--concurrency-range", "1:2").stdout.decode()  # the last data: all are right
        self.assertNotIn(" - ", line)
        (self.folder / "data.json").write_text(json.dumps({"data": data, "validation_data": [wrong[1]] * 2}))
        code, said = self.object_of(*words, "--concurrency-range", "1:2")
        self.assertEqual((code, said["complete"], len(said["points"])), (3, False, 1), "the load behind is not measured")
        self.assertRegex(self.peri(*words).stdout.decode(), r"(?m)^ +1 +0\.0 +0\.0( +-){4} +20 ")
        (self.folder / "folder").mkdir()
        (self.folder / "folder/x").write_bytes(numpy.ones(4, numpy.float32).tobytes())
        code, said = self.object_of("bench", "-u", self.endpoint(), "-m", "plain", "--request-count", "5", "-b", 2, "--input-data", "folder")
        self.assertEqual((code, said["points"][0]["ok"], said["batch"], "mismatches" in said), (0, 5, 2, False), said)

    def load_without_end(self):
        """A load of the server that would go on for hours, under way."""
        before = self.metric('nv_inference_request_success{model="add"')
        child = subprocess.Popen([PERI, "bench", "-u", self.endpoint(), "-m", "add", "--request-count", "100000000", "--warmup-request-count", "5", "--json", "load.json", "--force"],
                                 cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(child.kill)
        self.wait_for(lambda: self.metric('nv_inference_request_success{model="add"') >= before + 105)
        return child

    def test_bench_that_is_cut_tells_what_was_answered(self):
        self.put("add")
        self.serve("--canary-secs", 0)
        for how in (signal.SIGINT, signal.SIGTERM):
            child = self.load_without_end()
            child.send_signal(how)
            out, err = child.communicate(timeout=60)
            said = json.loads((self.folder / "load.json").read_text())
            self.assertEqual((child.returncode, said["interrupted"], said["complete"], len(said["points"])), (130, True, False, 1), err)
            self.assertEqual((said["points"][0]["complete"], said["points"][0]["stable"], said["points"][0]["errors"]), (False, False, {}))
            self.assertGreaterEqual(said["points"][0]["ok"], 99)
            self.assertTrue(out.rstrip().endswith("interrupted"), out)
            self.assertIn("interrupted: not all that was asked for", err)

    def test_bench_ends_when_its_server_has_ended(self):
        self.put("add")
        self.serve()
        child = self.load_without_end()
        self.stop()
        err = child.communicate(timeout=60)[1]
        self.assertEqual(child.returncode, 1, err)
        self.assertIn(f"cannot connect to 127.0.0.1:{self.port}: Connection refused; the server was there before", err)
        said = json.loads((self.folder / "load.json").read_text())
        self.assertEqual((said["error"]["kind"], said["complete"], said["interrupted"], [p["complete"] for p in said["points"]]), ("io", False, False, [False]))
        self.assertGreaterEqual(said["points"][0]["ok"], 99)

    def test_bench_keeps_the_loads_before_its_server_is_lost(self):
        """A server that ends, falls silent or fails in the third load of a range, after 5 of its 10 requests or before all."""
        for how, left, want in (("gone", 5, "cannot connect"), ("silent", 5, "has sent nothing for"), ("silent", 0, "has sent nothing for"), ("failing", 0, "no request succeeded: status 500")):
            with Losing(how, 2 * 11 + (1 + left if left else 0)) as server:
                code, said = self.object_of("bench", "-u", f"127.0.0.1:{server.server_port}", "-m", "m", "--concurrency-range", "1:4", "--request-count", "10", "--warmup-request-count", "1",
                                            "--client-timeout", "1000")
            self.assertEqual((code, said["complete"], said["interrupted"]), (1, False, False), said)
            self.assertIn(want, said["error"]["message"])
            if how != "silent" or not left:
                self.assertIn("the loads before succeeded", said["error"]["remedy"])
            loads = [(p["concurrency"], p["ok"], p["complete"]) for p in said["points"]]
            self.assertEqual(loads[:2], [(1, 10, True), (2, 10, True)])
            # A request whose connection is refused is one of the 10.
            self.assertEqual(loads[2:3], [(3, left, how != "silent")] if left or how == "failing" else [], said)


if __name__ == "__main__":
    main()
