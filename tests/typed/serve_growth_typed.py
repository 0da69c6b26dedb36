#!/usr/bin/env python3
"""`peri serve` after very many loads, unloads, loads that fail, shapes and models in turn: its memory, descriptors and threads are as before."""
import os
import shutil

from served import Served
from typed import main

MIB = 1 << 20


class Growth(Served):
    def held(self):
        """Of the server and of its worker: bytes of memory of their own, descriptors, threads."""
        out = []
        for pid in (self.server.pid, self.children()[0]):
            with open(f"/proc/{pid}/smaps_rollup") as file:
                memory = sum(int(line.split()[1]) * 1024 for line in file if line.startswith(("Pss_Anon:", "Pss_Shmem:")))
            out.append((memory, len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir(f"/proc/{pid}/task"))))
        return out

    def flat(self, before, after, mib=1):
        for who, b, a in zip(("server", "worker"), before, after):
            self.assertLessEqual(a[0] - b[0], mib * MIB, f"{who}: {b} {a}")
            # A connection that is being closed, or a thread for a model that came before the last had gone, is no growth.
            for now, then, what in zip(a[1:], b[1:], ("descriptors", "threads")):
                self.assertLessEqual(now, then + 3, f"{who}: {what}")

    def asked(self, name, what):
        return self.ask("POST", f"/v2/repository/models/{name}/{what}")[0]

    def round_of(self, name, k):
        self.assertEqual(self.asked(name, "load"), 200)
        self.assertEqual(self.infer(name, self.rows([[k, 0, 0, 0]]))[1]["outputs"][0]["data"], [k + 1, 1, 1, 1])
        self.assertEqual(self.asked(name, "unload"), 200)

    def broken(self):
        """Models of which each fails at another place: at its file, its configuration, its warm-up, when sessions have their memory."""
        self.put("cut")
        engine = self.repository / "cut/1/model.engine"
        engine.write_bytes(engine.read_bytes()[:-64])
        self.put("ports", config='max_batch_size: 4\ninput [ { name: "none" data_type: TYPE_FP32 dims: [ 4 ] } ]\n')
        self.put("groups", config="instance_group [ { kind: KIND_GPU } ]\n")
        self.put("warm", config="""max_batch_size: 4
model_warmup [ { name: "w" batch_size: 4 inputs { key: "x" value { data_type: TYPE_FP32 dims: [ 4 ] input_data_file: "none" } } } ]
""")
        shutil.copytree(self.repository / "cut", self.repository / "bytes")
        (self.repository / "bytes/1/model.engine").write_bytes(b"no engine")
        return "cut", "ports", "groups", "warm", "bytes"

    def test_loads_and_unloads(self):
        """A thousand rounds, every fifth of them with a load that fails."""
        self.put("add")
        broken = self.broken()
        self.serve("--model-control-mode", "explicit", "--canary-secs", 0, "--batch-check-secs", 0)

        def rounds(first, last):
            for k in range(first, last):
                if k % 5 == 4:
                    name = broken[k // 5 % len(broken)]
                    self.assertEqual(self.asked(name, "load"), 400, name)
                else:
                    self.round_of("add", k % 100)
        rounds(0, 250)
        held = [self.held()]
        for first in (250, 500, 750):
            rounds(first, first + 250)
            held.append(self.held())
        self.flat(held[0], held[-1])
        # What an allocator keeps grows now and then; a kilobyte that each load leaves, every time.
        for k, who in enumerate(("server", "worker")):
            steps = [after[k][0] - before[k][0] for before, after in zip(held, held[1:])]
            self.assertLess(min(steps), 144 << 10, f"{who}: {steps}")
        self.assertEqual(self.metric("peri_worker_deaths_total"), 0)

    def test_shapes_and_models_in_turn(self):
        """Memory follows the largest of what was asked, not how often it changed."""
        for k in range(3):
            self.put(f"m{k}", add=float(k))
        self.serve("--canary-secs", 0)
        sizes = (1, 700, 3, 20000, 64, 5000)

        def turn():
            for rows in sizes:
                for k in range(3):
                    status, said = self.infer(f"m{k}", self.rows([[1, 2, 3, 4]] * rows))
                    self.assertEqual((status, said["outputs"][0]["data"][-4:]), (200, [1 + k, 2 + k, 3 + k, 4 + k]))
        for _ in range(3):
            turn()
        before = self.held()
        for _ in range(12):
            turn()
        self.flat(before, self.held(), mib=4)


if __name__ == "__main__":
    main()
