// The place of each element in a list of categories, for encoders to which an unknown category is an error.
#include <algorithm>
#include <unordered_map>

#include "ops/reference/elements.hpp"

namespace peri::ops {
namespace {
constexpr int64_t kMaxNamed = 5;  // categories that a message lists

Result<Tensor> categories(const ir::Node& node) {
  if (const auto it = node.attrs.find("categories_strings"); it != node.attrs.end()) {
    const auto& names = std::get<std::vector<std::string>>(it->second);
    return Tensor::strings({static_cast<int64_t>(names.size())}, names);
  }
  if (!node.has("categories_int64s")) return invalid("an encoder has no categories");
  RefTensor out = make_ref(DType::kI64, {0});
  out.i = node.ints("categories_int64s");
  out.dims = {std::ssize(out.i)};
  return from_ref(out);
}

Status infer(InferContext& c) {
  PERI_ASSIGN(const Tensor known, categories(c.node));
  if (known.numel() == 0) return invalid("an encoder has no categories");
  if (known.dtype() != c.dtype(0))
    return invalid("the categories of an encoder have another type than x")
        .expecting(std::string(dtype_name(c.dtype(0))))
        .but_found(std::string(dtype_name(known.dtype())));
  c.set(0, DType::kI64, c.shape(0));
  return Ok{};
}

std::string text_of(const RefTensor& t, int64_t at) {
  return t.dtype == DType::kString ? '\'' + t.s[static_cast<size_t>(at)] + '\''
                                   : std::to_string(t.i[static_cast<size_t>(at)]);
}

Error unknown(const RefTensor& known, const std::string& found) {
  std::string list = text_of(known, 0);
  for (int64_t k = 1; k < std::min(known.numel(), kMaxNamed); ++k) list += ", " + text_of(known, k);
  if (known.numel() > kMaxNamed) list += " and " + std::to_string(known.numel() - kMaxNamed) + " more";
  return invalid("a value is none of the categories that the encoder knows")
      .expecting(std::move(list))
      .but_found(found)
      .advise("give a known category, or export the model so that unknown ones are ignored");
}

template <class T>
Status look_up(RefCall& call, const RefTensor& known, const std::vector<T>& list, const std::vector<T>& x) {
  std::unordered_map<T, int64_t> places;
  for (size_t k = 0; k < list.size(); ++k) places.emplace(list[k], static_cast<int64_t>(k));
  for (int64_t n = 0; n < call.count(); ++n) {
    const auto p = static_cast<size_t>(call.position(n));
    const auto it = places.find(x[p]);
    if (it == places.end()) return unknown(known, text_of(*call.in[0], static_cast<int64_t>(p)));
    call.out[0].i[p] = it->second;
  }
  return Ok{};
}

Status reference(RefCall& call) {
  PERI_ASSIGN(const Tensor list, categories(call.node));
  const RefTensor known = to_ref(list);
  const RefTensor& x = *call.in[0];
  return known.dtype == DType::kString ? look_up(call, known, known.s, x.s) : look_up(call, known, known.i, x.i);
}
}  // namespace

extern const Entry category_index_entry;
const Entry category_index_entry{{
    {.name = "category_index",
     .onnx = "",
     .domain = "peri",
     .inputs = {{"x", types({DType::kString, DType::kI64})}},
     .outputs = {{"y"}},
     .attrs = {{"categories_strings", AttrKind::kStrings}, {"categories_int64s", AttrKind::kInts}},
     .infer = infer,
     .reference = reference,
     .pull = pull_same,
     .jumps = true,
     .categories = categories,
     .knows_all = true,
     .samples = {"graph { const x: string[3] = [\"b\", \"a\", \"b\"]; y = category_index(x) "
                 "{categories_strings=[\"a\", \"b\"]}; output y }",
                 "graph { const x: i64[2,2] = [0, 7, -2, 0]; y = category_index(x) {categories_int64s=[7, -2, 0]}; "
                 "output y }"}},
}};
}  // namespace peri::ops
