// The surveyor of a model: its ports, its nodes through functions, and what they need.
#pragma once

#include <map>
#include <set>
#include <tuple>

#include "onnx/survey.hpp"

namespace peri::onnx {

// Operators and function calls of one graph or function body.
struct Tally {
  struct Uses {
    int64_t count = 0;
    std::vector<std::string> nodes;
  };
  std::map<std::tuple<std::string, std::string, int64_t>, Uses> ops;  // domain, op, opset
  std::map<std::string, int64_t> calls;                               // function key
  int64_t nodes = 0;                                                  // calls too
  // The uses found last: neighbours are often alike.
  std::string domain, op;
  Uses* last = nullptr;
};

class Surveyor {
 public:
  Surveyor(Survey* survey, const char* base, const ImportOptions& options)
      : s_(*survey), base_(base), options_(options) {}

  Status run() {
    PERI_TRY(check_model());
    PERI_TRY(read_functions());
    Tally main;
    PERI_TRY(scan_graph(&main));
    PERI_TRY(expand(main));
    list_ops();
    return Ok{};
  }

 private:
  Error too_many_nodes(int64_t n) const;
  Status check_model();
  void assume_versions();
  void note(std::string text);
  Status check_opset(const Opsets& opsets, const char* where) const;
  Status read_functions();
  Status scan_graph(Tally* tally);
  Status describe_ports(const GraphRecord& g, std::vector<std::string_view>* given);
  Status describe_initializers(const GraphRecord& g, std::vector<std::string_view>* given);
  Status describe_initializer(const TensorRecord& t, std::vector<std::string_view>* given);
  Status describe_outputs(const GraphRecord& g, std::vector<std::string_view>* outputs);
  void give_rank(ValueRecord* v) const;
  Status add_default(const ValueRecord& v);
  Status describe_container(const ValueRecord& v);
  void note_maps(const NodeRecord& zip_map);
  Status count_node(const NodeRecord& node, const Opsets& opsets, Tally* tally);
  Status expand(const Tally& main);
  Status visit_function(const std::string& key, std::vector<std::string>* stack, int* height);
  void add_uses(const Tally& tally, int64_t times);
  void list_ops();

  Survey& s_;
  const char* base_;
  const ImportOptions& options_;
  std::set<std::string> assumed_;    // domains that the model does not import, and that no node uses so far
  int64_t work_ = 0;                 // nodes and calls, functions expanded
  std::set<std::string> dim_names_;  // of input axes
  std::map<std::string, std::pair<int32_t, std::vector<int64_t>>> constants_;  // their types and dims
  std::map<std::string, Tally> tallies_;
  std::map<std::string, int> heights_;
  std::vector<std::string> finished_;  // functions, callees before callers
  std::map<std::tuple<std::string, std::string, int64_t>, Tally::Uses> total_;
};

}  // namespace peri::onnx
