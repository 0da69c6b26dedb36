// Block code, instruction by instruction; broadcast operands are read at coordinates of the result; adjacent contiguous
// operands in one access.
#include "kernels/cuda/code/chain.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "kernels/block/translate.hpp"
#include "kernels/cuda/code/dims.hpp"
#include "kernels/cuda/code/instruction.hpp"
#include "kernels/match/part.hpp"

namespace peri::kernels::cuda {

namespace {
using block::Op;

// Dims that every input walks alike become one.
block::Space merged(const block::Space& s) {
  block::Space out;
  out.strides.resize(s.strides.size());
  for (size_t d = 0; d < s.dims.size(); ++d) {
    if (s.dims[d] == 1) continue;
    bool joins = !out.dims.empty();
    for (size_t k = 0; joins && k < s.strides.size(); ++k) joins = out.strides[k].back() == s.strides[k][d] * s.dims[d];
    if (!joins) out.dims.push_back(s.dims[d]);
    if (joins) out.dims.back() *= s.dims[d];
    for (size_t k = 0; k < s.strides.size(); ++k)
      joins ? void(out.strides[k].back() = s.strides[k][d]) : out.strides[k].push_back(s.strides[k][d]);
  }
  return out;
}

struct Writer {
  const Problem& problem;  // of the whole region
  const Problem& part;     // of its element-wise end
  size_t anchor;           // input of `part` that is the anchor's element; SIZE_MAX: none
  block::Translated translated;
  block::Space space = {};
  Signature* signature;
  int width = 1;            // elements at once, neighbours along the last dim of `space`
  std::string before = {};  // lines in front of the loop over them
  std::string lines = {};
  bool decomposed = false;
  bool holds = false;     // neighbours that are read are handed over, in units of 16 bytes
  int held = 0;           // such units
  std::string hold = {};  // lines that read them
  // Of a region that makes or takes bytes, whose scales differ from step to step: its constants as parameters, by
  // register, and quotients that are rounded next and read by nothing else.
  std::shared_ptr<std::map<int, std::string>> numbers = {};
  std::set<int> rounded = {};
  bool returns = false;    // the result, in place of storing it
  std::string table = {};  // of 256, in which the result, a byte, is looked up
  int64_t row_length = 0;  // not 0: the last of `space` are rows of so many, and the element is the k-th of `row`

  // Where neighbours of a result stay until they are stored: those of an anchor's only one where its own were.
  std::string kept(size_t output) const {
    const std::vector<DType>& outputs = translated.program.outputs;
    return anchor == SIZE_MAX || outputs.size() > 1 || !is_float(outputs[output]) ? "y" + std::to_string(output) : "v";
  }

  // Coordinates c0, c1, ... of the element.
  void decompose() {
    if (decomposed) return;
    decomposed = true;
    std::string out = row_length > 0 ? "  PERI_INDEX rest = row;\n" : "  PERI_INDEX rest = i;\n";
    for (size_t d = space.dims.size(); d-- > 1;) {
      if (row_length > 0 && d + 1 == space.dims.size()) {
        // Of the row alone, so that a loop over its elements does not divide.
        const std::string rows = signature->size(space.dims[d] / row_length);
        out += format("  const PERI_INDEX c%zu = rest %% ", d) + rows + " * " + signature->size(row_length) +
               " + k; rest /= " + rows + ";\n";
        continue;
      }
      const std::string n = std::to_string(d), size = signature->size(space.dims[d]);
      out += "  const PERI_INDEX c" + n + " = rest % " + size + "; rest /= " + size + ";\n";
    }
    before += out + "  const PERI_INDEX c0 = rest;\n";
    hold += out + "  const PERI_INDEX c0 = rest;\n";
  }

  // Whether the adjacent elements of program input `a` are contiguous, aligned to their number; or a single element.
  bool together(size_t a) const {
    const std::vector<int64_t>& strides = space.strides[a];
    bool out = strides.back() == 1;
    for (size_t d = 0; d + 1 < strides.size(); ++d) out = out && strides[d] % width == 0;
    return out;
  }
  bool same(size_t a) const { return space.strides[a].empty() || space.strides[a].back() == 0; }

  // Reads the neighbours in front of the loop; the one of the loop's turn.
  std::string loaded_before(size_t a, DType dtype, const std::string& from) {
    std::string name = "x" + std::to_string(a);
    const std::string at = place(a);
    if (same(a)) {
      before += "  const " + register_type(dtype) + " " + name + " = " + loaded(dtype, from + "[" + at + "]") + ";\n";
      return name;
    }
    const std::string array = "  " + register_type(dtype) + " " + name + format("[%d];\n  ", width);
    if (!holds) {
      before += array + load_wide(width, dtype, from + " + (" + at + ")", name) + ";\n";
      return name + "[j]";
    }
    const auto type = stored_type(dtype);
    before +=
        array +
        load_wide(width, dtype, format("(const %s*)(held->at + %d)", type.ok() ? type->c_str() : "", held), name) +
        ";\n";
    const int bits = width * dtype_bits(dtype);
    if (bits == 64)
      hold += format("  *(peri_8*)(held->at + %d) = *(const peri_8*)(%s + (%s));\n", held++, from.c_str(), at.c_str());
    for (int k = 0; k < bits / 128; ++k)
      hold += format("  held->at[%d] = ((const peri_16*)(%s + (%s)))[%d];\n", held++, from.c_str(), at.c_str(), k);
    return name + "[j]";
  }

  // The place of the element in program input `a`.
  std::string place(size_t a) {
    const std::vector<int64_t>& strides = space.strides[a];
    int64_t dense = 1;
    bool whole = true, alike = true;
    for (size_t d = strides.size(); d-- > 0;) {
      whole = whole && strides[d] == dense;
      alike = alike && strides[d] == 0;
      dense *= space.dims[d];
    }
    if (alike) return "0";
    if (whole) return "i";
    decompose();
    std::string out;
    for (size_t d = 0; d < strides.size(); ++d) {
      if (strides[d] == 0) continue;
      out += (out.empty() ? "c" : " + c") + std::to_string(d);
      if (strides[d] != 1) out += " * " + signature->size(strides[d]);
    }
    return out;
  }

  Result<std::string> load(const block::Instruction& i) {
    const auto a = static_cast<size_t>(i.index);
    const int input = translated.arguments[a];
    const DType dtype = translated.program.inputs[a];
    if (input >= 0 && static_cast<size_t>(input) == anchor)
      return std::string(width == 1 ? "v" : register_type(dtype) == "int" ? "(int)peri_word(v[j])" : "v[j]");
    std::string name;
    if (input < 0) {
      PERI_ASSIGN(name, signature->table(translated.inlined[a]));
    } else {
      PERI_ASSIGN(name, signature->input(problem, static_cast<size_t>(input)));
    }
    return width > 1 ? loaded_before(a, dtype, name) : loaded(dtype, name + "[" + place(a) + "]");
  }

  std::string number(int of, float v) {
    const auto [it, fresh] = numbers->try_emplace(of);
    if (fresh) it->second = signature->number(v);
    return it->second;
  }
  // What a rounded quotient's divisor is divided into, where that is a constant and both are normal.
  std::optional<float> reciprocal(const block::Instruction& i) const {
    if (i.op != Op::kDiv || !rounded.contains(i.dst)) return std::nullopt;
    for (const block::Instruction& d : translated.program.code) {
      if (d.dst != i.src[1] || d.op != Op::kConst || d.type != block::Type::kF32) continue;
      const float r = 1.0f / d.imm[0];
      if (std::isnormal(d.imm[0]) && std::isnormal(r)) return r;
    }
    return std::nullopt;
  }
  void find_rounded() {
    const bool bytes = std::any_of(part.graph->nodes.begin(), part.graph->nodes.end(),
                                   [](const ir::Node* n) { return n->op == "from_bytes" || n->op == "to_bytes"; });
    if (!bytes) return;
    numbers = std::make_shared<std::map<int, std::string>>();
    std::map<int, int> uses;
    for (const block::Instruction& i : translated.program.code)
      for (const int r : i.src) ++uses[r];
    for (const block::Instruction& i : translated.program.code)
      if (i.op == Op::kRound && uses[i.src[0]] == 1) rounded.insert(i.src[0]);
  }

  Status instruction(const block::Instruction& i, std::vector<block::Type>* types) {
    if (i.op == Op::kStore) {
      const auto k = static_cast<size_t>(i.index);
      const std::string r = "r" + std::to_string(i.src[0]);
      const std::string value = table.empty() ? r : "(int)" + table + "[(unsigned)" + r + " & 255u]";
      if (returns) {
        lines += "  return " + value + ";\n";
        return Ok{};
      }
      PERI_ASSIGN(const std::string name, signature->output(problem, k));
      lines += width > 1 ? "    " + kept(k) + "[j] = " + value + ";\n"
                         : "  " + name + "[i] = " + stored(translated.program.outputs[k], value) + ";\n";
      return Ok{};
    }
    std::string value;
    if (i.op == Op::kLoad) {
      PERI_ASSIGN(value, load(i));
    } else if (i.op == Op::kConst) {
      value = numbers && i.type == block::Type::kF32 ? number(i.dst, i.imm[0]) : constant_text(i);
    } else if (const std::optional<float> r = reciprocal(i)) {
      value =
          "peri_over(r" + std::to_string(i.src[0]) + ", r" + std::to_string(i.src[1]) + ", " + number(i.dst, *r) + ")";
    } else {
      // Of a selection the second operand tells the type.
      const auto of = static_cast<size_t>(i.src[i.op == Op::kSelect ? 1 : 0]);
      PERI_ASSIGN(value, expression_text(i, (*types)[of]));
    }
    types->resize(std::max(types->size(), static_cast<size_t>(i.dst) + 1));
    (*types)[static_cast<size_t>(i.dst)] = i.type;
    lines += "  const " + type_text(i.type) + " r" + std::to_string(i.dst) + " = " + value + ";\n";
    return Ok{};
  }
};

bool comes_wide(DType t, int width) {
  if (t == DType::kU8 || t == DType::kI8 || t == DType::kI32) return width == 8;
  return t == DType::kF32 || t == DType::kF16 || t == DType::kBF16;
}

// The function of so many elements, or "" where the last dim does not hold them together.
Result<std::string> wide_text(Writer& w, int width) {
  w.width = width;
  const std::vector<DType>& outputs = w.translated.program.outputs;
  bool whole = !w.space.dims.empty() && w.space.dims.back() % width == 0 &&
               std::all_of(outputs.begin(), outputs.end(), [&](DType t) { return comes_wide(t, width); });
  for (size_t a = 0; whole && a < w.translated.arguments.size(); ++a) {
    const int input = w.translated.arguments[a];  // negative: a table of the text, which may lie anywhere
    const bool v = input >= 0 && static_cast<size_t>(input) == w.anchor;
    whole = v || w.same(a) || (input >= 0 && comes_wide(w.translated.program.inputs[a], width) && w.together(a));
  }
  if (!whole) return std::string();
  std::vector<block::Type> types;
  for (const block::Instruction& i : w.translated.program.code) PERI_TRY(w.instruction(i, &types));
  std::string arrays, stores;
  for (size_t k = 0; k < outputs.size(); ++k) {
    const std::string kept = w.kept(k);
    PERI_ASSIGN(const std::string name, w.signature->output(w.problem, k));
    if (kept != "v") arrays += "  " + register_type(outputs[k]) + format(" %s[%d];\n", kept.c_str(), width);
    stores += "  " + store_wide(width, outputs[k], name + " + i", kept) + ";\n";
  }
  return arrays + w.before + format("#pragma unroll\n  for (int j = 0; j < %d; ++j) {\n", width) + w.lines + "  }\n" +
         stores;
}

// A byte_table that the region ends with, behind other nodes than `own` alone.
const ir::Node* table_behind(const ir::Graph& g, const ir::Node& own) {
  const ir::Node* n = g.nodes.back();
  const bool ends = n != &own && n->op == "byte_table" && g.outputs.size() == 1 && g.outputs[0] == n->out();
  return ends && n->in(0) != own.out() && n->in(0)->users.size() == 1 ? n : nullptr;
}

// Both functions over the region's results in `layout`; a `width` of 1: that of one element alone.
struct Finish {
  std::string one, wide;
  std::string held, hold = {};  // the wide one, of operands that were read before, and how they are
  int units = 0;                // of 16 bytes
};
Result<Finish> finish(const Problem& problem, bool is_anchor, const ir::Layout& layout, int width, Signature* signature,
                      bool several = false, const ir::Node* last = nullptr) {
  const ir::Graph& g = *problem.graph;
  const ir::Node& own = last ? *last : problem.anchor();
  const ir::Value* result = is_anchor ? own.out() : nullptr;
  std::string head = "PERI_DEVICE void peri_finish(const PERI_INDEX i, ";
  if (is_anchor) head += "const " + register_type(result->type.dtype) + " v, ";
  if (is_anchor && ((g.outputs.size() != 1 && !several) || own.outputs.size() != 1))
    return refused("more than one result");
  if (is_anchor && g.outputs.size() == 1 && g.outputs[0] == result) {
    PERI_ASSIGN(const std::string name, signature->output(problem, 0));
    const DType dtype = result->type.dtype;
    std::string wide, from = "v";
    if (register_type(dtype) == "int") {
      wide = "  int y[8];\n#pragma unroll\n  for (int j = 0; j < 8; ++j) y[j] = (int)peri_word(v[j]);\n";
      from = "y";
    }
    wide += "  " + store_wide(width, dtype, name + " + i", from) + ";\n";
    return Finish{head + "PERI_PARAMETERS) {\n  " + name + "[i] = " + stored(dtype, "v") + ";\n}\n",
                  width > 1 && comes_wide(dtype, width) ? wide : "", ""};
  }
  size_t begin = 0;
  while (is_anchor && g.nodes[begin++] != &own) {}
  std::vector<const ir::Value*> results(g.outputs.begin(), g.outputs.end());
  const ir::Node* look = is_anchor ? table_behind(g, own) : nullptr;
  if (look) results = {look->in(0)};
  ir::Graph end = is_anchor ? part_of(g, begin, g.nodes.size() - (look ? 1 : 0), result, results) : ir::Graph();
  if (is_anchor && !(result->type.shape == g.outputs[0]->type.shape)) return refused("the chain grows the result");
  for (size_t k = 0; is_anchor && k < end.inputs.size(); ++k)
    end.inputs[k]->type.layout = k < g.inputs.size() ? g.inputs[k]->type.layout : layout;
  Problem part{is_anchor ? &end : &g, problem.constant};
  if (is_anchor) part.constant.push_back(false);
  PERI_ASSIGN(block::Translated translated, block::translate(part));
  PERI_ASSIGN(block::Space space, block::space_of(part, translated, layout));
  Writer w{problem, part, is_anchor ? g.inputs.size() : SIZE_MAX, std::move(translated), merged(space), signature};
  w.find_rounded();
  if (look) {
    PERI_ASSIGN(w.table, signature->value(problem, *look->in(1)));
  }
  Finish out;
  if (width > 1) {
    Writer wide = w;
    PERI_ASSIGN(out.wide, wide_text(wide, width));
    Writer held = w;
    held.holds = is_anchor;
    PERI_ASSIGN(out.held, wide_text(held, width));
    out.hold = std::move(held.hold);
    out.units = out.held.empty() ? 0 : held.held;
  }
  std::vector<block::Type> types;
  for (const block::Instruction& i : w.translated.program.code) PERI_TRY(w.instruction(i, &types));
  out.one = head + "PERI_PARAMETERS) {\n" + w.before + w.lines + "}\n";
  return out;
}

Result<ir::Layout> layout_of_results(const ir::Graph& g) {
  const ir::Layout& layout = g.outputs[0]->type.layout;
  for (const ir::Value* v : g.outputs)
    if (!(v->type.layout == layout)) return refused("results in several layouts");
  return layout;
}
}  // namespace

Result<std::string> element_text(const Problem& part, const std::string& name, int64_t row_length,
                                 Signature* signature) {
  const ir::Graph& g = *part.graph;
  PERI_ASSIGN(block::Translated translated, block::translate(part));
  PERI_ASSIGN(block::Space space, block::space_of(part, translated, {}));
  Writer w{part, part, g.inputs.size() - 1, std::move(translated), merged(space), signature};
  w.find_rounded();
  w.returns = true;
  if (w.space.dims.size() > 1 && w.space.dims.back() % row_length == 0) w.row_length = row_length;
  std::vector<block::Type> types;
  for (const block::Instruction& i : w.translated.program.code) PERI_TRY(w.instruction(i, &types));
  return "PERI_DEVICE " + register_type(g.outputs[0]->type.dtype) + " " + name +
         "(const PERI_INDEX row, const PERI_INDEX k, const " + register_type(g.inputs.back()->type.dtype) +
         " v, PERI_PARAMETERS) {\n  const PERI_INDEX i = row * " + signature->size(row_length) + " + k;\n" + w.before +
         w.lines + "}\n";
}

Result<std::string> finish_text(const Problem& problem, bool is_anchor, Signature* signature, const ir::Node* last) {
  PERI_TRY(check_row_major(*problem.graph));
  PERI_ASSIGN(Finish out, finish(problem, is_anchor, {}, 1, signature, false, last));
  return std::move(out.one);
}

Result<std::string> finish_any_text(const Problem& problem, bool is_anchor, Signature* signature) {
  PERI_ASSIGN(const ir::Layout layout, layout_of_results(*problem.graph));
  PERI_ASSIGN(Finish out, finish(problem, is_anchor, layout, 1, signature));
  return std::move(out.one);
}

Result<RegionText> region_text(const Problem& problem, Signature* signature) {
  PERI_ASSIGN(const ir::Layout layout, layout_of_results(*problem.graph));
  PERI_ASSIGN(Finish out, finish(problem, false, layout, 8, signature));
  const bool eight = !out.wide.empty();
  if (eight) out.one += "PERI_DEVICE void peri_finish_8(const PERI_INDEX i, PERI_PARAMETERS) {\n" + out.wide + "}\n";
  return RegionText{std::move(out.one), eight};
}

namespace {
bool is_whole(const ir::Node& n) { return register_type(n.out()->type.dtype) == "int"; }
std::string both_text(Finish& out, int width, bool whole) {
  if (out.wide.empty())
    out.wide = format("#pragma unroll\n  for (int j = 0; j < %d; ++j) peri_finish(i + j, %s, PERI_PASS);\n", width,
                      whole ? "(int)peri_word(v[j])" : "v[j]");
  return out.one + format("PERI_DEVICE void peri_finish_%d(const PERI_INDEX i, float* v, PERI_PARAMETERS) {\n", width) +
         out.wide + "}\n";
}
}  // namespace

Result<std::string> finish_wide_text(const Problem& problem, int width, Signature* signature, const ir::Node* last) {
  const ir::Layout& layout = problem.graph->outputs[0]->type.layout;
  PERI_ASSIGN(Finish out, finish(problem, true, layout, width, signature, false, last));
  return both_text(out, width, is_whole(last ? *last : problem.anchor()));
}

static std::string held_text(int units) {
  return format("#define PERI_HELD %d\nstruct peri_held { peri_16 at[%d]; };\n", units, std::max(1, units));
}

std::string nothing_held_text() { return held_text(0); }

Result<std::string> finish_held_text(const Problem& problem, Signature* signature, const ir::Node* last) {
  PERI_ASSIGN(const ir::Layout layout, layout_of_results(*problem.graph));
  PERI_ASSIGN(Finish out, finish(problem, true, layout, 8, signature, true, last));
  const std::string held = out.units > 0 ? out.held : "  peri_finish_8(i, v, PERI_PASS);\n";
  return both_text(out, 8, is_whole(last ? *last : problem.anchor())) + held_text(out.units) +
         "PERI_DEVICE void peri_hold_8(peri_held* held, const PERI_INDEX i, PERI_PARAMETERS) {\n" +
         (out.units > 0 ? out.hold : "") +
         "}\nPERI_DEVICE void peri_finish_held_8(const peri_held* held, const PERI_INDEX i, float* v, PERI_PARAMETERS) "
         "{\n" +
         held + "}\n";
}

}  // namespace peri::kernels::cuda
