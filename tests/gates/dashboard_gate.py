# label: slow
"""The dashboard in a browser: headless Chromium draws queues, batches, reasons and latency of a server under load, and says so when
the server is gone or asks for keys. Driven over its DevTools pipe in real time; a script that throws fails here, as planted ones show. Skipped without
a browser."""
import base64, ctypes, http.server, json, os, pathlib, re, select, shutil, signal, subprocess, sys, tempfile, threading, time, urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
PERI = pathlib.Path(sys.argv[1]).resolve() / "bin" / "peri"
KEY = "a-key-of-this-gate-alone-ключ-é"
CONFIG = "max_batch_size: 16\ndynamic_batching { max_queue_delay_microseconds: 500 }\n"
WORDS = ("ready", "digits version 1", "requests a second", "waiting in the queue", "latency, ms", "p50 ", "p99 ", "batches by rows",
         "batches by why they were cut", "memory of its processes", "processors in use", "MiB", "running")
PLANTED = {"a script that ends at once": ('"use strict";', '"use strict"; throw new Error("planted");'),
           "a chart that throws": ("function bars(box, counts) {", "function bars(box, counts) { absent.length;"),
           "a clock that never rings": ("setTimeout(ask, 1000);", "")}


def ends_with_us():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: nothing outlives this program


class Browser:
    """A page of a headless Chromium over --remote-debugging-pipe: it reads commands at 3 and writes answers at 4, NUL between them."""

    def __init__(self, program, folder):
        down, self.out = os.pipe()
        self.back, up = os.pipe()

        def ours():
            ends_with_us()
            high = [os.dup2(down, 103), os.dup2(up, 104)]  # first out of the way of 3 and 4
            os.dup2(high[0], 3), os.dup2(high[1], 4)

        self.process = subprocess.Popen([program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                                         f"--user-data-dir={folder}", "--window-size=1200,900", "--remote-debugging-pipe", "about:blank"],
                                        preexec_fn=ours, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(down), os.close(up)
        self.number, self.rest, self.events, self.session = 0, b"", [], None
        target = self.do("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.do("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.do(domain + ".enable")
        self.do("Emulation.setDeviceMetricsOverride", width=1200, height=900, deviceScaleFactor=1, mobile=False)

    def do(self, method, seconds=60, **parameters):
        self.number += 1
        said = {"id": self.number, "method": method, "params": parameters, **({"sessionId": self.session} if self.session else {})}
        os.write(self.out, json.dumps(said).encode() + b"\0")
        end = time.monotonic() + seconds
        while True:
            while b"\0" in self.rest:
                one, self.rest = self.rest.split(b"\0", 1)
                one = json.loads(one)
                if one.get("id") == self.number:
                    if "error" in one:
                        raise OSError(f"{method}: {one['error']}")
                    return one["result"]
                if "method" in one:
                    self.events.append(one)
            if not select.select([self.back], [], [], max(0, end - time.monotonic()))[0]:
                raise OSError(f"the browser does not answer {method}")
            more = os.read(self.back, 1 << 16)
            if not more:
                raise OSError(f"the browser ended at {method}")
            self.rest += more

    def value(self, expression):
        return self.do("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def open(self, url):
        self.events.clear()
        self.do("Page.navigate", url=url)

    def until(self, expression, seconds):
        """Whether an expression becomes true in the page."""
        end = time.monotonic() + seconds
        while not (found := self.value(expression)) and time.monotonic() < end:
            time.sleep(0.1)
        return bool(found)

    def faults(self, own):
        """What the page's script threw, and what it asked of others."""
        out = []
        for e in self.events:
            if e["method"] == "Runtime.exceptionThrown":
                detail = e["params"]["exceptionDetails"]
                out.append("its script throws: " + detail.get("exception", {}).get("description", detail["text"]).split("\n")[0])
            elif e["method"] == "Network.requestWillBeSent" and not e["params"]["request"]["url"].startswith((own, "data:")):
                out.append("it asks " + e["params"]["request"]["url"])
        return sorted(set(out))

    def picture(self, file):
        file.write_bytes(base64.b64decode(self.do("Page.captureScreenshot", format="png")["data"]))

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.out), os.close(self.back)


def started(folder, *flags):
    log = folder / "log"
    server = subprocess.Popen([PERI, "serve", "--model-repository", folder / "models", "--http-port", "0", "--grpc-port", "0", "--metrics-port", "0", *flags],
                              stdout=open(log, "w"), stderr=subprocess.STDOUT, preexec_fn=ends_with_us)
    for _ in range(600):
        time.sleep(0.1)
        found = re.search(r"listening on ([^\s;]+);.* metrics at (\S+)/metrics", log.read_text())
        if found:
            try:
                urllib.request.urlopen(urllib.request.Request(found[1] + "/v2/health/ready", headers={"Authorization": "Bearer " + KEY.encode().decode("latin-1")}))
                return server, found[1], found[2]
            except OSError:
                pass
    server.kill()
    sys.exit(f"the server did not start: {log.read_text()}")


def judged(browser, origin, seconds):
    """What is wrong with the page of a server under load."""
    browser.open(origin + "/dashboard")
    browser.until("document.body && document.body.dataset.asked >= 5", seconds)
    text, wrong = browser.value("document.body.innerText") or "", browser.faults(origin)
    wrong += [f"the page does not say '{want}'" for want in WORDS if want not in text]
    if browser.value("document.getElementById('state').textContent") != "ready":
        wrong.append(f"its state is '{browser.value('document.getElementById(`state`).textContent')}'")
    if (asked := int(browser.value("document.body.dataset.asked") or 0)) < 5:
        wrong.append(f"it asked {asked} times")
    # Lines with more than one point: memory, processors, and of the model its rate, queue, p50 and p99.
    lines = browser.value("[...document.querySelectorAll('polyline')].filter(l => l.points.length > 1 && l.getBoundingClientRect().width > 0).length")
    if lines < 6:
        wrong.append(f"{lines} lines are drawn")
    if not browser.value("document.querySelectorAll('.bars i').length >= 2"):
        wrong.append("no bars are drawn")
    if not re.search(r"p50 [\d.]+\s+p99 [\d.]+", text):
        wrong.append("it shows no latency")
    return wrong


def locked(browser, folder):
    """What is wrong with the page of a server that asks for keys: it asks its reader, and sends the key as a header alone."""
    (keys := folder / "keys").write_text(KEY + "\n", encoding="utf-8")
    keys.chmod(0o600)
    wrong, state = [], "document.getElementById('state').textContent"
    server, _, origin = started(folder, "--api-keys", keys)
    try:
        browser.open(origin + "/dashboard")
        for given, want in (("", "the server asks for a key"), ("another-key-than-ours", "the server does not know this key"), (KEY, "ready")):
            if given:
                browser.value(f"document.getElementById('key').value = '{given}', document.getElementById('login').requestSubmit()")
            if not browser.until(f"document.getElementById('login') && {state} === '{want}'", 20):
                wrong.append(f"with the key '{given}' it says '{browser.value(state)}', not '{want}'")
        if browser.value("document.getElementById('login').hidden") is not True or not browser.until("document.body.dataset.asked >= 2", 20):
            wrong.append("it does not go on with the key")
        wrong += browser.faults(origin)
        wrong += [f"an address has the key: {e['params']['request']['url']}" for e in browser.events
                  if e["method"] == "Network.requestWillBeSent" and KEY[:18] in e["params"]["request"]["url"]]
    finally:
        server.kill()
        server.wait()
    return wrong


def planted(browser, page, status):
    """Pages with a fault each, served from here: what was not found wrong."""
    missed, now = [], {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = now["status"]() if self.path.endswith("/data") else now["page"]
            self.send_response(200)
            self.send_header("Content-Type", "application/json" if self.path.endswith("/data") else "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name, (old, new) in PLANTED.items():
        assert page.count(old) == 1, f"the page has not one '{old}'"
        now.update(page=page.replace(old, new).encode(), status=status)
        if not judged(browser, f"http://127.0.0.1:{server.server_port}", 8):
            missed.append(f"{name} was not found")
    server.shutdown()
    return missed


def main():
    program = next((found for name in ("chromium-headless-shell", "chromium", "google-chrome") if (found := shutil.which(name))), None)
    if not program:
        print("no Chromium here: not tested")
        return 77
    with tempfile.TemporaryDirectory(prefix="peri-dashboard-", ignore_cleanup_errors=True) as name:
        folder, server, load, browser = pathlib.Path(name), None, None, None
        model = folder / "models/digits/1"
        model.mkdir(parents=True)
        (model.parent / "config.pbtxt").write_text(CONFIG)
        subprocess.run([PERI, "build", ROOT / "models/digits_cnn.onnx", "-o", model / "model.engine", "--no-tune", "--quiet"], check=True)
        try:
            server, url, origin = started(folder)
            load = subprocess.Popen([PERI, "bench", "-u", url, "-m", "digits", "--concurrency-range", "8", "-p", "30000", "--max-trials", "8"],
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=ends_with_us)
            browser = Browser(program, folder / "browser")
            wrong = judged(browser, origin, 60)
            browser.picture(picture := pathlib.Path(sys.argv[1]) / "dashboard.png")
            if picture.stat().st_size < 10000:
                wrong.append("the picture is empty")
            wrong += locked(browser, folder)
            read = lambda path: urllib.request.urlopen(origin + path).read()
            wrong += planted(browser, read("/dashboard").decode(), lambda: read("/dashboard/data"))
            browser.open(origin + "/dashboard")
            browser.until("document.body && document.body.dataset.asked >= 1", 60)
            load.kill()
            server.kill()
            server.wait()
            if not browser.until("document.getElementById('state').textContent.startsWith('the server does not answer')", 20):
                wrong.append(f"of a server that is gone it says '{browser.value('document.getElementById(`state`).textContent')}'")
        finally:
            for process in (load, server):
                if process:
                    process.kill()
                    process.wait()
            if browser:
                browser.close()
    print(json.dumps(wrong))
    return 1 if wrong else 0


sys.exit(main())
