// One safetensors file: the header as events (a tree of it could be ten times the file), then the checks on the whole.
#include "hf/safetensors.hpp"

#include <algorithm>
#include <set>

#include "base/json.hpp"
#include "base/plural.hpp"

namespace peri::hf {

namespace {

constexpr uint64_t kMaxHeaderBytes = 100000000;
constexpr size_t kMaxTensors = 500000;
constexpr size_t kMaxRank = 64;
constexpr size_t kMaxMetadata = 100000;

Result<DType> dtype_of(std::string_view name) {
  static constexpr struct {
    std::string_view name;
    DType dtype;
  } kTypes[] = {{"BOOL", DType::kBool},
                {"U8", DType::kU8},
                {"I8", DType::kI8},
                {"F8_E5M2", DType::kF8E5M2},
                {"F8_E4M3", DType::kF8E4M3FN},
                {"F8_E8M0", DType::kF8E8M0},
                {"I16", DType::kI16},
                {"U16", DType::kU16},
                {"F16", DType::kF16},
                {"BF16", DType::kBF16},
                {"I32", DType::kI32},
                {"U32", DType::kU32},
                {"F32", DType::kF32},
                {"F64", DType::kF64},
                {"I64", DType::kI64},
                {"U64", DType::kU64},
                {"F4", DType::kF4E2M1},
                {"F6_E2M3", DType::kF6E2M3},
                {"F6_E3M2", DType::kF6E3M2},
                {"C64", DType::kC64}};
  for (const auto& t : kTypes)
    if (t.name == name) return t.dtype;
  return invalid("unknown dtype").but_found("\"" + std::string(name.substr(0, 40)) + "\"");
}

// {"NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ..., "__metadata__": {"key": "text", ...}}
class HeaderEvents : public JsonEvents {
 public:
  std::vector<TensorInfo> tensors;

  Status on_key(std::string key) override {
    if (depth_ == 1) {
      metadata_ = key == "__metadata__";
      if (metadata_ && has_metadata_) return invalid("duplicate key").at_node(key);
      if (metadata_) {
        has_metadata_ = true;
        return Ok{};
      }
      if (tensors.size() == kMaxTensors) return Error(ErrorKind::kMemory, format("more than %zu tensors", kMaxTensors));
      tensors.emplace_back().name = std::move(key);
      has_dtype_ = has_shape_ = has_offsets_ = false;
      return Ok{};
    }
    if (metadata_ && metadata_keys_.size() == kMaxMetadata)
      return Error(ErrorKind::kMemory, format("more than %zu entries", kMaxMetadata)).at_node("__metadata__");
    if (metadata_) return metadata_keys_.insert(key).second ? Status(Ok{}) : invalid("duplicate key").at_node(key);
    const bool known = key == "dtype" || key == "shape" || key == "data_offsets";
    if (!known) return at(invalid("unknown field").but_found("\"" + key.substr(0, 40) + "\""));
    field_ = std::move(key);
    bool& seen = field_ == "dtype" ? has_dtype_ : field_ == "shape" ? has_shape_ : has_offsets_;
    if (seen) return at(invalid("field \"%s\" stands twice", field_.c_str()));
    seen = true;
    return Ok{};
  }

  Status on_begin(bool object) override {
    ++depth_;
    if (depth_ == 1) return object ? Status(Ok{}) : invalid("header is not an object");
    if (depth_ == 2 && object) return Ok{};
    if (depth_ == 3 && !object && !metadata_ && field_ != "dtype") {
      numbers_.clear();
      return Ok{};
    }
    return at(invalid("value of another kind than the format says"));
  }

  Status on_end(bool) override {
    --depth_;
    if (depth_ == 2) return end_list();
    if (depth_ == 1 && !metadata_ && !(has_dtype_ && has_shape_ && has_offsets_))
      return at(invalid("field is missing").expecting("dtype, shape and data_offsets"));
    return Ok{};
  }

  Status on_scalar(Json value) override {
    if (metadata_) {
      if (depth_ == 2 && value.is_string()) return Ok{};
      return invalid("wrong kind of value").at_node("__metadata__").expecting("an object of strings");
    }
    if (depth_ == 2 && field_ == "dtype" && value.is_string()) {
      Result<DType> dtype = dtype_of(value.as_string().value());
      if (!dtype.ok()) return at(std::move(dtype).error());
      tensors.back().dtype = *dtype;
      return Ok{};
    }
    if (depth_ != 3) return at(invalid("value of another kind than the format says"));
    Result<int64_t> number = value.as_int();
    if (!number.ok() || *number < 0 || value.kind() == Json::Kind::kDouble)
      return at(invalid("\"%s\" holds what is not a size", field_.c_str()).expecting("integers from 0 to 2^63-1"));
    if (numbers_.size() == kMaxRank) return at(invalid("\"%s\" has more than %zu numbers", field_.c_str(), kMaxRank));
    numbers_.push_back(*number);
    return Ok{};
  }

 private:
  Error at(Error e) const {
    return std::move(e).at_node(metadata_ || tensors.empty() ? "__metadata__" : tensors.back().name.substr(0, 200));
  }
  Status end_list() {
    TensorInfo& t = tensors.back();
    if (field_ == "shape") {
      t.shape = numbers_;
      return Ok{};
    }
    if (numbers_.size() != 2) return at(invalid("\"data_offsets\" has %zu numbers", numbers_.size()).expecting("2"));
    if (numbers_[1] < numbers_[0]) return at(invalid("tensor ends before it begins"));
    t.offset = static_cast<uint64_t>(numbers_[0]);
    t.size = static_cast<uint64_t>(numbers_[1] - numbers_[0]);
    return Ok{};
  }

  int depth_ = 0;
  bool metadata_ = false, has_metadata_ = false;
  bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false;
  std::string field_;
  std::vector<int64_t> numbers_;
  std::set<std::string> metadata_keys_;
};

Status check_size(const TensorInfo& t) {
  int64_t count = 1;
  bool empty = false;
  for (const int64_t d : t.shape) empty |= d == 0;
  for (const int64_t d : t.shape)
    if (!empty && __builtin_mul_overflow(count, d, &count))
      return invalid("shape has more than 2^63-1 elements").at_node(t.name);
  if (empty) count = 0;
  Result<int64_t> bytes = dtype_bytes(t.dtype, count);
  if (!bytes.ok()) return std::move(bytes).error().at_node(t.name);
  if (const int bits = dtype_bits(t.dtype); bits < 8 && count % 8 * bits % 8 != 0)
    return invalid("%lld elements of %d bits do not end with a byte", static_cast<long long>(count), bits)
        .at_node(t.name);
  if (static_cast<uint64_t>(*bytes) == t.size) return Ok{};
  return invalid("size differs from shape and dtype")
      .at_node(t.name)
      .expecting(counted(*bytes, "byte"))
      .but_found(format("%llu", static_cast<unsigned long long>(t.size)));
}

Status check_places(std::vector<TensorInfo>& tensors, uint64_t data_bytes) {
  std::vector<std::string_view> names;
  for (const TensorInfo& t : tensors) names.push_back(t.name);
  std::sort(names.begin(), names.end());
  if (auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
    return invalid("tensor name stands twice").at_node(twice->substr(0, 200));
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::pair(a.offset, a.size) < std::pair(b.offset, b.size);
  });
  uint64_t end = 0;
  for (const TensorInfo& t : tensors) {
    if (t.offset != end)
      return invalid(t.offset < end ? "tensors overlap" : "hole before the tensor")
          .at_node(t.name)
          .expecting(format("offset %llu", static_cast<unsigned long long>(end)))
          .but_found(format("%llu", static_cast<unsigned long long>(t.offset)));
    end += t.size;  // both below 2^63
    if (end > data_bytes) return invalid("tensor lies beyond the end of the file").at_node(t.name);
    PERI_TRY(check_size(t));
  }
  if (end == data_bytes) return Ok{};
  return invalid("bytes after the last tensor")
      .expecting(format("%llu bytes of data", static_cast<unsigned long long>(end)))
      .but_found(format("%llu", static_cast<unsigned long long>(data_bytes)));
}

}  // namespace

Result<std::vector<TensorInfo>> parse_safetensors(std::span<const std::byte> file) {
  if (file.size() < 8) return invalid("too short for a safetensors file: %zu bytes", file.size());
  // An untrusted folder may link to any file of the user's: what is no safetensors file is not quoted.
  uint64_t header = 0;
  for (int i = 7; i >= 0; --i) header = header << 8 | static_cast<uint64_t>(file[static_cast<size_t>(i)]);
  if (header > kMaxHeaderBytes)
    return invalid("header is too long, or this is not a safetensors file")
        .expecting("at most 100000000 bytes")
        .but_found("more");
  if (header > file.size() - 8) return invalid("header reaches beyond the end of the file");
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + 8, static_cast<size_t>(header));
  if (text.empty() || text[0] != '{') return invalid("header does not begin with '{'");
  JsonLimits limits;
  limits.max_depth = 3;
  limits.max_nodes = kMaxHeaderBytes;  // events are not kept
  HeaderEvents events;
  if (Status parsed = parse_json_events(text, limits, events); !parsed.ok()) {
    Error e = std::move(parsed).error();
    if (e.found.starts_with("near")) e.found.clear();
    return e;
  }
  const uint64_t data = 8 + header;
  PERI_TRY(check_places(events.tensors, file.size() - data));
  for (TensorInfo& t : events.tensors) t.offset += data;
  return std::move(events.tensors);
}

}  // namespace peri::hf
