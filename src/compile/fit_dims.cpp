// A node that fails names numbers, in its error, its weights and its attributes. One of them is the size that one
// dimension, or several together, must have.
#include "compile/fit_dims.hpp"

#include <algorithm>
#include <charconv>

namespace peri::compile {

namespace {
constexpr int64_t kMaxTried = 400'000;              // nodes inferred: a second or two
constexpr size_t kMaxNumbers = 24;                  // candidates for a size
constexpr size_t kMaxTogether = 3;                  // sizes of one node that are changed at once
constexpr int64_t kMaxElements = int64_t{1} << 26;  // of an input
constexpr int64_t kSmall = 4;                       // sizes that are tried though nothing names them
constexpr size_t kMaxConstant = 64;                 // elements of a constant that are read

// Distinct sizes, in the order in which they came.
struct Numbers {
  std::vector<int64_t> list;
  void add(int64_t n) {
    if (n >= 1 && n <= kMaxElements && list.size() < kMaxNumbers &&
        std::find(list.begin(), list.end(), n) == list.end())
      list.push_back(n);
  }
  void add(std::string_view text) {
    for (size_t at = text.find_first_of("0123456789"); at < text.size();) {
      int64_t n = 0;
      const auto [end, code] = std::from_chars(text.data() + at, text.data() + text.size(), n);
      if (code == std::errc()) add(n);
      at = text.find_first_of("0123456789", static_cast<size_t>(end - text.data()));
    }
  }
};

void add_attributes(const ir::Node& node, Numbers* out) {
  for (const auto& [key, attr] : node.attrs) {
    if (const auto* one = std::get_if<int64_t>(&attr)) {
      out->add(*one);
      if (*one > 1 && *one < (1 << 13)) out->add(*one * *one);  // blocks of an image
    }
    if (const auto* list = std::get_if<std::vector<int64_t>>(&attr))
      for (const int64_t n : *list) out->add(n);
  }
}

// What the error names comes first, the largest before: of "64 or 1" it is 64. Then what two sizes are together, as a
// past and what is new, whose total has a name of its own.
Numbers numbers_of(const ir::Node& node, const Error& error, const DimBinding& sizes) {
  Numbers out;
  for (const std::string* text : {&error.expected, &error.found, &error.message}) out.add(*text);
  std::sort(out.list.begin(), out.list.end(), std::greater<>());
  for (const auto& one : sizes)
    for (const auto& other : sizes)
      if (one.first < other.first) out.add(one.second + other.second);
  for (const ir::Value* v : node.inputs) {
    if (!v || !v->type.shape) continue;
    for (const Dim& d : *v->type.shape)
      if (d.is_const()) out.add(d.value());
    if (v->constant && is_integer(v->constant->dtype()) && v->constant->numel() <= static_cast<int64_t>(kMaxConstant))
      for (int64_t k = 0; k < v->constant->numel(); ++k) {
        out.add(v->constant->i64(k));
        out.add(v->constant->i64(k) + 1);  // it may be an index
      }
  }
  add_attributes(node, &out);
  for (int64_t n = 1; n <= kSmall; ++n) out.add(n);
  return out;
}

void collect(const Shape& shape, std::set<std::string>* out) {
  for (const Dim& d : shape)
    if (!d.is_const() && !d.is_poison()) d.collect_symbols(*out);
}

// Names in the node's inputs, and in what is known of their elements.
std::vector<std::string> names_of(const ir::Node& node, const DimBinding& sizes, const std::set<std::string>& fixed) {
  std::set<std::string> names;
  for (const ir::Value* v : node.inputs) {
    if (v && v->type.shape) collect(*v->type.shape, &names);
    if (v && v->content) collect(*v->content, &names);
  }
  std::vector<std::string> out;
  for (const std::string& name : names)
    if (sizes.contains(name) && !fixed.contains(name)) out.push_back(name);
  return out;
}

bool too_large(const ir::Graph& graph, const DimBinding& sizes) {
  for (const ir::Value* v : graph.inputs) {
    double elements = 1;
    for (const Dim& d : *v->type.shape)
      if (const auto size = d.eval(sizes); size.ok()) elements *= static_cast<double>(*size);
    if (elements > static_cast<double>(kMaxElements)) return true;
  }
  return false;
}

// The numbers of "[2,18,3]"; none where the text holds no list, or more.
std::vector<int64_t> list_in(const std::string& text) {
  if (text.find('[') == std::string::npos || text.find('[') != text.rfind('[')) return {};
  std::vector<int64_t> out;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data() + text.find('[') + 1; at < end; ++at) {
    int64_t n = 0;
    const auto [next, code] = std::from_chars(at, end, n);
    if (code != std::errc() || next == end || (*next != ',' && *next != ']')) return {};
    out.push_back(n);
    if (*next == ']') return out;
    at = next;
  }
  return {};
}

class Search {
 public:
  Search(const ir::Graph& graph, const std::set<std::string>& fixed,
         const std::function<Status(const DimBinding&)>& check)
      : graph_(graph), fixed_(fixed), check_(check) {}

  DimBinding from(DimBinding sizes) {
    for (Status now = check_(sizes); !now.ok(); now = check_(sizes)) {
      const size_t at = place(now.error());
      if (at >= graph_.nodes.size() || !better(at, now.error(), &sizes)) break;
    }
    return sizes;
  }

 private:
  // In the order of inference; behind all nodes where the error is of none.
  size_t place(const Error& error) const {
    for (size_t k = 0; k < graph_.nodes.size(); ++k) {
      const ir::Node& n = *graph_.nodes[k];
      const std::string& label = !n.name.empty() ? n.name : n.outputs.empty() ? n.op : n.outputs[0]->name;
      if (!error.node.empty() && label == error.node) return k;
    }
    return graph_.nodes.size();
  }

  bool passes(size_t at, const DimBinding& sizes) {
    if (too_large(graph_, sizes)) return false;
    tried_ += static_cast<int64_t>(graph_.nodes.size());
    const Status s = check_(sizes);
    return s.ok() || (at < graph_.nodes.size() && place(s.error()) > at);
  }

  // An error that states the shape of an input, "expected [2,18,3], found [1,128,3]", is taken at its word.
  bool as_told(size_t at, Error error, DimBinding* sizes) {
    DimBinding told = *sizes;
    for (size_t round = 0; round < kMaxTogether; ++round) {
      const std::vector<int64_t> wanted = list_in(error.expected), found = list_in(error.found);
      if (wanted.empty() || wanted.size() != found.size()) return false;
      for (const ir::Value* v : graph_.nodes[at]->inputs) {
        if (!v || !v->type.shape) continue;
        const auto shape = eval(*v->type.shape, told);
        if (!shape.ok() || *shape != found) continue;
        for (size_t axis = 0; axis < wanted.size(); ++axis)
          if (const Dim& d = (*v->type.shape)[axis];
              d.is_symbol() && wanted[axis] >= 1 && !fixed_.contains(d.symbol_name()))
            told[d.symbol_name()] = wanted[axis];
      }
      if (passes(at, told)) {
        *sizes = std::move(told);
        return true;
      }
      const Status again = check_(told);
      if (again.ok() || place(again.error()) != at) return false;
      error = again.error();
    }
    return false;
  }

  // Sizes at which node `at` agrees: with as few of them changed as can be.
  bool better(size_t at, const Error& error, DimBinding* sizes) {
    if (as_told(at, error, sizes)) return true;
    const std::vector<std::string> names = names_of(*graph_.nodes[at], *sizes, fixed_);
    const Numbers numbers = numbers_of(*graph_.nodes[at], error, *sizes);
    // A size at which all agrees, before one with which this node would do; it may be one that the node does not name.
    std::vector<std::string> all = names;
    for (const auto& [name, size] : *sizes)
      if (!fixed_.contains(name) && std::find(all.begin(), all.end(), name) == all.end()) all.push_back(name);
    if (change(graph_.nodes.size(), all, 0, 1, numbers, sizes)) return true;
    for (size_t together = 1; together <= std::min(kMaxTogether, names.size()); ++together)
      if (change(at, names, 0, together, numbers, sizes)) return true;
    return false;
  }

  bool change(size_t at, const std::vector<std::string>& names, size_t from, size_t left, const Numbers& numbers,
              DimBinding* sizes) {
    if (left == 0) return passes(at, *sizes);
    for (size_t k = from; k + left <= names.size(); ++k) {
      int64_t& size = sizes->at(names[k]);
      const int64_t was = size;
      for (const int64_t n : numbers.list) {
        if (tried_ > kMaxTried) break;
        if (n == was) continue;
        size = n;
        if (change(at, names, k + 1, left - 1, numbers, sizes)) return true;
      }
      size = was;
    }
    return false;
  }

  const ir::Graph& graph_;
  const std::set<std::string>& fixed_;
  const std::function<Status(const DimBinding&)>& check_;
  int64_t tried_ = 0;
};
}  // namespace

DimBinding fit_dims(const ir::Graph& graph, DimBinding sizes, const std::set<std::string>& fixed,
                    const std::function<Status(const DimBinding&)>& check) {
  return Search(graph, fixed, check).from(std::move(sizes));
}

}  // namespace peri::compile
