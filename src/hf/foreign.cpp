// How to recognise other formats, and how to convert each of them to a supported one.
#include "hf/foreign.hpp"

#include <algorithm>
#include <filesystem>
#include <vector>

namespace peri::hf {

namespace {

constexpr const char* kConvert =
    "where you trust it, export it to ONNX (torch.onnx.export), or a Hugging Face folder to safetensors: "
    "AutoModel.from_pretrained(FOLDER).save_pretrained(FOLDER, safe_serialization=True)";

Error pickle(std::string_view what) {
  return unsupported("this is %s; reading it could run code in it, so it is not read", std::string(what).c_str())
      .expecting("ONNX or safetensors")
      .advise(kConvert);
}

Error other(std::string_view what) {
  return unsupported("this is %s", std::string(what).c_str()).expecting("safetensors").advise(kConvert);
}

}  // namespace

std::optional<Error> foreign_content(std::span<const std::byte> beginning) {
  const std::string_view s(reinterpret_cast<const char*>(beginning.data()), std::min<size_t>(beginning.size(), 600));
  if (s.starts_with("PK\x03\x04")) return pickle("a zip archive, as PyTorch writes its pickles");
  // A pickle of protocol 2 to 5 begins with its number and an opcode, which no header length below 100 MB can be.
  if (s.size() >= 8 && s[0] == '\x80' && s[1] >= 2 && s[1] <= 5 && s.substr(4, 4) != std::string_view("\0\0\0\0", 4))
    return pickle("a Python pickle");
  if (s.size() > 262 && s.substr(257, 5) == "ustar") return pickle("a tar archive, as old PyTorch writes its pickles");
  if (s.starts_with("\x89HDF\r\n\x1a\n")) return other("an HDF5 file");
  if (s.starts_with("version https://git-lfs"))
    return invalid("not the file itself")
        .but_found("a pointer to a file of Git LFS")
        .advise("fetch the file itself: git lfs pull");
  if (s.starts_with("GGUF")) return other("a GGUF file");
  return std::nullopt;
}

std::optional<Error> foreign_name(std::string_view name) {
  for (const std::string_view end : {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".bin.index.json"})
    if (name.ends_with(end)) return pickle("a PyTorch pickle by its name");
  for (const std::string_view end : {".h5", ".msgpack", ".gguf", ".tflite", ".npz"})
    if (name.ends_with(end)) return other("a file of another format by its name");
  return std::nullopt;
}

Error no_weights(const std::string& folder) {
  std::vector<std::string> names;
  constexpr int kMaxLooked = 10000;
  std::error_code unreadable;
  std::filesystem::directory_iterator at(folder, unreadable);
  for (int n = 0; n < kMaxLooked && !unreadable && at != std::filesystem::directory_iterator(); ++n) {
    std::string name = at->path().filename().string();
    if (foreign_name(name)) names.push_back(std::move(name));
    at.increment(unreadable);
  }
  std::sort(names.begin(), names.end());
  if (!names.empty()) return std::move(*foreign_name(names[0])).in_file(folder + "/" + names[0]);
  return invalid("no weights in the folder")
      .in_file(folder)
      .expecting("model.safetensors, model.safetensors.index.json or an .onnx file")
      .advise("download them too, or give the folder that holds them");
}

}  // namespace peri::hf
