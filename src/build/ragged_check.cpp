// Lengths repeat after seven requests, few of them long: a kernel that reads beyond a request's end reads the next one.
#include "build/ragged_check.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "base/stop.hpp"
#include "judge/seeded.hpp"

namespace peri::build {
namespace {

constexpr int64_t kLengths[] = {5, 3, 8, 1, 33, 2, 17};  // odd, even, one, and just beyond vectors of 16 and 32

struct Asked {
  std::vector<Tensor> rows;
  serve::Form::Part alone;
};

Result<std::vector<serve::Form::Part>> answers(runtime::EngineServable& model, const serve::Form& form,
                                               std::span<const Asked> asked) {
  std::vector<const std::vector<Tensor>*> requests;
  const std::vector<int64_t> rows(asked.size(), 1);
  for (const Asked& a : asked) requests.push_back(&a.rows);
  PERI_ASSIGN(const std::vector<Tensor> joined, form.join(requests));
  PERI_ASSIGN(const std::vector<Tensor> outputs, model.run(joined));
  return form.take(outputs, requests, rows);
}

Result<Asked> ask(runtime::EngineServable& model, const serve::Form& form, size_t number) {
  std::vector<Tensor> seen;
  for (size_t k = 0; k < form.inputs().size(); ++k) {
    plan::Port exact = form.inputs()[k];
    for (size_t d = 0; d < exact.shape.size(); ++d)
      if (!exact.shape[d].is_const()) exact.shape[d] = d == 0 ? 1 : kLengths[number % std::size(kLengths)];
    PERI_ASSIGN(Tensor t, judge::random_input(exact, {}, 1000 * number + k + 1));
    seen.push_back(std::move(t));
  }
  Asked out;
  PERI_ASSIGN(out.rows, form.rows_of(std::move(seen), nullptr, {}));
  PERI_ASSIGN(auto alone, answers(model, form, std::span(&out, 1)));
  out.alone = std::move(alone[0]);
  return out;
}

// "" where each request of a batch of these is answered as it is alone, else what differs.
Result<std::string> differs(runtime::EngineServable& model, const serve::Form& form, std::span<const Asked> asked) {
  PERI_ASSIGN(const auto together, answers(model, form, asked));
  for (size_t r = 0; r < asked.size(); ++r)
    for (size_t k = 0; k < together[r].outputs.size(); ++k)
      if (!together[r].outputs[k].same_content(asked[r].alone.outputs[k]))
        return "in a ragged batch of " + std::to_string(asked.size()) + " output '" + form.outputs()[k].name +
               "' differs from that of a single run";
  return std::string();
}

Result<BatchCheck> check(runtime::EngineServable& model, const serve::Form& form, int64_t most, double seconds) {
  const int64_t until = now_ns() + static_cast<int64_t>(seconds * 1e9);
  std::vector<int64_t> tries = sizes_to_try(most, {});
  std::sort(tries.begin(), tries.end());
  std::vector<Asked> asked;
  BatchCheck out;
  std::string why;
  for (const int64_t size : tries) {
    if (stop_asked()) return Error(ErrorKind::kCancelled, "interrupted");
    if (now_ns() > until) {  // Clock: a deadline
      why += why.empty() ? "more were not tried in the time there was" : "";
      break;
    }
    while (static_cast<int64_t>(asked.size()) < size) {
      PERI_ASSIGN(Asked next, ask(model, form, asked.size()));
      asked.push_back(std::move(next));
    }
    PERI_ASSIGN(const std::string found, differs(model, form, asked));
    if (found.empty()) out.sizes.push_back(size);
    if (why.empty()) why = found;
  }
  if (out.sizes.size() < 2) return BatchCheck{{}, "no batches: " + why};
  out.note = "ragged batches answer as single runs do, bit for bit, on seeded requests";
  if (!why.empty()) out.note += "; others do not: " + why;
  return out;
}
}  // namespace

BatchCheck check_ragged(runtime::EngineServable& model, const serve::Form& form, int64_t most, double seconds) {
  auto out = check(model, form, most, seconds);
  if (!out.ok()) return {{}, "no batches: seeded requests could not be run: " + out.error().message};
  return std::move(*out);
}

}  // namespace peri::build
