#!/usr/bin/env python3
"""Triton Inference Server as a peer of `peri serve`, on the CPU: an identity model of 1 KB float32, interleaved, cell by cell.

  serve_triton.py --peri build/bin/peri --work DIR [--json FILE] [--markdown FILE] [--rounds N] [--rows identity clients digits overload]

All servers stand the whole time, and each round asks for every row of the table of bars, the two servers in turn. Triton and the clients
come from wheels (nvidia-pytriton, tritonclient), the load generator is Debian's wrk; all of it shares this machine's cores with the
servers, over loopback. Triton's identity runs in its Python backend, the only one in the wheel; `peri serve`'s is an ordinary engine.
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

ROWS = ("identity", "clients", "digits", "overload")
QUEUE_TIMEOUT_MS = 2000  # of bert_base
FLAT_MIB = 1             # that memory may grow by under overload, in the median of rounds
REFUSAL_MS = 5           # within which 99 of 100 refusals have come
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
    """Environment, Triton's model, wrk's script; the clients' Python, Triton's folder, and its environment."""
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
    (work / "triton/identity/1").mkdir(parents=True, exist_ok=True)
    (work / "triton/identity/1/model.py").write_text(MODEL)
    (work / "triton/identity/config.pbtxt").write_text(CONFIG)
    (work / "post.lua").write_text(LUA)
    for folder in ("numpy", "numpy.libs"):  # where the Python backend looks for modules
        link = target.parent / folder
        if not link.exists():
            link.symlink_to(packages / folder)
    environment = {"LD_LIBRARY_PATH": ":".join(str(p) for p in packages.glob("*libs")), "PATH": "/usr/bin:/bin"}
    return python, triton, environment


def wait_ready(server, port, log):
    for _ in range(1200):
        time.sleep(0.1)
        try:
            if urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/health/ready", timeout=1).status == 200:
                return
        except OSError:
            if server.poll() is not None:
                break
    sys.exit(f"the server did not start: see {log}")


def start(command, port, log, environment=None):
    server = subprocess.Popen([str(c) for c in command], stdout=open(log, "w"), stderr=subprocess.STDOUT, env=environment)
    wait_ready(server, port, log)
    return server


def wrk(work, port, connections, seconds):
    out = subprocess.run(["wrk", "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "--latency", "-s", work / "post.lua",
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


def digits(options, server, identity_port):
    """digits_cnn at 64 clients: how much of what the engine and the protocol could do together is left."""
    items = []
    for batch, threads in ((b, t) for b in (8, 16, 32, 64) for t in (1, len(os.sched_getaffinity(0)))):
        words = ["--dims", f"batch={batch}", "--threads", str(threads), "--seconds", str(min(0.5, options.seconds / 4)), "--json", "-"]
        done = subprocess.run([options.peri, "bench", server.engine, *words], capture_output=True, text=True)
        items.append(json.loads(done.stdout)["items_per_s"])
    load = ("--concurrency-range", 64, "--measurement-interval", int(options.seconds * 500), "--max-trials", 6)
    b = endpoint(options, identity_port, "identity", "--shape", "x:1,256", *load)["per_second"]
    found = endpoint(options, server.port, "digits", *load)
    return {"server": "peri", "digits at 64": found["per_second"], "p99_ms": found["latency_ms"]["p99"], "engine_items": max(items), "identity_rate": b,
            "of_bound": found["per_second"] / (1 / (1 / max(items) + 1 / b))}


def memory(server):
    """MiB of a server and its worker together, what they share counted once."""
    pids, total = [server.process.pid], 0
    for task in os.listdir(f"/proc/{server.process.pid}/task"):
        pids += pathlib.Path(f"/proc/{server.process.pid}/task/{task}/children").read_text().split()
    for pid in pids:
        total += sum(int(line.split()[1]) for line in open(f"/proc/{pid}/smaps_rollup") if line.startswith("Pss:"))
    return total / 1024


def batch_ms(port, model, before):
    """The longest of the mean times that batches of a size took since `before`; and the counts now, for the next call."""
    said = json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/models/{model}/stats"))["model_stats"][0]["batch_stats"]
    now = {row["batch_size"]: (row["compute_infer"]["count"], row["compute_infer"]["ns"]) for row in said}
    took = [(ns - before.get(size, (0, 0))[1]) / (count - before.get(size, (0, 0))[0]) for size, (count, ns) in now.items() if count > before.get(size, (0, 0))[0]]
    return max(took, default=0) / 1e6, now


def refused_p99(failed):
    """Milliseconds of those that were refused as they came: who waited for most of the queue's timeout was taken, and gave up."""
    soon = [(ms, n) for ms, n in failed["histogram"] if ms < QUEUE_TIMEOUT_MS / 2]
    left = 0.99 * sum(n for _, n in soon)
    for ms, n in soon:
        left -= n
        if left <= 0:
            return ms
    return 0.0


def overload(options, server):
    """bert_base at ten times what it can do, open loop: what is answered still, how soon, and in what memory."""
    shapes = ("--shape", "input_ids:128", "--shape", "attention_mask:128", "--max-trials", 3, "--measurement-interval", int(options.seconds * 1300))
    _, counts = batch_ms(server.port, "bert_base", {})
    full = endpoint(options, server.port, "bert_base", *shapes, "--concurrency-range", 8)
    before = memory(server)
    over = endpoint(options, server.port, "bert_base", *shapes, "--request-rate-range", max(1, 10 * full["per_second"]))
    batch, _ = batch_ms(server.port, "bert_base", counts)
    return {"server": "peri", "capacity": full["per_second"], "overload goodput": over["per_second"], "of_capacity": over["per_second"] / full["per_second"],
            "accepted_p99_ms": over["service_ms"]["p99"], "batch_ms": batch, "of_latency": over["service_ms"]["p99"] / (2 * (QUEUE_TIMEOUT_MS + batch)),
            "errors": over["errors"], "refused_p99_ms": refused_p99(over["failed_ms"]), "grown_mib": memory(server) - before}


def clients(options, python, ports):
    for protocol, (label, port) in itertools.product(("http", "grpc"), ports.items()):
        client = CLIENT.format(protocol=protocol, port=port + (protocol == "grpc"))
        said = subprocess.run([python, "-c", client], capture_output=True, text=True, check=True).stdout.split()
        yield {"server": label, "connections": f"tritonclient.{protocol}", "p50_us": float(said[0]), "p99_us": float(said[1])}


def rows_of(options, python, servers):
    """Every cell of the table once: the two servers side by side in each."""
    ports = {label: servers[label].port for label in ("triton", "peri")}
    for connections, (label, port) in itertools.product((1, 8, 64) if "identity" in options.rows else (), ports.items()):
        yield {"server": label, "connections": connections, **wrk(options.work, port, connections, options.seconds)}
    if "clients" in options.rows:
        yield from clients(options, python, ports)
    if "digits" in options.rows:
        yield digits(options, servers["digits"], ports["peri"])
    if "overload" in options.rows:
        yield overload(options, servers["bert_base"])


def machine():
    names = re.findall(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    return {"cpu": names[0] if names else "", "cpus": len(os.sched_getaffinity(0))}


def bar(name, found, limit, below, unit=""):
    """A row of the table: below or above a limit."""
    return {"row": name, "found": round(found, 3), "bar": f"{'<=' if below else '>='} {limit:g}{unit}", "met": bool(found <= limit if below else found >= limit)}


def bars(rows):
    """Each row of the table as a median over rounds; of two servers the ratio is taken within a round."""
    def pairs(cell, key, triton_key=None):
        of = {s: {r["round"]: r[triton_key or key] if s == "triton" else r[key] for r in rows if r["server"] == s and r.get("connections") == cell} for s in ("triton", "peri")}
        return [of["peri"][k] / of["triton"][k] for k in sorted(of["peri"]) if k in of["triton"]]

    def values(key):
        return [r[key] for r in rows if key in r]
    out = []
    for name, cell, keys, limit, below in (
            ("HTTP, 1 connection: p50 to Triton's", 1, ("p50_us",), 0.6, True), ("HTTP, 8 connections: rate to Triton's", 8, ("rate",), 2, False),
            ("HTTP, 64 connections: rate to Triton's", 64, ("rate",), 2, False), ("HTTP, 64 connections: p99 to Triton's p50", 64, ("p99_us", "p50_us"), 1, True),
            ("tritonclient.http: p50 to Triton's", "tritonclient.http", ("p50_us",), 0.8, True),
            ("tritonclient.grpc: p50 to Triton's", "tritonclient.grpc", ("p50_us",), 0.8, True)):
        found = pairs(cell, *keys)
        if found:
            out.append({**bar(name, statistics.median(found), limit, below, " x"), "rounds": [round(v, 3) for v in found]})
    for name, key, limit, below, unit in (
            ("digits_cnn at 64 clients, of 1 / (1/a + 1/b)", "of_bound", 0.9, False, ""), ("overload: goodput of capacity", "of_capacity", 0.95, False, ""),
            ("overload: p99 of accepted, of 2 x (queue timeout + one batch)", "of_latency", 1, True, ""), ("overload: p99 of refusals", "refused_p99_ms", REFUSAL_MS, True, " ms"),
            ("overload: memory grown", "grown_mib", FLAT_MIB, True, " MiB")):
        if values(key):
            out.append({**bar(name, statistics.median(values(key)), limit, below, unit), "rounds": [round(v, 3) for v in values(key)]})
    return out


def medians(rows):
    """Of both servers' cells, over rounds."""
    out = {}
    for cell in (1, 8, 64, "tritonclient.http", "tritonclient.grpc"):
        for key in ("rate", "p50_us", "p99_us"):
            sides = [[r[key] for r in rows if r["server"] == s and r.get("connections") == cell and key in r] for s in ("triton", "peri")]
            if all(sides):
                triton, peri = map(statistics.median, sides)
                out[f"{cell} {key}"] = {"triton": triton, "peri": peri, "ratio": round(peri / triton, 3)}
    return out


def page(result):
    """The same for people."""
    m, loads = result["machine"], [r["load"] for r in result["rows"]]
    text = ["# `peri serve` beside Triton 2.51", "",
            f"`{result['command']}`, {result['began']}, commit {result['commit']}: {m['cpus']} processors, {m['cpu']}. {result['rounds']} rounds in turn, the load",
            f"generators (`wrk`, tritonclient, `peri bench --endpoint`) on the same processors over loopback; the machine's load average was {min(loads):.1f} to",
            f"{max(loads):.1f}, of which a measurement itself makes up to {m['cpus'] + 1}. Triton's identity runs in its Python backend, the only one in its wheel; ours is an",
            "ordinary engine, behind scheduler and worker process.", "", "| row | median | bar | met | rounds |", "| --- | ---: | ---: | --- | --- |"]
    text += [f"| {b['row']} | {b['found']:g} | {b['bar']} | {'yes' if b['met'] else '**no**'} | {', '.join(f'{v:g}' for v in b['rounds'])} |" for b in result["bars"]]
    text += ["", "| cell | Triton | peri | peri / Triton |", "| --- | ---: | ---: | ---: |"]
    text += [f"| {name} | {v['triton']:,.0f} | {v['peri']:,.0f} | {v['ratio']} |" for name, v in result["summary"].items()]
    return "\n".join(text) + "\n"


class Served:
    """A server of ours over a model of its own, on three ports from `port` on."""

    def __init__(self, options, model, port, onnx, config):
        folder = options.work / f"repository_{model}" / model
        (folder / "1").mkdir(parents=True, exist_ok=True)
        (folder / "config.pbtxt").write_text(config)
        self.engine, self.port = folder / "1/model.engine", port
        if model == "identity" or not self.engine.exists():
            dims = () if model == "identity" else ("--dims", "batch=8")
            subprocess.run([options.peri, "build", onnx, "-o", self.engine, "--no-tune", "--force", "--quiet", *dims], check=True)
        self.process = start([options.peri, "serve", "--model-repository", folder.parent, "--http-port", port, "--grpc-port", port + 1, "--metrics-port", port + 2,
                              *options.flags], port, options.work / f"{model}.log")


class Triton:
    def __init__(self, options, triton, environment, port):
        self.port = port
        self.process = start([triton / "bin/tritonserver", f"--model-repository={options.work}/triton", f"--backend-directory={triton}/backends", "--http-address",
                              "127.0.0.1", "--http-port", port, "--grpc-port", port + 1, "--metrics-port", port + 2], port, options.work / "triton.log",
                             environment)


def start_all(options, triton, environment, servers):
    """One after the other into `servers`, so that what has started is known to whoever ends them."""
    subprocess.run([sys.executable, "-c", ONNX, options.work / "identity.onnx"], check=True)
    servers["triton"] = Triton(options, triton, environment, options.port)
    servers["peri"] = Served(options, "identity", options.port + 10, options.work / "identity.onnx", "")
    if "digits" in options.rows:
        servers["digits"] = Served(options, "digits", options.port + 20, options.models / "digits_cnn.onnx", "max_batch_size: 64\ndynamic_batching {}\n")
    if "overload" in options.rows:
        onnx = options.work / "bert_base.onnx"
        if not onnx.exists():
            subprocess.run([sys.executable, options.models / "materialize.py", "bert_base", "--out", options.work], check=True)
        queue = f"timeout_action: REJECT default_timeout_microseconds: {QUEUE_TIMEOUT_MS}000 max_queue_size: 64"
        servers["bert_base"] = Served(options, "bert_base", options.port + 30, onnx, f"max_batch_size: 4\ndynamic_batching {{ default_queue_policy {{ {queue} }} }}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peri", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True, help="folder for the environment, models and logs; kept")
    parser.add_argument("--port", type=int, default=18000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3, help="of a cell of wrk; other measurements take their length from it")
    parser.add_argument("--models", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2] / "models")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=ROWS, help="parts of the table (default: all)")
    parser.add_argument("--flags", nargs="*", default=[], help="more flags of peri serve")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--markdown", type=pathlib.Path)
    options = parser.parse_args()
    options.work, options.peri = options.work.resolve(), options.peri.resolve()
    options.work.mkdir(parents=True, exist_ok=True)
    commit = subprocess.run(["git", "-C", options.models, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    result = {"command": " ".join(["benchmarks/peers/serve_triton.py", *(a for a in sys.argv[1:])]), "commit": commit, "machine": machine(), "rounds": options.rounds,
              "began": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "load_before": os.getloadavg(), "rows": []}
    python, triton, environment = set_up(options.work)
    servers = {}
    try:
        start_all(options, triton, environment, servers)
        for turn in range(options.rounds):
            for row in rows_of(options, python, servers):
                result["rows"].append({"round": turn, "load": os.getloadavg()[0], **row})
                print(json.dumps(result["rows"][-1]), flush=True)
    finally:
        for server in servers.values():
            server.process.send_signal(signal.SIGTERM)
        for server in servers.values():
            server.process.wait(60)
    result |= {"bars": bars(result["rows"]), "summary": medians(result["rows"])}
    print(page(result))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    if options.markdown:
        options.markdown.write_text(page(result))


if __name__ == "__main__":
    main()
