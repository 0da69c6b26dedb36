#!/usr/bin/env python3
"""`peri serve` and sequences: tritonclient's sequence_id as it comes, answers as of the sequence alone, slots, idling, failures, a worker that dies."""
import asyncio
import json
import os
import queue
import signal
import threading
import time

import numpy
import tritonclient.grpc
import tritonclient.grpc.aio
import tritonclient.http
from onnx import TensorProto, helper
from tritonclient.utils import InferenceServerException

from served import Served
from typed import main

SIZE = 16


def cell(size=SIZE):
    """h' = tanh(x W + h U); y = h' + START + 2 END on f32[n,size]."""
    value, random = helper.make_tensor_value_info, numpy.random.default_rng(1)
    weights = [helper.make_tensor(n, TensorProto.FLOAT, [size, size], (random.standard_normal((size, size)) / size ** 0.5).astype(numpy.float32).tobytes(), raw=True)
               for n in ("W", "U")] + [helper.make_tensor("two", TensorProto.FLOAT, [1], [2.0])]
    nodes = [helper.make_node("MatMul", ["x", "W"], ["a"])]
    nodes += [helper.make_node("MatMul", ["h", "U"], ["b"]), helper.make_node("Add", ["a", "b"], ["c"]), helper.make_node("Tanh", ["c"], ["next"])]
    nodes += [helper.make_node("Mul", ["END", "two"], ["e"]), helper.make_node("Add", ["START", "e"], ["f"]), helper.make_node("Add", ["next", "f"], ["y"])]
    inputs = [value("x", TensorProto.FLOAT, ["n", size]), value("h", TensorProto.FLOAT, ["n", size]), value("START", TensorProto.FLOAT, ["n", 1]),
              value("END", TensorProto.FLOAT, ["n", 1])]
    return helper.make_graph(nodes, "g", inputs, [value("y", TensorProto.FLOAT, ["n", size]), value("next", TensorProto.FLOAT, ["n", size])], weights)


def config(strategy, idle=60_000_000, batch=4, more=""):
    return f"""max_batch_size: {batch}
sequence_batching {{
  max_sequence_idle_microseconds: {idle}
  {strategy}
  control_input [
    {{ name: "START" control [ {{ kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] }} ] }},
    {{ name: "END" control [ {{ kind: CONTROL_SEQUENCE_END fp32_false_true: [ 0, 1 ] }} ] }}
  ]
  state [ {{ input_name: "h" output_name: "next" data_type: TYPE_FP32 dims: [ {SIZE} ] initial_state {{ data_type: TYPE_FP32 dims: [ {SIZE} ] zero_data: true name: "zero" }} }} ]
}}
{more}"""


OLDEST = "oldest { max_candidate_sequences: 8 preferred_batch_size: [ 4 ] max_queue_delay_microseconds: 2000 }"


class Sequences(Served):
    def given(self, x, module=tritonclient.grpc, name="x"):
        tensor = module.InferInput(name, x.shape, "FP32")
        tensor.set_data_from_numpy(x)
        return [tensor]

    def steps(self, seed, count):
        return numpy.random.default_rng(seed).standard_normal((count, 1, SIZE)).astype(numpy.float32)

    def alone(self, name, xs):
        """The answers of `peri run`, a request after another, what is kept handed on by hand."""
        h, out = numpy.zeros((1, SIZE), numpy.float32), []
        for k, x in enumerate(xs):
            flags = {"x": x, "h": h, "START": numpy.full((1, 1), k == 0, numpy.float32), "END": numpy.full((1, 1), k == len(xs) - 1, numpy.float32)}
            for n, v in flags.items():
                numpy.save(self.folder / f"{n}.npy", v)
            self.ends(0, "run", self.repository / name / "1/model.engine", *(w for n in flags for w in ("-i", f"{n}={n}.npy")), "--output-dir", "out", "--quiet")
            h = numpy.load(self.folder / "out/next.npy")
            out.append(numpy.load(self.folder / "out/y.npy"))
        return out

    def stats(self, name):
        return json.loads(self.ask("GET", f"/v2/models/{name}/stats")[1])["model_stats"][0]

    def raises(self, what, *args, **more):
        with self.assertRaises(InferenceServerException) as caught:
            what(*args, **more)
        return caught.exception

    def test_answers_are_those_of_the_sequence_alone(self):
        self.put("cell", graph=cell(), config=config(OLDEST))
        self.serve()
        xs = {k: self.steps(k, 6) for k in range(1, 7)}
        said, grpc = {}, tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{self.grpc_port}")
        self.addCleanup(grpc.close)

        def one(k, client, module, sequence):
            said[k] = [client.infer("cell", self.given(x, module), sequence_id=sequence, sequence_start=n == 0, sequence_end=n == 5).as_numpy("y")
                       for n, x in enumerate(xs[k])]

        def stream(k):
            got, client = queue.Queue(), tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{self.grpc_port}")
            client.start_stream(lambda result, error: got.put(result if error is None else error))
            for n, x in enumerate(xs[k]):
                client.async_stream_infer("cell", self.given(x), sequence_id="a stream", sequence_start=n == 0, sequence_end=n == 5)
            said[k] = [got.get(timeout=120).as_numpy("y") for _ in xs[k]]
            client.stop_stream()
            client.close()

        def http(k):
            client = tritonclient.http.InferenceServerClient(f"127.0.0.1:{self.port}")
            one(k, client, tritonclient.http, 2 ** 63 + k if k % 2 else f"s{k}")
            client.close()

        async def aio():
            async with tritonclient.grpc.aio.InferenceServerClient(f"127.0.0.1:{self.grpc_port}") as c:
                said[6] = [(await c.infer("cell", self.given(x, tritonclient.grpc.aio), sequence_id=6, sequence_start=n == 0, sequence_end=n == 5)).as_numpy("y")
                           for n, x in enumerate(xs[6])]
        threads = [threading.Thread(target=t) for t in (lambda: one(1, grpc, tritonclient.grpc, 1), lambda: one(2, grpc, tritonclient.grpc, "two"),
                                                        lambda: stream(3), lambda: http(4), lambda: http(5), lambda: asyncio.run(aio()))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        for k in xs:
            for n, (a, b) in enumerate(zip(said[k], self.alone("cell", xs[k]) if k in (1, 3, 4) else said[k])):
                self.assertEqual(a.tobytes(), b.tobytes(), (k, n))
        # Every sequence has the same model behind it: what differs is its own requests.
        self.assertEqual(len({said[k][5].tobytes() for k in xs}), 6)
        stats = self.stats("cell")
        self.assertEqual({k: stats["peri_sequences"][k] for k in ("active", "backlog", "slots", "started", "ended", "broken")},
                         {"active": 0, "backlog": 0, "slots": 8, "started": 6, "ended": 6, "broken": 0})
        self.assertEqual(stats["inference_count"], 36)
        self.assertEqual(self.metric('peri_sequences_over_total{model="cell",version="1",reason="end"}'), 6)
        self.assertEqual(self.metric('peri_sequence_slots{model="cell",version="1"}'), 8)
        # What clients see: no controls, no states.
        self.assertEqual([p["name"] for p in json.loads(self.ask("GET", "/v2/models/cell")[1])["inputs"]], ["x"])
        self.assertEqual([p.name for p in grpc.get_model_metadata("cell").outputs], ["y"])
        told = grpc.get_model_config("cell").config.sequence_batching
        self.assertEqual((told.oldest.max_candidate_sequences, list(told.oldest.preferred_batch_size), told.max_sequence_idle_microseconds), (8, [4], 60_000_000))
        self.assertEqual([(c.name, c.control[0].kind, list(c.control[0].fp32_false_true)) for c in told.control_input], [("START", 0, [0, 1]), ("END", 2, [0, 1])])
        self.assertEqual([(s.input_name, s.output_name, list(s.dims), s.initial_state[0].zero_data) for s in told.state], [("h", "next", [SIZE], True)])

    def test_sequences_beside_a_model_that_is_tuned(self):
        """Many at once, with controls and a state, while --tune tries settings of another model on the same processors."""
        self.put("cell", graph=cell(), config=config(OLDEST.replace("_sequences: 8", "_sequences: 64"), batch=8))
        self.put("busy", config="max_batch_size: 8\ndynamic_batching { }\n")
        self.serve("--model-control-mode", "explicit", "--load-model", "cell", "--open-management", "--tune", "p99=50ms", "--tune-secs", 0.05)
        xs, said, over, tuned = {k: self.steps(k, 5) for k in range(1, 33)}, {}, threading.Event(), []

        def load():
            while not over.is_set():
                (self.repository / "busy/batching.1.json").unlink(missing_ok=True)
                tuned.append(self.ask("POST", "/v2/repository/models/busy/load", "{}")[0])
                self.ask("POST", "/v2/repository/models/busy/unload", "{}")

        def follow(k):
            client = self.closed(tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{self.grpc_port}"))
            said[k] = []
            while not over.is_set():
                said[k].append([client.infer("cell", self.given(x), sequence_id=k, sequence_start=n == 0, sequence_end=n == 4).as_numpy("y").tobytes() for n, x in enumerate(xs[k])])
        threads = [threading.Thread(target=load), *(threading.Thread(target=follow, args=(k,)) for k in xs)]
        for t in threads:
            t.start()
        self.wait_for(lambda: len(tuned) > 1)
        over.set()
        for t in threads:
            t.join()
        self.assertEqual(set(tuned), {200})
        self.assertIn("busy version 1: looking for the batch size and delay of p99=50ms", self.log.read_text())
        for k in xs:
            self.assertEqual(len(set(map(tuple, said[k]))), 1, f"sequence {k} has one answer")
        for k in (1, 17, 32):
            self.assertEqual(said[k][0], [y.tobytes() for y in self.alone("cell", xs[k])])
        self.assertGreater(max(b["batch_size"] for b in self.stats("cell")["batch_stats"]), 1)

    def test_errors_as_tritons(self):
        self.put("cell", graph=cell(), config=config("direct { }", idle=300_000))
        self.put("add")
        self.serve()
        x, c = self.steps(1, 1)[0], tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{self.grpc_port}")
        self.addCleanup(c.close)
        e = self.raises(c.infer, "cell", self.given(x))
        self.assertEqual((e.status(), e.message()), ("StatusCode.INVALID_ARGUMENT", "inference request to model 'cell' must specify a non-zero or non-empty correlation ID"))
        start = "inference request for sequence 9 to model 'cell' must specify the START flag on the first request of the sequence"
        self.assertEqual(self.raises(c.infer, "cell", self.given(x), sequence_id=9).message(), start)
        two = numpy.zeros((2, SIZE), numpy.float32)
        self.assertIn("batch-size 1", self.raises(c.infer, "cell", self.given(two), sequence_id=9, sequence_start=True).message())
        self.assertIn("keeps no state", self.raises(c.infer, "add", self.given(numpy.zeros((1, 4), numpy.float32)), sequence_id=9, sequence_start=True).message())
        c.infer("cell", self.given(x), sequence_id=9, sequence_start=True)
        self.wait_for(lambda: self.stats("cell")["peri_sequences"]["idle"] == 1)
        self.assertEqual(self.raises(c.infer, "cell", self.given(x), sequence_id=9).message(),
                         start + ": it was over after 300000 us without a request")
        body = {"inputs": [{"name": "x", "shape": [1, SIZE], "datatype": "FP32", "data": x.tolist()}], "parameters": {"sequence_id": 9}}
        self.assertEqual(self.infer("cell", body)[0], 400)
        for wrong, words in (([9], "'sequence_id' is array"), (True, "expected a whole number from 0 to 18446744073709551615, or a text"), (1.5, "expected a whole number from 0 to 18446744073709551615, or a text")):
            body["parameters"] = {"sequence_id": wrong, "sequence_start": True}
            self.assertIn(words, self.infer("cell", body)[1]["error"])

    def test_a_model_that_was_loaded_anew_says_so(self):
        self.put("cell", graph=cell(), config=config("direct { }"))
        self.serve("--model-control-mode", "explicit", "--load-model", "cell")
        x, c = self.steps(1, 1)[0], tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{self.grpc_port}")
        self.addCleanup(c.close)
        for version in (1, 2):
            for name in (7, "seven"):
                c.infer("cell", self.given(x), sequence_id=name, sequence_start=True)
            c.infer("cell", self.given(x), sequence_id=8, sequence_start=True, sequence_end=True)
            self.put("cell", version, graph=cell(), config=config("direct { }"))
            (self.repository / f"cell/{version}/again").touch()
            c.load_model("cell")
            for name in (7, "seven"):
                self.assertIn(f"the sequence: the model was loaded anew, as version {version}, while the sequence was under way, which ended it",
                              self.raises(c.infer, "cell", self.given(x), sequence_id=name).message())
            self.assertNotIn("anew", self.raises(c.infer, "cell", self.given(x), sequence_id=8).message())

    def test_a_sequence_waits_for_a_slot(self):
        """As recurrent models are served: no batch, state in and out, one sequence for each instance."""
        value = helper.make_tensor_value_info
        weights = [helper.make_tensor(n, TensorProto.FLOAT, s, numpy.full(s, 0.25, numpy.float32).tobytes(), raw=True) for n, s in (("W", [1, 12, 3]), ("R", [1, 12, 4]))]
        graph = helper.make_graph([helper.make_node("GRU", ["input", "W", "R", "", "", "state"], ["output", "stateN"], hidden_size=4)], "g",
                                  [value("input", TensorProto.FLOAT, ["t", 1, 3]), value("state", TensorProto.FLOAT, [1, "b", 4])],
                                  [value("output", TensorProto.FLOAT, ["t", 1, 1, 4]), value("stateN", TensorProto.FLOAT, [1, "b", 4])], weights)
        self.put("vad", graph=graph, config="sequence_batching { max_sequence_idle_microseconds: 60000000 direct { }\n"
                 'state [ { input_name: "state" output_name: "stateN" data_type: TYPE_FP32 dims: [ 1, -1, 4 ] } ] }')
        self.serve()
        c, got = tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{self.grpc_port}"), queue.Queue()
        self.addCleanup(c.close)
        x = numpy.ones((6, 1, 3), numpy.float32)
        whole = c.infer("vad", self.given(x, name="input"), sequence_id=3, sequence_start=True, sequence_end=True).as_numpy("output")
        parts = [c.infer("vad", self.given(x[:4], name="input"), sequence_id=1, sequence_start=True).as_numpy("output")]
        c.async_infer("vad", self.given(x, name="input"), lambda result, error: got.put((result, error)), sequence_id=2, sequence_start=True, sequence_end=True)
        self.wait_for(lambda: self.stats("vad")["peri_sequences"]["backlog"] == 1)
        self.assertTrue(got.empty())
        parts.append(c.infer("vad", self.given(x[4:], name="input"), sequence_id=1, sequence_end=True).as_numpy("output"))
        result, error = got.get(timeout=120)
        self.assertIsNone(error)
        self.assertEqual(result.as_numpy("output").tobytes(), whole.tobytes())
        self.assertTrue(numpy.allclose(numpy.concatenate(parts), whole, atol=1e-6))

    def test_a_killed_worker_ends_what_it_was_at(self):
        self.put("cell", graph=cell(), config=config("oldest { max_candidate_sequences: 4 }"))
        self.serve("--canary-secs", 0)
        c = tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{self.grpc_port}")
        self.addCleanup(c.close)
        xs, got = self.steps(1, 3), queue.Queue()
        c.infer("cell", self.given(xs[0]), sequence_id=1, sequence_start=True)
        kept = [c.infer("cell", self.given(x), sequence_id=2, sequence_start=n == 0) for n, x in enumerate(xs[:2])]
        worker, = self.children()
        self.halt(worker)  # so that it is at it when it dies
        c.async_infer("cell", self.given(xs[1]), lambda result, error: got.put(error), sequence_id=1)
        self.wait_for(lambda: self.metric("peri_worker_memory_bytes") > 0)
        os.kill(worker, signal.SIGKILL)
        self.assertIn("worker process died", got.get(timeout=120).message())
        self.wait_for(lambda: self.ask("GET", "/v2/health/ready")[0] == 200)
        said = self.raises(c.infer, "cell", self.given(xs[2]), sequence_id=1).message()
        self.assertIn("must specify the START flag", said)
        self.assertIn("worker process died", said)
        # What it was not at lies with the server and goes on.
        after = c.infer("cell", self.given(xs[2]), sequence_id=2, sequence_end=True).as_numpy("y")
        again = [c.infer("cell", self.given(x), sequence_id=5, sequence_start=n == 0, sequence_end=n == 2) for n, x in enumerate(xs)]
        self.assertEqual(again[1].as_numpy("y").tobytes(), kept[1].as_numpy("y").tobytes())
        self.assertEqual(again[2].as_numpy("y").tobytes(), after.tobytes())

    def test_bench_loads_sequences(self):
        """Each of its requests is of a sequence, as many of them live as it is told, and none is left open; over HTTP and gRPC."""
        self.put("cell", graph=cell(), config=config(OLDEST))
        self.put("plain")
        self.put("few", graph=cell(), config=config(OLDEST.replace("sequences: 8", "sequences: 2"), idle=400_000))
        self.serve("--canary-secs", 0)
        quick = ("-p", "100", "-s", "900", "--warm-up", "20")

        def bench(url, *words):
            r = self.peri("bench", "-u", url, "-m", "cell", *words, "--json", "-")
            self.assertEqual(r.returncode, 0, r.stderr)
            said, kept = json.loads(r.stdout), self.stats("cell")["peri_sequences"]
            self.assertEqual([p["errors"] for p in said["points"]], [{}] * len(said["points"]))
            self.assertEqual((kept["active"], kept["backlog"], kept["started"] - kept["ended"], kept["broken"]), (0, 0, 0, 0), "each was ended")
            return said, kept["started"]

        urls = f"http://127.0.0.1:{self.port}", f"grpc://127.0.0.1:{self.grpc_port}"
        for url in urls:
            # More at once than slots: those that wait get the places of sequences that are ended behind the last request.
            few = self.peri("bench", "-u", url, "-m", "few", "--request-count", "60", "--warmup-request-count", "9", "--concurrency-range", "8", "--json", "-")
            self.assertEqual([(p["ok"], p["errors"]) for p in json.loads(few.stdout)["points"]], [(60, {})], few.stderr)
            said, _ = bench(url, "--concurrency-range", "3:6:3", *quick)
            self.assertEqual((said["sequence_length"], [p["concurrency"] for p in said["points"]]), (20, [3, 6]))
            before = self.stats("cell")["peri_sequences"]["started"]
            said, started = bench(url, "--request-count", "30", "--sequence-length", "5", "--sequence-length-variation", "0", "--warmup-request-count", "5")
            self.assertEqual((said["points"][0]["ok"], started - before), (30, 7), "of five requests each")
            said, _ = bench(url, "--request-rate-range", "200", "--num-of-sequences", "2", "--sequence-id-range", "7:9", "--sequence-length", "3", *quick)
            self.assertLess(said["points"][0]["per_second"], 400)
            for words, want in ((("--concurrency-range", "3", "--sequence-id-range", "7:8"), "fewer ids"), (("--num-of-sequences", "3"), "is for loads at a rate"),
                                (("--sequence-id-range", "3:2"), "FIRST:LAST"), (("--start-sequence-id", "3"), "--sequence-id-range FIRST:LAST"), (("--serial-sequences",), "one after another")):
                self.assertIn(want, self.ends(2, "bench", "-u", url, "-m", "cell", *words))
            self.assertIn("no sequence_batching", self.ends(2, "bench", "-u", url, "-m", "plain", "--sequence-id-range", "1:9"))
            said = json.loads(self.peri("bench", "-u", url, "-m", "plain", "--request-count", "5", "--json", "-").stdout)
            self.assertEqual((said["points"][0]["ok"], "sequence_length" in said), (5, False))

    def test_bench_compares_the_sequences_of_a_file(self):
        """Each is sent from its start, however many are live: the answers wanted are those of one state per sequence."""
        self.put("cell", graph=cell(), config=config(OLDEST))
        self.serve("--canary-secs", 0)
        c = tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{self.grpc_port}")
        self.addCleanup(c.close)
        lists, wanted = [self.steps(seed, n) for seed, n in ((1, 3), (2, 2), (3, 1))], []
        for k, xs in enumerate(lists):
            got = [c.infer("cell", self.given(x), sequence_id=90 + k, sequence_start=n == 0, sequence_end=n == len(xs) - 1) for n, x in enumerate(xs)]
            wanted.append([{"y": g.as_numpy("y").ravel().tolist()} for g in got])
        data = [[{"x": x.ravel().tolist()} for x in xs] for xs in lists]
        for given, want, length in ((data, wanted, 2), (data[0], wanted[0], 3)):
            (self.folder / "data.json").write_text(json.dumps({"data": given, "validation_data": want}))
            for url in (f"http://127.0.0.1:{self.port}", f"grpc://127.0.0.1:{self.grpc_port}"):
                words = ("bench", "-u", url, "-m", "cell", "--input-data", "data.json", "--request-count", "25", "--warmup-request-count", "4", "--concurrency-range", "3")
                r = self.peri(*words, "--json", "-")
                said = json.loads(r.stdout)
                self.assertEqual((r.returncode, said["mismatches"], said["points"][0]["ok"], said["sequence_length"]), (0, 0, 25, length), r.stderr)
                said = json.loads(self.peri(*words, "--sequence-length", "7", "--json", "-").stdout)  # the cell sees its end
                self.assertEqual((said["mismatches"] + said["points"][0]["ok"], said["sequence_length"]), (25, 7))
                self.assertIn("have their own", self.ends(2, *words, "--sequence-length-variation", "5"))
        data[0][0], data[0][2] = data[0][2], data[0][0]
        (self.folder / "data.json").write_text(json.dumps({"data": data, "validation_data": wanted}))
        self.assertIn("differ from 'validation_data'", self.ends(3, "bench", "-u", f"http://127.0.0.1:{self.port}", "-m", "cell", "--input-data", "data.json", "--request-count", "25"))


if __name__ == "__main__":
    main()
