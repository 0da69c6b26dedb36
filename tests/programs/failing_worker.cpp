// A worker that fails on purpose, told how by the name it is started under: ACTION-KERNEL, where ACTION is segv, abort,
// check, hang, kill (every time) or kill1 (once: a file NAME.done beside it remembers); slow: the first twelve problems
// of its samples begin half a second late. Without such a name: a good worker; keep-memory: with the allocator's
// settings of the program `peri`.
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "base/file.hpp"
#include "tune/worker.hpp"

int main(int, char** argv) {
  const std::string path = argv[0], name = path.substr(path.rfind('/') + 1);
  const size_t dash = name.find('-');
  const std::string action = name.substr(0, dash), kernel = dash == std::string::npos ? "?" : name.substr(dash + 1);
  if (action == "keep") {
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
  }
  const peri::Status served = peri::tune::serve(peri::tune::kWorkerSocket, [&](const std::string& candidate) {
    static int slow = action == "slow" ? 12 : 0;
    if (candidate == "a sample of " + kernel && slow-- > 0) usleep(500000);
    if (!candidate.starts_with(kernel + "@")) return;
    if (action == "segv") raise(SIGSEGV);
    if (action == "abort") std::abort();
    PERI_CHECK(action != "check", "planted");
    if (action == "kill") raise(SIGKILL);
    if (action == "kill1" && !std::filesystem::exists(path + ".done")) {
      if (peri::write_file_atomic(path + ".done", "").ok()) raise(SIGKILL);
    }
    while (action == "hang") pause();
  });
  if (!served.ok()) std::fprintf(stderr, "%s\n", served.error().text().c_str());
  return served.ok() ? 0 : 1;
}
