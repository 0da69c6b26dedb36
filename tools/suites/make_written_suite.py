#!/usr/bin/env python3
"""Write the models of written_nets.py, written_more.py and written_later.py, their answers computed by ONNX Runtime without its
rewrites. Every model runs at two settings of its free sizes."""
import numpy as np
import onnx
import written_later  # noqa: F401: add their models to NETS
import written_more  # noqa: F401
from make_control_suite import answers
from suite_files import Suite, parser, run
from written_nets import NETS, build


def allowed(answers):
    """The absolute tolerance: 1e-4 of the range of the output of floats that has the smallest, and of 1 at least. ONNX Runtime
    sums in float32 too: of parted_speech its own answers are 2.8e-5 of their range away from float64's."""
    largest = [float(np.abs(x).max()) for x in answers if x.dtype.kind == "f" and x.size and np.isfinite(x).all()]
    return 1e-4 * max(1.0, min(largest, default=1.0))


def main():
    p = parser(__doc__)
    a = p.parse_args()
    suite = Suite(a.out, "make_written_suite.py")
    for name in NETS:
        net, sizes = build(name)
        m = net.model()
        onnx.checker.check_model(m)
        sets = [list(net.feed(s, k).values()) for k, s in enumerate(sizes)]
        cases = [(inputs, answers(m, inputs)) for inputs in sets]
        suite.add(name, m, cases, rtol=1e-3, atol=min(allowed(got) for _, got in cases))
    return 0 if suite.close() else 1


if __name__ == "__main__":
    run(main)
