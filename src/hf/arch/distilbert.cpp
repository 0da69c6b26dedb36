// DistilBERT: BERT without type embeddings, its weights under names of their own.
#include "hf/encoder.hpp"
#include "hf/entry.hpp"

namespace peri::hf {
namespace {

constexpr SizeKeys kKeys = {"dim", "n_layers", "n_heads", "hidden_dim", "activation", nullptr};
constexpr LayerNames kNames = {"transformer.layer.#.attention.q_lin", "transformer.layer.#.attention.k_lin",
                               "transformer.layer.#.attention.v_lin", "transformer.layer.#.attention.out_lin",
                               "transformer.layer.#.sa_layer_norm",   "transformer.layer.#.ffn.lin1",
                               "transformer.layer.#.ffn.lin2",        "transformer.layer.#.output_layer_norm"};
constexpr int64_t kMaxRows = 1 << 24;  // of an embedding table

Result<ir::Graph> build(const Folder& folder, const Weights& weights, std::vector<std::string>* notes) {
  PERI_ASSIGN(const EncoderSizes sizes, read_sizes(folder, kKeys));
  const std::string config = folder.path + "/config.json";
  Result<int64_t> words = config_size(*folder.config, "vocab_size", kMaxRows);
  if (!words.ok()) return std::move(words).error().in_file(config);
  Result<int64_t> longest = config_size(*folder.config, "max_position_embeddings", kMaxRows);
  if (!longest.ok()) return std::move(longest).error().in_file(config);

  Net net("distilbert", weights, "embeddings.word_embeddings.weight", {"", "distilbert."});
  const Shape shape = {Dim::symbol("batch"), Dim::symbol("sequence")};
  const Net::Value ids = net.input("input_ids", DType::kI64, shape);
  const Net::Value mask = token_mask(net, net.input("attention_mask", DType::kI64, shape));
  net.scope("embeddings");
  const int64_t hidden = sizes.hidden;
  const Net::Value table = net.weight("embeddings.word_embeddings.weight", {*words, hidden});
  const Net::Value word = net.op("gather", {table, ids}, {{"axis", int64_t{0}}});
  const Net::Value position =
      positions(net, ids, net.weight("embeddings.position_embeddings.weight", {*longest, hidden}));
  Net::Value x = net.layer_norm(net.op("add", {word, position}), "embeddings.LayerNorm", hidden, sizes.epsilon);
  x = encode(net, sizes, kNames, x, mask);
  PERI_TRY(finish_outputs(net, folder, hidden, x, mask));
  if (weights.find("classifier.weight") || weights.find("vocab_projector.bias") || weights.find("qa_outputs.weight"))
    notes->push_back("the model's task head is left out: the outputs are token and sentence vectors");
  note_more_layers(net, sizes, kNames, notes);
  return std::move(net).finish();
}

}  // namespace

extern const Entry distilbert_entry;
const Entry distilbert_entry{.model_type = "distilbert", .build = build};

}  // namespace peri::hf
