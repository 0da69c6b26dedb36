#!/usr/bin/env python3
"""Ensembles of `peri serve`: graphs of models, checked when they are loaded, with the types of their edges."""
import json

from served import Served
from typed import main

PORTS = ('input [{ name: "a" data_type: TYPE_FP32 dims: [-1, 4] }]\noutput [{ name: "d" data_type: TYPE_FP32 dims: [-1, 4] }]\n')


def step(model, given, made):
    return f'{{ model_name: "{model}" model_version: -1 input_map {{ key: "x" value: "{given}" }} output_map {{ key: "y" value: "{made}" }} }}'


class Ensembles(Served):
    def ensemble(self, name, *steps, ports=PORTS):
        (self.repository / name / "1").mkdir(parents=True)
        (self.repository / name / "config.pbtxt").write_text(
            f'platform: "ensemble"\n{ports}ensemble_scheduling {{ step [ {", ".join(steps)} ] }}\n')

    def test_a_graph_of_models(self):
        self.put("one", add=1.0)
        self.put("ten", add=10.0)
        self.ensemble("all", step("ten", "b", "c"), step("one", "a", "b"), step("one", "c", "d"))
        self.serve()
        request = {"inputs": [{"name": "a", "shape": [2, 4], "datatype": "FP32", "data": list(range(8))}]}
        for _ in range(5):
            status, said = self.infer("all", request)
            self.assertEqual((status, said["outputs"]), (200, [{"name": "d", "datatype": "FP32", "shape": [2, 4], "data": [v + 12 for v in range(8)]}]))
        self.assertEqual(self.metric('nv_inference_request_success{model="one",version="1"'), 10)
        self.assertEqual(self.infer("all", {"inputs": [{"name": "a", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}]})[0], 400)
        self.assertEqual(json.loads(self.ask("GET", "/v2/models/all")[1])["inputs"], [{"name": "a", "datatype": "FP32", "shape": [-1, 4]}])

    def test_what_does_not_fit_is_refused_at_load(self):
        self.put("one", add=1.0)
        self.ensemble("circle", step("one", "c", "b"), step("one", "b", "c"), step("one", "a", "d"))
        self.ensemble("missing", step("none", "a", "d"))
        self.ensemble("twice", step("one", "a", "d"), step("one", "a", "d"))
        self.ensemble("types", step("one", "a", "d"), ports=PORTS.replace('"a" data_type: TYPE_FP32', '"a" data_type: TYPE_INT8'))
        self.ensemble("dims", step("one", "a", "d"), ports=PORTS.replace('"d" data_type: TYPE_FP32 dims: [-1, 4]', '"d" data_type: TYPE_FP32 dims: [-1, 5]'))
        self.ensemble("output", step("one", "a", "e"))
        self.ensemble("port", step("one", "a", "d").replace('key: "x"', 'key: "z"'))
        self.serve(ready=False)
        said = self.wait_for(lambda: (lambda rows: {r["name"]: r.get("reason", "") for r in rows} if len(rows) == 8 and not any(r["state"] == "LOADING" for r in rows)
                                      else None)(json.loads(self.ask("POST", "/v2/repository/index")[1])))
        for name, want in (("circle", "circle"), ("missing", "no such model"), ("twice", "made twice"), ("types", "i8"), ("dims", "5"),
                           ("output", "made by no step"), ("port", "'z'"), ("one", "")):
            self.assertIn(want, said[name], name)


if __name__ == "__main__":
    main()
