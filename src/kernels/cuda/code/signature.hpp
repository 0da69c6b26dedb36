// The parameters of a kernel in the making, and what its text needs of element types.
#pragma once

#include "kernels/cuda/code/launch.hpp"

namespace peri::kernels::cuda {

// How elements of a type stand in memory: "float", "unsigned short", ... Refuses types that kernels do not know.
Result<std::string> stored_type(DType dtype);
// An expression of an element read from memory as a register of f32, i32, i64 or bool, and back.
std::string loaded(DType dtype, const std::string& element);
std::string stored(DType dtype, const std::string& value);
// A statement that reads 2 or 8 neighbours, aligned as a whole up to 16 bytes, into an array of floats, and back: f32,
// f16, bf16.
std::string load_wide(int width, DType dtype, const std::string& from, const std::string& array);
std::string store_wide(int width, DType dtype, const std::string& to, const std::string& array);
// "float", "int", "peri_i64", "bool": what a register of that type is called.
std::string register_type(DType dtype);

// Parameters in the order in which they were asked for: addresses, then sizes. Every function of the text takes all of
// them (PERI_PARAMETERS) and hands them on (PERI_PASS). No result shares memory with an argument.
class Signature {
 public:
  // The name of the parameter.
  Result<std::string> input(const Problem& problem, size_t index);
  Result<std::string> output(const Problem& problem, size_t index);
  // From now on output(problem, 0) is the step's result of this number, for a part of its problem.
  void begin_results(size_t first) { first_result_ = first; }
  std::string workspace();
  // An expression: every address asked for so far is a multiple of 16.
  std::string aligned() const;
  std::string fault();               // the address of the word for what is wrong in the data
  std::string packed(size_t index);  // 16-bit elements of LaunchInstance::packed()
  std::string size(int64_t value);
  // Values of a region's own constant as a table of the text; its name.
  Result<std::string> table(const Tensor& values);
  // A parameter, or a table for a constant that stands inside the region. Refuses what the region computes.
  Result<std::string> value(const Problem& problem, const ir::Value& v);

  // The whole text: the prelude, indexes of the width that `most_elements` needs, the parameters, the body.
  std::string text(int64_t most_elements, const std::string& body) const;
  // A launch of the kernel `entry` of the text with the parameters so far.
  KernelLaunch launch(std::string entry, std::string text, int64_t blocks, int threads) const;

 private:
  std::string address(LaunchArgument::From from, size_t index, const std::string& type);
  std::string tables_;
  int table_count_ = 0;
  size_t first_result_ = 0;
  std::vector<std::string> address_types_, address_names_;
  std::vector<LaunchArgument> arguments_;
  std::vector<int64_t> sizes_;
};

// Bytes of operands of the result's size that stand beside the anchor's own, for an element of the result.
double chain_bytes(const Problem& problem);
// The most elements of any value of a problem.
int64_t most_elements(const Problem& problem);

}  // namespace peri::kernels::cuda
