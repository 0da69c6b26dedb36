// The list.
#include "device/open.hpp"

#include "device/cuda/cuda.hpp"
#include "device/null.hpp"

namespace peri::device {

Result<std::shared_ptr<Device>> open_device(std::string_view name) {
  if (name == "null") {
    NullOptions options;
    options.memory_bytes = host_memory().total_bytes;
    PERI_ASSIGN(std::unique_ptr<Device> made, make_null_device(std::move(options)));
    return std::shared_ptr<Device>(std::move(made));
  }
  if (name == "cuda") {
    PERI_ASSIGN(std::unique_ptr<cuda::CudaDevice> made, cuda::make_cuda_device());
    return std::shared_ptr<Device>(std::move(made));
  }
  return refused("this build has no device '%s'", std::string(name).c_str())
      .expecting("host, cuda, null")
      .advise("build the engine again for a device that is here: peri build MODEL -o ENGINE");
}

bool is_asked_for(std::string_view device, std::string_view asked) {
  return device == asked || (device.starts_with(asked) && device.substr(asked.size()).starts_with(':'));
}

}  // namespace peri::device
