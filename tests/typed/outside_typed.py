#!/usr/bin/env python3
"""A kernel from outside as people bring it, on the fake driver: what a build says became of it, who runs an engine of it without its
manifest, and a variable that names a file that is not there."""
import json

import numpy
import tritonclient.grpc
from onnx import TensorProto, helper
from tritonclient.utils import InferenceServerException

from served import Served
from typed import PERI, main

SOURCE = """extern "C" __global__ void peri_NAME(const float* x, const float* w, float* y, int n) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < n * 4) y[at] = x[at] + w[at] + MORE;
}
"""
REMEDY = "--kernel FILE, the variable PERI_KERNELS"


class Outside(Served):
    def setUp(self):
        super().setUp()
        libraries, code = self.folder / "libraries", self.folder / "code"
        libraries.mkdir()
        code.mkdir()
        for name, fake in (("libcuda.so.1", "driver"), ("libnvrtc.so.13", "nvrtc")):
            (libraries / name).symlink_to(PERI.parent / "fake" / f"{fake}.so")
        self.environment.update(PERI_CUDA_PATH=str(libraries), FAKE_CUDA_COMPILES=str(code))
        value = helper.make_tensor_value_info
        ports = [value(p, TensorProto.FLOAT, ["n", 4]) for p in ("x", "w", "y")]
        graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", ports[:2], ports[2:])
        self.model = self.put("sum", graph=graph, engine=False)
        (self.repository / "sum/1/model.onnx").unlink()
        self.engine = self.repository / "sum/1/model.engine"

    def manifest(self, name, more="0", pattern="add(x, w)", version=7):
        (self.folder / f"{name}.cu").write_text(SOURCE.replace("NAME", name).replace("MORE", more))
        said = {"name": name, "version": version, "source": {"cuda": f"{name}.cu"}, "chips": ["sm_80+"], "entry": f"peri_{name}", "threads": 32,
                "grid": ["floordiv(n*4 + 31, 32)"], "pattern": "graph { input x: f32[n,4]; input w: f32[n,4]; y = %s; output y }" % pattern,
                "arguments": ["x", "w", "y", "i32 n"]}
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(said))
        return path

    def build(self, *words):
        r = self.peri("build", self.model, "-o", self.engine, "--backend", "cuda", "--force", *words)
        self.assertEqual(r.returncode, 0, r.stderr)
        return [line for line in r.stdout.decode().split("\n") if line.startswith("kernel ")], r.stdout.decode()

    def test_a_build_says_what_became_of_it(self):
        right, wrong, none = self.manifest("right"), self.manifest("wrong", more="1"), self.manifest("none", pattern="mul(x, w)")
        lines, said = self.build("--kernel", right, "--kernel", wrong, "--kernel", none, "--provider", "outside")
        self.assertEqual(len(lines), 3, lines)
        self.assertEqual(lines[0], "kernel     'right' chosen for 1 step")
        self.assertRegex(lines[1], r"^kernel     'wrong' rejected at 1 step: .*differs")
        self.assertRegex(lines[2], r"^kernel     'none' takes no step: another node: expected mul, found add")
        self.assertIn("1 rejected\n           'y': wrong@7 {source=", said)

    def test_an_engine_without_its_manifest(self):
        manifest = self.manifest("plus")
        self.build("--kernel", manifest, "--provider", "outside", "--no-tune")
        self.assertIn("runs here: 1 step", self.ends(0, "inspect", self.engine, "--kernel", manifest))
        last = self.ends(1, "inspect", self.engine)
        for words in ("does not run here: 'y': kernel 'plus' is from outside, and its manifest was not given", REMEDY):
            self.assertIn(words, last)
        self.ends(0, "explain", self.engine, "--kernel", manifest)
        self.assertIn("'plus' is from outside", self.ends(1, "run", self.engine, "--input", "x=random:1", "--input", "w=random:2"))
        self.put("add")
        self.serve("--model-control-mode", "explicit", "--load-model", "*", ready=False)
        self.wait_for(lambda: self.infer("add", self.rows([[0, 0, 0, 0]]))[0] == 200)
        row = self.wait_for(lambda: next((r for r in json.loads(self.ask("POST", "/v2/repository/index")[1]) if r["name"] == "sum" and r["state"] == "UNAVAILABLE"
                                          and "not loaded" not in r["reason"]), None))
        status, said, _ = self.ask("POST", "/v2/repository/models/sum/load")
        self.assertEqual(status, 400)
        with tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{self.grpc_port}") as c:
            with self.assertRaises(InferenceServerException) as caught:
                c.load_model("sum")
        for told in (row["reason"], json.loads(said)["error"], caught.exception.message(), self.log.read_text()):
            self.assertIn("kernel 'plus' is from outside, and its manifest was not given", told)
            self.assertIn(REMEDY, told)
        self.assertEqual(self.ask("GET", "/v2/health/ready")[0], 400)
        self.stop()
        self.environment["PERI_KERNELS"] = str(manifest)
        self.serve()
        x = [[1, 2, 3, 4]]
        said = self.infer("sum", {"inputs": [{"name": n, "shape": [1, 4], "datatype": "FP32", "data": x} for n in "xw"]})[1]
        self.assertTrue((numpy.array(said["outputs"][0]["data"]) == [2, 4, 6, 8]).all(), said)
        self.stop()
        for other in (self.manifest("plus", version=8), self.manifest("plus", more="0.0f")):  # another version, another source
            last = self.ends(1, "inspect", self.engine)
            self.assertIn(str(other), last)
            self.assertIn("--kernel FILE", last)

    def test_a_profile_names_it(self):
        """To the worker, and to a server without one."""
        manifest = self.manifest("plus")
        self.build("--kernel", manifest, "--provider", "outside", "--no-tune")
        profile, x = self.folder / "mine.yaml", [[1, 2, 3, 4]]
        profile.write_text(f"kernel: {manifest}\n")
        for more in ([], ["--in-process"]):
            self.serve("--profile", profile, *more, ready=False)
            self.wait_for(lambda: self.ask("GET", "/v2/health/ready")[0] == 200, seconds=60)
            said = self.infer("sum", {"inputs": [{"name": n, "shape": [1, 4], "datatype": "FP32", "data": x} for n in "xw"]})[1]
            self.assertTrue((numpy.array(said["outputs"][0]["data"]) == [2, 4, 6, 8]).all(), said)
            self.stop()
        profile.write_text("kernel: none.json\n")
        self.assertIn("none.json", self.ends(1, "serve", "--model-repository", self.repository, "--profile", profile))

    def test_a_variable_that_names_no_file(self):
        self.environment["PERI_KERNELS"] = "none.json"
        for words in (["doctor"], ["cache"], ["inspect", self.model]):
            r = self.peri(*words)
            self.assertNotEqual(r.returncode, 0)
            for part in ("none.json", "PERI_KERNELS"):
                self.assertIn(part, r.stderr.decode().strip().split("\n")[-1])



if __name__ == "__main__":
    main()
