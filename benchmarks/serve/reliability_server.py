"""The server that reliability.py tries: its models, its processes, and one request to it."""
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time

MODEL = """
import sys
from onnx import TensorProto, helper, save
for path, add in ((sys.argv[1], 1.0), (sys.argv[2], 2.0)):
    v = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 4]) for n in "xy"]
    w = helper.make_tensor("w", TensorProto.FLOAT, [4], [add] * 4)
    g = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", v[:1], v[1:], [w])
    save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
"""
CHAIN = """
platform: "ensemble"
max_batch_size: 16
input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 4 ] } ]
ensemble_scheduling { step [
  { model_name: "fixed" model_version: -1 input_map { key: "x" value: "x" } output_map { key: "y" value: "between" } },
  { model_name: "fixed" model_version: -1 input_map { key: "x" value: "between" } output_map { key: "y" value: "y" } }
] }
"""
ADDS = {"fixed": (1,), "changing": (1, 2), "chain": (2,)}  # what each model may add: the file of `changing` is replaced


class Counts:
    def __init__(self):
        self.lock, self.kinds, self.wrong, self.times = threading.Lock(), {}, [], []

    def add(self, kind, detail=None):
        with self.lock:
            self.kinds[kind] = self.kinds.get(kind, 0) + 1
            if detail is not None:
                self.wrong.append(detail)


def body_of(values):
    return json.dumps({"inputs": [{"name": "x", "shape": [len(values), 4], "datatype": "FP32", "data": values}]})


def ask(connection, model, values, counts, adds):
    """One request on a connection; what became of it is counted, and how long it took."""
    start = time.monotonic()
    try:
        connection.request("POST", f"/v2/models/{model}/infer", body_of(values))
        reply = connection.getresponse()
        said = json.loads(reply.read())
    except (OSError, http.client.HTTPException) as e:
        connection.close()
        return counts.add("no answer", f"{model}: {e!r}")
    if reply.status == 200:
        got = said["outputs"][0]["data"]
        counts.times.append(time.monotonic() - start)
        right = any(got == [v + a for row in values for v in row] for a in adds)
        return counts.add("right") if right else counts.add("wrong", f"{model}: {values} gave {got}")
    told = reply.status == 503 and ("may be sent again" in said["error"] or "maximum queue size" in said["error"])
    return counts.add("refused with a reason") if told else counts.add("unexpected", f"{reply.status} {said}")


class Server:
    def __init__(self, options, folder="", build=(), environment=None):
        """In a folder of `work`; its engines are built with more words, all of it in this environment."""
        self.work, self.peri = options.work / folder, options.peri
        self.work.mkdir(parents=True, exist_ok=True)
        models = [self.work / "one.onnx", self.work / "two.onnx"]
        subprocess.run([sys.executable, "-c", MODEL, *models], check=True)
        self.engines = []
        for m in models:
            self.engines.append(m.with_suffix(".engine"))
            subprocess.run([self.peri, "build", m, "-o", self.engines[-1], "--no-tune", "--force", "--quiet", *build], check=True, env=environment)
        self.repository = self.work / "repository"
        for name in ("fixed", "changing"):
            (self.repository / name / "1").mkdir(parents=True, exist_ok=True)
            (self.repository / name / "config.pbtxt").write_text("max_batch_size: 16\ndynamic_batching { }\n")
            self.place(name, 0)
        (self.repository / "chain" / "1").mkdir(parents=True, exist_ok=True)
        (self.repository / "chain" / "config.pbtxt").write_text(CHAIN)
        log = open(self.work / "serve.log", "w")
        self.process = subprocess.Popen([self.peri, "serve", "--model-repository", self.repository, "--http-port", "0", "--metrics-port", "0",
                                         "--grpc-port", "0", "--model-control-mode", "poll", "--repository-poll-secs", "0.2", "--request-timeout", "2",
                                         "--idle-timeout", "30", "--no-tune", *options.flags], stdout=log, stderr=log, env=environment)
        while "listening on" not in (said := (self.work / "serve.log").read_text()):
            time.sleep(0.05)
        self.port = int(said.split("http://127.0.0.1:")[1].split()[0].split(";")[0])
        grpc = said.split("gRPC at 127.0.0.1:")
        self.grpc_port = int(grpc[1].split()[0].split(";")[0]) if len(grpc) > 1 else None
        self.metrics_port = int(said.split("metrics at http://127.0.0.1:")[1].split("/")[0])
        self.pause = options.pause_ms / 1000
        self.wait_ready()

    def place(self, name, which):
        """A version's file, whole from the first moment."""
        new = self.work / "new.engine"
        new.write_bytes(self.engines[which].read_bytes())
        new.rename(self.repository / name / "1" / "model.engine")

    def ready(self):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            c.request("GET", "/v2/health/ready")
            return c.getresponse().status == 200
        finally:
            c.close()

    def metric(self, line):
        """The value of the line of metrics that begins so."""
        c = http.client.HTTPConnection("127.0.0.1", self.metrics_port, timeout=20)
        try:
            c.request("GET", "/metrics")
            return float(next(row for row in c.getresponse().read().decode().split("\n") if row.startswith(line)).split()[-1])
        finally:
            c.close()

    def freed(self, most):
        """Seconds until no more than so many requests are open; None: not within ten."""
        start = time.monotonic()
        while self.metric("peri_open_requests ") > most:
            if time.monotonic() - start > 10:
                return None
        return time.monotonic() - start

    def ends(self):
        """Ends server and worker; the server's exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def wait_ready(self, seconds=60):
        start = time.monotonic()
        while not self.ready():
            if self.process.poll() is not None or time.monotonic() - start > seconds:
                sys.exit(f"the server is not ready: see {self.work}/serve.log")
            time.sleep(0.01)
        return time.monotonic() - start

    def wait_answers(self):
        """Until both models answer, whatever the server says of itself."""
        connection, counts = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60), Counts()
        for model, adds in ADDS.items():
            while "right" not in counts.kinds:
                ask(connection, model, [[1, 2, 3, 4]], counts, adds)
            counts = Counts()
        connection.close()

    def worker(self):
        found = []
        for task in os.listdir(f"/proc/{self.process.pid}/task"):
            try:
                with open(f"/proc/{self.process.pid}/task/{task}/children") as file:
                    found += file.read().split()
            except (FileNotFoundError, ProcessLookupError):
                pass  # that thread has ended
        return int(found[0]) if found else None

    def counted(self):
        """Descriptors and threads of server and worker."""
        pids = [p for p in (self.process.pid, self.worker()) if p]
        return {what: sum(len(os.listdir(f"/proc/{p}/{folder}")) for p in pids) for what, folder in (("descriptors", "fd"), ("threads", "task"))}

    def resident(self):
        """Bytes of server and worker together, what they share counted once; without pages of files, which others may share."""
        total = 0
        for pid in filter(None, (self.process.pid, self.worker())):
            with open(f"/proc/{pid}/smaps_rollup") as file:
                total += sum(int(line.split()[1]) * 1024 for line in file if line.startswith(("Pss_Anon:", "Pss_Shmem:")))
        return total
