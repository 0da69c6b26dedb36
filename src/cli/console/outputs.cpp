// Writes outputs to files.
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/npy.hpp"
#include "base/utf8.hpp"
#include "cli/console/arguments.hpp"
#include "cli/console/model.hpp"

namespace peri::cli {

namespace {
std::string output_file(const plan::Port& port) { return percent_encode_name(port.name) + ".npy"; }
constexpr std::string_view kIndex = "/outputs.json";
const FileKind kIndexFile{"the index of another run", [](std::string_view head) {
                            return head.starts_with("{") && head.find(".npy\"") != std::string_view::npos;
                          }};
}  // namespace

Status check_outputs(const Command& command, const Arguments& arguments, const plan::Program& program) {
  if (!arguments.has("--output-dir")) return Ok{};
  const std::string dir = arguments.get("--output-dir");
  std::error_code unknown;
  if (std::filesystem::exists(dir, unknown) && !std::filesystem::is_directory(dir, unknown))
    return usage("--output-dir is a file").in_file(dir).advise("give a folder, or a name that is free");
  std::filesystem::path there = std::filesystem::absolute(dir, unknown);  // first existing parent of the folder
  while (!std::filesystem::exists(there, unknown) && there.has_relative_path()) there = there.parent_path();
  if (there.empty()) return io_error("cannot make the folder: the current folder is not there").in_file(dir);
  errno = std::filesystem::is_directory(there, unknown) ? 0 : ENOTDIR;
  if (errno != 0 || access(there.c_str(), W_OK | X_OK) != 0) {
    const std::string why = printable(there.string()) + ": " + std::generic_category().message(errno);
    return io_error("cannot %s the folder: %s",
                    there == std::filesystem::absolute(dir, unknown) ? "write into" : "make", why.c_str())
        .in_file(dir)
        .advise("give --output-dir a folder that this user may write into");
  }
  FileUses files = file_uses(command, arguments);
  for (const plan::Port& p : program.outputs)
    files.writes("output '" + p.name + "'", dir + "/" + output_file(p), kNpyFile);
  files.writes("the index of the outputs", dir + std::string(kIndex), kIndexFile);
  return files.check(arguments.has("--force"));
}

Status write_outputs(const std::string& dir, const plan::Program& program, std::span<const Tensor> outputs) {
  std::error_code failed;
  std::filesystem::create_directories(dir, failed);
  if (failed) return io_error("cannot make the folder: %s", failed.message().c_str()).in_file(dir);
  JsonWriter w(2);
  w.begin_object();
  for (size_t k = 0; k < outputs.size(); ++k) {
    const std::string file = output_file(program.outputs[k]);
    PERI_TRY(write_npy(behind_links(dir + "/" + file), outputs[k]));
    w.field(program.outputs[k].name, file);
  }
  w.end_object();
  return write_named_file(dir + std::string(kIndex), w.take() + "\n");
}

}  // namespace peri::cli
