// Recurrent cells and their evaluation.
#include "ops/reference/cell.hpp"

#include <algorithm>

#include "ops/reference/dense.hpp"
#include "ops/reference/parallel.hpp"
#include "ops/shape/broadcast.hpp"

namespace peri::ops {
namespace {

struct Named {
  std::string_view name;
  double (*at)(double x, double alpha, double beta);
  bool takes_alpha, takes_beta;
  double alpha, beta, own;
};
// Defaults of the parameters are those of the operators of these names.
constexpr Named kFunctions[] = {
    {"relu", [](double x, double, double) { return x < 0 ? 0 : x; }, false, false, 0, 0, 0},
    {"tanh", [](double x, double, double) { return std::tanh(x); }, false, false, 0, 0, 2},
    {"sigmoid", [](double x, double, double) { return 1 / (1 + std::exp(-x)); }, false, false, 0, 0, 2},
    {"affine", [](double x, double a, double b) { return a * x + b; }, true, true, 1, 0, 2},
    {"leakyrelu", [](double x, double a, double) { return x < 0 ? a * x : x; }, true, false, 0.01F, 0, 0},
    {"thresholdedrelu", [](double x, double a, double) { return x > a ? x : 0; }, true, false, 1, 0, 0},
    {"scaledtanh", [](double x, double a, double b) { return a * std::tanh(b * x); }, true, true, 1, 1, 2},
    {"hardsigmoid", [](double x, double a, double b) { return std::clamp(a * x + b, 0.0, 1.0); }, true, true, 0.2F, 0.5,
     2},
    {"elu", [](double x, double a, double) { return x < 0 ? a * std::expm1(x) : x; }, true, false, 1, 0, 2},
    {"softsign", [](double x, double, double) { return x / (1 + std::fabs(x)); }, false, false, 0, 0, 0},
    {"softplus", [](double x, double, double) { return std::log1p(std::exp(-std::fabs(x))) + std::max(x, 0.0); }, false,
     false, 0, 0, 2},
};

Result<std::vector<CellFunction>> functions_of(const ir::Node& node, size_t count,
                                               std::span<const std::string_view> defaults) {
  std::vector<std::string> names;
  if (const auto it = node.attrs.find("activations"); it != node.attrs.end())
    names = std::get<std::vector<std::string>>(it->second);
  if (names.empty())
    for (size_t k = 0; k < count; ++k) names.emplace_back(defaults[k % defaults.size()]);
  if (names.size() != count)
    return invalid("activations have a wrong number")
        .expecting(std::to_string(count))
        .but_found(std::to_string(names.size()));
  const std::vector<double> alphas = node.floats("activation_alpha"), betas = node.floats("activation_beta");
  size_t alpha = 0, beta = 0;
  std::vector<CellFunction> out;
  for (std::string name : names) {
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    const auto* f =
        std::find_if(std::begin(kFunctions), std::end(kFunctions), [&](const Named& n) { return n.name == name; });
    if (f == std::end(kFunctions)) return invalid("an activation of the cell is unknown").but_found(name);
    CellFunction made{f->name, f->at, f->alpha, f->beta, f->own};
    if (f->takes_alpha && alpha < alphas.size()) made.alpha = alphas[alpha++];
    if (f->takes_beta && beta < betas.size()) made.beta = betas[beta++];
    out.push_back(made);
  }
  return out;
}

// One row of weights times a state: the sum of the products, that of their magnitudes, and that of the squares of how
// far the state's radii move them.
struct StateSums {
  double sum = 0, magnitude = 0, squares = 0;
};
StateSums state_sums(const double* weights, const double* value, const double* radius, int64_t n) {
  constexpr int64_t kLanes = 8;
  double sum[kLanes] = {}, magnitude[kLanes] = {}, squares[kLanes] = {};
  const auto add = [&](int64_t lane, int64_t k) {
    const double term = weights[k] * value[k], moved = weights[k] * radius[k];
    sum[lane] += term;
    magnitude[lane] += std::fabs(term);
    squares[lane] += moved * moved;
  };
  int64_t k = 0;
  for (; k + kLanes <= n; k += kLanes)
    for (int64_t lane = 0; lane < kLanes; ++lane) add(lane, k + lane);
  for (; k < n; ++k) add(k % kLanes, k);
  StateSums all;
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    all.sum += sum[lane];
    all.magnitude += magnitude[lane];
    all.squares += squares[lane];
  }
  return all;
}

// Products of one row with a state are spread over threads from this many on.
constexpr int64_t kMinParallel = int64_t{1} << 20;

}  // namespace

Status expect_shape(const InferContext& c, size_t port, std::string_view name, const Shape& want) {
  if (!c.has(port)) return Ok{};
  const Shape& found = c.shape(port);
  bool same = found.size() == want.size();
  for (size_t d = 0; same && d < want.size(); ++d)
    same = !found[d].is_const() || !want[d].is_const() || found[d] == want[d];
  if (same) return Ok{};
  return invalid("%s has a wrong shape", std::string(name).c_str())
      .expecting(shape_text(want))
      .but_found(shape_text(found));
}

Near CellFunction::operator()(Near x, double u) const {
  const double y = at(x.v, alpha, beta);
  if (u == 0 || !std::isfinite(y)) return {y, 0};
  double spread = 0;
  if (x.r > 0) spread = std::max(std::fabs(at(x.v + x.r, alpha, beta) - y), std::fabs(at(x.v - x.r, alpha, beta) - y));
  return {y, (std::isfinite(spread) ? spread : std::fabs(y)) + u * (4 * std::fabs(y) + own)};
}

Near CellNode::clipped(Near x) const {
  if (clip <= 0) return x;
  return {std::clamp(x.v, -clip, clip), x.r};
}

Near plus(Near a, Near b, double u) { return {a.v + b.v, a.r + b.r + u * std::fabs(a.v + b.v)}; }

Result<CellNode> read_cell(const ir::Node& node, int64_t gates, std::span<const std::string_view> defaults) {
  CellNode cell;
  cell.gates = gates;
  const std::string direction = node.s("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    return invalid("direction is unknown").expecting("forward, reverse or bidirectional").but_found(direction);
  cell.directions = direction == "bidirectional" ? 2 : 1;
  cell.first_reversed = direction == "reverse";
  cell.batch_first = node.i("layout") != 0;
  cell.clip = node.f("clip", 0);
  PERI_ASSIGN(cell.functions, functions_of(node, defaults.size() * static_cast<size_t>(cell.directions), defaults));
  if (!node.in(0)->type.known() || !node.in(2)->type.known()) return cell;
  const Shape &x = *node.in(0)->type.shape, &r = *node.in(2)->type.shape;
  const auto number = [](const Dim& d) { return d.is_const() ? d.value() : 0; };
  if (x.size() != 3 || r.size() != 3) return cell;
  cell.steps = number(x[cell.batch_first]);
  cell.batch = number(x[!cell.batch_first]);
  cell.input = number(x[2]);
  cell.hidden = number(r[2]);
  return cell;
}

Status infer_cell(InferContext& c, const CellNode& cell) {
  if (c.rank(0) != 3)
    return invalid("x has a wrong rank")
        .expecting(cell.batch_first ? "[batch, sequence, input]" : "[sequence, batch, input]")
        .but_found(shape_text(c.shape(0)));
  if (c.rank(2) != 3)
    return invalid("R has a wrong rank").expecting("[directions, gates, hidden]").but_found(shape_text(c.shape(2)));
  const Dim directions(cell.directions), &hidden = c.shape(2)[2], &steps = c.shape(0)[cell.batch_first],
                                         &batch = c.shape(0)[!cell.batch_first];
  if (const int64_t said = c.node.i("hidden_size", 0); said > 0 && hidden.is_const() && !hidden.is_const(said))
    return invalid("hidden_size is not that of R").expecting(hidden.text()).but_found(std::to_string(said));
  const Dim rows = hidden * cell.gates;
  const Shape state = cell.batch_first ? Shape{batch, directions, hidden} : Shape{directions, batch, hidden};
  PERI_TRY(expect_shape(c, 1, "W", {directions, rows, c.shape(0)[2]}));
  PERI_TRY(expect_shape(c, 2, "R", {directions, rows, hidden}));
  PERI_TRY(expect_shape(c, 3, "B", {directions, rows * 2}));
  PERI_TRY(expect_shape(c, 4, "sequence_lens", {batch}));
  PERI_TRY(expect_shape(c, 5, "initial_h", state));
  c.set(0, c.dtype(0),
        cell.batch_first ? Shape{batch, steps, directions, hidden} : Shape{steps, directions, batch, hidden});
  for (size_t k = 1; k < c.out.size(); ++k) c.set(k, c.dtype(0), state);
  return Ok{};
}

Status check_length(int64_t length, int64_t steps) {
  if (length >= 0 && length <= steps) return Ok{};
  return invalid("an element of sequence_lens is out of range")
      .expecting("0 to " + std::to_string(steps))
      .but_found(std::to_string(length));
}

Status check_lengths(const RefCall& call, const CellNode& cell) {
  const RefTensor* const lengths = call.in.size() > 4 ? call.in[4] : nullptr;
  for (int64_t b = 0; lengths && b < cell.batch; ++b)
    PERI_TRY(check_length(lengths->i[static_cast<size_t>(b)], cell.steps));
  return Ok{};
}

std::vector<size_t> cell_line_axes(const ir::Node& node, size_t output) {
  const bool batch_first = node.i("layout") != 0;
  if (output == 0) return batch_first ? std::vector<size_t>{0, 2} : std::vector<size_t>{1, 2};
  return {0, 1};
}

CellRun::CellRun(RefCall& call, const CellNode& cell) : call_(call), cell_(cell) {
  for (RefTensor& y : call.out) {
    std::fill(y.f.begin(), y.f.end(), 0.0);
    std::fill(y.radius.begin(), y.radius.end(), 0.0);
  }
}

const CellFunction& CellRun::function(size_t k) const {
  return cell_
      .functions[static_cast<size_t>(direction_) * (cell_.functions.size() / static_cast<size_t>(cell_.directions)) +
                 k];
}

int64_t CellRun::length_of(int64_t b) const {
  const RefTensor* lengths = call_.in.size() > 4 ? call_.in[4] : nullptr;
  return lengths ? std::clamp<int64_t>(lengths->i[static_cast<size_t>(b)], 0, cell_.steps) : cell_.steps;
}

int64_t CellRun::state_at(int64_t b) const {
  return (cell_.batch_first ? b * cell_.directions + direction_ : direction_ * cell_.batch + b) * cell_.hidden;
}

std::vector<Near> CellRun::initial(size_t port) const {
  std::vector<Near> out(static_cast<size_t>(cell_.batch * cell_.hidden));
  const RefTensor* given = call_.in.size() > port ? call_.in[port] : nullptr;
  for (int64_t b = 0; b < cell_.batch; ++b)
    for (int64_t j = 0; j < cell_.hidden; ++j)
      out[static_cast<size_t>(b * cell_.hidden + j)] = element(given, state_at(b) + j, 0);
  return out;
}

void CellRun::begin(int64_t direction) {
  direction_ = direction;
  state_ = initial(5);
  choose_sequences();
  multiply_inputs();
}

void CellRun::choose_sequences() {
  std::vector<bool> wanted(static_cast<size_t>(cell_.batch), call_.positions.empty());
  const bool steps = call_.positions_of == 0;
  for (const int64_t p : call_.positions) {
    // Of rows [step, direction, batch] or [batch, step, direction]; of states without the step.
    int64_t row = p / cell_.hidden, direction = row % cell_.directions, b = row / cell_.directions;
    if (cell_.batch_first && steps) b /= cell_.steps;
    if (!cell_.batch_first) {
      b = row % cell_.batch;
      direction = row / cell_.batch % cell_.directions;
    }
    if (direction == direction_) wanted[static_cast<size_t>(b)] = true;
  }
  wanted_.clear();
  place_.assign(static_cast<size_t>(cell_.batch), 0);
  for (int64_t b = 0; b < cell_.batch; ++b) {
    place_[static_cast<size_t>(b)] = static_cast<int64_t>(wanted_.size());
    if (wanted[static_cast<size_t>(b)]) wanted_.push_back(b);
  }
}

void CellRun::multiply_inputs() {
  constexpr int64_t kRows = 32;
  const bool all = static_cast<int64_t>(wanted_.size()) == cell_.batch;
  const int64_t rows = all ? cell_.steps * cell_.batch : cell_.steps, columns = cell_.gates * cell_.hidden;
  const int64_t parts = (rows + kRows - 1) / kRows, step = cell_.batch_first || all ? 1 : cell_.batch;
  product_.assign(static_cast<size_t>(columns * cell_.steps) * wanted_.size(), 0.0);
  radius_.assign(call_.u == 0 ? 0 : product_.size(), 0.0);
  const auto multiply = [&](int64_t part) {
    const int64_t sequence = part / parts, first = part % parts * kRows, count = std::min(kRows, rows - first);
    const int64_t x = all ? first : row_of(wanted_[static_cast<size_t>(sequence)], first);
    const int64_t to = (sequence * rows + first) * columns;
    dense_product(count, columns, cell_.input, side(*call_.in[0], x * cell_.input, step * cell_.input, 1),
                  side(*call_.in[1], direction_ * columns * cell_.input, 1, cell_.input), call_.u,
                  cell_.input + cell_.hidden + 2, product_.data() + to, radius_.empty() ? nullptr : radius_.data() + to,
                  columns);
  };
  parallel_for(call_.threads, parts * (all ? 1 : static_cast<int64_t>(wanted_.size())),
               [&](int64_t first, int64_t last) {
                 for (int64_t part = first; part < last; ++part) multiply(part);
               });
}

Near CellRun::bias(int64_t row) const {
  const RefTensor* b = call_.in.size() > 3 ? call_.in[3] : nullptr;
  return element(b, direction_ * 2 * cell_.gates * cell_.hidden + row, 0);
}

Near CellRun::from_input(int64_t b, int64_t g, int64_t j) const {
  const bool all = static_cast<int64_t>(wanted_.size()) == cell_.batch;
  const int64_t row = g * cell_.hidden + j,
                x = all ? row_of(b, at_) : place_[static_cast<size_t>(b)] * cell_.steps + at_;
  const size_t at = static_cast<size_t>(x * cell_.gates * cell_.hidden + row);
  return plus({product_[at], radius_.empty() ? 0 : radius_[at]}, bias(row), u());
}

void CellRun::from_state(const Near* v, int64_t first, int64_t count, std::vector<Near>& to) const {
  const int64_t n = cell_.hidden, rows = count * n, all = cell_.gates * n;
  const RefTensor& weights = *call_.in[2];
  to.resize(static_cast<size_t>(rows));
  // Side by side, such that sums go over several terms at once.
  std::vector<double> value(static_cast<size_t>(n)), size(value), spread(value);
  for (size_t k = 0; k < value.size(); ++k) {
    value[k] = v[k].v;
    spread[k] = v[k].r;
    size[k] = std::fabs(v[k].v) + v[k].r;
  }
  const auto part = [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t w = (direction_ * all + first * n + row) * n;
      const StateSums s = state_sums(weights.f.data() + w, value.data(), spread.data(), n);
      double linear = 0;
      for (int64_t k = 0; k < n && !weights.radius.empty(); ++k)
        if (const double r = weights.r(w + k); r > 0) linear += r * size[static_cast<size_t>(k)];
      // Errors of the units of one state are treated as independent, like the round-offs of one sum (see sum_radius):
      // their worst case would grow without limit over the steps of a sequence whose cell forgets.
      const double radius = u() == 0 ? 0
                                     : sum_radius(u(), n + cell_.input + 2, s.magnitude) +
                                           steady_radius(u(), n, s.sum) + linear + 4 * std::sqrt(s.squares);
      to[static_cast<size_t>(row)] = plus({s.sum, radius}, bias(all + first * n + row), u());
    }
  };
  if (rows * n < kMinParallel) return part(0, rows);
  parallel_for(call_.threads, rows, part);
}

void CellRun::keep(int64_t b) {
  const int64_t to = (cell_.batch_first ? (b * cell_.steps + at_) * cell_.directions + direction_
                                        : (at_ * cell_.directions + direction_) * cell_.batch + b) *
                     cell_.hidden;
  for (int64_t j = 0; j < cell_.hidden; ++j) {
    Near& h = state(b)[j];
    if (call_.stored != DType::kInvalid) h.r += unit_roundoff(call_.stored) * std::fabs(h.v);
    store(call_.out[0], to + j, h);
  }
}

void CellRun::end() { store_last(1, state_); }

void CellRun::store_last(size_t port, const std::vector<Near>& last) {
  if (call_.out.size() <= port) return;
  for (int64_t b = 0; b < cell_.batch; ++b)
    for (int64_t j = 0; j < cell_.hidden; ++j)
      store(call_.out[port], state_at(b) + j,
            length_of(b) > 0 || cell_.steps == 0 ? last[static_cast<size_t>(b * cell_.hidden + j)] : Near{});
}

}  // namespace peri::ops
