// Code of the driver: loaded, its kernels found, and launched after the attributes each needs are set.
#include <algorithm>
#include <cstring>

#include "device/cuda/context.hpp"

namespace peri::device::cuda {

namespace {
constexpr int kPlainShared = 48 << 10;  // more of it is asked for by kernel
constexpr unsigned kPortableCluster = 8;

class LoadedModule final : public Module {
 public:
  LoadedModule(std::shared_ptr<Context> context, CuLibrary library) : context_(std::move(context)), library_(library) {}
  ~LoadedModule() override {
    context_->dispose([&](const Driver& d) { return d.library_unload(library_); });
  }
  Result<Kernel> kernel(const std::string& name, int dynamic_bytes) override {
    PERI_TRY(context_->call());
    Kernel out;
    out.name = name;
    Status found = context_->drive("cuLibraryGetKernel", [&](const Driver& d) {
      const CuResult code = d.library_kernel(&out.handle, library_, name.c_str());
      return code == kCuNotFound ? kCuSuccess : code;
    });
    PERI_TRY(std::move(found));
    if (!out.handle) return invalid("the code has no kernel of that name").at_node(name);
    for (const auto& [attribute, value] :
         {std::pair{kCuRegisters, &out.registers}, std::pair{kCuLocalBytes, &out.local_bytes},
          std::pair{kCuSharedBytes, &out.shared_bytes}, std::pair{kCuMaxThreads, &out.max_threads}})
      PERI_TRY(context_->drive("cuKernelGetAttribute", [&, a = attribute, v = value](const Driver& d) {
        return d.kernel_get(v, a, out.handle, context_->device);
      }));
    if (out.shared_bytes + dynamic_bytes > context_->facts.shared_bytes)
      return invalid("it wants more shared memory than a block may have")
          .at_node(name)
          .expecting(format("at most %lld bytes", static_cast<long long>(context_->facts.shared_bytes)))
          .but_found(std::to_string(out.shared_bytes + dynamic_bytes));
    // All that a block may have, and not what is asked for now: launches of other sizes share the kernel, some of them
    // ready by now, and what is set here is set for all.
    const int most = static_cast<int>(context_->facts.shared_bytes) - out.shared_bytes;
    if (out.shared_bytes + dynamic_bytes > kPlainShared)
      PERI_TRY(context_->drive("cuKernelSetAttribute", [&](const Driver& d) {
        return d.kernel_set(kCuMaxDynamicSharedBytes, most, out.handle, context_->device);
      }));
    return out;
  }

 private:
  const std::shared_ptr<Context> context_;
  const CuLibrary library_;
};

struct LaunchPlan {
  Kernel kernel;
  Shape shape;
  Parameters parameters;
};

Status check_shape(const LaunchPlan& plan) {
  const auto& [blocks, threads, cluster, shared_bytes, early] = plan.shape;
  uint64_t count = 1, together = 1;
  for (size_t k = 0; k < 3; ++k) {
    if (blocks[k] == 0 || threads[k] == 0 || cluster[k] == 0 || blocks[k] % cluster[k] != 0)
      return invalid("%u blocks of %u threads in clusters of %u", blocks[k], threads[k], cluster[k])
          .at_node(plan.kernel.name);
    count *= threads[k];
    together *= cluster[k];
  }
  if (count > static_cast<uint64_t>(plan.kernel.max_threads) || together > kPortableCluster)
    return invalid("the kernel takes blocks of at most %d threads in clusters of at most %u", plan.kernel.max_threads,
                   kPortableCluster)
        .at_node(plan.kernel.name)
        .but_found(format("%llu threads, clusters of %llu", static_cast<unsigned long long>(count),
                          static_cast<unsigned long long>(together)));
  return Ok{};
}

Status enqueue(Context& context, const LaunchPlan& plan, const NativeQueue& queue) {
  PERI_TRY(check_shape(plan));
  std::vector<uint64_t> addresses;
  for (const Argument& a : queue.arguments) addresses.push_back(a.address.value);
  std::vector<Scalar> scalars = plan.parameters.scalars;
  std::vector<void*> parameters;
  for (const int k : plan.parameters.order) {
    const size_t at = static_cast<size_t>(k >= 0 ? k : -1 - k);
    PERI_CHECK(at < (k >= 0 ? addresses.size() : scalars.size()));
    parameters.push_back(k >= 0 ? static_cast<void*>(&addresses[at]) : scalars[at].bytes.data());
  }
  if (plan.parameters.order.empty()) {
    for (uint64_t& a : addresses) parameters.push_back(&a);
    for (Scalar& s : scalars) parameters.push_back(s.bytes.data());
  }
  CuLaunchAttribute attributes[2];
  CuLaunchConfig config;
  std::copy_n(plan.shape.blocks.begin(), 3, config.blocks);
  std::copy_n(plan.shape.threads.begin(), 3, config.threads);
  config.shared_bytes = plan.shape.shared_bytes;
  config.stream = static_cast<CuStream>(queue.queue);
  config.attributes = attributes;
  if (plan.shape.cluster != std::array<unsigned, 3>{1, 1, 1}) {
    CuLaunchAttribute& a = attributes[config.attribute_count++];
    a.id = kCuClusterDimension;
    std::copy_n(plan.shape.cluster.begin(), 3, a.value.cluster);
  }
  if (plan.shape.early) {
    CuLaunchAttribute& a = attributes[config.attribute_count++];
    a.id = kCuProgrammaticSerialization;
    a.value.allowed = 1;
  }
  return context.drive("cuLaunchKernelEx", [&](const Driver& d) {
    return d.launch(&config, plan.kernel.handle, parameters.data(), nullptr);
  });
}
}  // namespace

Result<std::unique_ptr<Module>> load_module(std::shared_ptr<Context> context, std::span<const std::byte> code) {
  if (code.empty()) return invalid("no code to load");
  // PTX is a text that ends with 0; a cubin knows its own length, and stands at an even address.
  std::vector<std::byte> image(code.begin(), code.end());
  image.push_back(std::byte{0});
  CuLibrary library = nullptr;
  // Of a text, which the driver compiles, it is asked what it has to say against it.
  std::array<char, 4096> log = {};
  int options[] = {kCuErrorLog, kCuErrorLogBytes};
  void* values[] = {log.data(), reinterpret_cast<void*>(log.size())};
  constexpr std::byte kElf{0x7f};
  const unsigned count = image[0] == kElf ? 0 : 2;
  Status loaded = context->drive("cuLibraryLoadData", [&](const Driver& d) {
    return d.library_load(&library, image.data(), options, values, count, nullptr, nullptr, 0);
  });
  log.back() = '\0';
  std::replace(log.begin(), log.end(), '\n', ' ');
  if (!loaded.ok() && log[0]) return std::move(loaded).error().but_found(log.data());
  PERI_TRY(std::move(loaded));
  return std::unique_ptr<Module>(std::make_unique<LoadedModule>(std::move(context), library));
}

Launch kernel_launch(std::shared_ptr<Context> context, const Kernel& kernel, const Shape& shape,
                     std::vector<Argument> arguments, Parameters parameters) {
  const auto plan = std::make_shared<const LaunchPlan>(LaunchPlan{kernel, shape, std::move(parameters)});
  return {kernel.name, nullptr, std::move(arguments),
          [context, plan](const NativeQueue& queue) { return enqueue(*context, *plan, queue); }};
}

}  // namespace peri::device::cuda
