#!/usr/bin/env python3
"""What `peri serve` withstands: cancels, kills of clients and of its worker, devices that fail, reloads, slow clients, mixed load.

  reliability.py --peri build/bin/peri --work DIR [--json FILE] [--cancels N] [--clients N] [--workers N] [--faults N]
                 [--reload-s S] [--slow N] [--mixed-s S] [--pause-ms MS]

Every answer that comes is held against the right one; every request that was sent whole has an answer, an error that says so, or a
client that went away. A device is that of the fake driver beside the program (build/bin/fake), which fails for good when it is told to.
Mixed load is asked by HTTP and, where tritonclient is there, by gRPC, with calls that are cancelled; over half an
hour and more memory may grow by 1 MiB. Defaults take about two minutes; --whole takes the numbers of the project's bar (hours). Ends with 1 if a rule
was broken.
"""
import argparse
import http.client
import json
import os
import pathlib
import random
import resource
import select
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time

from reliability_grpc import grpc_traffic
from reliability_server import ADDS, Counts, Server, ask, body_of

DEFAULTS = {"cancels": 4000, "clients": 500, "workers": 20, "faults": 20, "reload_s": 20, "mixed_s": 30, "slow": 200}
WHOLE = {"cancels": 100000, "clients": 10000, "workers": 500, "faults": 100, "reload_s": 600, "mixed_s": 3600, "slow": 10000}
BACK_S, FREED_S = 5, 0.1  # until a worker answers again; until what was cancelled is free
GOOD_RATE, GOOD_P99, HELD_MIB = 0.9, 2, 64  # beside slow clients: of the rate and the p99 without them; more memory


def good_traffic(server, counts, stop, threads=2):
    def run(seed):
        rng, c = random.Random(seed), http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        while not stop.is_set():
            rows = [[rng.randrange(1000) for _ in range(4)] for _ in range(rng.randrange(1, 5))]
            model = rng.choice(tuple(ADDS))
            ask(c, model, rows, counts, ADDS[model])
            if server.pause > 0:
                stop.wait(server.pause * 2 * rng.random())
        c.close()
    all_of_them = [threading.Thread(target=run, args=(k,)) for k in range(threads)]
    for t in all_of_them:
        t.start()
    return all_of_them


def together(server, work):
    """Runs `work` beside good traffic; what became of that."""
    counts, stop = Counts(), threading.Event()
    threads = good_traffic(server, counts, stop)
    start = time.monotonic()
    try:
        extra = work() or {}
    finally:
        stop.set()
        for t in threads:
            t.join()
    return {**extra, "seconds": round(time.monotonic() - start, 1), "traffic": counts.kinds, "broken": counts.wrong[:5], "breaks": len(counts.wrong)}


def raw(model, rng):
    """A request; one of eight is larger than what a connection reads ahead."""
    body = body_of([[rng.randrange(1000) for _ in range(4)] for _ in range(rng.randrange(1, 5))]).encode()
    if rng.random() < 0.125:
        body += b" " * rng.randrange(30000, 100000)
    return b"POST /v2/models/%s/infer HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (model, len(body)) + body


def cancels(server, number):
    """Clients that go away at a random moment after or within their request."""
    def run(seed, n):
        rng = random.Random(seed)
        for _ in range(n):
            with socket.create_connection(("127.0.0.1", server.port)) as s:
                data = raw(rng.choice((b"fixed", b"chain")), rng)
                s.sendall(data if rng.random() < 0.7 else data[:rng.randrange(len(data))])
                if rng.random() < 0.3:
                    time.sleep(rng.random() * 0.001)
                if rng.random() < 0.5:  # a reset and no orderly end
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")

    def work():
        threads = [threading.Thread(target=run, args=(k, number // 4)) for k in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return {"cancels": number // 4 * 4, "freed_s": server.freed(2)}  # but the two of good traffic
    out = together(server, work)
    out["open_at_rest"] = None if server.freed(0) is None else 0
    if out["open_at_rest"] is None or out["freed_s"] is None or out["freed_s"] > FREED_S:
        out["breaks"] += 1
        out["broken"].append(f"what was cancelled is held: {out['freed_s']} s")
    return out


CLIENTS = """
import os, random, signal, socket, sys, time
sys.path.insert(0, sys.argv[4])
from reliability import raw
port, seed, number = map(int, sys.argv[1:4])
rng, answered = random.Random(seed), 0

def client(rng, told):
    with socket.create_connection(("127.0.0.1", port)) as s:
        while True:
            s.sendall(raw(b"fixed", rng))
            s.recv(65536)
            os.write(told, b".")

for k in range(number):
    hear, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        client(random.Random(k), tell)
    os.close(tell)
    time.sleep(rng.random() * 0.03)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    answered += len(os.read(hear, 65536)) > 0
    os.close(hear)
print(answered)
"""


def kills_of_clients(server, number):
    """Processes, of which each is a client and is killed at a random moment of its work, four at a time."""
    def work():
        words = [sys.executable, "-c", CLIENTS, str(server.port)]
        parents = [subprocess.Popen([*words, str(k), str(-(-number // 4)), str(pathlib.Path(__file__).parent)], stdout=subprocess.PIPE) for k in range(4)]
        answered = sum(int(p.communicate()[0]) for p in parents)
        return {"clients": -(-number // 4) * 4, "of them had answers before": answered}
    return together(server, work)


def kills_of_workers(server, number):
    times = []

    def work():
        rng = random.Random(6)
        for _ in range(number):
            time.sleep(rng.random() * 0.1)
            pid = server.worker()
            if pid is None:
                continue
            start = time.monotonic()
            os.kill(pid, signal.SIGKILL)
            while server.worker() in (None, pid):
                time.sleep(0.002)
            server.wait_answers()
            times.append(time.monotonic() - start)
        return {"kills": len(times), "back_s": {"median": round(statistics.median(times), 3), "max": round(max(times), 3)}}
    return together(server, work)


def device_faults(options, number):
    """A server of its own on a device that fails for good, again and again: its worker ends, and another one answers."""
    folder = options.work / "device"
    for name in ("libraries", "code"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name, fake in (("libcuda.so.1", "driver"), ("libnvrtc.so.13", "nvrtc")):
        (folder / "libraries" / name).unlink(missing_ok=True)
        (folder / "libraries" / name).symlink_to(options.peri.parent / "fake" / f"{fake}.so")
    trap, times = folder / "trap", []
    trap.unlink(missing_ok=True)
    server = Server(options, "device", ("--backend", "cuda", "--no-verify"),
                    {**os.environ, "PERI_CACHE": str(folder / "cache"), "PERI_CUDA_PATH": str(folder / "libraries"), "FAKE_CUDA_COMPILES": str(folder / "code"), "FAKE_CUDA_TRAPS_ONCE": str(trap)})
    lost = 'peri_worker_ends_total{reason="device"}'

    def work():
        rng = random.Random(7)
        for k in range(number):
            time.sleep(rng.random() * 0.1)
            start = time.monotonic()
            trap.touch()
            while server.metric(lost) < k + 1:
                if time.monotonic() - start > 60:
                    raise RuntimeError(f"fault {k + 1} did not end the worker: {(server.work / 'serve.log').read_text()[-800:]}")
                time.sleep(0.002)
            server.wait_answers()
            times.append(time.monotonic() - start)
        return {"faults": number, "lost": server.metric("peri_worker_lost_requests_total"), "deaths": server.metric("peri_worker_deaths_total"),
                "back_s": {"median": round(statistics.median(times), 3), "max": round(max(times), 3)}}
    try:
        out = together(server, work)
        out["exit"] = server.ends()
        if max(times) > BACK_S or out["deaths"] != number or out["exit"] != 0:
            out["breaks"] += 1
            out["broken"].append(f"a worker is back after {max(times):.2f} s, {out['deaths']:.0f} ended, exit status {out['exit']}")
        return out
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()


def reloads(server, seconds):
    def work():
        start, k = time.monotonic(), 0
        while time.monotonic() - start < seconds:
            k += 1
            server.place("changing", k % 2)
            time.sleep(1)
        return {"reloads": k}
    return together(server, work)


def slow(port, number):
    """Connections of which every third says its request a byte at a time, until it is cut off, and others nothing; until stdin ends."""
    rng, held = random.Random(8), []
    for k in range(number):
        s = socket.create_connection(("127.0.0.1", port))
        s.setblocking(False)
        held.append((s, raw(b"fixed", rng)))
    print("held", flush=True)
    at = 0
    while not select.select([sys.stdin], [], [], max(0.2, number / 5000))[0]:
        for s, data in held[::3]:
            if at < len(data):
                try:
                    s.send(data[at:at + 1])
                except OSError:
                    pass
        at += 1


def slow_clients(server, number):
    """Connections that say their request byte by byte, or never, or read nothing; good traffic's rate and p99 beside and without them."""
    def rate(seconds):
        counts, stop = Counts(), threading.Event()
        threads = good_traffic(server, counts, stop)
        time.sleep(seconds)
        stop.set()
        for t in threads:
            t.join()
        return counts.kinds.get("right", 0) / seconds, statistics.quantiles(counts.times, n=100)[98] if len(counts.times) > 1 else 0, counts
    words = [sys.executable, "-c", "import sys; sys.path.insert(0, sys.argv[1]); import reliability; reliability.slow(*map(int, sys.argv[2:]))",
             str(pathlib.Path(__file__).parent)]
    sides, held_before, most, wrong = {"without": [], "beside": []}, server.resident(), 0, []
    for _ in range(9):  # in turn, as the machine's own speed comes and goes: the ratio is that of a round
        sides["without"].append(rate(1))
        with subprocess.Popen([*words, str(server.port), str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as clients:
            clients.stdout.readline()
            sides["beside"].append(rate(1))
            most = max(most, server.resident())
            clients.stdin.close()
    found = {side: [statistics.median(values) for values in list(zip(*of))[:2]] for side, of in sides.items()}
    (without, p99_without), (beside, p99), grown = found["without"], found["beside"], (most - held_before) / 2**20
    of_rate, of_p99 = (statistics.median(b[k] / a[k] for a, b in zip(sides["without"], sides["beside"]) if a[k] > 0) for k in (0, 1))
    counts = Counts()
    for each in (c for of in sides.values() for _, _, c in of):
        for kind, n in each.kinds.items():
            counts.kinds[kind] = counts.kinds.get(kind, 0) + n
        wrong += each.wrong
    for harm, what in ((of_rate < GOOD_RATE, f"{of_rate:.2f} of the rate"), (of_p99 > GOOD_P99, f"{of_p99:.2f} times the p99"), (grown > HELD_MIB, f"{grown:.1f} MiB more")):
        if harm:
            wrong.append(what)
    return {"slow": number, "rate_without": round(without), "rate_beside": round(beside), "p99_ms_without": round(1000 * p99_without, 3),
            "p99_ms_beside": round(1000 * p99, 3), "of_rate": round(of_rate, 3), "of_p99": round(of_p99, 3), "grown_mib": round(grown, 2), "traffic": counts.kinds, "broken": wrong[:5], "breaks": len(wrong)}


def mixed(server, seconds):
    """All of it at once, and what memory is held: from a tenth of the time, or the fifth minute, on."""
    samples, open_things, counts, stop = [], [], Counts(), threading.Event()

    def work():
        grpc = grpc_traffic(server, counts, stop)
        try:
            return {**all_else(), "gRPC": counts.kinds, "gRPC broken": counts.wrong[:5]}
        finally:
            stop.set()
            if grpc:
                grpc.join()

    def all_else():
        rng, start, k = random.Random(9), time.monotonic(), 0
        while time.monotonic() - start < seconds:
            k += 1
            for _ in range(20):
                with socket.create_connection(("127.0.0.1", server.port)) as s:
                    data = raw(rng.choice((b"changing", b"chain")), rng)
                    s.sendall(data[:rng.randrange(20, len(data) + 1)])
            if k % 10 == 0:
                server.place("changing", k // 10 % 2)
            time.sleep(0.2)
            if time.monotonic() - start > min(seconds / 10, 300):
                samples.append(server.resident())
                open_things.append(server.counted())
        third = max(1, len(samples) // 3)
        first, last = statistics.median(samples[:third]), statistics.median(samples[-third:])
        if seconds >= 1800 and last - first > 2**20:
            counts.add("grown", f"memory grew by {(last - first) / 2**20:.2f} MiB")
        most = {what: [max(s[what] for s in part) for part in (open_things[:third], open_things[-third:])] for what in ("descriptors", "threads")}
        for what, (early, late) in most.items():
            if seconds >= 1800 and late > early + 16:  # clients come and go
                counts.add("grown", f"{what}: {early}, later {late}")
        steps = max(1, len(samples) // 60)
        return {**most, "resident_mib": {"first_third": round(first / 2**20, 2), "last_third": round(last / 2**20, 2), "growth": round((last - first) / 2**20, 2),
                                 "over_time": [round(statistics.median(samples[k:k + steps]) / 2**20, 1) for k in range(0, len(samples), steps)]}}
    out = together(server, work)
    out["breaks"] += len(counts.wrong)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peri", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--whole", action="store_true", help="the numbers of the project's bar")
    parser.add_argument("--pause-ms", type=float, default=0, help="mean pause of each of the good clients between two requests")
    parser.add_argument("--flags", nargs="*", default=[], help="more flags of peri serve")
    for name, default in DEFAULTS.items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, help=f"{default}, with --whole {WHOLE[name]}")
    options = parser.parse_args()
    for name, value in (WHOLE if options.whole else DEFAULTS).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    options.peri, options.work = options.peri.resolve(), options.work.resolve()
    options.work.mkdir(parents=True, exist_ok=True)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]  # clients and server hold a descriptor for each connection
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    options.flags = ["--max-connections", str(max(10000, 2 * options.slow)), *options.flags]
    server = Server(options)
    out, ok = {"cores": os.cpu_count(), "load_before": os.getloadavg()[0]}, True
    try:
        if options.faults > 0:
            out["faults of a device"] = device_faults(options, options.faults)
            ok = out["faults of a device"]["breaks"] == 0
            print("faults of a device", json.dumps(out["faults of a device"]), flush=True)
        for name, run, argument in (("cancels", cancels, options.cancels), ("kills of clients", kills_of_clients, options.clients),
                                    ("kills of workers", kills_of_workers, options.workers), ("reloads", reloads, options.reload_s),
                                    ("slow clients", slow_clients, options.slow), ("mixed", mixed, options.mixed_s)):
            if argument <= 0:
                continue
            out[name] = run(server, argument)
            server.wait_ready()
            ok = ok and out[name]["breaks"] == 0 and server.process.poll() is None
            out[name]["load"] = os.getloadavg()
            print(name, json.dumps(out[name]), flush=True)
        out["exit"] = server.ends()
        ok = ok and out["exit"] == 0
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()
    if options.json:
        options.json.write_text(json.dumps(out, indent=1) + "\n")
    print("PASSED" if ok else "FAILED")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
