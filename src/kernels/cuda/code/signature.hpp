// The parameters of a kernel under construction, and the source text of element types.
#pragma once

#include "kernels/cuda/code/launch.hpp"

namespace peri::kernels::cuda {

// The C++ type of stored elements: "float", "unsigned short", ... Refuses types that kernels do not support.
Result<std::string> stored_type(DType dtype);
// Expressions that convert an element in memory to a register of f32, i32, i64 or bool, and back.
std::string loaded(DType dtype, const std::string& element);
std::string stored(DType dtype, const std::string& value);
// A statement that reads 2 or 8 adjacent elements, aligned to their total size up to 16 bytes, into an array of floats,
// and back: f32, f16, bf16; eight of u8, i8 and i32 into an array of ints.
std::string load_wide(int width, DType dtype, const std::string& from, const std::string& array);
std::string store_wide(int width, DType dtype, const std::string& to, const std::string& array);
// "float", "int", "peri_i64", "bool": the C++ type of such a register.
std::string register_type(DType dtype);

// Parameters in the order in which they were requested: addresses, then sizes. Every function of the text takes all of
// them (PERI_PARAMETERS) and passes them on (PERI_PASS). No result shares memory with an argument.
class Signature {
 public:
  // The name of the parameter.
  Result<std::string> input(const Problem& problem, size_t index);
  Result<std::string> output(const Problem& problem, size_t index);
  // From now on output(problem, 0) is the step's result `first`, for a part of its problem.
  void begin_results(size_t first) { first_result_ = first; }
  std::string workspace();
  // A boolean expression: every address requested so far is a multiple of 16.
  std::string aligned() const;
  std::string fault();               // the address of the error word (LaunchArgument::From::kFault)
  std::string packed(size_t index);  // 16-bit elements of LaunchInstance::packed()
  std::string size(int64_t value);
  // Numbers of an int's or float's register that are parameters too: texts that differ in them alone are the same.
  std::string whole_number(int value);
  std::string number(float value);
  std::string number(double value);
  // Stores a region's own constant as a table in the text; returns its name.
  Result<std::string> table(const Tensor& values);
  // A parameter, or a table for a constant inside the region. Refuses values that the region computes.
  Result<std::string> value(const Problem& problem, const ir::Value& v);

  // The whole text: the prelude, indexes as wide as `most_elements` requires, the parameters, the body.
  std::string text(int64_t most_elements, const std::string& body) const;
  // A launch of the kernel `entry` of the text with the parameters so far.
  KernelLaunch launch(std::string entry, std::string text, int64_t blocks, int threads) const;

 private:
  std::string address(LaunchArgument::From from, size_t index, const std::string& type);
  std::string tables_;
  int table_count_ = 0;
  size_t first_result_ = 0;
  bool near_ = false;  // a result is float32: PERI_NEAR
  std::vector<std::string> address_types_, address_names_;
  std::vector<LaunchArgument> arguments_;
  std::vector<int64_t> sizes_;
};

// Bytes of operands of the result's size other than the anchor's own, and of results after the first, per element of
// the first.
double chain_bytes(const Problem& problem);
// The largest number of elements of any value of a problem.
int64_t most_elements(const Problem& problem);

}  // namespace peri::kernels::cuda
