// Every key is compared in full, whatever differs first, so that timing reveals nothing about a guess.
#include "serve/access/access.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>

#include "base/file.hpp"

namespace peri::serve {

namespace {
constexpr size_t kMaxFile = 1 << 20, kMaxKeys = 10000, kMinKey = 8, kMaxKey = 512;

bool same_secret(std::string_view a, std::string_view b) {
  size_t differs = a.size() ^ b.size();
  for (size_t k = 0; k < a.size(); ++k)
    differs |= static_cast<size_t>(a[k] ^ b[b.empty() ? 0 : k % b.size()]) | (b.empty() ? 1 : 0);
  return differs == 0;
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> out;
  line = line.substr(0, line.find('#'));
  while (!line.empty()) {
    const size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos) break;
    line.remove_prefix(begin);
    const size_t end = std::min(line.find_first_of(" \t\r"), line.size());
    out.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
  return out;
}

Result<double> positive(std::string_view text) {
  double v = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), v);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size() || !(v > 0) || v > 1e9)
    return invalid("no number above 0");
  return v;
}

Result<AccessKey> parse_line(const std::vector<std::string_view>& words) {
  AccessKey out;
  out.key = words[0];
  if (out.key.size() < kMinKey || out.key.size() > kMaxKey)
    return invalid("a key has %zu to %zu characters", kMinKey, kMaxKey);
  for (size_t k = 1; k < words.size(); ++k) {
    const size_t eq = words[k].find('=');
    const std::string_view name = words[k].substr(0, eq);
    const std::string_view value = eq == std::string_view::npos ? "" : words[k].substr(eq + 1);
    if (name == "tenant" && !value.empty()) {
      out.tenant = value;
    } else if (name == "rate" || name == "burst") {
      const auto v = positive(value);
      if (!v.ok()) return invalid("'%s' must be a number above 0", std::string(name).c_str());
      (name == "rate" ? out.per_second : out.burst) = *v;
    } else {
      return invalid("a word behind the key is none of those known").expecting("tenant=NAME, rate=N or burst=N");
    }
  }
  if (out.tenant.empty()) out.tenant = out.key;
  if (out.per_second > 0) out.burst = std::max(out.burst, 1.0);
  return out;
}
}  // namespace

Result<std::vector<AccessKey>> parse_keys(std::string_view text, const std::string& file) {
  std::vector<AccessKey> out;
  for (int line = 1; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::vector<std::string_view> words = words_of(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (words.empty()) continue;
    auto key = parse_line(words);
    if (!key.ok()) return std::move(key).error().in_file(file).at_node("line " + std::to_string(line));
    for (const AccessKey& k : out)
      if (k.key == key->key)
        return invalid("a key stands here twice").in_file(file).at_node("line " + std::to_string(line));
    out.push_back(std::move(*key));
    if (out.size() > kMaxKeys) return invalid("more than %zu keys", kMaxKeys).in_file(file);
  }
  if (out.empty()) return invalid("the file holds no key").in_file(file);
  return out;
}

Result<std::vector<AccessKey>> read_keys(const std::string& path) {
  PERI_ASSIGN(const Fd fd, open_file(path));
  struct stat status = {};
  if (fstat(fd.get(), &status) != 0) return os_error("open", path);
  if (status.st_mode & (S_IRWXG | S_IRWXO) & ~S_IRGRP)
    return refused("others than its owner may read or write the file of keys").in_file(path).advise("chmod 600 it");
  PERI_ASSIGN(const std::string text, read_file(fd, path, kMaxFile));
  return parse_keys(text, path);
}

Access::Access(std::vector<AccessKey> keys) : keys_(std::move(keys)), buckets_(keys_.size()) {
  std::vector<std::string> names;
  for (const AccessKey& k : keys_) {
    const auto it = std::find(names.begin(), names.end(), k.tenant);
    tenants_.push_back(static_cast<uint32_t>(it - names.begin()) + 1);
    if (it == names.end()) names.push_back(k.tenant);
  }
}

uint32_t Access::find(std::string_view authorization) const {
  constexpr std::string_view kScheme = "bearer ";
  bool scheme = authorization.size() > kScheme.size();
  for (size_t k = 0; scheme && k < kScheme.size(); ++k) scheme = (authorization[k] | 0x20) == (kScheme[k] | 0x20);
  uint32_t found = kNoKey;
  const std::string_view given = scheme ? authorization.substr(kScheme.size()) : std::string_view();
  for (size_t k = 0; k < keys_.size(); ++k)
    if (same_secret(given, keys_[k].key)) found = static_cast<uint32_t>(k);
  return found;
}

Pass Access::admit(uint32_t found, bool inference, int64_t now) {
  if (keys_.empty()) return {};
  Pass out;
  if (found >= keys_.size()) {
    out.status = 401;
    out.why = "this server asks for a key that it knows: Authorization: Bearer KEY";
    return out;
  }
  out.tenant = tenants_[found];
  const AccessKey& key = keys_[found];
  if (!inference || key.per_second <= 0) return out;
  const std::lock_guard<std::mutex> lock(mutex_);
  Bucket& b = buckets_[found];
  const double since = b.begun ? static_cast<double>(now - b.at_ns) * 1e-9 : 0;
  b.tokens = b.begun ? std::min(key.burst, b.tokens + since * key.per_second) : key.burst;
  b.begun = true;
  b.at_ns = now;
  if (b.tokens >= 1) {
    b.tokens -= 1;
    out.charged = found;
    return out;
  }
  out.status = 429;
  out.why = format("this key may ask for %g inferences a second", key.per_second);
  out.retry_after_ns = static_cast<int64_t>((1 - b.tokens) / key.per_second * 1e9) + 1;
  return out;
}

void Access::give_back(uint32_t charged) {
  if (charged >= keys_.size()) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  buckets_[charged].tokens = std::min(keys_[charged].burst, buckets_[charged].tokens + 1);
}

}  // namespace peri::serve
