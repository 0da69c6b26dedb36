// The .npy header is a Python literal of exactly three keys; the data follows in one block.
#include "base/npy.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>

#include "base/dim.hpp"
#include "base/file.hpp"
#include "base/plural.hpp"
#include "base/utf8.hpp"

namespace peri {

namespace {
constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMaxHeader = 1 << 20;
constexpr size_t kMaxRank = 64;
constexpr size_t kMaxFile = size_t{1} << 40;

Error broken(const char* what) {
  return invalid("broken .npy file: %s", what).advise("write it again with numpy.save");
}

struct Header {
  std::string descr;
  bool fortran = false;
  std::vector<int64_t> dims;
};

// {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  Result<Header> parse() {
    Header h;
    bool seen[3] = {};
    if (!take('{')) return broken("the header is not a dictionary");
    while (!take('}')) {
      PERI_ASSIGN(const std::string key, string());
      const int which = key == "descr" ? 0 : key == "fortran_order" ? 1 : key == "shape" ? 2 : -1;
      if (which < 0 || seen[which]) return broken("an unknown or repeated key in the header");
      seen[which] = true;
      if (!take(':')) return broken("the header is not a dictionary");
      if (which == 0) {
        if (peek() == '[') return unsupported("a .npy file of records").advise("save one plain array");
        PERI_ASSIGN(h.descr, string());
      } else if (which == 1) {
        PERI_ASSIGN(h.fortran, boolean());
      } else {
        PERI_TRY(shape(&h.dims));
      }
      if (!take(',') && peek() != '}') return broken("the header is not a dictionary");
    }
    skip();
    if (at_ != text_.size()) return broken("text after the header's dictionary");
    if (!seen[0] || !seen[1] || !seen[2]) return broken("a key is missing in the header");
    return h;
  }

 private:
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  char peek() {
    skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  Result<std::string> string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') return broken("expected a string in the header");
    const size_t end = text_.find(quote, ++at_);
    if (end == std::string_view::npos || end - at_ > 64) return broken("a string in the header does not end");
    std::string out(text_.substr(at_, end - at_));
    at_ = end + 1;
    return out;
  }
  Result<bool> boolean() {
    skip();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return value;
      }
    }
    return broken("expected True or False in the header");
  }
  Status shape(std::vector<int64_t>* dims) {
    if (!take('(')) return broken("expected a shape in the header");
    while (!take(')')) {
      skip();
      int64_t d = -1;
      const auto [end, code] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), d);
      if (code != std::errc() || d < 0) return broken("a dimension is not a number of 0 or more");
      at_ = static_cast<size_t>(end - text_.data());
      if (dims->size() == kMaxRank) return broken("too many dimensions");
      dims->push_back(d);
      if (!take(',') && peek() != ')') return broken("the shape does not end");
    }
    return Ok{};
  }

  std::string_view text_;
  size_t at_ = 0;
};

struct Element {
  DType dtype = DType::kInvalid;
  int64_t bytes = 0;      // of one element in the file
  bool unpacked = false;  // a type below a byte, one element a byte
};

bool below_a_byte(DType t) { return dtype_bits(t) > 0 && dtype_bits(t) < 8; }

Result<Element> void_element(int64_t bytes, DType wanted) {
  if (bytes == 2 && (wanted == DType::kInvalid || wanted == DType::kBF16)) return Element{DType::kBF16, 2};
  if (bytes == 1 && wanted != DType::kInvalid && dtype_bits(wanted) <= 8 && wanted != DType::kString)
    return Element{wanted, 1, below_a_byte(wanted)};
  return unsupported("a .npy file of raw bytes (V%lld)", static_cast<long long>(bytes))
      .expecting("a numeric type")
      .advise("save the array with a numeric type of NumPy");
}

Error unsupported_element(const std::string& descr) {
  if (descr.ends_with("O"))
    return unsupported("a .npy file of Python objects").advise("save plain numbers, or texts with .astype(str)");
  return unsupported("elements of the type '%s' in a .npy file", descr.c_str())
      .advise("save the array with a numeric type of NumPy");
}

Result<Element> element_of(const std::string& descr, DType wanted) {
  if (descr.size() < 3) return unsupported_element(descr);
  const char order = descr[0], kind = descr[1];
  if (kind == 'M' || kind == 'm') return unsupported_element(descr);  // dates and times, their unit behind the size
  int64_t bytes = -1;
  const auto [end, code] = std::from_chars(descr.data() + 2, descr.data() + descr.size(), bytes);
  if (code != std::errc() || end != descr.data() + descr.size() || bytes < 0) return broken("a bad element type");
  if (kind == 'O')
    return unsupported("a .npy file of Python objects").advise("save plain numbers, or texts with .astype(str)");
  if (kind == 'V') return void_element(bytes, wanted);
  if (order == '>' && bytes > 1)
    return unsupported("a big-endian .npy file").advise("save it with .astype(a.dtype.newbyteorder('<'))");
  if (order != '<' && order != '|' && order != '=') return broken("a bad byte order");
  if (kind == 'S') return Element{DType::kString, bytes};
  if (kind == 'U') {
    if (bytes > (int64_t{1} << 32)) return broken("a bad element type");
    return Element{DType::kString, 4 * bytes};
  }
  static constexpr struct {
    char kind;
    int bytes;
    DType dtype;
  } kPlain[] = {{'f', 4, DType::kF32},  {'f', 8, DType::kF64}, {'f', 2, DType::kF16},  {'f', 1, DType::kF8E5M2},
                {'i', 1, DType::kI8},   {'i', 2, DType::kI16}, {'i', 4, DType::kI32},  {'i', 8, DType::kI64},
                {'u', 1, DType::kU8},   {'u', 2, DType::kU16}, {'u', 4, DType::kU32},  {'u', 8, DType::kU64},
                {'b', 1, DType::kBool}, {'c', 8, DType::kC64}, {'c', 16, DType::kC128}};
  for (const auto& row : kPlain)
    if (row.kind == kind && row.bytes == bytes) return Element{row.dtype, bytes};
  return unsupported_element(descr);
}

// Calls copy(to, from) for every element, `from` counted in Fortran order.
template <class F>
void transpose_positions(const std::vector<int64_t>& dims, int64_t numel, F&& copy) {
  if (numel == 0) return;
  std::vector<int64_t> stride(dims.size(), 1), index(dims.size(), 0);
  for (size_t a = 1; a < dims.size(); ++a) stride[a] = stride[a - 1] * dims[a - 1];
  int64_t from = 0;
  for (int64_t to = 0; to < numel; ++to) {
    copy(to, from);
    for (size_t a = dims.size(); a-- > 0;) {
      from += stride[a];
      if (++index[a] < dims[a]) break;
      from -= stride[a] * dims[a];
      index[a] = 0;
    }
  }
}

Result<std::string> string_element(std::string_view raw, bool wide) {
  if (!wide) {
    const size_t last = raw.find_last_not_of('\0');
    return std::string(raw.substr(0, last == std::string_view::npos ? 0 : last + 1));
  }
  std::string out;
  size_t kept = 0;
  for (size_t at = 0; at + 4 <= raw.size(); at += 4) {
    uint32_t code = 0;
    std::memcpy(&code, raw.data() + at, 4);
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return broken("a character outside Unicode");
    utf8_append(out, static_cast<char32_t>(code));
    if (code) kept = out.size();
  }
  out.resize(kept);
  return out;
}

Result<Tensor> read_strings(const Header& h, const Element& e, int64_t numel, std::string_view data, bool wide) {
  if (e.bytes == 0 && numel > 4096) return broken("too many empty strings");
  std::vector<std::string> values(static_cast<size_t>(numel));
  std::optional<Error> failed;
  const auto copy = [&](int64_t to, int64_t from) {
    if (failed) return;
    auto s = string_element(data.substr(static_cast<size_t>(from * e.bytes), static_cast<size_t>(e.bytes)), wide);
    if (!s.ok()) {
      failed = s.error();
    } else {
      values[static_cast<size_t>(to)] = std::move(s).value();
    }
  };
  if (h.fortran && h.dims.size() > 1) {
    transpose_positions(h.dims, numel, copy);
  } else {
    for (int64_t k = 0; k < numel; ++k) copy(k, k);
  }
  if (failed) return *failed;
  return Tensor::strings(h.dims, std::move(values));
}

void set_small(Tensor* t, int64_t at, uint8_t byte) {
  if (t->dtype() == DType::kF4E2M1) return t->set_f64(at, f4e2m1_to_f32(byte & 15));
  if (dtype_bits(t->dtype()) == 6) return t->set_f64(at, f6_to_f32(t->dtype(), byte & 63));
  t->set_i64(at, static_cast<int8_t>(byte));
}

Result<Tensor> read_numbers(const Header& h, const Element& e, int64_t numel, std::string_view data,
                            std::shared_ptr<const void> keep) {
  const bool transposed = h.fortran && h.dims.size() > 1;
  const auto* bytes = reinterpret_cast<const std::byte*>(data.data());
  if (!transposed && !e.unpacked && e.dtype != DType::kBool)
    return Tensor::view(e.dtype, h.dims, {bytes, data.size()}, std::move(keep));
  PERI_ASSIGN(Tensor t, Tensor::zeros(e.dtype, h.dims));
  const size_t width = static_cast<size_t>(e.bytes);
  const auto copy = [&](int64_t to, int64_t from) {
    const std::byte* p = bytes + static_cast<size_t>(from) * width;
    if (e.dtype == DType::kBool) {
      t.set_i64(to, p[0] != std::byte{0});
    } else if (e.unpacked) {
      set_small(&t, to, static_cast<uint8_t>(p[0]));
    } else {
      std::memcpy(t.mutable_data() + static_cast<size_t>(to) * width, p, width);
    }
  };
  if (transposed) {
    transpose_positions(h.dims, numel, copy);
  } else {
    for (int64_t k = 0; k < numel; ++k) copy(k, k);
  }
  return t;
}

std::string descr_of(DType t) {
  switch (t) {
    case DType::kF32: return "<f4";
    case DType::kF64: return "<f8";
    case DType::kF16: return "<f2";
    case DType::kI8: return "|i1";
    case DType::kI16: return "<i2";
    case DType::kI32: return "<i4";
    case DType::kI64: return "<i8";
    case DType::kU8: return "|u1";
    case DType::kU16: return "<u2";
    case DType::kU32: return "<u4";
    case DType::kU64: return "<u8";
    case DType::kBool: return "|b1";
    case DType::kC64: return "<c8";
    case DType::kC128: return "<c16";
    case DType::kBF16: return "<V2";
    default: return "<V1";
  }
}

std::string header_of(const Tensor& t, const std::string& descr) {
  std::string dict = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (";
  for (int64_t d : t.dims()) dict += std::to_string(d) + ", ";
  if (t.rank() > 1) dict.resize(dict.size() - 2);
  if (t.rank() == 1) dict.pop_back();
  dict += "), }";
  const size_t length = (10 + dict.size() + 1 + 63) / 64 * 64 - 10;  // data starts at a multiple of 64
  dict.resize(length - 1, ' ');
  dict += '\n';
  std::string out(kMagic);
  out += '\x01';
  out += '\0';
  out += static_cast<char>(length & 0xff);
  out += static_cast<char>(length >> 8);
  return out + dict;
}

// Header and data of a string tensor.
std::string string_file(const Tensor& t) {
  const auto& values = t.string_values();
  const bool wide = std::all_of(values.begin(), values.end(), [](const std::string& s) { return utf8_valid(s); });
  std::vector<std::u32string> codes(wide ? values.size() : 0);
  size_t longest = 1;
  for (size_t k = 0; k < values.size(); ++k) {
    for (size_t at = 0; wide && at < values[k].size();) {
      const Utf8Char c = utf8_decode(values[k], at);
      codes[k] += c.code;
      at += static_cast<size_t>(c.bytes);
    }
    longest = std::max(longest, wide ? codes[k].size() : values[k].size());
  }
  std::string out = header_of(t, (wide ? "<U" : "|S") + std::to_string(longest));
  for (size_t k = 0; k < values.size(); ++k) {
    const size_t width = longest * (wide ? 4 : 1), used = wide ? codes[k].size() * 4 : values[k].size();
    out.append(wide ? reinterpret_cast<const char*>(codes[k].data()) : values[k].data(), used);
    out.append(width - used, '\0');
  }
  return out;
}

std::string unpacked(const Tensor& t) {
  std::string out(static_cast<size_t>(t.numel()), '\0');
  for (int64_t k = 0; k < t.numel(); ++k) {
    const DType type = t.dtype();
    const auto real = [&] { return static_cast<float>(t.f64(k)); };
    out[static_cast<size_t>(k)] = static_cast<char>(type == DType::kF4E2M1  ? f32_to_f4e2m1(real())
                                                    : dtype_bits(type) == 6 ? f32_to_f6(type, real())
                                                                            : t.i64(k));
  }
  return out;
}
}  // namespace

static Error not_an_array() { return broken("it does not begin as one").expecting("\\x93NUMPY"); }

Result<Tensor> parse_npy(std::string_view bytes, std::shared_ptr<const void> keep, DType wanted) {
  if (!bytes.starts_with(kMagic) || bytes.size() < 10) return not_an_array();
  const int major = static_cast<unsigned char>(bytes[6]);
  if (major < 1 || major > 3) return unsupported("version %d of the .npy format", major).expecting("1 to 3");
  const size_t start = major == 1 ? 10 : 12;
  if (bytes.size() < start) return broken("it is cut");
  size_t length = 0;
  for (size_t k = start; k-- > 8;) length = length << 8 | static_cast<unsigned char>(bytes[k]);
  if (length > kMaxHeader || length > bytes.size() - start) return broken("the header is longer than the file");
  PERI_ASSIGN(const Header h, HeaderParser(bytes.substr(start, length)).parse());
  PERI_ASSIGN(const Element e, element_of(h.descr, wanted));
  const std::string_view data = bytes.substr(start + length);
  PERI_ASSIGN(const int64_t numel, checked_numel(h.dims));
  PERI_ASSIGN(const int64_t size, checked_mul(numel, e.bytes, "size of a .npy file"));
  if (static_cast<uint64_t>(size) != data.size())
    return broken("its data has the wrong size")
        .expecting(counted(size, "byte"))
        .but_found(counted(static_cast<int64_t>(data.size()), "byte"));
  if (h.dims.size() > 32) return broken("too many dimensions");
  if (e.dtype == DType::kString) return read_strings(h, e, numel, data, h.descr[1] == 'U');
  return read_numbers(h, e, numel, data, std::move(keep));
}

Result<Tensor> read_npy(const std::string& path, DType wanted) {
  PERI_ASSIGN(const Fd file, open_file(path));
  std::string head(kMagic.size(), '\0');  // first: what is no array may be gigabytes of something else
  head.resize(static_cast<size_t>(std::max<ssize_t>(::pread(file.get(), head.data(), head.size(), 0), 0)));
  if (head.size() == kMagic.size() && head != kMagic) return not_an_array().in_file(path);
  PERI_ASSIGN(std::string text, read_file(file, path, kMaxFile));
  auto keep = std::make_shared<const std::string>(std::move(text));
  Result<Tensor> out = parse_npy(*keep, keep, wanted);
  if (!out.ok()) return std::move(out).error().in_file(path);
  return out;
}

std::string npy_bytes(const Tensor& t) {
  if (t.dtype() == DType::kString) return string_file(t);
  const std::string head = header_of(t, descr_of(t.dtype()));
  if (below_a_byte(t.dtype())) return head + unpacked(t);
  return head + std::string(reinterpret_cast<const char*>(t.bytes().data()), t.bytes().size());
}

const FileKind kNpyFile{"a NumPy array", [](std::string_view head) { return head.starts_with(kMagic); }};

Status write_npy(const std::string& path, const Tensor& t) {
  PERI_ASSIGN(AtomicFile file, AtomicFile::create(path));
  if (t.dtype() == DType::kString || below_a_byte(t.dtype())) {
    PERI_TRY(file.write(npy_bytes(t)));
  } else {
    PERI_TRY(file.write(header_of(t, descr_of(t.dtype()))));
    PERI_TRY(file.write(t.bytes().data(), t.bytes().size()));
  }
  return file.commit();
}

}  // namespace peri
