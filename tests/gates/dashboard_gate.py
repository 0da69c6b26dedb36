# label: slow
"""The dashboard in a browser: headless Chromium draws queues, batches, reasons and latency of a server under load. Skipped without one."""
import json, pathlib, re, shutil, subprocess, sys, tempfile, time, urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
PERI = pathlib.Path(sys.argv[1]).resolve() / "bin" / "peri"
CONFIG = "max_batch_size: 16\ndynamic_batching { max_queue_delay_microseconds: 500 }\n"


def browser():
    return next((found for name in ("chromium-headless-shell", "chromium", "google-chrome") if (found := shutil.which(name))), None)


def started(folder):
    log = folder / "log"
    server = subprocess.Popen([PERI, "serve", "--model-repository", folder / "models", "--http-port", "0", "--grpc-port", "0", "--metrics-port", "0"],
                              stdout=open(log, "w"), stderr=subprocess.STDOUT)
    for _ in range(600):
        time.sleep(0.1)
        found = re.search(r"listening on ([^\s;]+);.* metrics at (\S+)/metrics", log.read_text())
        if found:
            try:
                urllib.request.urlopen(found[1] + "/v2/health/ready")
                return server, found[1], found[2]
            except OSError:
                pass
    sys.exit(f"the server did not start: {log.read_text()}")


def seen(program, url, folder, picture):
    """The page's elements as a browser has them after some seconds, and a picture of it."""
    words = [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={folder / 'browser'}",
             "--window-size=1200,900", "--virtual-time-budget=9000"]
    subprocess.run([*words, f"--screenshot={picture}", url], capture_output=True, timeout=120, check=True)
    return subprocess.run([*words, "--dump-dom", url], capture_output=True, timeout=120, check=True, text=True).stdout


def main():
    program = browser()
    if not program:
        print("no Chromium here: not tested")
        return 77
    wrong = []
    with tempfile.TemporaryDirectory(prefix="peri-dashboard-") as name:
        folder = pathlib.Path(name)
        model = folder / "models/digits/1"
        model.mkdir(parents=True)
        (model.parent / "config.pbtxt").write_text(CONFIG)
        subprocess.run([PERI, "build", ROOT / "models/digits_cnn.onnx", "-o", model / "model.engine", "--no-tune", "--quiet"], check=True)
        server, url, metrics = started(folder)
        load = subprocess.Popen([PERI, "bench", "-u", url, "-m", "digits", "--concurrency-range", "8", "-p", "3000", "--max-trials", "8"],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            picture = pathlib.Path(sys.argv[1]) / "dashboard.png"
            page = seen(program, metrics + "/dashboard", folder, picture)
        finally:
            load.kill()
            load.wait()
            server.terminate()
            server.wait(60)
        text = re.sub(r"<style.*?</style>|<script.*?</script>", "", page, flags=re.S)
        for want in ("ready", "digits version 1", "requests a second", "waiting in the queue", "latency, ms", "p50 ", "p99 ", "batches by rows",
                     "batches by why they were cut", "memory of the process", "processors in use"):
            if want not in text:
                wrong.append(f"the page does not say '{want}'")
        asked = int((re.search(r'data-asked="(\d+)"', page) or [0, 0])[1])
        if asked < 3:
            wrong.append(f"it asked {asked} times")
        if text.count("<polyline") < 4:
            wrong.append(f"{text.count('<polyline')} lines are drawn")
        if "does not answer" in text:
            wrong.append("it could not ask")
        if picture.stat().st_size < 10000:
            wrong.append("the picture is empty")
    print(json.dumps(wrong))
    return 1 if wrong else 0


sys.exit(main())
