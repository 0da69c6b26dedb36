// Guard bytes between buffers and between parts of scratch: their pattern, and how damage is reported.
#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/session_state.hpp"

namespace peri::runtime {

namespace {
// 16 bits that begin a NaN in every float type of 8 to 64 bits, and are not what poison() writes.
constexpr unsigned char kLow = 0xf5, kHigh = 0xff;
constexpr size_t kBlock = 4096;

// From an even address on; one byte later from an odd one.
const std::array<std::byte, kBlock + 1>& pattern() {
  static const std::array<std::byte, kBlock + 1> kPattern = [] {
    std::array<std::byte, kBlock + 1> p;
    for (size_t k = 0; k < p.size(); ++k) p[k] = std::byte{k % 2 == 0 ? kLow : kHigh};
    return p;
  }();
  return kPattern;
}
size_t odd(const std::byte* at) { return reinterpret_cast<uintptr_t>(at) % 2; }

// A part of the nearer half is damaged: which side something was written on.
std::string_view side_of(const std::byte* from, const std::byte* to, bool behind) {
  const std::byte* middle = from + (to - from) / 2;
  const bool near = behind ? damaged(from, middle) != middle : damaged(middle, to) != to;
  return !near ? "" : behind ? "past the end of" : "before the start of";
}
size_t round_up(size_t v) { return (v + 63) / 64 * 64; }
}  // namespace

const std::byte* damaged(const std::byte* from, const std::byte* to) {
  for (const std::byte* at = from; at < to; at += kBlock) {
    const size_t n = std::min(kBlock, static_cast<size_t>(to - at));
    const std::byte* whole = pattern().data() + odd(at);
    if (std::memcmp(at, whole, n) != 0) return std::mismatch(at, at + n, whole).first;
  }
  return to;
}

void write_guard(std::byte* from, std::byte* to) {
  for (std::byte* at = from; at < to; at += kBlock)
    std::memcpy(at, pattern().data() + odd(at), std::min(kBlock, static_cast<size_t>(to - at)));
}

// Those of a device are read from it, into `read`.
Result<std::span<const std::byte>> Session::State::guard_bytes(size_t guard, std::vector<std::byte>* read) const {
  const auto [begin, end, device] = now->guards[guard];
  const auto bytes = static_cast<size_t>(end - begin);
  if (device == plan::kHost) return std::span<const std::byte>(arena.data.get() + begin, bytes);
  const DeviceLanes& own = devices.lanes[device];
  read->resize(bytes);
  PERI_TRY(own.read(*read, own.arena.address() + static_cast<uint64_t>(begin)));
  return std::span<const std::byte>(*read);
}

Status Session::State::check_guard(size_t guard) const {
  std::vector<std::byte> read;
  PERI_ASSIGN(const auto bytes, guard_bytes(guard, &read));
  const std::byte *from = bytes.data(), *to = from + bytes.size(), *at = damaged(from, to);
  if (at == to) return Ok{};
  return internal_error("a kernel wrote outside its results, %td bytes into the guard between two buffers", at - from);
}

// Those on both sides of what the step writes, and of its workspace on a device.
Status Session::State::check_guards(size_t k) const {
  const plan::Step& step = program().steps[k];
  std::vector<std::byte> read;
  const auto check = [&](size_t guard, const std::string& what) -> Status {
    if (guard == 0) return Ok{};
    for (const size_t g : {guard - 1, guard}) {
      PERI_ASSIGN(const auto bytes, guard_bytes(g, &read));
      const std::string_view side = side_of(bytes.data(), bytes.data() + bytes.size(), g == guard);
      if (!side.empty()) return internal_error("a kernel wrote %s %s", std::string(side).c_str(), what.c_str());
      PERI_TRY(check_guard(g));
    }
    return Ok{};
  };
  for (size_t j = 0; j < step.writes.size(); ++j)
    if (step.writes[j] >= 0)
      PERI_TRY(check(now->guard_of[static_cast<size_t>(step.writes[j])], format("its result %zu", j)));
  return check(now->work_guard[k], "its workspace");
}

ScratchPlaces Session::State::scratch_places(const Instance& instance) const {
  const size_t gap = guards() ? static_cast<size_t>(kGuardBytes) : 0;
  ScratchPlaces p;
  p.need = instance.scratch();
  p.threads = pool->threads();
  p.shared = gap;
  p.each = p.shared + round_up(p.need.shared) + gap;
  p.stride = round_up(p.need.each) + gap;
  p.bytes = p.each + static_cast<size_t>(p.threads) * p.stride;
  return p;
}

namespace {
// Calls f(from, to, behind what) for each guard.
template <class F>
void each_guard(const ScratchPlaces& p, std::byte* memory, F f) {
  std::byte* from = memory;
  f(from, memory + p.shared, "");
  f(memory + p.shared + p.need.shared, memory + p.each, "its workspace");
  for (size_t t = 0; t < static_cast<size_t>(p.threads); ++t) {
    std::byte* own = memory + p.each + t * p.stride;
    f(own + p.need.each, own + p.stride, "its scratch");
  }
}
}  // namespace

void Session::State::guard_scratch(const ScratchPlaces& places) const {
  each_guard(places, scratch.data.get(), [](std::byte* from, std::byte* to, const char*) { write_guard(from, to); });
}

Status Session::State::check_scratch(const ScratchPlaces& places) const {
  Status whole = Ok{};
  each_guard(places, scratch.data.get(), [&](std::byte* from, std::byte* to, const char* before) {
    if (!whole.ok() || damaged(from, to) == to) return;
    const bool behind = *before && !side_of(from, to, true).empty();
    whole = behind ? internal_error("a kernel wrote past the end of %s", before)
                   : internal_error("a kernel wrote before the start of its scratch");
  });
  return whole;
}

}  // namespace peri::runtime
