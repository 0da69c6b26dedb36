// The tensors of a load's requests: seeded by the model's metadata, or of a file in perf_analyzer's JSON.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/dim.hpp"
#include "base/dtype.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/rng.hpp"
#include "base/shell_word.hpp"
#include "serve/load/wire.hpp"

namespace peri::serve {
namespace {

constexpr int64_t kMaxFileBytes = int64_t{1} << 28;
constexpr size_t kMaxValues = size_t{1} << 26;
constexpr size_t kMaxBytes = size_t{1} << 31;  // of all requests together

// Bytes of an element; 0: BYTES or an unknown type.
size_t bytes_of(std::string_view type) {
  if (type == "BOOL" || type == "INT8" || type == "UINT8") return 1;
  if (type == "INT16" || type == "UINT16" || type == "FP16" || type == "BF16") return 2;
  if (type == "INT32" || type == "UINT32" || type == "FP32") return 4;
  return type == "INT64" || type == "UINT64" || type == "FP64" ? 8 : 0;
}

template <class T>
void put(T v, std::string* out) {
  out->append(reinterpret_cast<const char*>(&v), sizeof v);
}

// Floats in [0, 1); integers 0 and 1, which are valid for any index input.
void add_element(std::string_view type, bool zero, Rng* rng, std::string* out) {
  if (type == "BYTES") {
    put<uint32_t>(8, out);
    for (int k = 0; k < 8; ++k) out->push_back(zero ? '0' : static_cast<char>('a' + rng->below(26)));
  } else if (type == "FP32") {
    put(zero ? 0.f : static_cast<float>(rng->uniform()), out);
  } else if (type == "FP64") {
    put(zero ? 0.0 : rng->uniform(), out);
  } else if (type == "FP16" || type == "BF16") {  // [0.5, 1): constant exponent, any fraction
    const int fraction = type == "FP16" ? 10 : 7;
    const int half = type == "FP16" ? 14 : 126;
    put<uint16_t>(zero ? uint16_t{0} : static_cast<uint16_t>(half << fraction | rng->below(int64_t{1} << fraction)),
                  out);
  } else {
    out->push_back(zero ? '\0' : static_cast<char>(rng->below(2)));
    out->append(bytes_of(type) - 1, '\0');
  }
}

// `source`: who gives the shape, for messages.
Result<std::vector<int64_t>> dims_of(const LoadSubject& subject, const Json& input, const std::string& name,
                                     const char* source) {
  PERI_ASSIGN(const auto* shape, input.get_array("shape"));
  std::vector<int64_t> dims;
  for (const Json& d : *shape) {
    PERI_ASSIGN(const int64_t v, d.as_int());
    dims.push_back(v);
  }
  const std::vector<int64_t> stated = dims;
  if (!dims.empty() && dims[0] < 0) dims[0] = subject.batch;
  const auto given = subject.shapes.find(name);
  if (given != subject.shapes.end()) {
    const bool without_batch = given->second.size() + 1 == dims.size();
    if (!without_batch && given->second.size() != dims.size())
      return usage("the shape given for '%s' has another rank than the model's", name.c_str())
          .expecting(std::to_string(dims.size()) + " dims, or one less, without the batch")
          .but_found(std::to_string(given->second.size()));
    std::copy(given->second.begin(), given->second.end(), dims.begin() + (without_batch ? 1 : 0));
    for (size_t axis = 0; axis < dims.size(); ++axis)
      if (stated[axis] >= 0 && dims[axis] != stated[axis])
        return usage("%s gives axis %zu of '%s' another size than the model has", source, axis, name.c_str())
            .expecting(shape_text(Shape(stated.begin(), stated.end())) + ", -1 for any size")
            .but_found(shape_text(Shape(dims.begin(), dims.end())));
    if (!without_batch && !dims.empty() && stated[0] < 0 && subject.batch_given && dims[0] != subject.batch)
      return usage("%s gives '%s' %lld rows, and --batch-size is %lld", source, name.c_str(),
                   static_cast<long long>(dims[0]), static_cast<long long>(subject.batch))
          .advise("leave one of them out");
  }
  for (const int64_t d : dims)
    if (d < 0)
      return usage("the input '%s' has open dims", name.c_str())
          .advise("give them: --shape " + shell_word(name + ":DIM,DIM,..."));
  return dims;
}

Result<bool> is_batched(const Json& input) {
  PERI_ASSIGN(const auto* shape, input.get_array("shape"));
  if (shape->empty()) return false;
  PERI_ASSIGN(const int64_t first, (*shape)[0].as_int());
  return first < 0;
}

// An input of the metadata, without values.
Result<LoadTensor> empty_tensor(const LoadSubject& subject, const Json& input, const char* source) {
  PERI_ASSIGN(const std::string_view name, input.get_string("name"));
  PERI_ASSIGN(const std::string_view type, input.get_string("datatype"));
  if (bytes_of(type) == 0 && type != "BYTES")
    return unsupported("the input '%s' is of a type that is not known: %s", std::string(name).c_str(),
                       std::string(type).c_str());
  LoadTensor made{std::string(name), std::string(type), {}, {}};
  PERI_ASSIGN(made.dims, dims_of(subject, input, made.name, source));
  PERI_ASSIGN(made.batched, is_batched(input));
  double elements = 1;
  for (const int64_t d : made.dims) elements *= static_cast<double>(d);
  if (elements > double{1 << 28}) return usage("the input '%s' would be larger than 2^28 elements", made.name.c_str());
  return made;
}

int64_t elements_of(const LoadTensor& t) {
  return std::accumulate(t.dims.begin(), t.dims.end(), int64_t{1}, std::multiplies<>());
}

Result<std::vector<LoadTensor>> seeded_tensors(const LoadSubject& subject, const Json::Array& inputs) {
  Rng rng(subject.seed);
  std::vector<LoadTensor> out;
  for (const Json& input : inputs) {
    PERI_ASSIGN(LoadTensor made, empty_tensor(subject, input, "--shape"));
    for (int64_t k = 0; k < elements_of(made); ++k) add_element(made.type, subject.zeros, &rng, &made.bytes);
    out.push_back(std::move(made));
  }
  return out;
}

template <class T>
Status put_integer(const Json& v, std::string* out) {
  if constexpr (std::is_same_v<T, uint64_t>) {
    PERI_ASSIGN(const uint64_t n, v.as_uint());
    put(n, out);
  } else {
    PERI_ASSIGN(const int64_t n, v.as_int());
    if (n < static_cast<int64_t>(std::numeric_limits<T>::min()) ||
        n > static_cast<int64_t>(std::numeric_limits<T>::max()))
      return invalid("the value is outside its type").but_found(std::to_string(n));
    put(static_cast<T>(n), out);
  }
  return Ok{};
}

// Texts stand for values that JSON lacks, as a server takes them.
Result<double> real_of(const Json& v) {
  if (const auto text = v.as_string(); text.ok())
    for (const auto& [word, x] : {std::pair<std::string_view, double>{"NaN", std::numeric_limits<double>::quiet_NaN()},
                                  {"Infinity", std::numeric_limits<double>::infinity()},
                                  {"-Infinity", -std::numeric_limits<double>::infinity()}})
      if (*text == word) return x;
  return v.as_double();
}

Status put_real(const Json& v, std::string_view type, std::string* out) {
  PERI_ASSIGN(const double x, real_of(v));
  const auto f = static_cast<float>(x);
  if (type == "FP64") put(x, out);
  if (type == "FP32") put(f, out);
  if (type == "FP16") put(f32_to_f16(f), out);
  if (type == "BF16") put(f32_to_bf16(f), out);
  return Ok{};
}

// Adds a value, or the values of nested lists in their order. Recursion is bounded: the parser limits nesting.
Status put_values(const Json& v, std::string_view type, int64_t* count, std::string* out) {
  if (v.is_array()) {
    for (const Json& inner : v.items()) PERI_TRY(put_values(inner, type, count, out));
    return Ok{};
  }
  ++*count;
  if (type == "BYTES") {
    PERI_ASSIGN(const std::string_view text, v.as_string());
    put(static_cast<uint32_t>(text.size()), out);
    out->append(text);
    return Ok{};
  }
  if (const auto flag = v.as_bool(); type == "BOOL" && flag.ok()) {
    out->push_back(*flag ? '\1' : '\0');
    return Ok{};
  }
  if (type == "BOOL") {
    PERI_ASSIGN(const int64_t n, v.as_int());
    out->push_back(n != 0 ? '\1' : '\0');
    return Ok{};
  }
  if (type == "INT8") return put_integer<int8_t>(v, out);
  if (type == "UINT8") return put_integer<uint8_t>(v, out);
  if (type == "INT16") return put_integer<int16_t>(v, out);
  if (type == "UINT16") return put_integer<uint16_t>(v, out);
  if (type == "INT32") return put_integer<int32_t>(v, out);
  if (type == "UINT32") return put_integer<uint32_t>(v, out);
  if (type == "INT64") return put_integer<int64_t>(v, out);
  if (type == "UINT64") return put_integer<uint64_t>(v, out);
  return put_real(v, type, out);
}

Result<std::string> decoded_base64(std::string_view text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string out;
  uint32_t bits = 0;
  int held = 0;
  for (const char c : text) {
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return invalid("'b64' is not base64").but_found(std::string(1, c));
    bits = bits << 6 | static_cast<uint32_t>(digit);
    held += 6;
    if (held < 8) continue;
    held -= 8;
    out.push_back(static_cast<char>(bits >> held & 255));
  }
  return out;
}

// One input of an item: a list of values, or an object with content or b64, and a shape.
Result<LoadTensor> tensor_of_item(LoadSubject subject, const Json& input, const Json& value) {
  PERI_ASSIGN(const std::string_view name, input.get_string("name"));
  if (!value.is_array() && !value.is_object())
    return invalid("the value is neither a list nor an object").but_found(value.kind_name());
  if (const Json* const shape = value.find("shape")) {
    std::vector<int64_t>& dims = subject.shapes[std::string(name)];
    PERI_ASSIGN(const auto* list, shape->as_array());
    dims.clear();
    for (const Json& d : *list) {
      PERI_ASSIGN(const int64_t v, d.as_int());
      if (v < 0) return invalid("'shape' has a negative dimension");
      dims.push_back(v);
    }
  }
  subject.batch = 1;
  PERI_ASSIGN(LoadTensor out, empty_tensor(subject, input, "--input-data"));
  const int64_t wanted = elements_of(out);
  int64_t count = 0;
  if (const Json* const b64 = value.find("b64")) {
    PERI_ASSIGN(const std::string_view text, b64->as_string());
    PERI_ASSIGN(out.bytes, decoded_base64(text));
    const size_t each = bytes_of(out.type);
    if (each > 0 && out.bytes.size() != static_cast<size_t>(wanted) * each)
      return invalid("'b64' holds other bytes than the input takes")
          .expecting(std::to_string(wanted * static_cast<int64_t>(each)))
          .but_found(std::to_string(out.bytes.size()));
    if (each > 0) return out;
    std::string size;
    put(static_cast<uint32_t>(out.bytes.size()), &size);
    out.bytes.insert(0, size);
    count = 1;
  } else {
    const Json* const content = value.is_array() ? &value : value.find("content");
    if (!content) return invalid("the object has neither 'content' nor 'b64'");
    PERI_TRY(put_values(*content, out.type, &count, &out.bytes));
  }
  if (count != wanted)
    return invalid("the input takes other elements than these")
        .expecting(std::to_string(wanted) + " for " + shape_text(Shape(out.dims.begin(), out.dims.end())))
        .but_found(std::to_string(count));
  return out;
}

Result<std::vector<LoadTensor>> tensors_of_item(const LoadSubject& subject, const Json::Array& inputs,
                                                const Json& item) {
  if (item.is_array())
    return unsupported("a list in 'data' is the requests of one sequence, and those here take the items in turn")
        .advise("give the items of the list one by one, and --sequence-length N");
  PERI_ASSIGN(const auto* members, item.as_object());
  std::vector<LoadTensor> out;
  std::string names;
  for (const Json& input : inputs) {
    PERI_ASSIGN(const std::string_view name, input.get_string("name"));
    names += (names.empty() ? "" : ", ") + std::string(name);
    const Json* const value = item.find(name);
    if (!value) return invalid("the input '%s' is not given", std::string(name).c_str());
    auto made = tensor_of_item(subject, input, *value);
    if (!made.ok()) return std::move(made).error().at_node(std::string(name));
    out.push_back(std::move(*made));
  }
  for (const Json::Member& m : *members)
    if (std::none_of(out.begin(), out.end(), [&](const LoadTensor& t) { return t.name == m.key; }))
      return invalid("'%s' is not an input of the model", m.key.c_str()).expecting(names);
  return out;
}

// Appends the rows of an item.
Status join_rows(const std::vector<LoadTensor>& more, std::vector<LoadTensor>* out) {
  for (size_t k = 0; k < more.size(); ++k) {
    LoadTensor& t = (*out)[k];
    if (!t.batched)
      return usage("--batch-size is for models that take any number of rows, and '%s' has a fixed size", t.name.c_str())
          .advise("leave it out");
    if (!std::equal(t.dims.begin() + 1, t.dims.end(), more[k].dims.begin() + 1, more[k].dims.end()))
      return usage("the items of a batch give '%s' unlike shapes", t.name.c_str()).advise("leave --batch-size out");
    t.dims[0] += more[k].dims[0];
    t.bytes += more[k].bytes;
  }
  return Ok{};
}

Result<std::vector<std::vector<LoadTensor>>> tensors_of_file(const LoadSubject& subject, const Json::Array& inputs) {
  PERI_ASSIGN(const std::string text, read_file(subject.data_file, kMaxFileBytes));
  PERI_ASSIGN(const Json file, parse_json(text, {64, static_cast<size_t>(kMaxFileBytes), kMaxValues, true}));
  PERI_ASSIGN(const auto* items, file.get_array("data"));
  if (items->empty()) return invalid("'data' is empty").expecting("an object of inputs for each request");
  if (file.find("validation_data"))
    return unsupported("answers are not compared with 'validation_data'").advise("take it out");
  std::vector<std::vector<LoadTensor>> all;
  size_t bytes = 0;
  for (size_t k = 0; k < items->size(); ++k) {
    auto made = tensors_of_item(subject, inputs, (*items)[k]);
    if (!made.ok()) {
      Error e = std::move(made).error();
      e.message = format("item %zu of 'data': ", k) + e.message;
      return e;
    }
    for (const LoadTensor& t : *made) bytes += t.bytes.size() * static_cast<size_t>(subject.batch);
    if (bytes > kMaxBytes) return usage("the requests of --input-data take more than 2 GiB");
    all.push_back(std::move(*made));
  }
  if (subject.batch == 1) return all;
  const size_t batch = static_cast<size_t>(subject.batch), n = all.size();
  std::vector<std::vector<LoadTensor>> out;  // each row as often as any other
  for (size_t k = 0; k < n / std::gcd(n, batch); ++k) {
    out.push_back(all[k * batch % n]);
    for (size_t row = 1; row < batch; ++row) PERI_TRY(join_rows(all[(k * batch + row) % n], &out.back()));
  }
  return out;
}
}  // namespace

Result<std::vector<std::vector<LoadTensor>>> tensors_of(const LoadSubject& subject, std::string_view json) {
  PERI_ASSIGN(const Json model, parse_json(json));
  PERI_ASSIGN(const auto* inputs, model.get_array("inputs"));
  auto unused = subject.shapes;
  for (const Json& input : *inputs) {
    PERI_ASSIGN(const std::string_view name, input.get_string("name"));
    unused.erase(std::string(name));
  }
  if (!unused.empty())
    return usage("--shape names '%s', which is not an input of the model", unused.begin()->first.c_str());
  if (!subject.data_file.empty()) {
    auto made = tensors_of_file(subject, *inputs);
    if (!made.ok()) return std::move(made).error().in_file(subject.data_file);
    return made;
  }
  PERI_ASSIGN(std::vector<LoadTensor> out, seeded_tensors(subject, *inputs));
  if (subject.batch_given && subject.batch != 1 &&
      std::none_of(out.begin(), out.end(), [](const LoadTensor& t) { return t.batched; }))
    return usage("--batch-size is for models that take any number of rows, and this one has fixed sizes")
        .but_found(std::to_string(subject.batch))
        .advise("leave it out");
  return std::vector<std::vector<LoadTensor>>{std::move(out)};
}

int64_t rows_of(const std::vector<LoadTensor>& tensors) {
  for (const LoadTensor& t : tensors)
    if (t.batched) return t.dims[0];
  return 1;
}

}  // namespace peri::serve
