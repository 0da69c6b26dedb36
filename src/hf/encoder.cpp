// Attention Is All You Need (arXiv 1706.03762), section 3, with the norm after the residual, as BERT (arXiv
// 1810.04805).
#include "hf/encoder.hpp"

#include <cmath>

#include "base/plural.hpp"

namespace peri::hf {

namespace {

constexpr int64_t kMaxHidden = 1 << 17;
constexpr int64_t kMaxLayers = 1000;
constexpr float kHidden = -3.4028234663852886e38f;  // added to the scores of tokens that do not count

std::string numbered(const char* pattern, int64_t layer) {
  std::string out(pattern);
  if (const size_t at = out.find('#'); at != out.npos) out.replace(at, 1, std::to_string(layer));
  return out;
}

// [batch,sequence,hidden] → [batch,heads,...] by `perm`.
Net::Value split_heads(Net& net, const EncoderSizes& s, Net::Value x, std::vector<int64_t> perm) {
  const Net::Value apart = net.op("reshape", {x, net.ints({0, 0, s.heads, s.hidden / s.heads})});
  return net.op("transpose", {apart}, {{"perm", std::move(perm)}});
}

Net::Value attention(Net& net, const EncoderSizes& s, const LayerNames& names, int64_t layer, Net::Value x,
                     Net::Value bias) {
  const auto project = [&](const char* name, std::vector<int64_t> perm) {
    return split_heads(net, s, net.linear(x, numbered(name, layer), s.hidden, s.hidden), std::move(perm));
  };
  const Net::Value q = project(names.query, {0, 2, 1, 3});
  const Net::Value k = project(names.key, {0, 2, 3, 1});
  const Net::Value v = project(names.value, {0, 2, 1, 3});
  const int64_t head_width = s.hidden / s.heads;
  const float scale = static_cast<float>(1 / std::sqrt(static_cast<double>(head_width)));
  Net::Value scores = net.op("mul", {net.op("matmul", {q, k}), net.scalar(scale)});
  scores = net.op("softmax", {net.op("add", {scores, bias})}, {{"axis", int64_t{-1}}});
  const Net::Value mixed =
      net.op("transpose", {net.op("matmul", {scores, v})}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  const Net::Value joined = net.op("reshape", {mixed, net.ints({0, 0, s.hidden})});
  return net.linear(joined, numbered(names.attention_out, layer), s.hidden, s.hidden);
}

}  // namespace

Result<EncoderSizes> read_sizes(const Folder& folder, const SizeKeys& keys) {
  const Json& config = *folder.config;
  const auto read = [&]() -> Result<EncoderSizes> {
    EncoderSizes s;
    PERI_ASSIGN(s.hidden, config_size(config, keys.hidden, kMaxHidden));
    PERI_ASSIGN(s.layers, config_size(config, keys.layers, kMaxLayers));
    PERI_ASSIGN(s.heads, config_size(config, keys.heads, kMaxHidden));
    PERI_ASSIGN(s.intermediate, config_size(config, keys.intermediate, kMaxHidden));
    PERI_ASSIGN(const std::string_view activation, config.get_string(keys.activation, "gelu"));
    PERI_TRY(check_activation(activation, keys.activation));
    s.activation = activation;
    if (keys.epsilon) {
      PERI_ASSIGN(s.epsilon, config.get_double(keys.epsilon, 1e-12));
    }
    if (!(s.epsilon >= 0 && s.epsilon < 1))
      return invalid("value out of range").at_node(keys.epsilon).expecting("0 to 1");
    if (s.hidden % s.heads == 0) return s;
    return invalid("hidden size is not a multiple of the number of heads")
        .at_node(keys.heads)
        .but_found(format("%lld and %lld", static_cast<long long>(s.hidden), static_cast<long long>(s.heads)));
  };
  Result<EncoderSizes> sizes = read();
  if (!sizes.ok()) return std::move(sizes).error().in_file(folder.path + "/config.json");
  return sizes;
}

void note_more_layers(const Net& net, const EncoderSizes& s, const LayerNames& names, std::vector<std::string>* notes) {
  if (net.has_weight(numbered(names.query, s.layers) + ".weight"))
    notes->push_back("config.json says " + counted(s.layers, "layer") +
                     ", and the weights have more: they are left out");
}

Net::Value token_mask(Net& net, Net::Value attention_mask) {
  net.scope("attention_mask");
  return net.op("cast", {attention_mask}, {{"to", static_cast<int64_t>(DType::kF32)}});
}

Net::Value positions(Net& net, Net::Value input_ids, Net::Value table) {
  net.scope("embeddings.position_ids");
  const Net::Value length = net.op("shape", {input_ids}, {{"start", int64_t{1}}, {"end", int64_t{2}}});
  const Net::Value none = net.ints({});
  const auto number = [&](int64_t v) { return net.op("reshape", {net.ints({v}), none}); };
  const Net::Value ids = net.op("range", {number(0), net.op("reshape", {length, none}), number(1)});
  return net.op("gather", {table, ids}, {{"axis", int64_t{0}}});
}

Net::Value encode(Net& net, const EncoderSizes& s, const LayerNames& names, Net::Value x, Net::Value mask) {
  net.scope("attention_bias");
  const Net::Value wide = net.op("unsqueeze", {mask, net.ints({1, 2})});
  const Net::Value bias = net.op("mul", {net.op("sub", {net.scalar(1), wide}), net.scalar(kHidden)});
  for (int64_t i = 0; i < s.layers; ++i) {
    const Net::Value mixed = attention(net, s, names, i, x, bias);
    x = net.layer_norm(net.op("add", {mixed, x}), numbered(names.attention_norm, i), s.hidden, s.epsilon);
    const Net::Value up = net.linear(x, numbered(names.up, i), s.intermediate, s.hidden);
    const Net::Value down =
        net.linear(net.activation(up, s.activation), numbered(names.down, i), s.hidden, s.intermediate);
    x = net.layer_norm(net.op("add", {down, x}), numbered(names.norm, i), s.hidden, s.epsilon);
  }
  return x;
}

Status finish_outputs(Net& net, const Folder& folder, int64_t hidden, Net::Value tokens, Net::Value mask) {
  if (folder.pooling != Pooling::kNone) {
    if (folder.pooling_width != 0 && folder.pooling_width != hidden)
      return invalid("width of the pooling differs from the model's")
          .in_file(folder.path + "/modules.json")
          .expecting(std::to_string(hidden))
          .but_found(std::to_string(folder.pooling_width))
          .advise("take the pooling's config.json of this model");
    net.output(pool(net, folder, tokens, mask), "embedding");
  }
  net.output(tokens, "last_hidden_state");
  return Ok{};
}

}  // namespace peri::hf
