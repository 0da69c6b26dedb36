// Files of packed weights. Header of 64 bytes, the key, zeros up to a page, the data; a file is whole or not there,
// and each of its bytes is compared or under the checksum.
#include "exec/weights/packed_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <thread>

#include "base/fault.hpp"
#include "base/hash.hpp"
#include "base/kept_files.hpp"
#include "base/thread_pool.hpp"
#include "base/trust.hpp"

namespace peri::exec {
namespace {
constexpr char kMagic[8] = {'P', 'E', 'R', 'I', 'P', 'A', 'C', 'K'};
constexpr uint64_t kVersion = 3;                         // increased with every change of the format
constexpr uint64_t kPage = 4096;                         // alignment of mapped data
constexpr uint64_t kMaxKey = 1 << 20;                    // bounds the header of an untrusted file
constexpr int64_t kMinBytes = 64 << 10;                  // smaller weights are packed in negligible time
constexpr auto kPause = std::chrono::milliseconds(100);  // before each file, so that the first runs precede disk writes

struct Header {
  char magic[8];
  uint64_t version, key_bytes, data_offset, data_bytes, data_hash, unused[2];
};
static_assert(sizeof(Header) == 64);

// The hash of the pieces' hashes: two threads fault in and hash pages twice as fast as one, before the first result.
uint64_t hash_data(const std::byte* data, uint64_t bytes) {
  constexpr uint64_t kPiece = uint64_t{1} << 20;
  std::vector<uint64_t> hashes((bytes + kPiece - 1) / kPiece);
  ThreadPool pool(hashes.size() > 1 ? std::min(2, usable_cpus()) : 1);
  pool.run(static_cast<int64_t>(hashes.size()), [&](int64_t k, int) {
    const uint64_t at = static_cast<uint64_t>(k) * kPiece;
    hashes[static_cast<size_t>(k)] = hash_bytes(data + at, std::min(kPiece, bytes - at));
  });
  return hash_bytes(hashes.data(), hashes.size() * sizeof(uint64_t), bytes);
}

// The file's contents before the data.
std::string head_of(const std::string& key, uint64_t data_bytes, uint64_t data_hash) {
  Header h{};
  std::memcpy(h.magic, kMagic, sizeof kMagic);
  h.version = kVersion;
  h.key_bytes = key.size();
  h.data_offset = (sizeof h + key.size() + kPage - 1) / kPage * kPage;
  h.data_bytes = data_bytes;
  h.data_hash = data_hash;
  std::string out(reinterpret_cast<const char*>(&h), sizeof h);
  out += key;
  out.resize(h.data_offset, '\0');
  return out;
}

constexpr size_t kMaxNotes = 100;  // further ones are dropped
constinit std::mutex notes_mutex;
constinit std::atomic<bool> any_notes{false};
std::vector<std::string>& notes() {
  static std::vector<std::string> all;
  return all;
}
void note(std::string text) {
  const std::lock_guard<std::mutex> lock(notes_mutex);
  if (notes().size() < kMaxNotes) notes().push_back(std::move(text));
  any_notes = true;
}

std::string name_of(const std::string& key) { return hex64(hash_text(key)) + hex64(hash_text(key, 1)) + ".packed"; }

Status write(const std::string& folder, const std::string& key, const Tensor& data) {
  make_own_folders(folder);
  const std::string path = folder + "/" + name_of(key);
  PERI_ASSIGN(AtomicFile file, AtomicFile::create(path));
  const uint64_t bytes = data.bytes().size();
  PERI_TRY(file.write(head_of(key, bytes, hash_data(data.bytes().data(), bytes))));
  PERI_TRY(file.write(data.data(), bytes));
  PERI_TRY(file.commit());
  if (chmod(path.c_str(), 0644) != 0) return os_error("change the mode", path);  // whatever the umask says
  return Ok{};
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
  std::atomic<bool> told{false};  // why the folder is not used

  // Whether what stands in the folder may be believed, and the folder written to.
  bool usable() {
    const std::string wrong = distrust_folder(folder);
    if (!wrong.empty() && !told.exchange(true)) note("packed weights in " + folder + " are not used: " + wrong);
    return wrong.empty();
  }

  void work() {
    std::unique_lock<std::mutex> lock(mutex);
    while (true) {
      more.wait(lock, [&] { return ending || !queue.empty(); });
      if (queue.empty()) return;
      more.wait_for(lock, kPause, [&] { return ending; });
      const auto next = std::move(queue.front());
      queue.pop_front();
      lock.unlock();
      const bool written =
          next.second.bytes().size() <= limit && contained([&] { return write(folder, next.first, next.second); }).ok();
      lock.lock();
      if (!written) queue.clear();  // no place: the rest would meet the same
      if (queue.empty()) {
        lock.unlock();
        (void)contained([&]() -> Status {
          trim_kept(kPackedWeights, folder, limit);
          return Ok{};
        }).ok();
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
  const uint64_t limit = kept_limit_bytes(kPackedWeights);
  if (cache.empty() || limit == 0) return nullptr;
  const std::lock_guard<std::mutex> lock(mutex);
  auto out = current.lock();
  if (!out) current = out = std::make_shared<PackedFiles>(kept_folder(kPackedWeights, cache), limit);
  return out;
}

std::span<const std::byte> PackedFiles::data_of(const MappedFile& file) {
  Header h;
  std::memcpy(&h, file.data(), sizeof h);
  return file.bytes().subspan(h.data_offset, h.data_bytes);
}

namespace {
// "" if the file is what keep() wrote for the key; else what is wrong with it.
std::string damage(const MappedFile& file, const std::string& key, uint64_t bytes) {
  Header h;
  if (file.size() < sizeof h) return format("it has %zu bytes only", file.size());
  std::memcpy(&h, file.data(), sizeof h);
  const std::string head = head_of(key, bytes, h.data_hash);
  if (file.size() != head.size() + bytes)
    return format("it has %zu bytes and not %zu", file.size(), static_cast<size_t>(head.size() + bytes));
  if (file.text().substr(0, head.size()) != head) return "its head is damaged";
  if (hash_data(file.data() + head.size(), bytes) != h.data_hash) return "its data does not match its checksum";
  return "";
}
}  // namespace

std::shared_ptr<const MappedFile> PackedFiles::find(const std::string& key, int64_t bytes) const {
  const std::string path = state_->folder + "/" + name_of(key);
  auto fd = open_file(path);
  if (!fd.ok() || !state_->usable()) return nullptr;
  std::string wrong = distrust(*fd);
  auto mapped = wrong.empty() ? MappedFile::map(*fd, path) : Result<MappedFile>(MappedFile());
  if (!mapped.ok()) return nullptr;
  if (wrong.empty()) wrong = damage(*mapped, key, static_cast<uint64_t>(bytes));
  if (!wrong.empty()) {
    note("the packed weights of " + path + " are packed again: " + wrong);
    return nullptr;
  }
  (void)futimens(fd->get(), nullptr);                                  // used now: the oldest are deleted first
  mapped->recognize([](std::span<const std::byte>) { return true; });  // others set its time alone
  return std::make_shared<const MappedFile>(std::move(mapped).value());
}

void PackedFiles::keep(std::string key, Tensor data) {
  if (key.size() > kMaxKey || !state_->usable()) return;
  const std::lock_guard<std::mutex> lock(state_->mutex);
  const Status begun = contained([&]() -> Status {
    state_->queue.emplace_back(std::move(key), std::move(data));
    if (!state_->writer.joinable()) state_->writer = std::thread([s = state_.get()] { s->work(); });
    return Ok{};
  });
  if (!begun.ok()) state_->queue.clear();  // no thread to be had: nothing is kept
  state_->more.notify_one();
}

std::vector<std::string> take_packed_notes() {
  if (!any_notes.load(std::memory_order_relaxed)) return {};
  const std::lock_guard<std::mutex> lock(notes_mutex);
  any_notes = false;
  return std::exchange(notes(), {});
}

StepStore::StepStore(std::shared_ptr<PackedFiles> files, std::string key, std::function<bool()> sound)
    : files_(std::move(files)), key_(std::move(key)), sound_(std::move(sound)) {}

bool StepStore::stores(int64_t bytes) const { return files_ && bytes >= kMinBytes; }

Tensor StepStore::find(std::string_view form, int64_t bytes) {
  const auto file = stores(bytes) ? files_->find(key_of(form), bytes) : nullptr;
  if (!file) return {};
  auto view = Tensor::view(DType::kU8, {bytes}, PackedFiles::data_of(*file), file);
  if (!view.ok()) return {};
  const std::lock_guard<std::mutex> lock(mutex_);
  mapped_.push_back(file);
  return std::move(view).value();
}

void StepStore::keep(std::string_view form, Tensor made) {
  if (stores(made.numel()) && sound_()) files_->keep(key_of(form), std::move(made));
}

Result<Tensor> StepStore::get(std::string_view form, int64_t bytes, FunctionRef<void(std::byte*)> make) {
  if (Tensor found = find(form, bytes); found.defined()) return found;
  PERI_ASSIGN(Tensor t, Tensor::uninitialized(DType::kU8, {bytes}));
  make(t.mutable_data());
  keep(form, t);
  return t;
}

Status StepStore::check() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& mapped : mapped_)
    if (const auto file = mapped.lock()) PERI_TRY(file->check());
  return Ok{};
}

}  // namespace peri::exec
