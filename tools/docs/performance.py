#!/usr/bin/env python3
"""Keeps the tables of docs/performance.md and the picture docs/images/peers.svg what benchmarks/results holds: the newest file
of each kind. --check only says whether they are.
"""
import argparse
import json
import math
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
PAGE, PICTURE = ROOT / "docs" / "performance.md", ROOT / "docs" / "images" / "peers.svg"
PEERS = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}


def newest(kind):
    """The newest committed result of a kind and its file's name, or (None, "")."""
    files = sorted(RESULTS.glob(f"20??-??-??_{kind}.json"))
    return (json.loads(files[-1].read_text()), files[-1].name) if files else (None, "")


def newest_gpu_rows():
    """Each row of networks on a GPU from the newest result that has it, with the day as its "date"; and the files that are used."""
    rows = {}
    for file in sorted(RESULTS.glob("20??-??-??_gpu_rows.json"), reverse=True):
        for r in json.loads(file.read_text())["rows"]:
            rows.setdefault((r["network"], r["batch"]), {**r, "date": file.name[:10], "file": file.name})
    networks = list(dict.fromkeys(network for network, _ in rows))
    found = [rows[key] for key in sorted(rows, key=lambda key: (networks.index(key[0]), key[1]))]
    return found, sorted({r["file"] for r in found})


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "|".join(" --- " if k == 0 else " ---: " for k in range(len(head))) + "|"]
    return "\n".join(lines + ["| " + " | ".join(map(str, r)) + " |" for r in rows])


def source(name, data):
    machine = data.get("machine", {})
    words = [machine.get("cpu", ""), f"{data['threads']} threads" if "threads" in data else ""]
    commit = f", commit {data['commit']}" if data.get("commit") else ""
    return f"`benchmarks/results/{name}`: {', '.join(w for w in words if w)}{commit}."


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def milliseconds(v):
    return f"{v:.2f}" if v < 100 else f"{v:.0f}"


def peers(kind):
    data, name = newest(kind)
    if not data:
        return ""
    rows = []
    for c in data["cells"]:
        times = {p: c["peers"][p]["median_ms"] for p in ("peri", *PEERS) if p in c["peers"]}
        ours = times["peri"]
        rows.append([c["model"], c["batch"], *(milliseconds(times[p]) if p in times else "-" for p in ("peri", *PEERS)), *(f"{ours / times[p]:.2f}" if p in times else "-" for p in PEERS), f"{c['ratio']['peri']:.2f}"])
    out = table(["model", "batch", "peri ms", *(f"{p} ms" for p in PEERS.values()), *(f"to {p}" for p in PEERS.values()), "to the better"], rows)
    sums = []
    for batch in sorted({c["batch"] for c in data["cells"]}):
        of = [c for c in data["cells"] if c["batch"] == batch]
        each = ", ".join(f"{mean([c['peers']['peri']['median_ms'] / c['peers'][p]['median_ms'] for c in of]):.2f} to {words}" for p, words in PEERS.items() if all(p in c["peers"] for c in of))
        ratios = [c["ratio"]["peri"] for c in of]
        sums.append(f"Batch {batch}: geometric mean {mean(ratios):.2f} to the better peer of each model, worst {max(ratios):.2f}; {each}.")
    every = [c["ratio"]["peri"] for c in data["cells"]]
    sums.append(f"All {len(every)}: {mean(every):.2f} to the better peer, worst {max(every):.2f}.")
    versions = ", ".join(f"{PEERS.get(k, k)} {v.split('-')[0]}" for k, v in data["versions"].items() if k in PEERS)
    precisions = sorted({c["openvino_precision"] for c in data["cells"] if "openvino_precision" in c})
    precision = f"OpenVINO computes in {', '.join(precisions)}. " if precisions else ""
    return f"{out}\n\n" + "\n".join(sums) + f"\n\n{versions}. {precision}{source(name, data)}"


def sixteen():
    data, name = newest("cpu_bars_16_threads")
    if not data:
        return ""
    rows, sums = [], []
    for part, words in (("float", "float32"), ("quantised", "quantised")):
        of = [c for c in data["cells"] if c["part"] == part]
        rows += [[c["model"], *(milliseconds(c["peers"][p]["median_ms"]) if p in c["peers"] else "-" for p in ("peri", *PEERS)), f"{c['ratio']['peri']:.2f}"] for c in of]
        worst = max(of, key=lambda c: c["ratio"]["peri"])
        sums.append(f"{len(of)} {words}: geometric mean {mean([c['ratio']['peri'] for c in of]):.2f} to the better peer of each, worst {worst['ratio']['peri']:.2f} ({worst['model']}).")
    return table(["model", "peri ms", *(f"{p} ms" for p in PEERS.values()), "to the better"], rows) + "\n\n" + "\n".join(sums) + f"\n\n{source(name, data)}"


def operators():
    data, name = newest("operator_matrix")
    if not data:
        return ""
    timed = [c for c in data["cells"] if "ratio" in c]
    rows = []
    for size in dict.fromkeys(c["size"] for c in timed):
        ratios = [c["ratio"] for c in timed if c["size"] == size]
        over = sum(r > data["above"] for r in ratios)
        rows.append([size, len(ratios), f"{mean(ratios):.2f}", f"{max(ratios):.2f}", f"{over} ({100 * over / len(ratios):.1f} %)"])
    over = [[f"{c['row']}, {c['size']}", f"{c['peri_ms']:.3g}", f"{c['onnxruntime_ms']:.3g}", f"{c['ratio']:.2f}", c["why"]] for c in sorted(timed, key=lambda c: -c["ratio"]) if c["ratio"] > data["above"]]
    return (table(["size", "rows", "geometric mean", "worst", f"above {data['above']}"], rows) + f"\n\n{data['summary']}\n\n"
            + table(["above", "peri ms", "ONNX Runtime ms", "ratio", "why"], over) + f"\n\nONNX Runtime {data['onnxruntime']}. `benchmarks/results/{name}`: {data['machine']}, {data['threads']} threads.")


def written():
    data, name = newest("written_models")
    if not data:
        return ""
    rows = [[r["model"], milliseconds(r["peri_ms"]), milliseconds(r["onnxruntime_ms"]), f"{r['ratio']:.2f}", f"{max(r['errors']):.0e}", f"{r['peri_peak_mib']:.0f}", f"{r['onnxruntime_peak_mib']:.0f}"] for r in data["rows"]]
    out = table(["model", "peri ms", "ONNX Runtime ms", "ratio", "error of the range", "peak MiB", "ONNX Runtime's"], rows)
    return f"{out}\n\n{data['summary']}. ONNX Runtime {data['onnxruntime']}; {data['note']}. `benchmarks/results/{name}`: {data['machine']}, {data['threads']} threads."


def packages():
    data, name = newest("package_models")
    if not data:
        return ""
    groups = {}
    for c in data["cells"]:
        groups.setdefault(c["package"], []).append(c)
    rows = [[package, len(of), f"{mean([c['ratio'] for c in of]):.2f}", f"{max(c['ratio'] for c in of):.2f}"] for package, of in groups.items()]
    return table(["package", "cases", "geometric mean", "worst"], rows) + f"\n\nAll {len(data['cells'])}: geometric mean {data['mean']:.2f}. ONNX Runtime {data['versions']['onnxruntime']}. `benchmarks/results/{name}`: {data['machine']['cpu']}, {data['machine']['threads']} threads."


def start():
    data, name = newest("start")
    if not data:
        return ""
    rows = [[c["model"], *(f"{v:.0f}" for v in (c["peri"]["kept"]["start_ms"], c["peri"]["fresh"]["start_ms"], c["start_limit_ms"], c["onnxruntime"]["start_ms"], c["peri"]["kept"]["peak_mib"], c["onnxruntime"]["peak_mib"]))] for c in data["cells"]]
    return table(["model", "load + first run ms", "with an empty cache", "1.3 x steady + 50", "ONNX Runtime", "peak MiB", "ONNX Runtime"], rows) + f"\n\n{source(name, data)}"


def chains():
    data, name = newest("block_programs")
    if not data:
        return ""
    groups = {}
    for c in data["chains"]:
        groups.setdefault(c["chain"], {})[c["isa"], c["threads"]] = c["ratio"]
    columns = sorted({(c["isa"], c["threads"]) for c in data["chains"]})
    rows = [[chain, *(f"{r[k]:.2f}" if k in r else "-" for k in columns)] for chain, r in groups.items()]
    return table(["chain", *(f"{isa}, {n} thread{'s' if n > 1 else ''}" for isa, n in columns)], rows) + f"\n\n{source(name, data)}"


def agreement():
    data, name = newest("agreement")
    if not data:
        return ""
    rows = []
    for model, m in sorted(data["models"].items()):
        outputs = m["outputs"]
        rows.append([model, len(outputs), f"{max(o['of_range'] for o in outputs):.1e}", f"{max(o['of_change'] for o in outputs):.1e}", f"{min(o['cosine'] for o in outputs):.9f}", "yes" if m["agrees"] else "no"])
    limits = data["limits"]
    return (table(["model", "answers", "error of the output's range", "of the change between two inputs", "least cosine", "agrees"], rows)
            + f"\n\nAllowed: {limits['of_range']:g}, {limits['of_change']:g}, {limits['cosine']:g}. ONNX Runtime {data['onnxruntime']}. {source(name, data)}")


def gpu():
    found, files = newest_gpu_rows()
    if not found:
        return ""
    rows, modes = [], set()
    for r in found:
        low, high = r["interval"]
        mib = [f"{r[side]['device_bytes'] / 2**20:.0f}" for side in ("ours", "peer")]
        modes.add(r["peer"]["mode"])
        rows.append([r["network"], r["batch"], *(f"{r[side]['median_ms']:.3f}" for side in ("ours", "peer")), f"{r['ratio']:.3f}", f"{low:.3f} to {high:.3f}", *mib, r["date"]])
    out = table(["network", "batch", "peri ms", "PyTorch ms", "ratio", "95 %", "peri MiB", "PyTorch MiB", "measured"], rows)
    small, ratios = [r["ratio"] for r in found if r["batch"] == 1], [r["ratio"] for r in found]
    chips = ", ".join(sorted({r["gpu"]["name"] for r in found}))
    pages = ", ".join(f"[{f[:10]}](../benchmarks/results/{f.replace('.json', '.md')})" for f in files)
    return (f"{out}\n\nAll {len(ratios)}: geometric mean {mean(ratios):.2f}, worst {max(ratios):.2f}; batch 1: {mean(small):.2f}. "
            f"{chips}, float16; PyTorch's mode: {', '.join(sorted(modes))}. Of each row the newest result; how it was measured and which engines were judged: the pages of {pages}.")


SECTIONS = {"peers": lambda: peers("cpu_peers"), "sixteen": sixteen, "operators": operators, "packages": packages, "written": written, "gpu": gpu, "start": start, "chains": chains, "agreement": agreement}


def page(text):
    for key, make in SECTIONS.items():
        begin, end = f"<!-- {key}: tools/docs/performance.py -->\n", f"<!-- end of {key} -->\n"
        head, rest = text.split(begin)
        text = head + begin + "\n" + make() + "\n\n" + end + rest.split(end)[1]
    return text


def picture():
    """Time of each model as a share of ONNX Runtime's in the same run: ours, OpenVINO's as it comes and held to float32."""
    data, _ = newest("cpu_peers")
    f32, _ = newest("cpu_peers_f32")
    kinds = [("ours", "peri", data, "peri, float32"), ("peer", "openvino", data, "OpenVINO as it comes: bfloat16 on this CPU")]
    if f32:
        kinds.insert(1, ("held", "openvino", f32, "OpenVINO held to float32"))
    batches = sorted({c["batch"] for c in data["cells"]})
    models = list(dict.fromkeys(c["model"] for c in data["cells"]))
    width, left, line = 900, 180, 15
    column = (width - left) // len(batches)
    one = 0.72 * column  # where ONNX Runtime stands
    out, y = [f'<text class="head" x="{left + k * column}" y="52">batch {batch}</text>' for k, batch in enumerate(batches)], 64
    for model in models:
        out.append(f'<text x="16" y="{y + line * len(kinds) / 2 + 4}">{model}</text>')
        for k, batch in enumerate(batches):
            x = left + k * column
            for row, (kind, who, source, _) in enumerate(kinds):
                cell = next((c for c in source["cells"] if (c["model"], c["batch"]) == (model, batch)), None)
                if not cell:
                    continue
                ms = cell["peers"][who]["median_ms"]
                bar = min(ms / cell["peers"]["onnxruntime"]["median_ms"], 1.3) * one
                out.append(f'<rect class="{kind}" x="{x}" y="{y + row * line}" width="{bar:.1f}" height="{line - 2}" rx="2"/><text class="small" x="{x + bar - 6:.1f}" y="{y + row * line + 10}">{milliseconds(ms)} ms</text>')
            out.append(f'<path class="one" d="M{x + one:.1f} {y - 4}V{y + len(kinds) * line + 2}"/>')
        y += len(kinds) * line + 12
    x = 16
    for kind, _, _, words in kinds:
        out.append(f'<rect class="{kind}" x="{x}" y="{y + 6}" width="14" height="12" rx="2"/><text x="{x + 20}" y="{y + 17}">{words}</text>')
        x += 50 + 7 * len(words)
    style = "text{font:13px system-ui,sans-serif;fill:#1c2430}.head{font-weight:600}.small{font-size:11px;fill:#fff;text-anchor:end}.ours{fill:#c2571a}.held{fill:#4d6885}.peer{fill:#8ba3bd}.one{stroke:#1c2430;stroke-dasharray:3 3;fill:none}"
    title = f'<text class="head" x="16" y="26">Time of a run; the dashed line is ONNX Runtime. {data["machine"].get("cpu", "")}, {data["threads"]} threads</text>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y + 34}" width="{width}"><style>{style}</style><rect width="100%" height="100%" fill="#fbfbf9" rx="8"/>{title}{"".join(out)}</svg>\n'


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--check", action="store_true")
    options = p.parse_args()
    wanted = {PAGE: page(PAGE.read_text()), PICTURE: picture()}
    stale = [f for f, text in wanted.items() if not f.is_file() or f.read_text() != text]
    if options.check:
        for f in stale:
            print(f"{f.relative_to(ROOT)} is not what benchmarks/results holds: run tools/docs/performance.py", file=sys.stderr)
        return 1 if stale else 0
    for f in stale:
        f.write_text(wanted[f])
    return 0


if __name__ == "__main__":
    sys.exit(main())
