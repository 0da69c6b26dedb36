// Files of packed weights. Header of 64 bytes, the key, zeros up to a page, the floats; a file is whole or not there.
#include "exec/core/packed_files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <thread>

#include "base/hash.hpp"
#include "base/knobs.hpp"

namespace peri::exec {
namespace {
constexpr char kMagic[8] = {'P', 'E', 'R', 'I', 'P', 'A', 'C', 'K'};
constexpr uint64_t kPage = 4096;
constexpr uint64_t kMostKey = 1 << 20;
constexpr int64_t kLeastBytes = 64 << 10;  // less is packed in no time
constexpr uint64_t kDefaultMib = 4096;
constexpr auto kPause = std::chrono::milliseconds(100);  // before each file: the first runs go before the disk

struct Header {
  char magic[8];
  uint64_t version, key_bytes, data_offset, data_bytes, unused[3];
};
static_assert(sizeof(Header) == 64);
uint64_t data_offset(uint64_t key_bytes) { return (sizeof(Header) + key_bytes + kPage - 1) / kPage * kPage; }

std::string name_of(const std::string& key) { return hex64(hash_text(key)) + hex64(hash_text(key, 1)) + ".packed"; }
std::string folder_in(const std::string& cache) { return cache + "/packed"; }

struct Kept {
  std::string path;
  uint64_t bytes = 0;
  int64_t used = 0;  // seconds
};
std::vector<Kept> list(const std::string& folder) {
  std::vector<Kept> out;
  DIR* dir = opendir(folder.c_str());
  if (!dir) return out;
  while (const dirent* e = readdir(dir)) {
    const std::string name = e->d_name;
    struct stat info;
    if (name.size() != 39 || !name.ends_with(".packed")) continue;
    if (fstatat(dirfd(dir), e->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode)) continue;
    out.push_back({folder + "/" + name, static_cast<uint64_t>(info.st_size), info.st_mtim.tv_sec});
  }
  closedir(dir);
  return out;
}

Status write(const std::string& folder, const std::string& key, const Tensor& data) {
  for (size_t at = 1; at <= folder.size(); ++at)
    if (at == folder.size() || folder[at] == '/') mkdir(folder.substr(0, at).c_str(), 0777);
  PERI_ASSIGN(AtomicFile file, AtomicFile::create(folder + "/" + name_of(key)));
  Header h{};
  std::memcpy(h.magic, kMagic, sizeof kMagic);
  h.version = 1, h.key_bytes = key.size(), h.data_offset = data_offset(key.size()), h.data_bytes = data.bytes().size();
  PERI_TRY(file.write(&h, sizeof h));
  PERI_TRY(file.write(key));
  PERI_TRY(file.write(std::string(h.data_offset - sizeof h - key.size(), '\0')));
  PERI_TRY(file.write(data.data(), h.data_bytes));
  return file.commit();
}

void trim(const std::string& folder, uint64_t limit) {
  std::vector<Kept> files = list(folder);
  uint64_t sum = 0;
  for (const Kept& f : files) sum += f.bytes;
  std::sort(files.begin(), files.end(), [](const Kept& a, const Kept& b) { return a.used < b.used; });
  for (const Kept& f : files) {
    if (sum <= limit) return;
    if (unlink(f.path.c_str()) == 0) sum -= f.bytes;
  }
}

uint64_t limit_bytes() {
  uint64_t mib = kDefaultMib;
  const auto given = knob(Knob::kPackedCacheMib);
  if (given) std::from_chars(given->data(), given->data() + given->size(), mib);
  return std::min<uint64_t>(mib, uint64_t{1} << 30) << 20;
}
}  // namespace

struct PackedFiles::State {
  std::string folder;
  uint64_t limit = 0;
  std::mutex mutex;
  std::condition_variable more;
  std::deque<std::pair<std::string, Tensor>> queue;
  bool ending = false;
  std::thread writer;

  void work() {
    std::unique_lock<std::mutex> lock(mutex);
    while (true) {
      more.wait(lock, [&] { return ending || !queue.empty(); });
      if (queue.empty()) return;
      more.wait_for(lock, kPause, [&] { return ending; });
      const auto [key, data] = std::move(queue.front());
      queue.pop_front();
      lock.unlock();
      const bool written = data.bytes().size() <= limit && write(folder, key, data).ok();
      lock.lock();
      if (!written) queue.clear();  // no place: the rest would meet the same
      if (queue.empty()) {
        lock.unlock();
        trim(folder, limit);
        lock.lock();
      }
    }
  }
};

PackedFiles::PackedFiles(std::string folder, uint64_t limit) : state_(std::make_unique<State>()) {
  state_->folder = std::move(folder);
  state_->limit = limit;
}

PackedFiles::~PackedFiles() {
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->ending = true;
  }
  state_->more.notify_all();
  if (state_->writer.joinable()) state_->writer.join();
}

std::shared_ptr<PackedFiles> PackedFiles::shared() {
  static std::mutex mutex;
  static std::weak_ptr<PackedFiles> current;
  const std::string cache = cache_folder();
  const uint64_t limit = limit_bytes();
  if (cache.empty() || limit == 0) return nullptr;
  const std::lock_guard<std::mutex> lock(mutex);
  auto out = current.lock();
  if (!out) current = out = std::make_shared<PackedFiles>(folder_in(cache), limit);
  return out;
}

std::span<const std::byte> PackedFiles::data_of(const MappedFile& file) {
  Header h;
  std::memcpy(&h, file.data(), sizeof h);
  return file.bytes().subspan(h.data_offset, h.data_bytes);
}

std::shared_ptr<const MappedFile> PackedFiles::find(const std::string& key, int64_t bytes) const {
  const std::string path = state_->folder + "/" + name_of(key);
  auto fd = open_file(path);
  if (!fd.ok()) return nullptr;
  auto mapped = MappedFile::map(*fd, path);
  Header h;
  if (!mapped.ok() || mapped->size() < sizeof h) return nullptr;
  std::memcpy(&h, mapped->data(), sizeof h);
  const uint64_t want = static_cast<uint64_t>(bytes), at = data_offset(key.size());
  if (std::memcmp(h.magic, kMagic, sizeof kMagic) != 0 || h.version != 1 || h.key_bytes != key.size() ||
      h.data_offset != at || h.data_bytes != want || mapped->size() != at + want ||
      mapped->text().substr(sizeof h, key.size()) != key)
    return nullptr;
  (void)futimens(fd->get(), nullptr);  // used now: the oldest are deleted first
  return std::make_shared<const MappedFile>(std::move(mapped).value());
}

void PackedFiles::keep(std::string key, Tensor data) {
  if (key.size() > kMostKey) return;
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->queue.emplace_back(std::move(key), std::move(data));
  if (!state_->writer.joinable()) state_->writer = std::thread([s = state_.get()] { s->work(); });
  state_->more.notify_one();
}

PackedFacts packed_facts(const std::string& cache) {
  PackedFacts f;
  if (cache.empty()) return f;
  for (const Kept& k : list(folder_in(cache))) ++f.files, f.bytes += static_cast<int64_t>(k.bytes);
  return f;
}

int64_t clear_packed(const std::string& cache) {
  int64_t bytes = 0;
  if (cache.empty()) return bytes;
  for (const Kept& k : list(folder_in(cache)))
    if (unlink(k.path.c_str()) == 0) bytes += static_cast<int64_t>(k.bytes);
  (void)rmdir(folder_in(cache).c_str());
  return bytes;
}

StepStore::StepStore(std::shared_ptr<PackedFiles> files, std::string key, std::function<bool()> sound)
    : files_(std::move(files)), key_(std::move(key)), sound_(std::move(sound)) {}

Result<Tensor> StepStore::get(std::string_view form, int64_t floats, FunctionRef<void(float*)> make) {
  const int64_t bytes = floats * static_cast<int64_t>(sizeof(float));
  const std::string key = key_ + "\nform " + std::string(form);
  const bool kept = files_ && bytes >= kLeastBytes;
  if (kept) {
    if (auto file = files_->find(key, bytes)) {
      const std::lock_guard<std::mutex> lock(mutex_);
      mapped_.push_back(file);
      return Tensor::view(DType::kF32, {floats}, PackedFiles::data_of(*file), file);
    }
  }
  PERI_ASSIGN(Tensor t, Tensor::uninitialized(DType::kF32, {floats}));
  make(t.mutable_as<float>());
  if (kept && sound_()) files_->keep(key, t);
  return t;
}

Status StepStore::check() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& file : mapped_) PERI_TRY(file->check());
  return Ok{};
}

}  // namespace peri::exec
