// The weights of a model as one name space over one file or many shards.

#include <algorithm>
#include <set>

#include "base/json.hpp"
#include "base/path.hpp"
#include "base/remembered_file.hpp"
#include "hf/foreign.hpp"
#include "hf/safetensors.hpp"

namespace peri::hf {

namespace {
constexpr size_t kMaxShards = 1024;
constexpr size_t kMaxIndexBytes = size_t{128} << 20;
constexpr std::string_view kSingle = "model.safetensors";
constexpr std::string_view kIndex = "model.safetensors.index.json";
constexpr std::string_view kDamaged = "the file is cut, damaged or no safetensors file: download it again";
constexpr std::string_view kOtherModel =
    "the files belong to different models, or some are missing: download the folder again, as a whole";

// weight_map of the index: tensor → shard.
Result<std::map<std::string, std::string>> read_index(const Fd& fd, const std::string& name) {
  PERI_ASSIGN(const std::string text, read_file(fd, name, kMaxIndexBytes));
  if (std::optional<Error> foreign = foreign_content(std::as_bytes(std::span(text)))) return *std::move(foreign);
  PERI_ASSIGN(const Json index, parse_json(text));
  PERI_ASSIGN(const Json::Object* const map, index.get_object("weight_map"));
  if (map->empty()) return invalid("no tensor is listed").at_node("weight_map").advise(kOtherModel);
  std::map<std::string, std::string> out;
  for (const Json::Member& m : *map) {
    Result<std::string_view> shard = m.value.as_string();
    if (!shard.ok()) return std::move(shard).error().at_node(m.key);
    if (!shard->ends_with(".safetensors"))
      return unsupported("shard is not a safetensors file")
          .at_node(m.key)
          .but_found("\"" + std::string(shard->substr(0, 100)) + "\"")
          .advise("save the model with save_pretrained(..., safe_serialization=True)");
    if (shard->find('/') != shard->npos)
      return invalid("shard lies outside the folder")
          .at_node(m.key)
          .but_found("\"" + std::string(shard->substr(0, 100)) + "\"")
          .advise("put the shards beside the index, and their plain names into it");
    out.emplace(m.key, *shard);
  }
  return out;
}
}  // namespace

Status Weights::add_file(const Fd& fd, const std::string& name, bool remember) {
  PERI_ASSIGN(MappedFile mapped, MappedFile::map(fd, name));
  if (remember) peri::remember(mapped);
  auto file = std::make_shared<const MappedFile>(std::move(mapped));
  if (std::optional<Error> foreign = foreign_content(file->bytes())) return std::move(*foreign).in_file(name);
  Result<std::vector<TensorInfo>> tensors = parse_safetensors(file->bytes());
  PERI_TRY(file->check());
  if (!tensors.ok()) {
    const bool broken = tensors.error().kind == ErrorKind::kInvalid;
    return std::move(tensors).error().in_file(name).advise(broken ? kDamaged : "");
  }
  for (TensorInfo& info : *tensors) {
    const std::string key = info.name;
    const auto [at, fresh] = tensors_.emplace(key, Placed{std::move(info), files_.size()});
    if (!fresh)
      return invalid("tensor is in two shards")
          .in_file(name)
          .at_node(key)
          .but_found(files_[at->second.file]->name())
          .advise(kOtherModel);
  }
  files_.push_back(std::move(file));
  return Ok{};
}

Result<Weights> Weights::open_file(const std::string& path) {
  PERI_ASSIGN(const Fd fd, ::peri::open_file(path));
  Weights out;
  PERI_TRY(out.add_file(fd, path, false));
  return out;
}

Result<Weights> Weights::open_folder(const std::string& folder, bool remember) {
  Weights out;
  Result<Fd> single = open_beneath(folder, kSingle, Links::kHubCache);
  if (single.ok()) {
    PERI_TRY(out.add_file(*single, folder + "/" + std::string(kSingle), remember));
    return out;
  }
  if (stands_in(folder, kSingle)) return std::move(single).error();
  if (!stands_in(folder, kIndex)) return no_weights(folder);
  Result<Fd> index = open_beneath(folder, kIndex, Links::kHubCache);
  const std::string index_name = folder + "/" + std::string(kIndex);
  if (!index.ok()) return std::move(index).error();
  Result<std::map<std::string, std::string>> map = read_index(*index, index_name);
  if (!map.ok()) return std::move(map).error().in_file(index_name).advise(kOtherModel);
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : *map) shards.insert(shard);
  if (shards.size() > kMaxShards)
    return Error(ErrorKind::kMemory, format("more than %zu shards", kMaxShards)).in_file(index_name);
  for (const std::string& shard : shards) {
    Result<Fd> fd = open_beneath(folder, shard, Links::kHubCache);
    if (!fd.ok()) return std::move(fd).error().advise("it is a shard of " + index_name + ": download it too");
    PERI_TRY(out.add_file(*fd, folder + "/" + shard, remember));
  }
  for (const auto& [tensor, shard] : *map) {
    const auto at = out.tensors_.find(tensor);
    if (at == out.tensors_.end() || out.files_[at->second.file]->name() != folder + "/" + shard)
      return invalid("tensor is missing from its shard")
          .in_file(index_name)
          .at_node(tensor)
          .expecting("it in " + shard)
          .advise(kOtherModel);
  }
  return out;
}

std::vector<std::string_view> Weights::names() const {
  std::vector<std::string_view> out;
  for (const auto& [name, placed] : tensors_) out.push_back(name);
  return out;
}

const TensorInfo* Weights::find(std::string_view name) const {
  const auto at = tensors_.find(name);
  return at == tensors_.end() ? nullptr : &at->second.info;
}

Result<Tensor> Weights::tensor(std::string_view name) const {
  const auto at = tensors_.find(name);
  if (at == tensors_.end()) {
    Error missing = invalid("tensor is missing").at_node(name).advise(kOtherModel);
    if (files_.size() == 1) return std::move(missing).in_file(files_[0]->name());
    return missing;
  }
  const TensorInfo& t = at->second.info;
  const std::shared_ptr<const MappedFile>& file = files_[at->second.file];
  return Tensor::view(t.dtype, t.shape, file->bytes().subspan(t.offset, t.size), file);
}

uint64_t Weights::total_bytes() const {
  uint64_t sum = 0;
  for (const auto& [name, placed] : tensors_) sum += placed.info.size;
  return sum;
}

Status Weights::check() const {
  for (const auto& file : files_) PERI_TRY(file->check());
  return Ok{};
}

}  // namespace peri::hf
