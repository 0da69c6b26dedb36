// Reads models, graphs, nodes, attributes, functions and value types. Field numbers come from the generated header.
#include "onnx/proto_reader.hpp"

#include <bit>

#include <onnx-ml.pb.h>
#include "onnx/proto_fields.hpp"

namespace peri::onnx {

namespace pb = ::onnx;

namespace {
// Caps that no real model comes near; they bound what a small hostile file can make us allocate.
constexpr size_t kMaxMessages = size_t{1} << 20;
constexpr size_t kMaxElements = size_t{1} << 22;
constexpr size_t kMaxAttrs = 4096;
constexpr size_t kMaxFunctions = 10000;
constexpr size_t kMaxRank = 64;

// Of two versions of one domain the last one counts, as in ONNX Runtime.
Status read_opset(const Field& f, const char* base, Opsets* out, std::vector<std::string>* notes) {
  Body body;
  PERI_TRY(take_bytes(f, &body, "opset_import"));
  std::string_view domain;
  int64_t version = 0;
  PERI_TRY(each_field(body, base, [&](const Field& x) -> Status {
    using P = pb::OperatorSetIdProto;
    if (x.number == P::kDomainFieldNumber) return take_name(x, &domain, "opset_import.domain");
    if (x.number == P::kVersionFieldNumber) return take_int(x, &version, "opset_import.version");
    return Ok{};
  }));
  if (domain == "ai.onnx") domain = "";
  if (out->size() >= 1024) return invalid("too many entries in 'opset_import'");
  const auto [at, fresh] = out->emplace(domain, version);
  if (!fresh && at->second != version && notes)
    notes->push_back(format("domain '%s' is imported in versions %lld and %lld: the last one counts",
                            domain.empty() ? "ai.onnx" : std::string(domain).c_str(),
                            static_cast<long long>(at->second), static_cast<long long>(version)));
  at->second = version;
  return Ok{};
}

Status read_pair(const Field& f, const char* base, std::string_view* key, std::string_view* value) {
  Body body;
  PERI_TRY(take_bytes(f, &body, "entry"));
  return each_field(body, base, [&](const Field& x) -> Status {
    using P = pb::StringStringEntryProto;
    if (x.number == P::kKeyFieldNumber) return take_name(x, key, "key");
    if (x.number == P::kValueFieldNumber) return take_bytes(x, value, "value");
    return Ok{};
  });
}

Status read_graph_into(Body body, const char* base, GraphRecord* g) {
  auto take = [&](const Field& f, std::vector<Body>* list, const char* what) -> Status {
    const size_t all =
        g->nodes.size() + g->initializers.size() + g->sparse_initializers.size() + g->inputs.size() + g->outputs.size();
    if (all >= kMaxMessages) return invalid("a graph has more than %zu parts", kMaxMessages);
    if (f.type != WireType::kBytes) return wrong_wire(what);
    list->push_back(f.bytes);
    return Ok{};
  };
  PERI_TRY(each_field(body, base, [&](const Field& f) -> Status {
    using P = pb::GraphProto;
    switch (f.number) {
      case P::kNodeFieldNumber: return take(f, &g->nodes, "graph.node");
      case P::kInitializerFieldNumber: return take(f, &g->initializers, "graph.initializer");
      case P::kSparseInitializerFieldNumber: return take(f, &g->sparse_initializers, "graph.sparse_initializer");
      case P::kInputFieldNumber: return take(f, &g->inputs, "graph.input");
      case P::kOutputFieldNumber: return take(f, &g->outputs, "graph.output");
      case P::kNameFieldNumber: return take_name(f, &g->name, "graph.name");
      case P::kDocStringFieldNumber: return take_bytes(f, &g->doc, "graph.doc_string");
      default: return Ok{};
    }
  }));
  return Ok{};
}

Status take_floats(const Field& f, std::vector<float>* out) {
  if (f.type == WireType::kFixed32)
    return take_one(out, std::bit_cast<float>(static_cast<uint32_t>(f.scalar)), kMaxElements, "floats");
  if (f.type != WireType::kBytes || f.bytes.size() % 4) return wrong_wire("attribute.floats");
  if (f.bytes.size() / 4 > kMaxElements - out->size()) return invalid("too many entries in 'floats'");
  const size_t from = out->size();
  out->resize(from + f.bytes.size() / 4);
  if (!f.bytes.empty()) __builtin_memcpy(out->data() + from, f.bytes.data(), f.bytes.size());
  return Ok{};
}

Status take_body(const Field& f, std::vector<Body>* out, const char* what) {
  Body body;
  PERI_TRY(take_bytes(f, &body, what));
  return take_one(out, body, kMaxMessages, what);
}

Status read_attr_field(const Field& f, const char* base, AttrRecord* a, uint32_t* seen) {
  using P = pb::AttributeProto;
  const auto saw = [&](AttrType t) { *seen |= 1u << static_cast<int>(t); };
  switch (f.number) {
    case P::kNameFieldNumber: return take_name(f, &a->name, "attribute.name");
    case P::kRefAttrNameFieldNumber: return take_name(f, &a->ref_name, "attribute.ref_attr_name");
    case P::kTypeFieldNumber: {
      int32_t type = 0;
      PERI_TRY(take_int32(f, &type, "attribute.type"));
      if (!pb::AttributeProto_AttributeType_IsValid(type))
        return invalid("attribute '%s' has the unknown type %d", std::string(a->name).c_str(), type);
      a->type = static_cast<AttrType>(type);
      return Ok{};
    }
    case P::kFFieldNumber:
      if (f.type != WireType::kFixed32) return wrong_wire("attribute.f");
      a->f = std::bit_cast<float>(static_cast<uint32_t>(f.scalar));
      saw(AttrType::kFloat);
      return Ok{};
    case P::kIFieldNumber: saw(AttrType::kInt); return take_int(f, &a->i, "attribute.i");
    case P::kSFieldNumber: saw(AttrType::kString); return take_bytes(f, &a->s, "attribute.s");
    case P::kTFieldNumber: saw(AttrType::kTensor); return take_bytes(f, &a->message, "attribute.t");
    case P::kGFieldNumber: saw(AttrType::kGraph); return take_bytes(f, &a->message, "attribute.g");
    case P::kSparseTensorFieldNumber:
      saw(AttrType::kSparseTensor);
      return take_bytes(f, &a->message, "attribute.sparse_tensor");
    case P::kTpFieldNumber: saw(AttrType::kType); return take_bytes(f, &a->message, "attribute.tp");
    case P::kFloatsFieldNumber: saw(AttrType::kFloats); return take_floats(f, &a->floats);
    case P::kIntsFieldNumber: saw(AttrType::kInts); return take_ints(f, &a->ints, base, kMaxElements, "attribute.ints");
    case P::kStringsFieldNumber: {
      std::string_view s;
      PERI_TRY(take_bytes(f, &s, "attribute.strings"));
      saw(AttrType::kStrings);
      return take_one(&a->strings, s, kMaxMessages, "attribute.strings");
    }
    case P::kTensorsFieldNumber: saw(AttrType::kTensors); return take_body(f, &a->messages, "attribute.tensors");
    case P::kGraphsFieldNumber: saw(AttrType::kGraphs); return take_body(f, &a->messages, "attribute.graphs");
    case P::kSparseTensorsFieldNumber:
      saw(AttrType::kSparseTensors);
      return take_body(f, &a->messages, "attribute.sparse_tensors");
    case P::kTypeProtosFieldNumber: saw(AttrType::kTypes); return take_body(f, &a->messages, "attribute.type_protos");
    default: return Ok{};
  }
}

Result<AttrRecord> read_attr(const Field& field, const char* base) {
  Body body;
  PERI_TRY(take_bytes(field, &body, "attribute"));
  AttrRecord a;
  uint32_t seen = 0;
  PERI_TRY(each_field(body, base, [&](const Field& f) { return read_attr_field(f, base, &a, &seen); }));
  if (a.name.empty()) return invalid("an attribute has no name");
  const uint32_t own = 1u << static_cast<int>(a.type);
  if (a.type == AttrType::kUndefined && seen) {  // files older than IR version 2 do not write the type
    a.type = static_cast<AttrType>(std::countr_zero(seen));
    if (seen & (seen - 1)) return invalid("attribute '%s' holds values of two types", std::string(a.name).c_str());
  } else if (a.ref_name.empty() && (seen & ~own)) {
    return invalid("attribute '%s' holds a value of another type than it says", std::string(a.name).c_str())
        .expecting(std::string(attr_type_name(a.type)));
  }
  const bool one_message =
      a.type == AttrType::kTensor || a.type == AttrType::kGraph || a.type == AttrType::kSparseTensor;
  if (one_message && a.ref_name.empty() && !(seen & own))
    return invalid("attribute '%s' has no value", std::string(a.name).c_str());
  return a;
}

Status read_shape(Body body, const char* base, std::vector<DimRecord>* out) {
  return each_field(body, base, [&](const Field& f) -> Status {
    if (f.number != pb::TensorShapeProto::kDimFieldNumber) return Ok{};
    Body dim;
    PERI_TRY(take_bytes(f, &dim, "shape.dim"));
    DimRecord d;
    PERI_TRY(each_field(dim, base, [&](const Field& x) -> Status {
      using P = pb::TensorShapeProto_Dimension;
      if (x.number == P::kDimValueFieldNumber) {
        int64_t v = 0;
        PERI_TRY(take_int(x, &v, "dim_value"));
        d = {v, {}};
      } else if (x.number == P::kDimParamFieldNumber) {
        d.value.reset();
        return take_name(x, &d.param, "dim_param");
      }
      return Ok{};
    }));
    return take_one(out, d, kMaxRank, "shape.dim");
  });
}

Status read_type(Body body, const char* base, ValueRecord* v, int depth);

// What a sequence or optional holds: tensors, a sequence also maps, or an optional a sequence of tensors. Anything else
// is opaque here.
Status read_inner_type(const Field& f, const char* base, ValueKind kind, ValueRecord* v, int depth) {
  Body body;
  PERI_TRY(take_bytes(f, &body, "elem_type of a type"));
  ValueRecord inner;
  PERI_TRY(each_field(body, base, [&](const Field& x) -> Status {
    if (x.number != pb::TypeProto_Sequence::kElemTypeFieldNumber) return Ok{};
    Body type;
    PERI_TRY(take_bytes(x, &type, "elem_type"));
    return read_type(type, base, &inner, depth + 1);
  }));
  v->of_sequence = kind == ValueKind::kOptional && inner.kind == ValueKind::kSequence;
  const bool maps = kind == ValueKind::kSequence && inner.kind == ValueKind::kMap;
  v->kind = inner.kind == ValueKind::kTensor || v->of_sequence ? kind : maps ? inner.kind : ValueKind::kOpaque;
  v->elem_type = inner.elem_type;
  v->shape = std::move(inner.shape);
  return Ok{};
}

Status read_type(Body body, const char* base, ValueRecord* v, int depth) {
  if (depth > 3) return Ok{};
  return each_field(body, base, [&](const Field& f) -> Status {
    using P = pb::TypeProto;
    switch (f.number) {
      case P::kSequenceTypeFieldNumber: return read_inner_type(f, base, ValueKind::kSequence, v, depth);
      case P::kMapTypeFieldNumber: v->kind = ValueKind::kMap; return Ok{};
      case P::kOptionalTypeFieldNumber: return read_inner_type(f, base, ValueKind::kOptional, v, depth);
      case P::kSparseTensorTypeFieldNumber: v->kind = ValueKind::kSparse; return Ok{};
      case P::kOpaqueTypeFieldNumber: v->kind = ValueKind::kOpaque; return Ok{};
      case P::kTensorTypeFieldNumber: break;
      default: return Ok{};
    }
    v->kind = ValueKind::kTensor;
    Body tensor;
    PERI_TRY(take_bytes(f, &tensor, "tensor_type"));
    return each_field(tensor, base, [&](const Field& x) -> Status {
      using T = pb::TypeProto_Tensor;
      if (x.number == T::kElemTypeFieldNumber) return take_int32(x, &v->elem_type, "elem_type");
      if (x.number != T::kShapeFieldNumber) return Ok{};
      Body shape;
      PERI_TRY(take_bytes(x, &shape, "shape"));
      if (!v->shape) v->shape.emplace();
      return read_shape(shape, base, &*v->shape);
    });
  });
}
}  // namespace

std::string_view attr_type_name(AttrType t) {
  static constexpr std::string_view kNames[] = {
      "undefined", "float",   "int",    "string",        "tensor",         "graph", "floats", "ints",
      "strings",   "tensors", "graphs", "sparse tensor", "sparse tensors", "type",  "types"};
  return kNames[static_cast<int>(t)];
}

const AttrRecord* NodeRecord::attr(std::string_view key) const {
  for (const AttrRecord& a : attrs)
    if (a.name == key) return &a;
  return nullptr;
}

std::string_view NodeRecord::label() const {
  if (!name.empty()) return name;
  for (std::string_view o : outputs)
    if (!o.empty()) return o;
  return op;
}

Result<GraphRecord> read_graph(Body body, const char* base) {
  GraphRecord g;
  PERI_TRY(read_graph_into(body, base, &g));
  return g;
}

Result<NodeRecord> read_node(Body body, const char* base) {
  NodeRecord n;
  Status done = each_field(body, base, [&](const Field& f) -> Status {
    using P = pb::NodeProto;
    std::string_view text;
    switch (f.number) {
      case P::kInputFieldNumber:
        PERI_TRY(take_name(f, &text, "node.input"));
        return take_one(&n.inputs, text, kMaxMessages, "node.input");
      case P::kOutputFieldNumber:
        PERI_TRY(take_name(f, &text, "node.output"));
        return take_one(&n.outputs, text, kMaxMessages, "node.output");
      case P::kNameFieldNumber: return take_name(f, &n.name, "node.name");
      case P::kOpTypeFieldNumber: return take_name(f, &n.op, "node.op_type");
      case P::kDomainFieldNumber: return take_name(f, &n.domain, "node.domain");
      case P::kOverloadFieldNumber: return take_name(f, &n.overload, "node.overload");
      case P::kAttributeFieldNumber: {
        PERI_ASSIGN(AttrRecord a, read_attr(f, base));
        if (n.attr(a.name)) return invalid("attribute '%s' is given twice", std::string(a.name).c_str());
        return take_one(&n.attrs, std::move(a), kMaxAttrs, "node.attribute");
      }
      default: return Ok{};
    }
  });
  if (!done.ok()) return std::move(done).error().at_node(n.label());
  if (n.domain == "ai.onnx") n.domain = "";
  return n;
}

Result<ValueRecord> read_value(Body body, const char* base) {
  ValueRecord v;
  PERI_TRY(each_field(body, base, [&](const Field& f) -> Status {
    using P = pb::ValueInfoProto;
    if (f.number == P::kNameFieldNumber) return take_name(f, &v.name, "value.name");
    if (f.number != P::kTypeFieldNumber) return Ok{};
    Body type;
    PERI_TRY(take_bytes(f, &type, "value.type"));
    return read_type(type, base, &v, 0);
  }));
  return v;
}

Result<FunctionRecord> read_function(Body body, const char* base) {
  FunctionRecord r;
  PERI_TRY(each_field(body, base, [&](const Field& f) -> Status {
    using P = pb::FunctionProto;
    std::string_view text;
    switch (f.number) {
      case P::kNameFieldNumber: return take_name(f, &r.name, "function.name");
      case P::kDomainFieldNumber: return take_name(f, &r.domain, "function.domain");
      case P::kOverloadFieldNumber: return take_name(f, &r.overload, "function.overload");
      case P::kInputFieldNumber:
        PERI_TRY(take_name(f, &text, "function.input"));
        return take_one(&r.inputs, text, kMaxAttrs, "function.input");
      case P::kOutputFieldNumber:
        PERI_TRY(take_name(f, &text, "function.output"));
        return take_one(&r.outputs, text, kMaxAttrs, "function.output");
      case P::kAttributeFieldNumber:
        PERI_TRY(take_name(f, &text, "function.attribute"));
        return take_one(&r.attrs, text, kMaxAttrs, "function.attribute");
      case P::kAttributeProtoFieldNumber: {
        PERI_ASSIGN(AttrRecord a, read_attr(f, base));
        return take_one(&r.default_attrs, std::move(a), kMaxAttrs, "function.attribute_proto");
      }
      case P::kNodeFieldNumber: return take_body(f, &r.nodes, "function.node");
      case P::kOpsetImportFieldNumber: return read_opset(f, base, &r.opsets, nullptr);
      default: return Ok{};
    }
  }));
  if (r.domain == "ai.onnx") r.domain = "";
  return r;
}

int64_t newest_ir_version() { return pb::IR_VERSION; }

Result<ModelRecord> read_model(std::string_view file) {
  ModelRecord m;
  const char* base = file.data();
  PERI_TRY(each_field(file, base, [&](const Field& f) -> Status {
    using P = pb::ModelProto;
    switch (f.number) {
      case P::kIrVersionFieldNumber: return take_int(f, &m.ir_version, "ir_version");
      case P::kOpsetImportFieldNumber: return read_opset(f, base, &m.opsets, &m.notes);
      case P::kProducerNameFieldNumber: return take_name(f, &m.producer, "producer_name");
      case P::kProducerVersionFieldNumber: return take_name(f, &m.producer_version, "producer_version");
      case P::kModelVersionFieldNumber: return take_int(f, &m.model_version, "model_version");
      case P::kDocStringFieldNumber: return take_bytes(f, &m.doc, "doc_string");
      case P::kGraphFieldNumber: {
        Body body;
        PERI_TRY(take_bytes(f, &body, "graph"));
        if (!m.graph) m.graph.emplace();
        return read_graph_into(body, base, &*m.graph);
      }
      case P::kMetadataPropsFieldNumber: {
        std::string_view key, value;
        PERI_TRY(read_pair(f, base, &key, &value));
        if (m.metadata.size() < 4096 && value.size() <= kMaxName && utf8_valid(value)) m.metadata.emplace(key, value);
        return Ok{};
      }
      case P::kFunctionsFieldNumber: {
        Body body;
        PERI_TRY(take_bytes(f, &body, "functions"));
        return take_one(&m.functions, body, kMaxFunctions, "functions");
      }
      default: return Ok{};
    }
  }));
  return m;
}

}  // namespace peri::onnx
