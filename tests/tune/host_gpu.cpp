// Texts in libraries.
#include "tests/tune/host_gpu.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/tune/host_cuda.hpp"

namespace peri::tune {

namespace {
constexpr size_t kTextsAtOnce = 150;

std::string_view type_of(std::string_view parameter) { return parameter.substr(0, parameter.rfind(' ')); }

// The text in a namespace, with a function that takes its parameters from two lists.
std::string wrapped(const std::string& text, const std::string& entry, size_t id) {
  std::set<std::string> macros;
  std::string parameters;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("#define ")) continue;
    const std::string name = line.substr(8, line.find_first_of(" (", 8) - 8);
    if (name == "PERI_PARAMETERS") parameters = line.substr(line.find(' ', 8) + 1);
    macros.insert(name);
  }
  std::string call;
  size_t addresses = 0, sizes = 0;
  for (size_t at = 0; at < parameters.size();) {
    size_t end = parameters.find(", ", at);
    if (end == std::string::npos) end = parameters.size();
    const std::string_view one(parameters.data() + at, end - at);
    at = end + 2;
    call += call.empty() ? "" : ", ";
    call += one.find('*') == std::string_view::npos
                ? "q[" + std::to_string(sizes++) + "]"
                : "(" + std::string(type_of(one)) + ")p[" + std::to_string(addresses++) + "]";
  }
  const std::string n = std::to_string(id);
  const bool meets = text.find("__syncthreads") != std::string::npos ||
                     text.find("peri_lanes_meet") != std::string::npos ||
                     text.find("peri_cluster_wait") != std::string::npos;
  std::string out = "namespace text_" + n + " {\n" + text + "static void body(void** p, const long long* q) { " +
                    entry + "(" + call + "); }\n}\n";
  // CUDA's own names stay.
  for (const char* kept : {"PERI_DEVICE", "PERI_KERNEL", "PERI_SHARED", "PERI_DYNAMIC", "PERI_TABLE"})
    macros.erase(kept);
  for (const std::string& m : macros) out += "#undef " + m + "\n";
  return out + "extern \"C\" void run_" + n +
         "(long long blocks, int threads, int cluster, long long shared, void** p, const long long* q) { "
         "peri_run(text_" +
         n + "::body, " + (meets ? "true" : "false") + ", blocks, threads, cluster, shared, p, q); }\n";
}
}  // namespace

void HostGpu::add(const std::string& text, const std::string& entry) {
  if (!ids_.emplace(entry + "\n" + text, sources_.size()).second) return;
  sources_.push_back(wrapped(text, entry, sources_.size()));
}

Status HostGpu::compile(const std::string& folder) {
  for (size_t begin = 0; begin < sources_.size(); begin += kTextsAtOnce) {
    const std::string stem = folder + "/texts_" + std::to_string(begin);
    {
      std::ofstream file(stem + ".cpp");
      file << host_cuda();
      for (size_t k = begin; k < std::min(begin + kTextsAtOnce, sources_.size()); ++k) file << sources_[k];
    }
    const std::string command = "c++ -std=c++17 -O0 -ffp-contract=off -fno-strict-aliasing -w -shared -fPIC -o " +
                                stem + ".so " + stem + ".cpp 2> " + stem + ".log";
    if (std::system(command.c_str()) != 0) {
      std::ifstream log(stem + ".log");
      std::stringstream text;
      text << log.rdbuf();
      return invalid("the host's compiler does not take a kernel").but_found(text.str().substr(0, 4000));
    }
    void* const library = dlopen((stem + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) return invalid("%s", dlerror());
    for (size_t k = begin; k < std::min(begin + kTextsAtOnce, sources_.size()); ++k)
      runs_.push_back(reinterpret_cast<Run>(dlsym(library, ("run_" + std::to_string(k)).c_str())));
  }
  return Ok{};
}

void HostGpu::run(const kernels::cuda::KernelLaunch& launch, const std::vector<void*>& addresses) const {
  std::vector<void*> p = addresses;
  const std::vector<long long> q(launch.sizes.begin(), launch.sizes.end());
  runs_[ids_.at(launch.entry + "\n" + launch.text)](launch.blocks, launch.threads, launch.cluster, launch.shared_bytes,
                                                    p.data(), q.data());
}

}  // namespace peri::tune
