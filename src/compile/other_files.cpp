// The first bytes of files. An ONNX file begins with a protobuf tag, which none of these does.
#include "compile/other_files.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "base/file.hpp"
#include "plan/engine_file.hpp"

namespace peri::compile {

namespace {
constexpr size_t kHead = 200;  // bytes that identify a kind of file

// "bench" of {"command":"bench",...}; empty: it is no result of a command.
std::string command_of(std::string_view head) {
  constexpr std::string_view kBegin = "{\"command\":\"";
  if (!head.starts_with(kBegin)) return "";
  head.remove_prefix(kBegin.size());
  return std::string(head.substr(0, head.find('"')));
}

Error no_model(const std::string& found) {
  return invalid("not a model").expecting("an ONNX file, a Hugging Face folder or an engine").but_found(found);
}

Error json_file(std::string_view head) {
  if (const std::string command = command_of(head); !command.empty()) {
    Error e = no_model("the result of a peri " + command);
    return command == "bench" ? std::move(e).advise("peri compare reads it: peri compare BEFORE.json AFTER.json")
                              : std::move(e).advise("give the model itself");
  }
  if (head.starts_with("{\n \"form"))
    return no_model("the proof of an engine").advise("peri explain ENGINE --proof FILE reads it");
  if (head.starts_with("{\n \"peri_lock\""))
    return no_model("a lock file").advise("peri build MODEL -o ENGINE --locked FILE takes it");
  return no_model("a JSON file").advise("of a Hugging Face model give the folder");
}

// What people have in place of an ONNX file.
struct Kind {
  size_t at;
  std::string_view begins, name, remedy;
};
constexpr std::string_view kExport = "export the model to ONNX: torch.onnx.export";
constexpr std::string_view kPicture = "it can be an input: peri run MODEL --input NAME=FILE";
constexpr Kind kKinds[] = {
    {0, "PK\x03\x04", "a zip archive, as PyTorch's checkpoints are", kExport},
    {0, "\x80\x02", "a pickle, as PyTorch's older checkpoints are", kExport},
    {0, "\x89HDF", "an HDF5 file, as Keras writes it", "export the model to ONNX: tf2onnx"},
    {4, "TFL3", "a TensorFlow Lite model", "export the model to ONNX: tf2onnx"},
    {5, std::string_view("\0\0\0{\"", 5), "a safetensors file, which holds weights alone",
     "give its Hugging Face folder, or export it to ONNX"},
    {0, "<?xml", "an XML file, as OpenVINO's models are", "give the ONNX file that it was made of"},
    {0, "\x89PNG", "a picture", kPicture},
    {0, "\xff\xd8\xff", "a picture", kPicture},
    {0, "\x1f\x8b", "a gzip archive", "unpack it first"},
    {0,
     "\x7f"
     "ELF",
     "a program or library", "give the model's file"}};

// OWNER/NAME, as models of the Hugging Face hub are called, where there is no such folder here.
std::optional<Error> hub_name(const std::string& path) {
  const size_t slash = path.find('/');
  if (slash == 0 || slash == path.npos || slash + 1 == path.size() || path.find('/', slash + 1) != path.npos)
    return std::nullopt;
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
  };
  for (size_t k = 0; k < path.size(); ++k)
    if (k != slash && !plain(path[k])) return std::nullopt;
  std::error_code unknown;
  if (path[0] == '.' || path.ends_with(".onnx") || path.ends_with(".engine") ||
      std::filesystem::exists(path.substr(0, slash), unknown))
    return std::nullopt;
  return Error(ErrorKind::kIo, "there is no such file or folder")
      .in_file(path)
      .expecting("an ONNX file or a folder on this machine")
      .advise("a model of the Hugging Face hub is downloaded first: hf download " + path + " --local-dir FOLDER (or " +
              "huggingface-cli download), then give FOLDER");
}
}  // namespace

std::optional<Error> other_file(const std::string& path) {
  const auto file = MappedFile::open(path);
  if (!file.ok()) return hub_name(path);
  const std::string_view head = file->text().substr(0, kHead);
  const auto told = [&](Error e) { return std::optional<Error>(std::move(e).in_file(path)); };
  if (head.starts_with('{')) return told(json_file(head));
  if (plan::kEngineFile.begins(head))
    return told(invalid("an engine, not a model")
                    .expecting("an ONNX file or a Hugging Face folder")
                    .advise("run, bench, verify, explain and inspect take the engine as it is"));
  if (head.starts_with("\x93NUMPY"))
    return told(no_model("a NumPy array").advise("it can be an input: peri run MODEL --input NAME=FILE.npy"));
  if (head.starts_with("version https://git-lfs"))
    return told(no_model("a pointer to a file of Git LFS").advise("fetch the file itself: git lfs pull"));
  for (const Kind& kind : kKinds)
    if (head.size() > kind.at && head.substr(kind.at).starts_with(kind.begins))
      return told(no_model(std::string(kind.name)).advise(std::string(kind.remedy)));
  if (head.starts_with("<!DOCTYPE") || head.starts_with("<html"))
    return told(no_model("a web page").advise("download the file again: the server sent a page in its place"));
  const auto shown = [](char c) { return (c >= ' ' && c < '\x7f') || c == '\n' || c == '\r' || c == '\t'; };
  if (!head.empty() && std::all_of(head.begin(), head.end(), shown))
    return told(no_model("a text").advise("give the model's file"));
  return std::nullopt;
}

}  // namespace peri::compile
