# label: null
"""The documents' commands leave their folder only where one of them failed."""
import pathlib, subprocess, sys, tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv[1]).resolve()
wrong = []
with tempfile.TemporaryDirectory(dir=BUILD) as scratch:  # a document has to lie below the root
    build = pathlib.Path(scratch)
    for command, failed in (("echo written >file", False), ("echo written >file; false", True)):
        (build / "page.md").write_text(f"```sh\n{command}\n```\n")
        done = subprocess.run([sys.executable, ROOT / "tools/docs/run.py", build / "page.md", "--build", build], capture_output=True, text=True)
        left = (build / "docs/file").exists() if failed else (build / "docs").exists()
        if (done.returncode != 0, left) != (failed, failed) or "1 files" not in done.stderr:
            wrong.append(f"'{command}': status {done.returncode}, the folder is {'there' if left else 'gone'}: {done.stdout}{done.stderr}")
print("\n".join(wrong) or "a folder stays after a failure only")
sys.exit(bool(wrong))
