// Mapped files that survive truncation: the SIGBUS of a missing page maps zero pages over the rest of that mapping and
// marks it, so that the reader continues with zeros and check() reports it. A cut within a page and an overwriting
// fault nowhere: check() compares size and time of modification, too. A fault elsewhere is passed to the handler
// installed before.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <utility>

#include "base/file.hpp"
#include "base/plural.hpp"

namespace peri {

namespace {

// The live mappings, found by the signal handler without a lock. begin 0: free, 1: being filled.
struct Slot {
  std::atomic<uintptr_t> begin{0};
  std::atomic<uintptr_t> end{0};
  std::atomic<bool> cut{false}, written{false};
  std::atomic<int64_t> modified_ns{0};
  dev_t device = 0;  // and inode: which file is mapped, another may have its name later
  ino_t inode = 0;
};

int64_t modified_ns(const struct stat& file) {
  return int64_t{file.st_mtim.tv_sec} * 1'000'000'000 + file.st_mtim.tv_nsec;
}
constexpr int kSlots = 4096;
constinit Slot slots[kSlots];
constinit std::atomic<uintptr_t> page_bytes{0};
struct sigaction before_us;

void pass_on(int signal, siginfo_t* info, void* context) {
  if (before_us.sa_flags & SA_SIGINFO) {
    before_us.sa_sigaction(signal, info, context);
  } else if (before_us.sa_handler != SIG_DFL && before_us.sa_handler != SIG_IGN) {
    before_us.sa_handler(signal);
  } else {
    struct sigaction fatal = {};  // returning repeats the fault, now with its usual end
    fatal.sa_handler = SIG_DFL;
    ::sigaction(signal, &fatal, nullptr);
  }
}

void on_missing_page(int signal, siginfo_t* info, void* context) {
  const int saved = errno;
  const uintptr_t at = reinterpret_cast<uintptr_t>(info->si_addr);
  const bool by_kernel = info->si_code > 0;  // else another process sent it, and si_addr means nothing
  for (Slot& slot : slots) {
    if (!by_kernel) break;
    const uintptr_t begin = slot.begin.load(std::memory_order_acquire);
    const uintptr_t end = slot.end.load(std::memory_order_acquire);
    if (begin <= 1 || at < begin || at >= end) continue;
    slot.cut.store(true, std::memory_order_release);
    const uintptr_t page = at & ~(page_bytes.load(std::memory_order_relaxed) - 1);
    void* zeros = ::mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    if (zeros == MAP_FAILED) break;
    errno = saved;
    return;
  }
  errno = saved;
  pass_on(signal, info, context);
}

void install_handler() {
  static std::once_flag once;
  std::call_once(once, [] {
    page_bytes = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    struct sigaction ours = {};
    ours.sa_sigaction = on_missing_page;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    ::sigemptyset(&ours.sa_mask);
    ::sigaction(SIGBUS, &ours, &before_us);
  });
}

int take_slot(const void* data, size_t size, const Fd& fd) {
  struct stat file = {};
  if (::fstat(fd.get(), &file) != 0) file = {};
  const uintptr_t page = page_bytes.load();
  for (int i = 0; i < kSlots; ++i) {
    uintptr_t unused = 0;
    if (!slots[i].begin.compare_exchange_strong(unused, 1)) continue;
    slots[i].cut = slots[i].written = false;
    slots[i].modified_ns = modified_ns(file);
    slots[i].device = file.st_dev;
    slots[i].inode = file.st_ino;
    slots[i].end = (reinterpret_cast<uintptr_t>(data) + size + page - 1) & ~(page - 1);
    slots[i].begin.store(reinterpret_cast<uintptr_t>(data), std::memory_order_release);
    return i;
  }
  return -1;
}

// Files that stay open: asking an open one costs a third of finding it by its path, and a process may have 1024 open.
constexpr int kMaxOpen = 128;
constinit std::atomic<int> files_open{0};

Fd kept_open(const Fd& fd) {
  Fd out;
  if (files_open.fetch_add(1) < kMaxOpen) out = Fd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  if (!out.valid()) files_open.fetch_sub(1);
  return out;
}

// The path of an open file, however it was named; `name` where the system does not tell it.
std::string place_of(const Fd& fd, std::string_view name) {
  char path[4096];
  const ssize_t n = ::readlink(("/proc/self/fd/" + std::to_string(fd.get())).c_str(), path, sizeof path);
  return n > 0 && static_cast<size_t>(n) < sizeof path ? std::string(path, static_cast<size_t>(n)) : std::string(name);
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  PERI_ASSIGN(const Fd fd, open_file(path));
  return map(fd, path);
}

Result<MappedFile> MappedFile::map(const Fd& fd, std::string_view name) {
  PERI_ASSIGN(const uint64_t size, file_size(fd, name));
  MappedFile out;
  out.name_ = name;
  if (size == 0) return out;
  install_handler();
  void* data = ::mmap(nullptr, static_cast<size_t>(size), PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (data == MAP_FAILED) return os_error("map the file into memory", name);
  out.data_ = static_cast<const std::byte*>(data);
  out.size_ = static_cast<size_t>(size);
  out.slot_ = take_slot(data, out.size_, fd);
  out.fd_ = kept_open(fd);
  if (!out.fd_.valid()) out.place_ = place_of(fd, name);
  if (out.slot_ < 0) return Error(ErrorKind::kMemory, format("more than %d files are mapped", kSlots)).in_file(name);
  return out;
}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(slot_, other.slot_);
  std::swap(name_, other.name_);
  std::swap(place_, other.place_);
  std::swap(fd_, other.fd_);
  std::swap(same_, other.same_);
  return *this;
}

MappedFile::~MappedFile() {
  if (fd_.valid()) files_open.fetch_sub(1);
  if (!data_) return;
  if (slot_ >= 0) slots[slot_].begin.store(0, std::memory_order_release);
  ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::drop(size_t offset, size_t bytes) const {
  if (offset > size_ || bytes > size_ - offset) return;
  const uintptr_t page = page_bytes.load(), base = reinterpret_cast<uintptr_t>(data_);
  const uintptr_t begin = (base + offset + page - 1) & ~(page - 1), end = (base + offset + bytes) & ~(page - 1);
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

void MappedFile::recognize(std::function<bool(std::span<const std::byte>)> same) { same_ = std::move(same); }

Status MappedFile::check() const {
  if (slot_ < 0) return Ok{};
  Slot& slot = slots[slot_];
  struct stat now = {};
  const bool known = fd_.valid()
                         ? ::fstat(fd_.get(), &now) == 0
                         : ::stat(place_.c_str(), &now) == 0 && now.st_dev == slot.device && now.st_ino == slot.inode;
  if (known && static_cast<size_t>(now.st_size) < size_) slot.cut.store(true, std::memory_order_release);
  if (known && modified_ns(now) != slot.modified_ns.load(std::memory_order_acquire) && !slot.cut && !slot.written) {
    if (same_ && same_(bytes()))
      slot.modified_ns.store(modified_ns(now), std::memory_order_release);
    else
      slot.written.store(true, std::memory_order_release);
  }
  if (slot.cut.load(std::memory_order_acquire))
    return io_error("file was cut while it was in use")
        .in_file(name_)
        .expecting(counted(static_cast<int64_t>(size_), "byte"))
        .but_found("fewer")
        .advise("restore the file, open it again, and leave it alone while it is in use");
  if (slot.written.load(std::memory_order_acquire))
    return io_error("file was overwritten while it was in use")
        .in_file(name_)
        .expecting("the contents that were opened")
        .but_found(same_ ? "others" : "another time of modification")
        .advise("open it again; to replace a file in use, rename another to its name");
  return Ok{};
}

}  // namespace peri
