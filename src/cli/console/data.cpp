// Inputs from files and seeds, outputs to files.
#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/npy.hpp"
#include "base/spelling.hpp"
#include "cli/console/answers.hpp"
#include "cli/console/arguments.hpp"
#include "cli/console/model.hpp"
#include "judge/seeded.hpp"
#include "onnx/tensor_file.hpp"

namespace peri::cli {

namespace {
Result<Tensor> read_tensor(const std::string& file) {
  if (file.ends_with(".npy")) return read_npy(file);
  if (file.ends_with(".pb")) {
    PERI_ASSIGN(auto named, onnx::read_tensor_file(file));
    return std::move(named.tensor);
  }
  return usage("an input file is a .npy or a .pb").in_file(file).advise("numpy.save writes a .npy");
}
}  // namespace

std::vector<compile::InputShape> input_shapes(const Arguments& arguments) {
  std::vector<compile::InputShape> out;
  for (const std::string& item : arguments.all("--input")) {
    const size_t eq = item.find('=');
    if (eq == std::string::npos || item.substr(eq + 1).starts_with("random:")) continue;
    if (const auto t = read_tensor(item.substr(eq + 1)); t.ok()) out.push_back({item.substr(0, eq), t->dims()});
  }
  return out;
}

Result<std::vector<Tensor>> read_inputs(const Arguments& arguments, const plan::Program& program,
                                        std::optional<uint64_t> fill_seed) {
  std::map<std::string, std::string> given;
  for (const std::string& item : arguments.all("--input")) {
    const size_t eq = item.find('=');
    if (eq == std::string::npos || eq == 0)
      return usage("--input is not NAME=FILE or NAME=random:SEED").but_found(item);
    if (!given.emplace(item.substr(0, eq), item.substr(eq + 1)).second)
      return usage("input '%s' is given twice", item.substr(0, eq).c_str());
  }
  std::string known;
  for (const plan::Port& p : program.inputs)
    known += (known.empty() ? "" : ", ") + p.name + " " + std::string(dtype_name(p.dtype)) + shape_text(p.shape);
  for (const auto& [name, file] : given) {
    std::vector<std::string_view> names;
    for (const plan::Port& p : program.inputs) names.push_back(p.name);
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    const std::string near = nearest(name, names);
    return usage("the model has no input '%s'", name.c_str())
        .advise(near.empty() ? "its inputs are: " + known : "did you mean '" + near + "'?");
  }
  std::vector<Tensor> out;
  std::optional<DimBinding> dims;
  for (const plan::Port& p : program.inputs) {
    auto it = given.find(p.name);
    std::string what = it == given.end() ? "" : it->second;
    uint64_t seed = fill_seed.value_or(0) + out.size();
    if (what.empty() && !fill_seed)
      return usage("input '%s' is not given", p.name.c_str())
          .expecting("--input " + p.name + "=FILE")
          .advise("the inputs are: " + known);
    const bool random = what.empty() || what.starts_with("random:");
    if (what.starts_with("random:")) {
      const auto [end, code] = std::from_chars(what.data() + 7, what.data() + what.size(), seed);
      if (code != std::errc() || end != what.data() + what.size())
        return usage("the seed is not a whole number from 0 to 18446744073709551615").but_found(what);
    }
    if (!random) {
      PERI_ASSIGN(Tensor t, read_tensor(what));
      if (t.dtype() != p.dtype && arguments.has("--cast")) {
        const std::string had = tensor_type_text(t);
        auto made = cast(t, p.dtype);
        if (!made.ok()) return std::move(made).error().in_file(what);
        t = std::move(made).value();
        if (!arguments.has("--quiet"))
          say("note: input '" + p.name + "' is cast from " + had + " to " + tensor_type_text(t));
      }
      if (t.dtype() != p.dtype)
        return usage("input '%s' has another type", p.name.c_str())
            .in_file(what)
            .expecting(std::string(dtype_name(p.dtype)) + shape_text(p.shape))
            .but_found(tensor_type_text(t))
            .advise("save it in that type, or let --cast convert it");
      out.push_back(std::move(t));
      continue;
    }
    if (!dims) {
      PERI_ASSIGN(dims, program_dims(arguments, program));
    }
    PERI_ASSIGN(Tensor t, judge::random_input(p, *dims, seed));
    out.push_back(std::move(t));
  }
  PERI_TRY(check_sizes_used(arguments, dims.has_value() || program.inputs.empty()));
  return out;
}

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
  FileUses files = file_uses(command, arguments);
  for (const plan::Port& p : program.outputs)
    files.writes("output '" + p.name + "'", dir + "/" + output_file(p), kNpyFile);
  files.writes("the index of the outputs", dir + std::string(kIndex), kIndexFile);
  return files.check(arguments.has("--force"));
}

Status write_outputs(const std::string& dir, const plan::Program& program, std::span<const Tensor> outputs) {
  std::error_code failed;
  std::filesystem::create_directory(dir, failed);
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
