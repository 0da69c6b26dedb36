// Elements are read one by one, since only few are printed.
#include "cli/console/answers.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "base/plural.hpp"
#include "base/utf8.hpp"
#include "cli/console/columns.hpp"
#include "cli/console/piped.hpp"

namespace peri::cli {

namespace {
constexpr int64_t kFirst = 5;     // elements of an output printed in its line
constexpr int64_t kTopRows = 16;  // rows whose largest elements are printed
constexpr size_t kMaxLabels = size_t{16} << 20;

bool has_numbers(const Tensor& t) {
  return t.dtype() != DType::kString && dtype_bits(t.dtype()) <= 64 && t.dtype() != DType::kC64;
}

// The sign of NaN is not defined by any operator and not printed.
std::string number_text(const char* fmt, double v) { return std::isnan(v) ? "nan" : format(fmt, v); }

std::string element(const Tensor& t, int64_t at) {
  if (t.dtype() == DType::kString)  // escaped here: a line ends at a NUL
    return "'" + printable(t.string_values()[static_cast<size_t>(at)]) + "'";
  if (is_float(t.dtype())) return number_text("%.6g", t.f64(at));
  if (t.dtype() == DType::kU64) return std::to_string(static_cast<uint64_t>(t.i64(at)));
  return has_numbers(t) ? std::to_string(t.i64(at)) : "?";
}

struct Range {
  double low = INFINITY, high = -INFINITY, sum = 0;
  int64_t finite = 0;
};
Range range_of(const Tensor& t) {
  Range r;
  for (int64_t k = 0; k < t.numel(); ++k) {
    const double v = t.f64(k);
    if (!std::isfinite(v)) continue;
    r.low = std::min(r.low, v + 0.0);  // -0 becomes 0
    r.high = std::max(r.high, v + 0.0);
    r.sum += v;
    ++r.finite;
  }
  return r;
}

std::string first_of(const Tensor& t) {
  std::string out;
  for (int64_t k = 0; k < std::min(kFirst, t.numel()); ++k) out += (k ? ", " : "") + element(t, k);
  return "[" + out + (t.numel() > kFirst ? ", ...]" : "]");
}

// Indices of a row's elements, largest first; NaN last.
std::vector<int64_t> largest(const Tensor& t, int64_t row, int64_t width, int64_t count) {
  std::vector<int64_t> order(static_cast<size_t>(width));
  for (int64_t k = 0; k < width; ++k) order[static_cast<size_t>(k)] = k;
  const auto before = [&](int64_t a, int64_t b) {
    const double x = t.f64(row * width + a), y = t.f64(row * width + b);
    if (std::isnan(x) || std::isnan(y)) return !std::isnan(x) && std::isnan(y);
    return x != y ? x > y : a < b;
  };
  const auto end = order.begin() + std::min(count, width);
  std::partial_sort(order.begin(), end, order.end(), before);
  order.erase(end, order.end());
  return order;
}

Status show_largest(const Page& page, JsonWriter& w, const std::string& name, const Tensor& t, const Shown& shown) {
  if (t.rank() == 0 || !has_numbers(t)) return Ok{};
  const int64_t width = t.dims().back(), rows = width > 0 ? t.numel() / width : 0;
  if (!shown.labels.empty() && static_cast<int64_t>(shown.labels.size()) != width)
    return usage("--labels does not fit output '%s'", name.c_str())
        .expecting(counted(width, "line") + ", as its last axis has elements")
        .but_found(std::to_string(shown.labels.size()));
  if (shown.top > width)
    page.line("  --top-k %lld: the last axis has %s, all are shown", static_cast<long long>(shown.top),
              counted(width, "element").c_str());
  w.key("top").begin_array();
  for (int64_t row = 0; row < rows; ++row) {
    if (row == kTopRows) page.line("  and %s", counted(rows - row, "more row").c_str());
    std::string line;
    w.begin_array();
    for (const int64_t k : largest(t, row, width, shown.top)) {
      const std::string label = shown.labels.empty() ? "" : shown.labels[static_cast<size_t>(k)];
      line += (line.empty() ? "[" : ", [") + std::to_string(k) + "]" + (label.empty() ? "" : " " + label) + " " +
              element(t, row * width + k);
      w.begin_object().field("index", k);
      if (!label.empty()) w.field("label", label);
      w.field("value", t.f64(row * width + k)).end_object();
    }
    w.end_array();
    if (row < kTopRows) page.line("  row %lld: %s", static_cast<long long>(row), line.c_str());
  }
  w.end_array();
  return Ok{};
}

void print_all(const Page& page, const Tensor& t) {
  const int64_t width = t.rank() == 0 ? 1 : std::max<int64_t>(1, t.dims().back());
  for (int64_t at = 0; at < t.numel(); at += width) {
    std::string line;
    for (int64_t k = at; k < at + width; ++k)
      line += " " + (is_float(t.dtype()) ? number_text("%.9g", t.f64(k)) : element(t, k));
    page.line(" %s", line.c_str());
  }
}

// Row-major order; NaN and infinities, which JSON cannot express as numbers, are strings.
void write_all(JsonWriter& w, const Tensor& t) {
  if (!has_numbers(t) && t.dtype() != DType::kString) return;
  w.key("values").begin_array();
  for (int64_t k = 0; k < t.numel(); ++k) {
    if (t.dtype() == DType::kString) {
      w.value(t.string_values()[static_cast<size_t>(k)]);
    } else if (t.dtype() == DType::kBool) {
      w.value(t.i64(k) != 0);
    } else if (t.dtype() == DType::kU64) {
      w.value(static_cast<uint64_t>(t.i64(k)));
    } else if (!is_float(t.dtype())) {
      w.value(t.i64(k));
    } else if (const double v = t.f64(k); std::isfinite(v)) {
      w.value(v);
    } else {
      w.value(std::isnan(v) ? "NaN" : v > 0 ? "Infinity" : "-Infinity");
    }
  }
  w.end_array();
}
}  // namespace

Result<Shown> shown_of(const Arguments& arguments) {
  Shown s;
  s.print = arguments.has("--print");
  PERI_ASSIGN(s.top, arguments.number("--top-k", 1, 1000000, 0));
  if (!arguments.has("--labels")) return s;
  if (s.top == 0) return usage("--labels is for --top-k").expecting("--top-k K");
  PERI_ASSIGN(const std::string text, read_file_or_pipe(arguments.get("--labels"), kMaxLabels));
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    s.labels.push_back(text.substr(at, end - at - (end > at && text[end - 1] == '\r')));
    at = end + 1;
  }
  while (!s.labels.empty() && s.labels.back().empty()) s.labels.pop_back();
  if (s.labels.empty()) return usage("--labels holds no names").in_file(arguments.get("--labels"));
  if (constexpr std::string_view kMark = "\xef\xbb\xbf"; s.labels[0].starts_with(kMark))
    s.labels[0].erase(0, kMark.size());
  return s;
}

bool fits_labels(const Tensor& t, const Shown& shown) {
  return t.rank() > 0 && has_numbers(t) && t.dims().back() == std::ssize(shown.labels);
}

Status show_output(const Page& page, JsonWriter& w, const std::string& name, const Tensor& t, const Shown& shown) {
  const std::string type = tensor_type_text(t);
  w.begin_object().field("type", type).field("elements", t.numel());
  std::string numbers;
  if (has_numbers(t) && t.numel() > 0) {
    const Range r = range_of(t);
    const NoNumbers none = no_numbers(t);
    const double mean = r.finite ? r.sum / static_cast<double>(r.finite) : NAN;
    numbers =
        format("  min %.6g  max %.6g  mean %.6g  NaN %lld", r.low, r.high, mean, static_cast<long long>(none.nan));
    if (r.finite == 0) numbers = format("  no finite element  NaN %lld", static_cast<long long>(none.nan));
    if (none.infinite) numbers += format("  Inf %lld", static_cast<long long>(none.infinite));
    if (r.finite > 0)
      w.field("min", r.low).field("max", r.high).field("mean", mean);
    else
      w.key("min").null().key("max").null().key("mean").null();
    w.field("nan", none.nan).field("inf", none.infinite);
  }
  page.line("%s %s%s  %s", in_columns(name, 16).c_str(), type.c_str(), numbers.c_str(), first_of(t).c_str());
  if (shown.top > 0) PERI_TRY(show_largest(page, w, name, t, shown));
  if (shown.print) {
    print_all(page, t);
    write_all(w, t);
  }
  w.end_object();
  return Ok{};
}

std::string NoNumbers::text() const {
  std::string out;
  if (nan) out = std::to_string(nan) + " NaN";
  if (infinite) out += (out.empty() ? "" : ", ") + std::to_string(infinite) + " Inf";
  return out;
}

NoNumbers no_numbers(const Tensor& t) {
  NoNumbers out;
  if (!is_float(t.dtype())) return out;
  for (int64_t k = 0; k < t.numel(); ++k) {
    const double v = t.f64(k);
    out.nan += std::isnan(v);
    out.infinite += std::isinf(v);
  }
  return out;
}

NumberWatch::NumberWatch(runtime::Session* session) : session_(session) {
  session_->set_step_hook([this](size_t k, bool before) {
    if (before || !found_.empty()) return;
    const plan::Step& step = session_->engine().program().steps[k];
    NoNumbers all;
    for (const int32_t b : step.writes) {
      const auto t = b < 0 ? Result<Tensor>(Tensor()) : session_->buffer_contents(b);
      if (!t.ok()) continue;
      const NoNumbers these = no_numbers(*t);
      all.nan += these.nan;
      all.infinite += these.infinite;
    }
    if (all.nan + all.infinite == 0) return;
    std::string from;
    for (const std::string& node : step.origins) from += (from.empty() ? "" : ", ") + node;
    found_ = format("step %zu, '%s', is the first to make %s", k, step.name.c_str(), all.text().c_str()) +
             (from.empty() ? "" : " (nodes " + from + ")");
  });
}
NumberWatch::~NumberWatch() { session_->set_step_hook({}); }

bool can_cast(DType from, DType to) {
  const auto number = [](DType t) { return t != DType::kString && t != DType::kC64 && dtype_bits(t) <= 64; };
  return number(from) && number(to);
}

namespace {
// An integer for one rounding: to odd where a double does not hold it, so that rounding again to fewer bits gives what
// rounding the integer itself does.
double to_be_rounded(const Tensor& t, int64_t k) {
  const bool negative = t.dtype() != DType::kU64 && t.i64(k) < 0;
  const auto bits = static_cast<uint64_t>(t.i64(k));
  const uint64_t magnitude = negative ? -bits : bits;
  const int more = std::max(0, 11 - std::countl_zero(magnitude));  // than the 53 of a double
  const uint64_t lost = magnitude & ((uint64_t{1} << more) - 1);
  const double v = std::ldexp(static_cast<double>(magnitude >> more | (lost != 0 ? 1 : 0)), more);
  return negative ? -v : v;
}

// A whole number of a float as an integer type's 64 bits; none where they do not hold it.
std::optional<int64_t> as_integer(double v, DType to) {
  if (v != std::floor(v)) return std::nullopt;
  if (to == DType::kU64)
    return v >= 0 && v < 0x1p64 ? std::optional(static_cast<int64_t>(static_cast<uint64_t>(v))) : std::nullopt;
  return v >= -0x1p63 && v < 0x1p63 ? std::optional(static_cast<int64_t>(v)) : std::nullopt;
}
}  // namespace

Result<Tensor> cast(const Tensor& t, DType to) {
  if (!can_cast(t.dtype(), to))
    return usage("--cast converts real numbers only")
        .expecting(std::string(dtype_name(to)))
        .but_found(tensor_type_text(t));
  PERI_ASSIGN(Tensor out, Tensor::zeros(to, t.dims()));
  const auto lost = [&](int64_t at) {
    return usage("--cast: element %lld does not fit into %s", static_cast<long long>(at),
                 std::string(dtype_name(to)).c_str())
        .but_found(element(t, at));
  };
  const bool whole = is_integer(t.dtype()) || t.dtype() == DType::kBool;
  for (int64_t k = 0; k < t.numel(); ++k) {
    if (is_float(to)) {
      out.set_f64(k, whole && to != DType::kF64 ? to_be_rounded(t, k) : t.f64(k));
      if (std::isinf(out.f64(k)) && std::isfinite(t.f64(k))) return lost(k);
    } else if (whole) {
      out.set_i64(k, t.i64(k));
      if (out.f64(k) != t.f64(k)) return lost(k);
    } else {
      const std::optional<int64_t> v = as_integer(t.f64(k), to);
      if (!v) return lost(k);
      out.set_i64(k, *v);
      if (out.f64(k) != t.f64(k)) return lost(k);
    }
  }
  return out;
}

}  // namespace peri::cli
