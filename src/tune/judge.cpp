// Arguments and expected answers are made once for a problem; then candidate after candidate.
#include "tune/judge.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "tune/samples.hpp"
#include "tune/trial.hpp"

namespace peri::tune {

namespace {
constexpr double kLargestTrialBytes = 1 << 30;

double bytes_of(const ir::Type& type) {
  double n = dtype_bits(type.dtype) / 8.0;
  for (const Dim& d : *type.shape) n *= d.is_const() ? static_cast<double>(d.value()) : 1.0;
  return n;
}

// What no trial can hold is left to the reference, which fails with a typed error if the memory is not there.
std::string too_large(const ir::Graph& region, const std::vector<bool>& constant) {
  double bytes = 0;
  for (size_t k = 0; k < region.inputs.size(); ++k)
    if (!constant[k]) bytes += bytes_of(region.inputs[k]->type);
  for (const ir::Value* v : region.outputs) bytes += bytes_of(v->type);
  if (bytes <= kLargestTrialBytes) return "";
  return "its tensors are too large to try: " + std::to_string(static_cast<int64_t>(bytes / (1 << 20))) + " MiB";
}

// The answer of one that was found right, for comparison with those of other providers.
struct Peer {
  size_t index = 0;
  const Candidate* candidate = nullptr;
  Verdict verdict;
  std::vector<Tensor> out;
};

// One problem, while its candidates are judged.
struct Case {
  const ir::Graph& region;
  const std::vector<bool>& constant;
  const Terms& terms;
  const Told& told;
  kernels::Machine machine;
  ThreadPool* pool = nullptr;
  std::span<const std::byte> rest;
  std::vector<Tensor> arguments;
  std::optional<Expected> expected;
  std::vector<Peer> peers;

  Verdict one(size_t index, const Candidate& c) {
    Verdict v;
    auto trial = Trial::create(region, constant, c, arguments, machine, pool);
    if (!trial.ok()) {
      v.rejected = trial.error().text();  // may be this moment's memory
      v.lasting = false;
      return v;
    }
    if (expected) {
      std::vector<Tensor> out;
      auto error = (*trial)->verify(*expected, &out);
      if (!error.ok()) {
        v.rejected = error.error().text();
        return v;
      }
      v.max_error = *error;
      if (!expected->positions.empty()) compare_wholly(index, c, std::move(out), &v);
      if (!v.rejected.empty()) return v;
    }
    if (terms.measure) v.median_ms = (*trial)->time_ms(terms.budget_ms, rest);
    return v;
  }

  // Positions show what is wrong everywhere; an answer of another provider shows what is wrong somewhere. Where the two
  // differ by more than their bounds, the reference says who is right.
  void compare_wholly(size_t index, const Candidate& c, std::vector<Tensor> out, Verdict* v) {
    auto peer = std::find_if(peers.begin(), peers.end(),
                             [&](const Peer& p) { return p.candidate->kernel->provider != c.kernel->provider; });
    if (peer != peers.end()) {
      const std::vector<int64_t> disputed = disputed_positions(*expected, peer->out[0], out[0]);
      if (!disputed.empty()) {
        auto exact = expected_at(region, arguments, pool->threads(), disputed);
        if (!exact.ok()) return void(v->rejected = "cannot be judged: " + exact.error().text());
        auto mine = compare(*exact, out), theirs = compare(*exact, peer->out);
        if (!theirs.ok()) revoke(&*peer, theirs.error().text());
        if (!mine.ok()) return void(v->rejected = mine.error().text());
      } else {
        v->compared_with = peer->candidate->id();
      }
    }
    if (std::none_of(peers.begin(), peers.end(),
                     [&](const Peer& p) { return p.candidate->kernel->provider == c.kernel->provider; }))
      peers.push_back({index, &c, *v, std::move(out)});
  }

  void revoke(Peer* peer, const std::string& why) {
    Verdict v;
    v.rejected = why;
    told(peer->index, &v);
    peers.erase(peers.begin() + (peer - peers.data()));
  }
};
}  // namespace

size_t traffic_bytes(double model_bytes) {
  const long known = sysconf(_SC_LEVEL3_CACHE_SIZE);
  const size_t cache = known > 0 ? static_cast<size_t>(known) : size_t{32} << 20;
  const size_t most = std::min(cache + cache / 4, size_t{128} << 20);
  size_t bytes = size_t{64} << 10;
  while (static_cast<double>(bytes) < model_bytes && bytes < most) bytes *= 2;
  return std::min(bytes, most);
}

struct Judge::State {
  kernels::Machine machine;
  ThreadPool pool;
  Tensor rest;
  explicit State(int threads) : machine(kernels::detect_machine(threads)), pool(threads) {}

  // What is read between timed runs; empty if there is no memory for it.
  std::span<const std::byte> between_runs(double model_bytes) {
    const size_t bytes = traffic_bytes(model_bytes);
    if (rest.bytes().size() != bytes) {
      auto made = Tensor::uninitialized(DType::kU8, {static_cast<int64_t>(bytes)});
      if (!made.ok()) return {};
      rest = std::move(made).value();
      std::memset(rest.mutable_data(), 1, bytes);  // pages never written would all be the same page of zeros
    }
    return rest.bytes();
  }
};
Judge::Judge(int threads) : state_(std::make_unique<State>(threads)) {}
Judge::~Judge() = default;

void Judge::judge(const ir::Graph& region, const std::vector<bool>& constant,
                  std::span<const Candidate* const> candidates, const Terms& terms, const Told& told) {
  auto all = [&](const std::string& why) {
    Verdict v;
    v.rejected = why;
    v.lasting = false;
    for (size_t k = 0; k < candidates.size(); ++k) told(k, &v);
  };
  if (const std::string why = too_large(region, constant); !why.empty()) return all(why);
  auto arguments = make_arguments(region, terms.seed);
  if (!arguments.ok()) return all("cannot be judged: " + arguments.error().text());
  Case one{region, constant, terms, told, state_->machine, &state_->pool, {}, std::move(*arguments), {}, {}};
  if (terms.measure) one.rest = state_->between_runs(terms.model_bytes);
  if (terms.verify) {
    auto expected = make_expected(region, one.arguments, state_->pool.threads(), terms.seed);
    if (!expected.ok()) return all("cannot be judged: " + expected.error().text());
    one.expected = std::move(*expected);
  }
  for (size_t k = 0; k < candidates.size() && !(terms.stop && terms.stop()); ++k) {
    told(k, nullptr);
    const Verdict v = one.one(k, *candidates[k]);
    told(k, &v);
  }
}

SampleVerdict Judge::samples(const kernels::Kernel& kernel) {
  return check_samples(kernel, state_->machine, &state_->pool);
}

}  // namespace peri::tune
