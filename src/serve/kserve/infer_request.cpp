// Names are found by linear search: models have few ports.
#include "serve/kserve/infer_request.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/plural.hpp"
#include "serve/kserve/datatype.hpp"

namespace peri::serve {

namespace {

constexpr size_t kMaxRank = 64;  // no tensor of an engine has more axes

std::string dims_text(std::span<const int64_t> dims) {
  std::string out = "[";
  for (size_t k = 0; k < dims.size(); ++k) out += (k ? "," : "") + std::to_string(dims[k]);
  return out + "]";
}

std::string dims_text(const Shape& shape) {
  std::vector<int64_t> dims;
  for (const Dim& d : shape) dims.push_back(d.is_const() ? d.value() : -1);
  return dims_text(dims);
}

Result<std::vector<int64_t>> read_dims(const Json& tensor, const plan::Port& port) {
  PERI_ASSIGN(const Json::Array* shape, tensor.get_array("shape"));
  std::vector<int64_t> dims;
  if (shape->size() > kMaxRank) return invalid("input '%s' has %zu dims", port.name.c_str(), shape->size());
  for (const Json& d : *shape) {
    const auto v = d.as_int();
    if (!v.ok()) return Error(v.error()).at_node("shape' of input '" + port.name);
    dims.push_back(*v);
  }
  PERI_TRY(check_dims(port, dims));
  return dims;
}

}  // namespace

std::string shown_name(std::string_view name) {
  return name.size() <= 80 ? std::string(name) : std::string(name.substr(0, 80)) + "...";
}

const plan::Port* find_port(std::span<const plan::Port> ports, std::string_view name, size_t* at) {
  for (size_t k = 0; k < ports.size(); ++k)
    if (ports[k].name == name) {
      *at = k;
      return &ports[k];
    }
  return nullptr;
}

Status check_dims(const plan::Port& port, std::span<const int64_t> dims) {
  bool fits = dims.size() == port.shape.size();
  for (size_t k = 0; fits && k < dims.size(); ++k) fits = !port.shape[k].is_const() || port.shape[k].value() == dims[k];
  if (std::any_of(dims.begin(), dims.end(), [](int64_t d) { return d < 0; }))
    return invalid("the shape of input '%s' has a negative size: %s", port.name.c_str(),
                   dims_text(dims.first(std::min(dims.size(), kMaxRank))).c_str());
  if (!fits)
    return invalid("unexpected shape for input '%s': expected %s, got %s", port.name.c_str(),
                   dims_text(port.shape).c_str(), dims_text(dims.first(std::min(dims.size(), kMaxRank))).c_str());
  return Ok{};
}

const Json* given(const Json& holder, std::string_view key) {
  const Json* value = holder.find(key);
  return value && !value->is_null() ? value : nullptr;
}

// Parameters that change the meaning of a response and are not supported are refused; others are passed to the model.
Status check_parameters(const Json& holder) {
  const Json* p = given(holder, "parameters");
  if (!p) return Ok{};
  if (!p->is_object())
    return invalid("'parameters' is %s, no object of names and values", std::string(p->kind_name()).c_str());
  for (const std::string_view key : {"shared_memory_region", "shared_memory_byte_size", "shared_memory_offset"})
    if (p->find(key)) return unsupported("shared memory of clients is not taken");
  for (const Json::Member& m : p->members()) {
    if (m.key.starts_with("triton_") && m.key != "triton_enable_empty_final_response")
      return invalid("parameter keys starting with 'triton_' are reserved and should not be specified: '%s'",
                     shown_name(m.key).c_str());
    if (m.value.kind() == Json::Kind::kDouble && !std::isfinite(*m.value.as_double()))
      return invalid("the parameter '%s' is not a finite number", shown_name(m.key).c_str());
    if (m.value.is_array() || m.value.is_object())
      return invalid("the parameter '%s' is %s: a text, a number, true and false are taken", shown_name(m.key).c_str(),
                     std::string(m.value.kind_name()).c_str());
  }
  return Ok{};
}

Result<int64_t> read_classes(const Json& holder) {
  const Json* p = given(holder, "parameters");
  if (!p) return int64_t{0};
  PERI_ASSIGN(const int64_t out, p->get_int("classification", 0));
  if (out < 0) return invalid("'classification' asks for %lld classes", static_cast<long long>(out));
  return out;
}

Error stateless() { return unsupported("the model keeps no state between requests: 'sequence_id' is not taken"); }

// A sequence is identified by a number or a text; 0 and "" mean none.
static Status read_step(const Json& parameters, const InferLimits& limits, SequenceStep* out) {
  if (const Json* id = given(parameters, "sequence_id")) {
    if (id->is_string()) {
      out->id.text = *id->as_string();
      if (out->id.text.size() > limits.sequence_id_bytes)
        return invalid("the sequence_id has %zu bytes: this server takes %zu (--max-sequence-id-bytes)",
                       out->id.text.size(), limits.sequence_id_bytes);
    } else if (const auto number = id->as_uint(); number.ok()) {
      out->id.number = *number;
    } else {
      return invalid("'sequence_id' is of another kind, or out of range")
          .expecting("a whole number from 0 to 18446744073709551615, or a text")
          .but_found(number.error().found);
    }
  }
  PERI_ASSIGN(out->start, parameters.get_bool("sequence_start", false));
  PERI_ASSIGN(out->end, parameters.get_bool("sequence_end", false));
  return Ok{};
}

Status read_parameters(const Json& root, const InferLimits& limits, bool* binary, InferRequest* out) {
  PERI_TRY(check_parameters(root));
  const Json* p = given(root, "parameters");
  if (!p) return Ok{};
  PERI_ASSIGN(*binary, p->get_bool("binary_data_output", false));
  PERI_ASSIGN(out->priority, p->get_int("priority", 0));
  PERI_ASSIGN(out->timeout_us, p->get_int("timeout", 0));
  PERI_TRY(read_step(*p, limits, &out->step));
  if (out->priority < 0 || out->priority > 1000) return invalid("the parameter 'priority' is out of range");
  if (out->timeout_us < 0 || out->timeout_us > int64_t{1} << 50)
    return invalid("the parameter 'timeout' is out of range");
  return Ok{};
}

namespace {
class Reader {
 public:
  Reader(std::span<const std::byte> binary, std::shared_ptr<const void> owner, const InferLimits& limits)
      : binary_(binary), owner_(std::move(owner)), limits_(limits) {}

  Result<Tensor> tensor(const Json& json, const plan::Port& port) {
    PERI_ASSIGN(const std::string_view type, json.get_string("datatype"));
    PERI_ASSIGN(const DType dtype, parse_datatype(type));
    if (dtype != port.dtype)
      return invalid("input '%s' is of datatype %s", port.name.c_str(), std::string(datatype_name(port.dtype)).c_str())
          .but_found(type);
    PERI_ASSIGN(std::vector<int64_t> dims, read_dims(json, port));
    PERI_ASSIGN(const int64_t numel, of_input(port, checked_numel(dims)));
    PERI_TRY(check_parameters(json));
    const Json* parameters = given(json, "parameters");
    const Json* size = parameters ? given(*parameters, "binary_data_size") : nullptr;
    const Json* data = given(json, "data");
    if (size && data) return invalid("input '%s' has both 'data' and 'binary_data_size'", port.name.c_str());
    if (data) return of_input(port, tensor_of_json(*data, dtype, std::move(dims), limits_));
    if (!size) return invalid("input '%s' has neither 'data' nor 'binary_data_size'", port.name.c_str());
    PERI_ASSIGN(const uint64_t bytes, parameters->get_uint("binary_data_size"));
    if (bytes > binary_.size())
      return invalid("input '%s' states %llu bytes of binary data, the body has %zu more", port.name.c_str(),
                     static_cast<unsigned long long>(bytes), binary_.size());
    const std::span<const std::byte> mine = binary_.first(bytes);
    binary_ = binary_.subspan(bytes);
    if (dtype == DType::kString) {
      PERI_ASSIGN(std::vector<std::string> strings, of_input(port, parse_byte_strings(mine, numel, limits_)));
      return Tensor::strings(std::move(dims), std::move(strings));
    }
    PERI_ASSIGN(const int64_t want, dtype_bytes(dtype, numel));
    if (static_cast<uint64_t>(want) != bytes)
      return invalid("input '%s' of shape %s takes %lld bytes, got %llu", port.name.c_str(), dims_text(dims).c_str(),
                     static_cast<long long>(want), static_cast<unsigned long long>(bytes));
    return Tensor::view(dtype, std::move(dims), mine, owner_);
  }
  size_t left() const { return binary_.size(); }

 private:
  std::span<const std::byte> binary_;
  std::shared_ptr<const void> owner_;
  const InferLimits& limits_;
};

Status check_tensor(const Json& json, const char* list) {
  if (json.is_object()) return Ok{};
  return invalid("'%s' holds %s, no object of a tensor", list, std::string(json.kind_name()).c_str());
}

Status read_inputs(const Json& root, std::span<const plan::Port> ports, const InferLimits& limits, Reader reader,
                   InferRequest* out) {
  static const Json::Array kNone;  // a model without inputs needs no list of them
  const bool none = ports.empty() && !given(root, "inputs");
  PERI_ASSIGN(const auto inputs, none ? Result<const Json::Array*>(&kNone) : root.get_array("inputs"));
  PERI_TRY(check_count(inputs->size(), "inputs", limits));
  out->inputs.resize(ports.size());
  size_t given = 0;
  for (const Json& json : *inputs) {
    PERI_TRY(check_tensor(json, "inputs"));
    PERI_ASSIGN(const std::string_view name, json.get_string("name"));
    size_t at = 0;
    const plan::Port* port = find_port(ports, name, &at);
    if (!port) return invalid("unexpected inference input '%s'", shown_name(name).c_str());
    if (out->inputs[at].defined())
      return invalid("input '%s' is given twice", port->name.c_str()).advise("give it once");
    PERI_ASSIGN(out->inputs[at], reader.tensor(json, *port));
    ++given;
  }
  for (size_t k = 0; k < ports.size(); ++k)
    if (!out->inputs[k].defined())
      return invalid("expected %zu inputs but got %zu: '%s' is missing", ports.size(), given, ports[k].name.c_str());
  if (reader.left() > 0) return invalid("%zu bytes behind the last input's binary data", reader.left());
  return Ok{};
}

Status read_outputs(const Json& root, std::span<const plan::Port> ports, const InferLimits& limits, bool binary,
                    InferRequest* out) {
  if (!given(root, "outputs")) {
    for (size_t k = 0; k < ports.size(); ++k) out->outputs.push_back({k, binary});
    return Ok{};
  }
  PERI_ASSIGN(const Json::Array* list, root.get_array("outputs"));
  PERI_TRY(check_count(list->size(), "outputs", limits));
  std::vector<bool> asked(ports.size());
  for (const Json& json : *list) {
    PERI_TRY(check_tensor(json, "outputs"));
    PERI_ASSIGN(const std::string_view name, json.get_string("name"));
    size_t at = 0;
    if (!find_port(ports, name, &at)) return invalid("unexpected inference output '%s'", shown_name(name).c_str());
    if (asked[at]) return invalid("output '%s' is asked for twice", ports[at].name.c_str());
    asked[at] = true;
    PERI_TRY(check_parameters(json));
    const Json* p = given(json, "parameters");
    PERI_ASSIGN(const bool mine, p ? p->get_bool("binary_data", binary) : Result<bool>(binary));
    PERI_ASSIGN(const int64_t classes, read_classes(json));
    out->outputs.push_back({at, mine, classes});
  }
  if (out->outputs.empty())
    for (size_t k = 0; k < ports.size(); ++k) out->outputs.push_back({k, binary});
  return Ok{};
}

// A number, or the text that a response uses for a value without a JSON number.
Result<double> read_real(const Json& v) {
  if (!v.is_string()) return v.as_double();
  const std::string_view text = *v.as_string();
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  return v.as_double();
}

// One JSON number, boolean or string as element `at`.
Status put_element(const Json& v, const InferLimits& limits, Tensor* t, int64_t at) {
  const DType dtype = t->dtype();
  if (v.kind() == Json::Kind::kDouble && !std::isfinite(*v.as_double()) && !is_float(dtype))
    return invalid("NaN and infinities are no %s", std::string(datatype_name(dtype)).c_str());
  if (dtype == DType::kString) {
    PERI_ASSIGN(const std::string_view s, v.as_string());
    PERI_TRY(check_element(s.size(), limits));
    t->mutable_strings()[static_cast<size_t>(at)] = std::string(s);
  } else if (dtype == DType::kBool) {
    const bool is = v.kind() == Json::Kind::kBool;
    PERI_ASSIGN(const int64_t n, is ? Result<int64_t>(*v.as_bool()) : v.as_int());
    if (n != 0 && n != 1) return invalid("%lld is neither true nor false", static_cast<long long>(n));
    t->set_i64(at, n);
  } else if (dtype == DType::kU64) {
    PERI_ASSIGN(const uint64_t n, v.as_uint());
    t->mutable_as<uint64_t>()[at] = n;
  } else if (is_integer(dtype)) {
    const int bits = dtype_bits(dtype);
    const int64_t most = bits < 64 ? (int64_t{1} << (is_signed(dtype) ? bits - 1 : bits)) - 1 : INT64_MAX;
    const int64_t least = is_signed(dtype) ? ~most : 0;
    const std::string range =
        format("a whole number from %lld to %lld", static_cast<long long>(least), static_cast<long long>(most));
    Result<int64_t> n = v.as_int();
    if (!n.ok()) {
      Error e = std::move(n).error();
      e.expected = range;
      return e;
    }
    if (*n < least || *n > most)
      return invalid("%lld is out of the range of %s", static_cast<long long>(*n),
                     std::string(datatype_name(dtype)).c_str())
          .expecting(range);
    t->set_i64(at, *n);
  } else if (dtype == DType::kF32) {
    PERI_ASSIGN(const double n, read_real(v));
    const auto rounded = static_cast<float>(n);
    if (std::isfinite(n) && !std::isfinite(rounded)) return invalid("%g is out of the range of FP32", n);
    t->mutable_as<float>()[at] = rounded;
  } else {
    PERI_ASSIGN(const double n, read_real(v));
    t->set_f64(at, n);
    if (std::isfinite(n) && !std::isfinite(t->f64(at)))
      return invalid("%g is out of the range of %s", n, std::string(datatype_name(dtype)).c_str());
  }
  return Ok{};
}
}  // namespace

Status check_count(size_t tensors, const char* what, const InferLimits& limits) {
  if (tensors <= limits.tensors) return Ok{};
  return invalid("%zu %s in a request: this server takes %zu (--max-tensors)", tensors, what, limits.tensors);
}

Status check_element(size_t bytes, const InferLimits& limits) {
  if (bytes <= limits.element_bytes) return Ok{};
  return invalid("an element of BYTES has %zu bytes: this server takes %zu (--max-element-bytes)", bytes,
                 limits.element_bytes);
}

Result<Tensor> tensor_of_json(const Json& data, DType dtype, std::vector<int64_t> dims, const InferLimits& limits) {
  PERI_ASSIGN(const int64_t numel, checked_numel(dims));
  const Json::Array& top = data.items();
  if (!data.is_array()) return invalid("'data' is %s, no array", std::string(data.kind_name()).c_str());
  // Memory is allocated only for elements that are present in the text.
  std::vector<std::pair<const Json::Array*, size_t>> open = {{&top, 0}};
  int64_t count = 0;
  while (!open.empty()) {
    auto& [array, at] = open.back();
    if (at == array->size()) {
      open.pop_back();
      continue;
    }
    const Json& v = (*array)[at++];
    if (v.is_array())
      open.emplace_back(&v.items(), 0);
    else
      ++count;
  }
  if (count != numel)
    return invalid("'data' holds %s, the shape %s %lld", counted(count, "element").c_str(), dims_text(dims).c_str(),
                   static_cast<long long>(numel));
  PERI_ASSIGN(Tensor out, Tensor::uninitialized(dtype, std::move(dims)));
  open = {{&top, 0}};
  count = 0;
  while (!open.empty()) {
    auto& [array, at] = open.back();
    if (at == array->size()) {
      open.pop_back();
      continue;
    }
    const Json& v = (*array)[at++];
    if (v.is_array())
      open.emplace_back(&v.items(), 0);
    else
      PERI_TRY(put_element(v, limits, &out, count++));
  }
  return out;
}

Result<std::vector<std::string>> parse_byte_strings(std::span<const std::byte> bytes, int64_t count,
                                                    const InferLimits& limits) {
  std::vector<std::string> out;
  size_t at = 0;
  while (at < bytes.size()) {
    if (bytes.size() - at < 4) return invalid("BYTES end inside a length");
    uint32_t n = 0;
    for (int k = 3; k >= 0; --k) n = n << 8 | static_cast<uint32_t>(bytes[at + static_cast<size_t>(k)]);
    at += 4;
    if (n > bytes.size() - at)
      return invalid("an element of BYTES states %u bytes, %zu are left", n, bytes.size() - at);
    if (static_cast<int64_t>(out.size()) == count) break;
    PERI_TRY(check_element(n, limits));
    out.emplace_back(reinterpret_cast<const char*>(bytes.data()) + at, n);
    at += n;
  }
  if (at != bytes.size() || static_cast<int64_t>(out.size()) != count)
    return invalid("BYTES hold another number of elements than the shape's %lld", static_cast<long long>(count));
  return out;
}

Result<InferRequest> parse_infer(std::span<const std::byte> body, std::shared_ptr<const void> owner,
                                 std::optional<uint64_t> json_bytes, std::span<const plan::Port> inputs,
                                 std::span<const plan::Port> outputs, const InferLimits& limits) {
  if (json_bytes && *json_bytes > body.size())
    return invalid("Inference-Header-Content-Length is %llu, the body has %zu bytes",
                   static_cast<unsigned long long>(*json_bytes), body.size());
  if (json_bytes == uint64_t{0}) return parse_raw(body, std::move(owner), inputs, outputs, limits);
  const size_t head = json_bytes ? static_cast<size_t>(*json_bytes) : body.size();
  const std::string_view text(reinterpret_cast<const char*>(body.data()), head);
  auto read = parse_json(text, {limits.json_depth, limits.json_bytes, limits.json_values, true});
  if (!read.ok() && read.error().kind == ErrorKind::kMemory)
    return Error(ErrorKind::kMemory, read.error().message + " (--max-json-values)");
  if (!read.ok() && read.error().message.starts_with("JSON nests deeper"))
    return Error(ErrorKind::kInvalid, read.error().message + " (--max-json-depth)");
  PERI_ASSIGN(const Json root, std::move(read));
  if (!root.is_object()) return invalid("the request is not a JSON object");
  InferRequest out;
  PERI_ASSIGN(const std::string_view id, root.get_string("id", ""));
  out.id = id;
  bool binary = false;
  PERI_TRY(read_parameters(root, limits, &binary, &out));
  PERI_TRY(read_inputs(root, inputs, limits, Reader(body.subspan(head), std::move(owner), limits), &out));
  PERI_TRY(read_outputs(root, outputs, limits, binary, &out));
  return out;
}

}  // namespace peri::serve
