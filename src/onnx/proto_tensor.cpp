// Reads TensorProto and SparseTensorProto, decodes their typed fields, and writes a TensorProto.
#include <algorithm>
#include <bit>
#include <cstring>

#include <onnx-ml.pb.h>
#include "base/dim.hpp"
#include "base/plural.hpp"
#include "onnx/proto_fields.hpp"
#include "onnx/proto_reader.hpp"

namespace peri::onnx {

namespace pb = ::onnx;
using P = pb::TensorProto;

namespace {
constexpr size_t kMaxRank = 64;

struct TypeRow {
  int32_t onnx;
  DType dtype;
  int field;  // the typed field that holds it
};
constexpr TypeRow kTypes[] = {
    {P::FLOAT, DType::kF32, P::kFloatDataFieldNumber},
    {P::UINT8, DType::kU8, P::kInt32DataFieldNumber},
    {P::INT8, DType::kI8, P::kInt32DataFieldNumber},
    {P::UINT16, DType::kU16, P::kInt32DataFieldNumber},
    {P::INT16, DType::kI16, P::kInt32DataFieldNumber},
    {P::INT32, DType::kI32, P::kInt32DataFieldNumber},
    {P::INT64, DType::kI64, P::kInt64DataFieldNumber},
    {P::STRING, DType::kString, P::kStringDataFieldNumber},
    {P::BOOL, DType::kBool, P::kInt32DataFieldNumber},
    {P::FLOAT16, DType::kF16, P::kInt32DataFieldNumber},
    {P::DOUBLE, DType::kF64, P::kDoubleDataFieldNumber},
    {P::UINT32, DType::kU32, P::kUint64DataFieldNumber},
    {P::UINT64, DType::kU64, P::kUint64DataFieldNumber},
    {P::COMPLEX64, DType::kC64, P::kFloatDataFieldNumber},
    {P::COMPLEX128, DType::kC128, P::kDoubleDataFieldNumber},
    {P::BFLOAT16, DType::kBF16, P::kInt32DataFieldNumber},
    {P::FLOAT8E4M3FN, DType::kF8E4M3FN, P::kInt32DataFieldNumber},
    {P::FLOAT8E4M3FNUZ, DType::kF8E4M3FNUZ, P::kInt32DataFieldNumber},
    {P::FLOAT8E5M2, DType::kF8E5M2, P::kInt32DataFieldNumber},
    {P::FLOAT8E5M2FNUZ, DType::kF8E5M2FNUZ, P::kInt32DataFieldNumber},
    {P::UINT4, DType::kU4, P::kInt32DataFieldNumber},
    {P::INT4, DType::kI4, P::kInt32DataFieldNumber},
    {P::FLOAT4E2M1, DType::kF4E2M1, P::kInt32DataFieldNumber},
    {P::FLOAT8E8M0, DType::kF8E8M0, P::kInt32DataFieldNumber},
    {P::UINT2, DType::kU2, P::kInt32DataFieldNumber},
    {P::INT2, DType::kI2, P::kInt32DataFieldNumber},
    {P::FLOAT6E2M3, DType::kF6E2M3, P::kInt32DataFieldNumber},
    {P::FLOAT6E3M2, DType::kF6E3M2, P::kInt32DataFieldNumber},
};

Status read_external(const Field& f, const char* base, TensorRecord* t) {
  Body body;
  PERI_TRY(take_bytes(f, &body, "external_data"));
  std::string_view key, value;
  PERI_TRY(each_field(body, base, [&](const Field& x) -> Status {
    using E = pb::StringStringEntryProto;
    if (x.number == E::kKeyFieldNumber) return take_name(x, &key, "external_data.key");
    if (x.number == E::kValueFieldNumber) return take_name(x, &value, "external_data.value");
    return Ok{};
  }));
  for (const auto& [known, unused] : t->external_data)
    if (known == key) return invalid("external_data has the key '%s' twice", std::string(key).c_str());
  return take_one(&t->external_data, {key, value}, 64, "external_data");
}

Status count(const Field& f, WireType element, size_t width, int64_t* n, const char* what) {
  if (f.type == element) {
    ++*n;
    return Ok{};
  }
  if (f.type != WireType::kBytes || (width && f.bytes.size() % width)) return wrong_wire(what);
  *n += width ? static_cast<int64_t>(f.bytes.size() / width) : count_varints(f.bytes);
  return Ok{};
}

Status read_tensor_field(const Field& f, const char* base, TensorRecord* t) {
  switch (f.number) {
    case P::kDimsFieldNumber: return take_ints(f, &t->dims, base, kMaxRank, "tensor.dims");
    case P::kDataTypeFieldNumber: return take_int32(f, &t->data_type, "tensor.data_type");
    case P::kNameFieldNumber: return take_name(f, &t->name, "tensor.name");
    case P::kSegmentFieldNumber: t->segmented = true; return Ok{};
    case P::kRawDataFieldNumber: {
      std::string_view raw;
      PERI_TRY(take_bytes(f, &raw, "tensor.raw_data"));
      t->raw = raw;
      return Ok{};
    }
    case P::kFloatDataFieldNumber: return count(f, WireType::kFixed32, 4, &t->float_count, "tensor.float_data");
    case P::kDoubleDataFieldNumber: return count(f, WireType::kFixed64, 8, &t->double_count, "tensor.double_data");
    case P::kInt32DataFieldNumber: return count(f, WireType::kVarint, 0, &t->int32_count, "tensor.int32_data");
    case P::kInt64DataFieldNumber: return count(f, WireType::kVarint, 0, &t->int64_count, "tensor.int64_data");
    case P::kUint64DataFieldNumber: return count(f, WireType::kVarint, 0, &t->uint64_count, "tensor.uint64_data");
    case P::kStringDataFieldNumber:
      if (f.type != WireType::kBytes) return wrong_wire("tensor.string_data");
      ++t->string_count;
      return Ok{};
    case P::kExternalDataFieldNumber: return read_external(f, base, t);
    case P::kDataLocationFieldNumber: {
      int64_t where = 0;
      PERI_TRY(take_int(f, &where, "tensor.data_location"));
      if (where != P::DEFAULT && where != P::EXTERNAL)
        return invalid("a tensor has the unknown data_location %lld", static_cast<long long>(where));
      t->external = where == P::EXTERNAL;
      return Ok{};
    }
    default: return Ok{};
  }
}

// Writes elements as they come, never past the end.
struct Filler {
  std::byte* at;
  std::byte* end;
  size_t width;  // bytes of one stored element; low bytes of the number
  int bits = 0;  // 6: each number holds one element of six bits, stored without gaps
  bool past = false;
  uint64_t rest = 0;
  int rest_bits = 0;

  void put(uint64_t v) {
    if (bits == 6) return put_six(v);
    if (static_cast<size_t>(end - at) < width) {
      past = true;
      return;
    }
    std::memcpy(at, &v, width);
    at += width;
  }
  void put_six(uint64_t v) {
    rest |= (v & 63) << rest_bits;
    rest_bits += 6;
    if (rest_bits >= 8) flush();
  }
  // What is left of elements without gaps, at their end too.
  void flush() {
    if (rest_bits == 0) return;
    if (at == end) {
      past = true;
      return;
    }
    *at++ = static_cast<std::byte>(rest & 255);
    rest >>= 8;
    rest_bits = std::max(0, rest_bits - 8);
  }
  void put_all(std::string_view raw) {
    if (static_cast<size_t>(end - at) < raw.size()) {
      past = true;
      return;
    }
    if (!raw.empty()) std::memcpy(at, raw.data(), raw.size());
    at += raw.size();
  }
};

Status fill(const Field& f, const char* base, bool fixed, Filler* out) {
  if (f.type != WireType::kBytes) {
    out->put(f.scalar);
    return Ok{};
  }
  if (fixed) {
    out->put_all(f.bytes);
    return Ok{};
  }
  WireReader r(f.bytes, base);
  uint64_t v = 0;
  while (!r.at_end() && r.varint(&v)) out->put(v);
  return r.status();
}

Result<Tensor> decode_strings(const TensorRecord& t, const char* base) {
  std::vector<std::string> values;
  values.reserve(static_cast<size_t>(t.string_count));
  PERI_TRY(each_field(t.body, base, [&](const Field& f) -> Status {
    if (f.number == P::kStringDataFieldNumber) values.emplace_back(f.bytes);
    return Ok{};
  }));
  return Tensor::strings(t.dims, std::move(values));
}

void put_varint(std::string* out, uint64_t v) {
  for (; v >= 0x80; v >>= 7) *out += static_cast<char>(v | 0x80);
  *out += static_cast<char>(v);
}
void put_tag(std::string* out, int number, WireType type) {
  put_varint(out, static_cast<uint64_t>(number) << 3 | static_cast<uint64_t>(type));
}
void put_bytes(std::string* out, int number, std::string_view bytes) {
  put_tag(out, number, WireType::kBytes);
  put_varint(out, bytes.size());
  *out += bytes;
}
}  // namespace

Result<DType> dtype_from_onnx(int32_t data_type) {
  for (const TypeRow& row : kTypes)
    if (row.onnx == data_type) return row.dtype;
  if (data_type == P::UNDEFINED) return invalid("a tensor has no element type");
  if (!pb::TensorProto_DataType_IsValid(data_type))
    return invalid("a tensor has the unknown element type %d", data_type);
  return unsupported("element type %d of ONNX is not supported", data_type)
      .advise("convert the model to 8-bit or wider types");
}

int32_t dtype_to_onnx(DType t) {
  for (const TypeRow& row : kTypes)
    if (row.dtype == t) return row.onnx;
  return P::UNDEFINED;
}

Result<TensorRecord> read_tensor(Body body, const char* base) {
  TensorRecord t;
  t.body = body;
  Status done = each_field(body, base, [&](const Field& f) { return read_tensor_field(f, base, &t); });
  if (!done.ok()) return std::move(done).error().at_node(t.name);
  return t;
}

Result<SparseTensorRecord> read_sparse_tensor(Body body, const char* base) {
  SparseTensorRecord s;
  PERI_TRY(each_field(body, base, [&](const Field& f) -> Status {
    using S = pb::SparseTensorProto;
    Body part;
    if (f.number == S::kDimsFieldNumber) return take_ints(f, &s.dims, base, kMaxRank, "sparse_tensor.dims");
    if (f.number != S::kValuesFieldNumber && f.number != S::kIndicesFieldNumber) return Ok{};
    PERI_TRY(take_bytes(f, &part, "sparse_tensor"));
    PERI_ASSIGN(TensorRecord t, read_tensor(part, base));
    (f.number == S::kValuesFieldNumber ? s.values : s.indices) = std::move(t);
    return Ok{};
  }));
  return s;
}

namespace {
constexpr std::string_view kSeeded = "seeded std=";  // of tensors that models/materialize.py fills

std::string doc_of(const TensorRecord& t, const char* base) {
  std::string out;
  const Status read = each_field(t.body, base, [&](const Field& f) -> Status {
    if (f.number == pb::TensorProto::kDocStringFieldNumber && f.type == WireType::kBytes) out = std::string(f.bytes);
    return Ok{};
  });
  return read.ok() ? out : "";
}
}  // namespace

Result<Tensor> decode_typed(const TensorRecord& t, DType dtype, const char* base) {
  const TypeRow* row = nullptr;
  for (const TypeRow& r : kTypes)
    if (r.dtype == dtype) row = &r;
  PERI_CHECK(row != nullptr);
  PERI_ASSIGN(const int64_t numel, checked_numel(t.dims));
  const int64_t all = t.float_count + t.int32_count + t.int64_count + t.double_count + t.uint64_count + t.string_count;
  const bool complex = dtype == DType::kC64 || dtype == DType::kC128;
  const int bits = dtype_bits(dtype);
  int64_t have = 0, want = numel;
  if (complex && numel > INT64_MAX / 2) return invalid("the size of a tensor overflows 64 bits");
  if (complex) want = 2 * numel;
  if (bits > 0 && bits < 8 && bits != 6)
    want = numel / (8 / bits) + (numel % (8 / bits) != 0);  // each number holds one packed byte
  switch (row->field) {
    case P::kFloatDataFieldNumber: have = t.float_count; break;
    case P::kInt32DataFieldNumber: have = t.int32_count; break;
    case P::kInt64DataFieldNumber: have = t.int64_count; break;
    case P::kDoubleDataFieldNumber: have = t.double_count; break;
    case P::kUint64DataFieldNumber: have = t.uint64_count; break;
    default: have = t.string_count;
  }
  if (all != have)
    return invalid("tensor data is in a field that does not belong to its type %s", dtype_name(dtype).data());
  if (have == 0 && want > 0 && doc_of(t, base).starts_with(kSeeded))
    return invalid("its values are left out of the file, which says how they are made")
        .expecting(counted(want, "value"))
        .but_found("none")
        .advise("models/materialize.py of the sources writes the complete model");
  if (have != want)
    return invalid("tensor data has the wrong size")
        .expecting(counted(want, "value") + " for its type and dims")
        .but_found(format("%lld", static_cast<long long>(have)));
  if (dtype == DType::kString) return decode_strings(t, base);
  PERI_ASSIGN(Tensor out, Tensor::zeros(dtype, t.dims));
  const size_t width = complex ? static_cast<size_t>(bits / 16) : bits < 8 ? 1 : static_cast<size_t>(bits / 8);
  Filler filler{out.mutable_data(), out.mutable_data() + out.bytes().size(), width, bits};
  const bool fixed = row->field == P::kFloatDataFieldNumber || row->field == P::kDoubleDataFieldNumber;
  PERI_TRY(each_field(t.body, base, [&](const Field& f) -> Status {
    return static_cast<int>(f.number) == row->field ? fill(f, base, fixed, &filler) : Status(Ok{});
  }));
  filler.flush();
  if (filler.past || filler.at != filler.end) return io_error("tensor data changed while it was read");
  if (dtype == DType::kBool)
    for (int64_t k = 0; k < numel; ++k) out.set_i64(k, out.i64(k));
  return out;
}

std::string write_tensor(const Tensor& t, std::string_view name) {
  std::string out;
  for (int64_t d : t.dims()) {
    put_tag(&out, P::kDimsFieldNumber, WireType::kVarint);
    put_varint(&out, static_cast<uint64_t>(d));
  }
  put_tag(&out, P::kDataTypeFieldNumber, WireType::kVarint);
  put_varint(&out, static_cast<uint64_t>(dtype_to_onnx(t.dtype())));
  if (t.dtype() == DType::kString) {
    for (const std::string& s : t.string_values()) put_bytes(&out, P::kStringDataFieldNumber, s);
  }
  if (!name.empty()) put_bytes(&out, P::kNameFieldNumber, name);
  if (t.dtype() != DType::kString)
    put_bytes(&out, P::kRawDataFieldNumber, {reinterpret_cast<const char*>(t.bytes().data()), t.bytes().size()});
  return out;
}

}  // namespace peri::onnx
