// Kernel recurrent_bytes: an LSTM with 8-bit weights, packed once as bytes; inputs and states are quantised to 16 bits
// for the products, as two bytes each (with AVX2 as one number), whose sums with the weights are exact.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/cell/walk.hpp"
#include "kernels/cpu/cell/words.hpp"
#include "kernels/cpu/integer/matched.hpp"
#include "kernels/weights/packed.hpp"

namespace peri::kernels {
namespace {
namespace cell = cpu::cell;
namespace integer = cpu::integer;
using cell::Shape;
using cpu::Isa;
using integer::Dot;
using integer::kGroup;
using integer::kPanel;

enum Port : size_t { kWScale = cell::kPorts, kWZero, kRScale, kRZero };
constexpr int64_t kRows = 32;                                 // numbers' rows that are multiplied at a time
constexpr int64_t kProducts = 32768;                          // of a sum, which stays an int32
constexpr int64_t kBlockProducts = 1 << 16, kMaxBlocks = 16;  // as recurrent_f32 has them
constexpr int64_t kGroupColumns = kGroup * kPanel;

int64_t up(int64_t v, int64_t to) { return (v + to - 1) / to * to; }

Result<Shape> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "dynamic_quantize_lstm") return refused("no cell with weights of a byte");
  // Around another zero point bytes would be numbers of nine bits.
  if (n.in(kWZero) || n.in(kRZero)) return refused("weights that do not lie around the middle of their type");
  for (const size_t port : {size_t{cell::kW}, size_t{cell::kR}, size_t{cell::kBias}, size_t{cell::kPeephole},
                            size_t{kWScale}, size_t{kRScale}})
    if (!cell::is_constant(p, port)) return refused("weights or scales that are made while running");
  Shape s;
  s.kind = cell::Kind::kLstm;
  s.gates = 4;
  const std::vector<int64_t> r = dims_of(*n.in(cell::kR));
  s.directions = r[0];
  s.hidden = r[1];
  s.units = cell::units_of(s, kBlockProducts, kMaxBlocks);
  PERI_TRY(cell::read_cell(p, &s));
  if (s.input > kProducts || s.hidden > kProducts) return refused("sums of more than %d products", int{kProducts});
  return s;
}

// Offsets in the packed weights, in bytes: for each direction W, the blocks of R (all gates of the block's units, gate
// after gate), then in float32 the scales of W's columns, those of the blocks', and the biases of all gates.
struct Form {
  const Shape& s;
  int64_t columns(int64_t block) const { return s.gates * s.width_of(block); }
  int64_t w() const { return up(integer::packed_bytes(s.input, s.sums()), 64); }
  int64_t r(int64_t block) const { return up(integer::packed_bytes(s.hidden, columns(block)), 64); }
  int64_t all_r() const { return (s.blocks() - 1) * r(0) + r(s.blocks() - 1); }
  int64_t floats() const { return up(s.sums() * 4, 64); }
  int64_t r_scales() const { return s.blocks() * columns(0) * 4; }
  int64_t of_w(int64_t d) const { return d * (w() + all_r() + 2 * floats() + r_scales()); }
  int64_t of_r(int64_t d, int64_t block) const { return of_w(d) + w() + block * r(0); }
  int64_t of_w_scale(int64_t d) const { return of_w(d) + w() + all_r(); }
  int64_t of_bias(int64_t d) const { return of_w_scale(d) + floats(); }
  int64_t of_r_scale(int64_t d, int64_t block) const { return of_bias(d) + floats() + block * columns(0) * 4; }
  int64_t all() const { return of_w(s.directions); }
};

struct Weights {
  Tensor w, r, bias, w_scale, r_scale;
  bool flips = false;  // of u8, around 128
};
// Of row `j` of the gates; one scale a direction, or one a row.
float scale_of(const Tensor& t, const Shape& s, int64_t d, int64_t j) {
  const float* const scale = static_cast<const float*>(t.data());
  return t.numel() == s.directions ? scale[d] : scale[d * s.sums() + j];
}

void pack_direction(const Form& f, const Weights& from, int64_t d, std::byte* to) {
  const Shape& s = f.s;
  const auto floats = [&](int64_t at) { return reinterpret_cast<float*>(to + at); };
  integer::pack(static_cast<const uint8_t*>(from.w.data()) + d * s.input * s.sums(), s.sums(), from.flips, s.input,
                s.sums(), to + f.of_w(d));
  const auto* const r = static_cast<const uint8_t*>(from.r.data()) + d * s.hidden * s.sums();
  std::vector<uint8_t> columns;
  for (int64_t block = 0; block < s.blocks(); ++block) {
    const int64_t width = s.width_of(block), all = f.columns(block);
    columns.assign(static_cast<size_t>(s.hidden * all), from.flips ? uint8_t{0x80} : uint8_t{0});
    float* const scales = floats(f.of_r_scale(d, block));
    std::fill_n(scales, all, 0.0F);
    for (int64_t g = 0; g < s.gates; ++g) {
      const int64_t first = g * s.hidden + block * s.units;
      for (int64_t k = 0; k < s.hidden; ++k)
        std::copy_n(r + k * s.sums() + first, s.units_of(block), columns.begin() + k * all + g * width);
      for (int64_t j = 0; j < s.units_of(block); ++j) scales[g * width + j] = scale_of(from.r_scale, s, d, first + j);
    }
    integer::pack(columns.data(), all, from.flips, s.hidden, all, to + f.of_r(d, block));
  }
  const float* const bias =
      from.bias.defined() ? static_cast<const float*>(from.bias.data()) + d * 2 * s.sums() : nullptr;
  for (int64_t j = 0; j < s.sums(); ++j) {
    floats(f.of_w_scale(d))[j] = scale_of(from.w_scale, s, d, j);
    floats(f.of_bias(d))[j] = bias ? bias[j] + bias[s.sums() + j] : 0.0F;
  }
}

class BytesInstance final : public cell::Walk {
 public:
  BytesInstance(const Shape& s, Isa isa, Dot dot, Packed packed, std::vector<Source> ports, int64_t steps)
      : Walk(s, isa, std::move(ports), steps, cut_of(s, dot)), dot_(dot), packed_(std::move(packed)) {}
  static cell::WalkCut cut_of(const Shape& s, Dot dot) {
    cell::WalkCut out;
    out.scratch = static_cast<size_t>(product_bytes(s, dot) + s.batch * width(s, false, 0) * 4);
    out.input_tasks[0] = (s.most_rows() + kRows - 1) / kRows;
    out.input_tasks[1] = (s.last_rows() + kRows - 1) / kRows;
    return out;
  }

 private:
  struct Side {
    const std::byte* packed;
    int64_t k, n;
    const float *scale, *add;
  };
  const std::byte* at(int64_t offset) const { return packed_as<std::byte>(packed_) + offset; }
  const float* floats(int64_t offset) const { return reinterpret_cast<const float*>(at(offset)); }
  static int64_t tile_rows(Dot dot) { return up(2 * kRows, integer::tiles_of(dot).row_multiple); }
  static int64_t row_bytes(int64_t k) { return up(k, integer::kDepth); }
  static int64_t product_bytes(const Shape& s, Dot dot) {
    const int64_t row = row_bytes(std::max(s.input, s.hidden));
    return dot == Dot::kAvx2 ? 2 * (kRows + 1) * row : tile_rows(dot) * (row + kGroupColumns * 4);
  }

  // At most kRows rows of `x` by a side, into rows of `y`.
  void multiply(const float* x, int64_t rows, const Side& by, float* y, int64_t ldy, std::byte* scratch) const {
    dot_ == Dot::kAvx2 ? multiply_words(x, rows, by, y, ldy, scratch) : multiply_bytes(x, rows, by, y, ldy, scratch);
  }
  // Each number as one of 16 bits.
  void multiply_words(const float* x, int64_t rows, const Side& by, float* y, int64_t ldy, std::byte* scratch) const {
    cell::avx2::Words words;
    words.ldx = row_bytes(by.k);
    auto* const high = reinterpret_cast<uint8_t*>(scratch);
    auto* const to = reinterpret_cast<int16_t*>(scratch + 2 * words.ldx);
    float steps[kRows];
    for (int64_t r = 0; r < rows; ++r) {
      steps[r] = cell::avx2::split(x + r * by.k, by.k, high, high + words.ldx);
      cell::avx2::interleave(high, high + words.ldx, by.k, to + r * words.ldx);
    }
    words.x = to;
    words.rows = rows;
    words.k = by.k;
    words.n = by.n;
    words.steps = steps;
    words.b = reinterpret_cast<const int8_t*>(by.packed);
    words.panel_bytes = integer::panel_bytes(by.k);
    words.scale = by.scale;
    words.add = by.add;
    words.y = y;
    words.ldy = ldy;
    cell::avx2::multiply(words);
  }
  // Each as two bytes.
  void multiply_bytes(const float* x, int64_t rows, const Side& by, float* y, int64_t ldy, std::byte* scratch) const {
    const integer::Tiles& tiles = integer::tiles_of(dot_);
    const bool wide = isa() == Isa::kAvx512;
    integer::TileArgs tile;
    tile.lda = row_bytes(by.k);
    tile.rows = 2 * rows;
    tile.panel_bytes = integer::panel_bytes(by.k);
    tile.k = by.k;
    tile.c = reinterpret_cast<int32_t*>(scratch);
    auto* const bytes = reinterpret_cast<uint8_t*>(scratch + tile_rows(dot_) * kGroupColumns * 4);
    tile.a = bytes;
    float steps[kRows];
    for (int64_t r = 0; r < rows; ++r)
      steps[r] = (wide ? cell::avx512::split : cell::avx2::split)(x + r * by.k, by.k, bytes + 2 * r * tile.lda,
                                                                  bytes + (2 * r + 1) * tile.lda);
    const int64_t filled = std::min(tile_rows(dot_), up(tile.rows, tiles.row_multiple));
    std::memset(bytes + tile.rows * tile.lda, 0, static_cast<size_t>((filled - tile.rows) * tile.lda));
    const int32_t* const columns = integer::column_sums(by.packed, by.k, by.n);
    for (int64_t col = 0; col < by.n; col += kGroupColumns) {
      const int64_t n = std::min(kGroupColumns, by.n - col);
      tile.b = reinterpret_cast<const int8_t*>(by.packed) + col / kPanel * tile.panel_bytes;
      tile.panels = (n + kPanel - 1) / kPanel;
      tiles.run(tile);
      for (int64_t r = 0; r < rows; ++r) {
        const int32_t* const high = tile.c + 2 * r * kGroupColumns;
        (wide ? cell::avx512::join
              : cell::avx2::join)({high, high + kGroupColumns, columns + col, by.scale + col,
                                   by.add ? by.add + col : nullptr, steps[r], y + r * ldy + col, n});
      }
    }
  }
  void multiply_inputs(int64_t d, int64_t part, Rows all, float* to, const Args& args) const override {
    const Shape& s = shape();
    const Form f{s};
    const int64_t row = part * kRows, rows = std::min(kRows, all.count - row);
    const Side w = {at(f.of_w(d)), s.input, s.sums(), floats(f.of_w_scale(d)), floats(f.of_bias(d))};
    multiply(port(cell::kX, args) + (all.first + row) * s.input, rows, w, to + row * s.sums(), s.sums(), args.scratch);
  }
  const float* multiply_states(int64_t d, int64_t block, bool, const float* states, const Args& args) const override {
    const Shape& s = shape();
    const Form f{s};
    float* const product = reinterpret_cast<float*>(args.scratch + product_bytes(s, dot_));
    const int64_t columns = f.columns(block);
    const Side r = {at(f.of_r(d, block)), s.hidden, columns, floats(f.of_r_scale(d, block)), nullptr};
    for (int64_t row = 0; row < s.batch; row += kRows)
      multiply(states + row * s.hidden, std::min(kRows, s.batch - row), r, product + row * columns, columns,
               args.scratch);
    return product;
  }

  Dot dot_;
  Packed packed_;
};

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_ASSIGN(const Shape s, read(p));
  PERI_ASSIGN(std::vector<Offer> offers, integer::offers_of(p, target));
  for (Offer& o : offers) o.outputs.resize(p.graph->outputs.size());
  return cell::with_whole_directions(std::move(offers), s);
}

struct Planned {
  Shape shape;
  Isa isa;
  Dot dot;
  int64_t steps;
};
Result<Planned> planned(const Problem& p, std::string_view config, const Target& target) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(const Shape s, read(p));
  PERI_ASSIGN(const auto steps, cell::read_steps(config));
  PERI_ASSIGN(const Dot dot, integer::read_dot(steps.second, target));
  PERI_ASSIGN(const Isa isa, cpu::best_isa(target));
  return Planned{s, isa, dot, steps.first};
}

Result<Needs> needs(const Problem& p, std::string_view config, const Target& target) {
  PERI_ASSIGN(const Planned made, planned(p, config, target));
  return cell::Walk::needs_of(made.shape, made.steps, BytesInstance::cut_of(made.shape, made.dot));
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view config, const InstantiateContext& c) {
  PERI_ASSIGN(const Planned made, planned(p, config, *c.target));
  const Shape& s = made.shape;
  const ir::Node& n = p.anchor();
  Weights from;
  from.flips = n.in(cell::kW)->type.dtype == DType::kU8;
  const auto get = [&](size_t port, Tensor* to) { return integer::known(p, n.in(port), c, to); };
  const Form form{s};
  PERI_TRY(pack_bytes_once(c, "", form.all(), [&](std::byte* to) {
    get(cell::kW, &from.w);
    get(cell::kR, &from.r);
    get(cell::kBias, &from.bias);
    get(kWScale, &from.w_scale);
    get(kRScale, &from.r_scale);
    for (int64_t d = 0; d < s.directions; ++d) pack_direction(form, from, d, to);
  }));
  std::vector<Source> ports(cell::kPorts);
  for (const size_t port : {cell::kX, cell::kLengths, cell::kInitialH, cell::kInitialC, cell::kPeephole})
    ports[port] = Source::of(p, n.in(port), c.constants);
  return std::unique_ptr<Instance>(
      std::make_unique<BytesInstance>(s, made.isa, made.dot, *c.packed, std::move(ports), made.steps));
}
}  // namespace

extern const Entry recurrent_bytes_entry;
const Entry recurrent_bytes_entry{{
    .name = "recurrent_bytes",
    .version = 2,
    .provider = "peri",
    .takes = "DynamicQuantizeLSTM with constant weights around the middle of their type",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs,
    // More than a block of units, more than a part of rows.
    .samples =
        {"graph { input x: f32[3,2,70]; const w: i8[2,70,800] = seeded(40, 1); const r: i8[2,200,800] = seeded(40, 2); "
         "const b: f32[2,1600] = seeded(0.2, 3); const n: i32[2] = [2, 3]; input h: f32[2,2,200]; input c: "
         "f32[2,2,200]; const p: f32[2,600] = seeded(0.3, 4); const s: f32[2] = [0.02, 0.03]; const t: f32[2] = [0.01, "
         "0.02]; y, k, m = dynamic_quantize_lstm(x, w, r, b, n, h, c, p, s, _, t) {direction=\"bidirectional\"}; "
         "output "
         "y; output k; output m }",
         "graph { input x: f32[2,37,9]; const w: u8[1,9,212] = seeded(150, 1); const r: u8[1,53,212] = seeded(150, 2); "
         "const s: f32[1,212] = seeded(0.002, 1); const t: f32[1,212] = seeded(0.0005, 2); y, k, m = "
         "dynamic_quantize_lstm(x, w, r, _, _, _, _, _, s, _, t) {direction=\"reverse\"}; output y; output m }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
