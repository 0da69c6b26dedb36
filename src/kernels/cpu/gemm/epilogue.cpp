// Which epilogue steps the register stage of a tile covers, and the builders of an epilogue.
#include "kernels/cpu/gemm/epilogue.hpp"

#include <limits>

#include "base/result.hpp"

namespace peri::kernels::cpu {

Epilogue& add_op(Epilogue& e, const PostOp& op) {
  PERI_CHECK(e.count < Epilogue::kMaxOps, "an epilogue holds at most eight steps");
  e.ops[e.count++] = op;
  return e;
}

Epilogue& add_bias(Epilogue& e, const float* data) {
  PostOp op;
  op.kind = PostKind::kColAdd;
  op.data = data;
  return add_op(e, op);
}

Epilogue& add_residual(Epilogue& e, const float* data, int64_t ld) {
  PostOp op;
  op.kind = PostKind::kAdd;
  op.data = data;
  op.ld = ld;
  return add_op(e, op);
}

Epilogue& add_activation(Epilogue& e, Activation act, float a, float b) {
  PostOp op;
  op.kind = PostKind::kActivation;
  op.act = act;
  op.a = a;
  op.b = b;
  return add_op(e, op);
}

RegisterStage register_stage(const Epilogue& e) {
  RegisterStage stage;
  int i = 0;
  if (i < e.count && e.ops[i].kind == PostKind::kColAdd) stage.bias = e.ops[i++].data;
  if (i < e.count && e.ops[i].kind == PostKind::kAdd) {
    stage.add = e.ops[i].data;
    stage.add_ld = e.ops[i++].ld;
  }
  if (i < e.count && e.ops[i].kind == PostKind::kActivation) {
    const PostOp& op = e.ops[i];
    if (op.act == Activation::kRelu) {
      stage.clip = true;
      stage.low = 0;
      stage.high = std::numeric_limits<float>::infinity();
      ++i;
    } else if (op.act == Activation::kClip) {
      stage.clip = true;
      stage.low = op.a;
      stage.high = op.b;
      ++i;
    }
  }
  stage.consumed = i;
  return stage;
}

}  // namespace peri::kernels::cpu
