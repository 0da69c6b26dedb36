"""Dated reports: DIR/DATE_NAME.json with all figures and DIR/DATE_NAME.md for people, both with machine and commit."""
import datetime
import json
import os
import pathlib
import platform
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def said(*words):
    """First line of what a command says; empty where it cannot run."""
    try:
        done = subprocess.run([str(w) for w in words], capture_output=True, text=True, cwd=ROOT)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def cpu():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def head(peri):
    """Date, commit (with + where tracked files differ), program, peers' versions and machine."""
    import onnxruntime

    changed = said("git", "status", "--porcelain", "--untracked-files=no", ":!benchmarks/results")
    return {
        "date": datetime.date.today().isoformat(),
        "commit": said("git", "rev-parse", "--short", "HEAD") + ("+" if changed else ""),
        "program": said(pathlib.Path(peri).resolve(), "--version").partition("\n")[0],
        "onnxruntime": onnxruntime.__version__,
        "machine": {"cpu": cpu(), "threads": len(os.sched_getaffinity(0)), "system": platform.system()},
    }


def table(columns, lines):
    """A Markdown table."""
    rows = [columns, ["---"] * len(columns), *lines]
    return "\n".join("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows)


def write(folder, name, report, words, *parts):
    """Both files; `report` begins with head()."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    base = folder / f"{report['date']}_{name}"
    base.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
    facts = f"{report['date']}, commit {report['commit']}, {report['program']}; ONNX Runtime {report['onnxruntime']}; {report['machine']['cpu']}, {report['machine']['threads']} threads."
    title = f"# {name.capitalize().replace('_', ' ')}"
    base.with_suffix(".md").write_text("\n\n".join([title, facts, words, *parts]) + "\n")
    return base
