// Any bytes as an engine file, its checksum repaired: refused with a typed error that is not a fault of ours, or loaded
// and run at two sizes within a budget of steps, memory and work.
// links: exec runtime plan kernels ops ir base
#include <cstdlib>

#include "exec/entry.hpp"
#include "kernels/entry.hpp"
#include "runtime/engine.hpp"
#include "tests/fuzz/engine_mutation.hpp"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size) __attribute__((weak));

namespace {
using peri::DimBinding;
using peri::Tensor;
using peri::plan::Program;

constexpr int64_t kMostSteps = 64, kMostBytes = 16 << 20;
constexpr double kMostWork = 2e7;  // operations and elements of all regions together

// Work of every region that can be read, intermediate values with it; bodies with all of their dimensions at `size`.
double work(const Program& p, const DimBinding& binding, int64_t size) {
  double sum = 0;
  for (const auto& s : p.steps) {
    for (const auto& body : s.bodies) {
      DimBinding all;
      for (const std::string& name : body->dims) all[name] = size;
      sum += work(*body, all, size);
    }
    for (const auto& v : s.variants) {
      auto payload = peri::exec::read_payload(v.payload);
      if (!payload.ok()) continue;
      auto region = peri::exec::bind_region(payload->graph, binding, true);
      if (!region.ok()) continue;
      for (const auto* n : region->nodes) {
        const peri::ops::Cost c = peri::ops::cost_of(*n);
        sum += c.flops + c.bytes_read + c.bytes_written;
      }
      for (const auto& x : region->values()) {
        auto dims = x->type.shape ? peri::eval(*x->type.shape, binding)
                                  : peri::Result<std::vector<int64_t>>(std::vector<int64_t>());
        double n = 1;
        for (const int64_t d : dims.ok() ? *dims : std::vector<int64_t>()) n *= static_cast<double>(d);
        sum += n;
      }
    }
  }
  return sum;
}

int64_t count_steps(const Program& p) {
  int64_t n = static_cast<int64_t>(p.steps.size());
  for (const auto& s : p.steps)
    for (const auto& body : s.bodies) n += count_steps(*body);
  return n;
}

// Small numbers, some of them zero; the same ones for the same file.
Tensor filled(Tensor t, peri::Rng* rng) {
  for (int64_t k = 0; k < t.numel(); ++k) {
    if (t.dtype() == peri::DType::kString)
      t.mutable_strings()[static_cast<size_t>(k)] = rng->below(2) ? "a" : "";
    else if (is_float(t.dtype()))
      t.set_f64(k, static_cast<double>(rng->below(9) - 4) / 2);
    else
      t.set_i64(k, rng->below(5) - 1);
  }
  return t;
}

// Runs once with every dimension of the inputs at `size`.
void run(const std::shared_ptr<const peri::runtime::Engine>& engine, peri::runtime::Session* session, int64_t size) {
  const Program& p = engine->program();
  DimBinding binding;
  for (const std::string& name : p.dims) binding[name] = size;
  std::vector<Tensor> inputs;
  peri::Rng rng(static_cast<uint64_t>(size));
  for (const auto& port : p.inputs) {
    auto dims = peri::eval(port.shape, binding);
    if (!dims.ok()) return;
    auto n = peri::checked_numel(*dims);
    if (!n.ok() || *n > kMostBytes / 64) return;
    auto t = Tensor::zeros(port.dtype, *dims);
    if (!t.ok()) return;
    inputs.push_back(filled(std::move(*t), &rng));
  }
  if (work(p, binding, size) > kMostWork) return;
  auto out = session->run(inputs);
  if (!out.ok() && out.error().kind == peri::ErrorKind::kInternal) std::abort();
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<uint8_t> file(data, data + size);
  peri::fuzz::repair_checksum(file);
  std::span<const std::byte> weights;
  auto program = peri::plan::parse_engine(std::as_bytes(std::span(file)), &weights);
  if (!program.ok()) {
    if (program.error().kind == peri::ErrorKind::kInternal) std::abort();
    return 0;
  }
  if (count_steps(*program) > kMostSteps || program->buffers.size() > 1024) return 0;
  // At their exact size, so that a read past their end is seen.
  auto kept = std::make_shared<std::vector<std::byte>>(weights.begin(), weights.end());
  static const std::vector<const peri::runtime::Executor*> table = peri::exec::table();
  peri::runtime::EngineOptions options;
  options.executors = table;
  options.machine = {peri::kernels::detect_machine(1).isas, peri::exec::libraries()};
  options.memory_bytes = kMostBytes;
  options.steps_left = std::make_shared<std::atomic<int64_t>>(4 * kMostSteps);
  auto engine = peri::runtime::Engine::create(std::move(*program), {*kept, kept, {}}, options);
  if (!engine.ok()) return 0;
  auto session = peri::runtime::Session::create(*engine, 1);
  if (!session.ok()) return 0;
  for (const int64_t dim : {3, 1}) run(*engine, session->get(), dim);
  return 0;
}

// One time in four the bytes are changed as the fuzzer would, else the program that they hold.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  auto draft = seed % 4 == 0 ? std::nullopt : peri::fuzz::read_draft({data, size});
  if (!draft) return LLVMFuzzerMutate ? LLVMFuzzerMutate(data, size, max_size) : size;
  peri::fuzz::Mutation(seed).apply(&*draft);
  const std::string out = peri::fuzz::write_draft(*draft);
  if (out.size() > max_size) return size;
  std::memcpy(data, out.data(), out.size());
  return out.size();
}
