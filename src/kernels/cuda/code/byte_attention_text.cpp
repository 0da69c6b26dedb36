// A block has 16 queries of a head, and each of its warps every so manieth chunk of 16 or 32 keys. Fragments come from
// memory to registers: the depth of queries and keys, and the order of keys and columns of values, are numbered such
// that a lane reads neighbours. Scores stay in shared memory, each with the lane that made it, or are computed twice
// where the keys are many.
#include "kernels/cuda/code/byte_attention_text.hpp"

#include <algorithm>
#include <vector>

#include "base/result.hpp"

namespace peri::kernels::cuda {

namespace {
// Bytes of a row by lanes: 64, 32 or 16 that four lanes, or eight, have together.
struct Group {
  int64_t first = 0, bytes = 0;
};
std::vector<Group> groups_of(int64_t size) {
  std::vector<Group> out;
  for (int64_t first = 0; first < size; first += out.back().bytes)
    out.push_back({first, size - first >= 64 ? 64 : size - first >= 32 ? 32 : 16});
  return out;
}

constexpr std::string_view kReads = R"(
enum { kThreads = PERI_WARPS * 32, kWords = PERI_DEPTH / 16, kTiles = PERI_VALUES / 8, kWide = PERI_VALUES / 4 };
enum { kStrip = PERI_VALUES + 4, kHeld = PERI_HELD > 0 ? PERI_HELD : 1, kScores = PERI_WARPS * kHeld * PERI_CHUNK * 16 };
enum { kPairs = PERI_CHUNK / 16 };  // of tiles of eight keys
// So many words from memory that is aligned to them, or not.
template <int kCount, bool kTogether> PERI_DEVICE void peri_words(unsigned* w, const unsigned char* from) {
  if (kTogether && kCount == 4) {
    const peri_16 x = *(const peri_16*)from;
#pragma unroll
    for (int k = 0; k < kCount; ++k) w[k] = x.w[k & 3];
  } else if (kTogether && kCount == 2) {
    const peri_8 x = *(const peri_8*)from;
#pragma unroll
    for (int k = 0; k < kCount; ++k) w[k] = x.w[k & 1];
  } else if (kTogether) {
    w[0] = *(const unsigned*)from;
  } else {
#pragma unroll
    for (int k = 0; k < kCount; ++k)
      w[k] = from[4 * k] | (unsigned)from[4 * k + 1] << 8 | (unsigned)from[4 * k + 2] << 16 | (unsigned)from[4 * k + 3] << 24;
  }
}
// What lane q of four has of a row of queries or keys, which is read even if it is not there: then 0.
template <bool kTogether>
PERI_DEVICE void peri_row(unsigned* w, const unsigned char* row, const int q, const bool there, const unsigned turned) {
PERI_ROW_READS
#pragma unroll
  for (int k = 0; k < kWords; ++k) w[k] = there ? w[k] ^ turned : 0u;
}
// What lane g of eight has of a key's values.
template <bool kTogether>
PERI_DEVICE void peri_value(unsigned* w, const unsigned char* row, const int g, const bool there, const unsigned turned) {
PERI_VALUE_READS
#pragma unroll
  for (int k = 0; k < kWordsOfValues; ++k) w[k] = there ? w[k] ^ turned : 0u;
}
// Four words of four rows become the columns of their bytes.
PERI_DEVICE void peri_turn(unsigned* w) {
  const unsigned a = peri_bytes_of(w[0], w[1], 0x5140u), b = peri_bytes_of(w[2], w[3], 0x5140u),
                 c = peri_bytes_of(w[0], w[1], 0x7362u), d = peri_bytes_of(w[2], w[3], 0x7362u);
  w[0] = peri_bytes_of(a, b, 0x5410u), w[1] = peri_bytes_of(a, b, 0x7632u);
  w[2] = peri_bytes_of(c, d, 0x5410u), w[3] = peri_bytes_of(c, d, 0x7632u);
}
// A fragment of queries, by words of rows g and g + 8; one of keys. Of an odd number of words the last has zeros beside it.
PERI_DEVICE void peri_left(unsigned* a, const unsigned (*rows)[kWords], const int w) {
  a[0] = rows[0][w], a[1] = rows[1][w];
  a[2] = w + 1 < kWords ? rows[0][w + 1 < kWords ? w + 1 : w] : 0u, a[3] = w + 1 < kWords ? rows[1][w + 1 < kWords ? w + 1 : w] : 0u;
}
PERI_DEVICE void peri_right(unsigned* b, const unsigned* words, const int w) {
  b[0] = words[w], b[1] = w + 1 < kWords ? words[w + 1 < kWords ? w + 1 : w] : 0u;
}
PERI_DEVICE PERI_INDEX peri_within(const PERI_INDEX at, const PERI_INDEX count) { return at < count ? at : count - 1; }
// e to x - high; 0 where nothing was seen.
PERI_DEVICE float peri_beside(const float x, const float high) { return high == -peri_inf() ? 0.0f : expf(x - high); }
)";

// Loops over pairs of tiles of eight keys are left as loops: a block runs once through what would else be thousands of
// instructions, and waits for each of them to be read from memory.
constexpr std::string_view kKernel = R"(
template <bool kTogether> PERI_DEVICE void peri_attend(float* const memory, PERI_PARAMETERS) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, q = lane % 4;
  const PERI_INDEX tiles = (PERI_QUERIES + 15) / 16, chunks = (PERI_KEYS + PERI_CHUNK - 1) / PERI_CHUNK;
  const PERI_INDEX first = blockIdx.x % tiles * 16, bh = blockIdx.x / tiles, h = bh % PERI_HEADS, b = bh / PERI_HEADS;
  const unsigned char *const k_from = (const unsigned char*)PERI_K + PERI_K_AT(b, h, 0, 0);
  const unsigned char *const v_from = (const unsigned char*)PERI_V + PERI_V_AT(b, h, 0, 0);
  const unsigned ones[4] = {0x01010101u, 0x01010101u, 0x01010101u, 0x01010101u};
  // This lane's scores; the largest of each warp and row, the sums of exponentials.
  float *const own = memory + warp * kHeld * PERI_CHUNK * 16 + lane, *const highs = memory + kScores, *const parts = highs + PERI_WARPS * 16;
  const PERI_INDEX count = chunks > warp ? (chunks - warp + PERI_WARPS - 1) / PERI_WARPS : 0;  // chunks of this warp
  // Pair u of this warp: its first key, and the words of the keys of row g of its tiles.
  const auto first_of = [&](const PERI_INDEX u) { return (warp + u / kPairs * PERI_WARPS) * PERI_CHUNK + u % kPairs * 16; };
  const auto read_keys = [&](const PERI_INDEX u, unsigned (*w)[kWords]) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const PERI_INDEX key = first_of(u) + n * 8 + g;
      peri_row<kTogether>(w[n], k_from + PERI_K_AT(0, 0, peri_within(key, PERI_KEYS), 0), q, key < PERI_KEYS, PERI_K_TURNED);
    }
  };
  unsigned query[2][kWords], keys[2][kWords];
#pragma unroll
  for (int r = 0; r < 2; ++r)
    peri_row<kTogether>(query[r], (const unsigned char*)PERI_Q + PERI_Q_AT(b, h, peri_within(first + g + 8 * r, PERI_QUERIES), 0), q, true, 0u);
  read_keys(0, keys);
  // Values of a chunk: words of key 2q, 2q + 1, 8 + 2q, ..., then of the other keys of the same order.
  const auto read_values = [&](const PERI_INDEX chunk, unsigned (*w)[kWordsOfValues]) {
#pragma unroll
    for (int k = 0; k < PERI_CHUNK / 4; ++k) {
      const PERI_INDEX key = chunk * PERI_CHUNK + k / 2 * 8 + 2 * q + k % 2;
      peri_value<kTogether>(w[k], v_from + PERI_V_AT(0, 0, peri_within(key, PERI_KEYS), 0), g, key < PERI_KEYS, PERI_V_TURNED);
    }
  };
  unsigned value[8][kWordsOfValues];  // of a chunk of 16 keys the other half is 0
#pragma unroll
  for (int k = 0; k < 8; ++k)
#pragma unroll
    for (int w = 0; w < kWordsOfValues; ++w) value[k][w] = 0u;
  read_values(warp, value);
  float row_sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};  // of queries, as bits of ints, as all sums of products are
#if PERI_K_ZEROS
#pragma unroll
  for (int w = 0; w < kWords; w += 2) {
    unsigned a[4];
    peri_left(a, query, w);
    PERI_MULTIPLY_Q(row_sum, a, ones);
  }
#endif
  // Of all scores; rows beyond the last are computed as it is, keys beyond the last too, and then left out.
  const PERI_INDEX rows[2] = {bh * PERI_QUERIES + peri_within(first + g, PERI_QUERIES), bh * PERI_QUERIES + peri_within(first + g + 8, PERI_QUERIES)};
  // Scores of a pair behind their chain: by tile rows g and g + 8, keys 2q and 2q + 1; reads the next pair's keys.
  const auto scores_of = [&](const PERI_INDEX u, float* x) {
    unsigned next[2][kWords];
    read_keys(u + 1, next);
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f}, key_sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
      for (int w = 0; w < kWords; w += 2) {
        unsigned a[4], c[2];
        peri_left(a, query, w);
        peri_right(c, keys[n], w);
        PERI_MULTIPLY_Q(sum, a, c);
#if PERI_Q_ZEROS
        peri_mma_u8(key_sum, ones, c);
#endif
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const PERI_INDEX key = first_of(u) + n * 8 + 2 * q + e % 2;
        const int product = peri_sub(peri_sub((int)peri_word(sum[e]), peri_mul(PERI_Q_ZERO, (int)peri_word(key_sum[e]))),
                                     peri_mul(PERI_K_ZERO, peri_sub((int)peri_word(row_sum[e]), peri_mul(PERI_DEPTH, PERI_Q_ZERO))));
        const float score = peri_behind_scores(rows[e / 2], peri_within(key, PERI_KEYS), peri_score(product, 0.0, PERI_SCORE_FACTOR, PERI_PASS), PERI_PASS);
        x[4 * n + e] = key < PERI_KEYS ? score : -peri_inf();
      }
    }
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int w = 0; w < kWords; ++w) keys[n][w] = next[n][w];
  };
  float high[2] = {-peri_inf(), -peri_inf()}, sum[2] = {0.0f, 0.0f};
#pragma unroll 1
  for (PERI_INDEX u = 0; u < kPairs * count; ++u) {
    float x[8];
    scores_of(u, x);
#if PERI_HELD > 0
#pragma unroll
    for (int e = 0; e < 8; ++e) own[(8 * u + e) * 32] = x[e], high[e / 2 % 2] = peri_max(high[e / 2 % 2], x[e]);
#else
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int r = e / 2 % 2;
      const float most = peri_max(high[r], x[e]);
      sum[r] = sum[r] * peri_beside(high[r], most) + peri_beside(x[e], most);
      high[r] = most;
    }
#endif
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float most = peri_max(high[r], peri_lane_xor(high[r], 1));
    most = peri_max(most, peri_lane_xor(most, 2));
    sum[r] *= peri_beside(high[r], most);
    high[r] = most;
  }
#if PERI_HELD > 0
#pragma unroll 1
  for (PERI_INDEX u = 0; u < kPairs * count; ++u)
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float x = peri_beside(own[(8 * u + e) * 32], high[e / 2 % 2]);
      own[(8 * u + e) * 32] = x, sum[e / 2 % 2] += x;
    }
#endif
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    sum[r] += peri_lane_xor(sum[r], 1);
    sum[r] += peri_lane_xor(sum[r], 2);
    if (q == 0) highs[warp * 16 + g + 8 * r] = high[r], parts[warp * 16 + g + 8 * r] = sum[r];
  }
  __syncthreads();
  float factor[2];  // of an exponential, whose sum becomes 1
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float most = highs[g + 8 * r], all = 0.0f;
#pragma unroll
    for (int w = 1; w < PERI_WARPS; ++w) most = peri_max(most, highs[w * 16 + g + 8 * r]);
#pragma unroll
    for (int w = 0; w < PERI_WARPS; ++w) all += parts[w * 16 + g + 8 * r] * peri_beside(highs[w * 16 + g + 8 * r], most);
    factor[r] = (PERI_HELD > 0 ? peri_beside(high[r], most) : 1.0f) / all;
    high[r] = most;
  }
  float result[kTiles][4], weight[4] = {0.0f, 0.0f, 0.0f, 0.0f};  // sums of products, and of probabilities
#pragma unroll
  for (int t = 0; t < kTiles; ++t)
#pragma unroll
    for (int e = 0; e < 4; ++e) result[t][e] = 0.0f;
#if PERI_P_ZEROS
  float value_sum[kTiles][4];
#pragma unroll
  for (int t = 0; t < kTiles; ++t)
#pragma unroll
    for (int e = 0; e < 4; ++e) value_sum[t][e] = 0.0f;
#endif
  if (PERI_HELD == 0) read_keys(0, keys);
#pragma unroll 1
  for (PERI_INDEX c = 0; c < count; ++c) {
    unsigned p[4] = {0u, 0u, 0u, 0u};
#pragma unroll 1
    for (int half = 0; half < kPairs; ++half) {
      const PERI_INDEX u = kPairs * c + half;
      float x[8];
#if PERI_HELD > 0
#pragma unroll
      for (int e = 0; e < 8; ++e) x[e] = own[(8 * u + e) * 32];
#else
      scores_of(u, x);
#pragma unroll
      for (int e = 0; e < 8; ++e) x[e] = expf(x[e] - high[e / 2 % 2]);
#endif
      unsigned word[2] = {0u, 0u};
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int r = e / 2 % 2;
        const PERI_INDEX key = first_of(u) + e / 4 * 8 + 2 * q + e % 2;
        const unsigned byte = (unsigned)peri_behind_softmax(rows[r], peri_within(key, PERI_KEYS), x[e] * factor[r], PERI_PASS) & 255u;
        word[r] |= key < PERI_KEYS ? byte << 8 * (e / 4 * 2 + e % 2) : 0u;
      }
      if (half == 0) p[0] = word[0], p[1] = word[1];
      else p[2] = word[0], p[3] = word[1];
    }
    if (c > 0) read_values(warp + c * PERI_WARPS, value);
    PERI_MULTIPLY_P(weight, p, ones);
#pragma unroll
    for (int w = 0; w < kWordsOfValues; ++w) {
      unsigned low[4] = {value[0][w], value[1][w], value[2][w], value[3][w]}, up[4] = {value[4][w], value[5][w], value[6][w], value[7][w]};
      peri_turn(low);
      peri_turn(up);
#pragma unroll
      for (int t = 0; t < 4; ++t) {
        if (4 * w + t >= kTiles) continue;  // half a word
        const unsigned c2[2] = {low[t], up[t]};
        PERI_MULTIPLY_P(result[4 * w + t < kTiles ? 4 * w + t : 0], p, c2);
#if PERI_P_ZEROS
        peri_mma_u8(value_sum[4 * w + t < kTiles ? 4 * w + t : 0], ones, c2);
#endif
      }
    }
  }
  // Sums of all warps: products by row and column, then probabilities by row, then values by column.
  float *const products = parts + PERI_WARPS * 16, *const weights = products + PERI_WARPS * 16 * kStrip,
              *const value_sums = weights + PERI_WARPS * 16;
#pragma unroll
  for (int t = 0; t < kTiles; ++t)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int column = peri_column(t, 2 * q + e % 2);
      products[(warp * 16 + g + e / 2 * 8) * kStrip + column] = result[t][e];
#if PERI_P_ZEROS
      if (g == 0 && e < 2) value_sums[warp * PERI_VALUES + column] = value_sum[t][e];
#endif
    }
  if (q == 0) weights[warp * 16 + g] = weight[0], weights[warp * 16 + g + 8] = weight[2];
  __syncthreads();
#pragma unroll 1
  for (int item = threadIdx.x; item < 16 * kWide; item += kThreads) {
    const int row = item / kWide, column = item % kWide * 4;
    if (first + row >= PERI_QUERIES) continue;
    unsigned packed = 0u;
    int probability = 0, product[4] = {0, 0, 0, 0}, of_values[4] = {0, 0, 0, 0};
#pragma unroll
    for (int w = 0; w < PERI_WARPS; ++w) {
      probability = peri_add(probability, (int)peri_word(weights[w * 16 + row]));
      const peri_16 four = *(const peri_16*)(products + (w * 16 + row) * kStrip + column);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        product[e] = peri_add(product[e], (int)four.w[e]);
#if PERI_P_ZEROS
        of_values[e] = peri_add(of_values[e], (int)peri_word(value_sums[w * PERI_VALUES + column + e]));
#endif
      }
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int whole = peri_sub(peri_sub(product[e], peri_mul(PERI_V_ZERO, probability)),
                                 peri_mul(PERI_P_ZERO, peri_sub(of_values[e], peri_mul((int)PERI_KEYS, PERI_V_ZERO))));
      packed |= ((unsigned)peri_result(whole, 0.0, PERI_RESULT_FACTOR, PERI_PASS) & 255u) << 8 * e;
    }
    unsigned char* const to = (unsigned char*)PERI_Y + PERI_Y_AT(b, h, first + row, column);
    if (kTogether) {
      *(unsigned*)to = packed;
    } else {
      for (int e = 0; e < 4; ++e) to[e] = (unsigned char)(packed >> 8 * e);
    }
  }
}
PERI_KERNEL __launch_bounds__(kThreads) peri_attention(PERI_PARAMETERS) {
  PERI_DYNAMIC(memory);
  if (PERI_ALIGNED) peri_attend<true>(memory, PERI_PASS);
  else peri_attend<false>(memory, PERI_PASS);
}
)";

void replace(std::string* text, std::string_view name, const std::string& by) {
  for (size_t at = text->find(name); at != std::string::npos; at = text->find(name, at + by.size()))
    text->replace(at, name.size(), by);
}
}  // namespace

std::string byte_attention_text(int64_t depth, int64_t values) {
  std::string rows, read, columns;
  int64_t words = 0, tiles = 0;
  for (const Group& group : groups_of(depth)) {
    const int64_t count = group.bytes / 16;
    rows += format("  peri_words<%d, kTogether>(w + %d, row + %d + q * %d);\n", static_cast<int>(count),
                   static_cast<int>(words), static_cast<int>(group.first), static_cast<int>(4 * count));
    words += count;
  }
  int64_t value_words = 0;
  for (const Group& group : groups_of(values)) {
    const int first = static_cast<int>(group.first), each = static_cast<int>(group.bytes / 8);  // bytes of a lane
    const std::string from = format("row + %d + g * %d", first, each);
    if (each >= 4)
      read +=
          format("  peri_words<%d, kTogether>(w + %d, %s);\n", each / 4, static_cast<int>(value_words), from.c_str());
    else
      read += format("  w[%d] = (%s)[0] | (unsigned)(%s)[1] << 8;\n", static_cast<int>(value_words), from.c_str(),
                     from.c_str());
    columns += format("  if (tile >= %d && tile < %d) return %d + of * %d + tile - %d;\n", static_cast<int>(tiles),
                      static_cast<int>(tiles) + each, first, each, static_cast<int>(tiles));
    value_words += std::max(1, each / 4);
    tiles += each;
  }
  std::string reads(kReads);
  replace(&reads, "PERI_ROW_READS\n", rows);
  replace(&reads, "PERI_VALUE_READS\n", read);
  return format("enum { kWordsOfValues = %d };\n", static_cast<int>(value_words)) + reads +
         "// Where column `of` of a tile stands among a head's values.\nPERI_DEVICE int peri_column(const int tile, "
         "const "
         "int of) {\n" +
         columns + "  return 0;\n}\n" + std::string(kKernel);
}

}  // namespace peri::kernels::cuda
