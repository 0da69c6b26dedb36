// Chains: a one-register machine. The current value stays in vector registers; values that are read again later are
// stored in one group of L1, so that a chain of any length reads and writes memory once (measured: passes over 4 KiB
// tiles leave the memory idle while they compute, 0.35 to 0.6 of copy bandwidth).
#include "kernels/cpu/block/chain.hpp"

#include <algorithm>
#include <unordered_map>

namespace peri::kernels::cpu::block {
namespace {

constexpr size_t kMaxSteps = 24;  // at most four stages each
static_assert(kMaxSteps * 4 <= kMaxStages);

class Chains {
 public:
  explicit Chains(Plan* plan) : plan_(plan), loops_(kernels(plan->isa)), left_(plan->slots.size(), 0) {
    for (const Step& step : plan->steps) {
      for (int s : step.src) {
        if (s >= 0) ++left_[static_cast<size_t>(s)];
      }
    }
  }

  void run() {
    const std::vector<Step> old = std::move(plan_->steps);
    plan_->steps.clear();
    for (size_t k = 0; k < old.size();) {
      size_t end = k;
      while (end < old.size() && end - k < kMaxSteps && open(old[end])) ++end;
      if (end == k) {
        count_reads(old[k]);
        plan_->steps.push_back(old[k++]);
        continue;
      }
      if (end - k > 1 || !single(old[k])) chain(old, k, end);
      k = end;
    }
    plan_->tail = plan_->scratch;
    plan_->scratch += most_streams_ * group_bytes();
  }

 private:
  static bool open(const Step& s) { return s.kind == StepKind::kKernel && s.kernel == nullptr; }
  Slot& slot(int s) { return plan_->slots[static_cast<size_t>(s)]; }
  int64_t group_bytes() const { return loops_.group * static_cast<int64_t>(sizeof(float)); }

  void count_reads(const Step& step) {
    for (int s : step.src) {
      if (s >= 0) --left_[static_cast<size_t>(s)];
    }
  }

  int new_group_slot() {
    plan_->slots.push_back({Place::kGroup, Type::kF32, -1, plan_->scratch});
    left_.push_back(0);
    plan_->scratch += group_bytes();
    return static_cast<int>(plan_->slots.size()) - 1;
  }

  // One step alone: its own loop, where there is one for these operands.
  bool single(Step step) {
    Key key{step.op, Type::kF32, Type::kF32, 0};
    for (int s = 0; s < 3; ++s) key.scalars |= static_cast<int>(step.src[s] >= 0 && slot(step.src[s]).scalar()) << s;
    step.kernel = loops_.find(key);
    if (step.kernel == nullptr) return false;
    count_reads(step);
    plan_->steps.push_back(step);
    return true;
  }

  // Where a slot is read from within a chain: scalars are spread over a group once.
  int place_of(int s) {
    const auto known = aside_.find(s);
    if (known != aside_.end()) return known->second;
    if (!slot(s).scalar()) return s;
    Step spread;
    spread.kind = StepKind::kSpread;
    spread.element_bytes = static_cast<int>(sizeof(float));
    spread.src[0] = s;
    spread.once = slot(s).place != Place::kRowScalar;
    spread.fill = loops_.group;
    spread.dst = new_group_slot();
    plan_->steps.push_back(spread);
    return aside_[s] = spread.dst;
  }

  void add(Form form, Op op, int p = -1, int q = -1, const float* imm = nullptr) {
    ChainOp c;
    const int alike = static_cast<int>(p >= 0 && slot(p).scalar()) | static_cast<int>(q >= 0 && slot(q).scalar()) << 1;
    c.run = loops_.stage(form, op, alike, false);
    c.narrow = loops_.stage(form, op, alike, true);
    PERI_CHECK(c.run != nullptr, "block plan: no stage for " + std::string(op_row(op).name));
    c.stores = form == Form::kStore;
    c.src[0] = c.stores ? p : p < 0 ? -1 : place_of(p);
    c.src[1] = q < 0 ? -1 : place_of(q);
    if (imm != nullptr) std::copy(imm, imm + 2, c.imm);
    ops_.push_back(c);
  }

  void work(const Step& s) {
    const int a = s.src[0], b = s.src[1], c = s.src[2];
    if (c >= 0) {
      if (held_ == a && held_ != b && held_ != c) return add(Form::kMulAdd, s.op, b, c);
      if (held_ == b && held_ != a && held_ != c) return add(Form::kMulAdd, s.op, a, c);
      if (held_ == c && held_ != a && held_ != b) return add(Form::kAddMul, s.op, a, b);
      add(Form::kLoad, s.op, a);
      return add(Form::kMulAdd, s.op, b, c);
    }
    if (b >= 0 && a != b && held_ == b) return add(Form::kSwapped, s.op, a);
    if (held_ != a) add(Form::kLoad, s.op, a);
    if (b >= 0 && !(s.op == Op::kMul && a == b)) return add(Form::kBinary, s.op, b);
    add(Form::kUnary, b >= 0 ? Op::kSquare : s.op, -1, -1, s.imm);
  }

  // Writes the value at hand where it is read again: in its output, in its tile if read after the chain, or aside.
  void keep(const std::vector<Step>& steps, size_t at, size_t end) {
    int inside = 0;
    for (size_t k = at + 1; k < end; ++k) inside += reads(steps[k], held_);
    if (slot(held_).place == Place::kOutput || left_[static_cast<size_t>(held_)] > inside)
      return add(Form::kStore, Op::kStore, held_);
    if (at + 1 < end) {
      const Step& next = steps[at + 1];
      const int here = reads(next, held_);
      const bool square = next.op == Op::kMul && next.src[0] == held_ && next.src[1] == held_;
      inside -= here == 1 || square ? here : 0;
    }
    if (inside == 0) return;
    const int aside = new_group_slot();
    add(Form::kStore, Op::kStore, aside);
    aside_[held_] = aside;
  }
  static int reads(const Step& step, int s) {
    return static_cast<int>(std::count(std::begin(step.src), std::end(step.src), s));
  }

  void chain(const std::vector<Step>& steps, size_t begin, size_t end) {
    ops_.clear();
    aside_.clear();
    held_ = -1;
    for (size_t k = begin; k < end; ++k) {
      work(steps[k]);
      count_reads(steps[k]);
      held_ = steps[k].dst;
      keep(steps, k, end);
    }
    add(Form::kEnd, Op::kStore);
    ask_ahead();
    Step step;
    step.kind = StepKind::kChain;
    step.chain = ops_;
    plan_->steps.push_back(step);
    most_streams_ = std::max<int64_t>(most_streams_, 2 * static_cast<int64_t>(ops_.size()));
  }

  // Groups of four lines outrun the hardware's prefetcher: operands streamed from memory are prefetched where a chain
  // first accesses them (block_bench, Zen 5, AVX-512: 8 arithmetic 0.69 of copy without, 0.90 with).
  void ask_ahead() {
    if (loops_.group * static_cast<int64_t>(sizeof(float)) < 256) return;
    std::vector<int> asked;
    for (ChainOp& op : ops_) {
      for (int s = 0; s < 2; ++s) {
        if (op.src[s] < 0 || !streams(slot(op.src[s])) || std::count(asked.begin(), asked.end(), op.src[s]) > 0)
          continue;
        op.imm[s] = 1.0f;
        asked.push_back(op.src[s]);
      }
    }
  }
  bool streams(const Slot& s) const {
    if (s.place != Place::kRow) return s.place == Place::kDense || s.place == Place::kOutput;
    const auto& strides =
        plan_->strides[static_cast<size_t>(s.argument)];  // of a row that repeats all but the last are 0
    return std::any_of(strides.begin(), strides.end() - 1, [](int64_t v) { return v != 0; });
  }

  Plan* plan_;
  const Kernels& loops_;
  std::vector<int> left_;  // reads of a slot still to come
  std::vector<ChainOp> ops_;
  std::unordered_map<int, int> aside_;
  int held_ = -1;
  int64_t most_streams_ = 0;
};

}  // namespace

void build_chains(Plan* plan) { Chains(plan).run(); }

}  // namespace peri::kernels::cpu::block
