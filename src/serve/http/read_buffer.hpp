// ReadBuffer: the receive memory of a connection, in its own pages: an idle connection uses no physical memory, and one
// with small requests a single page.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <memory>

namespace peri::serve {

class ReadBuffer {
 public:
  explicit ReadBuffer(size_t bytes) : bytes_(bytes) {
    void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {  // the limit of mappings is reached
      heap_ = std::make_unique_for_overwrite<char[]>(bytes);
      data_ = heap_.get();
      return;
    }
    (void)madvise(at, bytes, MADV_NOHUGEPAGE);  // adjacent buffers would otherwise share a huge page
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
