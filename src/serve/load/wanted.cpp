// What cannot be read as an answer differs, too.
#include "serve/load/wanted.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>

#include "base/dtype.hpp"
#include "serve/load/values.hpp"

namespace peri::serve {
namespace {

constexpr double kMaxRelative = 1e-3, kMaxAbsolute = 1e-5;
constexpr size_t kMaxShown = 60;  // of a text

template <class T>
T value_at(std::string_view bytes, size_t k) {
  T v;
  std::memcpy(&v, bytes.data() + k * sizeof v, sizeof v);
  return v;
}

DType float_type(std::string_view type) {
  return type == "FP32"   ? DType::kF32
         : type == "FP64" ? DType::kF64
         : type == "FP16" ? DType::kF16
         : type == "BF16" ? DType::kBF16
                          : DType::kInvalid;
}

double real_at(DType type, std::string_view bytes, size_t k) {
  if (type == DType::kF64) return value_at<double>(bytes, k);
  if (type == DType::kF32) return static_cast<double>(value_at<float>(bytes, k));
  const auto half = value_at<uint16_t>(bytes, k);
  return static_cast<double>(type == DType::kF16 ? f16_to_f32(half) : bf16_to_f32(half));
}

bool near(double want, double got, DType type) {
  if (want == got || (std::isnan(want) && std::isnan(got))) return true;
  return std::isfinite(want) && std::isfinite(got) &&
         std::fabs(want - got) <= kMaxAbsolute + std::max(kMaxRelative, 4 * unit_roundoff(type)) * std::fabs(want);
}

std::string integer_at(std::string_view type, std::string_view bytes, size_t k) {
  if (type == "INT8") return std::to_string(value_at<int8_t>(bytes, k));
  if (type == "INT16") return std::to_string(value_at<int16_t>(bytes, k));
  if (type == "INT32") return std::to_string(value_at<int32_t>(bytes, k));
  if (type == "INT64") return std::to_string(value_at<int64_t>(bytes, k));
  if (type == "UINT16") return std::to_string(value_at<uint16_t>(bytes, k));
  if (type == "UINT32") return std::to_string(value_at<uint32_t>(bytes, k));
  if (type == "UINT64") return std::to_string(value_at<uint64_t>(bytes, k));
  return std::to_string(value_at<uint8_t>(bytes, k));  // BOOL and UINT8
}

// The texts of the binary form, each behind its size; false: they are not whole.
bool split_texts(std::string_view bytes, std::vector<std::string_view>* out) {
  while (!bytes.empty()) {
    if (bytes.size() < sizeof(uint32_t)) return false;
    const size_t size = value_at<uint32_t>(bytes, 0);
    bytes.remove_prefix(sizeof(uint32_t));
    if (size > bytes.size()) return false;
    out->push_back(bytes.substr(0, size));
    bytes.remove_prefix(size);
  }
  return true;
}

std::string element_differs(size_t k, const std::string& want, const std::string& got) {
  return format("element %zu: expected ", k) + want + ", found " + got;
}

std::string texts_differ(std::string_view want, std::string_view got) {
  std::vector<std::string_view> wanted, found;
  if (!split_texts(want, &wanted) || !split_texts(got, &found)) return "texts that are not whole";
  if (wanted.size() != found.size()) return format("expected %zu elements, found %zu", wanted.size(), found.size());
  for (size_t k = 0; k < wanted.size(); ++k)
    if (wanted[k] != found[k])
      return element_differs(k, "'" + std::string(wanted[k].substr(0, kMaxShown)) + "'",
                             "'" + std::string(found[k].substr(0, kMaxShown)) + "'");
  return "";
}

std::string values_differ(const LoadTensor& want, const AnswerTensor& got) {
  if (got.type != want.type) return "expected " + want.type + ", found " + got.type;
  if (want.type == "BYTES") return texts_differ(want.bytes, got.bytes);
  const size_t each = bytes_of(want.type), n = want.bytes.size() / each;
  if (got.bytes.size() != want.bytes.size())
    return format("expected %zu elements, found %zu", n, got.bytes.size() / each);
  const DType type = float_type(want.type);
  for (size_t k = 0; k < n; ++k) {
    if (type == DType::kInvalid) {
      if (want.bytes.compare(k * each, each, got.bytes.substr(k * each, each)) != 0)
        return element_differs(k, integer_at(want.type, want.bytes, k), integer_at(want.type, got.bytes, k));
    } else if (!near(real_at(type, want.bytes, k), real_at(type, got.bytes, k), type)) {
      return element_differs(k, format("%.9g", real_at(type, want.bytes, k)),
                             format("%.9g", real_at(type, got.bytes, k)));
    }
  }
  return "";
}

// The outputs of an answer in JSON, whose binary ones lie behind it. `made`: the bytes of those in JSON.
Status read_answer(const Json& json, std::string_view binary, std::deque<std::string>* made,
                   std::vector<AnswerTensor>* out) {
  PERI_ASSIGN(const auto* outputs, json.get_array("outputs"));
  for (const Json& output : *outputs) {
    PERI_ASSIGN(const std::string_view name, output.get_string("name"));
    PERI_ASSIGN(const std::string_view type, output.get_string("datatype"));
    AnswerTensor t{std::string(name), std::string(type), {}};
    if (const Json* const data = output.find("data")) {
      int64_t count = 0;
      PERI_TRY(put_values(*data, type, &count, &made->emplace_back()));
      t.bytes = made->back();
    } else {
      PERI_ASSIGN(const Json* parameters, output.get("parameters"));
      PERI_ASSIGN(const int64_t size, parameters->get_int("binary_data_size"));
      if (size < 0 || static_cast<size_t>(size) > binary.size()) return invalid("fewer bytes than the outputs have");
      t.bytes = binary.substr(0, static_cast<size_t>(size));
      binary.remove_prefix(static_cast<size_t>(size));
    }
    out->push_back(std::move(t));
  }
  return Ok{};
}
}  // namespace

std::string differs(std::span<const LoadTensor> wanted, std::span<const AnswerTensor> got) {
  for (const LoadTensor& want : wanted) {
    const auto it = std::find_if(got.begin(), got.end(), [&](const AnswerTensor& t) { return t.name == want.name; });
    const std::string how = it == got.end() ? "it is not in the answer" : values_differ(want, *it);
    if (!how.empty()) return "output '" + want.name + "': " + how;
  }
  return "";
}

std::string http_differs(std::span<const LoadTensor> wanted, std::string_view body, size_t json_bytes) {
  if (json_bytes > body.size()) return "the answer is shorter than it says";
  const size_t size = json_bytes > 0 ? json_bytes : body.size();
  const auto json = parse_json(body.substr(0, size), {64, body.size(), body.size(), true});
  std::deque<std::string> made;
  std::vector<AnswerTensor> got;
  const Status read = json.ok() ? read_answer(*json, body.substr(size), &made, &got) : Status(json.error());
  return read.ok() ? differs(wanted, got) : "the answer cannot be read: " + read.error().text();
}

}  // namespace peri::serve
