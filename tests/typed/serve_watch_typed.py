#!/usr/bin/env python3
"""`peri serve` to those who look on: peri top, the dashboard, logs that rotate, traces; tuned, by profile, drained."""
import fcntl
import html.parser
import http.server
import json
import os
import pty
import re
import shutil
import signal
import socket
import struct
import subprocess
import termios
import threading
import time

from served import Served, children
from typed import PERI, SOURCE, main

BATCHED = "max_batch_size: 8\ndynamic_batching { max_queue_delay_microseconds: 200 }\n"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Collector(http.server.BaseHTTPRequestHandler):
    """Keeps the spans that come."""

    spans = []

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.path == "/v1/traces" and self.headers["Content-Type"] == "application/json"
        Collector.spans += body["resourceSpans"][0]["scopeSpans"][0]["spans"]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


class Watch(Served):
    def endpoint(self):
        return f"http://127.0.0.1:{self.port}"

    def metrics_url(self):
        return f"http://127.0.0.1:{self.metrics_port}"

    def object_of(self, *words):
        r = self.peri(*words, "--json", "-")
        return r.returncode, json.loads(r.stdout)

    def test_top(self):
        self.put("add", config=BATCHED)
        self.put("a-name-that-is-longer-than-any-column-of-the-page")
        (self.repository / "broken/1").mkdir(parents=True)
        self.serve("--canary-secs", 0, ready=False)  # a canary cuts the batch that waits beside it
        self.wait_for(lambda: self.infer("a-name-that-is-longer-than-any-column-of-the-page", self.rows([[1, 2, 3, 4]]))[0] == 200)
        self.wait_for(lambda: self.ask("GET", "/v2/models/add/ready")[0] == 200)
        for _ in range(30):
            self.assertEqual(self.infer("add", self.rows([[1, 2, 3, 4]]))[0], 200)
        self.infer("add", "{}")
        r = self.peri("top", self.metrics_url(), "--once")
        self.assertEqual(r.returncode, 0, r.stderr)
        lines = r.stdout.decode().splitlines()
        table = [line for line in lines if line.startswith(("model ", "add/1 ", "a-name-that-is-longer-than-any-column-of-the-page/1 "))]
        self.assertEqual((len(table), len(set(map(len, table)))), (3, 1), lines)
        reason = next(m for m in json.loads(self.peri("top", self.metrics_url(), "--once", "--json", "-").stdout)["not_served"] if m.startswith("broken"))
        self.assertIn(reason, lines, "as a whole where nothing limits it")
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
        self.assertEqual(self.peri("top", self.metrics_url(), "--once", capture_output=False, stdout=theirs, stderr=subprocess.DEVNULL).returncode, 0)
        narrow = os.read(ours, 65536).decode().splitlines()
        self.assertLessEqual(max(map(len, narrow)), 60)
        self.assertTrue(any(line.startswith("a-name-that-is-l.. ") for line in narrow), narrow)
        os.close(ours)
        os.close(theirs)
        self.assertNotIn("\x1b", r.stdout.decode())
        for want in ("not ready, up ", "memory ", "model ", "add/1 ", "  rows 1 100%", "  cut delay 100%", "broken: UNAVAILABLE"):
            self.assertTrue(any(line.startswith(want) for line in lines), (want, lines))
        code, said = self.object_of("top", self.metrics_url(), "--once")
        model = next(m for m in said["models"] if m["name"] == "add")
        self.assertEqual((code, model["batches"], model["cuts"]["delay"], model["queue"]), (0, {"1": 30}, 30, 0))
        self.assertGreater(model["p99_ms"], 0)
        self.assertGreater(said["resident_bytes"], 1 << 20)
        self.assertEqual([(p["name"], p["pid"]) for p in said["processes"]], [("server", self.server.pid), ("worker", children(self.server.pid)[0])])
        for part in ("resident_bytes", "peak_bytes"):
            self.assertEqual(said[part], sum(p[part] for p in said["processes"]))
        self.assertTrue(any(line.startswith("  worker ") and line.endswith(" processors") for line in lines), lines)
        self.spent_by_the_worker()
        code, said = self.object_of("top", self.metrics_url(), "--once", "--interval", "0.1")
        self.assertEqual([m["batches"].get("1", 0) for m in said["models"] if m["name"] == "add"], [0], "nothing came since")
        watching = subprocess.Popen([PERI, "top", self.metrics_url(), "--interval", "0.05"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out = b""
        while out.count(b"done/s") < 2:
            out += (line := watching.stdout.readline())
            self.assertTrue(line, out)
        watching.send_signal(signal.SIGINT)
        err = watching.communicate(timeout=120)[1]
        self.assertEqual(watching.returncode, 0, err)
        self.assertIn("metrics", self.ends(1, "top", self.endpoint(), "--once"))
        self.stop()
        self.assertIn("listening", self.ends(1, "top", self.metrics_url(), "--once"))

    def spent_by_the_worker(self):
        """What the models take counts: in the data of the dashboard, and in a metric of its own."""
        def spent():
            data = json.loads(self.ask("GET", "/dashboard/data", port=self.metrics_port)[1])
            return data["cpu_seconds"], data["processes"][1]["cpu_seconds"], data["threads"], data["processes"]
        rows = self.rows([[1, 2, 3, 4]] * 8)
        before = spent()
        self.wait_for(lambda: self.infer("add", rows) and spent()[1] >= before[1] + 0.02)
        after = spent()
        self.assertGreaterEqual(after[0] - before[0], 0.02)
        self.assertEqual(after[2], sum(p["threads"] for p in after[3]))
        self.assertGreaterEqual(self.metric('peri_worker_cpu_seconds_total{worker="worker"}'), after[1])
        self.assertGreater(self.metric('peri_worker_resident_bytes{worker="worker"}'), 1 << 20)
        self.assertGreaterEqual(self.metric('peri_worker_peak_bytes{worker="worker"}'), 1 << 20)
        with open(f"/proc/{after[3][1]['pid']}/status") as file:
            threads = int(re.search(r"Threads:\s+(\d+)", file.read())[1])
        self.assertEqual((self.metric('peri_worker_threads{worker="worker"}'), after[3][1]["threads"]), (threads, threads))
        self.assertGreater(self.metric('peri_worker_descriptors{worker="worker"}'), 3)

    def test_dashboard_is_one_page(self):
        self.put("add", config=BATCHED)
        self.serve()
        self.infer("add", self.rows([[1, 2, 3, 4]]))
        status, page, headers = self.ask("GET", "/dashboard", port=self.metrics_port)
        self.assertEqual((status, headers["Content-Type"]), (200, "text/html; charset=utf-8"))
        text, fetched = page.decode(), []

        class Reader(html.parser.HTMLParser):
            def handle_starttag(self, tag, attributes):
                fetched.extend((tag, v) for k, v in attributes if k in ("src", "href", "srcset", "action", "data") and v != "data:,")

        Reader().feed(text)
        self.assertEqual(fetched, [], "nothing from elsewhere")
        self.assertEqual(set(re.findall(r"https?://[\w./]+", text)), {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml"}, "names, not places")
        self.assertNotIn("innerHTML", text, "names of models are text")
        status, data, _ = self.ask("GET", "/dashboard/data?x", port=self.metrics_port)
        said = json.loads(data)
        used = set(re.findall(r"\b(?:now|m|now\.memory)\.([a-z]+_[a-z_]+)\b", text))
        have = set(said) | set(said["memory"]) | set(said["models"][0])
        self.assertEqual(used - have, set(), "the page asks for nothing that is not told")
        self.assertEqual(said["models"][0]["success"], 1)
        self.assertEqual(self.ask("GET", "/", port=self.metrics_port)[0], 404)
        self.assertEqual(self.ask("POST", "/dashboard", port=self.metrics_port)[0], 405)

    def test_log_rotates(self):
        self.put("add")
        self.serve("--access-log", "access.log", "--log", "server.log")
        log, own = self.folder / "access.log", self.folder / "server.log"
        self.infer("add", self.rows([[1, 2, 3, 4]]))
        log.rename(self.folder / "old.log")
        own.rename(self.folder / "old_server.log")
        self.infer("add", self.rows([[1, 2, 3, 4]]))
        self.assertFalse(log.exists())
        self.server.send_signal(signal.SIGHUP)
        self.wait_for(lambda: log.exists() and own.exists())
        self.infer("add", self.rows([[1, 2, 3, 4]]))
        self.stop()
        said = {path: path.read_text() for path in (self.folder / "old_server.log", own)}
        self.assertEqual([text.startswith("peri ") for text in said.values()], [True, True])
        self.assertEqual([["listening on" in text, "PASSED serve" in text] for text in said.values()], [[True, False], [False, True]])
        of = {name: [json.loads(row) for row in (self.folder / name).read_text().splitlines()] for name in ("old.log", "access.log")}
        infer = {name: [r for r in rows if r["target"].endswith("/infer")] for name, rows in of.items()}
        self.assertEqual([len(infer["old.log"]), len(infer["access.log"])], [2, 1])
        self.assertEqual((infer["access.log"][0]["cut"], infer["access.log"][0]["batch_rows"]), ("alone", 1))
        self.serve("--access-log", "-")
        self.infer("add", self.rows([[1, 2, 3, 4]]))
        self.stop()
        self.assertIn('"target":"/v2/models/add/infer"', self.log.read_text())

    def test_traces(self):
        Collector.spans.clear()
        collector = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        self.put("add", config=BATCHED)
        self.serve("--otlp-endpoint", f"http://127.0.0.1:{collector.server_port}", "--trace-rate", "1000000", "--canary-secs", 0)
        for field in (PARENT, PARENT[:-1] + "0"):
            self.infer("add", self.rows([[1, 2, 3, 4]]), headers={"traceparent": field})
        self.stop()
        collector.shutdown()
        collector.server_close()
        mine = [s for s in Collector.spans if s["traceId"] == PARENT.split("-")[1]]
        self.assertEqual([s["name"] for s in mine], ["infer add", "receive", "queue", "batch", "execute", "send"], "and none of the one not sampled")
        self.assertEqual(mine[0]["parentSpanId"], PARENT.split("-")[2])
        self.assertEqual({s["parentSpanId"] for s in mine[1:]}, {mine[0]["spanId"]})
        inside = [(int(s["startTimeUnixNano"]), int(s["endTimeUnixNano"])) for s in mine]
        self.assertTrue(all(inside[0][0] <= a <= b <= inside[0][1] for a, b in inside), inside)
        self.assertLess(abs(inside[0][0] - time.time_ns()), 600e9)
        self.assertIn({"key": "peri.batch.cut", "value": {"stringValue": "delay"}}, mine[3]["attributes"])

    def test_tune_is_kept(self):
        self.put("add", config=BATCHED)
        self.put("plain")
        self.serve("--tune", "p99=2000ms", "--tune-secs", "0.05")
        self.assertEqual(self.infer("add", self.rows([[1, 2, 3, 4]]))[0], 200)
        self.stop()
        kept = self.repository / "add/batching.1.json"
        said = json.loads(kept.read_text())
        self.assertEqual((said["format"], said["objective"]), ("peri batching 3", "p99=2000ms"))
        self.assertLessEqual(said["quantile_ms"], 2000)
        self.assertIn(f"{kept}: batches of up to {said['max_batch_size']} rows", self.log.read_text())
        self.assertIn("plain version 1: not tuned", self.log.read_text())
        said["max_batch_size"], said["max_queue_delay_microseconds"] = 3, 7000
        kept.write_text(json.dumps(said))
        self.serve()
        config = json.loads(self.ask("GET", "/v2/models/add/config")[1])
        self.assertEqual(config["parameters"]["peri_batch_sizes"]["string_value"].split(",")[-1], "3")
        self.assertEqual(config["dynamic_batching"]["max_queue_delay_microseconds"], 7000, "the delay in force")
        self.stop()
        self.assertIn("a delay of 7 ms", self.log.read_text())
        self.put("add", config=BATCHED.replace("200", "300"))
        self.serve()
        config = json.loads(self.ask("GET", "/v2/models/add/config")[1])
        self.assertEqual(config["dynamic_batching"]["max_queue_delay_microseconds"], 300, "the configuration was changed behind the search")
        self.stop()
        self.assertIn("is of other files, batch settings of its configuration, instances or another machine: not used", self.log.read_text())
        self.put("add", config=BATCHED)
        time.sleep(0.02)
        self.repository = shutil.copytree(self.repository, self.folder / "copy", copy_function=shutil.copyfile)  # the same bytes, at another time
        self.serve()
        self.stop()
        self.assertIn(f"{self.repository}/add/batching.1.json: batches of up to 3 rows", self.log.read_text())
        self.put("add", config=BATCHED, add=2.0)
        self.serve()
        self.stop()
        self.assertIn("is of other files, batch settings of its configuration, instances or another machine: not used", self.log.read_text())
        self.assertIn("p99=20ms", self.ends(2, "serve", "--model-repository", self.repository, "--tune", "fast"))

    def test_tune_keeps_the_files_of_others(self):
        self.put("add", config=BATCHED)
        tune = ("--tune", "p99=2000ms", "--tune-secs", "0.05")
        mine, kept = self.folder / "mine.json", self.repository / "add/batching.1.json"
        mine.write_text('{"mine": 1}')
        for link in (False, True):
            kept.unlink(missing_ok=True)
            if link:
                kept.symlink_to(mine)
            else:
                shutil.copy(mine, kept)
            self.serve(*tune)
            self.stop()
            self.assertEqual((kept.read_text(), mine.read_text(), kept.is_symlink()), ('{"mine": 1}', '{"mine": 1}', link))
            told = self.log.read_text()
            self.assertIn(f"what was found is not kept: {kept}: will not be overwritten", told)
            self.assertIn("add version 1: batches of up to", told)
            self.assertNotIn(f"{kept}: batches of up to", told)
        mine.write_text("")
        self.serve(*tune)
        self.stop()
        self.assertTrue(kept.is_symlink())
        self.assertEqual(json.loads(mine.read_text())["format"], "peri batching 3")

    def test_profiles(self):
        self.put("add")
        self.put("plain")
        profiles = sorted((SOURCE / "deploy/profiles").iterdir())
        self.assertEqual([p.stem for p in profiles], ["balanced", "everything", "latency", "throughput"])
        for path in profiles:
            self.serve("--profile", path)
            self.assertEqual(self.infer("add", self.rows([[1, 2, 3, 4]]))[0], 200, path)
            self.stop()
        mine = self.folder / "mine.yaml"
        mine.write_text("# mine\nmax-body-bytes: 50   # small\nload-model: [add, 'plain']\nmodel-control-mode: \"explicit\"\nstrict-placement: false\n")
        with_mark = self.folder / "mark.yaml"
        with_mark.write_text("\ufeff" + mine.read_text())
        json_form = self.folder / "mine.json"
        json_form.write_text('{"max-body-bytes": 50, "load-model": ["add", "plain"], "model-control-mode": "explicit", "strict-placement": false}')
        for path in (mine, with_mark, json_form):
            self.serve("--profile", path, "--max-body-bytes", "100000", ready=False)
            self.wait_for(lambda: self.infer("add", self.rows([[1, 2, 3, 4]]))[0] == 200)
            self.stop()
        for text, want in (("max-bodybytes: 5\n", "did you mean 'max-body-bytes'"), ("a\n", "line 1"), ("http-port: 1\nhttp-port: 2\n", "line 2"),
                           ("load-model:\n  - a\n   nested: 1\n", "line 3"), ('{"http-port": {}}', "http-port"), ("no-tune: maybe\n", "true or false"),
                           ("http-port:\n", "no value"), ("http-port: [1, 2]\n", "one value"), ("profile: x\n", "a profile cannot name another one")):
            mine.write_text(text)
            said = self.ends(2, "serve", "--model-repository", self.repository, "--profile", mine)
            self.assertIn(want, said)
            self.assertIn("mine.yaml", said)

    def batch_that_waits(self, *flags):
        """Three requests that wait for others, for the longest delay that there is, so that a slow machine has time to send them."""
        self.put("slow", config="max_batch_size: 8\ndynamic_batching { max_queue_delay_microseconds: 60000000 }\n")
        self.serve("--canary-secs", 0, *flags)
        said = []
        asking = [threading.Thread(target=lambda: said.append(self.infer("slow", self.rows([[1, 2, 3, 4]]))[0])) for _ in range(3)]
        for t in asking:
            t.start()
        self.wait_for(lambda: self.metric("peri_open_requests ") == 3)
        return asking, said

    def test_drain_answers_what_was_taken(self):
        asking, said = self.batch_that_waits()
        self.assertIn("PASSED serve: 3 requests", self.stop())
        for t in asking:
            t.join()
        self.assertEqual(said, [200] * 3)

    def test_a_model_that_is_unloaded_answers_what_was_taken(self):
        start = time.monotonic()
        asking, said = self.batch_that_waits("--model-control-mode", "explicit", "--load-model", "slow")
        self.assertEqual(self.ask("POST", "/v2/repository/models/slow/unload")[0], 200)
        for t in asking:
            t.join()
        self.assertEqual(said, [200] * 3)
        self.assertLess(time.monotonic() - start, 50)  # the delay is 60 s

    def test_drain_answers_what_had_come(self):
        """Requests that lie in the kernel when the signal comes: on connections that were open, and on new ones."""
        self.put("add")
        self.serve()
        body = json.dumps(self.rows([[1, 2, 3, 4]])).encode()
        request = b"POST /v2/models/add/infer HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        known = [socket.create_connection(("127.0.0.1", self.port), timeout=120) for _ in range(10)]
        for s in known:
            s.sendall(request)
            self.assertTrue(s.recv(65536).startswith(b"HTTP/1.1 200"))
        self.halt(self.server.pid)
        new = [socket.create_connection(("127.0.0.1", self.port), timeout=120) for _ in range(10)]
        for s in known + new:
            s.sendall(request)
        self.server.send_signal(signal.SIGTERM)
        os.kill(self.server.pid, signal.SIGCONT)
        for s in known + new:
            said = b""
            while piece := s.recv(65536):
                said += piece
            self.assertTrue(said.startswith(b"HTTP/1.1 200"), said[:100])
            s.close()
        self.assertEqual(self.server.wait(120), 0)
        self.assertIn("PASSED serve: 30 requests", self.log.read_text())


if __name__ == "__main__":
    main()
