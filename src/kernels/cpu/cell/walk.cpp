// Recurrent cells over sequences.
#include "kernels/cpu/cell/walk.hpp"

#include <span>
#include <string_view>

#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels::cpu::cell {
namespace {

Result<Activation> activation_of(const ops::CellFunction& f) {
  static constexpr std::pair<std::string_view, Function> kNames[] = {
      {"tanh", Function::kTanh},
      {"sigmoid", Function::kSigmoid},
      {"relu", Function::kRelu},
      {"affine", Function::kAffine},
      {"leakyrelu", Function::kLeakyRelu},
      {"thresholdedrelu", Function::kThresholdedRelu},
      {"scaledtanh", Function::kScaledTanh},
      {"hardsigmoid", Function::kHardSigmoid},
      {"elu", Function::kElu},
      {"softsign", Function::kSoftsign},
      {"softplus", Function::kSoftplus},
  };
  for (const auto& [name, function] : kNames)
    if (name == f.name) return Activation{function, static_cast<float>(f.alpha), static_cast<float>(f.beta)};
  return refused("has no function %s", std::string(f.name).c_str());
}

}  // namespace

Result<ops::CellNode> read_node(const ir::Node& n, const Shape& s) {
  constexpr std::string_view kRnn[] = {"Tanh"}, kGru[] = {"Sigmoid", "Tanh"}, kLstm[] = {"Sigmoid", "Tanh", "Tanh"};
  std::span<const std::string_view> defaults = kGru;
  if (s.kind == Kind::kRnn) defaults = kRnn;
  if (s.kind == Kind::kLstm) defaults = kLstm;
  PERI_ASSIGN(ops::CellNode cell, ops::read_cell(n, s.gates, defaults));
  if (cell.directions != s.directions) return refused("weights of another number of directions");
  return cell;
}

namespace {
Status read_functions(const ir::Node& n, Shape* s) {
  PERI_ASSIGN(const ops::CellNode cell, read_node(n, *s));
  const size_t count = cell.functions.size() / static_cast<size_t>(s->directions);
  for (size_t k = 0; k < cell.functions.size(); ++k) {
    PERI_ASSIGN(s->functions[k / count][k % count], activation_of(cell.functions[k]));
  }
  return Ok{};
}

}  // namespace

int64_t units_of(const Shape& s, int64_t products, int64_t most_tasks) {
  constexpr int64_t kVector = 16;
  const int64_t tasks = std::clamp<int64_t>(s.sums() * s.hidden / products, 1, most_tasks);
  return ((s.hidden + tasks - 1) / tasks + kVector - 1) / kVector * kVector;
}

Status read_kind(const ir::Node& n, Shape* s) {
  if (n.op == "rnn") {
    s->kind = Kind::kRnn;
  } else if (n.op == "gru") {
    s->kind = n.i("linear_before_reset") != 0 ? Kind::kGru : Kind::kGruGates;
    s->gates = 3;
  } else if (n.op == "lstm") {
    s->kind = Kind::kLstm;
    s->gates = 4;
  } else {
    return refused("not a recurrent cell");
  }
  const std::vector<int64_t> r = dims_of(*n.in(kR));
  s->hidden = r[2];
  s->directions = r[0];
  return Ok{};
}

// Steps whose inputs are multiplied together.
static int64_t steps_together(const Shape& s, bool lengths) {
  // Rows of x at which a product is as fast as with more, and its sums are in the cache when the steps read them.
  // Measured: benchmarks/results/2026-11-28_recurrent_batch.md.
  constexpr int64_t kRows = 128;
  // Lengths reverse each sequence at another place; of sequences one after the other, rows of some steps lie apart.
  const bool apart = lengths || (s.batch_first && s.batch > 1);
  return apart ? s.steps : std::clamp<int64_t>(kRows / s.batch, 1, s.steps);
}

bool is_constant(const Problem& p, size_t port) {
  const ir::Value* v = p.anchor().in(port);
  if (!v || v->constant) return true;
  const int at = input_index(*p.graph, v);
  return at >= 0 && p.constant[static_cast<size_t>(at)];
}

Status read_cell(const Problem& p, Shape* s, DType type) {
  const ir::Node& n = p.anchor();
  if (p.graph->nodes.size() != 1) return refused("takes no epilogue");
  if (n.in(kX)->type.dtype != type) return refused("takes %s only", std::string(dtype_name(type)).c_str());
  const std::vector<int64_t> x = dims_of(*n.in(kX));
  s->batch_first = n.i("layout") != 0;
  s->steps = x[s->batch_first];
  s->batch = x[!s->batch_first];
  s->input = x[2];
  if (s->steps * s->batch * s->input * s->hidden == 0) return refused("an empty tensor");
  s->first_reversed = n.s("direction", "forward") == "reverse";
  s->coupled = n.i("input_forget") != 0;
  s->together = steps_together(*s, n.in(kLengths) != nullptr);
  if (const double clip = n.f("clip", 0); clip > 0) s->clip = static_cast<float>(clip);
  PERI_TRY(read_functions(n, s));
  for (size_t k = 0; k < n.outputs.size() && k < 3; ++k)
    for (size_t o = 0; o < p.graph->outputs.size(); ++o)
      if (p.graph->outputs[o] == n.outputs[k]) s->outputs[k] = static_cast<int>(o);
  return Ok{};
}

namespace {
constexpr std::string_view kSteps = "steps";
}  // namespace

std::vector<Offer> with_whole_directions(std::vector<Offer> offers, const Shape& s) {
  if (s.blocks() == 1) return offers;
  for (size_t k = 0, count = offers.size(); k < count; ++k) {
    Offer whole = offers[k];
    whole.config += (whole.config.empty() ? "" : " ") + std::string(kSteps) + "=" + std::to_string(kStepsAtOnce);
    offers.push_back(std::move(whole));
  }
  return offers;
}

Result<std::pair<int64_t, std::string>> read_steps(std::string_view config) {
  PERI_ASSIGN(const int64_t steps, config_int(config, kSteps, 0, kStepsAtOnce, 0));
  if (steps != 0 && steps != kStepsAtOnce) return invalid("'steps' is 0 or %d", static_cast<int>(kStepsAtOnce));
  const size_t at = config.find(kSteps);
  if (at == std::string_view::npos) return std::pair(steps, std::string(config));
  return std::pair(steps, std::string(config.substr(0, at == 0 ? 0 : at - 1)));
}

Needs Walk::needs_of(const Shape& s, int64_t steps, const WalkCut& cut) {
  const bool whole = is_whole(s, steps);
  Needs out{static_cast<size_t>(of_direction(s, cut, s.directions)) * sizeof(float), cut.scratch, {}, {}};
  if (cut.pack_tasks > 0) out.tasks.push_back(cut.pack_tasks);
  for (int64_t first = 0; first < s.steps; first += s.together) {
    out.tasks.push_back(s.directions * (input_tasks(s, cut, first) + (first == 0 ? 1 : 0)));
    out.tasks.resize(out.tasks.size() + static_cast<size_t>(phases_of(s, whole, s.steps_from(first)) - 1),
                     s.directions * (whole ? 1 : s.blocks()));
  }
  return out;
}

void Walk::run_task(int phase, int64_t task, const Args& args) const {
  if (cut_.pack_tasks > 0 && phase-- == 0) return pack(task, reinterpret_cast<float*>(args.workspace), args);
  const int64_t phases = phases_of(s_, whole_, s_.together), first = phase / phases * s_.together,
                part = phase % phases - 1;
  if (part >= 0 && whole_) {
    const int64_t from = first + part * kStepsAtOnce;
    return steps(from, std::min(first + s_.steps_from(first), from + kStepsAtOnce), task, args);
  }
  if (part >= 0) {
    // There and back, so that a step begins with the weights that the last one left in the cache.
    const int64_t at = first + part / s_.phases_a_step();
    return step(at, part % s_.phases_a_step() == 1, at % 2 == 0 ? task : s_.directions * s_.blocks() - 1 - task, args);
  }
  const int64_t parts = input_tasks(s_, cut_, first), products = s_.directions * parts;
  if (task >= products) return begin(task - products, args);
  const int64_t d = task / parts;
  multiply_inputs(d, task % parts, {first_row(d, first), s_.rows_from(first)}, this->products(d, args), args);
}

Status Walk::finish(const Args& args) const {
  const auto* lengths = static_cast<const int32_t*>(ports_[kLengths].data(args));
  for (int64_t b = 0; lengths && b < s_.batch; ++b) PERI_TRY(ops::check_length(lengths[b], s_.steps));
  return Ok{};
}

// Clamped: a run with another ends with an error, and touches no memory but its own.
int64_t Walk::length(int64_t b, const Args& args) const {
  const auto* lengths = static_cast<const int32_t*>(ports_[kLengths].data(args));
  return lengths ? std::clamp<int64_t>(lengths[b], 0, s_.steps) : s_.steps;
}

// States as given, else zero.
void Walk::begin(int64_t d, const Args& args) const {
  const float *h = ports_[kInitialH].f32(args), *c = ports_[kInitialC].f32(args);
  for (int64_t b = 0; b < s_.batch; ++b) {
    for (const auto& [from, to] : {std::pair(h, state(d, 0, args)), std::pair(c, state(d, 2, args))}) {
      if (from)
        std::copy_n(from + s_.state_of(d, b), s_.hidden, to + b * s_.hidden);
      else
        std::fill_n(to + b * s_.hidden, s_.hidden, 0.0F);
    }
  }
}

// Block `task` of all sequences of a direction at step `at`.
void Walk::step(int64_t at, bool second, int64_t task, const Args& args) const {
  const int64_t d = task / s_.blocks(), block = task % s_.blocks(), from = block * s_.units;
  const float* old = state(d, at % 2, args);
  if (!second && s_.batch == 1 && at < length(0, args)) {
    // While the weights are read; of many sequences the hardware's own prefetch keeps up.
    const float* const pre = product_of(d, at, 0, time_of(d, at, length(0, args)), args) + from;
    for (int64_t g = 0; g < s_.gates; ++g)
      for (int64_t j = 0; j < s_.units_of(block); j += 16) __builtin_prefetch(pre + g * s_.hidden + j);
  }
  const float* const product = multiply_states(d, block, second, second ? state(d, 3, args) : old, args);
  Row row;
  row.kind = second ? Kind::kGruState : s_.kind;
  row.n = s_.units_of(block);
  row.hidden = s_.hidden;
  row.width = s_.width_of(block);
  row.coupled = s_.coupled;
  row.clip = s_.clip;
  std::copy_n(s_.functions[d], 3, row.functions);
  if (const float* p = ports_[kPeephole].f32(args)) row.peephole = p + d * 3 * s_.hidden + from;
  if (const float* b = ports_[kBias].f32(args); b && s_.kind == Kind::kGru)
    row.state_bias = b + d * 2 * s_.sums() + s_.sums() + 2 * s_.hidden + from;
  for (int64_t b = 0; b < s_.batch; ++b) {
    const int64_t length = this->length(b, args), unit = b * s_.hidden + from;
    float* y = result(0, args);
    row.old_state = old + unit;
    row.state = state(d, (at + 1) % 2, args) + unit;
    row.memory = state(d, 2, args) + unit;
    row.reset = state(d, 3, args) + unit;
    if (at >= length) {
      if (!second && s_.two_phases()) continue;
      std::copy_n(row.old_state, row.n, row.state);
      if (y) std::fill_n(y + s_.y_of(d, b, at) + from, row.n, 0.0F);
    } else {
      const int64_t t = time_of(d, at, length);
      row.pre = product_of(d, at, b, t, args) + from;
      row.product = product + b * width(s_, second, block);
      row.y = y ? y + s_.y_of(d, b, t) + from : nullptr;
      isa_ == Isa::kAvx512 ? avx512::run(row) : avx2::run(row);
    }
    if (at + 1 < s_.steps || (s_.two_phases() && !second)) continue;
    for (const auto& [last, state] : {std::pair(result(1, args), row.state), std::pair(result(2, args), row.memory)}) {
      if (!last) continue;
      float* const to = last + s_.state_of(d, b) + from;
      if (length > 0)
        std::copy_n(state, row.n, to);
      else
        std::fill_n(to, row.n, 0.0F);
    }
  }
}

// Steps [first, end) of a direction, there and back as above.
void Walk::steps(int64_t first, int64_t end, int64_t d, const Args& args) const {
  const int64_t blocks = s_.blocks();
  for (int64_t at = first; at < end; ++at)
    for (int64_t part = 0; part < s_.phases_a_step(); ++part)
      for (int64_t k = 0; k < blocks; ++k) step(at, part == 1, d * blocks + (at % 2 == 0 ? k : blocks - 1 - k), args);
}

}  // namespace peri::kernels::cpu::cell
