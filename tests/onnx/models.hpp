// Small ONNX models made with the generated protobuf classes, which share no code with the reader under test.
#pragma once

#include <onnx-ml.pb.h>

#include <memory>
#include <string>
#include <vector>

#include "onnx/import.hpp"

namespace peri::onnx::tests {

namespace pb = ::onnx;

// A dimension as text: a number, a name, or "?" for none.
using Dims = std::vector<std::string>;

inline void set_type(pb::ValueInfoProto* v, const std::string& name, int type, const Dims& dims) {
  v->set_name(name);
  auto* t = v->mutable_type()->mutable_tensor_type();
  t->set_elem_type(type);
  auto* shape = t->mutable_shape();
  for (const std::string& d : dims) {
    auto* dim = shape->add_dim();
    if (d == "?") continue;
    if (d.find_first_not_of("-0123456789") == std::string::npos) {
      dim->set_dim_value(std::stoll(d));
    } else {
      dim->set_dim_param(d);
    }
  }
}

inline pb::ModelProto model(int64_t opset = 17) {
  pb::ModelProto m;
  m.set_ir_version(8);
  auto* o = m.add_opset_import();
  o->set_domain("");
  o->set_version(opset);
  m.mutable_graph()->set_name("g");
  return m;
}

inline void input(pb::ModelProto& m, const std::string& name, const Dims& dims, int type = pb::TensorProto::FLOAT) {
  set_type(m.mutable_graph()->add_input(), name, type, dims);
}
inline void output(pb::ModelProto& m, const std::string& name, const Dims& dims, int type = pb::TensorProto::FLOAT) {
  set_type(m.mutable_graph()->add_output(), name, type, dims);
}
inline void untyped_output(pb::ModelProto& m, const std::string& name) {
  m.mutable_graph()->add_output()->set_name(name);
}

template <class Owner>  // GraphProto or FunctionProto
pb::NodeProto* node(Owner* g, const std::string& op, const std::vector<std::string>& in,
                    const std::vector<std::string>& out) {
  auto* n = g->add_node();
  n->set_op_type(op);
  for (const std::string& name : in) n->add_input(name);
  for (const std::string& name : out) n->add_output(name);
  return n;
}
inline pb::NodeProto* node(pb::ModelProto& m, const std::string& op, const std::vector<std::string>& in,
                           const std::vector<std::string>& out) {
  return node(m.mutable_graph(), op, in, out);
}

inline pb::AttributeProto* attr(pb::NodeProto* n, const std::string& name, pb::AttributeProto::AttributeType type) {
  auto* a = n->add_attribute();
  a->set_name(name);
  a->set_type(type);
  return a;
}

inline pb::TensorProto* initializer(pb::ModelProto& m, const std::string& name, const std::vector<int64_t>& dims,
                                    const std::string& raw, int type = pb::TensorProto::FLOAT) {
  auto* t = m.mutable_graph()->add_initializer();
  t->set_name(name);
  t->set_data_type(type);
  for (int64_t d : dims) t->add_dims(d);
  t->set_raw_data(raw);
  return t;
}

// x[dims] → Relu → y
inline pb::ModelProto relu_model(const Dims& dims = {"batch", "3"}) {
  pb::ModelProto m = model();
  input(m, "x", dims);
  output(m, "y", dims);
  node(m, "Relu", {"x"}, {"y"})->set_name("act");
  return m;
}

inline Result<ImportedModel> load(const std::string& bytes, const std::string& dir = "/nonexistent") {
  auto keep = std::make_shared<const std::string>(bytes);
  return import_bytes(*keep, keep, "test.onnx", dir);
}
inline Result<ImportedModel> load(const pb::ModelProto& m, const std::string& dir = "/nonexistent") {
  return load(m.SerializeAsString(), dir);
}

// The error's text, or "accepted".
template <class Model>
std::string error(const Model& m) {
  auto r = load(m);
  return r.ok() ? "accepted" : r.error().text();
}

}  // namespace peri::onnx::tests
