// Texts instead of tensors: a text model's inputs from texts, and the similarity of its outputs.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor.hpp"
#include "plan/program.hpp"
#include "text/pipeline.hpp"

namespace peri::build {

// What stands before each text, where not the model's default prompt: a text, or the model's prompt of a name.
struct Prompt {
  std::optional<std::string> text = {}, name = {};
};

// The tokenizer in a program's engine, parsed once.
class TextModel {
 public:
  // kUsage if the program has none.
  static Result<TextModel> of(const plan::Program& program);
  // Tensors for the program's inputs, in their order. Errors: kUsage: the model has no prompt of that name.
  Result<std::vector<Tensor>> inputs(const plan::Program& program, std::span<const std::string> texts,
                                     const Prompt& prompt = {}) const;
  // kUsage: the model has no prompt of that name.
  Status check(const Prompt& prompt) const;
  // The index of the output that is the result for a text. kUnsupported if none is f32[n,m].
  Result<size_t> answer(const plan::Program& program) const;

 private:
  explicit TextModel(text::TextPipeline pipeline) : pipeline_(std::move(pipeline)) {}
  text::TextPipeline pipeline_;
};

// Checks before a build of `model`, an ONNX file or a folder, whether its engine can take texts. kUsage, naming the
// model: it has no tokenizer, or one that is not supported, and no input of strings.
Status check_takes_texts(const std::string& model);

// Tensors for the program's inputs, in their order, by the tokenizer in its engine; without one, the texts themselves
// for a program whose only input is strings, along its first axis that can hold them. kUsage for any other.
Result<std::vector<Tensor>> text_inputs(const plan::Program& program, std::span<const std::string> texts,
                                        const Prompt& prompt = {});

// Cosines between the rows of the output that is the result for a text: rows * rows values. Empty if it is not
// f32[n,m].
std::vector<double> text_similarity(const plan::Program& program, std::span<const Tensor> outputs);

}  // namespace peri::build
