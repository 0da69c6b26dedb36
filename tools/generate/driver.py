"""judge_models as a process that may crash or hang: what it was at is an outcome, and it is started again behind it."""
import json
import os
import pathlib
import selectors
import signal
import subprocess
import tempfile


class DriverError(Exception):
    pass


class Driver:
    def __init__(self, program, cache, timeout=60, plant="", threads=1):
        self.words = [str(program), "--cache", str(cache), "--dump", "--threads", str(threads)]
        self.words += ["--plant", plant] if plant else []
        self.timeout = timeout
        pathlib.Path(cache).mkdir(parents=True, exist_ok=True)

    def judge(self, listed):
        """Lines of all of [(modes, folder)]."""
        left, out = [(list(modes), str(folder)) for modes, folder in listed], []
        while left:
            lines, at, died = self.once(left)
            out += lines
            if died is None:
                break
            if at is None:
                raise DriverError(f"{self.words[0]}: {died}")
            out.append({"name": at[0], "mode": at[1], "size": "", "worst": 0, "blind": 0, "seconds": 0} | died)
            left = behind(left, at)
        return out

    def once(self, left):
        """One process: (its lines, what it was at, how it died or None)."""
        with tempfile.NamedTemporaryFile("w", suffix=".list") as file, tempfile.TemporaryFile("w+") as said:
            file.write("".join(f"{','.join(modes)} {folder}\n" for modes, folder in left))
            file.flush()
            process = subprocess.Popen([*self.words, file.name], stdout=subprocess.PIPE, stderr=said, env=os.environ | {"PERI_CACHE": ""})
            lines, at, ended, hung = self.read(process)
            code = process.wait()
            said.seek(0)
            words = " | ".join(said.read()[-1500:].strip().splitlines()[-3:])
        if ended and code == 0:
            return lines, at, None
        if hung:
            return lines, at, {"verdict": "hang", "why": f"no answer in {self.timeout:g} s"}
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return lines, at, {"verdict": "crash", "why": f"{name}: {words}"[:800]}

    def read(self, process):
        lines, at, ended, rest = [], None, False, b""
        with selectors.DefaultSelector() as ready:
            ready.register(process.stdout, selectors.EVENT_READ)
            while True:
                if not ready.select(self.timeout):
                    process.kill()
                    return lines, at, ended, True
                data = os.read(process.stdout.fileno(), 1 << 16)
                if not data:
                    return lines, at, ended, False
                *whole, rest = (rest + data).split(b"\n")
                for text in whole:
                    line = json.loads(text)
                    if "begin" in line:
                        at = (line["begin"], line["mode"])
                    elif "end" in line:
                        ended = True
                    else:
                        lines.append(line | {k: float(line[k]) for k in ("worst", "blind")})  # "Infinity" among them


def behind(left, at):
    """What is to be done after the mode of the case at which a process died."""
    k = next(k for k, (_, folder) in enumerate(left) if pathlib.Path(folder).name == at[0])
    modes, folder = left[k]
    rest = modes[modes.index(at[1]) + 1 :] if at[1] in modes else []
    return ([(rest, folder)] if rest else []) + left[k + 1 :]
