#!/usr/bin/env python3
"""Triton Inference Server as a peer of `peri serve`, on the CPU: an identity model of 1 KB float32, interleaved, cell by cell.

  serve_triton.py --peri build/bin/peri --work DIR [--json FILE] [--digits] [--overload]

Triton and the clients come from wheels (nvidia-pytriton, tritonclient), the load generator is Debian's wrk; all of it shares this
machine's cores with the servers, over loopback. Triton's identity runs in its Python backend, the only one in the wheel; `peri serve`'s
is an ordinary engine.
"""
import argparse
import itertools
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import time
import urllib.request

MODEL = """import triton_python_backend_utils as pb
class TritonPythonModel:
    def execute(self, requests):
        return [pb.InferenceResponse([pb.Tensor("y", pb.get_input_tensor_by_name(r, "x").as_numpy())]) for r in requests]
"""
CONFIG = """name: "identity"
backend: "python"
max_batch_size: 64
input [{name: "x" data_type: TYPE_FP32 dims: [-1]}]
output [{name: "y" data_type: TYPE_FP32 dims: [-1]}]
dynamic_batching { max_queue_delay_microseconds: 0 }
"""
HEADER = ('{"inputs":[{"name":"x","shape":[1,256],"datatype":"FP32","parameters":{"binary_data_size":1024}}],'
          '"outputs":[{"name":"y","parameters":{"binary_data":true}}]}')
LUA = f"""wrk.method = "POST"
wrk.headers["Inference-Header-Content-Length"] = "{len(HEADER)}"
wrk.headers["Content-Type"] = "application/octet-stream"
wrk.body = [==[{HEADER}]==] .. string.rep("\\0", 1024)
"""
ONNX = """
import sys
from onnx import TensorProto, helper, save
v = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", "k"]) for n in "xy"]
graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", v[:1], v[1:])
save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), sys.argv[1])
"""
CLIENT = """
import time, numpy as np
import tritonclient.{protocol} as t
c = t.InferenceServerClient("127.0.0.1:{port}")
x = np.random.default_rng(1).random((1, 256), np.float32)
i = t.InferInput("x", x.shape, "FP32"); i.set_data_from_numpy(x)
for _ in range(100): c.infer("identity", [i])
s = []
for _ in range(1000):
    a = time.perf_counter(); r = c.infer("identity", [i]); s.append(time.perf_counter() - a)
assert (r.as_numpy("y") == x).all()
print(np.percentile(np.array(s) * 1e6, 50), np.percentile(np.array(s) * 1e6, 99))
"""


def set_up(work):
    """Environment, models of both servers, wrk's script; Triton's folder and libraries."""
    python = work / "venv/bin/python"
    if not python.exists():
        subprocess.run(["python3", "-m", "venv", work / "venv"], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "nvidia-pytriton==0.7.0", "tritonclient[http,grpc]==2.73.0"], check=True)
    packages = next((work / "venv").glob("lib/python3*/site-packages"))
    triton = packages / "pytriton/tritonserver"
    stub = triton / "python_backend_stubs" / packages.parent.name.removeprefix("python") / "triton_python_backend_stub"
    target = triton / "backends/python/triton_python_backend_stub"
    target.write_bytes(stub.read_bytes())
    target.chmod(0o755)
    for folder in ("triton/identity/1", "peri/identity/1"):
        (work / folder).mkdir(parents=True, exist_ok=True)
    (work / "triton/identity/1/model.py").write_text(MODEL)
    (work / "triton/identity/config.pbtxt").write_text(CONFIG)
    (work / "post.lua").write_text(LUA)
    return python, triton, ":".join(str(p) for p in packages.glob("*libs"))


def wait_ready(server, port, log):
    for _ in range(1200):
        time.sleep(0.1)
        try:
            if urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/health/ready", timeout=1).status == 200:
                return
        except OSError:
            if server.poll() is not None:
                break
    sys.exit(f"the server did not start (Triton's stub needs Debian's python3-numpy): see {log}")


def start(command, port, log, environment=None):
    server = subprocess.Popen([str(c) for c in command], stdout=open(log, "w"), stderr=subprocess.STDOUT, env=environment)
    wait_ready(server, port, log)
    return server


def wrk(work, port, connections, seconds):
    out = subprocess.run(["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", "-s", work / "post.lua",
                          f"http://127.0.0.1:{port}/v2/models/identity/infer"], capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in out:
        sys.exit(f"requests failed: {out}")
    scale = {"us": 1, "ms": 1e3, "s": 1e6}
    at = {p: re.search(rf"{p}%\s+([\d.]+)(us|ms|s)\b", out) for p in (50, 99)}
    return {"rate": float(re.search(r"Requests/sec:\s+(\S+)", out)[1]), **{f"p{p}_us": float(m[1]) * scale[m[2]] for p, m in at.items()}}


def endpoint(options, port, model, *words):
    """A load by `peri bench --endpoint`; the last of its points."""
    words = [options.peri, "bench", "--endpoint", f"127.0.0.1:{port}", "-m", model, "--json", "-", *map(str, words)]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode not in (0, 5):
        sys.exit(done.stderr)
    return json.loads(done.stdout)["points"][-1]


def place(options, model, onnx, config):
    """A model of ours in the repository of a server of its own."""
    folder = options.work / f"repository_{model}" / model
    (folder / "1").mkdir(parents=True, exist_ok=True)
    (folder / "config.pbtxt").write_text(config)
    if not (folder / "1/model.engine").exists():
        subprocess.run([options.peri, "build", onnx, "-o", folder / "1/model.engine", "--no-tune", "--quiet", "--dims", "batch=8"], check=True)
    return folder / "1/model.engine"


def serve(options, model, port, *words):
    return start([options.peri, "serve", "--model-repository", options.work / f"repository_{model}", "--http-port", port, "--metrics-port", port + 2, *words],
                 port, options.work / f"{model}.log")


def digits(options, port, identity_port):
    """digits_cnn at 64 clients: how much of what the engine and the protocol could do together is left."""
    engine = place(options, "digits", options.models / "digits_cnn.onnx", "max_batch_size: 64\ndynamic_batching {}\n")
    server, rows = serve(options, "digits", port), []
    try:
        for turn in range(options.rounds):
            items = []
            for batch, threads in ((b, t) for b in (8, 16, 32, 64) for t in (1, len(os.sched_getaffinity(0)))):
                words = ["--dims", f"batch={batch}", "--threads", str(threads), "--seconds", "0.5", "--json", "-"]
                done = subprocess.run([options.peri, "bench", engine, *words], capture_output=True, text=True)
                record = json.loads(done.stdout)
                items.append(record["items_per_s"])
            b = endpoint(options, identity_port, "identity", "--shape", "x:1,256", "--concurrency-range", 64)["per_second"]
            found = endpoint(options, port, "digits", "--concurrency-range", 64)
            bound = 1 / (1 / max(items) + 1 / b)
            rows.append({"round": turn, "load": os.getloadavg()[0], "server": "peri", "digits at 64": found["per_second"], "p99_ms": found["latency_ms"]["p99"],
                         "engine_items": max(items), "identity_rate": b, "of_bound": found["per_second"] / bound})
            print(json.dumps(rows[-1]), flush=True)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)
    return rows


def resident(port):
    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    return int(re.search(r"^peri_memory_resident_bytes (\d+)", text, re.M)[1])


def overload(options, port):
    """bert_base at ten times what it can do, open loop: what is answered still, how soon, and in what memory."""
    onnx = options.work / "bert_base.onnx"
    if not onnx.exists():
        subprocess.run([sys.executable, options.models / "materialize.py", "bert_base", "--out", options.work], check=True)
    timeout_ms = 2000
    place(options, "bert_base", onnx, f"max_batch_size: 4\ndynamic_batching {{ default_queue_policy {{ timeout_action: REJECT "
          f"default_timeout_microseconds: {timeout_ms}000 max_queue_size: 64 }} }}\n")
    server, rows = serve(options, "bert_base", port), []
    shapes = ("--shape", "input_ids:128", "--shape", "attention_mask:128", "--measurement-interval", 4000, "--max-trials", 3)
    try:
        for turn in range(options.rounds):
            full = endpoint(options, port, "bert_base", *shapes, "--concurrency-range", 8)
            before = resident(port + 2)
            over = endpoint(options, port, "bert_base", *shapes, "--request-rate-range", max(1, 10 * full["per_second"]))
            rows.append({"round": turn, "load": os.getloadavg()[0], "server": "peri", "capacity": full["per_second"], "overload goodput": over["per_second"],
                         "of_capacity": over["per_second"] / full["per_second"], "accepted_p99_ms": over["service_ms"]["p99"],
                         "bound_ms": 2 * (timeout_ms + full["latency_ms"]["p50"]), "errors": over["errors"], "grown_mib": (resident(port + 2) - before) / 2**20})
            print(json.dumps(rows[-1]), flush=True)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)
    return rows


def measure(options, python, ports):
    rows = []
    for turn in range(options.rounds):
        for connections in (1, 8, 64):
            for label, port in ports.items():
                rows.append({"round": turn, "load": os.getloadavg()[0], "server": label, "connections": connections, **wrk(options.work, port, connections, options.seconds)})
                print(json.dumps(rows[-1]), flush=True)
        for protocol, (label, port) in itertools.product(("http", "grpc"), ports.items()):
            client = CLIENT.format(protocol=protocol, port=port + (protocol == "grpc"))
            said = subprocess.run([python, "-c", client], capture_output=True, text=True, check=True).stdout.split()
            rows.append({"round": turn, "load": os.getloadavg()[0], "server": label, "connections": f"tritonclient.{protocol}", "p50_us": float(said[0]), "p99_us": float(said[1])})
            print(json.dumps(rows[-1]), flush=True)
    return rows


def machine():
    names = re.findall(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    return {"cpu": names[0] if names else "", "cpus": len(os.sched_getaffinity(0))}


def summary(rows):
    """Medians over rounds, and peri's over Triton's."""
    out = {}
    for cell in (1, 8, 64, "tritonclient.http", "tritonclient.grpc"):
        for key in ("rate", "p50_us", "p99_us"):
            sides = [[r[key] for r in rows if r["server"] == s and r.get("connections") == cell and key in r] for s in ("triton", "peri")]
            if all(sides):
                triton, peri = map(statistics.median, sides)
                out[f"{cell} {key}"] = {"triton": triton, "peri": peri, "ratio": round(peri / triton, 3)}
    for key in ("of_bound", "of_capacity", "accepted_p99_ms", "grown_mib"):
        values = [r[key] for r in rows if key in r]
        if values:
            out[key] = statistics.median(values)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peri", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True, help="folder for the environment, models and logs; kept")
    parser.add_argument("--port", type=int, default=18000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--models", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2] / "models")
    parser.add_argument("--digits", action="store_true", help="digits_cnn at 64 clients, too")
    parser.add_argument("--overload", action="store_true", help="bert_base at ten times its capacity, too")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    options.work = options.work.resolve()
    options.work.mkdir(parents=True, exist_ok=True)
    python, triton, libraries = set_up(options.work)
    subprocess.run([sys.executable, "-c", ONNX, options.work / "identity.onnx"], check=True)
    subprocess.run([options.peri, "build", options.work / "identity.onnx", "-o", options.work / "peri/identity/1/model.engine", "--no-tune", "--force", "--quiet"], check=True)
    p = options.port
    servers = []
    try:
        servers.append(start([triton / "bin/tritonserver", f"--model-repository={options.work}/triton", f"--backend-directory={triton}/backends", "--http-address",
                              "127.0.0.1", "--http-port", p, "--grpc-port", p + 1, "--metrics-port", p + 2], p, options.work / "triton.log",
                             {"LD_LIBRARY_PATH": libraries, "PATH": "/usr/bin:/bin"}))
        servers.append(start([options.peri, "serve", "--model-repository", options.work / "peri", "--http-port", p + 10, "--grpc-port", p + 11, "--metrics-port", p + 12], p + 10,
                             options.work / "peri.log"))
        rows = measure(options, python, {"triton": p, "peri": p + 10})
        if options.digits:
            rows += digits(options, p + 20, p + 10)
    finally:
        for server in servers:
            server.send_signal(signal.SIGTERM)
            server.wait(60)
    if options.overload:
        rows += overload(options, p + 30)
    result = {"machine": machine(), "summary": summary(rows), "rows": rows}
    print(json.dumps(result["summary"], indent=1))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
