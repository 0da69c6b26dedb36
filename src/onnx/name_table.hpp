// Names of values in a graph and the node that produces each: a copy of every name, plus 30 bytes each.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.hpp"

namespace peri::onnx {

// Names are copied: a file that changes while it is mapped must not change keys in place.
class NameTable {
 public:
  static constexpr uint32_t kGiven = UINT32_MAX;  // no producer: an input or an initializer

  explicit NameTable(size_t expected) {
    entries_.reserve(expected);
    rehash(expected * 2);
  }
  // False if the name exists already.
  bool insert(std::string_view name, uint32_t producer) {
    if (entries_.size() * 2 >= slots_.size()) rehash(entries_.size() * 4);
    uint32_t& slot = slots_[slot_of(name)];
    if (slot != 0) return false;
    entries_.push_back({bytes_.size(), static_cast<uint32_t>(name.size()), producer});
    slot = static_cast<uint32_t>(entries_.size());
    bytes_ += name;
    return true;
  }
  bool contains(std::string_view name) const { return slots_[slot_of(name)] != 0; }
  // Index of its producer. REQUIRES contains(name).
  uint32_t producer(std::string_view name) const { return entries_[slots_[slot_of(name)] - 1].producer; }

 private:
  struct Entry {
    size_t at;
    uint32_t size, producer;
  };
  std::string_view name_of(const Entry& e) const { return std::string_view(bytes_).substr(e.at, e.size); }
  // The slot of the name, or the empty one for it.
  size_t slot_of(std::string_view name) const {
    const size_t mask = slots_.size() - 1;
    size_t at = hash_bytes(name.data(), name.size()) & mask;
    while (slots_[at] != 0 && name_of(entries_[slots_[at] - 1]) != name) at = (at + 1) & mask;
    return at;
  }
  void rehash(size_t wanted) {
    size_t size = 16;
    while (size < wanted) size *= 2;
    slots_.assign(size, 0);
    for (size_t k = 0; k < entries_.size(); ++k) slots_[slot_of(name_of(entries_[k]))] = static_cast<uint32_t>(k + 1);
  }

  std::string bytes_;  // all names, concatenated
  std::vector<Entry> entries_;
  std::vector<uint32_t> slots_;  // entry + 1, or 0; a power of two in number, at most half used
};

}  // namespace peri::onnx
