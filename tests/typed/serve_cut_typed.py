#!/usr/bin/env python3
"""Runs that nobody waits for end: a loop whose clients have all left, one whose request has had its time. A loop that goes on
would keep the one instance busy, so a short request that is answered shows that it has ended."""
import concurrent.futures
import http.client
import json
import re
import time

from onnx import TensorProto, helper

from served import Served
from typed import main

# 10^9 iterations take minutes: the server's limits, not the loop's end, are what a test can see within SOON seconds.
ENDLESS, SOON = 10**9, 60
ONE = "max_batch_size: 2 instance_group { count: 1 } "
PAIRS = ONE + "dynamic_batching { preferred_batch_size: 2 max_queue_delay_microseconds: 60000000 }"


class Cut(Served):
    def counting(self):
        """y = x after as many iterations as the largest n of the batch says; a float, whose made-up values are small."""
        value = helper.make_tensor_value_info
        body = helper.make_graph([helper.make_node("Identity", ["c"], ["again"]), helper.make_node("Add", ["v", "zero"], ["next"])], "body",
                                 [value("i", TensorProto.INT64, []), value("c", TensorProto.BOOL, []), value("v", TensorProto.FLOAT, ["b", 4])],
                                 [value("again", TensorProto.BOOL, []), value("next", TensorProto.FLOAT, ["b", 4])],
                                 [helper.make_tensor("zero", TensorProto.FLOAT, [4], [0.0] * 4)])
        nodes = [helper.make_node("ReduceMax", ["n"], ["highest"], keepdims=0), helper.make_node("Cast", ["highest"], ["most"], to=TensorProto.INT64),
                 helper.make_node("Loop", ["most", "", "x"], ["y"], body=body)]
        return helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, ["b", 4]), value("n", TensorProto.FLOAT, ["b", 1])], [value("y", TensorProto.FLOAT, ["b", 4])])

    def request(self, n, **parameters):
        return json.dumps({"parameters": parameters, "inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]},
                                                                {"name": "n", "shape": [1, 1], "datatype": "FP32", "data": [n]}]})

    def asking(self, n):
        """A client that has sent its request, and can leave by close()."""
        client = self.closed(http.client.HTTPConnection("127.0.0.1", self.port, timeout=120))
        client.request("POST", "/v2/models/count/infer", self.request(n))
        return client

    def metric(self, name, more=""):
        """The value of a metric of the model, with these labels too."""
        text = self.ask("GET", "/metrics", port=self.metrics_port)[1].decode()
        return int(re.search(rf'^{name}{{model="count",version="1"{more}}} (\d+)$', text, re.M)[1])

    def progress(self):
        return self.metric("peri_progress_total")

    def failed(self, reason):
        return self.metric("nv_inference_request_failure", f',reason="{reason}"')

    def left(self):
        return self.failed("CANCELED")

    def iterates(self):
        """A run is in the loop: it counts further, by more than the steps of any short request."""
        begun = self.progress()
        self.wait_for(lambda: self.progress() > begun + 100_000)

    def free(self, requests=1):
        """Short requests are answered, which the one instance can do only once the long run has ended."""
        begun = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(requests) as pool:
            for status, said in pool.map(lambda _: self.infer("count", self.request(3)), range(requests)):
                self.assertEqual(status, 200, said)
                self.assertEqual(said["outputs"][0]["data"], [1, 2, 3, 4])
        self.assertLess(time.monotonic() - begun, SOON)

    def test_a_loop_whose_client_leaves(self):
        self.put("count", graph=self.counting(), config=ONE)
        self.serve()
        client = self.asking(ENDLESS)
        self.iterates()
        client.close()
        self.wait_for(lambda: self.left() == 1, SOON)
        self.free()

    def test_a_batch_ends_with_its_last_client(self):
        self.put("count", graph=self.counting(), config=PAIRS)
        self.serve()
        first, second = self.asking(ENDLESS), self.asking(ENDLESS)
        self.iterates()
        first.close()
        self.iterates()
        self.assertEqual(self.metric("nv_inference_exec_count"), 0, "the batch goes on for the client that stayed")
        second.close()
        self.wait_for(lambda: self.left() == 2, SOON)
        self.free(2)

    def test_a_loop_whose_time_is_over(self):
        self.put("count", graph=self.counting(), config=ONE + "dynamic_batching { default_queue_policy { allow_timeout_override: true } }")
        self.serve()
        begun = time.monotonic()
        status, said = self.infer("count", self.request(ENDLESS, timeout=1_000_000))
        self.assertIn("Request timeout expired", said["error"])
        self.assertEqual(status, 503)
        self.assertLess(time.monotonic() - begun, SOON)
        self.free()
        self.assertEqual((self.failed("REJECTED"), self.failed("OTHER")), (0, 1))

    def test_a_request_whose_time_is_over_while_it_waits(self):
        """It is counted as one that the scheduler rejects, as of Triton."""
        self.put("count", graph=self.counting(), config=ONE + "dynamic_batching { default_queue_policy { allow_timeout_override: true } }")
        self.serve()
        client = self.asking(ENDLESS)
        self.iterates()
        status, said = self.infer("count", self.request(3, timeout=1000))
        self.assertIn("Request timeout expired", said["error"])
        self.assertEqual((status, self.failed("REJECTED"), self.failed("OTHER")), (503, 1, 0))
        client.close()

    def test_the_limit_of_a_loop_is_told_as_the_servers(self):
        """A client has no --max-iterations to give."""
        self.put("count", graph=self.counting(), config=ONE)
        self.serve("--max-iterations", 1000)
        self.assertEqual(self.infer("count", self.request(3))[0], 200)
        status, said = self.infer("count", self.request(ENDLESS))
        self.assertEqual(status, 400)
        self.assertIn("a loop did not end within its limit of iterations: expected at most 1000; "
                      "the limit is this server's (--max-iterations): check the condition that ends the loop", said["error"])

    def test_a_limit_that_the_model_does_not_take_cuts_nothing(self):
        """As of Triton: without allow_timeout_override a request's limit is not looked at, and a queue's is for waiting."""
        self.put("count", graph=self.counting(), config=ONE + "dynamic_batching { default_queue_policy { default_timeout_microseconds: 1000000 } }")
        self.serve()
        status, said = self.infer("count", self.request(10**6, timeout=1))
        self.assertEqual(status, 200, said)


if __name__ == "__main__":
    main()
