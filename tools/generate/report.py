"""What a campaign found, as JSON and as a page: counts by family, mode and verdict, failures grouped by what was said."""
import collections
import hashlib
import json
import pathlib
import platform
import re

from graph import VERSION

ORDER = ["right", "left_out", "tie", "doubtful", "unsupported", "reference_failed", "refused", "run_failed", "reference_disagrees", "wrong", "hang", "crash"]
FAILURES = ORDER[ORDER.index("reference_failed"):]


def worst(verdicts):
    return max(verdicts, key=ORDER.index, default="refused")


def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()[:16]


def by_mode(outcome):
    """mode → the line with the worst verdict."""
    out = {}
    for r in outcome["lines"]:
        if r["mode"] not in out or ORDER.index(r["verdict"]) > ORDER.index(out[r["mode"]]["verdict"]):
            out[r["mode"]] = r
    return out


def line(outcome):
    bad = [r for r in by_mode(outcome).values() if r["verdict"] in FAILURES]
    return "\n".join(f"{outcome['name']} {outcome['family']} {r['mode']} {r['size']}: {r['verdict']}: {r['why'][:200]}" for r in bad)


def group(r):
    """What was said, without names and numbers."""
    if r["verdict"] == "wrong" and 1 < r["worst"] < 2:
        return "wrong, by less than twice the bound"
    if r["verdict"] == "wrong":
        return "wrong" + (f", fault: {r['fault'].split()[0]}" if "fault" in r else "")
    text = re.sub(r"^.*?model\.onnx: ", "", r["why"])
    text = re.sub(r"node '[^']*'|'[^']*'|\"[^\"]*\"", "'…'", text)
    return f"{r['verdict']}: " + re.sub(r"\d+", "N", text)[:120]


def machine():
    names = [t.partition(":")[2].strip() for t in open("/proc/cpuinfo") if t.startswith("model name")]
    return {"processor": names[0] if names else platform.processor(), "processors": len(names), "system": platform.platform()}


def versions():
    import numpy
    import onnx
    out = {"generator": VERSION, "python": platform.python_version(), "numpy": numpy.__version__, "onnx": onnx.__version__}
    try:
        import onnxruntime
        out["onnxruntime"] = onnxruntime.__version__
    except ImportError:
        pass
    return out


def summarise(outcomes):
    counts, groups, blind = collections.Counter(), collections.defaultdict(list), 0
    for o in outcomes:
        for mode, r in by_mode(o).items():
            counts[o["family"], mode, r["verdict"]] += 1
            blind += r["blind"] > 0.05
            if r["verdict"] in FAILURES:
                groups[group(r)].append({"name": o["name"], "family": o["family"], "mode": mode, "size": r["size"], "why": r["why"], "fault": r.get("fault", "")})
    verdicts = collections.Counter(o["verdict"] for o in outcomes)
    return {"models": len(outcomes), "verdicts": dict(verdicts), "failures": sum(verdicts[v] for v in FAILURES), "blind": blind,
            "seeds": [min((o["seed"] for o in outcomes if o["seed"] is not None), default=None), max((o["seed"] for o in outcomes if o["seed"] is not None), default=None)],
            "not_witnessed": sum("onnxruntime" in o for o in outcomes),
            "largest_reference_error": max((o.get("reference_error", 0) for o in outcomes if o["verdict"] != "reference_disagrees"), default=0),
            "counts": [{"family": f, "mode": m, "verdict": v, "models": n} for (f, m, v), n in sorted(counts.items())],
            "replaced": replaced(outcomes),
            "groups": [{"said": g, "count": len(rows), "failures": rows} for g, rows in sorted(groups.items(), key=lambda i: -len(i[1]))]}


def replaced(outcomes):
    """Choices that the judge of the engine refused, so that another took their place: right in the end, but a kernel is wrong."""
    return [{"name": o["name"], "mode": r["mode"], "what": r["replaced"]} for o in outcomes for r in o["lines"] if r.get("replaced")]


def table(summary, key):
    names = sorted({c[key] for c in summary["counts"]})
    seen = [v for v in ORDER if any(c["verdict"] == v for c in summary["counts"])]
    rows = [f"| {key} | " + " | ".join(seen) + " |", "|---" * (len(seen) + 1) + "|"]
    for n in names:
        rows.append(f"| {n} | " + " | ".join(str(sum(c["models"] for c in summary["counts"] if c[key] == n and c["verdict"] == v) or "") for v in seen) + " |")
    return "\n".join(rows)


def page(summary):
    m, v = summary["machine"], summary["versions"]
    out = [f"# {summary['models']} generated models\n", sentence(summary) + f"\n\nSeeds {summary['seeds'][0]} to {summary['seeds'][1]}, {summary['seconds']:.0f} s, driver {summary['driver']}, {m['processor']} ({m['processors']} processors), "
           + ", ".join(f"{k} {x}" for k, x in v.items()) + ".\n", table(summary, "mode"), "", table(summary, "family"), ""]
    for g in summary["groups"]:
        out.append(f"## {g['count']} × {g['said']}\n")
        out += [f"- `{r['name']}` {r['family']}, {r['mode']} {r['size']}: {r['why'][:240]}" for r in g["failures"][:12]]
        out.append("")
    if summary["replaced"]:
        out.append(f"## {len(summary['replaced'])} × replaced by the judge of the engine\n")
        out += [f"- `{r['name']}` {r['mode']}: {r['what'][:240]}" for r in summary["replaced"][:30]]
    return "\n".join(out)


def complaints(s):
    """What makes a campaign worth less: too many models left out, or that ONNX Runtime does not take."""
    out = []
    if s["verdicts"].get("left_out", 0) > 0.02 * s["models"] + 1:
        out.append(f"{s['verdicts']['left_out']} models left out, more than 2 %")
    if s["not_witnessed"] > 1e-3 * s["models"] + 1:
        out.append(f"{s['not_witnessed']} models that ONNX Runtime does not run")
    return out


def sentence(s):
    return f"{'FAILED' if s['failures'] or s['complaints'] else 'PASSED'}: {s['models']} models, " + ", ".join(f"{s['verdicts'][v]} {v}" for v in ORDER if v in s["verdicts"]) + \
        f"; {s['blind']} runs with a bound above 5 % of the range, {len(s['replaced'])} with a choice replaced by the judge of the engine" + (f"; {s['not_witnessed']} models that ONNX Runtime does not run" if s["not_witnessed"] and not s["complaints"] else "") + "".join(f"; {c}" for c in s["complaints"])


def write(out, driver, seconds):
    outcomes = {}
    for text in (out / "results.jsonl").read_text().splitlines():
        o = json.loads(text)
        outcomes[o["name"]] = o
    summary = summarise(list(outcomes.values())) | {"seconds": seconds, "driver": digest(driver), "machine": machine(), "versions": versions()}
    summary["complaints"] = complaints(summary)
    (out / "report.json").write_text(json.dumps(summary, indent=1) + "\n")
    (out / "report.md").write_text(page(summary) + "\n")
    return summary
