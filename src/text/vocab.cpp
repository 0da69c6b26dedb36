// Search by narrowing: among sorted tokens those that share a beginning are neighbours, the shortest first.
#include "text/vocab.hpp"

#include <algorithm>

namespace peri::text {

Result<Vocab> Vocab::make(std::vector<std::pair<std::string, uint32_t>> tokens) {
  if (tokens.size() > UINT32_MAX / 2) return invalid("vocabulary of %zu tokens is too large", tokens.size());
  Vocab out;
  std::sort(tokens.begin(), tokens.end());
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0 && tokens[i].first == tokens[i - 1].first)
      return invalid("token stands twice").at_node(tokens[i].first.substr(0, 100));
    out.max_id_ = std::max(out.max_id_, tokens[i].second);
  }
  out.tokens_ = std::move(tokens);
  size_t at = !out.tokens_.empty() && out.tokens_[0].first.empty() ? 1 : 0;
  for (size_t b = 0; b <= 256; ++b) {
    while (at < out.tokens_.size() && b > static_cast<unsigned char>(out.tokens_[at].first[0])) ++at;
    out.by_first_byte_[b] = static_cast<uint32_t>(b == 256 ? out.tokens_.size() : at);
  }
  return out;
}

std::optional<uint32_t> Vocab::id(std::string_view token) const {
  const auto at = std::lower_bound(tokens_.begin(), tokens_.end(), token, [](const auto& entry, std::string_view t) {
    return std::string_view(entry.first) < t;
  });
  if (at == tokens_.end() || at->first != token) return std::nullopt;
  return at->second;
}

bool Vocab::narrow(Place& place, unsigned char next) const {
  if (place.depth == 0 && place.end - place.first == tokens_.size()) {
    place.first = by_first_byte_[next];
    place.end = by_first_byte_[next + size_t{1}];
  } else {
    const size_t depth = place.depth;
    const auto begin = tokens_.begin() + place.first, end = tokens_.begin() + place.end;
    // The byte at `depth`, as a number; a token that ends there comes first.
    const auto byte = [depth](const auto& entry) {
      return entry.first.size() == depth ? -1 : static_cast<int>(static_cast<unsigned char>(entry.first[depth]));
    };
    const auto low = std::partition_point(begin, end, [&](const auto& e) { return byte(e) < next; });
    const auto high = std::partition_point(low, end, [&](const auto& e) { return byte(e) <= next; });
    place.first = static_cast<uint32_t>(low - tokens_.begin());
    place.end = static_cast<uint32_t>(high - tokens_.begin());
  }
  ++place.depth;
  return place.first < place.end;
}

Vocab::Place Vocab::start(std::string_view prefix) const {
  Place place{0, static_cast<uint32_t>(tokens_.size()), 0};
  for (const char c : prefix)
    if (!narrow(place, static_cast<unsigned char>(c))) return {};
  return place;
}

Vocab::Match Vocab::longest(const Place& from, std::string_view text) const {
  Match best;
  Place place = from;
  if (place.first == place.end) return best;
  for (size_t i = 0; i < text.size() && narrow(place, static_cast<unsigned char>(text[i])); ++i) {
    const auto& [token, id] = tokens_[place.first];
    if (token.size() == place.depth) best = {i + 1, id};
  }
  return best;
}

}  // namespace peri::text
