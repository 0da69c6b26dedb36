// Sums come as bits of floats.
#include "kernels/cuda/code/bytes_tiles.hpp"

#include "kernels/cuda/code/chain.hpp"
#include "kernels/match/epilogue_match.hpp"

namespace peri::kernels::cuda {

namespace {
constexpr uint8_t kNoSign = 128;  // unsigned weights less this are signed ones

// What all elements of a constant are, 0 of none; nothing where they differ, or it is known in the run only.
std::optional<int64_t> same_everywhere(const ir::Value* v) {
  if (!v) return 0;
  if (!v->constant || v->constant->numel() == 0) return std::nullopt;
  for (int64_t k = 1; k < v->constant->numel(); ++k)
    if (v->constant->i64(k) != v->constant->i64(0)) return std::nullopt;
  return v->constant->i64(0);
}
}  // namespace

Result<ByteTiles> read_byte_tiles(const Problem& p, int64_t columns) {
  ByteTiles out;
  PERI_ASSIGN(out.bytes, read_bytes(p.anchor()));
  const Bytes& b = out.bytes;
  const int a = input_index(*p.graph, b.a), w = input_index(*p.graph, b.b);
  if (a < 0 || p.constant[static_cast<size_t>(a)]) return refused("a left side that is not an argument");
  if (w < 0 || !p.constant[static_cast<size_t>(w)]) return refused("weights that are not constant");
  out.weights = static_cast<size_t>(w);
  out.a_zero = same_everywhere(b.a_zero);
  out.turned = b.b->type.dtype == DType::kU8 ? kNoSign : 0;
  if (b.b_zero && !b.b_zero->constant) return refused("a zero point of weights that is no constant of the region");
  const int64_t zeros = b.b_zero ? b.b_zero->constant->numel() : 1;
  if (zeros != 1 && zeros != columns) return refused("zero points for each matrix");
  bool all = true;
  for (int64_t k = 0; k < zeros; ++k) {
    out.b_zeros.push_back((b.b_zero ? b.b_zero->constant->i64(k) : 0) - out.turned);
    all = all && out.b_zeros.back() == 0;
  }
  if (all) out.b_zeros.clear();
  return out;
}

Result<ByteColumns> byte_column_text(const Problem& p, const ByteTiles& t, int64_t columns, const std::string& column,
                                     std::function<Result<Tensor>(const Tensor&)> sums, const std::string& suffix,
                                     Signature* s, TiledProduct* out) {
  PERI_ASSIGN(const Rounding r, read_rounding(p, t.bytes, columns, s, &out->packed));
  const auto packed = [&](std::function<Result<Tensor>(const Tensor&)> make) {
    out->packed.push_back({t.weights, std::move(make)});
    return "((const int*)" + s->packed(out->packed.size() - 1) + ")[column]";
  };
  // Sum of (a - zero)(b - own) = sum of ab - zero * sum of (b - own) - own * sum of a, wrapping as the reference does.
  std::string shift = "0", own = "0";
  if (t.a_zero != 0) {
    PERI_ASSIGN(const std::string zero, zero_point_text(p, *t.bytes.a_zero, s));
    shift = "peri_mul(" + zero + ", " + packed(std::move(sums)) + ")";
  }
  out->row_sums = out->row_sums || !t.b_zeros.empty();
  if (t.b_zeros.size() == 1)
    own = s->whole_number(static_cast<int>(t.b_zeros[0]));
  else if (!t.b_zeros.empty())
    own = packed([t, columns](const Tensor&) -> Result<Tensor> {
      PERI_ASSIGN(Tensor zeros, Tensor::zeros(DType::kI32, {columns}));
      for (int64_t k = 0; k < columns; ++k) zeros.set_i64(k, t.b_zero(k));
      return zeros;
    });
  const std::string rounded = "peri_rounded" + suffix;
  return ByteColumns{
      r.text(rounded) + "PERI_DEVICE peri_early_one peri_early_of" + suffix +
          "(const PERI_INDEX batch, const PERI_INDEX n, PERI_PARAMETERS) {\n  const PERI_INDEX column = " + column +
          ";\n  const peri_early_one out = {" + r.bias + ", " + r.factor_or_none() + ", " + shift + ", " + own +
          "};\n  return out;\n}\nPERI_DEVICE int peri_sum_of" + suffix +
          "(const float v, const peri_early_one& c, const int row, PERI_PARAMETERS) {\n  const int sum = "
          "peri_sub(peri_sub((int)peri_word(v), c.shift), peri_mul(c.own, row));\n  return " +
          rounded + "(sum, c.bias, c.factor, PERI_PASS);\n}\n",
      r.table};
}

std::string_view byte_structs() {
  return R"(#define PERI_COLUMN 0
struct peri_early_one { double bias, factor; int shift, own; };
struct peri_early { peri_early_one of[8]; };
)";
}

std::string_view byte_ends() {
  return R"(PERI_DEVICE void peri_early_8(peri_early* early, const PERI_INDEX batch, const PERI_INDEX n, PERI_PARAMETERS) {
#pragma unroll
  for (int e = 0; e < 8; ++e) early->of[e] = peri_early_of(batch, n + e, PERI_PASS);
}
PERI_DEVICE int peri_sum(const float v, const int row, const PERI_INDEX batch, const PERI_INDEX, const PERI_INDEX n, PERI_PARAMETERS) {
  return peri_sum_of(v, peri_early_of(batch, n, PERI_PASS), row, n, PERI_PASS);
}
PERI_DEVICE void peri_sum_8(float* v, const peri_early& early, const int row, const PERI_INDEX, const PERI_INDEX, const PERI_INDEX n, PERI_PARAMETERS) {
#pragma unroll
  for (int e = 0; e < 8; ++e) v[e] = peri_bits((unsigned)peri_sum_of(v[e], early.of[e], row, n, PERI_PASS));
}
)";
}

Result<std::string> byte_end_text(const Problem& p, const ByteTiles& t, int64_t columns, const std::string& column,
                                  std::function<Result<Tensor>(const Tensor&)> sums, Signature* s, TiledProduct* out) {
  PERI_ASSIGN(const ByteColumns of, byte_column_text(p, t, columns, column, std::move(sums), "_one", s, out));
  PERI_ASSIGN(const std::string finish, finish_held_text(p, s, of.table));
  return std::string(byte_structs()) + of.text + finish +
         R"(PERI_DEVICE peri_early_one peri_early_of(const PERI_INDEX batch, const PERI_INDEX n, PERI_PARAMETERS) {
  return peri_early_of_one(batch, n, PERI_PASS);
}
PERI_DEVICE int peri_sum_of(const float v, const peri_early_one& c, const int row, const PERI_INDEX, PERI_PARAMETERS) {
  return peri_sum_of_one(v, c, row, PERI_PASS);
}
)" + std::string(byte_ends());
}

std::string byte_rows_text(const std::string& address) {
  return R"(struct peri_a_line { PERI_INDEX at; bool there; };
struct peri_a_step { PERI_INDEX at; bool there; };
PERI_DEVICE peri_a_line peri_a_line_of(const PERI_INDEX, const PERI_INDEX m, PERI_PARAMETERS) {
  const peri_a_line out = {m * PERI_K, m < PERI_M};
  return out;
}
PERI_DEVICE peri_a_step peri_a_step_of(const PERI_INDEX, const PERI_INDEX k, PERI_PARAMETERS) {
  const peri_a_step out = {k, PERI_WHOLE_K || k < PERI_K};
  return out;
}
PERI_DEVICE PERI_INDEX peri_place(const PERI_INDEX, const PERI_INDEX m, const PERI_INDEX n, PERI_PARAMETERS) {
  return m * PERI_N + n;
}
PERI_DEVICE const unsigned short* peri_a_from(const peri_a_line& line, const peri_a_step& step, bool* there, PERI_PARAMETERS) {
  *there = line.there && step.there;
  return (const unsigned short*))" +
         address + " + (line.at + step.at);\n}\n";
}

Result<Tensor> packed_columns(const Tensor& w, int64_t k, int64_t n, uint8_t turned) {
  const int64_t depth = (k + 15) / 16 * 16;
  PERI_ASSIGN(Tensor out, Tensor::zeros(DType::kI8, {n, depth}));
  const auto* from = reinterpret_cast<const uint8_t*>(w.bytes().data());
  auto* to = reinterpret_cast<uint8_t*>(const_cast<std::byte*>(out.bytes().data()));
  for (int64_t row = 0; row < k; ++row)
    for (int64_t column = 0; column < n; ++column) to[column * depth + row] = from[row * n + column] ^ turned;
  return out;
}

Result<Tensor> sums_of_columns(const Tensor& w, int64_t k, int64_t n, const ByteTiles& t) {
  PERI_ASSIGN(Tensor out, Tensor::zeros(DType::kI32, {n}));
  for (int64_t column = 0; column < n; ++column) {
    int64_t sum = 0;
    for (int64_t row = 0; row < k; ++row) sum += signed_weight(t, w, row * n + column, column);
    out.set_i64(column, sum);
  }
  return out;
}

}  // namespace peri::kernels::cuda
