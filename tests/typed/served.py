"""What the tests of `peri serve` share: a repository of small models, a server on free ports, raw requests."""
import contextlib
import http.client
import json
import os
import re
import select
import signal
import socket
import subprocess
import threading
import time

import numpy
import onnx
from onnx import TensorProto, helper

from typed import PERI, Typed

HEAD = '{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","parameters":{"binary_data_size":16}}],"parameters":{"binary_data_output":true}}'


def children(pid):
    """The processes whose parent is `pid`."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat") as stat:
            if int(stat.read().rsplit(")", 1)[1].split()[1]) == pid:
                found.append(int(name))
    return found


@contextlib.contextmanager
def open_process(pid):
    """A descriptor that is readable once the process has ended; a process that is gone already gives a readable one."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        process, other = os.pipe()
        os.close(other)
    try:
        yield process
    finally:
        os.close(process)


class Served(Typed):
    """Each test has an empty repository; serve() starts a server that tearDown() ends."""

    def setUp(self):
        super().setUp()
        self.repository = self.folder / "repository"
        self.repository.mkdir()
        self.server = None

    def tearDown(self):
        self.kill()
        super().tearDown()

    def kill(self):
        """Ends the server, if one is there, without a word, and waits until its workers, which hold files, have ended too."""
        if self.server and self.server.poll() is None:
            with contextlib.ExitStack() as watched:
                workers = [watched.enter_context(open_process(pid)) for pid in children(self.server.pid)]
                self.server.kill()
                self.server.wait()
                for worker in workers:
                    self.assertTrue(select.select([worker], [], [], 60)[0], "a worker outlives its server")

    def closed(self, client):
        """The client, which is closed when the test is over."""
        self.addCleanup(client.close)
        return client

    def put(self, name, version=1, config=None, graph=None, engine=True, add=1.0):
        """y = x + add on f32[n,4], or the graph given, as a version of a model."""
        folder = self.repository / name / str(version)
        folder.mkdir(parents=True, exist_ok=True)
        if graph is None:
            value = helper.make_tensor_value_info
            weight = helper.make_tensor("w", TensorProto.FLOAT, [4], [add] * 4)
            graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [value("x", TensorProto.FLOAT, ["n", 4])],
                                      [value("y", TensorProto.FLOAT, ["n", 4])], [weight])
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        model = self.folder / f"{name}-{version}.onnx"
        onnx.save(made, model)
        if engine:
            new = self.folder / "new.engine"
            self.ends(0, "build", model, "-o", new, "--no-tune", "--quiet", "--force")
            new.rename(folder / "model.engine")  # whole or not at all, as who puts models into a repository should
        else:
            onnx.save(made, folder / "model.onnx")
        if config is not None:
            (folder.parent / "config.pbtxt").write_text(config)
        return model

    def serve(self, *flags, ready=True):
        self.log = self.folder / "serve.log"
        with open(self.log, "w") as log:
            self.server = subprocess.Popen([PERI, "serve", "--model-repository", self.repository, "--http-port", "0", "--metrics-port", "0",
                                            "--grpc-port", "0", "--no-tune", *map(str, flags)], cwd=self.folder, env=self.environment, stdout=log, stderr=log)
        self.port = int(self.wait_for(lambda: re.search(r"listening on https?://127.0.0.1:(\d+)", self.log.read_text()))[1])
        self.grpc_port = int(re.search(r"gRPC at 127.0.0.1:(\d+)", self.log.read_text())[1])
        self.metrics_port = int(re.search(r"metrics at https?://127.0.0.1:(\d+)", self.log.read_text())[1])
        if ready:
            self.wait_for(lambda: self.ask("GET", "/v2/health/ready")[0] == 200)

    def halt(self, pid):
        """Stops a process, and returns when all its threads stand: the signal alone is no sign of that."""
        os.kill(pid, signal.SIGSTOP)
        self.wait_for(lambda: all(self.state_of(pid, task) == "T" for task in os.listdir(f"/proc/{pid}/task")))

    def state_of(self, pid, task):
        try:
            with open(f"/proc/{pid}/task/{task}/stat") as file:
                return file.read().rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return "T"  # it has ended

    def children(self):
        """The processes that the server has started and that are there."""
        found = []
        for task in os.listdir(f"/proc/{self.server.pid}/task"):
            try:
                with open(f"/proc/{self.server.pid}/task/{task}/children") as file:
                    found += file.read().split()
            except (FileNotFoundError, ProcessLookupError):
                pass  # that thread has ended
        return sorted({int(p) for p in found})

    def wait_for(self, what, seconds=120):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            found = what()
            if found:
                return found
            if self.server and self.server.poll() is not None:
                self.fail(f"the server ended: {self.log.read_text()[-1500:]}")
            time.sleep(0.02)
        self.fail(f"not within {seconds} s: {self.log.read_text()[-1500:]}")

    def tried(self, count):
        """The index of so many models, as soon as a load of each has ended."""
        def rows():
            found = json.loads(self.ask("POST", "/v2/repository/index")[1])
            over = not any(r["state"] == "LOADING" or r.get("reason") == "not loaded" for r in found)
            return found if over and len(found) == count else None
        return self.wait_for(rows)

    def ask(self, method, path, body=None, headers=None, port=None):
        """(status, body, headers) of one request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=120)
        try:
            connection.request(method, path, body, headers or {})
            reply = connection.getresponse()
            return reply.status, reply.read(), dict(reply.getheaders())
        finally:
            connection.close()

    def infer(self, name, body, **more):
        status, said, _ = self.ask("POST", f"/v2/models/{name}/infer", body if isinstance(body, (str, bytes)) else json.dumps(body), **more)
        return status, json.loads(said) if said else None

    def rows(self, values):
        """A request of JSON for rows of four numbers."""
        return {"inputs": [{"name": "x", "shape": [len(values), 4], "datatype": "FP32", "data": values}]}

    @contextlib.contextmanager
    def asked_all_the_time(self, models, words, threads=4):
        """Threads that ask models, (name, what it adds) each, until the end; what came: "answered" rightly, "told" of an error that
        says the words and that it may be sent again, all else as it came."""
        stop, seen = threading.Event(), []

        def ask(k):
            name, add = models[k % len(models)]
            while not stop.is_set():
                status, said = self.infer(name, self.rows([[k, 1, 2, 3]]))
                right = status == 200 and said["outputs"][0]["data"] == [k + add, 1 + add, 2 + add, 3 + add]
                told = status == 503 and words in said["error"] and "may be sent again" in said["error"]
                seen.append("answered" if right else "told" if told else (status, said))
        asking = [threading.Thread(target=ask, args=(k,)) for k in range(threads)]
        for t in asking:
            t.start()
        try:
            yield seen
        finally:
            stop.set()
            for t in asking:
                t.join()

    def raw(self, data, wait=60.0, shut=False):
        """What comes back for bytes on a socket, until the server closes or `wait` seconds pass."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=wait) as s:
            out = b""
            try:
                s.sendall(data)
                if shut:
                    s.shutdown(socket.SHUT_WR)
                while piece := s.recv(65536):
                    out += piece
            except (TimeoutError, ConnectionResetError, BrokenPipeError):
                pass
            return out

    def alive(self):
        """The server answers as it did."""
        self.assertEqual(self.ask("GET", "/v2/health/live")[0], 200)
        self.assertIsNone(self.server.poll())

    def stop(self):
        """Ends the server by SIGTERM; its last line."""
        self.server.send_signal(signal.SIGTERM)
        self.assertEqual(self.server.wait(120), 0, self.log.read_text()[-1500:])
        return self.log.read_text().strip().split("\n")[-1]

    def metric(self, line):
        """The value of a line of metrics that begins so."""
        text = self.ask("GET", "/metrics", port=self.metrics_port)[1].decode()
        found = [row for row in text.split("\n") if row.startswith(line)]
        self.assertEqual(len(found), 1, text)
        return float(found[0].split()[-1])


assert numpy.__version__
