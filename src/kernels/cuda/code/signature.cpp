// Names and text of parameters.
#include "kernels/cuda/code/signature.hpp"

#include <algorithm>
#include <bit>

#include "kernels/cuda/code/prelude.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels::cuda {

Result<std::string> stored_type(DType dtype) {
  switch (dtype) {
    case DType::kF32: return std::string("float");
    case DType::kF64: return std::string("double");
    case DType::kF16:
    case DType::kBF16: return std::string("unsigned short");
    case DType::kI8: return std::string("signed char");
    case DType::kU8:
    case DType::kBool: return std::string("unsigned char");
    case DType::kI16: return std::string("short");
    case DType::kU16: return std::string("unsigned short");
    case DType::kI32: return std::string("int");
    case DType::kI64: return std::string("peri_i64");
    case DType::kU32: return std::string("unsigned");
    case DType::kU64: return std::string("peri_u64");
    default: return refused("elements of %s", std::string(dtype_name(dtype)).c_str());
  }
}

std::string register_type(DType dtype) {
  if (is_float(dtype)) return "float";
  if (dtype == DType::kBool) return "bool";
  return dtype == DType::kI64 || dtype == DType::kU32 || dtype == DType::kU64 ? "peri_i64" : "int";
}

std::string loaded(DType dtype, const std::string& element) {
  if (dtype == DType::kF16) return "peri_from_f16(" + element + ")";
  if (dtype == DType::kBF16) return "peri_from_bf16(" + element + ")";
  if (dtype == DType::kBool) return "(" + element + " != 0)";
  return "(" + register_type(dtype) + ")" + element;
}

std::string stored(DType dtype, const std::string& value) {
  if (dtype == DType::kF16) return "peri_to_f16(" + value + ")";
  if (dtype == DType::kBF16) return "peri_to_bf16(" + value + ")";
  auto type = stored_type(dtype);
  return "(" + (type.ok() ? *type : "float") + ")" + value;
}

namespace {
std::string_view short_name(DType dtype) { return is_float(dtype) || is_integer(dtype) ? dtype_name(dtype) : ""; }
}  // namespace

std::string load_wide(int width, DType dtype, const std::string& from, const std::string& array) {
  return format("peri_load_%d_", width) + std::string(short_name(dtype)) + "(" + from + ", " + array + ")";
}
std::string store_wide(int width, DType dtype, const std::string& to, const std::string& array) {
  return format("peri_store_%d_", width) + std::string(short_name(dtype)) + "(" + to + ", " + array + ")";
}

std::string Signature::address(LaunchArgument::From from, size_t index, const std::string& type) {
  for (size_t k = 0; k < arguments_.size(); ++k)
    if (arguments_[k].from == from && arguments_[k].index == index) return address_names_[k];
  arguments_.push_back({from, index});
  address_types_.push_back(type);
  return address_names_.emplace_back("p" + std::to_string(arguments_.size() - 1));
}
Result<std::string> Signature::input(const Problem& problem, size_t index) {
  PERI_ASSIGN(const std::string type, stored_type(problem.graph->inputs[index]->type.dtype));
  return address(LaunchArgument::From::kInput, index, "const " + type + "*");
}
Result<std::string> Signature::output(const Problem& problem, size_t index) {
  const DType dtype = problem.graph->outputs[index]->type.dtype;
  PERI_ASSIGN(const std::string type, stored_type(dtype));
  near_ = near_ || dtype == DType::kF32;
  return address(LaunchArgument::From::kOutput, first_result_ + index, type + "*");
}
std::string Signature::workspace() { return address(LaunchArgument::From::kWorkspace, 0, "float*"); }
std::string Signature::packed(size_t index) {
  return address(LaunchArgument::From::kPacked, index, "const unsigned short*");
}
std::string Signature::aligned() const {
  std::string out = "(0";
  for (const std::string& name : address_names_) out += " | (peri_u64)" + name;
  return out + ") % 16 == 0";
}
std::string Signature::fault() { return address(LaunchArgument::From::kFault, 0, "int*"); }
std::string Signature::size(int64_t value) {
  sizes_.push_back(value);
  return "((PERI_INDEX)q" + std::to_string(sizes_.size() - 1) + ")";
}

std::string Signature::whole_number(int value) {
  sizes_.push_back(value);
  return "((int)q" + std::to_string(sizes_.size() - 1) + ")";
}
std::string Signature::number(float value) {
  sizes_.push_back(std::bit_cast<uint32_t>(value));
  return "peri_bits((unsigned)q" + std::to_string(sizes_.size() - 1) + ")";
}
std::string Signature::number(double value) {
  sizes_.push_back(std::bit_cast<int64_t>(value));
  return "peri_double(q" + std::to_string(sizes_.size() - 1) + ")";
}

Result<std::string> Signature::table(const Tensor& values) {
  PERI_ASSIGN(const std::string type, stored_type(values.dtype()));
  const std::string name = "peri_table" + std::to_string(table_count_++);
  std::string list, words = type;  // floats as bits: NaN and infinity have no literal
  for (int64_t k = 0; k < values.numel(); ++k) {
    list += k ? ", " : "";
    const auto at = static_cast<size_t>(k);
    if (values.dtype() == DType::kF32) {
      words = "unsigned";
      list += std::to_string(std::bit_cast<uint32_t>(values.as<float>()[at])) + "u";
    } else if (values.dtype() == DType::kF64) {
      words = "peri_u64";
      list += std::to_string(std::bit_cast<uint64_t>(values.as<double>()[at])) + "ull";
    } else if (is_float(values.dtype()))
      list += std::to_string(values.as<uint16_t>()[at]);
    else
      list += values.i64(k) == INT64_MIN ? "(-9223372036854775807ll - 1)" : std::to_string(values.i64(k)) + "ll";
  }
  if (list.empty()) list = "0";  // nothing reads it
  tables_ += "PERI_TABLE " + words + " " + name + "[] = {" + list + "};\n";
  return words == type ? name : "((const " + type + "*)" + name + ")";
}

Result<std::string> Signature::value(const Problem& problem, const ir::Value& v) {
  if (const int k = input_index(*problem.graph, &v); k >= 0) return input(problem, static_cast<size_t>(k));
  if (!v.constant) return refused("it reads '%s', which the region computes", v.name.c_str());
  return table(*v.constant);
}

std::string Signature::text(int64_t most_elements, const std::string& body) const {
  std::string declared, passed;
  const auto add = [&](const std::string& type, const std::string& name) {
    declared += (declared.empty() ? "" : ", ") + type + " " + name;
    passed += (passed.empty() ? "" : ", ") + name;
  };
  for (size_t k = 0; k < address_names_.size(); ++k) add(address_types_[k] + " __restrict__", address_names_[k]);
  for (size_t k = 0; k < sizes_.size(); ++k) add("peri_i64", "q" + std::to_string(k));
  // Indexes step by a grid beyond the last element, and padded coordinates stand before the first.
  const bool narrow = most_elements < (int64_t{1} << 29);
  return std::string(near_ ? "#define PERI_NEAR 1\n" : "") + std::string(prelude()) + "typedef " +
         (narrow ? "int" : "peri_i64") + " PERI_INDEX;\n" + tables_ + "#define PERI_PARAMETERS " + declared +
         "\n#define PERI_PASS " + passed + "\n" + body;
}

KernelLaunch Signature::launch(std::string entry, std::string text, int64_t blocks, int threads) const {
  return {std::move(entry), std::move(text), blocks, threads, 0, 1, arguments_, sizes_};
}

double chain_bytes(const Problem& problem) {
  const std::vector<int64_t> of_result = dims_of(*problem.graph->outputs[0]);
  const std::vector<ir::Value*>& own = problem.anchor().inputs;
  double out = 0;
  for (const ir::Value* v : problem.graph->inputs)
    if (std::find(own.begin(), own.end(), v) == own.end() && dims_of(*v) == of_result)
      out += static_cast<double>(dtype_bits(v->type.dtype)) / 8;
  for (size_t k = 1; k < problem.graph->outputs.size(); ++k)
    out += static_cast<double>(dtype_bits(problem.graph->outputs[k]->type.dtype)) / 8;
  return out;
}

int64_t most_elements(const Problem& problem) {
  int64_t most = 0;
  for (const auto& v : problem.graph->values()) {
    if (!v->type.shape) continue;
    int64_t n = 1;
    for (const Dim& d : *v->type.shape) n *= d.value();
    most = std::max(most, n);
  }
  return most;
}

}  // namespace peri::kernels::cuda
