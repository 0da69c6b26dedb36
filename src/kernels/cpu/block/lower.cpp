// Lowering of block code: aliases instead of loads, fused pairs, outputs computed in place, scratch shared by
// lifetime.
#include "kernels/cpu/block/lower.hpp"

#include <algorithm>
#include <utility>

#include "kernels/cpu/block/chain.hpp"

namespace peri::kernels::cpu::block {
namespace {

int64_t round_up(int64_t v, int64_t to) { return (v + to - 1) / to * to; }

// Whether tiles of whole rows all see the same elements: only the inner stride moves.
bool periodic(const Plan& plan, size_t input) {
  for (size_t d = 0; d + 1 < plan.dims.size(); ++d) {
    if (plan.strides[input][d] != 0) return false;
  }
  return plan.dims.size() > 1 && plan.tile % plan.dims.back() == 0 && plan.block % plan.dims.back() == 0;
}

// Builds slots and steps from the program with its loads and constants first; registers are known by number.
class Lowering {
 public:
  Lowering(const Code& p, Plan* plan, bool by_row) : p_(p), plan_(plan), by_row_(by_row), loops_(kernels(plan->isa)) {
    for (const bool early : {true, false}) {
      for (const Instruction& i : p.code) {
        if ((i.op == Op::kLoad || i.op == Op::kConst) == early) code_.push_back(i);
      }
    }
    const size_t n = static_cast<size_t>(p.registers());
    uses_.assign(n, 0);
    reader_.assign(n, -1);
    made_.assign(n, -1);
    slot_of_.assign(n, -1);
    direct_.assign(n, -1);
    for (size_t k = 0; k < code_.size(); ++k) {
      for (int r : code_[k].src) {
        if (r >= 0) {
          ++uses_[static_cast<size_t>(r)];
          reader_[static_cast<size_t>(r)] = static_cast<int>(k);
        }
      }
      if (code_[k].dst >= 0) made_[static_cast<size_t>(code_[k].dst)] = static_cast<int>(k);
    }
  }

  void run() {
    find_direct_outputs();
    for (size_t k = 0; k < code_.size();) k = lower(k);
    plan_->steps.insert(plan_->steps.end(), outs_.begin(), outs_.end());
    build_chains(plan_);
    place_tiles();
  }

 private:
  bool is_loaded(int r) const { return code_[static_cast<size_t>(made_[static_cast<size_t>(r)])].op == Op::kLoad; }
  Slot& slot(int s) { return plan_->slots[static_cast<size_t>(s)]; }
  int64_t tile_bytes(Type t) const { return round_up(plan_->tile * type_size(t) + 64, 64); }
  int new_slot(Place place, Type type, int argument, int64_t offset) {
    plan_->slots.push_back({place, type, argument, offset});
    return static_cast<int>(plan_->slots.size()) - 1;
  }
  int new_tile(Type type) { return new_slot(Place::kTile, type, -1, 0); }
  int64_t take_scratch(int64_t bytes) {
    const int64_t at = plan_->scratch;
    plan_->scratch += bytes;
    return at;
  }

  // A stored register is computed directly in the output if its bytes equal the output's and no input is read later, so
  // that an output may share its memory with an input.
  void find_direct_outputs() {
    int last_read = -1;
    for (size_t k = 0; k < code_.size(); ++k) {
      for (int r : code_[k].src) {
        if (r < 0 || !is_loaded(r)) continue;
        last_read =
            code_[k].op == Op::kStore ? static_cast<int>(code_.size()) : std::max(last_read, static_cast<int>(k));
      }
    }
    for (const Instruction& i : code_) {
      if (i.op != Op::kStore || store_convert(plan_->isa, p_.outputs[static_cast<size_t>(i.index)]) != nullptr)
        continue;
      const size_t r = static_cast<size_t>(i.src[0]);
      const Op op = code_[static_cast<size_t>(made_[r])].op;
      if (direct_[r] < 0 && op != Op::kLoad && op != Op::kConst && made_[r] >= last_read) direct_[r] = i.index;
    }
  }

  // Lowers instruction k and those fused with it; returns the next.
  size_t lower(size_t k) {
    const Instruction& i = code_[k];
    if (i.op == Op::kLoad) {
      lower_load(i);
    } else if (i.op == Op::kConst) {
      lower_const(i);
    } else if (i.op == Op::kStore) {
      lower_store(i);
    } else if (is_reduction(i.op)) {
      lower_reduce(i);
    } else {
      return lower_op(k);
    }
    return k + 1;
  }

  void lower_load(const Instruction& i) {
    const size_t input = static_cast<size_t>(i.index);
    int& bound = slot_of_[static_cast<size_t>(i.dst)];
    if (uses_[static_cast<size_t>(i.dst)] == 0) return;
    const Convert convert = load_convert(plan_->isa, p_.inputs[input]);
    const int64_t inner = plan_->strides[input].back();
    if (convert == nullptr) {
      if (is_dense(*plan_, input)) return void(bound = new_slot(Place::kDense, i.type, i.index, 0));
      if (is_constant(*plan_, input)) return void(bound = new_slot(Place::kScalar, i.type, i.index, 0));
      if (by_row_ && inner <= 1)
        return void(bound = new_slot(inner == 1 ? Place::kRow : Place::kRowScalar, i.type, i.index, 0));
    }
    Step step;
    step.argument = i.index;
    step.element_bytes = plan_->input_bytes[input];
    step.convert = convert;
    step.kind = convert != nullptr && is_dense(*plan_, input) ? StepKind::kConvertIn : StepKind::kGather;
    if (step.kind == StepKind::kGather && convert != nullptr)
      step.raw = take_scratch(round_up(plan_->tile * step.element_bytes + 64, 64));
    step.once = is_constant(*plan_, input) || (!by_row_ && periodic(*plan_, input));
    step.dst = step.once ? new_slot(Place::kPeriodic, i.type, -1, take_scratch(tile_bytes(i.type))) : new_tile(i.type);
    plan_->steps.push_back(step);
    bound = step.dst;
  }

  void lower_const(const Instruction& i) {
    Constant c{};
    if (i.type == Type::kF32) c.f = i.imm[0];
    if (i.type == Type::kI32) c.i = static_cast<int32_t>(i.whole);
    if (i.type == Type::kI64) c.l = i.whole;
    if (i.type == Type::kBool) c.b = i.whole != 0;
    plan_->constants.push_back(c);
    const int64_t at = static_cast<int64_t>(plan_->constants.size()) - 1;
    slot_of_[static_cast<size_t>(i.dst)] = new_slot(Place::kConst, i.type, -1, at);
  }

  // Stores that are no part of the computation run last in the tile.
  void lower_store(const Instruction& i) {
    const size_t r = static_cast<size_t>(i.src[0]);
    if (direct_[r] == i.index) return;
    Step step;
    step.argument = i.index;
    step.src[0] = spread(slot_of_[r]);
    step.convert = store_convert(plan_->isa, p_.outputs[static_cast<size_t>(i.index)]);
    step.kind = step.convert != nullptr ? StepKind::kConvertOut : StepKind::kCopyOut;
    step.element_bytes = plan_->output_bytes[static_cast<size_t>(i.index)];
    outs_.push_back(step);
  }

  void lower_reduce(const Instruction& i) {
    Step step;
    step.kind = StepKind::kReduce;
    step.op = i.op;
    step.reduce = loops_.reduce(i.op);
    step.src[0] = spread(slot_of_[static_cast<size_t>(i.src[0])]);
    step.argument = i.index;
    step.convert = store_convert(plan_->isa, p_.outputs[static_cast<size_t>(i.index)]);
    step.element_bytes = plan_->output_bytes[static_cast<size_t>(i.index)];
    step.dst = static_cast<int>(plan_->reduce_ops.size());
    plan_->reduce_ops.push_back(i.op);
    plan_->steps.push_back(step);
  }

  // The slot itself, or a tile filled with its one element.
  int spread(int from) {
    const Slot s = slot(from);
    if (!s.scalar()) return from;
    Step step;
    step.kind = StepKind::kSpread;
    step.element_bytes = type_size(s.type);
    step.src[0] = from;
    step.once = s.place != Place::kRowScalar;
    step.fill = plan_->tile;
    step.dst = step.once ? new_slot(Place::kPeriodic, s.type, -1, take_scratch(tile_bytes(s.type))) : new_tile(s.type);
    plan_->steps.push_back(step);
    return step.dst;
  }

  // Whether instruction k's result is read by instruction k + 1 alone and lies in no output.
  bool flows_on(size_t k) const {
    const size_t r = static_cast<size_t>(code_[k].dst);
    return k + 1 < code_.size() && uses_[r] == 1 && reader_[r] == static_cast<int>(k) + 1 && direct_[r] < 0;
  }

  size_t lower_op(size_t k) {
    Instruction i = code_[k];
    // mul, then add of its product: one muladd.
    if (i.op == Op::kMul && i.type == Type::kF32 && flows_on(k) && code_[k + 1].op == Op::kAdd) {
      const Instruction& next = code_[++k];
      i.op = Op::kMulAdd;
      i.src[2] = next.src[0] == i.dst ? next.src[1] : next.src[0];
      i.dst = next.dst;
    }
    emit(i);
    return k + 1;
  }

  void emit(const Instruction& i) {
    const int operands = op_row(i.op).registers;
    Step step;
    step.op = i.op;
    for (int s = 0; s < operands; ++s) step.src[s] = slot_of_[static_cast<size_t>(i.src[s])];
    const Type type = slot(step.src[i.op == Op::kSelect ? 1 : 0]).type;
    const bool f32 = type == Type::kF32 && i.type == Type::kF32 && i.op != Op::kSelect && i.op != Op::kCast;
    if (!f32) {  // f32 steps get their loops from build_chains()
      for (int s = 0; s < operands; ++s) step.src[s] = spread_unless_taken(i, type, step, s);
      step.kernel = loops_.find({i.op, type, i.type, scalars_of(step)});
      PERI_CHECK(step.kernel != nullptr, "block plan: no loop for " + std::string(op_row(i.op).name));
    }
    std::copy(i.imm, i.imm + 2, step.imm);
    const size_t r = static_cast<size_t>(i.dst);
    step.dst = direct_[r] >= 0 ? new_slot(Place::kOutput, i.type, direct_[r], 0) : new_tile(i.type);
    slot_of_[r] = step.dst;
    plan_->steps.push_back(step);
  }

  int scalars_of(const Step& step) {
    int mask = 0;
    for (int s = 0; s < 3; ++s) mask |= static_cast<int>(step.src[s] >= 0 && slot(step.src[s]).scalar()) << s;
    return mask;
  }
  int spread_unless_taken(const Instruction& i, Type type, const Step& step, int s) {
    return loops_.find({i.op, type, i.type, scalars_of(step)}) != nullptr ? step.src[s] : spread(step.src[s]);
  }

  static std::vector<int> read_by(const Step& step) {
    std::vector<int> slots;
    for (int s : step.src) slots.push_back(s);
    for (const ChainOp& op : step.chain) {
      slots.push_back(op.stores ? -1 : op.src[0]);
      slots.push_back(op.src[1]);
    }
    return slots;
  }
  static std::vector<int> written_by(const Step& step) {
    std::vector<int> slots;
    if (step.kind != StepKind::kReduce && step.kind != StepKind::kChain) slots.push_back(step.dst);
    for (const ChainOp& op : step.chain) slots.push_back(op.stores ? op.src[0] : -1);
    return slots;
  }

  // Scratch for the tiles, shared by those that do not live at the same time.
  void place_tiles() {
    const auto tile = [&](int s) { return s >= 0 && slot(s).place == Place::kTile; };
    std::vector<int> last(plan_->slots.size(), -1);
    for (size_t k = 0; k < plan_->steps.size(); ++k) {
      for (const auto& list : {written_by(plan_->steps[k]), read_by(plan_->steps[k])}) {
        for (int s : list) {
          if (tile(s)) last[static_cast<size_t>(s)] = static_cast<int>(k);
        }
      }
    }
    std::vector<std::pair<int64_t, int64_t>> free;  // bytes, offset
    for (size_t k = 0; k < plan_->steps.size(); ++k) {
      for (int s : written_by(plan_->steps[k])) {
        if (!tile(s)) continue;
        const int64_t bytes = tile_bytes(slot(s).type);
        const auto found = std::find_if(free.begin(), free.end(), [bytes](const auto& f) { return f.first == bytes; });
        slot(s).offset = found != free.end() ? found->second : take_scratch(bytes);
        if (found != free.end()) free.erase(found);
      }
      for (size_t s = 0; s < last.size(); ++s) {
        if (last[s] == static_cast<int>(k)) free.push_back({tile_bytes(plan_->slots[s].type), plan_->slots[s].offset});
      }
    }
  }

  const Code& p_;
  Plan* plan_;
  bool by_row_;
  const Kernels& loops_;
  std::vector<Instruction> code_;
  std::vector<int> uses_, reader_, made_, slot_of_, direct_;
  std::vector<Step> outs_;
};

}  // namespace

bool is_constant(const Plan& plan, size_t input) {
  return std::all_of(plan.strides[input].begin(), plan.strides[input].end(), [](int64_t s) { return s == 0; });
}

bool is_dense(const Plan& plan, size_t input) {
  int64_t step = 1;
  for (size_t d = plan.dims.size(); d-- > 0;) {
    if (plan.strides[input][d] != step) return false;
    step *= plan.dims[d];
  }
  return true;
}

void lower(const Code& program, bool by_row, Plan* plan) { Lowering(program, plan, by_row).run(); }

}  // namespace peri::kernels::cpu::block
