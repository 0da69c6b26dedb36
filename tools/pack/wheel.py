#!/usr/bin/env python3
"""Makes the wheel of the Python package of a build: the same bytes from the same build.

usage: wheel.py BUNDLE PACKAGE SOURCE_DIR OUT_DIR     BUNDLE: what bundle.sh laid out of a build; PACKAGE: its python/peri, for
the Python of .venv, or python-stable/peri, for CPython from 3.12 on. Prints the path of the wheel.
"""
import base64
import hashlib
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
PLATFORM = "manylinux_2_35_x86_64"  # symbols.py and auditwheel hold it against the files
METADATA = """Metadata-Version: 2.4
Name: perihelion
Version: {version}
Summary: A trained model in, a fast engine with proven answers out
License-Expression: Apache-2.0
License-File: LICENSE
Requires-Python: {pythons}
Requires-Dist: numpy>=1.24
Description-Content-Type: text/markdown

`peri.build(model)` imports an ONNX file or a Hugging Face folder, tries every kernel, drops those whose answers leave the error
bound of the float64 reference, and gives an engine that runs on arrays of NumPy and of whoever speaks DLPack.
"""


def lay_out(bundle, built, root):
    """The package below root, every library and program stripped and finding its own beside itself; (tag, versions) of Python."""
    package = root / "peri"
    shutil.copytree(built, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "lib").mkdir()
    (package / "bin").mkdir()
    shutil.copy(bundle / "bin/peri", package / "bin/peri")
    for library in sorted((bundle / "lib").glob("*.so.*")):
        if library.name.count(".") == 2:  # each once, by the name that others ask for: libperi.so.0
            shutil.copy(library, package / "lib" / library.name)
    native = next(package.glob("_native.*.so"))
    subprocess.run(["strip", "-s", native], check=True)
    subprocess.run(["patchelf", "--set-rpath", "$ORIGIN/lib", native], check=True)
    kind = native.name.split(".")[1]  # cpython-311-x86_64-linux-gnu, or abi3
    if kind == "abi3":
        return "cp312-abi3", ">=3.12"
    major, minor = kind.split("-")[1][0], int(kind.split("-")[1][1:])
    return f"cp{major}{minor}-cp{major}{minor}", f">={major}.{minor},<{major}.{minor + 1}"


def describe(root, tag, pythons, version, source, licences):
    """The folder of metadata; its name."""
    info = root / f"perihelion-{version}.dist-info"
    (info / "licenses").mkdir(parents=True)
    (info / "METADATA").write_text(METADATA.format(version=version, pythons=pythons))
    (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nGenerator: perihelion {version}\nRoot-Is-Purelib: false\nTag: {tag}\n")
    (info / "entry_points.txt").write_text("[console_scripts]\nperi = peri.__main__:main\n")
    shutil.copy(source / "LICENSE", info / "licenses/LICENSE")
    shutil.copytree(licences, info / "licenses/parts")
    return info.name


def pack(root, info, path):
    """The archive, its list of files and hashes last."""
    rows = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for file in sorted(p for p in root.rglob("*") if p.is_file()):
            name, data = file.relative_to(root).as_posix(), file.read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            rows.append(f"{name},sha256={digest},{len(data)}")
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (0o100755 if "/bin/" in name else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
        entry = zipfile.ZipInfo(f"{info}/RECORD")
        entry.external_attr = 0o100644 << 16
        archive.writestr(entry, "\n".join([*rows, f"{info}/RECORD,,"]) + "\n", zipfile.ZIP_DEFLATED)


def main():
    bundle, built, source, out = (pathlib.Path(p).resolve() for p in sys.argv[1:5])
    version = (source / "VERSION").read_text().strip()
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        python, pythons = lay_out(bundle, built, root)
        tag = f"{python}-{PLATFORM}"
        info = describe(root, tag, pythons, version, source, bundle / "LICENSES")
        subprocess.run([sys.executable, HERE / "symbols.py", root], check=True, stdout=sys.stderr)
        out.mkdir(parents=True, exist_ok=True)
        path = out / f"perihelion-{version}-{tag}.whl"
        pack(root, info, path)
    print(path)


if __name__ == "__main__":
    main()
