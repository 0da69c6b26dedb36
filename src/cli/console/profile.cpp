// The supported YAML: "name: value", "name: [a, b]", "- item" below a name, comments and quotes; no nesting.
#include "cli/console/profile.hpp"

#include <algorithm>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/spelling.hpp"

namespace peri::cli {
namespace {

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t' || s.front() == '\r' || s.front() == '\n'))
    s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t' || s.back() == '\r')) s.remove_suffix(1);
  return s;
}

class Reader {
 public:
  explicit Reader(std::span<const Flag> flags) : flags_(flags) {}

  Status set(std::string_view key, std::vector<std::string> values, const std::string& where) {
    const std::string name = "--" + std::string(key);
    const auto flag = std::find_if(flags_.begin(), flags_.end(), [&](const Flag& f) { return f.name == name; });
    if (name == "--profile")
      return usage("%s: a profile cannot name another one", where.c_str())
          .advise("write the flags of both into one file");
    if (flag == flags_.end()) {
      std::vector<std::string_view> known;
      for (const Flag& f : flags_) known.push_back(f.name.substr(2));
      const std::string near = nearest(std::string(key), known);
      return usage("%s: '%s' is not a flag of this command", where.c_str(), std::string(key).c_str())
          .advise(near.empty() ? "a flag's name without its hyphens" : "did you mean '" + near + "'?");
    }
    if (out_.has(name)) return usage("%s: '%s' is given twice", where.c_str(), std::string(key).c_str());
    if (values.size() != 1 && !flag->repeated)
      return usage("%s: '%s' takes one value", where.c_str(), std::string(key).c_str());
    if (!flag->value.empty() && std::find(values.begin(), values.end(), "") != values.end())
      return usage("%s: '%s' has an empty value", where.c_str(), std::string(key).c_str());
    if (flag->value.empty()) {
      if (values[0] != "true" && values[0] != "false")
        return usage("%s: '%s' is a switch", where.c_str(), std::string(key).c_str())
            .expecting("true or false")
            .but_found(values[0]);
      if (values[0] == "false") return Ok{};
      values[0].clear();
    }
    out_.values[name] = std::move(values);
    return Ok{};
  }
  Arguments take() { return std::move(out_); }

 private:
  const std::span<const Flag> flags_;
  Arguments out_;
};

Result<std::string> text_of(const Json& value, const std::string& key) {
  switch (value.kind()) {
    case Json::Kind::kString: return std::string(*value.as_string());
    case Json::Kind::kBool: return std::string(*value.as_bool() ? "true" : "false");
    case Json::Kind::kInt:
    case Json::Kind::kUint:
    case Json::Kind::kDouble: {
      JsonWriter w;
      w.value(value);
      return w.take();
    }
    default: return usage("'%s' is not a text, number, or list of them", key.c_str()).but_found(value.kind_name());
  }
}

Status read_json(std::string_view text, Reader* out) {
  auto parsed = parse_json(text, {4, 1 << 20, 10000});
  if (!parsed.ok()) {  // invalid JSON is a usage error, as invalid YAML is
    Error e = std::move(parsed).error();
    e.kind = ErrorKind::kUsage;
    return e;
  }
  const Json json = std::move(parsed).value();
  for (const Json::Member& m : json.members()) {
    std::vector<std::string> values;
    if (m.value.is_array()) {
      for (const Json& v : m.value.items()) {
        PERI_ASSIGN(std::string one, text_of(v, m.key));
        values.push_back(std::move(one));
      }
    } else {
      PERI_ASSIGN(std::string one, text_of(m.value, m.key));
      values.push_back(std::move(one));
    }
    PERI_TRY(out->set(m.key, std::move(values), "the profile"));
  }
  return Ok{};
}

// A scalar: quoted, or up to a comment.
Result<std::string> scalar(std::string_view text, const std::string& where) {
  text = trimmed(text);
  if (!text.empty() && (text[0] == '"' || text[0] == '\'')) {
    const size_t end = text.find(text[0], 1);
    if (end == std::string_view::npos || text.find('\\') < end)
      return usage("%s: a quote is not closed, or has escapes", where.c_str());
    const std::string_view rest = trimmed(text.substr(end + 1));
    if (!rest.empty() && rest[0] != '#') return usage("%s: text after a quote", where.c_str());
    return std::string(text.substr(1, end - 1));
  }
  for (size_t at = text.find('#'); at != std::string_view::npos; at = text.find('#', at + 1))
    if (at == 0 || text[at - 1] == ' ') {
      text = trimmed(text.substr(0, at));
      break;
    }
  if (!text.empty() && std::string_view("[{&*!|>%@`").find(text[0]) != std::string_view::npos)
    return usage("%s: this form of YAML is not supported", where.c_str()).expecting("name: value, or - items");
  return std::string(text);
}

Result<std::vector<std::string>> inline_list(std::string_view text, const std::string& where) {
  const size_t end = text.find(']');
  if (end == std::string_view::npos) return usage("%s: a list is not closed", where.c_str());
  if (const std::string_view rest = trimmed(text.substr(end + 1)); !rest.empty() && rest[0] != '#')
    return usage("%s: text after a list", where.c_str()).but_found(rest.substr(0, 60));
  std::string_view inside = text.substr(1, end - 1);
  std::vector<std::string> out;
  while (!trimmed(inside).empty()) {
    const size_t comma = std::min(inside.find(','), inside.size());
    PERI_ASSIGN(std::string one, scalar(inside.substr(0, comma), where));
    out.push_back(std::move(one));
    inside.remove_prefix(std::min(comma + 1, inside.size()));
  }
  return out;
}

Status read_yaml(std::string_view text, Reader* out) {
  std::string key, key_where;
  std::vector<std::string> items;
  const auto finish = [&]() -> Status {
    if (key.empty()) return Ok{};
    if (items.empty()) return usage("%s: '%s' has no value", key_where.c_str(), key.c_str());
    return out->set(std::exchange(key, ""), std::exchange(items, {}), key_where);
  };
  for (int line = 1; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view whole = text.substr(0, end), row = trimmed(whole);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string where = "line " + std::to_string(line);
    if (row.empty() || row[0] == '#' || row == "---") continue;
    if (row.starts_with("- ")) {
      if (key.empty()) return usage("%s: an item outside of a list", where.c_str());
      PERI_ASSIGN(std::string one, scalar(row.substr(2), where));
      items.push_back(std::move(one));
      continue;
    }
    PERI_TRY(finish());
    const size_t colon = row.find(':');
    if (whole[0] == ' ' || whole[0] == '\t' || colon == std::string_view::npos || colon == 0)
      return usage("%s: no 'name: value'", where.c_str()).but_found(row.substr(0, 60));
    key = trimmed(row.substr(0, colon));
    key_where = where;
    const std::string_view rest = trimmed(row.substr(colon + 1));
    if (rest.empty() || rest[0] == '#') continue;  // items follow
    std::vector<std::string> values;
    if (rest[0] == '[') {
      PERI_ASSIGN(values, inline_list(rest, where));
    } else {
      PERI_ASSIGN(std::string one, scalar(rest, where));
      values.push_back(std::move(one));
    }
    PERI_TRY(out->set(std::exchange(key, ""), std::move(values), where));
  }
  return finish();
}
}  // namespace

Result<Arguments> parse_profile(std::string_view text, std::span<const Flag> flags) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // byte order mark, written by some editors
  Reader out(flags);
  if (constexpr std::string_view kMark = "\xef\xbb\xbf"; text.starts_with(kMark)) text.remove_prefix(kMark.size());
  PERI_TRY(trimmed(text).starts_with('{') ? read_json(text, &out) : read_yaml(text, &out));
  return out.take();
}

Result<Arguments> with_profile(const Arguments& arguments, std::span<const Flag> flags) {
  if (!arguments.has("--profile")) return arguments;
  const std::string path = arguments.get("--profile");
  PERI_ASSIGN(const std::string text, read_file(path, 1 << 20));
  auto read = parse_profile(text, flags);
  if (!read.ok()) return std::move(read).error().in_file(path);
  Arguments out = arguments;
  for (const auto& [name, values] : read->values) out.values.emplace(name, values);  // the command line wins
  return out;
}

}  // namespace peri::cli
