# label: null
"""./dev gpu-test says that the machine has no GPU before anything is made, and takes the label multi_gpu where it has two."""
import pathlib, shutil, subprocess, sys, tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def checkout(folder, vendors):
    """A checkout whose pack does nothing, on a machine with devices of these vendors."""
    shutil.copytree(ROOT / "tools/dev", folder / "tools/dev")
    shutil.copy(ROOT / "dev", folder)
    (folder / "tools/dev/pack.sh").write_text("# Stands in.\necho packed\n")
    script = (folder / "tools/dev/gpu-test.sh").read_text()
    for place in ("/sys/bus/pci/devices", "/dev/nvidia0"):
        assert place in script, place
        script = script.replace(place, str(folder) + place)
    (folder / "tools/dev/gpu-test.sh").write_text(script)
    for k, vendor in enumerate(vendors):
        device = folder / f"sys/bus/pci/devices/0000:{k:02x}"
        device.mkdir(parents=True)
        (device / "vendor").write_text(vendor + "\n")
    (folder / "bin").mkdir()
    (folder / "bin/ctest").write_text("#!/bin/sh\ncase $* in *-N*) echo 'Total Tests: 3' ;; *) echo \"ctest $*\" ;; esac\n")
    (folder / "bin/ctest").chmod(0o755)


def main():
    for vendors, status, words, not_there in (((), 77, "has no NVIDIA GPU", "packed"), (("0x8086",), 77, "has no NVIDIA GPU", "packed"),
                                              (("0x8086", "0x10de"), 0, "-L ^gpu$ -R x", "no NVIDIA"),
                                              (("0x10de", "0x10de"), 0, "-L ^(gpu|multi_gpu)$ -R x", "no NVIDIA")):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            checkout(folder, vendors)
            done = subprocess.run([folder / "dev", "gpu-test", "-R", "x"], capture_output=True, text=True,
                                  env={"PATH": f"{folder}/bin:/usr/bin:/bin"})
            said = done.stdout + done.stderr
            assert done.returncode == status and words in said and not_there not in said, (vendors, done.returncode, said)
    return 0


sys.exit(main())
