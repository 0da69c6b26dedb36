// Einsum: sums of products over named axes, with any number of operands, repeated names (diagonals) and ellipses. Axes
// of extent 1 broadcast.
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "ops/reference/contraction.hpp"
#include "ops/reference/cost.hpp"
#include "ops/reference/dense.hpp"
#include "ops/reference/elements.hpp"
#include "ops/reference/parallel.hpp"
#include "ops/shape/broadcast.hpp"
#include "ops/shape/indices.hpp"
#include "ops/shape/letters.hpp"

namespace peri::ops {
namespace {

// Names as small numbers: letters are their code; axes under an ellipsis are kEllipsis + their place from the right.
constexpr int kEllipsis = 256;
struct Equation {
  std::vector<std::vector<int>> operands;
  std::vector<int> output;
};

// One term, "ab...c", for an operand of `rank` axes (-1: an output; its ellipsis covers `wide` axes).
Result<std::vector<int>> parse_term(std::string_view term, int64_t rank, int64_t wide) {
  std::vector<int> names;
  size_t dots = std::string_view::npos;
  for (size_t k = 0; k < term.size(); ++k) {
    const char c = term[k];
    if (std::isalpha(static_cast<unsigned char>(c))) {
      names.push_back(c);
    } else if (term.substr(k, 3) == "..." && dots == std::string_view::npos) {
      dots = names.size();
      k += 2;
    } else {
      return invalid("the equation is malformed")
          .expecting("letters and at most one '...' in a term")
          .but_found(std::string(term));
    }
  }
  const int64_t letters = static_cast<int64_t>(names.size()), covered = dots == std::string_view::npos ? 0
                                                                        : rank < 0                     ? wide
                                                                                                       : rank - letters;
  if (rank >= 0 && (covered < 0 || letters + covered != rank))
    return invalid("a term of the equation has a wrong number of axes")
        .expecting(format("%lld axes", static_cast<long long>(rank)))
        .but_found(std::string(term));
  for (int64_t k = covered; k-- > 0;)
    names.insert(names.begin() + static_cast<std::ptrdiff_t>(dots) + (covered - 1 - k),
                 kEllipsis + static_cast<int>(k));
  return names;
}

Result<Equation> parse(const ir::Node& node) {
  std::string text;
  for (char c : node.s("equation"))
    if (c != ' ') text += c;
  const size_t arrow = text.find("->");
  std::string_view left = std::string_view(text).substr(0, arrow);
  Equation e;
  int64_t wide = 0;
  std::array<int, kEllipsis> uses{};
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    const size_t comma = left.find(',');
    if ((comma == std::string_view::npos) != (k + 1 == node.inputs.size()))
      return invalid("the equation does not fit the inputs")
          .expecting(format("%zu terms before '->'", node.inputs.size()))
          .but_found(text);
    if (!node.inputs[k]) return invalid("an operand of einsum is left out");
    const int64_t rank = static_cast<int64_t>(node.inputs[k]->type.shape->size());
    PERI_ASSIGN(std::vector<int> names, parse_term(left.substr(0, comma), rank, 0));
    int64_t covered = 0;
    for (int n : names) n >= kEllipsis ? ++covered : ++uses[static_cast<size_t>(n)];
    wide = std::max(wide, covered);
    e.operands.push_back(std::move(names));
    if (comma != std::string_view::npos) left.remove_prefix(comma + 1);
  }
  if (arrow != std::string::npos) {
    PERI_ASSIGN(e.output, parse_term(std::string_view(text).substr(arrow + 2), -1, wide));
  } else {  // the ellipsis, then names used once, in alphabetical order
    for (int64_t k = wide; k-- > 0;) e.output.push_back(kEllipsis + static_cast<int>(k));
    for (int n = 0; n < kEllipsis; ++n)
      if (uses[static_cast<size_t>(n)] == 1) e.output.push_back(n);
  }
  for (size_t k = 0; k < e.output.size(); ++k) {
    const int n = e.output[k];
    if (n < kEllipsis && uses[static_cast<size_t>(n)] == 0)
      return invalid("an axis of the output has no source")
          .expecting("a letter of an operand")
          .but_found(std::string(1, static_cast<char>(n)));
    if (std::count(e.output.begin(), e.output.end(), n) > 1)
      return invalid("an axis of the output is named twice").but_found(text);
  }
  return e;
}

Status infer(InferContext& c) {
  PERI_ASSIGN(const Equation e, parse(c.node));
  std::map<int, Dim> extent;
  for (size_t k = 0; k < e.operands.size(); ++k) {
    for (size_t d = 0; d < e.operands[k].size(); ++d) {
      auto [it, fresh] = extent.emplace(e.operands[k][d], c.shape(k)[d]);
      if (fresh) continue;
      const int name = e.operands[k][d];
      const auto both = broadcast({it->second}, {c.shape(k)[d]});
      if (!both.ok())
        return letters_differ(std::string(1, name < kEllipsis ? static_cast<char>(name) : '0'), c.node.s("equation"))
            .expecting(it->second.text())
            .but_found(c.shape(k)[d].text() + " in " + shape_text(c.shape(k)));
      it->second = (*both)[0];
    }
  }
  Shape y;
  for (int n : e.output) y.push_back(extent.contains(n) ? extent[n] : Dim(1));
  c.set(0, c.dtype(0), std::move(y));
  return Ok{};
}

// Integers wrap, in any order.
void integers(RefCall& call, const Equation& e) {
  RefTensor& y = call.out[0];
  std::vector<NamedArray<uint64_t>> operands;
  for (size_t k = 0; k < e.operands.size(); ++k) operands.push_back(named_integers(*call.in[k], e.operands[k]));
  const auto made = contracted(std::move(operands), e.output, call.positions, call.threads);
  for (int64_t n = 0; n < call.count(); ++n) {
    const auto p = static_cast<size_t>(call.position(n));
    y.i[p] = wrap(y.dtype, static_cast<int64_t>(made.channels[0][p]));
  }
}

Status reference(RefCall& call) {
  PERI_ASSIGN(const Equation e, parse(call.node));
  RefTensor& y = call.out[0];
  if (!y.floating()) {
    integers(call, e);
    return Ok{};
  }
  std::vector<NamedArray<double>> operands;
  for (size_t k = 0; k < e.operands.size(); ++k) operands.push_back(named_floats(*call.in[k], e.operands[k], call.u));
  const auto made = contracted(std::move(operands), e.output, call.positions, call.threads);
  const int64_t terms = made.terms + static_cast<int64_t>(e.operands.size());
  for (int64_t n = 0; n < call.count(); ++n) {
    const auto p = static_cast<size_t>(call.position(n));
    y.f[p] = made.channels[0][p];
    if (call.u == 0) continue;
    const double magnitude = made.channels[1][p], spread = made.channels[2][p] - magnitude;
    const ProductSum sum = {y.f[p], magnitude, std::isfinite(y.f[p]) && spread > 0 ? spread : 0};
    y.radius[p] = sum.radius(call.u, terms);
  }
  settle_radii(y, call.positions);
  return Ok{};
}

Cost cost(const ir::Node& node) {
  Cost c = traffic_of(node);
  auto e = parse(node);
  if (!e.ok()) return c;
  std::map<int, double> extent;
  for (size_t k = 0; k < e->operands.size(); ++k)
    for (size_t d = 0; d < e->operands[k].size(); ++d) {
      const Dim& dim = (*node.inputs[k]->type.shape)[d];
      double& x = extent.emplace(e->operands[k][d], 1).first->second;
      x = std::max(x, static_cast<double>(dim.is_const() ? dim.value() : 1));
    }
  c.flops = contraction_flops(e->operands, e->output, extent);
  return c;
}

}  // namespace

extern const Entry einsum_entry;
const Entry einsum_entry{{
    {.name = "einsum",
     .onnx = "Einsum",
     .versions = {12, 28},
     .inputs = {{"inputs", kNumbers, false, true, 0}},
     .outputs = {{"y"}},
     .attrs = {{"equation", AttrKind::kString, true}},
     .infer = infer,
     .reference = reference,
     .cost = cost,
     .samples =
         {"graph { input a: f32[3,4]; input b: f32[4,5]; y = einsum(a, b) {equation=\"ij,jk->ik\"}; output y }",
          "graph { input a: f32[2,3,4]; input b: f32[2,4,5]; y = einsum(a, b) {equation=\"...ij, ...jk\"}; output y }",
          "graph { input a: f32[4,4]; y = einsum(a) {equation=\"ii->i\"}; output y }",
          "graph { input a: f32[4,4]; y = einsum(a) {equation=\"ii\"}; output y }",
          "graph { input a: f32[2,3]; input b: f32[3,2]; input c: f32[2]; y = einsum(a, b, c) "
          "{equation=\"ij,jk,k->i\"}; output y }",
          "graph { input a: f32[2,3,4]; y = einsum(a) {equation=\"a...->...a\"}; output y }",
          "graph { input a: i32[2,3]; input b: i32[3]; y = einsum(a, b) {equation=\"ij,j->i\"}; output y }",
          "graph { input a: f32[2,0]; input b: f32[0,3]; y = einsum(a, b) {equation=\"ij,jk->ik\"}; output y }"}},
}};
}  // namespace peri::ops
