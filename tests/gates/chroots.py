"""Other systems as folders: Debian's packages laid out by mmdebstrap, commands run there, and the bundle of this build."""
import contextlib, os, pathlib, shutil, subprocess, sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def skip(why):
    print(f"not tested: {why}")
    sys.exit(77)


def bundle(build, folder):
    """The bundle as ./dev pack lays it out, of this build."""
    packed = build / "pack" / f"peri-{(ROOT / 'VERSION').read_text().strip()}-linux-x86_64.tar.xz"
    if packed.is_file():
        return packed
    place, made = folder / packed.name.removesuffix(".tar.xz"), folder / packed.name
    said = subprocess.run([ROOT / "tools/pack/bundle.sh", build, ROOT, place], capture_output=True, text=True)
    if said.returncode:
        skip(f"no bundle: {said.stdout[-300:]}{said.stderr[-300:]}")
    subprocess.run(["tar", "-C", folder, "-cf", made, "-I", "xz -T2 -0", place.name], check=True)
    return made


def debian(suite, root, packages=()):
    """Lays out a Debian below root, with a network."""
    if os.geteuid() != 0 or not shutil.which("mmdebstrap") or not shutil.which("chroot"):
        skip("it takes root, mmdebstrap and chroot")
    said = subprocess.run(["mmdebstrap", "--mode=root", "--variant=minbase", "--quiet", *(["--include=" + ",".join(packages)] if packages else []),
                           suite, root], capture_output=True, text=True)
    if said.returncode:
        skip(f"no Debian {suite} to begin with: {said.stderr[-300:]}")
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")


def in_root(root, words, **more):
    return subprocess.run(["chroot", root, *words], env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"}, **more)


@contextlib.contextmanager
def with_proc(root):
    """With /proc, as every container has it."""
    subprocess.run(["mount", "-t", "proc", "proc", root / "proc"], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", root / "proc"], check=True)
