// Kernel quantize_narrow: QuantizeLinear and DequantizeLinear where one side has no registers of its own: values of
// float16 and bfloat16, integers of 2 and 4 bits, floats of 4 and 8 bits; a part at a time by way of float32 and bytes.
#include <algorithm>
#include <array>
#include <type_traits>

#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/quantize/scaled.hpp"
#include "kernels/cpu/task_elements.hpp"
#include "kernels/cpu/task_instance.hpp"
#include "kernels/cpu/typed/loops.hpp"

namespace peri::kernels {
namespace {
namespace typed = cpu::typed;
using cpu::quantize::Loops;
using cpu::quantize::moved;
using cpu::quantize::Scaled;

constexpr int64_t kPart = 1024;  // whole bytes of every type; 16 KiB, in a first-level cache of 32. Not varied
constexpr auto kOnes = [] {
  std::array<float, kPart> ones{};
  ones.fill(1.0F);
  return ones;
}();

// Conversion between float32 and a float of 16 bits; null pointers: it is float32 itself.
struct Half {
  typed::Loop widen = nullptr, narrow = nullptr;
  static Half of(DType t, typed::Loop (*find)(typed::Op, typed::Elem, typed::Elem)) {
    if (t == DType::kF32) return {};
    const typed::Elem e = t == DType::kF16 ? typed::Elem::kF16 : typed::Elem::kBF16;
    return {find(typed::Op::kCast, e, typed::Elem::kF32), find(typed::Op::kCast, typed::Elem::kF32, e)};
  }
};
void convert(typed::Loop loop, const void* from, void* to, int64_t n) {
  loop({from, nullptr, nullptr, to, n, nullptr});
}

bool value_type(DType t) { return t == DType::kF32 || t == DType::kF16 || t == DType::kBF16; }

struct Shape {
  Scaled scaled;
  bool quantizes = false, saturates = true;
  DType wide = DType::kInvalid, scale = DType::kInvalid, narrow = DType::kInvalid;
  DType divided = DType::kF32;  // the type in which a quotient is rounded
  bool floating() const { return is_float(narrow); }
  bool packed() const { return dtype_bits(narrow) < 8; }
  // The type whose loops make and read the integers: of those below a byte one of bytes.
  DType loops() const { return !packed() ? narrow : is_signed(narrow) ? DType::kI8 : DType::kU8; }
};

Result<Shape> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  Shape s;
  s.quantizes = n.op == "quantize_linear";
  if (!s.quantizes && n.op != "dequantize_linear") return refused("neither quantises nor dequantises");
  if (p.graph->nodes.size() != 1) return refused("takes no epilogue");
  const DType x = n.in(0)->type.dtype, y = n.out()->type.dtype;
  s.wide = s.quantizes ? x : y;
  s.narrow = s.quantizes ? y : x;
  s.scale = n.in(1)->type.dtype;
  s.saturates = n.i("saturate", 1) != 0;
  if (!value_type(s.wide) || !value_type(s.scale)) return refused("takes f32, f16 and bf16 only");
  const int bits = dtype_bits(s.narrow);
  if (bits > 16 && (s.quantizes || s.narrow != DType::kI32)) return refused("takes integers of at most 16 bits");
  if (s.wide == DType::kF32 && s.scale == DType::kF32 && bits >= 8 && !s.floating())
    return refused("has no float of 16 bits and nothing below a byte");
  if (s.quantizes) {
    const int64_t said = n.i("precision");
    s.divided = said != 0 ? static_cast<DType>(said) : s.scale;
    // A quotient of 16-bit numbers can be rounded to float32 and then to 16 bits with the result of a single rounding;
    // one of wider numbers cannot.
    if (s.divided != DType::kF32 && (s.divided != s.wide || s.divided != s.scale))
      return refused("a quotient that would be rounded twice");
  }
  PERI_ASSIGN(s.scaled, cpu::quantize::read_scaled(n));
  return s;
}

// Codes of floats of 4 and 8 bits, indexed by the upper half of a float32 whose last bit records whether any bits were
// lost: enough to round to 3 bits of mantissa as from the whole. And their values.
struct Codes {
  std::vector<uint8_t> of;
  std::array<float, 256> value{};
};
uint32_t upper_half(float v) {
  uint32_t bits = 0;
  __builtin_memcpy(&bits, &v, sizeof bits);
  return bits >> 16 | static_cast<uint32_t>((bits & 0xffffU) != 0);
}
Codes codes_of(const Shape& s) {
  Codes c;
  const bool four = s.narrow == DType::kF4E2M1;
  for (uint32_t k = 0; k < 256; ++k)
    c.value[k] = four ? f4e2m1_to_f32(static_cast<uint8_t>(k & 15U)) : f8_to_f32(s.narrow, static_cast<uint8_t>(k));
  if (!s.quantizes) return c;
  c.of.resize(1U << 16);
  for (uint32_t k = 0; k < c.of.size(); ++k) {
    const uint32_t bits = k << 16;
    float v = 0;
    __builtin_memcpy(&v, &bits, sizeof v);
    c.of[k] = four ? f32_to_f4e2m1(v) : f32_to_f8(s.narrow, v, s.saturates);
  }
  return c;
}

struct Plan {
  Shape s;
  const Loops* loops = nullptr;
  Half wide, scale;
  Codes codes;
  Source x, scales, zero;
};

// Memory of a worker for a part.
struct alignas(64) Part {
  std::array<float, kPart> values, scales;
  std::array<uint16_t, kPart> halves;
  std::array<uint8_t, kPart> bytes, few;
  std::array<int32_t, kPart> zeros;
};

// The bytes that elements below a byte come from and go to, as one number.
template <int kBits>
using Spread = std::conditional_t<kBits == 4, uint16_t, uint32_t>;

// Elements [at, at + n), one in a byte each; of integers with their sign.
template <int kBits>
[[gnu::target("avx2")]] void unpack_of(bool with_sign, const uint8_t* __restrict from, int64_t at, int64_t n,
                                       uint8_t* __restrict to) {
  constexpr int64_t kEach = 8 / kBits;  // elements in a byte
  constexpr uint32_t kMask = (1U << kBits) - 1;
  const auto one = [&](int64_t k) {
    const auto place = static_cast<uint64_t>(at + k);
    return static_cast<uint8_t>(static_cast<uint32_t>(from[place / kEach]) >> (place % kEach * kBits) & kMask);
  };
  int64_t k = 0;
  if (at % kEach == 0) {
    auto* __restrict const out = reinterpret_cast<Spread<kBits>*>(to);
    const uint8_t* const first = from + at / kEach;
    for (int64_t j = 0; j < n / kEach; ++j) {
      const uint32_t b = first[j];
      uint32_t spread = 0;
      for (int e = 0; e < kEach; ++e) spread |= (b >> (e * kBits) & kMask) << (8 * e);
      out[j] = static_cast<Spread<kBits>>(spread);
    }
    k = n / kEach * kEach;
  }
  for (; k < n; ++k) to[k] = one(k);
  if (!with_sign) return;
  constexpr uint8_t kSign = 1U << (kBits - 1);
  for (k = 0; k < n; ++k) to[k] = static_cast<uint8_t>((to[k] ^ kSign) - kSign);
}
void unpack(DType t, const void* from, int64_t at, int64_t n, uint8_t* to) {
  const bool with_sign = is_integer(t) && is_signed(t);
  (dtype_bits(t) == 4 ? unpack_of<4> : unpack_of<2>)(with_sign, static_cast<const uint8_t*>(from), at, n, to);
}
// Bytes clamped to the range of a sub-byte type and packed from `to` on. `from` must have one additional byte and is
// overwritten.
template <int kBits, class Byte>
[[gnu::target("avx2")]] void pack_of(Byte* __restrict from, int64_t n, uint8_t* __restrict to) {
  constexpr int64_t kEach = 8 / kBits;  // elements in a byte
  constexpr int kSteps = 1 << kBits;
  constexpr Byte kLow = Byte(-1) < Byte(0) ? -kSteps / 2 : 0, kHigh = kLow + kSteps - 1;
  for (int64_t k = 0; k < n; ++k) {
    const Byte v = from[k] < kLow ? kLow : from[k];
    from[k] = v > kHigh ? kHigh : v;
  }
  for (int64_t k = n; k % kEach != 0; ++k) from[k] = 0;
  const auto* __restrict const in = reinterpret_cast<const Spread<kBits>*>(from);
  for (int64_t j = 0; j < (n + kEach - 1) / kEach; ++j) {
    const uint32_t spread = in[j];
    uint32_t out = 0;
    for (int e = 0; e < kEach; ++e) out |= (spread >> (8 * e) & (kSteps - 1)) << (e * kBits);
    to[j] = static_cast<uint8_t>(out);
  }
}
void pack(DType t, uint8_t* from, int64_t n, uint8_t* to) {
  const bool four = dtype_bits(t) == 4;
  if (is_float(t) || !is_signed(t)) return (four ? pack_of<4, uint8_t> : pack_of<2, uint8_t>)(from, n, to);
  (four ? pack_of<4, int8_t> : pack_of<2, int8_t>)(reinterpret_cast<int8_t*>(from), n, to);
}

class Narrow {
 public:
  Narrow(const Plan& p, const Args& args)
      : p_(p), part_(*reinterpret_cast<Part*>(args.scratch)), args_(args), y_(args.out[0]) {}

  // Elements [begin, begin + n), n <= kPart; begin is a multiple of it.
  void run(int64_t begin, int64_t n) {
    const Shape& s = p_.s;
    if (!s.quantizes && s.packed()) unpack(s.narrow, p_.x.data(args_), begin, n, part_.bytes.data());
    if (s.scaled.spreads()) run_spread(begin, n);
    for (int64_t at = begin; !s.scaled.spreads() && at < begin + n;) {
      const Scaled::Run run = s.scaled.run_at(at);
      const int64_t m = std::min(begin + n - at, run.n), wanted = run.step == 0 ? 1 : m;
      const float* scale = p_.scales.f32(args_) + run.scale;
      if (p_.scale.widen) {
        convert(p_.scale.widen, moved(p_.scales.data(args_), s.scale, run.scale), part_.scales.data(), wanted);
        scale = part_.scales.data();
      }
      const void* zero = nullptr;
      if (const void* const given = s.floating() ? nullptr : p_.zero.data(args_)) {
        zero = s.packed() ? part_.few.data() : moved(given, s.narrow, run.scale);
        if (s.packed()) unpack(s.narrow, given, run.scale, wanted, part_.few.data());
      }
      s.quantizes ? quantize(at, at - begin, m, scale, zero, run.step)
                  : dequantize(at, at - begin, m, scale, zero, run.step);
      at += m;
    }
    if (s.quantizes && s.packed())
      pack(s.narrow, part_.bytes.data(), n, static_cast<uint8_t*>(y_) + begin * dtype_bits(s.narrow) / 8);
  }

 private:
  // A part whose scales serve a few neighbours each: one is made for each element.
  void run_spread(int64_t begin, int64_t n) {
    const Shape& s = p_.s;
    const Scaled& by = s.scaled;
    if (p_.scale.widen) {
      spread(by, s.scale, begin, n, p_.scales.data(args_), part_.halves.data());
      convert(p_.scale.widen, part_.halves.data(), part_.scales.data(), n);
    } else {
      cpu::quantize::spread<float>(by, begin, n, p_.scales.f32(args_) + by.scale_at(begin), part_.scales.data());
    }
    const void* const given = s.floating() ? nullptr : p_.zero.data(args_);
    if (given && s.packed()) {
      const int64_t first = by.scale_at(begin);
      unpack(s.narrow, given, first, by.scale_at(begin + n - 1) + 1 - first, part_.few.data());
      cpu::quantize::spread<uint8_t>(by, begin, n, part_.few.data(), reinterpret_cast<uint8_t*>(part_.zeros.data()));
    } else if (given) {
      spread(by, s.narrow, begin, n, given, part_.zeros.data());
    }
    const void* const zero = given ? part_.zeros.data() : nullptr;
    s.quantizes ? quantize(begin, 0, n, part_.scales.data(), zero, 1)
                : dequantize(begin, 0, n, part_.scales.data(), zero, 1);
  }

  // Elements [at, at + n), the `within`-th of the part on.
  void quantize(int64_t at, int64_t within, int64_t n, const float* scale, const void* zero, int64_t step) {
    const Shape& s = p_.s;
    const float* x = static_cast<const float*>(p_.x.data(args_)) + at;
    float* const v = part_.values.data();
    if (p_.wide.widen) {
      convert(p_.wide.widen, moved(p_.x.data(args_), s.wide, at), v, n);
      x = v;
    }
    if (s.divided != DType::kF32 || s.floating()) {
      p_.loops->quotients(x, scale, step, v, n);
      if (s.divided != DType::kF32) {
        convert(p_.wide.narrow, v, part_.halves.data(), n);
        convert(p_.wide.widen, part_.halves.data(), v, n);
      }
      x = v;
      scale = kOnes.data();
    }
    void* const y = s.packed() ? part_.bytes.data() + within : moved(y_, s.narrow, at);
    if (!s.floating()) return quantize_run(*p_.loops, s.loops(), x, scale, zero, step, y, n);
    const uint8_t* const code = p_.codes.of.data();
    for (int64_t k = 0; k < n; ++k) static_cast<uint8_t*>(y)[k] = code[upper_half(x[k])];
  }

  void dequantize(int64_t at, int64_t within, int64_t n, const float* scale, const void* zero, int64_t step) {
    const Shape& s = p_.s;
    const void* const x = s.packed() ? part_.bytes.data() + within : moved(p_.x.data(args_), s.narrow, at);
    float* const y = p_.wide.narrow ? part_.values.data() : static_cast<float*>(y_) + at;
    if (s.floating()) {
      const float* const value = p_.codes.value.data();
      for (int64_t k = 0; k < n; ++k) y[k] = value[static_cast<const uint8_t*>(x)[k]] * scale[k * step];
    } else {
      dequantize_run(*p_.loops, s.loops(), x, scale, zero, step, y, n);
    }
    if (p_.wide.narrow) convert(p_.wide.narrow, y, moved(y_, s.wide, at), n);
  }

  const Plan& p_;
  Part& part_;
  const Args& args_;
  void* const y_;
};

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  PERI_TRY(cpu::best_isa(target));
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(const Shape s, read(p));
  PERI_ASSIGN(const auto isa, cpu::best_isa(*c.target));
  const bool wide = isa == cpu::Isa::kAvx512;
  const auto find = wide ? typed::avx512::find : typed::avx2::find;
  const ir::Node& n = p.anchor();
  auto plan = std::make_shared<Plan>(Plan{s, wide ? &cpu::quantize::avx512::kLoops : &cpu::quantize::avx2::kLoops,
                                          Half::of(s.wide, find), Half::of(s.scale, find),
                                          s.floating() ? codes_of(s) : Codes{}, Source::of(p, n.in(0), c.constants),
                                          Source::of(p, n.in(1), c.constants), Source::of(p, n.in(2), c.constants)});
  using cpu::kTaskElements;
  static_assert(kTaskElements % kPart == 0);
  const int64_t all = s.scaled.elements();
  return TaskInstance::make((all + kTaskElements - 1) / kTaskElements, sizeof(Part),
                            [plan, all](int64_t task, const Args& args) {
                              Narrow part(*plan, args);
                              const int64_t end = std::min(all, (task + 1) * kTaskElements);
                              for (int64_t at = task * kTaskElements; at < end; at += kPart)
                                part.run(at, std::min(kPart, end - at));
                            });
}
}  // namespace

extern const Entry quantize_narrow_entry;
const Entry quantize_narrow_entry{{
    .name = "quantize_narrow",
    .version = 1,
    .provider = "peri",
    .takes = "f32, f16 and bf16 into integers of 2 to 16 bits and floats of 4 and 8, and back, by scales of any form",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples =
        {"graph { input x: f16[3,5,301]; const s: f16[5] = [0.01, 0.1, 0.002, 0.5, 0.03]; const z: i8[5] = splat(3); y "
         "= quantize_linear(x, s, z); output y }",
         "graph { input x: bf16[3,5,301]; const s: bf16[] = [0.03]; const z: u16[] = [30000]; y = quantize_linear(x, "
         "s, "
         "z); output y }",
         "graph { input x: f16[7,130]; const s: f32[130] = splat(0.02); y = quantize_linear(x, s) {output_dtype=12}; "
         "output y }",
         "graph { input x: f32[3,5,77]; const s: f32[] = [0.3]; const z: u4[] = [5]; y = quantize_linear(x, s, z); "
         "output y }",
         "graph { input x: f32[3,5,77]; const s: f32[3,5,3] = splat(0.3); const z: i4[3,5,3] = splat(-2); y = "
         "quantize_linear(x, s, z) {axis=2, block_size=32}; output y }",
         "graph { input x: f32[5,700]; const s: f32[5] = splat(0.7); const z: i2[5] = splat(-1); y = "
         "quantize_linear(x, s, z) {axis=0}; output y }",
         "graph { input x: f32[5,701]; const s: f32[] = [0.01]; const z: f8e4m3fn[] = [0.0]; y = quantize_linear(x, s, "
         "z); output y }",
         "graph { input x: f16[5,701]; const s: f16[701] = splat(0.01); const z: f8e5m2[701] = splat(0.0); y = "
         "quantize_linear(x, s, z) {saturate=0}; output y }",
         "graph { input x: i4[3,5,77]; const s: f32[77] = seeded(0.1, 1); const z: i4[77] = splat(-2); y = "
         "dequantize_linear(x, s, z) {axis=2}; output y }",
         "graph { input x: u2[5,701]; const s: f16[] = [0.1]; y = dequantize_linear(x, s); output y }",
         "graph { input x: u4[130,65]; const s: f32[5,65] = seeded(0.1, 1); const z: u4[5,65] = splat(3); y = "
         "dequantize_linear(x, s, z) {axis=0, block_size=32}; output y }",
         "graph { input x: i16[5,701]; const s: bf16[] = [0.1]; const z: i16[] = [-700]; y = dequantize_linear(x, s, "
         "z); output y }",
         "graph { input x: f8e4m3fn[5,701]; const s: f32[701] = seeded(0.1, 1); y = dequantize_linear(x, s); output y "
         "}",
         "graph { input x: f32[30,77]; const s: f32[30,10] = splat(0.3); const z: i4[30,10] = splat(-2); y = "
         "quantize_linear(x, s, z) {axis=1, block_size=8}; output y }",
         "graph { input x: u16[300,21]; const s: f16[300,5] = splat(0.3); const z: u16[300,5] = splat(700); y = "
         "dequantize_linear(x, s, z) {axis=1, block_size=5}; output y }",
         "graph { input x: f4e2m1[5,64]; const s: f16[5,2] = splat(0.25); y = dequantize_linear(x, s) {axis=1, "
         "block_size=32}; output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
