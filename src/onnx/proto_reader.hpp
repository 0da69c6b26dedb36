// Messages of the ONNX format as records. Field numbers and enum values are those of the pinned onnx package's protobuf
// definition; this is the only place that sees the generated header.
#pragma once

#include "base/tensor.hpp"
#include "onnx/model.hpp"

namespace peri::onnx {

// `base`: first byte of the file, for offsets in errors. All views point into the given bytes. Errors: kInvalid
// (corrupt, a known field of another wire type, text that is not UTF-8) with the offset. If a field occurs twice, the
// last one counts and messages are merged, as in protobuf. Unknown fields are skipped.
Result<ModelRecord> read_model(std::string_view file);
Result<GraphRecord> read_graph(Body body, const char* base);
Result<NodeRecord> read_node(Body body, const char* base);
Result<TensorRecord> read_tensor(Body body, const char* base);
Result<SparseTensorRecord> read_sparse_tensor(Body body, const char* base);
Result<ValueRecord> read_value(Body body, const char* base);
Result<FunctionRecord> read_function(Body body, const char* base);

// The newest IR version of the definition from which the reader was generated.
int64_t newest_ir_version();

// TensorProto.DataType ↔ DType; kUnsupported for an unsupported type, kInvalid for an undefined one.
Result<DType> dtype_from_onnx(int32_t data_type);
int32_t dtype_to_onnx(DType t);

// The typed fields (float_data, int32_data, ...) of a tensor without raw or external data, as a tensor of `dtype`.
// kInvalid if the field does not belong to the type, or the number of elements is not that of the dims.
Result<Tensor> decode_typed(const TensorRecord& t, DType dtype, const char* base);

// A tensor as the bytes of a TensorProto: dims, type and raw_data (strings: string_data).
std::string write_tensor(const Tensor& t, std::string_view name);

}  // namespace peri::onnx
