#!/usr/bin/env python3
"""What constants of the CPU kernels rest on: each varied by itself, on a problem that it decides.

  constants.py --patch            # in a copy of the tree: the constants below are read from the environment
  ninja -C build peri             # there
  constants.py --measure build/bin/peri --markdown build/constants.md

Each value of each row runs in seeded order, several times; a row holds the least and, in brackets, the median.
"""
import argparse
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
CPU = "src/kernels/cpu/"

# file, constant, its values (that of the tree first), problem, threads, and the kernel, where others take the problem too
ROWS = [
    ("integer/product.cpp", "kWantedTasks", (24, 8, 72), "region weights=x1 graph { input x0: u8[128,768]; input x1: i8[768,768]; y = matmul_integer(x0, x1); output y }", 2),
    ("integer/product.cpp", "kWantedTasks", (24, 8, 72), "region weights=x1 graph { input x0: u8[1,512,7,7]; input x1: i8[512,512,3,3]; const z: u8[] = [20]; y = conv_integer(x0, x1, z) {pads=[1,1,1,1]}; output y }", 2),
    ("integer/product.cpp", "kBlockRows", (64, 32, 128), "region weights=x1 graph { input x0: u8[1,64,56,56]; input x1: i8[256,64,1,1]; const z: u8[] = [20]; y = conv_integer(x0, x1, z); output y }", 2),
    ("scan.cpp", "kTaskElements", (1 << 14, 1 << 12, 1 << 16), "region graph { input x: f32[128,1024]; const a: i64[] = [1]; y = cum_sum(x, a); output y }", 2),
    ("top_k.cpp", "kTaskElements", (1 << 13, 1 << 11, 1 << 15), "region graph { input x: f32[64,1000]; const k: i64[1] = [10]; y, i = top_k(x, k); output y; output i }", 2),
    ("norm_groups_f32.cpp", "kTaskElements", (1 << 14, 1 << 12, 1 << 16), "region graph { input x: f32[512,384]; y = lp_normalization(x); output y }", 2),
    ("reduce.cpp", "kTaskElements", (1 << 15, 1 << 13, 1 << 17), "region graph { input x: f32[64,56,56,8]; const a: i64[2] = [0, 3]; y = reduce_sum(x, a); output y }", 2),
    ("relayout.cpp", "kTaskElements", (1 << 16, 1 << 14, 1 << 18), "region graph { input x: f32[1,256,56,56]; y: f32[1,256,56,56]@0231 = relayout(x); output y }", 2),
    ("resize_taps.cpp", "kTaskElements", (1 << 14, 1 << 12, 1 << 16), "region graph { input x: f32[1,64,28,28]; const s: f32[4] = [1.0, 1.0, 2.0, 2.0]; y = resize(x, _, s) {mode=\"cubic\"}; output y }", 2),
    ("scatter.cpp", "kParts", (16, 4, 64), "region graph { input data: f32[1000,128]; input i: i64[500,1]; input u: f32[500,128]; y = scatter_nd(data, i, u) {reduction=\"add\"}; output y }", 2),
    ("pick.cpp", "kTaskBytes", (64 * 1024, 16 * 1024, 256 * 1024), "region graph { input x: f32[256,1024]; input i: i64[256,512]; y = gather_elements(x, i) {axis=1}; output y }", 2),
    ("recurrent_f32.cpp", "kTaskProducts", (1 << 16, 1 << 14, 1 << 18), "region weights=x1,x2 graph { input x0: f32[100,1,256]; input x1: f32[1,1024,256]; input x2: f32[1,1024,256]; y = lstm(x0, x1, x2) {hidden_size=256}; output y }", 2),
    *(("task_elements.hpp", "kTaskElements", (1 << 15, 1 << 13, 1 << 17), problem, 2, kernel) for problem, kernel in (
        ("relu x=f32[8,64,56,56]", "elementwise@"),
        ("region graph { input a: f64[256,512]; input b: f64[256,512]; y = add(a, b); output y }", "elementwise_typed@"),
        ("region weights=t graph { input x: u8[8,64,56,56]; input t: u8[256]; y = byte_table(x, t); output y }", "byte_table@"),
        ("region graph { input x: f32[512,768]; const s: f32[] = [0.02]; const z: u8[] = [128]; y = quantize_linear(x, s, z); output y }", "quantize_f32@"),
        ("region graph { input x: f32[512,768]; y, s, z = dynamic_quantize_linear(x); output y; output s; output z }", "dynamic_quantize_f32@"))),
    ("affine_grid_f32.cpp", "kTaskElements", (1 << 13, 1 << 11, 1 << 15), "region graph { input t: f32[8,2,3]; const s: i64[4] = [8, 3, 224, 224]; y = affine_grid(t, s); output y }", 2),
    ("bit_copy.cpp", "kTaskBytes", (128 * 1024, 32 * 1024, 512 * 1024), "region graph { input x: f32[1024,512]; y = bit_cast(x) {to=13}; output y }", 2),
    ("det_f32.cpp", "kTaskElements", (1 << 13, 1 << 11, 1 << 15), "region graph { input x: f32[1000,8,8]; y = det(x); output y }", 2),
    ("eye_like.cpp", "kTaskBytes", (64 * 1024, 16 * 1024, 256 * 1024), "region graph { input x: f32[1024,512]; y = eye_like(x) {k=-7}; output y }", 2),
    ("gemm_siblings_f32.cpp", "kTaskFlops", (1e6, 2.5e5, 4e6), "region weights=x1,x2,x3 graph { input x0: f32[8,384]; input x1: f32[384,384]; input x2: f32[384,384]; input x3: f32[384,384]; q = matmul(x0, x1); k = matmul(x0, x2); v = matmul(x0, x3); output q; output k; output v }", 2),
    ("integer/channels.cpp", "kWantedTasks", (24, 8, 72), "region weights=x1 graph { input x0: u8[1,256,28,28]; input x1: i8[256,1,3,3]; const z: u8[] = [20]; y = conv_integer(x0, x1, z) {group=256, pads=[1,1,1,1]}; output y }", 2),
    ("label_table.cpp", "kTaskElements", (1 << 13, 1 << 11, 1 << 15), "region graph { input x: i64[200000]; y = label_encoder(x) {keys_int64s=[0, 1, 2, 3, 4, 5, 6, 7], values_int64s=[7, 6, 5, 4, 3, 2, 1, 0]}; output y }", 2),
    ("losses_f32.cpp", "kTaskTargets", (4096, 1024, 16384), "region graph { input x: f32[4,21,128,128]; input t: i64[4,128,128]; y = negative_log_likelihood_loss(x, t); output y }", 2),
    ("max_unpool.cpp", "kMaxTasks", (2, 1, 4), "region graph { input x: f32[1,64,128,128]; input i: i64[1,64,128,128]; y = max_unpool(x, i) {kernel_shape=[2,2], strides=[2,2]}; output y }", 2),
    ("recurrent_f32.cpp", "kMaxTasks", (16, 4, 64), "region weights=x1,x2 graph { input x0: f32[20,1,512]; input x1: f32[1,2048,512]; input x2: f32[1,2048,512]; y = lstm(x0, x1, x2) {hidden_size=512}; output y }", 2),
    ("rotary_f32.cpp", "kTaskElements", (1 << 14, 1 << 12, 1 << 16), "region graph { input x: f32[1,12,512,64]; input c: f32[1,512,32]; input s: f32[1,512,32]; y = rotary_embedding(x, c, s); output y }", 2),
    ("rows/extreme.hpp", "kTaskElements", (1 << 15, 1 << 13, 1 << 17), "arg_max x=f32[256,4096] axis=1", 2),
    ("deform.cpp", "kPlaces", (48, 24, 192), "region weights=w graph { input x: f32[1,64,28,28]; input w: f32[64,64,3,3]; input o: f32[1,18,28,28]; y = deform_conv(x, w, o) {pads=[1,1,1,1]}; output y }", 2),
    ("deform.cpp", "kPixels", (64, 16, 256), "region weights=w graph { input x: f32[1,64,28,28]; input w: f32[64,64,3,3]; input o: f32[1,18,28,28]; y = deform_conv(x, w, o) {pads=[1,1,1,1]}; output y }", 2),
    ("roi_align_f32.cpp", "kChannels", (32, 8, 128), "region graph { input x: f32[1,256,50,68]; input r: f32[100,4]; input i: i64[100]; y = roi_align(x, r, i) {output_height=7, output_width=7, sampling_ratio=2}; output y }", 2),
    ("max_roi_pool_f32.cpp", "kChannels", (16, 4, 64), "region graph { input x: f32[1,256,50,68]; input r: f32[100,5]; y = max_roi_pool(x, r) {pooled_shape=[7,7]}; output y }", 2),
    ("scatter.cpp", "kCopyBytes", (64 * 1024, 16 * 1024, 256 * 1024), "region graph { input data: f32[4000,128]; input i: i64[10,1]; input u: f32[10,128]; y = scatter_nd(data, i, u); output y }", 2),
    ("lrn_f32.cpp", "kPlaces", (256, 64, 1024), "region graph { input x: f32[1,96,55,55]; y = lrn(x) {alpha=0.0001, size=5}; output y }", 2),
    ("grid_sample_f32.cpp", "kBlock", (64, 16, 256), "region graph { input x: f32[1,64,56,56]; input g: f32[1,56,56,2]; y = grid_sample(x, g); output y }", 2),
    ("matmul_bytes.cpp", "kPackedBytes", (32768, 8192, 131072), "region graph { input a: u8[128,512]; input b: i8[512,512]; y = matmul_integer(a, b); output y }", 2),
    *(("conv/woven.cpp", name, values, f"region weights=w graph {{ input x: f32[1,{c},{n},{n}]; input w: f32[{c},{o},{k},{k}]; y = conv_transpose(x, w) {{group={g}, strides=[{t},{t}]}}; output y }}", 2, "conv_transpose_thin_f32@")
      for name, values in (("kScratchFloats", (64 * 1024, 16 * 1024, 256 * 1024)), ("kWantedTasks", (16, 4, 64)))
      for c, n, o, k, g, t in ((64, 50, 1, 4, 64, 2), (21, 64, 1, 16, 21, 8), (32, 64, 3, 4, 1, 2))),
    ("conv_thin_f32.cpp", "kScratchFloats", (64 * 1024, 16 * 1024, 256 * 1024), "region weights=w graph { input x: f32[1,3,512,512]; input w: f32[2,3,5,5]; y = conv(x, w) {pads=[2,2,2,2]}; output y }", 2, "conv_thin_f32@"),
    ("pool/pool.cpp", "kLines", (8, 2, 32), "region graph { input x: f32[1,64,112,112]; y = max_pool(x) {kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,2]}; output y }", 2),
    ("max_unpool.cpp", "kPlaces", (1 << 15, 1 << 13, 1 << 17), "region graph { input x: f32[1,64,128,128]; input i: i64[1,64,128,128]; y = max_unpool(x, i) {kernel_shape=[2,2], strides=[2,2]}; output y }", 2),
    ("matmul_typed.cpp", "kRows", (32, 8, 128), "region graph { input a: f64[256,256]; input b: f64[256,256]; y = matmul(a, b); output y }", 2),
    *(("top_k.cpp", "kInserted", (16, 4, 64), f"region graph {{ input x: f32[64,1000]; const k: i64[1] = [{k}]; y, i = top_k(x, k); output y; output i }}", 2) for k in (10, 40)),
    *(("move/copy.cpp", "kFewNeighbours", (4, 2, 16), f"transpose x=f32[1,224,224,{c}] perm=[0,3,1,2]", 2) for c in (3, 8)),
    *(("block/plan.cpp", "kLongRow", (256, 64, 1024), f"region graph {{ input x: f32[8192,{n}]; input b: f32[8192,1]; y = add(x, b); output y }}", 2) for n in (128, 512)),
]


def variable(file, name):
    """Not PERI_...: peri refuses those that it does not know."""
    return "TRY_" + re.sub(r"\W", "_", pathlib.Path(file).stem) + "_" + name


def patch(only):
    for file, name in dict.fromkeys((f, n) for f, n, *_ in ROWS if any(o in f for o in only)):
        path = ROOT / CPU / file
        text = path.read_text()
        found = re.search(rf"^( *)(static )?constexpr (int64_t|double) ([^;]*\b{name} = ([^,;]+)[^;]*);", text, re.M)
        if not found:
            sys.exit(f"constants.py: {file} has no constexpr {name}")
        own = re.sub(rf"(, )?\b{name} = [^,;]+", "", found[4], count=1).lstrip(", ")
        asked = f'std::getenv("{variable(file, name)}")'
        where = "inline static" if found[2] else "inline" if path.suffix == ".hpp" else "static"
        read = f"{where} const {found[3]} {name} = {asked} ? std::atof({asked}) : {found[5]};"
        kept = f"{found[1]}constexpr {found[3]} {own};\n" if own else ""
        text = text[: found.start()] + kept + found[1] + read + text[found.end():]
        path.write_text("#include <cstdlib>\n" + text if path.suffix == ".cpp" else text.replace("#pragma once", "#pragma once\n#include <cstdlib>", 1))


def time_of(peri, kernel, problem, threads, environment):
    done = subprocess.run([peri, "replay", problem, "--budget", "60", "--provider", "peri", "--threads", str(threads), "--json", "-", "--quiet"],
                          capture_output=True, text=True, env=os.environ | environment)
    try:
        report = json.loads(done.stdout)
        return min(c["evidence"]["time_ms"] for c in report["candidates"] if c["id"].startswith(kernel) and c.get("evidence"))
    except (ValueError, KeyError) as error:
        print(f"constants.py: `{problem}` gave no times ({error}): {(done.stderr or done.stdout).strip()[-400:]}", file=sys.stderr)
        return None


def measure(peri, runs, only):
    jobs = [(k, value) for k, row in enumerate(ROWS) for value in row[2] if any(o in row[0] for o in only)] * runs
    random.Random(7).shuffle(jobs)
    times = {}
    for k, value in jobs:
        file, name, _, problem, threads, *kernel = ROWS[k]
        taken = times.setdefault((k, value), [])
        ms = time_of(peri, *(kernel or [""]), problem, threads, {variable(file, name): f"{value:g}" if isinstance(value, float) else str(value)})
        taken += [] if ms is None else [ms]
    lines = ["| constant | problem | threads | | | |", "|---|---|---:|---|---|---|"]
    for k, (file, name, values, problem, threads, *_) in enumerate(ROWS):
        if not any(o in file for o in only):
            continue
        cells = []
        for value in sorted(values):
            said = f"**{value:.7g}**" if value == values[0] else f"{value:.7g}"
            taken = times[k, value]
            cells.append(f"{said}: {min(taken):.4g} ({statistics.median(taken):.4g})" if taken else f"{said}: refused")
        short = re.sub(r"^region (?:weights=\S+ )?graph ", "", problem).strip("{} ").replace("|", "\\|")
        lines.append(f"| `{name}` of `kernels/cpu/{file}` | `{short}` | {threads} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--patch", action="store_true", help="rewrite the sources of this tree")
    p.add_argument("--measure", metavar="PERI", help="a program built from patched sources")
    p.add_argument("--runs", type=int, default=5)
    p.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help="constants of files whose name has one of these")
    p.add_argument("--markdown", metavar="FILE", help="write the table (default: print it)")
    a = p.parse_args()
    if a.patch:
        patch(a.only)
    if a.measure:
        table = measure(a.measure, a.runs, a.only)
        pathlib.Path(a.markdown).write_text(table) if a.markdown else print(table, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
