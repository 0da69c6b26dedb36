#!/usr/bin/env python3
"""`peri serve` on a GPU that fails for good: on the fake driver, whose device ends at the next kernel once a file is there."""
import json
import os
import re
import time

from served import Served
from typed import PERI, main


class Device(Served):
    def setUp(self):
        super().setUp()
        libraries, code = self.folder / "libraries", self.folder / "code"
        libraries.mkdir()
        code.mkdir()
        for name, fake in (("libcuda.so.1", "driver"), ("libnvrtc.so.13", "nvrtc")):
            (libraries / name).symlink_to(PERI.parent / "fake" / f"{fake}.so")
        self.trap = self.folder / "trap"
        self.environment.update(PERI_CUDA_PATH=str(libraries), FAKE_CUDA_COMPILES=str(code), FAKE_CUDA_TRAPS_ONCE=str(self.trap))

    def put_gpu(self, name, add=1.0, config=None):
        model = self.put(name, engine=False, add=add, config=config)
        folder = self.repository / name / "1"
        self.ends(0, "build", model, "-o", folder / "model.engine", "--backend", "cuda", "--no-tune", "--no-verify", "--quiet")
        (folder / "model.onnx").unlink()

    def ready(self):
        return self.ask("GET", "/v2/health/ready")[0] == 200

    def maps(self, pid):
        with open(f"/proc/{pid}/maps") as file:
            return file.read()

    def ask_until_trapped(self, name="add", add=1):
        """Asks until the device has failed under it; the answer of that one, which is an error."""
        for k in range(1000):
            status, said = self.infer(name, self.rows([[k, 1, 2, 3]]))
            if status != 200:
                return status, said
            self.assertEqual(said["outputs"][0]["data"], [k + add, 1 + add, 2 + add, 3 + add])
        self.fail("the device did not fail")

    def test_its_worker_is_replaced(self):
        """Twenty times under load: those under way are told, no answer is wrong, and the server itself never opens a device."""
        self.put_gpu("add", config="max_batch_size: 8\ndynamic_batching { }\n")
        self.put_gpu("other", add=5.0)
        self.serve("--canary-secs", 0)
        front = self.server.pid
        self.assertNotIn("fake/driver.so", self.maps(front), "the front end has no context on a device")
        self.assertIn("fake/driver.so", self.maps(self.children()[0]), "its worker has")
        faults, back = 20, []
        with self.asked_all_the_time((("add", 1), ("other", 5)), "lost its device") as seen:
            for k in range(faults):
                before = len(seen)
                self.wait_for(lambda: seen[before:].count("answered") > 20)
                began = time.monotonic()
                self.trap.touch()
                self.wait_for(lambda: self.metric('peri_worker_ends_total{reason="device"}') == k + 1)
                self.wait_for(lambda: self.metric("peri_worker_up") == 1 and self.ready())
                back.append(time.monotonic() - began)
            before = len(seen)
            self.wait_for(lambda: seen[before:].count("answered") > 20)
        self.assertEqual({s for s in seen if s not in ("answered", "told")}, set())
        self.assertGreaterEqual(seen.count("told"), faults, "each fault is met by a request")
        self.assertLessEqual(seen.count("told"), faults * 4, "those that were under way, and no other")
        self.assertEqual((self.metric("peri_worker_deaths_total"), self.metric("peri_worker_lost_requests_total")), (faults, seen.count("told")))
        self.assertLess(sorted(back)[len(back) // 2], 5, f"it is back within five seconds, but where this machine stood still: {back}")
        said = self.log.read_text()
        self.assertIn("lost its device (cuda:0 failed and cannot be used by this process any more: FAKE (700)", said)
        self.assertNotIn("fake/driver.so", self.maps(front))
        self.assertEqual((self.server.pid, said.count("listening on")), (front, 1), "the front end stood all the time")
        self.assertIn("PASSED", self.stop())

    def test_ready_is_taken_back(self):
        """While there is no worker the model is not ready, and what is asked then waits for the next one."""
        self.put_gpu("add")
        self.serve("--canary-secs", 0)
        took = []
        for _ in range(5):  # a machine that stands still for a moment is no fault of the server
            self.trap.touch()
            status, said = self.ask_until_trapped()
            began = time.monotonic()
            self.assertEqual(status, 503, said)
            self.halt_next(began, took)
            self.wait_for(self.ready)
            if min(took) <= 1:
                break
        self.assertLessEqual(min(took), 1, "seconds until it is not ready")
        self.assertRegex(self.log.read_text(), "add version 1 is not ready: its worker process (is being started again|stands still)")
        self.assertEqual(self.infer("add", self.rows([[1, 2, 3, 4]]))[1]["outputs"][0]["data"], [2, 3, 4, 5])

    def halt_next(self, began, took):
        """Holds the next worker back until the server is seen not to be ready."""
        pid = self.wait_for(self.children)[0]
        os.kill(pid, 19)
        self.wait_for(lambda: not self.ready())
        took.append(time.monotonic() - began)
        self.assertEqual(self.ask("GET", "/v2/health/live")[0], 200)
        self.assertEqual(self.ask("GET", "/v2/models/add/ready")[0], 400)
        os.kill(pid, 18)

    def test_others_lose_nothing(self):
        """Of two devices one fails: whoever asks meanwhile is answered by the other. Each worker runs on its own."""
        self.environment["FAKE_CUDA_DEVICES"] = "2"
        self.put_gpu("add", config="max_batch_size: 8\ndynamic_batching { }\n")
        self.serve("--worker-devices", "cuda:0,cuda:1", "--canary-secs", 0)
        for k in range(4):
            self.trap.touch()
            self.assertEqual(self.ask_until_trapped()[0], 503)
            for n in range(20):
                status, said = self.infer("add", self.rows([[n, 1, 2, 3]]))
                self.assertEqual((status, said.get("outputs", [{}])[0].get("data")), (200, [n + 1, 2, 3, 4]))
            self.wait_for(lambda: self.log.read_text().count("is back with 1 model ") == k + 1)
        self.assertEqual((self.metric("peri_worker_deaths_total"), self.metric("peri_worker_lost_requests_total")), (4, 4))
        failed = re.findall(r"worker (\d), cuda:(\d): lost its device \(cuda:(\d) failed", self.log.read_text())
        self.assertEqual(len(failed), 4)
        self.assertEqual([(w, w) for w, _, _ in failed], [(named, there) for _, named, there in failed], "a worker's models are on its device")

    def test_a_load_that_ends_it(self):
        """The model is refused; what was served is served by the next worker, on a device that works."""
        self.put_gpu("add")
        self.put_gpu("other", add=5.0)
        self.serve("--model-control-mode", "explicit", "--load-model", "add", "--canary-secs", 0)
        self.trap.touch()
        status, said, _ = self.ask("POST", "/v2/repository/models/other/load")
        self.assertEqual(status, 400)
        self.assertIn("worker process ended over loading", said.decode())
        self.wait_for(lambda: "is back with 1 model " in self.log.read_text() and self.ask("GET", "/v2/models/add/ready")[0] == 200)
        self.assertEqual(self.infer("add", self.rows([[1, 2, 3, 4]]))[1]["outputs"][0]["data"], [2, 3, 4, 5])
        self.assertEqual(self.metric('peri_worker_ends_total{reason="device"}'), 1)
        self.assertEqual(self.ask("POST", "/v2/repository/models/other/load")[0], 200)
        self.assertEqual(self.infer("other", self.rows([[1, 2, 3, 4]]))[1]["outputs"][0]["data"], [6, 7, 8, 9])

    def test_in_one_process(self):
        """Without a worker nothing can be replaced: the server is live, says that it is not ready and why, and answers nothing."""
        self.put_gpu("add")
        self.serve("--in-process", "--canary-secs", 0)
        self.trap.touch()
        self.assertEqual(self.ask_until_trapped()[0], 500)
        self.wait_for(lambda: not self.ready())
        self.assertEqual(self.ask("GET", "/v2/health/live")[0], 200)
        self.assertIn("cannot be used by this process any more", json.loads(self.ask("POST", "/v2/repository/index")[1])[0]["reason"])
        self.assertNotEqual(self.infer("add", self.rows([[1, 2, 3, 4]]))[0], 200)


if __name__ == "__main__":
    main()
