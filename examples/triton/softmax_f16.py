"""Makes softmax_f16.ptx, the kernel of softmax_f16.json, with the Triton language; no GPU is needed.

    python3 -m venv venv && venv/bin/pip install triton==3.9.0
    TRITON_DISABLE_LINE_INFO=1 TRITON_DEFAULT_FP_FUSION=1 venv/bin/python examples/triton/softmax_f16.py

What the manifest has to say of the launch is printed: threads, bytes of shared memory, and the parameters that Triton
adds behind those of the function, which are pointers to memory of which this kernel asks for none.
"""

import pathlib

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

VERSION = "3.9.0"  # another one may add other parameters
WIDTH = 1024  # the longest row
PTX_VERSION = 80  # drivers of CUDA 12.0 and newer read it


@triton.jit
def peri_triton_softmax(x, y, columns, WIDTH: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns
    at = tl.arange(0, WIDTH)
    inside = at < columns
    v = tl.load(x + row + at, mask=inside, other=float("-inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + row + at, (e / tl.sum(e, 0)).to(tl.float16), mask=inside)


def main():
    assert triton.__version__ == VERSION, f"Triton {VERSION} is wanted, this is {triton.__version__}"
    source = ASTSource(
        fn=peri_triton_softmax,
        signature={"x": "*fp16", "y": "*fp16", "columns": "i32", "WIDTH": "constexpr"},
        constexprs={"WIDTH": WIDTH},
    )
    # PTX of sm_80 runs on every newer chip.
    made = triton.compile(
        source, target=GPUTarget("cuda", 80, 32), options={"num_warps": 4, "ptx_version": PTX_VERSION}
    )
    meta = made.metadata
    assert meta.global_scratch_size == 0 and meta.profile_scratch_size == 0, "it wants memory of its own"
    path = pathlib.Path(__file__).with_suffix(".ptx")
    path.write_text(made.asm["ptx"])
    print(f"{path}: threads {32 * meta.num_warps}, shared_bytes {meta.shared}")


if __name__ == "__main__":
    main()
