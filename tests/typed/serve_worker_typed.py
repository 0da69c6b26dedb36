#!/usr/bin/env python3
"""`peri serve` and its worker process: what kills it costs the requests it was at and no other, and the server goes on."""
import json
import os
import re
import signal
import threading
import time

import numpy
from onnx import TensorProto, helper

from served import Served
from typed import main


class Worker(Served):
    def worker(self):
        """The process id of the worker that runs now."""
        for pid in self.children():
            return pid
        return None

    def ready(self):
        return self.ask("GET", "/v2/health/ready")[0] == 200

    def test_a_killed_worker_costs_what_it_was_at(self):
        self.put("add", config="max_batch_size: 8\ndynamic_batching { }\n")
        self.put("other", add=5.0)
        self.serve("--canary-secs", 0)
        kills = 5
        with self.asked_all_the_time((("add", 1), ("other", 5)), "worker process died of SIGKILL") as seen:
            for k in range(kills):
                before = len(seen)
                self.wait_for(lambda: len(seen) > before + 50)
                os.kill(self.worker(), signal.SIGKILL)
                self.wait_for(lambda: self.log.read_text().count("is back with 2 models") == k + 1 and self.ready())
            before = len(seen)
            self.wait_for(lambda: len(seen) > before + 50)
        self.assertEqual({s for s in seen if s not in ("answered", "told")}, set())
        self.assertLessEqual(seen.count("told"), kills * 4, "those that were under way, and no other")
        self.assertEqual((self.metric("peri_worker_deaths_total"), self.metric("peri_worker_lost_requests_total")), (kills, seen.count("told")))
        self.assertIn("PASSED", self.stop())

    def test_requests_that_are_lost_are_counted_and_not_their_runs(self):
        """Eight of one batch are eight requests."""
        self.put("add", config="max_batch_size: 8\ndynamic_batching { preferred_batch_size: [ 8 ] max_queue_delay_microseconds: 60000000 }\n")
        self.serve("--canary-secs", 0)
        pid, said = self.worker(), []
        self.halt(pid)
        asking = [threading.Thread(target=lambda: said.append(self.infer("add", self.rows([[1, 2, 3, 4]]))[0])) for _ in range(8)]
        for t in asking:
            t.start()
        self.wait_for(lambda: self.metric('nv_inference_pending_request_count{model="add",version="1"}') == 0 and self.metric("peri_open_requests") == 8)
        os.kill(pid, signal.SIGKILL)
        for t in asking:
            t.join()
        self.assertEqual((said, self.metric("peri_worker_lost_requests_total")), ([503] * 8, 8))
        self.assertIn("with 8 requests under way", self.log.read_text())

    def test_a_worker_that_stands_still(self):
        """Not ready, but live; ready again when it moves; replaced when it does not, if that is asked for."""
        self.put("add")
        self.serve("--stuck-kill-secs", 0)
        pid = self.worker()
        self.halt(pid)
        self.wait_for(lambda: not self.ready())
        self.assertEqual(self.ask("GET", "/v2/health/live")[0], 200)
        self.assertEqual(self.ask("GET", "/v2/models/add/ready")[0], 400)
        self.assertIn("stands still", self.ask("POST", "/v2/repository/index")[1].decode())
        os.kill(pid, signal.SIGCONT)
        self.wait_for(self.ready)
        self.assertEqual(self.worker(), pid)
        self.stop()
        self.serve("--stuck-kill-secs", 4)
        pid = self.worker()
        self.halt(pid)
        self.wait_for(lambda: self.worker() not in (None, pid) and self.ready())
        self.assertEqual(self.infer("add", self.rows([[1, 2, 3, 4]]))[1]["outputs"][0]["data"], [2, 3, 4, 5])
        self.assertIn("it is ended", self.log.read_text())

    def test_ready_is_taken_back_within_a_second(self):
        """After its worker has died, and while it stands; the best of some tries, as this machine may stand still for a moment too."""
        self.put("add")
        self.serve("--stuck-kill-secs", 0, "--canary-secs", 0)

        def killed():
            pid = self.worker()
            os.kill(pid, signal.SIGKILL)
            self.wait_for(lambda: self.worker() not in (None, pid))
            self.halt(self.worker())  # the next one is held back, so that there is something to see

        def halted():
            os.kill(self.worker(), signal.SIGSTOP)
        for harm in (killed, halted):
            took = []
            while len(took) < 5 and not (took and min(took) <= 1):
                began = time.monotonic()
                harm()
                self.wait_for(lambda: not self.ready())
                took.append(time.monotonic() - began)
                # What the worker said before it stood may still make it ready for a moment.
                self.wait_for(lambda: self.ask("GET", "/v2/models/add/ready")[0] == 400)
                os.kill(self.worker(), signal.SIGCONT)
                self.wait_for(self.ready)
            self.assertLessEqual(min(took), 1, f"{harm.__name__}: {took}")

    def test_a_file_that_shrinks_while_it_is_served(self):
        """Its answers are right, or errors that say so, and a good file in its place is served again."""
        value, size = helper.make_tensor_value_info, 1500
        def graph(v):
            weight = helper.make_tensor("w", TensorProto.FLOAT, [size, size], numpy.full((size, size), v, numpy.float32).tobytes(), raw=True)
            return helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [value("x", TensorProto.FLOAT, ["n", size])], [value("y", TensorProto.FLOAT, ["n", size])], [weight])
        self.put("add")
        self.put("large", graph=graph(1.0))
        self.serve("--canary-secs", 0, "--model-control-mode", "poll", "--repository-poll-secs", 0.1)
        body = {"inputs": [{"name": "x", "shape": [1, size], "datatype": "FP32", "data": [1.0] * size}]}
        self.assertEqual(self.infer("large", body)[1]["outputs"][0]["data"], [size] * size)
        path = self.repository / "large/1/model.engine"
        for left in (path.stat().st_size - 1, path.stat().st_size // 2, 4096, 1, 0):
            os.truncate(path, left)
            for _ in range(3):
                status, said = self.infer("large", body)
                if status == 200:
                    self.assertEqual(said["outputs"][0]["data"], [size] * size, left)
                else:
                    self.assertIn(status, (404, 500, 503), said)
                    self.assertNotEqual(said["error"], "")
            self.assertEqual(self.infer("add", self.rows([[1, 2, 3, 4]]))[1]["outputs"][0]["data"], [2, 3, 4, 5])
        self.put("large", graph=graph(2.0))
        self.wait_for(lambda: (lambda r: r[0] == 200 and r[1]["outputs"][0]["data"] == [2 * size] * size)(self.infer("large", body)))
        self.assertEqual(self.metric("peri_worker_deaths_total"), 0)
        self.assertIn("PASSED", self.stop())

    def test_a_file_that_is_overwritten_while_it_is_served(self):
        """At its size: no answer is computed of two files. Another time of modification alone is nothing."""
        self.put("add")
        self.serve("--canary-secs", 0)
        path = self.repository / "add/1/model.engine"
        body = self.rows([[1, 2, 3, 4]])
        os.utime(path, (1, 1))
        self.assertEqual(self.infer("add", body)[1]["outputs"][0]["data"], [2, 3, 4, 5])
        with path.open("r+b") as file:
            file.seek(100)
            byte = file.read(1)
            file.seek(100)
            file.write(bytes([byte[0] ^ 1]))
        status, said = self.infer("add", body)
        self.assertEqual(status, 500, said)
        self.assertIn("overwritten", said["error"])
        self.assertNotIn(str(self.folder), said["error"])

    def test_work_that_stands_still(self):
        self.put("add")
        self.serve("--stuck-kill-secs", 4)
        for _ in range(3):
            self.infer("add", self.rows([[1, 2, 3, 4]]))
        pid = self.worker()
        self.halt(pid)
        got = []
        asked = threading.Thread(target=lambda: got.append(self.infer("add", self.rows([[1, 2, 3, 4]]))))
        asked.start()
        self.wait_for(lambda: not self.ready())
        asked.join()
        self.assertEqual(got[0][0], 503)
        self.assertIn("may be sent again", got[0][1]["error"])
        self.wait_for(self.ready)

    def test_a_worker_for_each_device(self):
        """Both answer; the fall of one costs what it was at, and nobody waits for its successor."""
        self.put("add", config="max_batch_size: 8\ndynamic_batching { }\n")
        self.serve("--worker-devices", "cpu,cpu")
        workers = self.children()
        self.assertEqual(len(workers), 2)
        for victim in workers:
            os.kill(victim, signal.SIGKILL)
            answers = [self.infer("add", self.rows([[k, 1, 2, 3]])) for k in range(20)]
            self.assertLessEqual(sum(status != 200 for status, _ in answers), 1, answers)
            backs = workers.index(victim) + 1
            self.wait_for(lambda: len(self.children()) == 2 and self.ready() and self.log.read_text().count("is back with 1 model after") == backs)
        workers = self.children()
        self.assertEqual((self.metric("peri_worker_up"), self.metric("peri_worker_deaths_total"), self.metric('peri_worker_pid{worker="worker 1, cpu"}') in workers),
                         (2, 2, True))
        self.assertIn("worker 0, cpu: is back with 1 model after", self.log.read_text())
        self.assertIn("PASSED", self.stop())
        for flag in ("--device", "--worker-devices"):
            r = self.peri("serve", "--model-repository", self.repository, "--http-port", 0, "--grpc-port", -1, "--metrics-port", -1, flag, "cuda:77")
            self.assertIn(r.returncode, (1, 2), "it does not stay up")
            self.assertRegex(r.stderr.decode(), f"FAILED serve: {flag} cuda:77: .*; .*, or leave {flag} out")
        for wrong, want in (("gpu:0", "not a device"), ("cpu,", "not a device"), ("cuda:x", "cuda:0"), ("cpu,cpu:7", "there is no cpu:7"), ("cuda:99999999999", "names no device")):
            self.assertIn(want, self.ends(2, "serve", "--model-repository", self.repository, "--worker-devices", wrong))
        self.assertIn("--in-process", self.ends(2, "serve", "--model-repository", self.repository, "--worker-devices", "cpu", "--in-process"))
        for flag in ("--worker-memory-mib", "--stuck-kill-secs"):
            self.assertIn(f"{flag} is for workers, and --in-process has none", self.ends(2, "serve", "--model-repository", self.repository, flag, "64", "--in-process"))

    def test_models_come_and_go_in_the_worker(self):
        self.put("add")
        self.serve("--model-control-mode", "explicit")
        for k in range(20):
            self.assertEqual(self.ask("POST", "/v2/repository/models/add/load")[0], 200)
            self.assertEqual(self.infer("add", self.rows([[k, 0, 0, 0]]))[1]["outputs"][0]["data"], [k + 1, 1, 1, 1])
            if k == 10:
                os.kill(self.worker(), signal.SIGKILL)
                # One, or two where the one that was unloaded has not ended there yet.
                self.wait_for(lambda: re.search(r"is back with [12] models?", self.log.read_text()))
                self.wait_for(self.ready)
            self.assertEqual(self.ask("POST", "/v2/repository/models/add/unload")[0], 200)

    def test_large_tensors(self):
        """Answers that no room was made for, and memory that is given back."""
        self.put("add")
        self.serve("--worker-memory-mib", 48)
        for rows in (1, 1000, 100000, 10, 100000):
            status, said = self.infer("add", self.rows([[1, 2, 3, 4]] * rows))
            self.assertEqual((status, said["outputs"][0]["data"][-4:], len(said["outputs"][0]["data"])), (200, [2, 3, 4, 5], 4 * rows))
        head = json.dumps({"inputs": [{"name": "x", "shape": [2000000, 4], "datatype": "FP32", "parameters": {"binary_data_size": 32000000}}]})
        status, said, headers = self.ask("POST", "/v2/models/add/infer", head.encode() + bytes(32000000), {"Inference-Header-Content-Length": str(len(head))})
        self.assertEqual(status, 400, "it never fits")
        self.assertIn("--worker-memory-mib", said.decode())
        self.assertNotIn("Retry-After", headers)
        self.wait_for(lambda: self.metric("peri_worker_memory_bytes") == 0)
        self.assertEqual(self.infer("add", self.rows([[1, 2, 3, 4]]))[0], 200)

    def test_the_worker_ends_with_the_server(self):
        self.put("add")
        self.serve()
        pid = self.worker()
        self.server.send_signal(signal.SIGKILL)
        self.server.wait()
        until = time.monotonic() + 120
        while os.path.exists(f"/proc/{pid}/stat") and time.monotonic() < until:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rsplit(")", 1)[1].split()[0] == "Z":
                    break  # nobody buried it here
            time.sleep(0.02)
        self.assertLess(time.monotonic(), until)


if __name__ == "__main__":
    main()
