// Any bytes as config.pbtxt: refused with a line, or a configuration by which two requests are put together.
// links: serve
#include <cstdlib>

#include "serve/queue/form.hpp"

namespace {

using peri::DType;
using peri::Tensor;
using peri::plan::Port;

std::vector<Port> ports_of(std::initializer_list<std::pair<const char*, const char*>> named) {
  std::vector<Port> out;
  for (const auto& [name, shape] : named) {
    Port p;
    p.name = name;
    p.dtype = std::string_view(name) == "ID" ? DType::kU64 : DType::kF32;
    p.shape = *peri::parse_shape(shape);
    out.push_back(std::move(p));
  }
  return out;
}

void put_together(const peri::serve::ModelConfig& config) {
  static const auto in =
      ports_of({{"x", "[total]"}, {"y", "[n,1]"}, {"i", "[m]"}, {"s", "[n,2]"}, {"START", "[n,1]"}, {"ID", "[n,1]"}});
  static const auto out = ports_of({{"o", "[total]"}, {"t", "[n,2]"}});
  const auto form = peri::serve::Form::make(config, in, out, "/nonexistent");
  if (!form.ok() || !*form) return;
  std::vector<std::vector<Tensor>> rows;
  for (int64_t r = 1; r <= 2; ++r) {
    std::vector<Tensor> seen;
    for (const Port& p : (*form)->inputs()) {
      std::vector<int64_t> dims;
      for (size_t k = 0; k < p.shape.size(); ++k)
        dims.push_back(p.shape[k].is_const() ? p.shape[k].value() : k == 0 ? 1 : r);
      auto t = peri::checked_numel(dims);
      if (!t.ok() || *t > 4096) return;
      seen.push_back(*Tensor::zeros(p.dtype, dims));
    }
    const peri::serve::SequenceStep step{{"", 7}, r == 1, r == 2};
    auto made = (*form)->rows_of(std::move(seen), &step, {});
    if (!made.ok()) return;
    rows.push_back(std::move(*made));
  }
  const std::vector<const std::vector<Tensor>*> requests = {&rows[0], &rows[1]};
  if ((*form)->key(rows[0]) != (*form)->key(rows[1])) return;
  const auto joined = (*form)->join(requests);
  if (joined.ok() && joined->size() != in.size()) std::abort();
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto config = peri::serve::parse_model_config({reinterpret_cast<const char*>(data), size}, "f");
  if (!config.ok()) {
    if (config.error().message.empty()) std::abort();
    return 0;
  }
  if (config->max_batch_size < 0 || config->max_batch_size > 65536) std::abort();
  (void)config->versions.choose({1, 2, 3}).size();
  put_together(*config);
  return 0;
}
