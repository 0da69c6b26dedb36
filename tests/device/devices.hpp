// Devices and small work for tests: launches on floats, and both devices by name.
#pragma once

#include <gtest/gtest.h>

#include <cstring>

#include "device/host.hpp"
#include "device/null.hpp"

namespace peri::device::tests {

inline std::unique_ptr<Device> null_device(NullOptions options = {}) {
  auto made = make_null_device(std::move(options));
  EXPECT_TRUE(made.ok()) << made.error().text();
  return made.ok() ? std::move(made).value() : nullptr;
}
inline std::unique_ptr<Device> null_of_seed(uint64_t seed) {
  NullOptions options;
  options.seed = seed;
  return null_device(options);
}

inline std::span<float> floats(std::span<std::byte> bytes) {
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}
inline Argument all_of(const Memory& m) { return {m.address(), m.bytes()}; }

// to[k] = scale * from[k] + to[k] * keep + plus
inline Launch scaled(const char* name, const Memory& from, const Memory& to, float scale, float keep = 0,
                     float plus = 0) {
  return {name,
          [=](std::span<const std::span<std::byte>> a) -> Status {
            const std::span<float> x = floats(a[0]), y = floats(a[1]);
            for (size_t k = 0; k < y.size(); ++k) y[k] = scale * x[k] + (keep == 0 ? 0 : keep * y[k]) + plus;
            return Ok{};
          },
          {all_of(from), all_of(to)}};
}

inline std::span<const std::byte> bytes_of(const std::vector<float>& v) { return std::as_bytes(std::span(v)); }
inline std::span<std::byte> bytes_of(std::vector<float>* v) { return std::as_writable_bytes(std::span(*v)); }

// Fails the test, with the error's text.
inline void must(const Status& s) { EXPECT_TRUE(s.ok()) << s.error().text(); }
template <class T>
T must(Result<T> r) {
  if (!r.ok()) ADD_FAILURE() << r.error().text();
  return std::move(r).value();
}

}  // namespace peri::device::tests
