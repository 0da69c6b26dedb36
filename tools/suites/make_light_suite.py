#!/usr/bin/env python3
"""Write the ONNX light models of the installed onnx package as a suite folder.

Data set 0 is the package's own: a ramp from 0 to 1 and the output shipped beside the model. Their constant weights make
every answer flat, so data set 1 is a seeded normal input with the output of ONNX Runtime.
"""
import pathlib

import numpy as np
import onnx
import onnx.backend.test
from suite_files import Suite, SuiteError, parser, run


def free_inputs(model):
    inits = {t.name for t in model.graph.initializer}
    return [i for i in model.graph.input if i.name not in inits]


def shape_of(info):
    return [d.dim_value if d.HasField("dim_value") else 1 for d in info.type.tensor_type.shape.dim]


def ramp(shape):
    count = int(np.prod(shape))
    return (np.arange(count).reshape(shape) / count).astype(np.float32)


def main():
    p = parser(__doc__)
    p.add_argument("--seed", type=int, default=7, help="of data set 1 (default 7)")
    a = p.parse_args()
    import onnxruntime as ort

    folder = pathlib.Path(onnx.backend.test.__file__).parent / "data" / "light"
    models = sorted(folder.glob("light_*.onnx"))
    if not models:
        raise SuiteError(f"the onnx package has no light models at {folder}")
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    suite = Suite(a.out, "make_light_suite.py")
    for path in models:
        model = onnx.load(path)
        infos, rng = free_inputs(model), np.random.default_rng(a.seed)
        shipped = onnx.TensorProto()
        shipped.ParseFromString(path.with_name(path.stem + "_output_0.pb").read_bytes())
        seeded = [rng.standard_normal(shape_of(i)).astype(np.float32) for i in infos]
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        answers = session.run(None, {i.name: v for i, v in zip(infos, seeded)})
        sets = [([ramp(shape_of(i)) for i in infos], [onnx.numpy_helper.to_array(shipped)]), (seeded, answers)]
        suite.add(path.stem, model, sets, rtol=1e-3, atol=1e-7, seed=a.seed)
    suite.close()


if __name__ == "__main__":
    run(main)
