// peri run: one inference of a model or engine on files or seeded inputs.
#include "base/json.hpp"
#include "cli/core/model.hpp"

namespace peri::cli {
namespace {

Result<Outcome> run(const Arguments& arguments) {
  Progress progress(arguments.has("--quiet"));
  PERI_ASSIGN(const Opened opened, open_model(arguments, arguments.positional[0], &progress));
  progress.clear();
  const plan::Program& program = opened.engine->program();
  PERI_ASSIGN(const std::vector<Tensor> inputs, read_inputs(arguments, program, std::nullopt));
  PERI_ASSIGN(auto session, runtime::Session::create(opened.engine));
  PERI_ASSIGN(const std::vector<Tensor> outputs, session->run(inputs));
  if (opened.file) PERI_TRY(opened.file->check());
  Outcome out;
  JsonWriter w;
  w.begin_object().key("outputs").begin_object();
  for (size_t k = 0; k < outputs.size(); ++k) {
    w.field(program.outputs[k].name, tensor_type_text(outputs[k]));
    out.summary += (k ? ", " : "") + program.outputs[k].name + " " + tensor_type_text(outputs[k]);
  }
  w.end_object().end_object();
  out.json = w.take();
  if (arguments.has("--output-dir")) PERI_TRY(write_outputs(arguments.get("--output-dir"), program, outputs));
  return out;
}
}  // namespace

extern const Entry run_entry;
const Entry run_entry{{
    .name = "run",
    .summary = "run a model or an engine once",
    .positional = "MODEL|ENGINE",
    .min_positional = 1,
    .max_positional = 1,
    .flags = build_flags({{"--input", "-i", "NAME=FILE", "an input: a .npy or .pb file, or random:SEED", true}, {"--output-dir", "", "DIR", "write every output to DIR/NAME.npy and an index outputs.json"}}),
    .details = "example:\n  peri run models/digits_cnn.onnx --input image=random:7 --output-dir build/out",
    .run = run,
}};

}  // namespace peri::cli
