// Any bytes as an engine file, its checksum repaired: refused with a typed error that is not a fault of ours, or loaded
// and run at two sizes within a budget of steps, memory and work.
// links: exec runtime plan kernels ops ir base
#include "plan/class_names.hpp"
#include "tests/fuzz/engine_mutation.hpp"
#include "tests/fuzz/engine_run.hpp"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size) __attribute__((weak));

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<uint8_t> file(data, data + size);
  peri::fuzz::repair_checksum(file);
  std::span<const std::byte> weights;
  auto program = peri::plan::parse_engine(std::as_bytes(std::span(file)), &weights);
  if (!program.ok()) {
    peri::fuzz::stop_at_fault(program.error());
    return 0;
  }
  if (const auto classes = peri::plan::class_names_of(*program); !classes.ok())
    peri::fuzz::stop_at_fault(classes.error());
  // At their exact size, so that a read past their end is seen.
  auto kept = std::make_shared<std::vector<std::byte>>(weights.begin(), weights.end());
  peri::fuzz::load_and_run(std::move(*program), {*kept, kept, {}}, false);
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
