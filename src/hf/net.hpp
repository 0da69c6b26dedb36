// Net: building a graph from named weights so that an architecture reads like its equations. The first error is kept
// and returned at the end; until then a placeholder value is used for what failed.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "hf/folder.hpp"
#include "hf/safetensors.hpp"
#include "ir/graph.hpp"

namespace peri::hf {

class Net {
 public:
  using Value = ir::Value*;

  // `weights` must outlive only the building: tensors keep their files alive. Weight names are looked up with the first
  // of `prefixes` under which `probe` exists.
  Net(std::string name, const Weights& weights, std::string_view probe,
      std::initializer_list<std::string_view> prefixes);
  // More nodes of a graph that is there; it has no weights to look up.
  explicit Net(ir::Graph graph);

  Value input(std::string_view name, DType dtype, Shape shape);
  // A weight that must have these dims. f16 and bf16 are cast to f32. Missing or of other dims: an error.
  Value weight(std::string_view name, std::vector<int64_t> dims);
  bool has_weight(std::string_view name) const { return weights_.find(prefix_ + std::string(name)) != nullptr; }
  Value scalar(float v);
  Value ints(std::vector<int64_t> v);  // i64[n]

  // One node with one output, named after the scope.
  Value op(std::string_view op, std::vector<Value> inputs, ir::Attrs attrs = {});
  // x · Wᵀ + b with W[out,in] and b[out] named `name`.weight and .bias.
  Value linear(Value x, std::string_view name, int64_t out, int64_t in);
  // Over the last axis, of `width`; parameters `name`.weight and .bias, or by their old names .gamma and .beta.
  Value layer_norm(Value x, std::string_view name, int64_t width, double epsilon);
  // An activation that check_activation() accepts.
  Value activation(Value x, std::string_view kind);
  void output(Value v, std::string_view name) { graph_.mark_output(v, name); }

  // Prefix of the names of the following nodes, after the model's own modules.
  void scope(std::string_view name) { scope_ = name; }
  void fail(Error e);

  // The graph, or the first error.
  Result<ir::Graph> finish() &&;

 private:
  ir::Graph graph_;
  const Weights& weights_;
  std::string prefix_;
  std::string scope_;
  Status status_ = Ok{};
};

// Whether an activation of this name is supported; an error names its key in config.json.
Status check_activation(std::string_view kind, std::string_view key);

// [batch,sequence,width] token vectors and their mask f32[batch,sequence] → f32[batch,width], pooled as the folder
// specifies. Source: sentence-transformers, modules Pooling and Normalize (floors 1e-9 and 1e-12).
Net::Value pool(Net& net, const Folder& folder, Net::Value tokens, Net::Value mask);

}  // namespace peri::hf
