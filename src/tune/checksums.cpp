// One CUDA kernel, whose integer additions give the same sum in any order.
#include "tune/checksums.hpp"

#include <algorithm>

#include "device/cuda/code_shelf.hpp"
#include "device/cuda/cuda.hpp"

namespace peri::tune {

namespace {
namespace cuda = device::cuda;

// Source of the constants: Steele, Lea, Flood, Fast splittable pseudorandom number generators, 2014.
constexpr const char* kText = R"(typedef unsigned long long peri_u64;
extern "C" __global__ void __launch_bounds__(256) peri_checksum(const unsigned* x, peri_u64* out, long long bytes) {
  const long long words = bytes / 4;
  peri_u64 sum = 0;
  for (long long i = (long long)blockIdx.x * 256 + threadIdx.x; i <= words; i += (long long)gridDim.x * 256) {
    unsigned word = 0;
    if (i < words)
      word = x[i];
    else
      for (long long k = words * 4; k < bytes; ++k) word = word << 8 | ((const unsigned char*)x)[k];
    peri_u64 z = word + 0x9e3779b97f4a7c15ull * (peri_u64)(i + 1);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    sum += z ^ (z >> 31);
  }
  atomicAdd(out, sum);
}
extern "C" __global__ void __launch_bounds__(256) peri_pick(const unsigned char* x, const long long* at, unsigned char* out, long long count, long long bytes) {
  for (long long i = (long long)blockIdx.x * 256 + threadIdx.x; i < count; i += (long long)gridDim.x * 256)
    for (long long k = 0; k < bytes; ++k) out[i * bytes + k] = x[at[i] * bytes + k];
}
)";
constexpr unsigned kMaxBlocks = 512;  // some for each multiprocessor; a block strides over the rest

class CudaChecksums final : public Checksums {
 public:
  explicit CudaChecksums(cuda::CudaDevice* device) : device_(device) {}
  Status start() {
    PERI_ASSIGN(cuda::CodeShelf* const shelf, cuda::CodeShelf::of_process());
    PERI_ASSIGN(const auto code, shelf->get({"checksum", kText, device_->facts().chip()}));
    PERI_ASSIGN(module_, device_->load(std::as_bytes(std::span(code->cubin))));
    PERI_ASSIGN(kernel_, module_->kernel("peri_checksum"));
    PERI_ASSIGN(pick_, module_->kernel("peri_pick"));
    PERI_ASSIGN(stream_, device_->make_stream());
    return Ok{};
  }

  Result<std::vector<uint64_t>> of(std::span<const device::Argument> ranges) override {
    std::vector<uint64_t> out(ranges.size(), 0);
    const size_t bytes = out.size() * sizeof(uint64_t);
    if (bytes > sums_.bytes()) {
      PERI_ASSIGN(sums_, device_->allocate(bytes));
    }
    const std::span<std::byte> host = std::as_writable_bytes(std::span(out));
    PERI_TRY(stream_->copy_in(sums_.address(), host));
    for (size_t k = 0; k < ranges.size(); ++k) {
      if (ranges[k].bytes == 0) continue;
      cuda::Shape shape;
      shape.blocks[0] = static_cast<unsigned>(std::clamp<size_t>(ranges[k].bytes / 4096, 1, kMaxBlocks));
      shape.threads[0] = 256;
      PERI_TRY(stream_->launch(
          device_->launch_of(kernel_, shape, {ranges[k], {sums_.address() + k * sizeof(uint64_t), sizeof(uint64_t)}},
                             {cuda::scalar(static_cast<long long>(ranges[k].bytes))})));
    }
    PERI_TRY(stream_->copy_out(host, sums_.address()));
    PERI_TRY(stream_->synchronize());
    return out;
  }

  Result<std::vector<std::byte>> pick(device::Argument range, size_t element_bytes,
                                      std::span<const int64_t> positions) override {
    std::vector<std::byte> out(positions.size() * element_bytes);
    if (out.empty()) return out;
    for (const int64_t at : positions)
      if (at < 0 || static_cast<size_t>(at) >= range.bytes / element_bytes) return internal_error("no such element");
    PERI_ASSIGN(const device::Memory at, device_->allocate(positions.size_bytes()));
    PERI_ASSIGN(const device::Memory picked, device_->allocate(out.size()));
    PERI_TRY(stream_->copy_in(at.address(), std::as_bytes(positions)));
    cuda::Shape shape;
    shape.blocks[0] = static_cast<unsigned>(std::min<size_t>((positions.size() + 255) / 256, kMaxBlocks));
    shape.threads[0] = 256;
    PERI_TRY(stream_->launch(device_->launch_of(pick_, shape,
                                                {range, {at.address(), at.bytes()}, {picked.address(), picked.bytes()}},
                                                {cuda::scalar(static_cast<long long>(positions.size())),
                                                 cuda::scalar(static_cast<long long>(element_bytes))})));
    PERI_TRY(stream_->copy_out(out, picked.address()));
    PERI_TRY(stream_->synchronize());
    return out;
  }

 private:
  cuda::CudaDevice* const device_;
  std::unique_ptr<cuda::Module> module_;
  cuda::Kernel kernel_, pick_;
  device::Memory sums_;
  std::unique_ptr<device::Stream> stream_;
};
}  // namespace

Result<std::unique_ptr<Checksums>> Checksums::open(device::Device* device) {
  auto* const gpu = dynamic_cast<cuda::CudaDevice*>(device);
  if (!gpu) return unsupported("no checksum on device '%s'", device ? device->name().c_str() : "");
  auto out = std::make_unique<CudaChecksums>(gpu);
  PERI_TRY(out->start());
  return std::unique_ptr<Checksums>(std::move(out));
}

}  // namespace peri::tune
