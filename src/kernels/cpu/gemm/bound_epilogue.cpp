// Operands from constants, arguments and inline values.
#include "kernels/cpu/gemm/bound_epilogue.hpp"

namespace peri::kernels {

cpu::Epilogue bind_epilogue(const MatchedEpilogue& m, std::span<const Tensor> constants, const Args& args, int64_t ld) {
  cpu::Epilogue e;
  for (const MatchedOp& s : m.ops) {
    cpu::PostOp op = {.kind = s.op.kind, .act = s.op.act, .a = s.op.a, .b = s.op.b};
    if (s.needs_data) {
      if (s.input < 0)
        op.data = s.values.data();
      else if (constants[static_cast<size_t>(s.input)].defined())
        op.data = constants[static_cast<size_t>(s.input)].as<float>().data();
      else
        op.data = static_cast<const float*>(args.in[static_cast<size_t>(s.input)]);
      op.ld = ld;
    }
    cpu::add_op(e, op);
  }
  return e;
}

}  // namespace peri::kernels
