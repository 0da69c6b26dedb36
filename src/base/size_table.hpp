// SizeTable: the size expressions of a program or a region, compiled once to flat code over a table of dimensions.
// Evaluation looks up no name and allocates nothing; it gives the values of Dim::eval, with overflow and division
// checked.
#pragma once

#include "base/dim.hpp"

namespace peri {

// The value of a dimension that is not bound yet.
constexpr int64_t kNoSize = INT64_MIN;

class SizeTable {
 public:
  SizeTable() = default;
  // The table's dimensions, in this order; further names that an expression uses are appended.
  explicit SizeTable(std::vector<std::string> names);

  // Compiles an expression, or finds the same one; returns the index by which it is evaluated.
  int32_t add(const Dim& expression);
  std::vector<int32_t> add(std::span<const Dim> shape);

  const std::vector<std::string>& names() const { return names_; }
  int32_t find(std::string_view name) const;  // -1: not in the table
  // The values of a binding in the order of names(); kNoSize where it has none.
  std::vector<int64_t> values_of(const DimBinding& binding) const;
  DimBinding binding_of(std::span<const int64_t> values) const;

  // REQUIRES: one value for each of names(). Errors: those of Dim::eval.
  Result<int64_t> eval(int32_t index, std::span<const int64_t> values) const;
  // A shape; a negative dimension is an error.
  Result<std::vector<int64_t>> eval(std::span<const int32_t> shape, std::span<const int64_t> values) const;
  // Whether all dimensions of the expression have a value.
  bool bound(int32_t index, std::span<const int64_t> values) const;
  const Dim& expression(int32_t index) const { return code_[static_cast<size_t>(index)].expression; }
  size_t count() const { return code_.size(); }  // number of expressions

 private:
  enum class Op : uint8_t { kPush, kLoad, kMul, kAdd, kFloorDiv, kMod, kMax, kMin };
  struct Word {
    Op op;
    int64_t value;  // kPush: the number; kLoad: the dimension
  };
  struct Code {
    Dim expression;
    uint32_t first = 0, count = 0;          // range in words_
    uint32_t first_needed = 0, needed = 0;  // range in needed_
  };
  void compile(const Dim& d);
  int32_t load(const std::string& name);
  bool run(const Code& code, std::span<const int64_t> values, int64_t* out) const;

  std::vector<std::string> names_;
  std::map<std::string, int32_t, std::less<>> index_;    // into names_
  std::map<std::string, int32_t, std::less<>> by_text_;  // into code_
  std::vector<Code> code_;
  std::vector<Word> words_;
  std::vector<int32_t> needed_;
};

}  // namespace peri
