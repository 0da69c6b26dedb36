// Kernel tf_idf: how often n-grams of a pool of numbers occur in lists of int32 or int64, with gaps, and their weight:
// a trie of the pool, followed from every position of a list.
#include <algorithm>
#include <bit>

#include "kernels/cpu/task_instance.hpp"

namespace peri::kernels {
namespace {

// Maps a prefix (0: empty) and the next number to the longer prefix: a hash table with linear probing. The pool comes
// from the model, the looked-up numbers from the run: a list cannot make the search long.
class Trie {
 public:
  explicit Trie(size_t most = 0)
      : places_(std::bit_ceil(4 * most + 4)), shift_(64 - std::countr_zero(places_.size())) {}
  int64_t longer(int64_t from, int64_t number) const {
    size_t at = place_of(from, number);
    for (; places_[at].to >= 0; at = (at + 1) & (places_.size() - 1))
      if (places_[at].from == from && places_[at].number == number) return places_[at].to;
    return -1;
  }
  void add(int64_t from, int64_t number, int64_t to) {
    size_t at = place_of(from, number);
    while (places_[at].to >= 0) at = (at + 1) & (places_.size() - 1);
    places_[at] = {from, number, to};
  }

 private:
  struct Place {
    int64_t from = 0, number = 0, to = -1;
  };
  size_t place_of(int64_t from, int64_t number) const {
    const uint64_t z = static_cast<uint64_t>(from) * 0xbf58476d1ce4e5b9U + static_cast<uint64_t>(number);
    return static_cast<size_t>((z * 0x9e3779b97f4a7c15U) >> shift_);
  }
  std::vector<Place> places_;
  int shift_;
};

struct Pool {
  Trie trie;
  std::vector<int64_t> column;  // of a beginning that is an n-gram as a whole; -1: none
  std::vector<float> weight;    // of each column
  int64_t longest = 1, skips = 0, width = 0;
  bool counts = true;
  bool wide = false;  // int64
  int64_t lists = 1, length = 0;
};

// Reads the n-grams of the pool; inference has held their numbers against each other.
void read_grams(const ir::Node& n, Pool* p) {
  const std::vector<int64_t> counts = n.ints("ngram_counts"), columns = n.ints("ngram_indexes"),
                             pool = n.ints("pool_int64s");
  p->trie = Trie(pool.size());
  const int64_t shortest = n.i("min_gram_length", 1);
  size_t gram = 0;
  for (size_t k = 0; k < counts.size(); ++k) {
    const size_t end = k + 1 < counts.size() ? static_cast<size_t>(counts[k + 1]) : pool.size();
    const auto length = static_cast<int64_t>(k) + 1;
    for (auto at = static_cast<size_t>(counts[k]); at < end; at += k + 1, ++gram) {
      if (length < shortest || length > p->longest) continue;
      int64_t here = 0;
      for (size_t i = 0; i <= k; ++i) {
        const int64_t from = here;
        here = p->trie.longer(from, pool[at + i]);
        if (here >= 0) continue;
        here = static_cast<int64_t>(p->column.size());
        p->trie.add(from, pool[at + i], here);
        p->column.push_back(-1);
      }
      int64_t& column = p->column[static_cast<size_t>(here)];
      if (column < 0) column = columns[gram];  // one that stands twice counts once
    }
  }
}

Result<Pool> read(const Problem& p) {
  const ir::Node& n = p.anchor();
  if (n.op != "tf_idf_vectorizer") return refused("not a tf_idf_vectorizer");
  if (p.graph->nodes.size() != 1) return refused("takes no epilogue");
  const DType type = n.in(0)->type.dtype;
  if (type != DType::kI32 && type != DType::kI64) return refused("takes i32 and i64 only");
  const std::vector<int64_t> x = dims_of(*n.in(0)), y = dims_of(*n.out());
  Pool s;
  s.wide = type == DType::kI64;
  s.lists = x.size() == 2 ? x[0] : 1;
  s.length = x.empty() ? 1 : x.back();
  s.width = y.back();
  if (s.lists * s.width == 0) return refused("an empty result");
  s.longest = n.i("max_gram_length", 1);
  s.skips = n.i("max_skip_count", 0);
  const std::string mode = n.s("mode", "TF");
  s.counts = mode != "IDF";
  s.weight.assign(static_cast<size_t>(s.width), 1.0F);
  const std::vector<double> weights = n.floats("weights");
  for (size_t k = 0; mode != "TF" && k < weights.size() && k < s.weight.size(); ++k)
    s.weight[k] = static_cast<float>(weights[k]);
  s.column.push_back(-1);
  read_grams(n, &s);
  return s;
}

template <class T>
void count_list(const Pool& p, const T* x, float* y) {
  std::fill_n(y, p.width, 0.0F);
  for (int64_t first = 0; first < p.length; ++first) {
    const int64_t single = p.trie.longer(0, static_cast<int64_t>(x[first]));
    if (single < 0) continue;
    if (const int64_t c = p.column[static_cast<size_t>(single)]; c >= 0) y[c] += 1;
    for (int64_t step = 1; step <= p.skips + 1 && p.longest > 1; ++step) {
      int64_t here = single, words = 1;
      for (int64_t at = first + step; at < p.length && words < p.longest; at += step, ++words) {
        if ((here = p.trie.longer(here, static_cast<int64_t>(x[at]))) < 0) break;
        if (const int64_t c = p.column[static_cast<size_t>(here)]; c >= 0) y[c] += 1;
      }
    }
  }
  for (int64_t c = 0; c < p.width; ++c)
    y[c] = (p.counts ? y[c] : y[c] > 0 ? 1.0F : 0.0F) * p.weight[static_cast<size_t>(c)];
}

Result<std::vector<Offer>> offer(const Problem& p, const Target& target) {
  PERI_TRY(read(p));
  return std::vector<Offer>{row_major_offer(p, target)};
}

Result<std::unique_ptr<Instance>> instantiate(const Problem& p, std::string_view, const InstantiateContext& c) {
  PERI_TRY(check_row_major(p));
  PERI_ASSIGN(Pool made, read(p));
  const Source x = Source::of(p, p.anchor().in(0), c.constants);
  if (!x.known()) return refused("reads a value made inside the region");
  const auto pool = std::make_shared<const Pool>(std::move(made));
  return TaskInstance::make(pool->lists, 0, [pool, x](int64_t list, const Args& args) {
    float* const y = static_cast<float*>(args.out[0]) + list * pool->width;
    if (pool->wide)
      count_list(*pool, static_cast<const int64_t*>(x.data(args)) + list * pool->length, y);
    else
      count_list(*pool, static_cast<const int32_t*>(x.data(args)) + list * pool->length, y);
  });
}
}  // namespace

extern const Entry tf_idf_entry;
const Entry tf_idf_entry{{
    .name = "tf_idf",
    .version = 1,
    .provider = "peri",
    .takes = "tf_idf_vectorizer of i32 and i64",
    .offer = offer,
    .instantiate = instantiate,
    .needs = needs_from<instantiate>,
    .samples = {"graph { input x: i64[3,40]; y = tf_idf_vectorizer(x) {mode=\"TFIDF\", min_gram_length=1, "
                "max_gram_length=3, max_skip_count=2, ngram_counts=[0, 3, 7], ngram_indexes=[0, 2, 1, 4, 3, 6, 5], "
                "pool_int64s=[2, 3, 1, 2, 3, 1, 1, 0, 1, 2, 5, 5, 5], weights=[0.5, 1.5, 2.0, 1.0, 0.25, 3.0, 0.75]}; "
                "output y }",
                "graph { input x: i32[50]; y = tf_idf_vectorizer(x) {mode=\"IDF\", min_gram_length=2, "
                "max_gram_length=2, max_skip_count=0, ngram_counts=[0, 1], ngram_indexes=[1, 0, 1], pool_int64s=[2, "
                "3, 1, 3, 1]}; output y }",
                "graph { const x: i32[70,90] = seeded(5, 1); y = tf_idf_vectorizer(x) {mode=\"TF\", min_gram_length=1, "
                "max_gram_length=1, max_skip_count=3, ngram_counts=[0], ngram_indexes=[3, 0], pool_int64s=[2, -1]}; "
                "output y }"},
    .takes_constants = true,
}};

}  // namespace peri::kernels
