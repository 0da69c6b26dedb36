// The encoder of the BERT family: embeddings, then layers of attention and feed-forward, each normalised after its
// residual. Models of the family differ in the names of their weights and in what they add to the word embedding.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "hf/net.hpp"

namespace peri::hf {

struct EncoderSizes {
  int64_t hidden = 0, layers = 0, heads = 0, intermediate = 0;
  double epsilon = 1e-12;  // of all normalisations
  std::string activation;  // its name in config.json
};

// Reads and checks sizes under the given keys: 1..limits, hidden a multiple of heads. Errors name config.json and the
// key.
struct SizeKeys {
  const char *hidden, *layers, *heads, *intermediate, *activation, *epsilon;  // epsilon null: 1e-12
};
Result<EncoderSizes> read_sizes(const Folder& folder, const SizeKeys& keys);

// Names of a layer's weights; "#" stands for the layer's number.
struct LayerNames {
  const char *query, *key, *value, *attention_out, *attention_norm, *up, *down, *norm;
};

// f32[batch,sequence]: 1 where a token counts.
Net::Value token_mask(Net& net, Net::Value attention_mask);

// Rows 0..sequence-1 of a learned position table [positions,hidden]: f32[sequence,hidden].
Net::Value positions(Net& net, Net::Value input_ids, Net::Value table);

// x f32[batch,sequence,hidden] through all layers.
Net::Value encode(Net& net, const EncoderSizes& sizes, const LayerNames& names, Net::Value x, Net::Value mask);

// A note where the weights have more layers than config.json says: these are left out.
void note_more_layers(const Net& net, const EncoderSizes& sizes, const LayerNames& names,
                      std::vector<std::string>* notes);

// Sets the outputs "embedding" (if the folder specifies a pooling) and "last_hidden_state".
Status finish_outputs(Net& net, const Folder& folder, int64_t hidden, Net::Value tokens, Net::Value mask);

}  // namespace peri::hf
