#!/usr/bin/env python3
"""Write the models of written_nets.py, written_more.py and written_later.py, their answers computed by ONNX Runtime without its
rewrites. Every model runs at two settings of its free sizes."""
import onnx
import written_later  # noqa: F401: add their models to NETS
import written_more  # noqa: F401
from make_control_suite import answers
from suite_files import Suite, parser, run
from written_nets import NETS, build


def main():
    p = parser(__doc__)
    a = p.parse_args()
    suite = Suite(a.out, "make_written_suite.py")
    for name in NETS:
        net, sizes = build(name)
        m = net.model()
        onnx.checker.check_model(m)
        sets = [list(net.feed(s, k).values()) for k, s in enumerate(sizes)]
        suite.add(name, m, [(inputs, answers(m, inputs)) for inputs in sets], rtol=1e-3, atol=1e-4)
    return 0 if suite.close() else 1


if __name__ == "__main__":
    run(main)
