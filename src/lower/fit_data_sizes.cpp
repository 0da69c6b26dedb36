// Sizes for what the data decide that fit the sizes which they meet: tried node by node, by the nodes' own inference.
#include <algorithm>
#include <set>

#include "exec/region/region_payload.hpp"
#include "ir/bodies.hpp"
#include "lower/data_sizes.hpp"

namespace peri::lower {

namespace {
constexpr int kMaxPasses = 4;  // a size that one node decides may decide another's before it
// Pairs of sizes that are looked through in a graph, so that one of many nodes that nothing fits is no long work: they
// take 0.1 s. A square crop needs none of them.
constexpr int64_t kMaxTries = 1 << 16;

// Data-dependent sizes that no node has decided yet.
using Open = std::set<std::string>;

std::set<std::string> open_in(const Dim& d, const Open& open) {
  std::set<std::string> all, out;
  d.collect_symbols(all);
  std::set_intersection(all.begin(), all.end(), open.begin(), open.end(), std::inserter(out, out.begin()));
  return out;
}

// The least s in [1, kMaxSize] with size >= value where all of `names` are s. REQUIRES: it does not fall as s grows,
// else any of them.
int64_t least_with(const Dim& size, int64_t value, const std::set<std::string>& names, DimBinding* dims) {
  constexpr int64_t kMaxSize = int64_t{1} << 31;
  int64_t low = 1, high = kMaxSize;
  while (low < high) {
    const int64_t s = low + (high - low) / 2;
    for (const std::string& n : names) (*dims)[n] = s;
    const auto there = size.eval(*dims);  // an overflow is a large one
    (!there.ok() || *there >= value ? high : low) = !there.ok() || *there >= value ? s : s + 1;
  }
  for (const std::string& n : names) (*dims)[n] = low;
  return low;
}

// Sets the open names of `size` so that it has this value: all to one number, else one, such as a height beside a
// width, to a smaller one and the others to another. `tries`: how many of these are left.
bool solve(const Dim& size, int64_t value, const Open& open, int64_t* tries, DimBinding* dims) {
  const std::set<std::string> names = open_in(size, open);
  if (names.empty()) return false;
  const auto has_it = [&] {
    const auto there = size.eval(*dims);
    return there.ok() && *there == value;
  };
  const int64_t equal = least_with(size, value, names, dims);
  if (has_it()) return true;
  for (int64_t s = equal; s >= 1; --s)
    for (const std::string& one : names) {
      if (names.size() == 1 || --*tries < 0) return false;
      std::set<std::string> others = names;
      others.erase(one);
      (*dims)[one] = s;
      least_with(size, value, others, dims);
      if (has_it()) return true;
    }
  return false;
}

// A size that a node reads, and one that another of its values has.
struct Meeting {
  Dim size;
  int64_t value;
  bool same_axis;  // counted from the last one
  friend bool operator==(const Meeting& a, const Meeting& b) { return a.size == b.size && a.value == b.value; }
};

class Fit {
 public:
  Fit(const ir::Graph& graph, DimBinding* dims) : graph_(graph), dims_(*dims) {
    for (const auto& [name, size] : dims_)
      if (name.starts_with(kDataDim)) open_.insert(name);
  }

  void run() {
    bool changed = !open_.empty();
    for (int pass = 0; changed && pass < kMaxPasses; ++pass) {
      changed = false;
      for (ir::Node* n : graph_.nodes) changed |= !open_.empty() && fit(n);
    }
  }

 private:
  // Whether sizes were changed for it.
  bool fit(ir::Node* n) {
    if (ir::has_bodies(*n) || !reads_open(*n)) return false;
    Region region;
    region.nodes = {n};
    close_region(graph_, &region);
    const ir::Graph alone = region_graph(region);
    const auto fits = [&](const DimBinding& dims) { return exec::bind_region(alone, dims, true).ok(); };
    if (fits(dims_)) return false;
    const std::vector<Meeting> met = meetings(*n);
    DimBinding all = dims_;
    std::set<std::string> decided;
    for (const Meeting& m : met) {  // sizes of several axes
      const std::set<std::string> names = open_in(m.size, open_);
      if (!m.same_axis || std::any_of(names.begin(), names.end(), [&](auto& s) { return decided.contains(s); }))
        continue;
      DimBinding with = all;
      if (!solve(m.size, m.value, open_, &tries_, &with)) continue;
      all = std::move(with);
      decided.insert(names.begin(), names.end());
    }
    if (!decided.empty() && fits(all)) return take(std::move(all), decided);
    for (const Meeting& m : met) {
      DimBinding with = dims_;
      if (solve(m.size, m.value, open_, &tries_, &with) && fits(with))
        return take(std::move(with), open_in(m.size, open_));
    }
    return false;
  }

  bool take(DimBinding dims, const std::set<std::string>& decided) {
    dims_ = std::move(dims);
    for (const std::string& name : decided) open_.erase(name);
    return true;
  }

  bool reads_open(const ir::Node& n) const {
    return std::any_of(n.inputs.begin(), n.inputs.end(), [&](const ir::Value* v) {
      return v && v->type.shape && std::any_of(v->type.shape->begin(), v->type.shape->end(), [&](const Dim& d) {
               return !open_in(d, open_).empty();
             });
    });
  }

  // Of several results, as of a split, their sizes together along each axis, counted from the last one.
  static std::map<int64_t, Dim> sums_of(const ir::Node& n) {
    std::map<int64_t, Dim> out;
    for (const ir::Value* v : n.outputs.size() > 1 ? n.outputs : std::vector<ir::Value*>())
      for (size_t a = 0; v->type.shape && a < v->type.rank(); ++a) {
        Dim& sum = out[static_cast<int64_t>(v->type.rank() - a) - 1];
        sum = sum + (*v->type.shape)[a];
      }
    return out;
  }

  // Those of one axis first, each of these two the largest first: what is 1 is broadcast.
  std::vector<Meeting> meetings(const ir::Node& n) const {
    struct Size {
      Dim size;
      int64_t from_last;  // -1: the number of elements
    };
    std::vector<Size> open_sizes, known;
    const auto add = [&](const ir::Value* v, bool read) {
      if (!v || !v->type.shape) return;
      const Shape& shape = *v->type.shape;
      for (size_t a = 0; a <= shape.size(); ++a) {
        const Dim d = a < shape.size() ? shape[a] : product(shape);
        const bool is_open = !open_in(d, open_).empty();
        if (read || !is_open) (is_open ? open_sizes : known).push_back({d, static_cast<int64_t>(shape.size() - a) - 1});
      }
    };
    for (const ir::Value* v : n.inputs) add(v, true);
    for (const ir::Value* v : n.outputs) add(v, false);
    for (const auto& [from_last, sum] : sums_of(n))
      if (open_in(sum, open_).empty()) known.push_back({sum, from_last});
    std::vector<Meeting> out;
    for (const Size& s : open_sizes)
      for (const Size& k : known)
        if (const auto value = k.size.eval(dims_); value.ok() && *value > 0) {
          const Meeting m = {s.size, *value, s.from_last == k.from_last};
          const auto found = std::find(out.begin(), out.end(), m);
          if (found == out.end())
            out.push_back(m);
          else
            found->same_axis |= m.same_axis;
        }
    std::stable_sort(out.begin(), out.end(), [](const Meeting& a, const Meeting& b) {
      return a.same_axis != b.same_axis ? a.same_axis : a.value > b.value;
    });
    return out;
  }

  const ir::Graph& graph_;
  DimBinding& dims_;
  Open open_;
  int64_t tries_ = kMaxTries;
};
}  // namespace

DimBinding fit_data_sizes(const ir::Graph& graph, DimBinding dims) {
  Fit(graph, &dims).run();
  return dims;
}

std::map<std::string, int64_t> assumed_sizes(const DimBinding& dims) {
  std::map<std::string, int64_t> out;
  for (const auto& [name, size] : dims)
    if (name.starts_with(kDataDim)) out.emplace(name, size);
  return out;
}

}  // namespace peri::lower
