// TfIdfVectorizer: how often each n-gram of a pool occurs in a list of words or numbers, with gaps, and its weight,
// which is that of its column of the result, as in the reference of ONNX and in ONNX Runtime.
#include <algorithm>
#include <map>
#include <set>

#include "ops/reference/elements.hpp"

namespace peri::ops {
namespace {
constexpr TypeSet kFirst = types({DType::kString, DType::kI32, DType::kI64});
constexpr int64_t kMaxColumns = int64_t{1} << 24;

struct Pool {
  std::vector<int64_t> counts, columns;
  std::vector<double> weights;
  std::vector<std::string> words;  // of numbers too
  int64_t shortest = 1, longest = 1, skips = 0, width = 0;
  std::string mode;
};

Result<Pool> pool_of(const ir::Node& node) {
  Pool p;
  p.counts = node.ints("ngram_counts");
  p.columns = node.ints("ngram_indexes");
  p.weights = node.floats("weights");
  if (const auto it = node.attrs.find("pool_strings"); it != node.attrs.end())
    p.words = std::get<std::vector<std::string>>(it->second);
  else
    for (const int64_t v : node.ints("pool_int64s")) p.words.push_back(std::to_string(v));
  p.shortest = node.i("min_gram_length", 1);
  p.longest = node.i("max_gram_length", 1);
  p.skips = node.i("max_skip_count", 0);
  p.mode = node.s("mode", "TF");
  if (p.mode != "TF" && p.mode != "IDF" && p.mode != "TFIDF")
    return invalid("mode is unknown").expecting("TF, IDF or TFIDF").but_found(p.mode);
  if (p.shortest < 1 || p.longest < p.shortest || p.skips < 0 || p.longest > 64 || p.skips > 1 << 20)
    return invalid("the lengths of n-grams are out of range");
  int64_t last = 0, grams = 0;
  for (size_t k = 0; k < p.counts.size(); ++k) {
    const int64_t end = k + 1 < p.counts.size() ? p.counts[k + 1] : static_cast<int64_t>(p.words.size());
    const int64_t length = static_cast<int64_t>(k) + 1;
    if (p.counts[k] < last || end < p.counts[k] || end > static_cast<int64_t>(p.words.size()) ||
        (end - p.counts[k]) % length != 0)
      return invalid("ngram_counts do not fit the pool");
    last = p.counts[k];
    grams += (end - p.counts[k]) / length;
  }
  if (static_cast<int64_t>(p.columns.size()) != grams || (!p.weights.empty() && p.weights.size() != p.columns.size()))
    return invalid("ngram_indexes or weights do not fit the pool")
        .expecting(format("%lld of each", static_cast<long long>(grams)))
        .but_found(format("%zu and %zu", p.columns.size(), p.weights.size()));
  for (const int64_t c : p.columns) {
    if (c < 0 || c >= kMaxColumns) return invalid("an index of an n-gram is out of range");
    p.width = std::max(p.width, c + 1);
  }
  return p;
}

Status infer(InferContext& c) {
  PERI_ASSIGN(const Pool pool, pool_of(c.node));
  if (c.rank(0) > 2)
    return invalid("x has a wrong shape").expecting("[words] or [lists, words]").but_found(shape_text(c.shape(0)));
  if ((c.dtype(0) == DType::kString) != c.node.has("pool_strings") && !pool.words.empty())
    return invalid("the pool and x are not of one kind");
  Shape y = {Dim(pool.width)};
  if (c.rank(0) == 2) y.insert(y.begin(), c.shape(0)[0]);
  c.set(0, DType::kF32, std::move(y));
  return Ok{};
}

// From an n-gram to its places in the list of all.
using Grams = std::map<std::vector<std::string>, std::vector<size_t>>;
Grams grams_of(const Pool& p, std::set<std::vector<std::string>>* beginnings) {
  Grams out;
  size_t next = 0;
  for (size_t k = 0; k < p.counts.size(); ++k) {
    const auto end =
        static_cast<size_t>(k + 1 < p.counts.size() ? p.counts[k + 1] : static_cast<int64_t>(p.words.size()));
    const auto wanted = static_cast<int64_t>(k) + 1 >= p.shortest && static_cast<int64_t>(k) + 1 <= p.longest;
    for (auto at = static_cast<size_t>(p.counts[k]); at < end; at += k + 1, ++next) {
      if (!wanted) continue;
      std::vector<std::string> gram;
      for (size_t n = 0; n <= k; ++n) {
        gram.push_back(p.words[at + n]);
        beginnings->insert(gram);
      }
      std::vector<size_t>& places = out[gram];
      if (places.empty()) places.push_back(next);  // one that stands twice counts once
    }
  }
  return out;
}

Status reference(RefCall& call) {
  PERI_ASSIGN(const Pool pool, pool_of(call.node));
  const RefTensor& x = *call.in[0];
  RefTensor& y = call.out[0];
  const int64_t lists = x.dims.size() == 2 ? x.dims[0] : 1,
                length = lists > 0 ? x.numel() / std::max<int64_t>(lists, 1) : 0;
  std::set<std::vector<std::string>> beginnings;
  const Grams grams = grams_of(pool, &beginnings);
  const auto word = [&](int64_t p) {
    return x.dtype == DType::kString ? x.s[static_cast<size_t>(p)] : std::to_string(x.i[static_cast<size_t>(p)]);
  };
  std::fill(y.f.begin(), y.f.end(), 0.0);
  for (int64_t list = 0; list < lists; ++list) {
    std::vector<double> count(pool.columns.size());
    for (int64_t step = 1; step <= pool.skips + 1; ++step)
      for (int64_t first = 0; first < length; ++first) {
        std::vector<std::string> gram;
        for (int64_t at = first; at < length && static_cast<int64_t>(gram.size()) < pool.longest; at += step) {
          gram.push_back(word(list * length + at));
          if (!beginnings.contains(gram)) break;
          if (gram.size() == 1 && step > 1) continue;  // single words do not hang on the gap
          if (const auto it = grams.find(gram); it != grams.end())
            for (const size_t k : it->second) ++count[k];
        }
      }
    std::vector<double> in_column(static_cast<size_t>(pool.width)), weight(static_cast<size_t>(pool.width), 1);
    for (size_t k = 0; k < count.size(); ++k) {
      const auto column = static_cast<size_t>(pool.columns[k]);
      in_column[column] += count[k];
    }
    for (size_t k = 0; k < weight.size() && k < pool.weights.size(); ++k) weight[k] = pool.weights[k];
    for (size_t k = 0; k < in_column.size(); ++k) {
      const double frequency = pool.mode == "IDF" ? (in_column[k] > 0 ? 1 : 0) : in_column[k];
      const double v = pool.mode == "TF" ? frequency : frequency * weight[k];
      const size_t at = static_cast<size_t>(list * pool.width) + k;
      y.f[at] = v;
      if (!y.radius.empty()) y.radius[at] = rounding(call, 1, v);
    }
  }
  return Ok{};
}
}  // namespace

extern const Entry tf_idf_entry;
const Entry tf_idf_entry{{
    {.name = "tf_idf_vectorizer",
     .onnx = "TfIdfVectorizer",
     .versions = {9},
     .inputs = {{"x", kFirst}},
     .outputs = {{"y"}},
     .attrs = {{"mode", AttrKind::kString, true},
               {"min_gram_length", AttrKind::kInt, true},
               {"max_gram_length", AttrKind::kInt, true},
               {"max_skip_count", AttrKind::kInt, true},
               {"ngram_counts", AttrKind::kInts, true},
               {"ngram_indexes", AttrKind::kInts, true},
               {"pool_int64s", AttrKind::kInts, false, "none"},
               {"pool_strings", AttrKind::kStrings, false, "none"},
               {"weights", AttrKind::kFloats, false, "1"}},
     .infer = infer,
     .reference = reference,
     .jumps = true,
     .samples = {"graph { input x: i32[2,6]; y = tf_idf_vectorizer(x) {mode=\"TF\", min_gram_length=1, "
                 "max_gram_length=2, max_skip_count=1, ngram_counts=[0, 2], ngram_indexes=[0, 2, 1, 3], "
                 "pool_int64s=[2, 3, 1, 2, 3, 1]}; output y }",
                 "graph { const x: string[3] = [\"a\", \"b\", \"a\"]; y = tf_idf_vectorizer(x) {mode=\"TFIDF\", "
                 "min_gram_length=1, max_gram_length=1, max_skip_count=0, ngram_counts=[0], ngram_indexes=[0, 1], "
                 "pool_strings=[\"a\", \"b\"], weights=[0.5, 2.0]}; output y }"}},
}};
}  // namespace peri::ops
