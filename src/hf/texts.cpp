// The tokenizer is checked against the vocabulary; an output that pools token vectors is added behind the model's own.
#include "hf/texts.hpp"

#include <algorithm>

#include "base/path.hpp"
#include "base/utf8.hpp"
#include "hf/encoder.hpp"
#include "hf/entry.hpp"
#include "ops/entry.hpp"
#include "text/pipeline.hpp"

namespace peri::hf {

namespace {
constexpr std::string_view kInputs[] = {"input_ids", "attention_mask", "token_type_ids"};
constexpr const char* kEmbedding = "embedding";

// The longest text: what sentence_bert_config.json says, else tokenizer_config.json, within the rows of the position
// table that a text uses.
int64_t longest_text(const Folder& folder, const Entry* arch) {
  constexpr std::string_view kBehind[] = {"camembert", "data2vec-text",        "ibert",          "longformer",
                                          "mpnet",     "roberta-prelayernorm", "xlm-roberta-xl", "xmod"};
  Result<int64_t> table = config_size(*folder.config, "max_position_embeddings", 1 << 24);
  if (!table.ok()) table = config_size(*folder.config, "n_positions", 1 << 24);
  const std::optional<int64_t> said = folder.max_sequence ? folder.max_sequence : folder.model_max;
  if (!table.ok()) return said.value_or(512);
  int64_t most = *table;
  // Of model types that only an ONNX file has, in transformers: positions begin behind the padding, whose id is 1.
  std::optional<int64_t> behind;
  if (arch) behind = arch->positions_behind;
  if (!arch && std::find(std::begin(kBehind), std::end(kBehind), folder.model_type) != std::end(kBehind)) behind = 1;
  if (behind) {
    const Result<int64_t> pad = folder.config->get_int("pad_token_id", *behind);
    most = std::max<int64_t>(most - (pad.ok() ? *pad : *behind) - 1, 1);
  }
  return std::min(said.value_or(most), most);
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
  bool of_4 = false;
  for (const auto& [of, key, yes, no] : all) {
    if (!(own.*of) || !(wanted.*of) || own.*of == wanted.*of) continue;
    other.*of = wanted.*of;
    of_4 = out.folder.rules_of_4 && of != &Rules::truncates_left;
    told += (told.empty() ? "" : ", ") + std::string(key) + " " + (*(wanted.*of) ? yes : no);
  }
  constexpr const char* kFile = "tokenizer_config.json";
  const std::string winner = stands_in(out.folder.path, kFile)
                                 ? std::string(kFile) + ", with the defaults of its class, wins over tokenizer.json: "
                                 : std::string("there is no ") + kFile +
                                       ", and the defaults of the model's class of tokenizer win over tokenizer.json: ";
  if (!told.empty()) out.notes.push_back(winner + told + (of_4 ? "; so it does in transformers 4, and not in 5" : ""));
  return other;
}

const ir::Value* input_named(const ir::Graph& graph, std::string_view name) {
  const auto it =
      std::find_if(graph.inputs.begin(), graph.inputs.end(), [&](const ir::Value* v) { return v->name == name; });
  return it == graph.inputs.end() ? nullptr : *it;
}

// The output that is a vector for each text, under the names that exporters give it.
std::optional<std::string> text_vectors(const ir::Graph& graph) {
  for (const std::string_view name : {std::string_view(kEmbedding), std::string_view("sentence_embedding")})
    for (size_t k = 0; k < graph.outputs.size(); ++k)
      if (graph.output_names[k] == name && graph.outputs[k]->type.rank() == 2) return std::string(name);
  return std::nullopt;
}

// The output that is a vector for each token.
ir::Value* token_vectors(const ir::Graph& graph) {
  for (const std::string_view name : {"last_hidden_state", "token_embeddings"})
    for (size_t k = 0; k < graph.outputs.size(); ++k)
      if (const ir::Type& t = graph.outputs[k]->type;
          graph.output_names[k] == name && t.known() && t.rank() == 3 && is_float(t.dtype))
        return graph.outputs[k];
  return nullptr;
}

// Adds the output kEmbedding. Why it does not: in the result.
Result<std::optional<std::string>> add_pooling(ImportedFolder& out) {
  using Why = std::optional<std::string>;
  ir::Value* const tokens = token_vectors(out.graph);
  const ir::Value* const mask = input_named(out.graph, "attention_mask");
  if (!tokens) return Why("it has no output last_hidden_state or token_embeddings of token vectors");
  if (!mask) return Why("it has no input attention_mask");
  const Dim width = (*tokens->type.shape)[2];
  if (out.folder.pooling_width != 0 && width.is_const() && !width.is_const(out.folder.pooling_width))
    return Why(format("its token vectors are %s wide, and the pooling is for %lld", width.text().c_str(),
                      static_cast<long long>(out.folder.pooling_width)));
  Net net(std::move(out.graph));
  const Net::Value counted = token_mask(net, const_cast<ir::Value*>(mask));
  net.scope("token_vectors");
  const Net::Value wide = tokens->type.dtype == DType::kF32
                              ? tokens
                              : net.op("cast", {tokens}, {{"to", static_cast<int64_t>(DType::kF32)}});
  net.output(pool(net, out.folder, wide, counted), kEmbedding);
  PERI_ASSIGN(out.graph, std::move(net).finish());
  PERI_TRY(out.graph.sort());
  PERI_TRY(ops::infer_graph(out.graph));
  PERI_TRY(ir::verify_structure(out.graph));
  return Why();
}

// Why the graph's inputs are not those of texts.
std::optional<std::string> unfit_inputs(const ir::Graph& graph) {
  for (const ir::Value* v : graph.inputs)
    if (auto why = unfit_for_texts(v->name, v->type)) return why;
  return input_named(graph, kInputs[0]) ? std::nullopt : std::optional<std::string>("it has no input input_ids");
}
}  // namespace

std::optional<std::string> unfit_for_texts(std::string_view name, const ir::Type& type) {
  const std::string input = "its input '" + printable(name.substr(0, 60)) + "'";
  if (std::find(std::begin(kInputs), std::end(kInputs), name) == std::end(kInputs))
    return input + " is none of input_ids, attention_mask and token_type_ids";
  if (type.dtype != DType::kI64 || !type.known() || type.rank() != 2 || (*type.shape)[1].is_const())
    return input + " is " + ir::type_text(type) + ", and texts make i64[batch,sequence] of any length";
  return std::nullopt;
}

Status add_tokenizer(ImportedFolder& out, std::string_view output) {
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
  if (out.folder.onnx.empty() || out.folder.config->find("vocab_size")) {
    PERI_ASSIGN(const int64_t rows, config_size(*out.folder.config, "vocab_size", 1 << 24));
    if (int64_t{tokenizer->max_id()} >= rows)
      return invalid("tokenizer gives ids that the model has no embedding for")
          .in_file(file)
          .expecting(format("ids below %lld", static_cast<long long>(rows)))
          .but_found(std::to_string(tokenizer->max_id()))
          .advise("take tokenizer.json and config.json of one model");
  }
  text::PipelineSpec spec;
  spec.max_length = longest_text(out.folder, find(out.folder.model_type));
  spec.has_type_ids = input_named(out.graph, kInputs[2]) != nullptr;
  spec.output = output;
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

Status add_texts(ImportedFolder& out) {
  const std::string file = out.folder.onnx + ": ";
  note_part(out);
  if (out.folder.tokenizer.empty()) {
    note_vocabulary(out);
    return Ok{};
  }
  if (const auto why = unfit_inputs(out.graph)) {
    out.no_tokenizer = file + "it takes no texts, as " + *why;
    out.notes.push_back(out.no_tokenizer + "; give its inputs as tensors");
    return Ok{};
  }
  std::optional<std::string> answer = text_vectors(out.graph);
  if (!answer && out.folder.pooling != Pooling::kNone) {
    PERI_ASSIGN(const std::optional<std::string> why, add_pooling(out));
    if (why) out.notes.push_back(file + "the folder's pooling is left out, as " + *why);
    if (!why) answer = kEmbedding;
  }
  return add_tokenizer(out, answer.value_or(kEmbedding));
}

}  // namespace peri::hf
