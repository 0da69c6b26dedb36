// Events of yaml-cpp are collected in a bounded tree, which is converted to the message: a protobuf list of keys and
// values is a mapping in YAML.
#include "serve/config/yaml.hpp"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <istream>
#include <streambuf>

#include "base/utf8.hpp"

namespace peri::serve {
namespace {

constexpr size_t kMaxValues = 20000, kMaxBytes = 1 << 20, kMaxDepth = 16;

struct Item {
  enum class Kind : uint8_t { kNull, kPlain, kQuoted, kMap, kList } kind = Kind::kNull;
  int line = 0;
  std::string value;
  std::vector<std::string> keys;  // of a mapping, one for each item
  std::vector<Item> items;
};

class Builder final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { add(mark, "", anchor, Item::Kind::kNull, ""); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { fail(mark, "an alias: write the value out"); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    const bool null = tag == "?" && (value == "~" || value == "null");
    const Item::Kind kind = null ? Item::Kind::kNull : tag == "!" ? Item::Kind::kQuoted : Item::Kind::kPlain;
    add(mark, tag, anchor, kind, null ? "" : value);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Item::Kind::kList);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Item::Kind::kMap);
  }
  void OnMapEnd() override { close(); }

  Result<Item> take() {
    if (error_) return *error_;
    return std::move(root_);
  }

 private:
  struct Open {
    Item* node;
    bool has_key = false;
    std::string key;
  };
  void fail(const YAML::Mark& mark, const std::string& what) {
    if (!error_) error_ = invalid("line %d: %s", mark.line + 1, printable(what).c_str());
  }
  Item* add(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Item::Kind kind, std::string value) {
    if (anchor != 0) fail(mark, "an anchor: write each value out");
    if (!tag.empty() && tag != "?" && tag != "!") fail(mark, "the tag '" + tag.substr(0, 80) + "' is not known");
    if (value.find('\0') != std::string::npos) fail(mark, "a text that holds a NUL");
    if (++values_ > kMaxValues && !error_) error_ = Error(ErrorKind::kMemory, "more than 20,000 values");
    if (error_) return nullptr;
    Item* to = &root_;
    if (!open_.empty()) {
      Open& o = open_.back();
      if (o.node->kind == Item::Kind::kList) {
        to = &o.node->items.emplace_back();
      } else if (!o.has_key) {
        if (kind != Item::Kind::kPlain && kind != Item::Kind::kQuoted) fail(mark, "a key that is not a word");
        for (const std::string& key : o.node->keys)
          if (key == value) fail(mark, "the key '" + key + "' stands twice");
        o.key = std::move(value);
        o.has_key = true;
        return nullptr;
      } else {
        o.has_key = false;
        o.node->keys.push_back(std::move(o.key));
        to = &o.node->items.emplace_back();
      }
    }
    to->kind = kind;
    to->line = mark.line + 1;
    to->value = std::move(value);
    return to;
  }
  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Item::Kind kind) {
    if (open_.size() >= kMaxDepth) fail(mark, "values more than 16 deep");
    Item* node = add(mark, tag, anchor, kind, "");
    if (node) open_.push_back({node, false, {}});
    if (!node) fail(mark, "a key that is not a word");
  }
  void close() {
    if (!open_.empty() && !error_) open_.pop_back();
  }

  Item root_;
  std::vector<Open> open_;  // open containers; only the innermost receives items
  size_t values_ = 0;
  std::optional<Error> error_;
};

// A stream buffer that reads a text without copying it.
class TextBuffer final : public std::streambuf {
 public:
  explicit TextBuffer(std::string_view text) {
    char* begin = const_cast<char*>(text.data());
    setg(begin, begin, begin + text.size());
  }
};

TextField scalar(const std::string& name, const Item& node) {
  TextField f;
  f.name = name;
  f.line = node.line;
  f.kind = node.kind == Item::Kind::kQuoted ? TextField::Kind::kString : TextField::Kind::kEither;
  f.value = node.value;
  return f;
}

Status add_members(const Item& map, TextMessage* out);

// One field of a message, or one for each element of a list.
Status add_field(const std::string& name, const Item& node, bool listed, TextMessage* out) {
  switch (node.kind) {
    case Item::Kind::kPlain:
    case Item::Kind::kQuoted: out->fields.push_back(scalar(name, node)); return Ok{};
    case Item::Kind::kList:
      if (listed) return invalid("line %d: '%s' is a list of lists", node.line, name.c_str());
      for (const Item& item : node.items) PERI_TRY(add_field(name, item, true, out));
      return Ok{};
    default: break;
  }
  TextField f;
  f.name = name;
  f.line = node.line;
  f.kind = TextField::Kind::kMessage;
  PERI_TRY(add_members(node, &f.message));
  out->fields.push_back(std::move(f));
  return Ok{};
}

// `name: {k: v}` as `name { key: k value: v }`.
Status add_map(const std::string& name, const Item& map, TextMessage* out) {
  for (size_t k = 0; k < map.keys.size(); ++k) {
    const Item& value = map.items[k];
    TextField f;
    f.name = name;
    f.line = value.line;
    f.kind = TextField::Kind::kMessage;
    Item word = value;
    word.kind = Item::Kind::kPlain;
    word.value = map.keys[k];
    f.message.fields.push_back(scalar("key", word));
    const bool text = value.kind == Item::Kind::kPlain || value.kind == Item::Kind::kQuoted;
    if (name == "parameters" && text) {
      TextField inner;
      inner.name = "value";
      inner.line = value.line;
      inner.kind = TextField::Kind::kMessage;
      inner.message.fields.push_back(scalar("string_value", value));
      f.message.fields.push_back(std::move(inner));
    } else {
      PERI_TRY(add_field("value", value, false, &f.message));
    }
    out->fields.push_back(std::move(f));
  }
  return Ok{};
}

Status add_members(const Item& map, TextMessage* out) {
  static constexpr std::string_view kMaps[] = {"parameters", "inputs", "priority_queue_policy", "input_map",
                                               "output_map"};
  for (size_t k = 0; k < map.keys.size(); ++k) {
    const std::string& name = map.keys[k];
    const Item& node = map.items[k];
    const bool keyed =
        node.kind == Item::Kind::kMap && std::find(std::begin(kMaps), std::end(kMaps), name) != std::end(kMaps);
    PERI_TRY(keyed ? add_map(name, node, out) : add_field(name, node, false, out));
  }
  return Ok{};
}

bool is_json(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  return begin != std::string_view::npos && text[begin] == '{';
}

// JSON quotes enumerators, and protobuf's JSON quotes 64-bit integers.
void unquote(Item* node) {
  if (node->kind == Item::Kind::kQuoted) node->kind = Item::Kind::kPlain;
  for (Item& item : node->items) unquote(&item);
}
}  // namespace

Result<TextMessage> parse_yaml(std::string_view text) {
  if (text.size() > kMaxBytes) return Error(ErrorKind::kMemory, "more than 1 MiB of text");
  if (const size_t at = text.find('\0'); at != text.npos)
    return invalid("line %zd: a NUL",
                   1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
  Builder builder;
  try {
    TextBuffer buffer(text);
    std::istream stream(&buffer);
    YAML::Parser parser(stream);
    if (parser.HandleNextDocument(builder)) {
      Builder second;
      if (parser.HandleNextDocument(second)) return invalid("more than one YAML document in the file");
    }
  } catch (const YAML::Exception& e) {
    return invalid("line %d: %s", e.mark.line + 1, e.msg.c_str());
  }
  PERI_ASSIGN(Item root, builder.take());
  TextMessage out;
  if (root.kind == Item::Kind::kNull) return out;
  if (is_json(text)) unquote(&root);
  if (root.kind != Item::Kind::kMap) return invalid("line %d: the configuration is not a mapping", root.line);
  PERI_TRY(add_members(root, &out));
  return out;
}

}  // namespace peri::serve
