// Each row of the largest batch is run alone once; every batch is a prefix of these rows.
#include "build/batch_check.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "base/stop.hpp"
#include "build/open.hpp"
#include "judge/seeded.hpp"
#include "serve/queue/rows.hpp"

namespace peri::build {

Result<std::string> batch_symbol(const plan::Program& program) {
  if (program.inputs.empty()) return unsupported("the model has no inputs");
  const Shape& first = program.inputs[0].shape;
  if (first.empty() || !first[0].is_symbol())
    return unsupported("the first axis of input '%s' is not a free dimension: %s", program.inputs[0].name.c_str(),
                       shape_text(first).c_str());
  for (const auto* ports : {&program.inputs, &program.outputs})
    for (const plan::Port& p : *ports)
      if (p.shape.empty() || !(p.shape[0] == first[0]))
        return unsupported("the first axis of '%s' is not that of input '%s': %s", p.name.c_str(),
                           program.inputs[0].name.c_str(), shape_text(p.shape).c_str());
  return first[0].symbol_name();
}

std::vector<int64_t> sizes_to_try(int64_t most, const std::vector<int64_t>& wanted) {
  std::vector<int64_t> out = wanted;
  for (int64_t s = 1; s <= most; s = s < 8 ? s + 1 : s < 16 ? s + 4 : (s & (s - 1)) == 0 ? s + s / 2 : s / 3 * 4)
    out.push_back(s);
  out.push_back(most);
  std::vector<int64_t> unique;
  for (const int64_t s : out)
    if (s >= 1 && s <= most && std::find(unique.begin(), unique.end(), s) == unique.end()) unique.push_back(s);
  return unique;
}

namespace {

class Checker {
 public:
  Checker(runtime::EngineServable& model, std::string symbol, DimBinding dims, int64_t most, uint64_t seed)
      : model_(model), symbol_(std::move(symbol)), dims_(std::move(dims)), most_(most), seed_(seed) {}

  Status begin() {
    DimBinding all = dims_;
    all[symbol_] = most_;
    PERI_ASSIGN(inputs_, judge::random_inputs(model_.engine().program(), all, seed_));
    return Ok{};
  }
  // "" where every row of a batch of this size is answered as it is alone, else what differs.
  Result<std::string> differs(int64_t rows) {
    PERI_ASSIGN(const std::vector<Tensor> batch, serve::take_rows(inputs_, most_, 0, rows));
    PERI_ASSIGN(const std::vector<Tensor> together, model_.run(batch));
    for (int64_t r = 0; r < rows; ++r) {
      if (stop_asked()) return Error(ErrorKind::kCancelled, "interrupted");
      if (static_cast<int64_t>(alone_.size()) == r) {
        PERI_ASSIGN(const std::vector<Tensor> one, serve::take_rows(inputs_, most_, r, 1));
        PERI_ASSIGN(std::vector<Tensor> answer, model_.run(one));
        alone_.push_back(std::move(answer));
      }
      PERI_ASSIGN(const std::vector<Tensor> mine, serve::take_rows(together, rows, r, 1));
      for (size_t k = 0; k < mine.size(); ++k)
        if (!mine[k].same_content(alone_[static_cast<size_t>(r)][k]))
          return "in a batch of " + std::to_string(rows) + " output '" + model_.outputs()[k].name +
                 "' differs from that of a single run";
    }
    return std::string();
  }

 private:
  runtime::EngineServable& model_;
  const std::string symbol_;
  const DimBinding dims_;
  const int64_t most_;
  const uint64_t seed_;
  std::vector<Tensor> inputs_;
  std::vector<std::vector<Tensor>> alone_;
};

std::string list_of(const std::vector<int64_t>& sizes) {
  std::string out;
  for (const int64_t s : sizes) out += (out.empty() ? "" : ",") + std::to_string(s);
  return out;
}

// Sizes that hold at the tuned sizes; `why` gets what differed first, `late` whether time ran out.
Result<std::vector<int64_t>> at_tuned(Checker checker, const std::vector<int64_t>& tries, int64_t until,
                                      std::string* why, bool* late) {
  PERI_TRY(checker.begin());
  std::vector<int64_t> good;
  for (const int64_t s : tries) {
    *late = now_ns() > until;  // Clock: a deadline
    if (*late) break;
    PERI_ASSIGN(const std::string found, checker.differs(s));
    if (found.empty()) good.push_back(s);
    if (why->empty()) *why = found;
  }
  std::sort(good.begin(), good.end());
  return good;
}
}  // namespace

BatchCheck check_batches(runtime::EngineServable& model, int64_t most, const std::vector<int64_t>& wanted,
                         double seconds) {
  const plan::Program& program = model.engine().program();
  const auto symbol = batch_symbol(program);
  if (!symbol.ok()) return {{}, "no batches: " + symbol.error().text()};
  const auto dims = program_dims(program, {});
  if (!dims.ok()) return {{}, "no batches: " + dims.error().text()};
  const int64_t until = now_ns() + static_cast<int64_t>(seconds * 1e9);
  BatchCheck out;
  std::string why;
  bool late = false;
  auto good = at_tuned(Checker(model, *symbol, *dims, most, 1), sizes_to_try(most, wanted), until, &why, &late);
  if (!good.ok()) return {{}, "no batches: seeded inputs could not be run: " + good.error().message};
  // Kernels may be others at other sizes: two more bindings of the dims beside the batch.
  for (const int64_t other : {3, 37}) {
    DimBinding elsewhere = *dims;
    bool free = false;
    for (auto& [name, value] : elsewhere)
      if (name != *symbol) {
        value = std::min<int64_t>(other, std::max<int64_t>(value, 1));
        free = true;
      }
    if (!free || good->size() < 2) break;
    std::string differs;
    bool stopped = false;
    const std::vector<int64_t> ends = {2, good->back()};
    const auto there = at_tuned(Checker(model, *symbol, elsewhere, good->back(), 2), ends, until, &differs, &stopped);
    if (there.ok() && !differs.empty()) return {{}, "no batches: at other sizes than the tuned ones, " + differs};
  }
  out.sizes = *good;
  if (out.sizes.size() < 2)
    return {{}, "no batches: " + (why.empty() ? "no time to hold them against single answers" : why)};
  out.note = "batches of " + list_of(out.sizes) + " rows answer as single runs do, bit for bit";
  if (!why.empty()) out.note += "; others do not: " + why;
  if (late) out.note += "; more were not tried in the time there was";
  return out;
}

}  // namespace peri::build
