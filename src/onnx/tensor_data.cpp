// Raw, typed, external and sparse tensor data.
#include "onnx/tensor_data.hpp"

#include <charconv>
#include <cstring>
#include <filesystem>

#include "base/dim.hpp"
#include "base/plural.hpp"
#include "base/remembered_file.hpp"
#include "base/shell_word.hpp"
#include "onnx/proto_reader.hpp"

namespace peri::onnx {

namespace {
constexpr size_t kCopyBelow = 4096;           // smaller tensors are copied: aligned, and no page fault later
constexpr int64_t kMaxDenseSlack = 48 << 20;  // dense bytes allowed beyond the size of the file
constexpr size_t kMaxExternalFiles = 1024;

// A view of large bytes, a copy of small ones. Bools must be 0 or 1, so they are always copied.
Result<Tensor> from_bytes(DType dtype, const std::vector<int64_t>& dims, std::span<const std::byte> bytes,
                          std::shared_ptr<const void> keep) {
  if (bytes.size() >= kCopyBelow && dtype != DType::kBool) return Tensor::view(dtype, dims, bytes, std::move(keep));
  PERI_ASSIGN(Tensor t, Tensor::zeros(dtype, dims));
  if (t.bytes().size() != bytes.size())
    return invalid("tensor data has the wrong size")
        .expecting(counted(static_cast<int64_t>(t.bytes().size()), "byte") + " for its type and dims")
        .but_found(counted(static_cast<int64_t>(bytes.size()), "byte"));
  if (!bytes.empty()) std::memcpy(t.mutable_data(), bytes.data(), bytes.size());
  if (dtype == DType::kBool)
    for (int64_t k = 0; k < t.numel(); ++k) t.set_i64(k, t.i64(k));
  return t;
}

Result<int64_t> external_number(const TensorRecord& t, std::string_view key, int64_t fallback) {
  for (const auto& [name, value] : t.external_data) {
    if (name != key) continue;
    int64_t v = -1;
    const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), v);
    if (code != std::errc() || end != value.data() + value.size() || v < 0)
      return invalid("external data has a bad %s", std::string(key).c_str())
          .expecting("a number of bytes")
          .but_found("'" + std::string(value.substr(0, 64)) + "'");
    return v;
  }
  return fallback;
}

// A file beside the model, which may be a link as hub caches make them, (../)+blobs/<hex digits>: the folder of the
// blobs lies above that of the model, and the blob itself is no link.
Result<Fd> open_beside(const std::string& dir, std::string_view location) {
  constexpr std::string_view kUp = "../", kBlobs = "blobs/";
  auto plain = open_beneath(dir, location);
  if (plain.ok() || location.find('/') != location.npos) return plain;
  std::error_code failed;
  const std::string target = std::filesystem::read_symlink(dir + "/" + std::string(location), failed).string();
  size_t up = 0;
  while (std::string_view(target).substr(up).starts_with(kUp)) up += kUp.size();
  const std::string_view blob = std::string_view(target).substr(up);
  if (failed || up == 0 || !blob.starts_with(kBlobs)) return plain;
  const std::string_view name = blob.substr(kBlobs.size());
  if (name.empty() || name.find_first_not_of("0123456789abcdef") != name.npos) return plain;
  return open_beneath(dir + "/" + target.substr(0, up), blob);
}
}  // namespace

Status WeightFiles::charge_dense(int64_t bytes) {
  const int64_t cap = kMaxDenseSlack + static_cast<int64_t>(bytes_.size());
  if (bytes > cap - dense_bytes_)
    return Error(ErrorKind::kMemory, "sparse tensors of the model are too large when written out")
        .expecting(format("%lld bytes at most", static_cast<long long>(cap)))
        .but_found(format("%lld bytes more", static_cast<long long>(bytes)))
        .advise("store these weights densely");
  dense_bytes_ += bytes;
  return Ok{};
}

Result<Tensor> WeightFiles::tensor(const TensorRecord& t) {
  Result<Tensor> out = plain_tensor(t);
  if (!out.ok() && !t.name.empty()) return std::move(out).error().at_node(t.name);
  return out;
}

Result<Tensor> WeightFiles::plain_tensor(const TensorRecord& t) {
  if (t.segmented) return unsupported("a tensor is stored in segments").advise("store it in one piece");
  PERI_ASSIGN(const DType dtype, dtype_from_onnx(t.data_type));
  if (t.dims.size() > 32) return invalid("a tensor has rank %zu", t.dims.size()).expecting("rank 32 at most");
  const int64_t typed =
      t.float_count + t.int32_count + t.int64_count + t.double_count + t.uint64_count + t.string_count;
  if ((t.raw && typed) || (t.external && (typed || t.raw)))
    return invalid("a tensor holds its data twice").expecting("one of raw_data, typed data and external_data");
  PERI_ASSIGN(const int64_t numel, checked_numel(t.dims));
  if (dtype == DType::kString) {
    if (t.raw || t.external) return invalid("a string tensor cannot have raw or external data");
    return decode_typed(t, dtype, base());
  }
  PERI_ASSIGN(const int64_t size, dtype_bytes(dtype, numel));
  if (t.external) return external_tensor(t, dtype, size);
  if (!t.raw) return decode_typed(t, dtype, base());
  if (static_cast<uint64_t>(size) != t.raw->size())  // before anything is allocated
    return invalid("tensor data has the wrong size")
        .expecting(counted(size, "byte") + " for its type and dims")
        .but_found(counted(static_cast<int64_t>(t.raw->size()), "byte"));
  return from_bytes(dtype, t.dims, {reinterpret_cast<const std::byte*>(t.raw->data()), t.raw->size()}, keep_);
}

// Why external data is not there: it is looked for beside the name of the model that was given, also if that is a link.
Error WeightFiles::no_external(Error why, std::string_view location) const {
  why.message = "external data of " + model_ + ": " + why.message;
  std::error_code failed;
  const std::filesystem::path real = std::filesystem::canonical(model_, failed);
  if (why.kind == ErrorKind::kIo && !failed && std::filesystem::is_symlink(model_, failed) &&
      std::filesystem::exists(real.parent_path() / location, failed))
    return std::move(why).advise("the model is a link, beside which its data is looked for; give its own file: " +
                                 shell_word(real.string()));
  return std::move(why).advise("keep external data in the model's folder, as a plain file");
}

Result<std::shared_ptr<const MappedFile>> WeightFiles::open_external(std::string_view location) {
  if (const auto it = external_.find(location); it != external_.end()) return it->second;
  if (external_.size() >= kMaxExternalFiles)
    return invalid("the model names more than %zu files of external data", kMaxExternalFiles);
  auto fd = open_beside(dir_, location);
  if (!fd.ok()) return no_external(std::move(fd).error(), location);
  PERI_ASSIGN(MappedFile file, MappedFile::map(*fd, location));
  if (remember_) remember(file);
  auto shared = std::make_shared<const MappedFile>(std::move(file));
  external_.emplace(location, shared);
  return shared;
}

Result<Tensor> WeightFiles::external_tensor(const TensorRecord& t, DType dtype, int64_t size) {
  std::string_view location;
  for (const auto& [key, value] : t.external_data)
    if (key == "location") location = value;
  if (location.empty()) return invalid("external data without a location");
  PERI_ASSIGN(const int64_t offset, external_number(t, "offset", 0));
  PERI_ASSIGN(const int64_t length, external_number(t, "length", size));
  if (length != size)
    return invalid("external data has the wrong size")
        .expecting(counted(size, "byte") + " for its type and dims")
        .but_found(format("length %lld", static_cast<long long>(length)));
  PERI_ASSIGN(const auto file, open_external(location));
  PERI_ASSIGN(const int64_t end, checked_add(offset, size, "offset + length of external data"));
  if (static_cast<uint64_t>(end) > file->size())
    return invalid("external data lies beyond the end of '%s'", std::string(location).c_str())
        .expecting(counted(end, "byte"))
        .but_found(counted(static_cast<int64_t>(file->size()), "byte"))
        .advise("it is cut, or another model's: fetch both files again");
  return from_bytes(dtype, t.dims, file->bytes().subspan(static_cast<size_t>(offset), static_cast<size_t>(size)), file);
}

namespace {
// Flat position of the k-th stored value, or an error if an index is outside.
Result<int64_t> flat_index(const Tensor& indices, const std::vector<int64_t>& dims, int64_t numel, int64_t k) {
  if (indices.rank() == 1) {
    const int64_t at = indices.i64(k);
    if (at < 0 || at >= numel) return invalid("a sparse index lies outside the tensor");
    return at;
  }
  int64_t at = 0;
  for (size_t a = 0; a < dims.size(); ++a) {
    const int64_t i = indices.i64(k * static_cast<int64_t>(dims.size()) + static_cast<int64_t>(a));
    if (i < 0 || i >= dims[a]) return invalid("a sparse index lies outside the tensor");
    at = at * dims[a] + i;
  }
  return at;
}
}  // namespace

Result<Tensor> WeightFiles::dense(const SparseTensorRecord& s) {
  auto build = [&]() -> Result<Tensor> {
    PERI_ASSIGN(const Tensor values, tensor(s.values));
    PERI_ASSIGN(const Tensor indices, tensor(s.indices));
    if (s.dims.size() > 32) return invalid("a tensor has rank %zu", s.dims.size()).expecting("rank 32 at most");
    PERI_ASSIGN(const int64_t numel, checked_numel(s.dims));
    const int64_t count = values.numel(), rank = static_cast<int64_t>(s.dims.size());
    const bool linear = indices.dims() == std::vector<int64_t>{count};
    if (values.rank() != 1 || indices.dtype() != DType::kI64 ||
        (!linear && indices.dims() != std::vector<int64_t>{count, rank}))
      return invalid("a sparse tensor has values and indices that do not fit together")
          .expecting("values [n] and int64 indices [n] or [n, rank]")
          .but_found("values " + tensor_type_text(values) + ", indices " + tensor_type_text(indices));
    const DType t = values.dtype();
    if (t == DType::kString || dtype_bits(t) % 8)
      return unsupported("a sparse tensor of %s", dtype_name(t).data()).advise("store it densely");
    PERI_ASSIGN(const int64_t bytes, dtype_bytes(t, numel));
    PERI_TRY(charge_dense(bytes));
    PERI_ASSIGN(Tensor out, Tensor::zeros(t, s.dims));
    const size_t width = static_cast<size_t>(dtype_size(t));
    int64_t before = -1;
    for (int64_t k = 0; k < count; ++k) {
      PERI_ASSIGN(const int64_t at, flat_index(indices, s.dims, numel, k));
      if (at <= before) return invalid("sparse indices are not strictly ascending");
      before = at;
      std::memcpy(out.mutable_data() + static_cast<size_t>(at) * width,
                  values.bytes().data() + static_cast<size_t>(k) * width, width);
    }
    return out;
  };
  Result<Tensor> out = build();
  if (!out.ok() && !s.values.name.empty()) return std::move(out).error().at_node(s.values.name);
  return out;
}

}  // namespace peri::onnx
