# label: null
"""What deploy/ holds fits the program: every flag, path and version that the recipes, the unit and the profiles name is one there is."""
import json, pathlib, re, shutil, subprocess, sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PERI = pathlib.Path(sys.argv[1]).resolve() / "bin" / "peri"
DEPLOY = ROOT / "deploy"
wrong = []


def expect(what, fine, found=""):
    if not fine:
        wrong.append(f"{what}: {found}")


def steps(path):
    """[(instruction, rest)] of a Containerfile."""
    rows = [row for row in path.read_text().splitlines() if row and not row.startswith("#")]
    return [tuple(row.split(" ", 1)) for row in rows]


def flags_of(text):
    return re.findall(r"(?<![\w-])(--[a-z][a-z0-9-]+)", text)


def check_recipes(known):
    version = (ROOT / "VERSION").read_text().strip()
    common = None
    for name in ("Containerfile", "Containerfile.cuda"):
        parts = steps(DEPLOY / name)
        bundle = dict(rest.split("=", 1) for kind, rest in parts if kind == "ARG")["BUNDLE"]
        expect(f"{name}: the bundle is this version's", bundle == f"build/pack/peri-{version}-linux-x86_64.tar.xz", bundle)
        entry = json.loads(next(rest for kind, rest in parts if kind == "ENTRYPOINT"))
        command = json.loads(next(rest for kind, rest in parts if kind == "CMD"))
        for flag in flags_of(" ".join(entry + command)):
            expect(f"{name}: {flag}", flag in known, "no flag of peri serve")
        profile = command[command.index("--profile") + 1]
        expect(f"{name}: {profile}", (DEPLOY / "profiles" / pathlib.Path(profile).name).is_file(), "no such profile")
        ports = next(rest for kind, rest in parts if kind == "EXPOSE").split()
        expect(f"{name}: HTTP, gRPC and metrics are exposed", ports == ["8000", "8001", "8002"], ports)
        expect(f"{name}: does not run as root", any(kind == "USER" and rest != "0" for kind, rest in parts))
        steps_of_both = [p for p in parts if p[0] in ("RUN", "COPY", "ENTRYPOINT", "CMD", "USER")]
        expect(f"{name}: both recipes do the same", common in (None, steps_of_both), steps_of_both)
        common = steps_of_both


def check_unit(known):
    unit = (DEPLOY / "peri.service").read_text()
    start = re.search(r"^ExecStart=(.*)$", unit, re.M)[1]
    for flag in flags_of(start):
        expect(f"peri.service: {flag}", flag in known, "no flag of peri serve")
    seconds = int(re.search(r"^TimeoutStopSec=(\d+)$", unit, re.M)[1])
    expect("peri.service: systemd waits longer than a drain may take", seconds > 30, seconds)
    if not shutil.which("systemd-analyze"):
        return
    folder = pathlib.Path(sys.argv[1]) / "deploy-gate"
    folder.mkdir(exist_ok=True)
    copy = folder / "peri.service"  # with the program where it is here
    copy.write_text(unit.replace("/opt/peri/bin/peri", str(PERI)))
    said = subprocess.run(["systemd-analyze", "verify", "--man=no", copy], capture_output=True, text=True)
    mine = [row for row in said.stderr.splitlines() if "peri.service" in row]
    expect("peri.service: systemd-analyze verify", not mine, mine)


def main():
    known = set(flags_of(subprocess.run([PERI, "serve", "--help"], capture_output=True, text=True, check=True).stdout))
    check_recipes(known)
    check_unit(known)
    expect("four profiles", len(list((DEPLOY / "profiles").iterdir())) == 4)
    for line in wrong:
        print(line)
    return 1 if wrong else 0


sys.exit(main())
