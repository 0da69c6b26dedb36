# label: slow
"""The commands of deploy/Containerfile, in a chroot in place of a container: they run, and what they leave serves a model. Skipped
where that cannot be: without root, mmdebstrap or Debian's mirror."""
import json, pathlib, re, shutil, signal, subprocess, sys, tempfile, time, urllib.request

from chroots import bundle, debian, in_root, with_proc

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv[1]).resolve()
PORT = 18573


def steps():
    rows = [row for row in (ROOT / "deploy/Containerfile").read_text().splitlines() if row and not row.startswith("#")]
    return [tuple(row.split(" ", 1)) for row in rows]


def build(root, packed):
    """Does what each step asks; returns the words that the container would run, and its user and environment."""
    arguments, user, environment, words = {}, "0", {}, {}
    for kind, rest in steps():
        if kind == "ARG":
            name, value = rest.split("=", 1)
            arguments["${" + name + "}"] = value
        elif kind == "COPY":
            source, target = rest.split()
            for name, value in arguments.items():
                source = source.replace(name, value)
            source = packed if source.endswith(".tar.xz") else ROOT / source
            place = root / target.lstrip("/")
            shutil.copytree(source, place, dirs_exist_ok=True) if source.is_dir() else shutil.copy(source, place)
        elif kind == "RUN":
            said = in_root(root, ["sh", "-ec", rest], capture_output=True, text=True)
            assert said.returncode == 0, f"RUN {rest}: {said.stdout[-500:]}{said.stderr[-1000:]}"
        elif kind == "USER":
            user = rest
        elif kind == "ENV":
            name, value = rest.split("=", 1)
            environment[name] = value
        elif kind in ("ENTRYPOINT", "CMD"):
            words[kind] = json.loads(rest)
        else:
            assert kind in ("FROM", "EXPOSE", "STOPSIGNAL"), kind
    return words["ENTRYPOINT"] + words["CMD"], user, environment


def serve(root, words, user, environment):
    """Starts what the container would start; one request, and an end that drains."""
    model = root / "models/digits/1"
    model.mkdir(parents=True)
    subprocess.run([BUILD / "bin/peri", "build", ROOT / "models/digits_cnn.onnx", "-o", model / "model.engine", "--no-tune", "--quiet"], check=True)
    assert (root / "opt/peri/bin/peri").is_file() and not (root / "tmp/peri.tar.xz").exists()
    server = subprocess.Popen([shutil.which("chroot"), f"--userspec={user}", root, *words, "--http-port", str(PORT), "--grpc-port", "0", "--metrics-port", "-1"],
                              env={"PATH": "/usr/bin:/bin", **environment}, stderr=subprocess.PIPE, text=True)
    try:
        ready = False
        for _ in range(600):
            time.sleep(0.1)
            try:
                ready = urllib.request.urlopen(f"http://127.0.0.1:{PORT}/v2/health/ready").status == 200
                break
            except OSError:
                assert server.poll() is None, server.stderr.read()
        request = {"inputs": [{"name": "image", "datatype": "FP32", "shape": [1, 1, 8, 8], "data": [0.5] * 64}]}
        answer = json.load(urllib.request.urlopen(f"http://127.0.0.1:{PORT}/v2/models/digits/infer", json.dumps(request).encode()))
        server.send_signal(signal.SIGTERM)
        said = server.communicate(timeout=60)[1]
    finally:
        server.kill()
    assert ready and len(answer["outputs"][0]["data"]) == 10, answer
    assert server.returncode == 0 and re.search(r"PASSED serve: 1 request ", said), said


def main():
    with tempfile.TemporaryDirectory(prefix="peri-container-") as name:
        folder = pathlib.Path(name)
        root = folder / "root"
        debian("bookworm", root)
        packed = bundle(BUILD, folder)
        with with_proc(root):
            serve(root, *build(root, packed))
    print("the recipe's commands ran, and its server answered")
    return 0


sys.exit(main())
