// The central directory at the end of the file lists the entries; a local header before each repeats its name.
#include "base/npz.hpp"

#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "base/compressed.hpp"
#include "base/file.hpp"
#include "base/npy.hpp"

namespace peri {

namespace {
constexpr size_t kEnd = 22, kRow = 46, kLocal = 30;  // bytes of the fixed parts
constexpr uint32_t kEndMark = 0x06054b50, kRowMark = 0x02014b50, kLocalMark = 0x04034b50;
constexpr size_t kMaxEntries = 65535;
constexpr uint32_t kElsewhere = 0xffffffff;  // the number stands in a zip64 record

uint64_t number(std::string_view bytes, size_t at, size_t size) {
  uint64_t v = 0;
  for (size_t k = size; k-- > 0;) v = v << 8 | static_cast<uint8_t>(bytes[at + k]);
  return v;
}

struct Entry {
  std::string name;
  uint64_t flags = 0, method = 0, crc = 0, packed = 0, size = 0, at = 0;
};

Result<std::vector<Entry>> entries_of(std::string_view file) {
  if (file.size() < kEnd) return invalid("not an .npz file: shorter than a zip archive");
  size_t end = file.size() - kEnd;
  const size_t last = end - std::min<size_t>(end, 65535);
  while (end > last && number(file, end, 4) != kEndMark) --end;
  if (number(file, end, 4) != kEndMark) return invalid("not an .npz file: no zip directory at its end");
  const uint64_t count = number(file, end + 10, 2);
  uint64_t at = number(file, end + 16, 4);
  if (count >= kMaxEntries || at == kElsewhere) return unsupported("a zip archive of 4 GiB or more, or 65535 files");
  std::vector<Entry> out;
  for (uint64_t k = 0; k < count; ++k) {
    if (at > file.size() || file.size() - at < kRow || number(file, at, 4) != kRowMark)
      return invalid("the zip directory is broken at entry %llu", static_cast<unsigned long long>(k));
    Entry e{"",
            number(file, at + 8, 2),
            number(file, at + 10, 2),
            number(file, at + 16, 4),
            number(file, at + 20, 4),
            number(file, at + 24, 4),
            number(file, at + 42, 4)};
    const uint64_t name = number(file, at + 28, 2);
    const uint64_t row = kRow + name + number(file, at + 30, 2) + number(file, at + 32, 2);
    if (file.size() - at < row) return invalid("the zip directory is cut");
    e.name = file.substr(at + kRow, name);
    if (e.packed == kElsewhere || e.size == kElsewhere || e.at == kElsewhere)
      return unsupported("an array of 4 GiB or more in an .npz file").at_node(e.name).advise("save it as .npy");
    if (e.name.ends_with(".npy")) e.name.resize(e.name.size() - 4);
    out.push_back(std::move(e));
    at += row;
  }
  return out;
}

Result<std::string> contents(std::string_view file, const Entry& e) {
  if (e.flags & 1) return unsupported("an encrypted zip entry");
  if (e.at > file.size() || file.size() - e.at < kLocal || number(file, e.at, 4) != kLocalMark)
    return invalid("the zip entry lies outside of the file");
  const uint64_t begin = e.at + kLocal + number(file, e.at + 26, 2) + number(file, e.at + 28, 2);
  if (begin > file.size() || file.size() - begin < e.packed) return invalid("the zip entry is cut");
  const std::string_view packed = file.substr(begin, e.packed);
  std::string bytes;
  if (e.method == 8) {
    PERI_ASSIGN(bytes, decompress(std::as_bytes(std::span(packed)), Compression::kDeflate, e.size));
  } else if (e.method == 0) {
    bytes = packed;
  } else {
    return unsupported("zip method %llu", static_cast<unsigned long long>(e.method)).expecting("stored or deflated");
  }
  const uLong crc = crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  if (bytes.size() != e.size || crc != e.crc) return invalid("the zip entry is damaged: its check sum does not fit");
  return bytes;
}

Result<Tensor> read(std::string_view file, const std::string& name, DType wanted) {
  PERI_ASSIGN(const std::vector<Entry> entries, entries_of(file));
  const auto it = std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.name == name; });
  if (it == entries.end() && !(name.empty() && entries.size() == 1)) {
    std::string known;
    for (const Entry& e : entries) known += (known.empty() ? "" : ", ") + e.name;
    return usage("no array '%s' in it", name.c_str())
        .expecting(known.empty() ? "" : "one of " + known)
        .but_found(known.empty() ? "no arrays at all" : "");
  }
  const Entry& e = it == entries.end() ? entries[0] : *it;
  if (std::count_if(entries.begin(), entries.end(), [&](const Entry& other) { return other.name == e.name; }) > 1)
    return invalid("two arrays of the .npz file have this name").at_node(e.name).advise("save each under its own name");
  auto bytes = contents(file, e);
  if (!bytes.ok()) return std::move(bytes).error().at_node(e.name);
  const auto keep = std::make_shared<const std::string>(std::move(bytes).value());
  return parse_npy(*keep, keep, wanted);
}
}  // namespace

Result<std::vector<std::string>> npz_names(const std::string& path) {
  PERI_ASSIGN(const MappedFile file, MappedFile::open(path));
  auto entries = entries_of(file.text());
  if (!entries.ok()) return std::move(entries).error().in_file(path);
  std::vector<std::string> out;
  for (const Entry& e : *entries) out.push_back(e.name);
  return out;
}

Result<Tensor> read_npz(const std::string& path, const std::string& name, DType wanted) {
  PERI_ASSIGN(const MappedFile file, MappedFile::open(path));
  auto tensor = read(file.text(), name, wanted);
  if (!tensor.ok()) return std::move(tensor).error().in_file(path);
  PERI_TRY(file.check());
  return tensor;
}

}  // namespace peri
