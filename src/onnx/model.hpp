// An ONNX model as records over the bytes of its file: views, no copies of data. Nodes and tensors stay undecoded
// messages until someone reads them, so a hostile file cannot make its records larger than itself.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"

namespace peri::onnx {

// The undecoded bytes of a sub-message.
using Body = std::string_view;
// domain ("" for ai.onnx) → version
using Opsets = std::map<std::string, int64_t, std::less<>>;

// A tensor's header. Typed data (float_data, ...) stays in `body` and is decoded by tensor_data.
struct TensorRecord {
  Body body;
  std::string_view name;
  int32_t data_type = 0;  // TensorProto.DataType
  std::vector<int64_t> dims;
  std::optional<std::string_view> raw;
  int64_t float_count = 0, int32_count = 0, int64_count = 0, double_count = 0, uint64_count = 0, string_count = 0;
  bool external = false;
  bool segmented = false;
  std::vector<std::pair<std::string_view, std::string_view>> external_data;
};

struct SparseTensorRecord {
  TensorRecord values, indices;
  std::vector<int64_t> dims;
};

enum class AttrType {
  kUndefined = 0,
  kFloat = 1,
  kInt = 2,
  kString = 3,
  kTensor = 4,
  kGraph = 5,
  kFloats = 6,
  kInts = 7,
  kStrings = 8,
  kTensors = 9,
  kGraphs = 10,
  kSparseTensor = 11,
  kSparseTensors = 12,
  kType = 13,
  kTypes = 14,
};
std::string_view attr_type_name(AttrType t);

struct AttrRecord {
  std::string_view name, ref_name;  // ref_name: takes the value of an attribute of the enclosing function
  AttrType type = AttrType::kUndefined;
  float f = 0;
  int64_t i = 0;
  std::string_view s;
  Body message;  // tensor, graph, sparse tensor or type
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string_view> strings;
  std::vector<Body> messages;  // tensors, graphs, ...
};

struct NodeRecord {
  std::string_view op, domain, overload, name;
  std::vector<std::string_view> inputs, outputs;
  std::vector<AttrRecord> attrs;

  const AttrRecord* attr(std::string_view key) const;
  // Its name in messages: the name, else the first output, else the op.
  std::string_view label() const;
};

enum class ValueKind { kNone, kTensor, kSparse, kSequence, kMap, kOptional, kOpaque };
struct DimRecord {
  std::optional<int64_t> value;
  std::string_view param;
};
struct ValueRecord {
  std::string_view name;
  ValueKind kind = ValueKind::kNone;  // for a sequence or optional of tensors, whose type follows
  bool of_sequence = false;           // an optional that holds a sequence
  int32_t elem_type = 0;
  std::optional<std::vector<DimRecord>> shape;
};

struct GraphRecord {
  std::string_view name, doc;
  std::vector<Body> nodes, initializers, sparse_initializers, inputs, outputs;
};

struct FunctionRecord {
  std::string_view name, domain, overload;
  std::vector<std::string_view> inputs, outputs, attrs;
  std::vector<AttrRecord> default_attrs;
  std::vector<Body> nodes;
  Opsets opsets;
};

struct ModelRecord {
  int64_t ir_version = 0;
  Opsets opsets;
  std::vector<std::string> notes;  // tolerated violations
  std::string_view producer, producer_version, doc;
  int64_t model_version = 0;
  std::map<std::string, std::string, std::less<>> metadata;
  std::optional<GraphRecord> graph;
  std::vector<Body> functions;
};

}  // namespace peri::onnx
