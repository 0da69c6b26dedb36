// ReadBuffer: memory that a connection reads into. It lies apart from all else, in pages of its own: of thousands of
// connections that say little, each costs the one page that it wrote to, and those that say nothing cost none.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <memory>

namespace peri::serve {

class ReadBuffer {
 public:
  explicit ReadBuffer(size_t bytes) : bytes_(bytes) {
    void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {  // more of them than the kernel maps
      heap_ = std::make_unique_for_overwrite<char[]>(bytes);
      data_ = heap_.get();
      return;
    }
    (void)madvise(at, bytes, MADV_NOHUGEPAGE);  // neighbours would share a page of megabytes
    data_ = static_cast<char*>(at);
  }
  ReadBuffer(const ReadBuffer&) = delete;
  ~ReadBuffer() {
    if (!heap_) munmap(data_, bytes_);
  }
  char* get() const { return data_; }

 private:
  const size_t bytes_;
  std::unique_ptr<char[]> heap_;
  char* data_ = nullptr;
};

}  // namespace peri::serve
