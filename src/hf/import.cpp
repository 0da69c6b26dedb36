// Folder → graph: description, weights, architecture, inference; then the tokenizer, checked against the vocabulary.
#include "hf/import.hpp"

#include <algorithm>
#include <filesystem>

#include "base/path.hpp"
#include "base/utf8.hpp"
#include "hf/entry.hpp"
#include "ops/entry.hpp"
#include "text/pipeline.hpp"

namespace peri::hf {

namespace {

Error unknown_type(const Folder& folder) {
  std::string known;
  for (const Entry* e : entries()) known += (known.empty() ? "" : ", ") + std::string(e->model_type);
  return unsupported("model_type \"%s\" is not supported", folder.model_type.substr(0, 60).c_str())
      .in_file(folder.path + "/config.json")
      .at_node("model_type")
      .expecting("one of " + known)
      .advise("export the model to ONNX and give that file");
}

// The longest text: what sentence_bert_config.json says, else tokenizer_config.json, within the rows of the position
// table that a text uses.
int64_t longest_text(const Folder& folder, const Entry& arch) {
  Result<int64_t> table = config_size(*folder.config, "max_position_embeddings", 1 << 24);
  int64_t most = table.ok() ? *table : 512;
  if (arch.positions_behind) {
    const Result<int64_t> pad = folder.config->get_int("pad_token_id", *arch.positions_behind);
    most = std::max<int64_t>(most - (pad.ok() ? *pad : *arch.positions_behind) - 1, 1);
  }
  return std::min(folder.max_sequence.value_or(folder.model_max.value_or(most)), most);
}

// The prompts are the model's, the default one before each text, unless the pooling leaves their tokens out.
void note_prompts(ImportedFolder& out, text::PipelineSpec& spec) {
  const std::string& prompt = out.folder.prompt;
  if (out.folder.pools_prompt) spec.prompts = out.folder.prompts;
  if (prompt.empty()) return;
  const std::string shown =
      "\"" + printable(prompt.substr(0, 200)) + "\", the default prompt of config_sentence_transformers.json,";
  if (out.folder.pools_prompt) {
    spec.prompt = prompt;
    out.notes.push_back(
        shown + " is put before each text; without it: peri run --prompt \"\", or default_prompt_name null there");
  } else {
    out.notes.push_back(shown +
                        " is not put before texts: the pooling leaves out its tokens (\"include_prompt\": false), "
                        "which is not supported");
  }
}

// What the folder says otherwise than its tokenizer.json, with a note.
text::TokenizerRules other_rules(ImportedFolder& out, const text::Tokenizer& tokenizer) {
  using Rules = text::TokenizerRules;
  const struct {
    std::optional<bool> Rules::* of;
    const char *key, *yes, *no;
  } all[] = {{&Rules::truncates_left, "truncation_side", "left", "right"},
             {&Rules::lowercase, "do_lower_case", "true", "false"},
             {&Rules::strip_accents, "strip_accents", "true", "false"},
             {&Rules::splits_han, "tokenize_chinese_chars", "true", "false"}};
  const Rules own = tokenizer.rules(), &wanted = out.folder.rules;
  Rules other;
  std::string told;
  for (const auto& [of, key, yes, no] : all) {
    if (!(own.*of) || !(wanted.*of) || own.*of == wanted.*of) continue;
    other.*of = wanted.*of;
    told += (told.empty() ? "" : ", ") + std::string(key) + " " + (*(wanted.*of) ? yes : no);
  }
  if (!told.empty())
    out.notes.push_back("tokenizer_config.json, with the defaults of its class, wins over tokenizer.json: " + told);
  return other;
}

Status add_tokenizer(ImportedFolder& out, const Entry& arch) {
  const std::string file = out.folder.path + "/tokenizer.json";
  Result<text::Tokenizer> tokenizer = text::Tokenizer::from_json(out.folder.tokenizer);
  if (!tokenizer.ok() && tokenizer.error().kind == ErrorKind::kUnsupported) {
    Error why = std::move(tokenizer).error().in_file(file);
    out.notes.push_back(why.text());
    why.remedy.clear();  // who asks for texts later is told ways out
    out.no_tokenizer = why.text();
    return Ok{};
  }
  if (!tokenizer.ok()) return std::move(tokenizer).error().in_file(file);
  PERI_ASSIGN(const int64_t rows, config_size(*out.folder.config, "vocab_size", 1 << 24));
  if (int64_t{tokenizer->max_id()} >= rows)
    return invalid("tokenizer gives ids that the model has no embedding for")
        .in_file(file)
        .expecting(format("ids below %lld", static_cast<long long>(rows)))
        .but_found(std::to_string(tokenizer->max_id()));
  text::PipelineSpec spec;
  spec.max_length = longest_text(out.folder, arch);
  for (const ir::Value* v : out.graph.inputs) spec.has_type_ids |= v->name == "token_type_ids";
  spec.output = out.graph.output_names[0];
  spec.lowercase = out.folder.lowercase;
  spec.rules = other_rules(out, *tokenizer);
  if (spec.rules != text::TokenizerRules{}) {
    PERI_ASSIGN(*tokenizer, text::Tokenizer::from_json(out.folder.tokenizer, spec.rules));
  }
  note_prompts(out, spec);
  out.pipeline = spec.to_json();
  out.tokenizer = std::move(*tokenizer);
  return Ok{};
}

// The first module of an older sentence model, given in the place of the model. What is beside it is not opened.
void note_part(ImportedFolder& out) {
  constexpr const char* kModules = "modules.json";
  const std::string above = std::filesystem::path(out.folder.path).parent_path().string();
  const std::string parent = above.empty() ? "." : above;
  if (!stands_in(parent, kModules) || stands_in(out.folder.path, kModules)) return;
  out.notes.push_back(
      "modules.json stands beside the folder: as a part of that model it has neither its pooling nor "
      "its normalisation; move the folder's files beside modules.json, and say \"path\": \"\" there");
}

}  // namespace

std::optional<Error> unread_vocabulary(const Folder& folder) {
  for (const char* name : {"vocab.txt", "vocab.json", "tokenizer.model", "sentencepiece.bpe.model", "spiece.model"})
    if (folder.tokenizer.empty() && stands_in(folder.path, name))
      return unsupported("the tokenizer is not read from this file")
          .in_file(folder.path + "/" + name)
          .expecting("tokenizer.json beside it")
          .advise("make it: transformers.AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)");
  return std::nullopt;
}

bool is_folder(const std::string& path) {
  std::error_code unreadable;
  return std::filesystem::is_directory(path, unreadable);
}

Result<ImportedFolder> import_folder(const std::string& path) {
  ImportedFolder out;
  PERI_ASSIGN(out.folder, read_folder(path));
  const Entry* arch = find(out.folder.model_type);
  if (!arch) return unknown_type(out.folder);
  PERI_ASSIGN(Weights weights, Weights::open_folder(out.folder.path));
  out.weights = std::make_shared<const Weights>(std::move(weights));
  Result<ir::Graph> graph = arch->build(out.folder, *out.weights, &out.notes);
  if (!graph.ok()) return std::move(graph).error().in_file(out.folder.path);
  out.graph = std::move(*graph);
  PERI_TRY(out.graph.sort());
  PERI_TRY(ops::infer_graph(out.graph));
  PERI_TRY(ir::verify_structure(out.graph));
  if (!out.folder.tokenizer.empty())
    PERI_TRY(add_tokenizer(out, *arch));
  else if (const std::optional<Error> unread = unread_vocabulary(out.folder))
    out.notes.push_back(unread->text());
  note_part(out);
  PERI_TRY(out.check_files());
  return out;
}

}  // namespace peri::hf
