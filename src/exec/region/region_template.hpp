// A region that is parsed and inferred once, with its symbols, and bound to sizes by substituting numbers in a graph
// that is kept for reuse: a new shape copies no graph and infers only the nodes whose types depend on sizes.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "base/size_table.hpp"
#include "exec/region/model_names.hpp"
#include "ir/graph.hpp"

namespace peri::exec {

class BoundRegion;

// Thread-safe after creation.
class RegionTemplate : public std::enable_shared_from_this<RegionTemplate> {
 public:
  // Never fails: a region that cannot be inferred with its symbols is inferred at each size.
  static std::shared_ptr<RegionTemplate> create(ir::Graph region, ModelNames names = {});
  // The result of bind_region() for the region, including errors, which name what the model does (`names`).
  Result<BoundRegion> bind(const DimBinding& binding, bool partial = false);
  const ir::Graph& region() const { return region_; }
  const ModelNames& names() const { return names_; }
  // An error about the region as one about the model.
  Error named(Error error) const { return names_.of(std::move(error), region_); }
  size_t inferred_at_each_size() const { return known_ ? inferred_.size() : region_.nodes.size(); }  // nodes

 private:
  friend class BoundRegion;
  // A dimension that is an expression: of a value's shape or contents, or of an attribute.
  struct Place {
    size_t index = 0, element = 0;  // into values() or nodes; into the shape, contents or attribute
    int32_t size = 0;               // of sizes_
    std::string attribute = {};
  };
  RegionTemplate(ir::Graph region, ModelNames names) : region_(std::move(region)), names_(names) {}
  bool infer();
  void compile();
  std::unique_ptr<ir::Graph> take();
  void give_back(std::unique_ptr<ir::Graph> graph);
  bool put_sizes(ir::Graph* g, std::span<const int64_t> values) const;
  bool infer_rest(ir::Graph* g, std::span<const int64_t> values) const;

  ir::Graph region_;  // as parsed
  ModelNames names_;
  std::unique_ptr<const ir::Graph> known_;  // inferred with symbols; null: inferred at each size
  SizeTable sizes_;
  std::vector<Place> shapes_, contents_, attributes_;
  std::vector<size_t> grown_;                        // values with an expression in their shape
  std::vector<size_t> inferred_;                     // nodes inferred at each size
  std::vector<std::vector<int32_t>> made_, stated_;  // shapes of the outputs, as inferred and as the region states
  std::mutex mutex_;
  std::vector<std::unique_ptr<ir::Graph>> idle_;  // copies of known_ that are not in use
  size_t lent_ = 0;                               // number of copies
};

// A graph with numeric sizes, borrowed from its template.
class BoundRegion {
 public:
  const ir::Graph& graph() const { return *graph_; }
  BoundRegion(BoundRegion&&) = default;
  BoundRegion& operator=(BoundRegion&&) = delete;
  ~BoundRegion();

 private:
  friend class RegionTemplate;
  BoundRegion(std::unique_ptr<ir::Graph> graph, std::shared_ptr<RegionTemplate> owner)
      : graph_(std::move(graph)), owner_(std::move(owner)) {}
  std::unique_ptr<ir::Graph> graph_;
  std::shared_ptr<RegionTemplate> owner_;  // null: not borrowed
};

}  // namespace peri::exec
