// Opens and uses the sections of a text model's engine.
#include "build/text.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/plural.hpp"
#include "compile/other_files.hpp"
#include "hf/import.hpp"
#include "hf/texts.hpp"
#include "onnx/import.hpp"

namespace peri::build {

namespace {
// `why` a folder's own is not used; "": it has none.
Error no_tokenizer(std::string_view why = "") {
  Error error = usage("this model has no tokenizer");
  if (why.empty())
    return std::move(error).advise(
        "give its inputs as tensors, or build from a Hugging Face folder with tokenizer.json");
  return std::move(error).but_found(why).advise(
      "give its inputs as tensors, or build from a folder with a tokenizer.json that is read: WordPiece with BERT's "
      "normalisation");
}

const std::string* section(const plan::Program& program, std::string_view name) {
  for (const plan::Section& s : program.sections)
    if (s.name == name) return &s.bytes;
  return nullptr;
}

// The texts as the elements of an input, along its first axis that is open or has their number; other open axes are 1.
Result<Tensor> string_input(const plan::Port& port, std::span<const std::string> texts) {
  const int64_t count = std::ssize(texts);
  std::vector<int64_t> dims;
  bool placed = count == 1;
  for (const Dim& d : port.shape) {
    const bool holds = !placed && (!d.is_const() || d.value() == count);
    dims.push_back(holds ? count : d.is_const() ? d.value() : 1);
    placed |= holds;
  }
  int64_t room = 1;
  for (const int64_t d : dims) room = d > count || room > count ? 0 : room * d;
  if (room != count)
    return usage("input '%s' does not hold %s", port.name.c_str(), counted(count, "text").c_str())
        .expecting(std::string(dtype_name(port.dtype)) + shape_text(port.shape));
  return Tensor::strings(std::move(dims), {texts.begin(), texts.end()});
}
}  // namespace

Result<TextModel> TextModel::of(const plan::Program& program) {
  const std::string* tokenizer = section(program, text::kTokenizerSection);
  const std::string* spec = section(program, text::kPipelineSection);
  if (!tokenizer || !spec) {
    const std::string* why = section(program, text::kNoTokenizerSection);
    return no_tokenizer(why ? *why : "");
  }
  PERI_ASSIGN(text::TextPipeline pipeline, text::TextPipeline::from_sections(*tokenizer, *spec));
  return TextModel(std::move(pipeline));
}

Result<std::vector<Tensor>> TextModel::inputs(const plan::Program& program, std::span<const std::string> texts,
                                              const Prompt& prompt) const {
  std::optional<std::string_view> before;
  if (prompt.text) before = *prompt.text;
  if (prompt.name) {
    PERI_ASSIGN(before, pipeline_.prompt_named(*prompt.name));
  }
  PERI_ASSIGN(const auto named, pipeline_.inputs(texts, before));
  std::vector<Tensor> out;
  for (const plan::Port& port : program.inputs) {
    for (const auto& [name, tensor] : named)
      if (name == port.name) out.push_back(tensor);
    if (out.size() != static_cast<size_t>(&port - program.inputs.data()) + 1)
      return invalid("no text input answers to this name").at_node(port.name);
  }
  return out;
}

Status TextModel::check(const Prompt& prompt) const {
  if (!prompt.name) return Ok{};
  const auto named = pipeline_.prompt_named(*prompt.name);
  return named.ok() ? Status(Ok{}) : Status(named.error());
}

Result<size_t> TextModel::answer(const plan::Program& program) const {
  for (size_t k = 0; k < program.outputs.size(); ++k) {
    const plan::Port& port = program.outputs[k];
    if (port.name == pipeline_.spec().output && port.dtype == DType::kF32 && port.shape.size() == 2) return k;
  }
  return unsupported("no output answers a text as a whole").expecting(pipeline_.spec().output + " f32[n,m]");
}

Status check_takes_texts(const std::string& model) {
  std::error_code unknown;
  if (!std::filesystem::exists(model, unknown)) return Ok{};  // whoever opens it says that
  if (!hf::is_folder(model)) {
    if (std::optional<Error> other = compile::other_file(model)) return std::move(*other);
    const auto survey = onnx::survey_model(model);
    const auto strings = [](const onnx::PortInfo& p) { return p.type.dtype == DType::kString; };
    if (!survey.ok() || std::ranges::any_of(survey->inputs, strings)) return Ok{};  // the build says what is wrong
    return no_tokenizer().in_file(model);
  }
  PERI_ASSIGN(const hf::Folder folder, hf::read_folder(model));
  if (const std::optional<Error> unread = hf::unread_vocabulary(folder))
    return usage("this model has no tokenizer that is read")
        .in_file(unread->file)
        .expecting(unread->expected)
        .advise(unread->remedy);
  if (folder.tokenizer.empty()) return no_tokenizer().in_file(model);
  if (!folder.onnx.empty())
    if (const auto survey = onnx::survey_model(folder.onnx); survey.ok())
      for (const onnx::PortInfo& p : survey->inputs)
        if (const auto why = hf::unfit_for_texts(p.name, p.type))
          return usage("this model takes no texts, as %s", why->c_str())
              .in_file(folder.onnx)
              .advise("give its inputs as tensors");
  const auto tokenizer = text::Tokenizer::from_json(folder.tokenizer);
  if (tokenizer.ok() || tokenizer.error().kind != ErrorKind::kUnsupported) return Ok{};  // the import tells the rest
  Error why = tokenizer.error();
  why.remedy.clear();  // ours says both ways out
  return no_tokenizer(std::move(why).in_file(folder.path + "/tokenizer.json").text()).in_file(model);
}

Result<std::vector<Tensor>> text_inputs(const plan::Program& program, std::span<const std::string> texts,
                                        const Prompt& prompt) {
  const bool strings = program.inputs.size() == 1 && program.inputs[0].dtype == DType::kString;
  if (strings && !section(program, text::kTokenizerSection)) {
    if (prompt.text || prompt.name)
      return usage("a prompt stands before texts of a tokenizer, and this model takes strings").advise("leave it out");
    PERI_ASSIGN(Tensor t, string_input(program.inputs[0], texts));
    std::vector<Tensor> out;
    out.push_back(std::move(t));
    return out;
  }
  PERI_ASSIGN(const TextModel model, TextModel::of(program));
  return model.inputs(program, texts, prompt);
}

std::vector<double> text_similarity(const plan::Program& program, std::span<const Tensor> outputs) {
  const std::string* json = section(program, text::kPipelineSection);
  if (!json) return {};
  const Result<text::PipelineSpec> spec = text::PipelineSpec::from_json(*json);
  if (!spec.ok()) return {};
  std::vector<double> out;
  for (size_t k = 0; k < outputs.size(); ++k) {
    const Tensor& t = outputs[k];
    if (program.outputs[k].name != spec->output || t.rank() != 2 || t.dtype() != DType::kF32) continue;
    const int64_t rows = t.dims()[0], width = t.dims()[1];
    const auto dot = [&](int64_t a, int64_t b) {
      double sum = 0;
      for (int64_t i = 0; i < width; ++i) sum += t.f64(a * width + i) * t.f64(b * width + i);
      return sum;
    };
    for (int64_t a = 0; a < rows; ++a)
      for (int64_t b = 0; b < rows; ++b) out.push_back(dot(a, b) / std::sqrt(dot(a, a) * dot(b, b)));
  }
  return out;
}

}  // namespace peri::build
