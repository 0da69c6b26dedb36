// Texts by the tokenizer of the model, behind the prompt that is given or named.
#include "cli/console/texts.hpp"

#include <algorithm>

#include "base/utf8.hpp"
#include "build/text.hpp"
#include "cli/console/model.hpp"

namespace peri::cli {

std::vector<Flag> with_texts(std::vector<Flag> flags) {
  flags.insert(
      std::ranges::find(flags, "--input", &Flag::name) + 1,
      {"--text", "", "TEXT",
       "text for a text model, tokenized by its own tokenizer, or for an input of strings; several form a batch",
       true});
  flags.push_back(
      {"--prompt", "", "TEXT", "put this before each text, in place of the model's default prompt; \"\" for nothing"});
  flags.push_back({"--prompt-name", "", "NAME",
                   "put the model's prompt of this name (config_sentence_transformers.json) before each text"});
  return flags;
}

Status check_texts(const Arguments& arguments) {
  for (const char* flag : {"--prompt", "--prompt-name"}) {
    if (!arguments.has(flag)) continue;
    if (!utf8_valid(arguments.get(flag))) return usage("%s is not valid UTF-8", flag).advise("convert it with iconv");
    if (!arguments.has("--text"))
      return usage("%s is for texts, and there is none", flag).expecting("--text TEXT").advise("leave it out");
  }
  if (arguments.has("--prompt") && arguments.has("--prompt-name"))
    return usage("--prompt and --prompt-name exclude each other").advise("leave one of them out");
  if (!arguments.has("--text")) return Ok{};
  if (arguments.has("--input")) return usage("--text makes all inputs: leave --input out");
  const std::vector<std::string> texts = arguments.all("--text");
  for (size_t k = 0; k < texts.size(); ++k)
    if (!utf8_valid(texts[k]))
      return usage("text %zu is not valid UTF-8", k + 1)
          .but_found(texts[k].substr(0, 60))
          .advise("convert it with iconv");
  PERI_TRY(check_sizes_used(arguments, false));
  const std::string& model = arguments.positional[0];
  return build::is_engine(model) ? Status(Ok{}) : build::check_takes_texts(model);
}

std::vector<std::string> text_words(const Arguments& arguments) {
  std::vector<std::string> out;
  for (const char* flag : {"--text", "--prompt", "--prompt-name"})
    for (const std::string& value : arguments.all(flag)) out.push_back(std::string(flag) + "=" + value);
  return out;
}

Result<std::vector<Tensor>> read_texts(const Arguments& arguments, const plan::Program& program) {
  build::Prompt prompt;
  if (arguments.has("--prompt")) prompt.text = arguments.get("--prompt");
  if (arguments.has("--prompt-name")) prompt.name = arguments.get("--prompt-name");
  auto inputs = build::text_inputs(program, arguments.all("--text"), prompt);
  if (!inputs.ok()) return std::move(inputs).error().in_file(arguments.positional[0]);
  return inputs;
}

}  // namespace peri::cli
