// Writing and loading engine files.
#include "plan/engine_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "base/hash.hpp"
#include "base/plural.hpp"
#include "base/tensor_work.hpp"
#include "base/thread_pool.hpp"

namespace peri::plan {

namespace {
constexpr char kMagic[8] = {'P', 'E', 'R', 'I', 'E', 'N', 'G', '\n'};
bool begins_like_engine(std::string_view head) { return head.starts_with(std::string_view(kMagic, sizeof kMagic)); }
constexpr uint64_t kPage = 4096;

struct Header {
  char magic[8];
  uint32_t format;
  uint32_t reserved;
  uint64_t metadata_offset, metadata_bytes, weights_offset, weights_bytes, checksum;
  uint64_t padding;
};
static_assert(sizeof(Header) == 64);

uint64_t round_up(uint64_t v, uint64_t to) { return (v + to - 1) / to * to; }

// Gives each weight its place; equal content shares a block. Returns the section's size.
uint64_t place_weights(Program* program, const std::vector<Tensor>& tensors) {
  uint64_t at = 0;
  std::unordered_map<uint64_t, size_t> by_content;
  std::vector<const Tensor*> all;
  for (const Tensor& t : tensors) all.push_back(&t);
  const std::vector<uint64_t> hashes = content_hashes(all);
  std::vector<size_t> own;
  std::vector<std::pair<size_t, size_t>> shared;  // with an earlier one
  for (size_t k = 0; k < tensors.size(); ++k) {
    Weight& w = program->weights[k];
    const auto bytes = tensors[k].bytes();
    w.dtype = tensors[k].dtype();
    w.dims = tensors[k].dims();
    w.bytes = bytes.size();
    w.content_hash = hashes[k];
    auto [it, fresh] = by_content.emplace(w.content_hash, k);
    if (!fresh && tensors[it->second].same_content(tensors[k])) {
      w.offset = program->weights[it->second].offset;
      shared.emplace_back(k, it->second);
      continue;
    }
    own.push_back(k);
    w.offset = at;
    at = round_up(at + w.bytes, 64);
  }
  for_each_of(at, own.size(), [&](size_t k) {
    const auto bytes = tensors[own[k]].bytes();
    program->weights[own[k]].hash = hash_bytes(bytes.data(), bytes.size());
  });
  for (const auto& [k, first] : shared) program->weights[k].hash = program->weights[first].hash;
  return at;
}

// Where the weights' blocks stand behind the head: each block once, and the zeros that fill the last one.
struct Piece {
  uint64_t to, bytes;
  const std::byte* from;
};
std::vector<Piece> pieces_of(uint64_t base, const Program& program, const std::vector<Tensor>& tensors) {
  constexpr uint64_t kPiece = uint64_t{16} << 20;
  std::vector<Piece> pieces;
  uint64_t end = 0;
  for (size_t k = 0; k < tensors.size(); ++k) {
    const Weight& w = program.weights[k];
    if (w.bytes == 0 || w.offset < end) continue;  // nothing, or it shares an earlier block
    const std::byte* from = tensors[k].bytes().data();
    for (uint64_t at = 0; at < w.bytes; at += kPiece)
      pieces.push_back({base + w.offset + at, std::min(kPiece, w.bytes - at), from + at});
    end = w.offset + w.bytes;
  }
  static constexpr std::byte kZeros[64] = {};
  if (end % 64) pieces.push_back({base + end, 64 - end % 64, kZeros});
  return pieces;
}

// Whether a file of this name is this engine, compared byte by byte except for what fills up blocks: a build from the
// cache often makes the engine that is there.
bool holds_already(const std::string& path, const EngineDraft& draft, const std::vector<Tensor>& tensors) {
  const auto file = MappedFile::open(path);
  if (!file.ok()) return false;
  const std::span<const std::byte> bytes = file->bytes();
  const Program& program = draft.program;
  uint64_t end = draft.head.size();
  const std::vector<Piece> pieces = pieces_of(end, program, tensors);
  for (const Piece& p : pieces) end = std::max(end, p.to + p.bytes);
  if (bytes.size() != end || std::memcmp(bytes.data(), draft.head.data(), draft.head.size()) != 0) return false;
  std::atomic<bool> same = true;
  for_each_of(end, pieces.size(), [&](size_t k) {
    if (same && std::memcmp(bytes.data() + pieces[k].to, pieces[k].from, pieces[k].bytes) != 0) same = false;
  });
  return same && file->check().ok();
}

// A file that has the wanted bytes already: modified now, and on the disk. Errors: kIo.
Status renew(const std::string& path) {
  PERI_ASSIGN(const Fd fd, open_file(path));
  if (::futimens(fd.get(), nullptr) != 0) return os_error("set the time of", path);
  if (::fsync(fd.get()) != 0) return os_error("write to the disk", path);
  return Ok{};
}

// The blocks of the weights, on two threads: copying into the page cache costs more than a disk takes to write it.
Status write_weights(AtomicFile& file, uint64_t base, const Program& program, const std::vector<Tensor>& tensors) {
  const std::vector<Piece> pieces = pieces_of(base, program, tensors);
  Status done = Ok{};
  std::mutex mutex;
  ThreadPool pool(pieces.size() > 2 ? 2 : 1);
  pool.run(static_cast<int64_t>(pieces.size()), [&](int64_t task, int) {
    const Piece& p = pieces[static_cast<size_t>(task)];
    Status written = file.write_at(p.to, p.from, p.bytes);
    const std::lock_guard<std::mutex> lock(mutex);
    if (done.ok() && !written.ok()) done = std::move(written);
  });
  return done;
}
}  // namespace

const FileKind kEngineFile{"an engine", begins_like_engine, false};

uint64_t engine_checksum(std::span<const std::byte> file, uint64_t metadata_offset, uint64_t metadata_bytes) {
  Hasher h;
  h.add_bytes(file.data(), offsetof(Header, checksum));
  h.add_bytes(file.data() + metadata_offset, metadata_bytes);
  return h.digest();
}

Result<EngineDraft> draft_engine(Program program, const std::vector<Tensor>& tensors) {
  PERI_CHECK(program.weights.size() == tensors.size(), "one tensor for each weight");
  const uint64_t weight_bytes = place_weights(&program, tensors);
  Status sound = check_program(program, weight_bytes);
  if (!sound.ok())
    return internal_error("the backend made a program that does not check: %s", sound.error().text().c_str());
  const std::string metadata = encode_program(program);
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.format = kEngineFormat;
  header.metadata_offset = sizeof(Header);
  header.metadata_bytes = metadata.size();
  header.weights_offset = round_up(sizeof(Header) + metadata.size(), kPage);
  header.weights_bytes = weight_bytes;
  Hasher h;
  h.add_bytes(&header, offsetof(Header, checksum));
  h.add_bytes(metadata.data(), metadata.size());
  header.checksum = h.digest();
  EngineDraft out{std::move(program), std::string(reinterpret_cast<const char*>(&header), sizeof header) + metadata,
                  header.checksum};
  out.head.resize(header.weights_offset, '\0');
  return out;
}

Status write_engine(const std::string& path, const EngineDraft& draft, const std::vector<Tensor>& tensors) {
  if (holds_already(path, draft, tensors) && renew(path).ok()) return Ok{};
  PERI_ASSIGN(AtomicFile file, AtomicFile::create(path));
  PERI_TRY(file.write(draft.head));
  PERI_TRY(write_weights(file, draft.head.size(), draft.program, tensors));
  return file.commit();
}

Status write_engine(const std::string& path, Program program, const std::vector<Tensor>& tensors) {
  PERI_ASSIGN(const EngineDraft draft, draft_engine(std::move(program), tensors));
  return write_engine(path, draft, tensors);
}

uint64_t engine_hash(std::span<const std::byte> file) {
  PERI_CHECK(file.size() >= sizeof(Header), "the file was loaded");
  Header h;
  std::memcpy(&h, file.data(), sizeof h);
  return h.checksum;
}

Result<AssembledEngine> assemble_engine(Program program, const std::vector<Tensor>& tensors) {
  PERI_CHECK(program.weights.size() == tensors.size(), "one tensor for each weight");
  const uint64_t size = place_weights(&program, tensors);
  PERI_ASSIGN(Tensor block, Tensor::zeros(DType::kU8, {static_cast<int64_t>(size)}));
  for (size_t k = 0; k < tensors.size(); ++k)
    if (tensors[k].bytes().size())
      std::memcpy(block.mutable_data() + program.weights[k].offset, tensors[k].data(), tensors[k].bytes().size());
  AssembledEngine out{std::move(program), {}, nullptr};
  auto kept = std::make_shared<Tensor>(std::move(block));
  out.weight_bytes = kept->bytes();
  out.keep = kept;
  return out;
}

Result<Program> parse_engine(std::span<const std::byte> file, std::span<const std::byte>* weights) {
  Header h;
  if (file.size() < sizeof h)
    return invalid("not an engine: shorter than a header")
        .but_found(counted(static_cast<int64_t>(file.size()), "byte"));
  std::memcpy(&h, file.data(), sizeof h);
  if (std::memcmp(h.magic, kMagic, sizeof kMagic) != 0)
    return invalid("not an engine file").advise("make one with: peri build MODEL -o ENGINE");
  if (h.format != kEngineFormat)
    return refused("engine format %u", h.format)
        .expecting(format("format %u", kEngineFormat))
        .advise("build the engine again with this version: peri build MODEL -o ENGINE");
  if (h.metadata_offset != sizeof h || h.metadata_bytes > file.size() - sizeof h || h.reserved != 0 || h.padding != 0)
    return invalid("the engine is cut or damaged: its metadata does not fit the file")
        .but_found(counted(static_cast<int64_t>(file.size()), "byte"))
        .advise("copy it again, or build it again");
  if (h.weights_offset % kPage || h.weights_offset < sizeof h + h.metadata_bytes ||
      h.weights_offset > round_up(sizeof h + h.metadata_bytes, kPage) || h.weights_offset > file.size() ||
      h.weights_bytes > file.size() - h.weights_offset)
    return invalid("the engine is cut or damaged: its weights do not fit the file")
        .but_found(counted(static_cast<int64_t>(file.size()), "byte"))
        .advise("copy it again, or build it again");
  if (h.weights_offset + h.weights_bytes != file.size())
    return invalid("bytes follow the end of the engine").but_found(counted(static_cast<int64_t>(file.size()), "byte"));
  if (engine_checksum(file, h.metadata_offset, h.metadata_bytes) != h.checksum)
    return invalid("the engine is damaged: its checksum does not fit").advise("build it again");
  *weights = h.weights_bytes ? file.subspan(h.weights_offset, h.weights_bytes) : std::span<const std::byte>{};
  PERI_ASSIGN(Program program, decode_program(file.subspan(h.metadata_offset, h.metadata_bytes)));
  PERI_TRY(check_program(program, h.weights_bytes));
  return program;
}

namespace {
// Tells an engine's bytes from others by the sums that were read first.
struct EngineSums {
  uint64_t checksum = 0, metadata_bytes = 0, weights_offset = 0;
  struct Block {
    uint64_t offset, bytes, hash;
  };
  std::vector<Block> blocks;

  EngineSums(std::span<const std::byte> file, const Program& program) {
    Header h;
    std::memcpy(&h, file.data(), sizeof h);
    checksum = h.checksum;
    metadata_bytes = h.metadata_bytes;
    weights_offset = h.weights_offset;
    for (const Weight& w : program.weights) blocks.push_back({w.offset, w.bytes, w.hash});
  }
  bool operator()(std::span<const std::byte> file) const {
    if (engine_hash(file) != checksum || engine_checksum(file, sizeof(Header), metadata_bytes) != checksum)
      return false;
    const auto weights = file.subspan(weights_offset);
    return std::all_of(blocks.begin(), blocks.end(),
                       [&](const Block& b) { return hash_bytes(weights.data() + b.offset, b.bytes) == b.hash; });
  }
};
}  // namespace

Result<LoadedEngine> load_engine(const std::string& path) {
  PERI_ASSIGN(MappedFile mapped, MappedFile::open(path));
  LoadedEngine out;
  auto program = parse_engine(mapped.bytes(), &out.weight_bytes);
  PERI_TRY(mapped.check());
  if (program.ok()) mapped.recognize(EngineSums(mapped.bytes(), *program));
  out.file = std::make_shared<const MappedFile>(std::move(mapped));
  if (!program.ok()) return std::move(program).error().in_file(path);
  out.program = std::move(program).value();
  return out;
}

bool looks_like_engine(const std::string& path) {
  auto fd = open_file(path);
  if (!fd.ok()) return false;
  auto mapped = MappedFile::map(*fd, path);
  return mapped.ok() && begins_like_engine(mapped->text());
}

Status check_weights(const LoadedEngine& engine) {
  for (const Weight& w : engine.program.weights) {
    const auto bytes = engine.weight_bytes.subspan(w.offset, w.bytes);
    if (hash_bytes(bytes.data(), bytes.size()) != w.hash)
      return invalid("weight '%s' is damaged: its hash does not fit", w.name.c_str())
          .in_file(engine.file->name())
          .advise("build the engine again");
  }
  return engine.file->check();
}

}  // namespace peri::plan
