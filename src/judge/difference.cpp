// Norms of the difference of two tensors.
#include "judge/difference.hpp"

#include <algorithm>
#include <cmath>

#include "base/plural.hpp"
#include "base/utf8.hpp"

namespace peri::judge {

namespace {
struct Sums {
  double abs = 0, square = 0, want = 0, got = 0, want2 = 0, got2 = 0, both = 0;
  double low = INFINITY, high = -INFINITY;
  int64_t outside = 0, finite = 0;

  void take(double w, double g) {
    if (!std::isfinite(w) || !std::isfinite(g)) return;
    ++finite;
    low = std::min(low, w);
    high = std::max(high, w);
    want += w;
    got += g;
    want2 += w * w;
    got2 += g * g;
    both += w * g;
  }
};

void add_float(double w, double g, int64_t at, Tolerance t, Sums* s, Difference* d) {
  const bool nan = std::isnan(w) && std::isnan(g), same = w == g || nan;
  d->both_nan += nan;
  double e = same ? 0 : std::fabs(w - g);
  if (std::isnan(e)) e = INFINITY;
  if (!same && !(e <= t.atol + t.rtol * std::fabs(w))) {
    if (s->outside++ == 0)
      d->first = format("element %lld: expected %.9g, found %.9g", static_cast<long long>(at), w, g);
  }
  if (e > d->linf) {
    d->linf = e;
    d->worst_at = at;
  }
  s->abs += e;
  s->square += e * e;
  s->take(w, g);
}

constexpr size_t kMaxText = 64;  // bytes of a text that are printed

std::string element(const Tensor& t, int64_t at) {
  if (t.dtype() == DType::kU64) return std::to_string(static_cast<uint64_t>(t.i64(at)));
  if (t.dtype() != DType::kString) return std::to_string(t.i64(at));
  const std::string& text = t.string_values()[static_cast<size_t>(at)];
  if (text.size() <= kMaxText) return "'" + printable(text) + "'";
  size_t end = kMaxText;
  while (end > kMaxText - 3 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // at a whole character
  return "'" + printable(text.substr(0, end)) + format("...' (%zu bytes)", text.size());
}
double number(const Tensor& t, int64_t at) {
  return t.dtype() == DType::kU64 ? static_cast<double>(static_cast<uint64_t>(t.i64(at)))
                                  : static_cast<double>(t.i64(at));
}
bool equal_element(const Tensor& a, const Tensor& b, int64_t at) {
  if (a.dtype() == DType::kString)
    return a.string_values()[static_cast<size_t>(at)] == b.string_values()[static_cast<size_t>(at)];
  if (a.dtype() != DType::kC64 && a.dtype() != DType::kC128) return a.i64(at) == b.i64(at);
  const size_t size = static_cast<size_t>(dtype_size(a.dtype()));
  return __builtin_memcmp(a.bytes().data() + static_cast<size_t>(at) * size,
                          b.bytes().data() + static_cast<size_t>(at) * size, size) == 0;
}
}  // namespace

Result<Difference> difference(const Tensor& want, const Tensor& got, Tolerance tolerance) {
  if (want.dtype() != got.dtype() || want.dims() != got.dims())
    return Error(ErrorKind::kAccuracy, "the result has another type")
        .expecting(tensor_type_text(want))
        .but_found(tensor_type_text(got));
  Difference d;
  Sums s;
  d.count = want.numel();
  const double n = static_cast<double>(std::max<int64_t>(1, d.count));
  const DType type = want.dtype();
  const bool numbers = type != DType::kString && type != DType::kC64 && type != DType::kC128;
  for (int64_t k = 0; k < d.count; ++k) {
    if (is_float(want.dtype())) {
      add_float(want.f64(k), got.f64(k), k, tolerance, &s, &d);
      continue;
    }
    if (numbers) s.take(number(want, k), number(got, k));
    if (equal_element(want, got, k)) continue;
    const double e = numbers ? std::fabs(number(want, k) - number(got, k)) : 1;
    if (s.outside++ == 0)
      d.first = numbers || want.dtype() == DType::kString
                    ? format("element %lld: expected %s, found %s", static_cast<long long>(k), element(want, k).c_str(),
                             element(got, k).c_str())
                    : format("element %lld", static_cast<long long>(k));
    if (e > d.linf) {
      d.linf = e;
      d.worst_at = k;
    }
    s.abs += e;
    s.square += e * e;
  }
  d.l0 = static_cast<double>(s.outside) / n;
  d.l1 = s.abs / n;
  d.l2 = std::sqrt(s.square / n);
  d.range = s.high > s.low ? s.high - s.low : 0;
  d.largest = s.finite ? std::max(std::fabs(s.low), std::fabs(s.high)) : 0;
  const double scale = d.range > 1e-5 * d.largest ? d.range : d.largest;  // nearly constant: by its size
  d.relative = d.linf == 0 ? 0 : (scale > 0 ? d.linf / scale : INFINITY);
  const double m = static_cast<double>(std::max<int64_t>(1, s.finite));
  const double var_w = s.want2 - s.want * s.want / m, var_g = s.got2 - s.got * s.got / m,
               cov = s.both - s.want * s.got / m;
  if (var_w > 0 && var_g > 0) d.cosine = cov / std::sqrt(var_w * var_g);
  return d;
}

std::string unequal(const Difference& d) {
  if (d.l0 == 0) return "";
  const auto outside = static_cast<int64_t>(std::llround(d.l0 * static_cast<double>(d.count)));
  return d.first + format("; %lld of %s differ%s", static_cast<long long>(outside), counted(d.count, "element").c_str(),
                          outside == 1 ? "s" : "");
}

void write_difference(JsonWriter& w, const Difference& d) {
  w.field("count", d.count).field("l0", d.l0).field("l1", d.l1).field("l2", d.l2).field("linf", d.linf);
  w.field("range", d.range)
      .field("largest", d.largest)
      .field("relative", d.relative)
      .field("cosine", d.cosine)
      .field("both_nan", d.both_nan)
      .field("worst_at", d.worst_at)
      .field("first_outside", d.first);
}

int64_t nan_elements(const Tensor& t) {
  int64_t nan = 0;
  for (int64_t k = 0; is_float(t.dtype()) && k < t.numel(); ++k) nan += std::isnan(t.f64(k));
  return nan;
}

}  // namespace peri::judge
