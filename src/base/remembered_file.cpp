// The hash is of all bytes: which of them a reader takes is not known here.
#include "base/remembered_file.hpp"

#include "base/hash.hpp"

namespace peri {

void remember(MappedFile& file) {
  file.recognize([hash = hash_bytes(file.data(), file.size())](std::span<const std::byte> now) {
    return hash_bytes(now.data(), now.size()) == hash;
  });
}

}  // namespace peri
