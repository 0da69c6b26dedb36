// Tiles are stored in shared memory in rows of 16-byte chunks, whose order within a row is permuted by the row index:
// the eight rows that are read as a matrix have no bank conflicts.
#include "kernels/cuda/code/tiles_sides.hpp"

namespace peri::kernels::cuda {

namespace {
// What a thread copies of a side's tile: its chunk of every so many rows. X, x, line size and along as names.
constexpr std::string_view kSide = R"(
// Rows of the tile of @: lines with neighbours along the depth, or steps of the depth with neighbouring lines.
enum { k@Rows = @ALONG ? PERI_TK : @LINES, k@Chunks = (@ALONG ? @LINES : PERI_TK) / 8 };
enum { k@Bytes = k@Rows * k@Chunks * 16, k@Each = (k@Rows * k@Chunks + kThreads - 1) / kThreads };
struct peri_@_copy {
  peri_@_line line[@ALONG ? (@WIDE ? 1 : 8) : k@Each];
  peri_16 held[@HELD ? k@Each : 1];
#if @MADE
  peri_@_step step;  // of what is held
#endif
};
PERI_DEVICE int peri_@_row(const int j) { return threadIdx.x / k@Chunks + j * (kThreads / k@Chunks); }
// Eight rows on, chunks turn alike.
PERI_DEVICE unsigned peri_@_place(const int j) {
  const int chunk = threadIdx.x % k@Chunks;
  if (kThreads / k@Chunks % 8 != 0) return peri_chunk(peri_@_row(j), chunk, k@Chunks);
  return peri_chunk(peri_@_row(0), chunk, k@Chunks) + (unsigned)(j * (kThreads / k@Chunks) * k@Chunks * 16);
}
PERI_DEVICE bool peri_@_has(const int j) { return k@Rows * k@Chunks % kThreads == 0 || peri_@_row(j) < k@Rows; }
PERI_DEVICE void peri_@_begin(peri_@_copy* c, const PERI_INDEX batch, const PERI_INDEX first, PERI_PARAMETERS) {
  const int chunk = threadIdx.x % k@Chunks;
#if @ALONG
#pragma unroll
  for (int e = 0; e < (@WIDE ? 1 : 8); ++e) c->line[e] = peri_@_line_of(batch, first + chunk * 8 + e, PERI_PASS);
#else
#pragma unroll
  for (int j = 0; j < k@Each; ++j) c->line[j] = peri_@_line_of(batch, first + peri_@_row(j), PERI_PASS);
#endif
}
PERI_DEVICE void peri_@_fetch(peri_@_copy* c, const unsigned at, const PERI_INDEX batch, const PERI_INDEX k0,
                              PERI_PARAMETERS) {
  const int chunk = threadIdx.x % k@Chunks;
#if !@ALONG && @WIDE
  const peri_@_step step = peri_@_step_of(batch, k0 + chunk * 8, PERI_PASS);
#endif
#if @HALVES
  const peri_@_step second = peri_@_step_of(batch, k0 + chunk * 8 + 4, PERI_PASS);
#endif
#if !@ALONG && !@WIDE
  peri_@_step steps[8];
#pragma unroll
  for (int e = 0; e < 8; ++e) steps[e] = peri_@_step_of(batch, k0 + chunk * 8 + e, PERI_PASS);
#endif
#pragma unroll
  for (int j = 0; j < k@Each; ++j) {
#if @ALONG
    const peri_@_step step = peri_@_step_of(batch, k0 + peri_@_row(j), PERI_PASS);
#endif
#if @WIDE
    bool there;
    const unsigned short* const from = peri_@_from(c->line[@ALONG ? 0 : j], step, &there, PERI_PASS);
#if @MADE
    const peri_16 zero = {{0, 0, 0, 0}};
    c->held[j] = there && peri_@_has(j) ? *(const peri_16*)from : zero;
    c->step = step;
#elif @HALVES
    bool other;
    const unsigned short* const then = peri_@_from(c->line[j], second, &other, PERI_PASS);
    if (peri_@_has(j)) {
      peri_fetch_half(at + peri_@_place(j), from, there, step.there ? @BESIDE : 0u);
      peri_fetch_half(at + peri_@_place(j) + 8, then, other, second.there ? @BESIDE : 0u);
    }
#else
#if @PADS
    // Beside the image nothing is fetched: one place that all blocks read would be a queue.
    if (peri_@_has(j) && !there && step.there) {
      peri_put(at + peri_@_place(j), peri_16{{@BESIDE, @BESIDE, @BESIDE, @BESIDE}});
      continue;
    }
#endif
    if (peri_@_has(j)) peri_fetch(at + peri_@_place(j), from, there);
#endif
#else
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const unsigned low = @ALONG ? peri_@(c->line[@ALONG ? 2 * w : j], @STEP(2 * w), PERI_PASS)
                                  : peri_@(c->line[j], @STEP(2 * w), PERI_PASS);
      const unsigned high = @ALONG ? peri_@(c->line[@ALONG ? 2 * w + 1 : j], @STEP(2 * w + 1), PERI_PASS)
                                   : peri_@(c->line[j], @STEP(2 * w + 1), PERI_PASS);
      c->held[j].w[w] = low | high << 16;
    }
#endif
  }
}
PERI_DEVICE void peri_@_put(const peri_@_copy* c, const unsigned at, PERI_PARAMETERS) {
#if @MADE
#pragma unroll
  for (int j = 0; j < k@Each; ++j)
    if (peri_@_has(j)) peri_put(at + peri_@_place(j), peri_@_made(c->line[j], c->step, c->held[j], PERI_PASS));
#elif !@WIDE
#pragma unroll
  for (int j = 0; j < k@Each; ++j)
    if (peri_@_has(j)) peri_put(at + peri_@_place(j), c->held[j]);
#endif
}
)";

std::string replaced(std::string text, std::string_view what, std::string_view with) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
  return text;
}
// `@NAME` are the side's macros, `@` its name.
struct Side {
  const char *name, *along, *wide, *made, *halves, *pads, *beside, *lines;
};
std::string text_of(const Side& s) {
  std::string out(kSide);
  const std::pair<const char*, std::string> words[] = {{"@HELD", std::string("(!") + s.wide + " || " + s.made + ")"},
                                                       {"@MADE", s.made},
                                                       {"@HALVES", s.halves},
                                                       {"@PADS", s.pads},
                                                       {"@BESIDE", s.beside},
                                                       {"@ALONG", s.along},
                                                       {"@WIDE", s.wide},
                                                       {"@LINES", s.lines},
                                                       {"@STEP", std::string("PERI_STEP_") + s.name}};
  for (const auto& [word, with] : words) out = replaced(std::move(out), word, with);
  const std::string step = std::string("#if ") + s.along + "\n#define PERI_STEP_" + s.name +
                           "(E) step\n#else\n#define PERI_STEP_" + s.name + "(E) steps[E]\n#endif\n";
  return step + replaced(std::move(out), "@", s.name);
}
}  // namespace

std::string tiles_sides_text() {
  return text_of({"a", "PERI_A_ALONG_M", "PERI_A_WIDE", "PERI_A_MADE", "PERI_A_HALVES", "PERI_A_PADS", "PERI_A_BESIDE",
                  "PERI_TM"}) +
         text_of({"b", "PERI_B_ALONG_N", "PERI_B_WIDE", "0", "0", "0", "0u", "PERI_TN"});
}

}  // namespace peri::kernels::cuda
