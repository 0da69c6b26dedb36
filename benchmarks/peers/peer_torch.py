#!/usr/bin/env python3
"""The GPU peer: a network of PyTorch at a batch, eager and by torch.compile, each replayed as a CUDA graph.

It lives through all rounds: for each line of standard input it runs a round and writes one JSON line, so that whoever
drives it can let another program have its turn between. Without --rounds it says first what it is:

  {"network": ..., "batch": 1, "dtype": "float16", "modes": {"eager": {"prepare_s": 1.2, "device_bytes": ...}, ...}, ...}
  {"round": 0, "resident_ms": {"eager": [...], "default": [...]}}

Times are those between events round each of at least 30 replays, after at least 0.5 s of replays (3 alone read 5 to 8 %
slower at batch 1); inputs and outputs lie on the GPU, masks included. device_bytes: the most that was allocated at once
for a run of the network in that mode, after warm-up: what cudnn.benchmark takes to choose does not count against the peer's
memory, nor for it. A mode that fails says so in "errors" and is left out.

  peer_torch.py resnet50 --batch 8 --rounds 5      # rounds of its own, no input needed

With --wait it loads its libraries, without touching the GPU, and goes on at the first line of its input: whoever drives it can use
the GPU alone until then.

Modes: eager and default (torch.compile's) as graphs, max-autotune the same (minutes a shape), uncaptured: eager as it is,
which is what ssdlite320 has. --dry takes a numpy product on the CPU for the network: for tests of those who drive this.
Needs torch, torchvision, transformers; with --dry numpy.
"""
import argparse
import json
import sys
import time

REPLAYS, WARM_UP_SECONDS = 30, 0.5
MODES = ("eager", "default", "max-autotune", "uncaptured")


class TorchPeer:
    """One network on the GPU in all its modes."""

    def __init__(self, name, batch, dtype, modes):
        import torch
        from torch_networks import NETWORKS

        self.torch = torch
        torch.backends.cudnn.benchmark = True
        torch.set_float32_matmul_precision("high")
        self.runs, self.modes, self.errors = {}, {}, {}
        with torch.inference_mode():
            net, inputs = NETWORKS[name](getattr(torch, dtype))
            self.inputs = inputs(batch)
            torch.cuda.synchronize()
            base = torch.cuda.memory_allocated()
            for mode in modes:
                others = torch.cuda.memory_allocated() - base
                start = time.perf_counter()
                try:
                    self.runs[mode] = self.prepared(net, mode)
                    self.runs[mode]()
                    torch.cuda.synchronize()
                except Exception as e:  # a mode that this version cannot do is no reason to lose the others
                    self.errors[mode] = f"{type(e).__name__}: {e}"[:300]
                    self.runs.pop(mode, None)
                    continue
                took = time.perf_counter() - start
                self.modes[mode] = {"prepare_s": round(took, 2), "device_bytes": torch.cuda.max_memory_allocated() - others}

    def prepared(self, net, mode):
        torch = self.torch
        if mode in ("eager", "uncaptured"):
            function = net
        else:
            torch._dynamo.reset()
            function = torch.compile(net, mode="max-autotune-no-cudagraphs" if mode == "max-autotune" else mode)
        if mode == "uncaptured":
            for _ in range(3):
                function(*self.inputs)
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            return lambda: function(*self.inputs)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                function(*self.inputs)
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            graph.answer = function(*self.inputs)  # stays where it is
        return graph.replay

    def timed(self, mode):
        torch, run = self.torch, self.runs[mode]
        with torch.inference_mode():
            end = time.perf_counter() + WARM_UP_SECONDS
            while time.perf_counter() < end:
                for _ in range(10):
                    run()
                torch.cuda.synchronize()
            pairs = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(REPLAYS)]
            for first, last in pairs:
                first.record()
                run()
                last.record()
            torch.cuda.synchronize()
        return [first.elapsed_time(last) for first, last in pairs]

    def versions(self):
        torch = self.torch
        return {"torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(), "gpu": torch.cuda.get_device_name()}


class DryPeer:
    """A product of numpy's in place of a network; the modes differ in its size."""

    def __init__(self, name, batch, dtype, modes):
        import numpy as np

        rng = np.random.default_rng(0)
        self.sides = {mode: rng.standard_normal((48 + 16 * k, 48 + 16 * k)) for k, mode in enumerate(modes)}
        self.modes = {mode: {"prepare_s": 0.0, "device_bytes": int(x.nbytes) * batch} for mode, x in self.sides.items()}
        self.errors = {}

    def timed(self, mode):
        x, out = self.sides[mode], []
        for _ in range(REPLAYS):
            start = time.perf_counter()
            x @ x
            out.append((time.perf_counter() - start) * 1e3)
        return out

    def versions(self):
        import numpy as np

        return {"numpy": np.__version__, "dry": True}


def say(**fields):
    print(json.dumps(fields), flush=True)


def loaded(dry):
    """What takes seconds to import and needs no GPU."""
    if dry:
        import numpy  # noqa: F401
    else:
        import torch._dynamo  # noqa: F401
        import torch._inductor  # noqa: F401
        import torchvision  # noqa: F401
        import transformers  # noqa: F401


def rounds_of(count):
    return range(count) if count else (k for k, _ in enumerate(sys.stdin))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("network")
    p.add_argument("--batch", type=int, default=1)
    p.add_argument("--dtype", default="float16", choices=("float16", "bfloat16", "float32"))
    p.add_argument("--modes", default="eager,default", help=f"of {', '.join(MODES)} (default: eager,default)")
    p.add_argument("--rounds", type=int, default=0, help="so many, one after the other (default: one for each line of the input)")
    p.add_argument("--wait", action="store_true", help="load the libraries, then wait for a line before the GPU is used")
    p.add_argument("--dry", action="store_true", help="without a GPU or torch")
    a = p.parse_args()
    modes = a.modes.split(",")
    if unknown := [m for m in modes if m not in MODES]:
        p.error(f"unknown mode {', '.join(unknown)}; modes are {', '.join(MODES)}")
    try:
        if a.wait:
            loaded(a.dry)
            sys.stdin.readline()
        peer = (DryPeer if a.dry else TorchPeer)(a.network, a.batch, a.dtype, modes)
    except (ImportError, KeyError) as e:
        sys.exit(f"peer_torch.py: {'no network' if isinstance(e, KeyError) else 'missing:'} {e}")
    say(network=a.network, batch=a.batch, dtype=a.dtype, modes=peer.modes, errors=peer.errors, versions=peer.versions())
    if not peer.modes:
        sys.exit("peer_torch.py: no mode can be run")
    for k in rounds_of(a.rounds):
        say(round=k, resident_ms={mode: peer.timed(mode) for mode in peer.modes})


if __name__ == "__main__":
    main()
