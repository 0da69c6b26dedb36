// A small ONNX model of texts, as the bytes of its file; needs only the generated protobuf classes.
#pragma once

#include <onnx-ml.pb.h>

#include <string>
#include <utility>

namespace peri::onnx::tests {

namespace pb = ::onnx;

inline void set_words_port(pb::ValueInfoProto* port, const char* name, int type) {
  port->set_name(name);
  auto* tensor = port->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(type);
  tensor->mutable_shape()->add_dim()->set_dim_param("n");
}

inline pb::NodeProto* words_node(pb::GraphProto* g, const char* domain, const char* op, const char* out) {
  pb::NodeProto* const made = g->add_node();
  made->set_domain(domain);
  made->set_op_type(op);
  made->add_input("words");
  made->add_output(out);
  return made;
}

inline pb::AttributeProto* words_attribute(pb::NodeProto* n, const char* name, pb::AttributeProto::AttributeType type) {
  pb::AttributeProto* const made = n->add_attribute();
  made->set_name(name);
  made->set_type(type);
  return made;
}

// In: words [n] as texts. Out: the same in upper case, and their numbers: a 1, b 2, others -1.
inline std::string words_model() {
  pb::ModelProto m;
  m.set_ir_version(8);
  for (const auto& [domain, version] : {std::pair{"", 17}, {"ai.onnx.ml", 2}}) {
    auto* opset = m.add_opset_import();
    opset->set_domain(domain);
    opset->set_version(version);
  }
  pb::GraphProto* const g = m.mutable_graph();
  g->set_name("g");
  set_words_port(g->add_input(), "words", pb::TensorProto::STRING);
  set_words_port(g->add_output(), "upper", pb::TensorProto::STRING);
  set_words_port(g->add_output(), "number", pb::TensorProto::INT64);
  words_attribute(words_node(g, "", "StringNormalizer", "upper"), "case_change_action", pb::AttributeProto::STRING)
      ->set_s("UPPER");
  auto* labels = words_node(g, "ai.onnx.ml", "LabelEncoder", "number");
  auto* keys = words_attribute(labels, "keys_strings", pb::AttributeProto::STRINGS);
  for (const char* key : {"a", "b"}) keys->add_strings(key);
  auto* values = words_attribute(labels, "values_int64s", pb::AttributeProto::INTS);
  for (const int64_t value : {1, 2}) values->add_ints(value);
  return m.SerializeAsString();
}

}  // namespace peri::onnx::tests
