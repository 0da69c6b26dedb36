// The embeddings of the family; the encoder does the rest.
#include "hf/bert_family.hpp"

#include <algorithm>

#include "hf/encoder.hpp"

namespace peri::hf {
namespace {

constexpr SizeKeys kKeys = {"hidden_size",       "num_hidden_layers", "num_attention_heads",
                            "intermediate_size", "hidden_act",        "layer_norm_eps"};
constexpr LayerNames kNames = {"encoder.layer.#.attention.self.query",
                               "encoder.layer.#.attention.self.key",
                               "encoder.layer.#.attention.self.value",
                               "encoder.layer.#.attention.output.dense",
                               "encoder.layer.#.attention.output.LayerNorm",
                               "encoder.layer.#.intermediate.dense",
                               "encoder.layer.#.output.dense",
                               "encoder.layer.#.output.LayerNorm"};
constexpr int64_t kMaxRows = 1 << 24;  // of an embedding table

struct Tables {
  int64_t words = 0, positions = 0, types = 0, pad = 0;
};

// A padding row has no meaning of its own in a table that is only read; where positions are counted from it, it is one
// of their rows too, and the first token has the row behind it.
Result<int64_t> read_pad(const BertVariant& variant, const Json& config, const Tables& t) {
  const Json* given = config.find("pad_token_id");
  if (given && given->is_null() && !variant.positions_after_pad) return 0;
  PERI_ASSIGN(const int64_t pad, config.get_int("pad_token_id", variant.pad));
  const bool counted = variant.positions_after_pad && t.positions - 1 < t.words;
  const int64_t rows = counted ? t.positions - 1 : t.words;
  if (pad >= 0 && pad < rows) return pad;
  if (counted && pad >= rows)
    return invalid("no position is left for a token: positions start behind the padding token's")
        .at_node("pad_token_id")
        .expecting(format("less than max_position_embeddings - 1, %lld", static_cast<long long>(rows)))
        .but_found(std::to_string(pad));
  return invalid("padding token out of range")
      .at_node("pad_token_id")
      .expecting(format("0 to %lld", static_cast<long long>(rows - 1)))
      .but_found(std::to_string(pad));
}

Result<Tables> read_tables(const BertVariant& variant, const Folder& folder) {
  const Json& config = *folder.config;
  const auto read = [&]() -> Result<Tables> {
    Tables t;
    PERI_ASSIGN(t.words, config_size(config, "vocab_size", kMaxRows));
    PERI_ASSIGN(t.positions, config_size(config, "max_position_embeddings", kMaxRows));
    PERI_ASSIGN(t.types, config_size(config, "type_vocab_size", kMaxRows, 2));
    PERI_ASSIGN(t.pad, read_pad(variant, config, t));
    PERI_ASSIGN(const std::string_view kind, config.get_string("position_embedding_type", "absolute"));
    if (kind != "absolute")
      return unsupported("position embedding \"%s\" is not supported", std::string(kind.substr(0, 60)).c_str())
          .at_node("position_embedding_type")
          .expecting("absolute")
          .advise("export the model to ONNX and give that file");
    PERI_ASSIGN(const bool decoder, config.get_bool("is_decoder", false));
    if (decoder)
      return unsupported("BERT as a decoder is not supported")
          .at_node("is_decoder")
          .advise("export the model to ONNX and give that file");
    return t;
  };
  Result<Tables> tables = read();
  if (!tables.ok()) return std::move(tables).error().in_file(folder.path + "/config.json");
  return tables;
}

// Positions counted over tokens that are not padding, from pad + 1; padding stays at pad. Source: transformers,
// RobertaEmbeddings.create_position_ids_from_input_ids. The rows that a text of this length may use are taken first:
// they show, whatever the ids are, that there is one for each token.
Net::Value positions_after_pad(Net& net, Net::Value ids, Net::Value table, const Tables& t) {
  net.scope("embeddings.position_ids");
  const Net::Value none = net.ints({});
  const auto number = [&](int64_t v) { return net.op("reshape", {net.ints({v}), none}); };
  const auto rows = [&](int64_t begin, int64_t end) {
    return net.op("slice", {table, net.ints({begin}), net.ints({end}), net.ints({0})});
  };
  const Net::Value of_pad = rows(t.pad, t.pad + 1), of_text = positions(net, ids, rows(t.pad + 1, t.positions));
  const Net::Value all = net.op("concat", {of_pad, of_text}, {{"axis", int64_t{0}}});
  const Net::Value padding = net.op("equal", {ids, number(t.pad)});
  const Net::Value counts = net.op("cast", {net.op("not", {padding})}, {{"to", static_cast<int64_t>(DType::kI64)}});
  const Net::Value order = net.op("mul", {net.op("cum_sum", {counts, number(1)}), counts});
  return net.op("gather", {all, order}, {{"axis", int64_t{0}}});
}

bool has_head(const Weights& weights) {
  for (const char* name :
       {"classifier.weight", "classifier.out_proj.weight", "cls.predictions.bias", "lm_head.bias", "qa_outputs.weight"})
    if (weights.find(name)) return true;
  return false;
}

}  // namespace

Result<ir::Graph> build_bert(const BertVariant& variant, const Folder& folder, const Weights& weights,
                             std::vector<std::string>* notes) {
  PERI_ASSIGN(const EncoderSizes sizes, read_sizes(folder, kKeys));
  PERI_ASSIGN(const Tables tables, read_tables(variant, folder));
  Net net(variant.name, weights, "embeddings.word_embeddings.weight", {"", variant.prefix});
  const Shape shape = {Dim::symbol("batch"), Dim::symbol("sequence")};
  const Net::Value ids = net.input("input_ids", DType::kI64, shape);
  const Net::Value attention_mask = net.input("attention_mask", DType::kI64, shape);
  const Net::Value types = variant.type_input ? net.input("token_type_ids", DType::kI64, shape) : net.ints({0});
  const Net::Value mask = token_mask(net, attention_mask);

  net.scope("embeddings");
  const int64_t hidden = sizes.hidden;
  const ir::Attrs rows = {{"axis", int64_t{0}}};
  const Net::Value word =
      net.op("gather", {net.weight("embeddings.word_embeddings.weight", {tables.words, hidden}), ids}, rows);
  const Net::Value type =
      net.op("gather", {net.weight("embeddings.token_type_embeddings.weight", {tables.types, hidden}), types}, rows);
  const Net::Value table = net.weight("embeddings.position_embeddings.weight", {tables.positions, hidden});
  const Net::Value position =
      variant.positions_after_pad ? positions_after_pad(net, ids, table, tables) : positions(net, ids, table);
  net.scope("embeddings");
  Net::Value x = net.op("add", {net.op("add", {word, type}), position});
  x = net.layer_norm(x, "embeddings.LayerNorm", hidden, sizes.epsilon);
  x = encode(net, sizes, kNames, x, mask);

  PERI_TRY(finish_outputs(net, folder, hidden, x, mask));
  if (folder.pooling == Pooling::kNone && net.has_weight("pooler.dense.weight")) {
    net.scope("pooler");
    const Net::Value first =
        net.op("squeeze", {net.op("gather", {x, net.ints({0})}, {{"axis", int64_t{1}}}), net.ints({1})});
    net.output(net.op("tanh", {net.linear(first, "pooler.dense", hidden, hidden)}), "pooler_output");
  }
  if (has_head(weights))
    notes->push_back("the model's task head is left out: the outputs are token and sentence vectors");
  note_more_layers(net, sizes, kNames, notes);
  return std::move(net).finish();
}

}  // namespace peri::hf
