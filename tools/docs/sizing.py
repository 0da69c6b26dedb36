#!/usr/bin/env python3
"""Keeps the tables of docs/serving-sizing.md what benchmarks/results holds: the newest file of each kind. --check only says
whether they are. Cost is that of a processor for an hour, in whatever money: --price changes what is printed, never the page.
"""
import argparse
import pathlib
import sys

from performance import newest, newest_gpu_rows, source, table

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "serving-sizing.md"
PRICE = 0.04  # of a processor for an hour, in the page
GPU_PRICE = 3.0  # of a GPU


def count(v):
    return f"{v:,.0f}" if v >= 100 else f"{v:.1f}" if v >= 1 else f"{v:.3f}"


def models(price=PRICE):
    """Rates and costs of whole models at the better batch, as measured by themselves."""
    data, name = newest("cpu_peers")
    best = {}
    for c in data["cells"]:
        rate = 1000 * c["batch"] / c["peers"]["peri"]["median_ms"]
        if rate > best.get(c["model"], (0, 0, 0))[0]:
            best[c["model"]] = (rate, c["batch"], c["peers"]["peri"]["median_ms"])
    rows = [[model, batch, f"{ms:.1f}", count(rate), count(rate / data["threads"]), f"{1e6 / (rate / data['threads']) / 3600 * price:.2f}"]
            for model, (rate, batch, ms) in best.items()]
    return table(["model", "batch", "ms", "rows a second", "a second and processor", "cost of a million"], rows) + f"\n\n{source(name, data)}"


def protocol():
    """What the way in and out costs: an identity of 1 KB, beside Triton."""
    data, name = newest("serve_triton")
    rows = []
    for cell in ("1", "8", "64"):
        at = {key: data["summary"][f"{cell} {key}"] for key in ("rate", "p50_us", "p99_us")}
        both = [f"{at[key][who]:,.0f}" for key in ("rate", "p50_us", "p99_us") for who in ("peri", "triton")]
        rows.append([cell, *both, f"{at['rate']['ratio']:.1f}", f"{1e6 * data['machine']['cpus'] / at['rate']['peri']:.1f}"])
    loads = [r["load"] for r in data["rows"] if "load" in r]
    load = f" The machine's load while it ran was {min(loads):.0f} to {max(loads):.0f} on {data['machine']['cpus']} processors." if loads else ""
    return (table(["connections", "peri a second", "Triton", "p50 us", "Triton", "p99 us", "Triton", "rate to Triton's", "us of processors, at most"], rows)
            + f"\n\n{source(name, data)}{load}")


def gpus(price=GPU_PRICE):
    """Rates and costs of whole models on a GPU at the best batch that was measured, inputs and outputs on the device."""
    found, files = newest_gpu_rows()
    best = {}
    for row in found:
        ms = row["ours"]["median_ms"]
        rate = 1000 * row["batch"] / ms
        if rate > best.get(row["network"], (0, 0, 0))[0]:
            best[row["network"]] = (rate, row["batch"], ms)
    rows = [[model, batch, f"{ms:.2f}", count(rate), f"{1e6 / rate / 3600 * price:.3f}"] for model, (rate, batch, ms) in sorted(best.items())]
    return table(["model, float16", "batch", "ms", "rows a second and GPU", "cost of a million"], rows) + f"\n\n{', '.join(f'`benchmarks/results/{f}`' for f in files)}: {', '.join(sorted({r['gpu']['name'] for r in found}))}."


SECTIONS = {"models": models, "gpus": gpus, "protocol": protocol}


def page(text):
    for key, make in SECTIONS.items():
        begin, end = f"<!-- {key}: tools/docs/sizing.py -->\n", f"<!-- end of {key} -->\n"
        head, rest = text.split(begin)
        text = head + begin + "\n" + make() + "\n\n" + end + rest.split(end)[1]
    return text


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--check", action="store_true")
    p.add_argument("--price", type=float, help="print the table of models at this price")
    options = p.parse_args()
    if options.price is not None:
        print(models(options.price))
        return 0
    wanted = page(PAGE.read_text())
    if not options.check:
        PAGE.write_text(wanted)
    elif PAGE.read_text() != wanted:
        print(f"{PAGE.relative_to(ROOT)} is not what benchmarks/results holds: run tools/docs/sizing.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
