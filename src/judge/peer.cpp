// A script that runs ONNX Runtime, the process that executes it, and the files between the two.
#include "judge/peer.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/knobs.hpp"
#include "base/npy.hpp"
#include "base/system_text.hpp"
#include "base/this_program.hpp"
#include "compile/compile.hpp"
#include "judge/difference.hpp"
#include "judge/nudged.hpp"

namespace peri::judge {

namespace {
namespace fs = std::filesystem;

constexpr int kMissingPackage = 42, kMissingPort = 43, kNotLoaded = 44;  // the script's exit codes

constexpr const char* kScript = R"py(
import json, os, shutil, sys, threading, time
model, folder, threads, parent = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
def end_with_parent():  # a signal ends it without a word to us
    while os.getppid() == parent:
        time.sleep(0.05)
    shutil.rmtree(folder, True)
    os._exit(1)
threading.Thread(target=end_with_parent, daemon=True).start()
try:
    import numpy as np, onnxruntime as ort
except ImportError as missing:
    print(missing, file=sys.stderr)
    sys.exit(42)
with open(os.path.join(folder, "names.json")) as f:
    names = json.load(f)
options = ort.SessionOptions()
options.intra_op_num_threads, options.log_severity_level = threads, 3
# Products with weights of 4 bits in float32: by default the CPU rounds their other side to 8 bits.
options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
try:
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
except Exception as refused:
    print(" ".join(str(refused).split()), file=sys.stderr)
    sys.exit(44)
def constant(port, text):  # an input that --fix made one: its text as the model's type
    words, name = text.split(","), port.type[len("tensor("):-1]
    if name == "bool":
        words = [word in ("true", "1") for word in words]
    kind = {"float": np.float32, "double": np.float64, "string": object}.get(name) or np.dtype(name)
    values = np.array(words).astype(kind)
    return np.full(port.shape, values[0]) if len(words) == 1 else values.reshape(port.shape)
ports, fixed = {port.name: port for port in session.get_inputs()}, {}
def check(ours, theirs):  # ours of a sequence's elements are named after it
    for name in ours:
        if name in theirs:
            continue
        whole = next((port for port in theirs.values() if name.startswith(port.name + ".")), None)
        print(f"'{name}' is an element of '{whole.name}', a {whole.type}, whose elements are not compared with ONNX Runtime's" if whole
              else f"the model has no '{name}', but {', '.join(theirs)}", file=sys.stderr)
        sys.exit(43)
check(names["inputs"], ports)
check(names["outputs"], {port.name: port for port in session.get_outputs()})
if names["fixed"]:  # also of inputs that have a default value
    ports |= {port.name: port for port in session.get_overridable_initializers()}
for line in names["fixed"]:  # NAME=VALUE: the longest name of an input
    name = max((n for n in ports if line.startswith(n + "=")), key=len)
    fixed[name] = constant(ports[name], line[len(name) + 1:])
floats = {"tensor(float16)": np.float16, "tensor(float)": np.float32, "tensor(double)": np.float64}
ours = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
def cast(value, to):  # --io-dtype made ports of another float type than the model's
    return value.astype(to) if to and isinstance(value, np.ndarray) and value.dtype.kind == "f" else value
for k in range(names["sets"]):
    at = lambda side, i: os.path.join(folder, f"{k}_{side}_{i}.npy")
    feed = {name: cast(np.load(at("input", i)), floats.get(getattr(ports[name], "type", None))) for i, name in enumerate(names["inputs"])} | fixed
    for i, value in enumerate(session.run(names["outputs"], feed)):
        if isinstance(value, list) and value and isinstance(value[0], dict):  # of ZipMap: ours is a tensor, its columns sorted
            value = [[row[label] for label in sorted(row)] for row in value]
        value = cast(np.asarray(value), ours.get(names["types"][i]))
        np.save(at("output", i), value.astype(np.str_) if value.dtype == object else value)
)py";

// A folder that nobody else can see, removed with its owner.
struct Scratch {
  std::string path;
  ~Scratch() {
    std::error_code ignored;
    if (!path.empty()) fs::remove_all(path, ignored);
  }
};
Result<std::unique_ptr<Scratch>> make_scratch() {
  std::error_code failed;
  const fs::path temporary = fs::temp_directory_path(failed);
  std::string name = (failed ? fs::path("/tmp") : temporary) / "peri_verify_XXXXXX";
  if (!mkdtemp(name.data())) return os_error("make the folder", name);
  auto scratch = std::make_unique<Scratch>();
  scratch->path = name;
  return scratch;
}

// Which Python: the knob's, that of the project this program was built in, or the first in PATH.
std::string python() {
  if (const std::optional<std::string> named = knob(Knob::kPython); named && !named->empty()) return *named;
  const Result<std::string> self = program_path();
  if (!self.ok()) return "python3";
  const fs::path own = fs::path(*self).parent_path().parent_path().parent_path() / ".venv/bin/python";
  return access(own.c_str(), X_OK) == 0 ? own.string() : "python3";
}

// Exit code of `words`, its errors in the file `said`; kUnsupported if it cannot be started.
Result<int> run_process(std::vector<std::string> words, const std::string& said) {
  std::vector<char*> raw;
  for (std::string& w : words) raw.push_back(w.data());
  raw.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, said.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, raw[0], &files, nullptr, raw.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (failed)
    return unsupported("cannot start Python: %s", strerror(failed))
        .in_file(words[0])
        .advise("name one that has the package onnxruntime: PERI_PYTHON=FILE");
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return os_error("wait for", words[0]);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string last_line(const std::string& file) {
  auto text = read_file(file, size_t{1} << 24);
  if (!text.ok()) return "";
  while (!text->empty() && text->back() == '\n') text->pop_back();
  return text->substr(text->rfind('\n') + 1);
}

Status check_types(std::span<const plan::Port> ports) {
  for (const plan::Port& p : ports)
    if (p.dtype != DType::kString &&
        (p.dtype == DType::kBF16 || dtype_bits(p.dtype) < 8 || (is_float(p.dtype) && dtype_bits(p.dtype) == 8)))
      return unsupported("ONNX Runtime's Python interface has no %s", std::string(dtype_name(p.dtype)).c_str())
          .at_node(p.name)
          .advise("verify against the float64 reference: leave --onnxruntime out");
  return Ok{};
}

std::string file_name(const Scratch& scratch, size_t set, const char* side, size_t k) {
  return scratch.path + "/" + std::to_string(set) + "_" + side + "_" + std::to_string(k) + ".npy";
}

Status write_sets(const Scratch& scratch, const plan::Program& program, std::span<const std::vector<Tensor>> sets) {
  JsonWriter w;
  w.begin_object().field("sets", static_cast<int64_t>(sets.size()));
  w.key("inputs").begin_array();
  for (const plan::Port& p : program.inputs) w.value(p.name);
  w.end_array().key("outputs").begin_array();
  for (const plan::Port& p : program.outputs) w.value(p.name);
  w.end_array().key("types").begin_array();
  for (const plan::Port& p : program.outputs) w.value(dtype_name(p.dtype));
  w.end_array().key("fixed").begin_array();
  if (const plan::Section* fixed = program.section(compile::kFixedSection))
    for (const std::string& line : parts_of(fixed->bytes, "\n")) w.value(line);
  w.end_array().end_object();
  PERI_TRY(write_file_atomic(scratch.path + "/names.json", w.take()));
  for (size_t n = 0; n < sets.size(); ++n)
    for (size_t k = 0; k < sets[n].size(); ++k) PERI_TRY(write_npy(file_name(scratch, n, "input", k), sets[n][k]));
  return Ok{};
}
}  // namespace

Result<std::vector<std::vector<Tensor>>> onnxruntime_outputs(const std::string& model, const plan::Program& program,
                                                             std::span<const std::vector<Tensor>> sets, int threads) {
  PERI_TRY(check_types(program.inputs));
  PERI_TRY(check_types(program.outputs));
  PERI_ASSIGN(const std::unique_ptr<Scratch> scratch, make_scratch());
  PERI_TRY(write_sets(*scratch, program, sets));
  const std::string interpreter = python(), said = scratch->path + "/said";
  PERI_ASSIGN(const int code, run_process({interpreter, "-c", kScript, model, scratch->path, std::to_string(threads),
                                           std::to_string(getpid())},
                                          said));
  if (code == kMissingPackage)
    return unsupported("its packages are missing: %s", last_line(said).c_str())
        .in_file(interpreter)
        .advise("pip install onnxruntime, or name a Python that has it: PERI_PYTHON=FILE");
  if (code == kMissingPort || code == kNotLoaded)
    return unsupported("%s%s", code == kNotLoaded ? "ONNX Runtime does not load it: " : "", last_line(said).c_str())
        .in_file(model)
        .advise("verify against the float64 reference: leave --onnxruntime out");
  if (const std::string why = last_line(said); code != 0)
    return invalid("ONNX Runtime gave no answer (exit code %d)%s", code, why.empty() ? "" : (": " + why).c_str())
        .in_file(model)
        .advise(why.empty() ? "see whether it runs there at all: " + interpreter + " -c 'import onnxruntime'" : "");
  std::vector<std::vector<Tensor>> out(sets.size());
  for (size_t n = 0; n < sets.size(); ++n)
    for (size_t k = 0; k < program.outputs.size(); ++k) {
      if (std::error_code unknown; !fs::exists(file_name(*scratch, n, "output", k), unknown))
        return unsupported("it ended well and wrote no answer: is it a Python?")
            .in_file(interpreter)
            .advise("name one that has the package onnxruntime: PERI_PYTHON=FILE");
      PERI_ASSIGN(Tensor t, read_npy(file_name(*scratch, n, "output", k), program.outputs[k].dtype));
      out[n].push_back(std::move(t));
    }
  return out;
}

Result<std::vector<double>> onnxruntime_moves(const std::string& model, const plan::Program& program,
                                              const std::vector<Tensor>& inputs, const std::vector<Tensor>& answers,
                                              int threads) {
  constexpr uint64_t kNudges = 12;  // each crosses about half of the ties
  std::vector<std::vector<Tensor>> sets;
  for (uint64_t seed = 1; seed <= kNudges; ++seed) {
    PERI_ASSIGN(sets.emplace_back(), nudged(inputs, seed));
  }
  PERI_ASSIGN(const auto moved, onnxruntime_outputs(model, program, sets, threads));
  std::vector<double> out(answers.size(), 0);
  for (const std::vector<Tensor>& other : moved)
    for (size_t k = 0; k < answers.size(); ++k) {
      const auto d = difference(answers[k], other[k], {});
      out[k] = std::max(out[k], d.ok() ? d->linf : INFINITY);
    }
  return out;
}

}  // namespace peri::judge
