// The engine file: a program and its weights on disk. Written whole or not at all; verified before any byte is
// believed; weights are mapped, not read.
//
//   offset 0    magic "PERIENG\n", u32 format version, u32 reserved 0, u64 metadata offset, u64 metadata bytes,
//               u64 weights offset, u64 weights bytes, u64 checksum (xxh3-64 of the header before it and the metadata)
//   offset 64   metadata: FlatBuffers table Program (program.fbs)
//   4096-aligned weight section: blocks at the 64-byte aligned offsets of Program::weights
#pragma once

#include <memory>
#include <span>

#include "base/file.hpp"
#include "base/file_uses.hpp"
#include "base/tensor.hpp"
#include "plan/program.hpp"

namespace peri::plan {

// 2: adds devices, blobs, and the dimensions that instances of a step depend on.
constexpr uint32_t kEngineFormat = 2;

// The bytes of an engine except its weights, of which it has offsets and hashes.
struct EngineDraft {
  Program program;
  std::string head;   // everything before the weight section
  uint64_t hash = 0;  // identifies the engine: it covers the metadata, and with it the hash of every weight
};
// Lays out the weights: sets offset, bytes and hashes of program.weights, one for each tensor; equal contents are
// stored once. The same program and tensors give the same bytes.
Result<EngineDraft> draft_engine(Program program, const std::vector<Tensor>& weights);
// Writes the file atomically; a file that is this engine already is not written again, only its time is set. Errors:
// kIo.
Status write_engine(const std::string& path, const EngineDraft& draft, const std::vector<Tensor>& weights);
Status write_engine(const std::string& path, Program program, const std::vector<Tensor>& weights);
// EngineDraft::hash of a loaded file.
uint64_t engine_hash(std::span<const std::byte> file);

struct LoadedEngine {
  Program program;
  std::shared_ptr<const MappedFile> file;
  std::span<const std::byte> weight_bytes;  // part of the mapped file
};
// Reads and verifies header, checksum, metadata (FlatBuffers verifier) and check_program(). Weight blocks are not read.
// Errors: kInvalid naming the fault (not an engine, another format version, truncated, corrupt), kIo.
Result<LoadedEngine> load_engine(const std::string& path);
// The same without a file: weights copied into one block of memory that `keep` owns.
struct AssembledEngine {
  Program program;
  std::span<const std::byte> weight_bytes;
  std::shared_ptr<const void> keep;
};
Result<AssembledEngine> assemble_engine(Program program, const std::vector<Tensor>& weights);
extern const FileKind kEngineFile;
// True if the file begins with an engine's magic.
bool looks_like_engine(const std::string& path);
// Recomputes the hash of every weight block; error naming the first that differs.
Status check_weights(const LoadedEngine& engine);

// The checksum of an engine's bytes, for tools and fuzzers that repair it. `file` must hold a whole header and
// metadata.
uint64_t engine_checksum(std::span<const std::byte> file, uint64_t metadata_offset, uint64_t metadata_bytes);
// The same verification over bytes in memory (for fuzzers and tests).
Result<Program> parse_engine(std::span<const std::byte> file, std::span<const std::byte>* weights);

// The metadata alone, encoded and decoded: also hashed as a program's choices.
std::string encode_program(const Program& program);
Result<Program> decode_program(std::span<const std::byte> bytes);

}  // namespace peri::plan
