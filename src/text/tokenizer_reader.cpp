// tokenizer.json → Tokenizer. Unsupported features are refused by name; contradictions are refused with their field.
#include <algorithm>

#include "base/json.hpp"
#include "text/tokenizer.hpp"
#include "text/tokenizer_state.hpp"

namespace peri::text {

uint64_t added_by(const std::vector<TemplatePiece>& pieces) {
  uint64_t n = 0;
  for (const TemplatePiece& p : pieces) n += p.ids.size();
  return n;
}

class TokenizerReader {
 public:
  static Result<Tokenizer> read(std::string_view json, const TokenizerRules& rules) {
    JsonLimits limits;
    limits.max_bytes = size_t{64} << 20;
    Result<Json> parsed = parse_json(json, limits);
    if (!parsed.ok() && parsed.error().kind == ErrorKind::kMemory) return too_large(json, std::move(parsed).error());
    PERI_ASSIGN(const Json root, std::move(parsed));
    if (!root.is_object()) return invalid("no tokenizer").expecting("an object").but_found(root.kind_name());
    TokenizerReader reader(rules);
    PERI_TRY(reader.model(root));
    PERI_TRY(reader.normalizer(root));
    PERI_TRY(reader.pre_tokenizer(root));
    PERI_TRY(reader.added_tokens(root));
    PERI_TRY(reader.post_processor(root));
    PERI_TRY(reader.truncation(root));
    PERI_TRY(reader.padding(root));
    return Tokenizer(std::move(reader.state_));
  }

 private:
  explicit TokenizerReader(const TokenizerRules& rules) : rules_(rules) {}

  static constexpr uint64_t kMaxWordChars = 1000;  // bounds the time for one word
  static constexpr int64_t kMaxPadding = 1 << 20;  // bounds the memory for one text
  static constexpr size_t kMaxPieces = 1000;

  // The member `key` if it is there and not null.
  static const Json* section(const Json& root, std::string_view key) {
    const Json* v = root.find(key);
    return v && !v->is_null() ? v : nullptr;
  }

  // Finds "model": {"type": ...} without keeping the rest.
  class ModelType : public JsonEvents {
   public:
    std::string type;
    Status on_scalar(Json value) override {
      if (depth_ == 2 && in_model_ && key_ == "type" && value.is_string()) type = value.as_string().value();
      return Ok{};
    }
    Status on_key(std::string key) override {
      if (depth_ == 1) in_model_ = key == "model";
      if (depth_ <= 2) key_ = std::move(key);
      return Ok{};
    }
    Status on_begin(bool) override {
      ++depth_;
      return Ok{};
    }
    Status on_end(bool) override {
      --depth_;
      return Ok{};
    }

   private:
    int depth_ = 0;
    bool in_model_ = false;
    std::string key_;
  };

  // A file with more values than we keep is most likely of a kind that we lack: say so rather than complain of its
  // size.
  static Error too_large(std::string_view json, Error error) {
    ModelType found;
    JsonLimits limits;
    limits.max_nodes = json.size();
    const bool read = parse_json_events(json, limits, found).ok();
    return read && !found.type.empty() && found.type != "WordPiece" ? lacking("model", found.type) : std::move(error);
  }

  static Error lacking(std::string_view what, std::string_view type) {
    return unsupported("%s \"%s\" is not supported", std::string(what).c_str(), std::string(type.substr(0, 60)).c_str())
        .at_node(what)
        .advise("take a model of the BERT family (WordPiece), or give token ids as inputs instead of text");
  }

  static Result<uint32_t> id_of(const Json& v, std::string_view what) {
    Result<int64_t> id = v.as_int();
    if (!id.ok()) return std::move(id).error().at_node(what);
    if (*id < 0 || *id > INT32_MAX)
      return invalid("token id out of range").at_node(what).expecting("0 to 2^31-1").but_found(std::to_string(*id));
    return static_cast<uint32_t>(*id);
  }

  // Old files leave the type out: `tokenizers` tells it by the members.
  static bool is_word_piece(const Json& model) {
    return !model.find("merges") && model.find("unk_token") && model.find("continuing_subword_prefix") &&
           model.find("max_input_chars_per_word");
  }

  Status model(const Json& root) {
    PERI_ASSIGN(const Json* const model, root.get("model"));
    PERI_ASSIGN(std::string_view type, model->get_string("type", "of no type"));
    if (!section(*model, "type") && is_word_piece(*model)) type = "WordPiece";
    if (type != "WordPiece") return lacking("model", type);
    PERI_ASSIGN(const Json::Object* const members, model->get_object("vocab"));
    std::vector<std::pair<std::string, uint32_t>> tokens;
    tokens.reserve(members->size());
    for (const Json::Member& m : *members) {
      PERI_ASSIGN(const uint32_t id, id_of(m.value, m.key));
      tokens.emplace_back(m.key, id);
    }
    PERI_ASSIGN(state_->vocab, Vocab::make(std::move(tokens)));
    state_->max_id = state_->vocab.max_id();
    PERI_ASSIGN(const std::string_view unknown, model->get_string("unk_token"));
    const std::optional<uint32_t> unknown_id = state_->vocab.id(unknown);
    if (!unknown_id)
      return invalid("unk_token is not in the vocabulary").at_node("unk_token").but_found(unknown.substr(0, 60));
    state_->unknown_id = *unknown_id;
    PERI_ASSIGN(const std::string_view prefix, model->get_string("continuing_subword_prefix"));
    state_->word_start = state_->vocab.start();
    state_->continuation = state_->vocab.start(prefix);
    PERI_ASSIGN(state_->max_input_chars_per_word, model->get_uint("max_input_chars_per_word"));
    if (state_->max_input_chars_per_word > kMaxWordChars)
      return invalid("value is too large")
          .at_node("max_input_chars_per_word")
          .expecting(format("at most %llu", static_cast<unsigned long long>(kMaxWordChars)));
    return Ok{};
  }

  Status normalizer(const Json& root) {
    const Json* v = section(root, "normalizer");
    if (!v) return Ok{};
    PERI_ASSIGN(const std::string_view type, v->get_string("type"));
    if (type != "BertNormalizer") return lacking("normalizer", type);
    BertNormalizer n;
    PERI_ASSIGN(n.clean_text, v->get_bool("clean_text"));
    PERI_ASSIGN(n.handle_chinese_chars, v->get_bool("handle_chinese_chars"));
    PERI_ASSIGN(n.lowercase, v->get_bool("lowercase"));
    PERI_ASSIGN(n.strip_accents, v->get_bool("strip_accents", n.lowercase));
    n.handle_chinese_chars = rules_.splits_han.value_or(n.handle_chinese_chars);
    n.lowercase = rules_.lowercase.value_or(n.lowercase);
    n.strip_accents = rules_.strip_accents.value_or(n.strip_accents);
    state_->normalizer = n;
    return Ok{};
  }

  Status pre_tokenizer(const Json& root) {
    const Json* v = section(root, "pre_tokenizer");
    if (!v) return Ok{};
    PERI_ASSIGN(const std::string_view type, v->get_string("type"));
    if (type != "BertPreTokenizer") return lacking("pre_tokenizer", type);
    state_->bert_split = true;
    return Ok{};
  }

  // Ids as `tokenizers` gives them: the vocabulary's, else the next free one; a file that says otherwise lies.
  Status added_tokens(const Json& root) {
    const Json* list = section(root, "added_tokens");
    if (!list) return Ok{};
    PERI_TRY(list->as_array());
    std::vector<AddedToken> raw, normalized;
    std::vector<uint32_t> ids;
    uint64_t next = state_->vocab.size();
    for (const Json& entry : list->items()) {
      AddedToken t;
      PERI_ASSIGN(const std::string_view content, entry.get_string("content"));
      PERI_ASSIGN(const Json* const id, entry.get("id"));
      PERI_ASSIGN(t.id, id_of(*id, content));
      PERI_ASSIGN(t.single_word, entry.get_bool("single_word"));
      PERI_ASSIGN(t.lstrip, entry.get_bool("lstrip"));
      PERI_ASSIGN(t.rstrip, entry.get_bool("rstrip"));
      PERI_ASSIGN(const bool wants_normalizing, entry.get_bool("normalized"));
      PERI_TRY(entry.get_bool("special"));
      if (content.empty()) continue;
      const std::optional<uint32_t> known = state_->vocab.id(content);
      const uint64_t expected = known ? *known : next++;
      if (t.id != expected)
        return invalid("id of the added token differs from the vocabulary")
            .at_node(content.substr(0, 100))
            .expecting(std::to_string(expected))
            .but_found(std::to_string(t.id));
      if (!state_->added_ids.emplace(content, t.id).second)
        return invalid("added token stands twice").at_node(content.substr(0, 100));
      ids.push_back(t.id);
      t.content = wants_normalizing ? state_->normalized(content) : std::string(content);
      (wants_normalizing ? normalized : raw).push_back(std::move(t));
    }
    std::sort(ids.begin(), ids.end());
    if (const auto twice = std::adjacent_find(ids.begin(), ids.end()); twice != ids.end())
      return invalid("two added tokens have one id").at_node("added_tokens").but_found(std::to_string(*twice));
    if (!ids.empty()) state_->max_id = std::max(state_->max_id, ids.back());
    PERI_ASSIGN(state_->raw_tokens, AddedTokens::make(std::move(raw)));
    PERI_ASSIGN(state_->normalized_tokens, AddedTokens::make(std::move(normalized)));
    return Ok{};
  }

  using Pieces = std::vector<TemplatePiece>;
  static TemplatePiece first(int64_t type_id) { return {TemplatePiece::kFirst, type_id, {}}; }
  static TemplatePiece second(int64_t type_id) { return {TemplatePiece::kSecond, type_id, {}}; }
  TemplatePiece special(int64_t id, int64_t type_id) {
    state_->max_id = std::max(state_->max_id, static_cast<uint32_t>(id));
    return {TemplatePiece::kSpecial, type_id, {id}};
  }

  Status post_processor(const Json& root) {
    state_->single = {first(0)};
    state_->pair = {first(0), second(1)};
    const Json* v = section(root, "post_processor");
    if (!v) return Ok{};
    PERI_ASSIGN(const std::string_view type, v->get_string("type"));
    if (type == "TemplateProcessing") {
      PERI_TRY(template_of(*v, "single", state_->single));
      return template_of(*v, "pair", state_->pair);
    }
    if (type != "BertProcessing" && type != "RobertaProcessing") return lacking("post_processor", type);
    PERI_ASSIGN(const int64_t cls, special_pair(*v, "cls"));
    PERI_ASSIGN(const int64_t sep, special_pair(*v, "sep"));
    state_->single = {special(cls, 0), first(0), special(sep, 0)};
    if (type == "BertProcessing")
      state_->pair = {special(cls, 0), first(0), special(sep, 0), second(1), special(sep, 1)};
    else
      state_->pair = {special(cls, 0), first(0), special(sep, 0), special(sep, 0), second(0), special(sep, 0)};
    return Ok{};
  }

  // ["[CLS]", 101]
  static Result<int64_t> special_pair(const Json& v, std::string_view key) {
    PERI_ASSIGN(const Json::Array* const a, v.get_array(key));
    if (a->size() != 2 || !(*a)[0].is_string()) return invalid("not a pair of token and id").at_node(key);
    PERI_ASSIGN(const uint32_t id, id_of((*a)[1], key));
    return int64_t{id};
  }

  Status template_of(const Json& v, std::string_view key, Pieces& out) {
    PERI_ASSIGN(const Json::Array* const pieces, v.get_array(key));
    PERI_ASSIGN(const Json* const specials, v.get("special_tokens"));
    if (pieces->size() > kMaxPieces) return invalid("template of %zu pieces is too long", pieces->size()).at_node(key);
    out.clear();
    for (const Json& piece : *pieces) {
      const bool one = piece.members().size() == 1;
      const std::string kind = one ? piece.members()[0].key : "";
      if (kind != "Sequence" && kind != "SpecialToken") return invalid("unknown piece of a template").at_node(key);
      const Json& body = piece.members()[0].value;
      PERI_ASSIGN(const std::string_view id, body.get_string("id"));
      PERI_ASSIGN(const Json* const type, body.get("type_id"));
      PERI_ASSIGN(const uint32_t type_id, id_of(*type, "type_id"));
      if (kind == "SpecialToken") {
        PERI_TRY(special_of(*specials, id, type_id, out));
      } else if (id == "A") {
        out.push_back(first(type_id));
      } else if (id == "B" && key == "pair") {
        out.push_back(second(type_id));
      } else {
        return invalid("unknown sequence in a template").at_node(key).but_found(id.substr(0, 60));
      }
    }
    if (added_by(out) > kMaxPieces) return invalid("template adds too many ids").at_node(key);
    return Ok{};
  }

  Status special_of(const Json& specials, std::string_view name, int64_t type_id, Pieces& out) {
    PERI_ASSIGN(const Json* const entry, specials.get(name));
    PERI_ASSIGN(const Json::Array* const ids, entry->get_array("ids"));
    for (const Json& v : *ids) {
      PERI_ASSIGN(const uint32_t id, id_of(v, name));
      if (out.size() > kMaxPieces) return invalid("template adds too many ids").at_node(name);
      out.push_back(special(id, type_id));
    }
    return Ok{};
  }

  static Result<bool> is_left(const Json& v) {
    PERI_ASSIGN(const std::string_view direction, v.get_string("direction", "Right"));
    if (direction == "Left") return true;
    if (direction == "Right") return false;
    return invalid("unknown direction").at_node("direction").but_found(direction.substr(0, 60));
  }

  Status truncation(const Json& root) {
    const Json* v = section(root, "truncation");
    state_->truncates_left = rules_.truncates_left.value_or(false);
    if (!v) return Ok{};
    Truncation t;
    PERI_ASSIGN(const bool left, is_left(*v));
    state_->truncates_left = t.left = rules_.truncates_left.value_or(left);
    PERI_ASSIGN(t.max_length, v->get_uint("max_length"));
    PERI_ASSIGN(const std::string_view strategy, v->get_string("strategy"));
    if (strategy == "LongestFirst")
      t.strategy = Truncation::kLongestFirst;
    else if (strategy == "OnlyFirst")
      t.strategy = Truncation::kOnlyFirst;
    else if (strategy == "OnlySecond")
      t.strategy = Truncation::kOnlySecond;
    else
      return invalid("unknown strategy").at_node("truncation").but_found(strategy.substr(0, 60));
    PERI_ASSIGN(const uint64_t stride, v->get_uint("stride"));
    const uint64_t added = added_by(state_->single);
    if (t.max_length < added || t.max_length - added < stride)
      return invalid("max_length leaves no room for special tokens and stride")
          .at_node("truncation")
          .but_found(std::to_string(t.max_length));
    state_->truncation = t;
    return Ok{};
  }

  Status padding(const Json& root) {
    const Json* v = section(root, "padding");
    if (!v) return Ok{};
    PaddingRule p;
    PERI_ASSIGN(const Json* const strategy, v->get("strategy"));
    if (strategy->is_object()) {
      PERI_ASSIGN(p.fixed, length_of(*strategy, "Fixed"));
    } else if (strategy->as_string().ok() && strategy->as_string().value() != "BatchLongest") {
      return invalid("unknown strategy").at_node("padding").but_found(strategy->as_string().value().substr(0, 60));
    } else {
      PERI_TRY(strategy->as_string());
    }
    PERI_ASSIGN(p.left, is_left(*v));
    if (section(*v, "pad_to_multiple_of")) {
      PERI_ASSIGN(p.multiple, length_of(*v, "pad_to_multiple_of"));
    }
    PERI_ASSIGN(const Json* const id, v->get("pad_id"));
    PERI_ASSIGN(p.id, id_of(*id, "pad_id"));
    PERI_ASSIGN(const Json* const type_id, v->get("pad_type_id"));
    PERI_ASSIGN(p.type_id, id_of(*type_id, "pad_type_id"));
    state_->max_id = std::max(state_->max_id, static_cast<uint32_t>(p.id));
    state_->padding = p;
    return Ok{};
  }

  static Result<int64_t> length_of(const Json& v, std::string_view key) {
    PERI_ASSIGN(const int64_t n, v.get_int(key));
    if (n >= 0 && n <= kMaxPadding) return n;
    return invalid("padding out of range")
        .at_node(key)
        .expecting(format("0 to %lld", static_cast<long long>(kMaxPadding)));
  }

  const TokenizerRules& rules_;
  std::shared_ptr<Tokenizer::State> state_ = std::make_shared<Tokenizer::State>();
};

Result<Tokenizer> Tokenizer::from_json(std::string_view json, const TokenizerRules& rules) {
  return TokenizerReader::read(json, rules);
}

}  // namespace peri::text
