# label: null
"""Commands where people run them: behind a pipe that closes, on a full disk, in a terminal of 60 columns, without a home."""
import fcntl, json, os, pathlib, pty, re, select, struct, subprocess, sys, tempfile, termios

ROOT = pathlib.Path(__file__).resolve().parents[2]
PERI = pathlib.Path(sys.argv[1]) / "bin" / "peri"
MODEL = ROOT / "models" / "digits_cnn.onnx"
COLUMNS = 60
wrong = []


def expect(what, fine, found=""):
    if not fine:
        wrong.append(f"{what}: {found}")


def ended_well(code):
    return code in (0, -13)  # done before the pipe closed, or ended by SIGPIPE like any program of a pipeline


def behind_a_pipe(engine):
    """A reader that leaves after the first line: no hang, no crash, no half answer taken for a whole one."""
    for words in (["inspect", MODEL], ["explain", engine, "--full"], ["--help"], ["doctor"], ["inspect", MODEL, "--json", "-"]):
        process = subprocess.Popen([PERI, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.read(10)
        process.stdout.close()
        said = process.stderr.read().decode()
        process.stderr.close()
        expect(f"{words[0]} behind a pipe that closes", ended_well(process.wait(timeout=120)), f"{process.returncode}: {said}")
    done = subprocess.run([PERI, "inspect", MODEL], capture_output=True)
    expect("a pipe gets no escape sequences", b"\033" not in done.stdout + done.stderr)
    with open("/dev/full", "w") as full:
        done = subprocess.run([PERI, "inspect", MODEL, "--json", "-"], stdout=full, stderr=subprocess.PIPE, text=True)
    expect("a full disk is an error", done.returncode == 1 and "FAILED" in done.stderr, f"{done.returncode}: {done.stderr}")


def in_a_terminal(words, answer=False):
    """Exit code and all that a terminal of COLUMNS columns was sent: progress, or the answer."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    process = subprocess.Popen([PERI, *words], stdin=slave, stdout=slave if answer else subprocess.DEVNULL, stderr=slave)
    os.close(slave)
    sent = b""
    while True:
        ready, _, _ = select.select([master], [], [], 120)
        try:
            part = os.read(master, 65536) if ready else b""
        except OSError:  # the other end is closed
            part = b""
        if not part:
            break
        sent += part
    os.close(master)
    return process.wait(timeout=120), sent.decode(errors="replace")


def widest(sent):
    """The widest progress line: what is drawn between two returns to the first column and erased again."""
    drawn = [line for line in re.split(r"\r\n|\n", sent)[0].split("\r\033[K")]
    return max((len(line) for line in drawn[1:]), default=0), len(drawn)


def narrow(folder):
    code, sent = in_a_terminal(["build", MODEL, "-o", folder / "narrow.engine", "--no-cache"])
    width, drawn = widest(sent[:sent.rfind("\r\033[K") + 4])
    expect("build in a terminal of 60 columns", code == 0, sent)
    expect("progress is drawn", drawn > 3, repr(sent))
    expect("no progress line is wrapped", width < COLUMNS, f"{width} columns: {sent!r}")
    expect("the last line stands alone", sent.rstrip().rpartition("\r\033[K")[2].startswith("PASSED build"), repr(sent[-200:]))
    code, sent = in_a_terminal(["bench", folder / "narrow.engine", "--seconds", "1", "--tolerance", "1000000"])
    width, drawn = widest(sent[:sent.rfind("\r\033[K") + 4])
    expect("bench in a terminal draws its progress", code == 0 and drawn > 2, repr(sent))
    expect("no progress line of bench is wrapped", width < COLUMNS, f"{width} columns: {sent!r}")
    for words in (["--help"], ["build", "--help"]):
        code, sent = in_a_terminal(words, answer=True)
        wide = [line for line in sent.splitlines() if len(line) >= COLUMNS and not line.startswith("  peri ")]
        expect("help in a terminal of 60 columns", code == 0 and len(sent) > 500 and not wide, f"{words}: {wide}")


def without_home(folder):
    bare = {k: v for k, v in os.environ.items() if k not in ("HOME", "XDG_CACHE_HOME", "PERI_CACHE")}
    for name, more in {"unset": {}, "missing": {"HOME": "/nonexistent/home"}, "a file": {"HOME": "/dev/null"}, "empty": {"HOME": ""}}.items():
        engine = folder / "homeless.engine"
        for words in (["build", MODEL, "-o", engine], ["bench", engine, "--seconds", "0.01", "--tolerance", "1000000"], ["cache"],
                      ["doctor"], ["run", engine, "--input", "image=random:1", "--output-dir", folder / "out"]):
            done = subprocess.run([PERI, *words], capture_output=True, text=True, env=bare | more, cwd=folder)
            expect(f"{words[0]} with a home that is {name}", done.returncode == 0, f"{done.returncode}: {done.stderr}")
        expect(f"a home that is {name} leaves no folder behind", not (folder / ".cache").exists() and not (folder / "peri").exists())


def objects(folder):
    """Standard output is one object where --json wants it there: with layers, and where the command line is wrong."""
    done = subprocess.run([PERI, "bench", folder / "x.engine", "--seconds", "0.01", "--tolerance", "1000000", "--layers", "--json", "-"],
                          capture_output=True, text=True)
    try:
        expect("bench --layers --json - holds the layers", len(json.loads(done.stdout)["layers"]) > 3, done.stdout[:200])
    except (ValueError, KeyError) as error:
        expect("bench --layers --json - is an object", False, f"{error}: {done.stdout[:200]}")
    expect("bench says what it does before it is done", done.stderr.startswith("first run, then the warm-up\n"), done.stderr)
    for words in (["bench", "--json", "-"], ["bench", "x", "--json=-", "--colour"], ["bnech", "x", "--json", "-"], ["run", "x", "y", "--json", "-"]):
        done = subprocess.run([PERI, *words], capture_output=True, text=True)
        try:
            expect(f"wrong usage is told as an object: {words}", json.loads(done.stdout)["error"]["kind"] == "usage", done.stdout)
        except (ValueError, KeyError):
            expect(f"wrong usage is told as an object: {words}", False, done.stdout)
        expect(f"wrong usage ends with 2: {words}", done.returncode == 2, str(done.returncode))
    kept = folder / "kept"
    kept.write_text("a model")
    subprocess.run([PERI, "bench", "--colour", "--json", kept], capture_output=True)
    expect("wrong usage replaces no other file", kept.read_text() == "a model")
    subprocess.run([PERI, "bench", "--colour", "--json", folder / "new.json"], capture_output=True)
    expect("wrong usage is told in a new file", "error" in json.loads((folder / "new.json").read_text()))


# The check itself sees a line that is too wide.
assert widest("\r\033[K" + "x" * 75 + "\r\033[K")[0] == 75
with tempfile.TemporaryDirectory() as scratch:
    folder = pathlib.Path(scratch)
    subprocess.run([PERI, "build", MODEL, "-o", folder / "x.engine", "--quiet", "--no-tune"], check=True, stderr=subprocess.DEVNULL)
    behind_a_pipe(folder / "x.engine")
    narrow(folder)
    objects(folder)
    without_home(folder)
print("\n".join(wrong) or "pipes, a narrow terminal and no home: all commands end as they should")
sys.exit(bool(wrong))
