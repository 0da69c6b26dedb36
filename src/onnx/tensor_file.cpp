// Reading and writing of .pb files.
#include "onnx/tensor_file.hpp"

#include <memory>

#include "base/file.hpp"
#include "base/path.hpp"
#include "onnx/proto_fields.hpp"
#include "onnx/proto_reader.hpp"
#include "onnx/tensor_data.hpp"

namespace peri::onnx {

namespace {
constexpr size_t kMaxFile = size_t{1} << 31;
// SequenceProto and OptionalProto (onnx-data.proto) number their fields alike: 3 is the tensor, 4 to 7 other
// containers.
constexpr uint32_t kTensorValues = 3;
constexpr uint32_t kOtherValues[] = {4, 5, 6, 7};
constexpr uint32_t kModelVersion = 1, kModelGraph = 7, kModelSets = 8;  // of a ModelProto (onnx.proto)

struct LoadedFile {
  std::shared_ptr<const std::string> bytes;
  WeightFiles files;
};

Result<LoadedFile> load(const std::string& path) {
  PERI_ASSIGN(std::string text, read_file(path, kMaxFile));
  auto bytes = std::make_shared<const std::string>(std::move(text));
  return LoadedFile{bytes, WeightFiles(bytes, *bytes, folder_of(path), path)};
}

// Whether the bytes are those of a model: a version, a graph and operator sets. A tensor has dims, whole numbers and a
// name in fields of these numbers, but no name is an operator set.
bool is_model(std::string_view bytes, const char* base) {
  bool version = false, graph = false, sets = false;
  const Status read = each_field(bytes, base, [&](const Field& f) -> Status {
    version = version || (f.number == kModelVersion && f.type == WireType::kVarint);
    graph = graph || (f.number == kModelGraph && f.type == WireType::kBytes && !f.bytes.empty());
    if (f.number == kModelSets && f.type == WireType::kBytes) {
      Status all = each_field(f.bytes, base, [](const Field& x) -> Status {
        const bool domain = x.number == 1 && x.type == WireType::kBytes;
        return domain || (x.number == 2 && x.type == WireType::kVarint) ? Status(Ok{}) : invalid("no operator set");
      });
      sets = sets || (all.ok() && !f.bytes.empty());
    }
    return Ok{};
  });
  return read.ok() && version && graph && sets;
}
}  // namespace

Result<NamedTensor> read_tensor_file(const std::string& path) {
  PERI_ASSIGN(LoadedFile file, load(path));
  auto work = [&]() -> Result<NamedTensor> {
    if (file.bytes->empty()) return invalid("the file is empty").expecting("a TensorProto");
    if (is_model(*file.bytes, file.files.base()))
      return invalid("a model, not a tensor")
          .expecting("a TensorProto, as onnx.numpy_helper.from_array makes it")
          .but_found("a ModelProto")
          .advise("give the file of the input's values");
    PERI_ASSIGN(const TensorRecord record, read_tensor(*file.bytes, file.files.base()));
    PERI_ASSIGN(Tensor t, file.files.tensor(record));
    return NamedTensor{std::string(record.name), std::move(t)};
  };
  Result<NamedTensor> out = work();
  if (!out.ok()) return std::move(out).error().in_file(path);
  return out;
}

Result<std::vector<Tensor>> read_sequence_file(const std::string& path) {
  PERI_ASSIGN(LoadedFile file, load(path));
  std::vector<Tensor> out;
  Status done = each_field(*file.bytes, file.files.base(), [&](const Field& f) -> Status {
    for (const uint32_t other : kOtherValues)
      if (f.number == other) return unsupported("the file holds a sequence of something else than tensors");
    if (f.number != kTensorValues) return Ok{};
    std::string_view body;
    PERI_TRY(take_bytes(f, &body, "tensor_values"));
    PERI_ASSIGN(const TensorRecord record, read_tensor(body, file.files.base()));
    PERI_ASSIGN(Tensor t, file.files.tensor(record));
    return take_one(&out, std::move(t), size_t{1} << 20, "tensor_values");
  });
  if (!done.ok()) return std::move(done).error().in_file(path);
  return out;
}

Status write_tensor_file(const std::string& path, const Tensor& t, std::string_view name) {
  if (dtype_to_onnx(t.dtype()) == 0) return internal_error("a tensor without a type cannot be written");
  return write_file_atomic(path, write_tensor(t, name));
}

}  // namespace peri::onnx
