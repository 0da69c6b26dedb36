// peri run: one inference of a model or engine on files or seeded inputs.
#include <algorithm>
#include <cmath>
#include <optional>

#include "base/json.hpp"
#include "build/text.hpp"
#include "cli/console/answers.hpp"
#include "cli/console/model.hpp"
#include "cli/console/pictures.hpp"
#include "cli/console/texts.hpp"
#include "plan/class_names.hpp"

namespace peri::cli {

extern const Entry run_entry;

namespace {

constexpr size_t kMaxCompared = 200;  // number of texts: comparisons grow with its square

// The most similar text of each text, as a JSON matrix and in words. A text whose vector is zero, or no number, is like
// none: cosines with it are no numbers.
void write_similarity(JsonWriter& w, const std::vector<double>& cosines, const std::vector<std::string>& texts,
                      std::string* summary) {
  const size_t n = texts.size();
  if (cosines.size() != n * n) return;
  w.key("similarity").begin_array();
  for (size_t a = 0; a < n; ++a) {
    w.begin_array();
    std::optional<size_t> best;
    for (size_t b = 0; b < n; ++b) {
      const double cosine = cosines[a * n + b];
      w.value(cosine);
      if (b != a && !std::isnan(cosine) && (!best || cosine > cosines[a * n + *best])) best = b;
    }
    w.end_array();
    *summary += best ? format("; text %zu is most like text %zu (%.3f)", a + 1, *best + 1, cosines[a * n + *best])
                     : format("; text %zu is like none", a + 1);
  }
  w.end_array();
}

// The result of --validate: which step or input first contained NaN or Inf, and whether an output contains them, which
// is a failure.
void take_validation(const NumberWatch& watch, const plan::Program& program, std::span<const Tensor> inputs,
                     std::span<const Tensor> outputs, JsonWriter& w, Outcome* out) {
  std::string first = watch.found();
  for (size_t k = inputs.size(); k-- > 0;)
    if (const std::string have = no_numbers(inputs[k]).text(); !have.empty())
      first = "input '" + program.inputs[k].name + "' holds " + have;
  for (const Tensor& t : outputs)
    if (!no_numbers(t).text().empty()) out->code = exit_code(ErrorKind::kAccuracy);
  w.field("first_without_number", first);
  out->summary += first.empty() ? "; no step makes NaN or Inf" : "; " + first;
}

// Flags about pictures require a picture.
Status check_pictures(const Arguments& arguments) {
  for (const std::string& item : arguments.all("--input"))
    if (is_picture(item)) {
      PERI_TRY(picture_terms(arguments));
      return Ok{};
    }
  for (const Flag& f : picture_flags())
    if (arguments.has(f.name))
      return usage("%s is for pictures, and no input is one", std::string(f.name).c_str())
          .expecting("--input NAME=FILE.png or .jpg")
          .advise("leave it out");
  return Ok{};
}

// Elements that were asked for are shown with --quiet too.
Page page_of(Arguments arguments, const Shown& shown) {
  if (shown.print || shown.top > 0) arguments.values.erase("--quiet");
  return Page(arguments);
}

Result<Outcome> run(const Arguments& arguments) {
  PERI_TRY(check_pictures(arguments));
  PERI_ASSIGN(const Shown shown, shown_of(arguments));
  PERI_TRY(check_texts(arguments));
  const std::vector<std::string> texts = arguments.all("--text");
  Progress progress(arguments.has("--quiet"));
  PERI_ASSIGN(const Opened opened, open_model(arguments, arguments.positional[0], &progress, texts.empty()));
  progress.clear();
  const plan::Program& program = opened.engine->program();
  PERI_TRY(check_outputs(run_entry.command, arguments, program));
  PERI_ASSIGN(const std::vector<Tensor> inputs,
              texts.empty() ? read_inputs(arguments, program, std::nullopt) : read_texts(arguments, program));
  std::vector<std::vector<int64_t>> input_dims;
  for (const Tensor& t : inputs) input_dims.push_back(t.dims());
  PERI_ASSIGN(const DimBinding dims, plan::bind_dims(program, input_dims));
  PERI_ASSIGN(auto session, runtime::Session::create(opened.engine));
  std::optional<NumberWatch> watch;
  if (arguments.has("--validate")) watch.emplace(session.get());
  PERI_ASSIGN(const std::vector<Tensor> outputs, session->run(inputs));
  if (opened.file) PERI_TRY(opened.file->check());
  note_untuned(arguments, opened, dims);
  Outcome out;
  JsonWriter w;
  w.begin_object().key("outputs").begin_object();
  for (size_t k = 0; k < outputs.size(); ++k) {
    w.field(program.outputs[k].name, tensor_type_text(outputs[k]));
    out.summary += (k ? ", " : "") + program.outputs[k].name + " " + tensor_type_text(outputs[k]);
  }
  w.end_object().key("answers").begin_object();
  const Page page = page_of(arguments, shown);
  PERI_ASSIGN(const plan::ClassNames classes, plan::class_names_of(program));
  const bool some_fit =
      std::any_of(outputs.begin(), outputs.end(), [&](const Tensor& t) { return fits_labels(t, shown); });
  for (size_t k = 0; k < outputs.size(); ++k) {
    w.key(program.outputs[k].name);
    Shown one = shown;
    if (some_fit && !fits_labels(outputs[k], shown)) one.labels.clear();  // they are of another output
    if (const auto own = classes.find(program.outputs[k].name); own != classes.end() && one.labels.empty() &&
                                                                outputs[k].rank() > 0 &&
                                                                outputs[k].dims().back() == std::ssize(own->second))
      one.labels = own->second;
    PERI_TRY(show_output(page, w, program.outputs[k].name, outputs[k], one));
  }
  w.end_object();
  if (watch) take_validation(*watch, program, inputs, outputs, w, &out);
  if (texts.size() > 1 && texts.size() <= kMaxCompared)
    write_similarity(w, build::text_similarity(program, outputs), texts, &out.summary);
  w.end_object();
  out.json = w.take();
  if (arguments.has("--output-dir")) PERI_TRY(write_outputs(arguments.get("--output-dir"), program, outputs));
  return out;
}
}  // namespace

const Entry run_entry{{
    .name = "run",
    .summary = "run a model or an engine once",
    .positional = "MODEL|ENGINE",
    .min_positional = 1,
    .max_positional = 1,
    .flags = build_flags(
        with_texts(
            {{"--input", "-i", "NAME=FILE",
              "an input: .npy, .npz, .pb, .png, .jpg, raw:TYPE:AxBxC:FILE, or random:SEED", true},
             {"--top-k", "", "K", "show the K largest elements along the last axis of each output, with --quiet too"},
             {"--print", "", "", "print every element of every output, with --quiet too; with --json also as 'values'"},
             {"--labels", "", "FILE",
              "with --top-k: file with a name for each class, one a line (default: the names that the model gives, if "
              "any)"},
             {"--cast", "", "",
              "convert inputs of another element type; floats are rounded, a value that does not fit is an error"},
             {"--validate", "", "",
              "name the first step that produces a NaN or an Inf; exit code 3 if an output contains one"},
             {"--check", "", "", "engines: recompute the hash of every weight first"},
             {"--output-dir", "", "DIR", "write every output to DIR/NAME.npy and an index outputs.json", false, nullptr,
              "", true}}),
        picture_flags()),
    .details = "example:\n  peri run models/digits_cnn.onnx --input image=random:7 --output-dir build/out",
    .run = run,
}};

}  // namespace peri::cli
