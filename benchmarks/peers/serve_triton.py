#!/usr/bin/env python3
"""Triton Inference Server as a peer of `peri serve`, on the CPU: an identity model of 1 KB float32, interleaved, cell by cell.

  serve_triton.py --peri build/bin/peri --work DIR [--json FILE]

Triton and the clients come from wheels (nvidia-pytriton, tritonclient), the load generator is Debian's wrk; all of it shares this
machine's cores with the servers, over loopback. Triton's identity runs in its Python backend, the only one in the wheel; `peri serve`'s
is an ordinary engine.
"""
import argparse
import itertools
import json
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
    for _ in range(200):
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


def measure(options, python, ports):
    rows = []
    for turn in range(options.rounds):
        for connections in (1, 8, 64):
            for label, port in ports.items():
                rows.append({"round": turn, "server": label, "connections": connections, **wrk(options.work, port, connections, options.seconds)})
                print(json.dumps(rows[-1]), flush=True)
        for protocol, (label, port) in itertools.product(("http", "grpc"), ports.items()):
            client = CLIENT.format(protocol=protocol, port=port + (protocol == "grpc"))
            said = subprocess.run([python, "-c", client], capture_output=True, text=True, check=True).stdout.split()
            rows.append({"round": turn, "server": label, "connections": f"tritonclient.{protocol}", "p50_us": float(said[0]), "p99_us": float(said[1])})
            print(json.dumps(rows[-1]), flush=True)
    return rows


def summary(rows):
    """Medians over rounds, and peri's over Triton's."""
    out = {}
    for cell in (1, 8, 64, "tritonclient.http", "tritonclient.grpc"):
        for key in ("rate", "p50_us", "p99_us"):
            sides = [[r[key] for r in rows if r["server"] == s and r["connections"] == cell and key in r] for s in ("triton", "peri")]
            if all(sides):
                triton, peri = map(statistics.median, sides)
                out[f"{cell} {key}"] = {"triton": triton, "peri": peri, "ratio": round(peri / triton, 3)}
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peri", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True, help="folder for the environment, models and logs; kept")
    parser.add_argument("--port", type=int, default=18000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=3)
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
    finally:
        for server in servers:
            server.send_signal(signal.SIGTERM)
            server.wait(60)
    result = {"summary": summary(rows), "rows": rows}
    print(json.dumps(result["summary"], indent=1))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
