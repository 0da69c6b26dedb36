// The interpreter of block plans: iterates over a task's tiles and calls each step's loop; one branch per step, none
// per element.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/block/plan.hpp"

namespace peri::kernels::cpu::block {
namespace {

constexpr int kMaxDims = 64;  // size of arrays on the stack

struct Position {
  int64_t flat = 0;
  int64_t at[kMaxDims];  // coordinates
};

Position locate(const Plan& plan, int64_t flat) {
  Position p;
  p.flat = flat;
  for (size_t d = plan.dims.size(); d-- > 1;) {
    p.at[d] = flat % plan.dims[d];
    flat /= plan.dims[d];
  }
  p.at[0] = flat;
  return p;
}

// n elements on.
void advance(const Plan& plan, Position* p, int64_t n) {
  p->flat += n;
  size_t d = plan.dims.size() - 1;
  for (p->at[d] += n; d > 0 && p->at[d] >= plan.dims[d]; --d) {
    const int64_t turns = p->at[d] < 2 * plan.dims[d] ? 1 : p->at[d] / plan.dims[d];
    p->at[d] -= turns * plan.dims[d];
    p->at[d - 1] += turns;
  }
}

int64_t offset_of(const Plan& plan, const Position& p, int input) {
  const auto& strides = plan.strides[static_cast<size_t>(input)];
  int64_t offset = 0;
  for (size_t d = 0; d < plan.dims.size(); ++d) offset += p.at[d] * strides[d];
  return offset;
}

template <class T>
void spread_run(const T* from, int64_t stride, T* to, int64_t n) {
  if (stride == 0) {
    const T v = *from;
    for (int64_t i = 0; i < n; ++i) to[i] = v;
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i * stride];
  }
}

// n elements with one stride to dense memory.
void copy_run(const char* from, int64_t stride, char* to, int64_t n, int bytes) {
  if (stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(n * bytes));
    return;
  }
  switch (bytes) {
    case 1: return spread_run(reinterpret_cast<const uint8_t*>(from), stride, reinterpret_cast<uint8_t*>(to), n);
    case 2: return spread_run(reinterpret_cast<const uint16_t*>(from), stride, reinterpret_cast<uint16_t*>(to), n);
    case 4: return spread_run(reinterpret_cast<const uint32_t*>(from), stride, reinterpret_cast<uint32_t*>(to), n);
    default: return spread_run(reinterpret_cast<const uint64_t*>(from), stride, reinterpret_cast<uint64_t*>(to), n);
  }
}

// Whole rows of one element each, as far as they stand in the last dim but one; returns how many elements were written.
int64_t gather_rows(const Plan& plan, const Position& p, int input, const char* base, char* to, int64_t n) {
  const size_t last = plan.dims.size() - 1;
  const auto& strides = plan.strides[static_cast<size_t>(input)];
  if (last == 0 || strides[last] != 0 || p.at[last] != 0) return 0;
  const int64_t rows = std::min(n / plan.dims[last], plan.dims[last - 1] - p.at[last - 1]);
  if (rows <= 0) return 0;
  const float* from = reinterpret_cast<const float*>(base) + offset_of(plan, p, input);
  kernels(plan.isa).spread_rows(from, strides[last - 1], rows, plan.dims[last], reinterpret_cast<float*>(to));
  return rows * plan.dims[last];
}

void step_row(const Plan& plan, Position* p, int64_t rows) {
  const size_t last = plan.dims.size() - 1;
  p->at[last] = 0;
  for (size_t d = last; d-- > 0; rows = 1) {
    if ((p->at[d] += rows) < plan.dims[d] || d == 0) break;
    p->at[d] = 0;
  }
}

// The n elements of an input from position p on, row by row.
void gather(const Plan& plan, Position p, int input, const char* base, int bytes, char* to, int64_t n) {
  const size_t last = plan.dims.size() - 1;
  const auto& strides = plan.strides[static_cast<size_t>(input)];
  while (true) {
    if (bytes == 4) {
      const int64_t done = gather_rows(plan, p, input, base, to, n);
      n -= done;
      if (n == 0) return;
      to += done * bytes;
      if (done > 0) {
        step_row(plan, &p, done / plan.dims[last]);
        continue;
      }
    }
    const int64_t run = std::min(n, plan.dims[last] - p.at[last]);
    copy_run(base + offset_of(plan, p, input) * bytes, strides[last], to, run, bytes);
    n -= run;
    if (n == 0) return;
    to += run * bytes;
    step_row(plan, &p, 1);
  }
}

class Task {
 public:
  Task(const Plan& plan, const Args& args, char* scratch) : plan_(plan), args_(args), scratch_(scratch) {}

  // Tiles [begin, end), in order. Whole reductions are written; with `partial`, the state of the one begun.
  void run(int64_t begin, int64_t end, Partial* partial) {
    const int64_t per_block = (plan_.block + plan_.tile - 1) / plan_.tile;
    Partial own[kMaxArguments];
    for (size_t k = 0; k < plan_.reduce_ops.size(); ++k) own[k] = reduce_start(plan_.reduce_ops[k]);
    partial_ = own;
    writes_ = partial == nullptr;
    int64_t in_block = begin % per_block * plan_.tile;
    here_ = locate(plan_, begin / per_block * plan_.block + in_block);
    for (int64_t j = begin; j < end; ++j) {
      n_ = std::min(plan_.tile, plan_.block - in_block);
      for (const Step& step : plan_.steps) {
        if (!step.once || j == begin) run_step(step);
      }
      advance(plan_, &here_, n_);
      in_block = in_block + n_ == plan_.block ? 0 : in_block + n_;
    }
    if (partial != nullptr) std::copy(own, own + plan_.reduce_ops.size(), partial);
    partial_ = nullptr;
  }

 private:
  const char* input(int k) const { return static_cast<const char*>(args_.inputs[k]); }
  char* output(int k) const { return static_cast<char*>(args_.outputs[k]); }

  char* where(int id) const {
    const Slot& s = plan_.slots[static_cast<size_t>(id)];
    const int64_t bytes = type_size(s.type);
    switch (s.place) {
      case Place::kDense: return const_cast<char*>(input(s.argument)) + here_.flat * bytes;
      case Place::kRow:
      case Place::kRowScalar: return const_cast<char*>(input(s.argument)) + offset_of(plan_, here_, s.argument) * bytes;
      case Place::kScalar: return const_cast<char*>(input(s.argument));
      case Place::kConst:
        return reinterpret_cast<char*>(const_cast<Constant*>(&plan_.constants[static_cast<size_t>(s.offset)]));
      case Place::kTile:
      case Place::kGroup:
      case Place::kPeriodic: return scratch_ + s.offset;
      case Place::kOutput: return output(s.argument) + here_.flat * bytes;
    }
    return nullptr;
  }

  void run_step(const Step& step) {
    switch (step.kind) {
      case StepKind::kKernel: {
        Call call{where(step.dst), where(step.src[0]), nullptr, nullptr, {step.imm[0], step.imm[1]}};
        if (step.src[1] >= 0) call.b = where(step.src[1]);
        if (step.src[2] >= 0) call.c = where(step.src[2]);
        return step.kernel(call, n_);
      }
      case StepKind::kChain: return run_chain(step);
      case StepKind::kSpread: return copy_run(where(step.src[0]), 0, where(step.dst), step.fill, step.element_bytes);
      case StepKind::kGather: return run_gather(step);
      case StepKind::kConvertIn:
        return step.convert(input(step.argument) + here_.flat * step.element_bytes, where(step.dst), n_);
      case StepKind::kConvertOut:
        return step.convert(where(step.src[0]), output(step.argument) + here_.flat * step.element_bytes, n_);
      case StepKind::kCopyOut:
        std::memcpy(output(step.argument) + here_.flat * step.element_bytes, where(step.src[0]),
                    static_cast<size_t>(n_ * step.element_bytes));
        return;
      case StepKind::kReduce: return run_reduce(step);
    }
  }

  // Whole groups and vectors in place; the last, short vector on copies of its operands.
  void run_chain(const Step& step) {
    place_stages(step);
    const Kernels& loops = kernels(plan_.isa);
    const int64_t groups = n_ / loops.group;
    if (groups > 0) loops.run_chain(stages_, groups);
    const int64_t rest = n_ % loops.group, vectors = rest / loops.vector;
    if (rest == 0) return;
    staged_ = nullptr;
    const int64_t done = groups * loops.group;
    for (size_t k = 0; k < step.chain.size(); ++k) {
      stages_[k].run = step.chain[k].narrow;
      for (int s = 0; s < 2; ++s) stages_[k].p[s] += (done * 4) & stages_[k].mask[s];
    }
    if (vectors > 0) loops.run_narrow(stages_, vectors);
    if (rest % loops.vector != 0) run_short_group(step, stages_, vectors * loops.vector, rest % loops.vector);
  }

  // Operands move from tile to tile, the rest of the stages stays as it is.
  void place_stages(const Step& step) {
    const bool fresh = staged_ != &step;
    staged_ = &step;
    for (size_t k = 0; k < step.chain.size(); ++k) {
      const ChainOp& op = step.chain[k];
      if (fresh) stages_[k] = {op.run, {nullptr, nullptr}, {0, 0}, {op.imm[0], op.imm[1]}};
      for (int s = 0; s < 2; ++s) {
        if (op.src[s] < 0) continue;
        const bool shared = plan_.slots[static_cast<size_t>(op.src[s])].place == Place::kGroup;
        if (shared && !fresh) continue;
        stages_[k].p[s] = where(op.src[s]);
        stages_[k].mask[s] = shared ? 0 : -1;
      }
    }
  }

  // A slot has one copy, however many stages touch it.
  void run_short_group(const Step& step, Stage* stages, int64_t from, int64_t n) {
    const Kernels& loops = kernels(plan_.isa);
    const size_t bytes = static_cast<size_t>(n) * sizeof(float),
                 all = static_cast<size_t>(loops.vector) * sizeof(float);
    const int64_t skip = from * static_cast<int64_t>(sizeof(float));
    int slots[2 * kMaxStages];
    char* places[2 * kMaxStages];
    int used = 0;
    for (size_t k = 0; k < step.chain.size(); ++k) {
      for (int s = 0; s < 2; ++s) {
        if (stages[k].mask[s] == 0) continue;
        const int slot = step.chain[k].src[s];
        int at = 0;
        while (at < used && slots[at] != slot) ++at;
        char* copy = scratch_ + plan_.tail + at * static_cast<int64_t>(all);
        if (at == used) {
          slots[used] = slot;
          places[used++] = const_cast<char*>(stages[k].p[s]) + skip;
          std::memset(copy, 0, all);
          if (!step.chain[k].stores) std::memcpy(copy, places[at], bytes);
        }
        stages[k].p[s] = copy;
      }
    }
    loops.run_narrow(stages, 1);
    for (const ChainOp& op : step.chain) {
      for (int at = 0; op.stores && at < used; ++at) {
        if (slots[at] == op.src[0])
          std::memcpy(places[at], scratch_ + plan_.tail + at * static_cast<int64_t>(all), bytes);
      }
    }
  }

  // A periodic input fills the whole tile, also where the task's first tile is short.
  void run_gather(const Step& step) {
    const int64_t n = step.once ? plan_.tile : n_;
    char* to = step.convert != nullptr ? scratch_ + step.raw : where(step.dst);
    gather(plan_, here_, step.argument, input(step.argument), step.element_bytes, to, n);
    if (step.convert != nullptr) step.convert(to, where(step.dst), n);
  }

  void run_reduce(const Step& step) {
    const float* x = reinterpret_cast<const float*>(where(step.src[0]));
    Partial& state = partial_[step.dst];
    int64_t flat = here_.flat, left = n_;
    while (left > 0) {
      const int64_t to_end = plan_.reduce_count - flat % plan_.reduce_count;
      const int64_t run = std::min(left, to_end);
      step.reduce(x, run, &state);
      if (run == to_end && writes_) {
        write_reduced(step, flat / plan_.reduce_count, state);
        state = reduce_start(step.op);
      }
      x += run;
      flat += run;
      left -= run;
    }
  }

  void write_reduced(const Step& step, int64_t index, const Partial& state) const {
    const float v = reduce_finish(step.op, state, plan_.reduce_count);
    char* to = output(step.argument) + index * step.element_bytes;
    if (step.convert != nullptr) return step.convert(&v, to, 1);
    std::memcpy(to, &v, sizeof v);
  }

 public:
  // Joins the parts of every reduction, in order.
  void join() const {
    const Partial* parts = static_cast<const Partial*>(args_.workspace);
    const int64_t wide = plan_.reductions;
    for (const Step& step : plan_.steps) {
      if (step.kind != StepKind::kReduce) continue;
      for (int64_t o = 0; o < plan_.tasks / plan_.parts; ++o) {
        Partial state = reduce_start(step.op);
        for (int64_t k = 0; k < plan_.parts; ++k)
          reduce_merge(step.op, &state, parts[(o * plan_.parts + k) * wide + step.dst]);
        write_reduced(step, o, state);
      }
    }
  }

 private:
  const Plan& plan_;
  const Args& args_;
  char* scratch_;
  Position here_;
  int64_t n_ = 0;
  Stage stages_[kMaxStages];
  const Step* staged_ = nullptr;  // whose stages these are
  Partial* partial_ = nullptr;
  bool writes_ = true;
};

}  // namespace

void run_task(const Plan& plan, const Args& args, int64_t task, void* scratch) {
  Task run(plan, args, static_cast<char*>(scratch));
  if (plan.parts > 1) {
    const int64_t first = task / plan.parts * plan.unit, part = task % plan.parts;
    Partial* out = static_cast<Partial*>(args.workspace) + task * plan.reductions;
    run.run(first + part * plan.unit / plan.parts, first + (part + 1) * plan.unit / plan.parts, out);
    return;
  }
  const int64_t units = plan.tiles / plan.unit;
  run.run(task * units / plan.tasks * plan.unit, (task + 1) * units / plan.tasks * plan.unit, nullptr);
}

void finish(const Plan& plan, const Args& args) {
  if (workspace_bytes(plan) > 0) Task(plan, args, nullptr).join();
}

}  // namespace peri::kernels::cpu::block
