#!/usr/bin/env python3
"""Where the cases of a suite would run on the recorded GPU, without that GPU: each step is on it, or stays on the host for a reason
that is stated here. Sizes that the data of a run decide, texts, loops and branches are the host's; so are types that no kernel of a
GPU has, and operators of other classes than the GPU's.

    gpu_places.py --program build/bin/suite_places SUITE [--least N] [--list]

--least N: fewer cases wholly on the GPU are a failure. --list: each step of the host with its reason. Exit code 3 where a step has none."""
import argparse
import collections
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Every element-wise, reduction, normalisation, pooling, movement and gather operator, products, convolutions and attention have
# kernels of a GPU. These have none.
OTHER_CLASSES = {
    "recurrent cells and states": {"gru", "lstm", "rnn", "linear_attention", "causal_conv_with_state"},
    "ranges of what is quantised": {"dynamic_quantize_linear"},
    "signals": {"dft", "stft", "mel_weight_matrix"},
    "linear algebra": {"det"},
    "convolution at given places": {"deform_conv"},
    "texts and classical models": {"tf_idf_vectorizer", "tree_ensemble", "label_encoder"},
    "random numbers": {"dropout"},
}
NARROW = ("f8", "f4", "i4", "u4", "i2", "u2")  # of eight bits with an exponent, or of parts of a byte


def reason(step):
    """Why the step is the host's, or None."""
    if step["bodies"] or step["chosen"] in ("if", "loop"):
        return "control flow"
    if step["chosen"] == "sized" or "data." in step["region"]:
        return "sizes that the data decide"
    if "string" in step["types"]:
        return "texts"
    if "f64" in step["types"]:
        return "float64"
    if any(t.startswith(NARROW) for t in step["types"]):
        return "types of eight bits with an exponent, or of parts of a byte"
    for why, those in OTHER_CLASSES.items():
        if those & set(step["operators"]):
            return why
    return None if step["operators"] else "a shape as a result"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("suite")
    p.add_argument("--program", required=True)
    p.add_argument("--least", type=int, default=0)
    p.add_argument("--list", action="store_true")
    a = p.parse_args()
    done = subprocess.run([a.program, a.suite, ROOT / "tests" / "whole" / "locks" / "h200.json"], capture_output=True, text=True)
    if done.returncode:
        print(done.stderr.strip())
        return 1
    whole, reasons, unknown = 0, collections.Counter(), []
    cases = [json.loads(line) for line in done.stdout.splitlines()]
    for case in cases:
        if "error" in case:
            continue
        whole += case["steps"] > 0 and case["on_host"] == 0
        for step in case["host"]:
            why = reason(step)
            reasons[why] += 1
            text = f"{case['case']}: {' '.join(step['region'].split())}"
            if a.list:
                print(f"{why}: {text}")
            if why is None:
                unknown.append(text)
    for why, count in reasons.most_common():
        print(f"{count:5} steps on the host: {why or 'no reason'}")
    print(f"{whole} of {len(cases)} cases wholly on the GPU, at least {a.least} expected")
    for text in unknown:
        print(f"no reason is stated for the host: {text}")
    return 3 if unknown or whole < a.least else 0


if __name__ == "__main__":
    sys.exit(main())
