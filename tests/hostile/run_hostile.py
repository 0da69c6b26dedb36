#!/usr/bin/env python3
"""Run peri inspect, build and run on every file of a hostile corpus, each under limits, and report by class.

A file passes when no command dies by a signal or overruns its time, when what must be refused is (exit code 1 or 2, a
message that names the file and holds one of the expected words, within 1 s + 1 s per GiB and 64 MiB + twice the file
over what a sound tiny model takes), when what must load does, and when nothing was written: no engine or outputs after
a refusal, no change beside the model, no touch of the corpus' `outside` folder.
"""
import argparse
import collections
import ctypes
import json
import os
import pathlib
import resource
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

MIB, GIB = 1 << 20, 1 << 30
IN_ACCESS, IN_OPEN, IN_CREATE, IN_MODIFY = 0x1, 0x20, 0x100, 0x2


class Watch:
    """What happens inside a folder, by inotify: names opened, read or created since the last look."""

    def __init__(self, folder):
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0 or libc.inotify_add_watch(self.fd, os.fsencode(folder), IN_ACCESS | IN_OPEN | IN_CREATE | IN_MODIFY) < 0:
            raise OSError(ctypes.get_errno(), "inotify", str(folder))

    def events(self):
        names = []
        try:
            while data := os.read(self.fd, 65536):
                at = 0
                while at < len(data):
                    length = struct.unpack_from("iIII", data, at)[3]
                    names.append(data[at + 16 : at + 16 + length].rstrip(b"\0").decode("latin-1"))
                    at += 16 + length
        except BlockingIOError:
            pass
        return [n for n in names if n]


def tree(folder):
    """Names, kinds, sizes and times of a folder, followed through no link."""
    out = {}
    for base, folders, files in os.walk(os.fsencode(folder)):
        for name in folders + files:
            s = os.lstat(os.path.join(base, name))
            out[os.path.join(base, name)] = (s.st_mode, s.st_size, s.st_mtime_ns)
    return out


def bytes_of(path):
    """Bytes a file or folder really holds (sparse files: their blocks)."""
    try:
        if os.path.isdir(path):
            return sum(min(m[1], os.lstat(n).st_blocks * 512) for n, m in tree(path).items())
        s = os.stat(path)
        return min(s.st_size, s.st_blocks * 512)
    except OSError:
        return 0


class Result:
    def __init__(self, code, seconds, rss, said, timed_out):
        self.code, self.seconds, self.rss, self.said, self.timed_out = code, seconds, rss, said, timed_out

    @property
    def died(self):
        if self.timed_out:
            return "still running when its time was up"
        if self.code < 0:
            return f"died of {signal.Signals(-self.code).name}"
        return None if self.code in (0, 1, 2, 3) else f"exit code {self.code}"


def call(words, seconds, slack, address_limit, environment):
    """Run one command under limits, so many seconds of a CPU and as many times `slack` of the clock; its time, peak memory of
    its largest process, and what it said."""

    def limits():
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (GIB, GIB))
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 5, int(seconds) + 5))
        if address_limit:
            resource.setrlimit(resource.RLIMIT_AS, (address_limit, address_limit))

    with tempfile.TemporaryFile() as said:
        start = time.monotonic()
        child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=said, stderr=said, preexec_fn=limits, env=environment)
        timed_out = False
        while True:
            pid, status, usage = os.wait4(child.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() - start > seconds * max(1.0, slack):
                timed_out = True
                os.killpg(child.pid, signal.SIGKILL)
                _, status, usage = os.wait4(child.pid, 0)
                break
            time.sleep(0.0005)
        taken = time.monotonic() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        return Result(child.returncode, taken, usage.ru_maxrss * 1024, said.read(1 << 20).decode("utf-8", "replace"), timed_out)


class Runner:
    """Tries entries of one corpus; `baseline` is what the same command takes on a sound tiny model."""

    def __init__(self, a, corpus):
        self.a, self.corpus = a, corpus
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="peri-hostile-"))
        self.environment = {**os.environ, "PERI_CACHE": str(self.scratch / "cache"), "HOME": str(self.scratch), "TMPDIR": str(self.scratch / "tmp")}
        for name in ("tmp", "cache", "engines", "a"):
            (self.scratch / name).mkdir()
        self.watch, self.baseline = Watch(corpus / "outside"), {}

    def words(self, stage, path, entry, out):
        peri = [str(self.a.peri), stage]
        if stage == "inspect":
            return [*peri, path]
        if stage == "build":
            return [*peri, path, "-o", str(out / "x.engine"), *shlex.split(self.a.build_args)]
        more = ["--text", entry["text"]] if "text" in entry else [w for n in entry.get("inputs", []) for w in ("--input", f"{n}=random:1")]
        return [*peri, path, *more, "--output-dir", str(out), *shlex.split(self.a.run_args)]

    def stages(self, entry):
        wanted = [entry["only"]] if "only" in entry else ["inspect", "build"] + (["run"] if entry.get("run") or entry["by"] == "run" else [])
        return [s for s in wanted if s in self.a.stages] or [s for s in ("build", "inspect", "run") if s in self.a.stages][:1]

    def attempt(self, stage, entry, path):
        """(Result, problems that hold for any verdict) of one command."""
        out, where = self.scratch / "a" / "out", path if os.path.isdir(path) else os.path.dirname(path)
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        before = tree(where)
        self.watch.events()
        limit = 1.0 + bytes_of(path) / GIB
        # what may be sound may take the time a build takes
        patience = self.a.patience if entry["must"] != "refuse" else max(self.a.patience / 2, 4 * limit)
        r = call(self.words(stage, path, entry, out), patience, self.a.slack, self.a.address_limit * GIB if self.a.address_limit else 0, self.environment)
        problems = [r.died] if r.died else []
        if touched := sorted(set(self.watch.events())):
            problems.append(f"touched outside/{', outside/'.join(touched)}")
        if tree(where) != before:
            problems.append("changed something beside the model")
        left = [os.path.relpath(n, os.fsencode(out)).decode("utf-8", "replace") for n in tree(out)]
        if r.code != 0 and left:
            problems.append(f"left {', '.join(left[:3])}")
        loose = {*self.scratch.iterdir(), *(self.scratch / "a").iterdir(), *pathlib.Path("/tmp").glob("escaped*")}
        if loose := loose - {out, *(self.scratch / n for n in ("cache", "a", "tmp", "engines"))}:
            problems.append(f"wrote {', '.join(sorted(str(p) for p in loose))}, outside its output folder")
            for p in loose:
                shutil.rmtree(p, ignore_errors=True) if p.is_dir() else p.unlink()
        return r, problems

    def refusal(self, stage, entry, path, r):
        """What is wrong with a refusal that had to come."""
        problems, name = [], os.path.basename(path)
        shown = [name, name.encode("unicode_escape").decode(), entry["file"].rpartition("/")[2]]
        if name == "model.onnx":  # the file at fault may be another one of its folder
            shown.append(os.path.dirname(path))
        plain = max("".join(ch if ch.isalnum() or ch in "._-" else " " for ch in name).split() or [""], key=len)
        if not r.said.strip():
            problems.append("said nothing")
        elif not any(s in r.said for s in [*shown, plain]):
            problems.append("the message does not name the file")
        if entry["expect"] and not self.a.lax and not any(w.lower() in r.said.lower() for w in entry["expect"]):
            problems.append(f"the message has none of {entry['expect'][:6]}: {last_lines(r.said)}")
        limit = 1.0 + bytes_of(path) / GIB
        if r.seconds > limit * self.a.slack:
            problems.append(f"took {r.seconds:.2f} s, {limit:.2f} allowed")
        room = 64 * MIB + 2 * bytes_of(path)
        if r.rss - self.baseline.get(stage, 0) > room:
            problems.append(f"took {(r.rss - self.baseline.get(stage, 0)) / MIB:.0f} MiB over the baseline, {room / MIB:.0f} allowed")
        return problems

    def entry(self, entry):
        """Problems of one file, as (stage, text); empty when it passes."""
        path = os.path.join(str(self.corpus), os.fsdecode(entry["file"].encode("latin-1")))
        if not os.path.relpath(path).startswith(".."):
            path = os.path.relpath(path)
        problems, refused, loaded = [], False, True
        for stage in self.stages(entry):
            r, found = self.attempt(stage, entry, path)
            problems += [(stage, f) for f in found]
            loaded = loaded and r.code == 0
            if r.code in (1, 2) and not refused:
                refused = True
                if entry["must"] == "refuse":
                    problems += [(stage, f) for f in self.refusal(stage, entry, path, r)]
                elif entry["must"] == "load":
                    problems.append((stage, f"refused: {last_lines(r.said)}"))
        if entry["must"] == "refuse" and not refused and not any(t.startswith(("died", "still")) for _, t in problems):
            problems.append((self.stages(entry)[-1], "was accepted"))
        return problems

    def measure_baseline(self):
        """Peak memory of each command on the corpus' sound model, so that library pages are not counted."""
        good = {"file": "files/good.onnx", "must": "load", "by": "build", "expect": [], "inputs": ["x"]}
        path = str(self.corpus / "files" / "good.onnx")
        for stage in self.a.stages:
            tries = [self.attempt(stage, good, path)[0] for _ in range(2)]
            self.baseline[stage] = max(t.rss for t in tries)
            if bad := next((t for t in tries if t.code), None):
                print(f"baseline: peri {stage} of {path} gave {bad.died or f'exit code {bad.code}'}: {last_lines(bad.said)}", file=sys.stderr)


def last_lines(said):
    return " | ".join(said.strip().splitlines()[-2:])[:240]


def cut_later(path, delay):
    """A child that empties the file after so many seconds; its process id."""
    pid = os.fork()
    if pid == 0:
        time.sleep(delay)
        os.truncate(path, 0)
        os._exit(0)
    return pid


def cut_while_read(runner):
    """External data, or an engine, cut to nothing while it is read: exit code 0, or 1 and its name, never a signal.
    Yields (name, problems)."""
    source, whole = runner.corpus / "external" / "good", runner.scratch / "engines" / "to_cut.engine"
    runner.attempt("build", {"must": "load"}, str(source / "model.onnx"))
    built = runner.scratch / "a" / "out" / "x.engine"
    if built.is_file():
        shutil.copy(built, whole)
    for i, delay in enumerate((0.0, 0.002, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16)):
        folder = runner.scratch / "engines" / f"cut{i}"
        shutil.copytree(source, folder)
        data, engine = folder / "w.bin", folder / "cut.engine"
        with open(data, "r+b") as file:
            file.truncate(16)
        shutil.copy(whole, engine)
        for stage, path, cut in (("build", folder / "model.onnx", data), ("run", engine, engine)):
            out = runner.scratch / "a" / "out"
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir()
            pid = cut_later(cut, delay)
            r = call(runner.words(stage, str(path), {"inputs": ["x"]}, out), runner.a.patience, runner.a.slack, 0, runner.environment)
            os.waitpid(pid, 0)
            problems = [r.died] if r.died else []
            if r.code and not any(n in r.said for n in (cut.name, path.name)):
                problems.append(f"the message does not name the file: {last_lines(r.said)}")
            yield f"{'engine' if cut == engine else 'external'}/cut_after_{delay * 1000:g}_ms", problems


def engines(runner, seed=1):
    """Damaged engine files, made here from the corpus' sound model. Yields (name, problems)."""
    folder = runner.scratch / "engines"
    whole = folder / "whole.engine"
    built = call([str(runner.a.peri), "build", str(runner.corpus / "files" / "good.onnx"), "-o", str(whole), *shlex.split(runner.a.build_args)], runner.a.patience, runner.a.slack, 0, runner.environment)
    if built.code or not whole.is_file():
        yield "engine/build", [f"no engine to damage: {last_lines(built.said)}"]
        return
    data, state = whole.read_bytes(), seed
    cases = {f"cut_{n}": data[:n] for n in sorted({0, 1, 4, 8, 16, 64, 100, len(data) // 4, len(data) // 2, len(data) - 1, *range(0, len(data), max(1, len(data) // 24))})}
    cases |= {"trailing": data + b"\0", "trailing_page": data + b"\xff" * 4096, "twice": data + data, "zeros": b"\0" * len(data), "ones": b"\xff" * len(data), "onnx": (runner.corpus / "files" / "good.onnx").read_bytes()}
    flips = [bit for byte in range(min(48, len(data))) for bit in (byte * 8 + byte % 8,)]
    for _ in range(150):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        flips.append((state >> 16) % (len(data) * 8))
    for bit in dict.fromkeys(flips):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        cases[f"flip_{bit}"] = bytes(flipped)
    step = max(1, len(cases) // runner.a.sample) if runner.a.sample else 1
    for name, damaged in list(cases.items())[::step]:
        path = folder / f"{name}.engine"
        path.write_bytes(damaged)
        entry = {"file": f"engine/{path.name}", "must": "survive" if name.startswith(("flip", "onnx")) else "refuse", "by": "run", "expect": []}
        problems, refused = [], False
        for stage in [s for s in ("inspect", "run") if s in runner.a.stages]:
            r, found = runner.attempt(stage, entry, str(path))
            problems += [f"{stage}: {f}" for f in found]
            if r.code in (1, 2) and not refused:
                refused = True
                problems += [f"{stage}: {f}" for f in runner.refusal(stage, entry, str(path), r)] if entry["must"] == "refuse" else []
        if entry["must"] == "refuse" and not refused and name != f"cut_{len(data)}":
            problems.append("was accepted")
        path.unlink()
        yield f"engine/{name}", problems


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("peri", metavar="PERI", type=pathlib.Path, help="the command under test, build/bin/peri")
    p.add_argument("corpus", metavar="OUT", type=pathlib.Path, help="a folder make_hostile.py wrote")
    p.add_argument("--classes", metavar="NAMES", help="only these classes, comma-separated (`engine`: damaged engine files; `cut`: data cut while read)")
    p.add_argument("--sample", type=int, default=0, metavar="N", help="only about N files of each class, evenly spread (default 0: all)")
    p.add_argument("--stages", default="inspect,build,run", help="commands to try (default inspect,build,run)")
    p.add_argument("--names", metavar="TEXT", help="only files whose path contains this")
    p.add_argument("--patience", type=float, default=30, help="seconds before a command counts as hung (default 30)")
    p.add_argument("--slack", type=float, default=1.0, help="factor on the clock's time allowed for a refusal and before a command counts as hung, for busy machines (default 1)")
    p.add_argument("--address-limit", type=int, default=16, metavar="GIB", help="address space a command may use; 0 = none, needed for sanitizers (default 16)")
    p.add_argument("--lax", action="store_true", help="do not look for the expected words")
    p.add_argument("--build-args", default="", metavar="WORDS", help="further words for peri build, in one string")
    p.add_argument("--run-args", default="", metavar="WORDS", help="further words for peri run, in one string")
    p.add_argument("--json", metavar="FILE", help="write all findings as JSON")
    a = p.parse_args()
    if not a.peri.is_file():
        p.error(f"no such command: {a.peri} (./dev build makes build/bin/peri)")
    if not (a.corpus / "index.json").is_file():
        p.error(f"{a.corpus} is not a corpus (no index.json): make_hostile.py makes one")
    a.peri, a.stages = a.peri.resolve(), a.stages.split(",")
    if unknown := set(a.stages) - {"inspect", "build", "run"}:
        p.error(f"--stages knows inspect, build and run, not {', '.join(sorted(unknown))}")
    return a


def main():
    a = arguments()
    index = json.loads((a.corpus / "index.json").read_text())
    if "files" not in index:
        raise OSError(f"{a.corpus} was left unfinished: run make_hostile.py again")
    classes = a.classes.split(",") if a.classes else None
    runner, counts, failures = Runner(a, a.corpus), collections.defaultdict(lambda: [0, 0, 0]), []

    def note(kind, name, problems):
        counts[kind][1 if problems else 0] += 1
        if problems:
            failures.append({"file": name, "problems": problems})
            print(f"FAILED {name!r}: {'; '.join(problems)}", flush=True)

    def sampled(made):
        """All of a class, or every so manieth of it."""
        made = list(made)
        return made[:: max(1, len(made) // a.sample)] if a.sample else made

    try:
        runner.measure_baseline()
        by_class = collections.defaultdict(list)
        for entry in index["files"]:
            by_class[entry["class"]].append(entry)
        for entry in (e for entries in by_class.values() for e in sampled(entries)):
            if (classes and entry["class"] not in classes) or (a.names and a.names not in entry["file"]):
                continue
            if entry.get("skip_as_root") and os.geteuid() == 0:
                counts[entry["class"]][2] += 1
                continue
            note(entry["class"], entry["file"], [f"{stage}: {text}" for stage, text in runner.entry(entry)])
        for kind, made in (("engine", engines), ("cut", cut_while_read)):
            if (not classes or kind in classes) and not a.names:
                for name, problems in made(runner):
                    note(kind, name, problems)
    finally:
        shutil.rmtree(runner.scratch, ignore_errors=True)
    print(f"{'class':14}{'passed':>8}{'failed':>8}{'not run':>9}")
    for kind, (passed, failed, skipped) in sorted(counts.items()):
        print(f"{kind:14}{passed:8}{failed:8}{skipped:9}")
    total = [sum(c[i] for c in counts.values()) for i in range(3)]
    print(f"{'all':14}{total[0]:8}{total[1]:8}{total[2]:9}")
    if a.json:
        baseline = {k: round(v / MIB, 1) for k, v in runner.baseline.items()}
        pathlib.Path(a.json).write_text(json.dumps({"seed": index["seed"], "baseline_mib": baseline, "classes": {k: dict(zip(("passed", "failed", "not_run"), v)) for k, v in counts.items()}, "failures": failures}, indent=1) + "\n")
    print(f"{'FAILED' if failures else 'PASSED'}: {total[1]} of {sum(total[:2])} files got what they must not", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except OSError as error:
        print(f"run_hostile.py: {error}", file=sys.stderr)
        sys.exit(1)
