// camelCase becomes words with hyphens; what remains stands in a short table, and in Flag::also.
#include "cli/console/spellings.hpp"

#include <algorithm>
#include <cctype>

namespace peri::cli {

namespace {
struct Shorthand {
  std::string_view word, flag, value;
};
constexpr Shorthand kShorthands[] = {{"--fp16", "--dtype", "f16"},
                                     {"--bf16", "--dtype", "bf16"},
                                     {"--fp32", "--dtype", "f32"},
                                     {"--half", "--dtype", "f16"}};
// Flags of other programs for which there is something else here, or nothing.
constexpr std::pair<std::string_view, std::string_view> kElsewhere[] = {
    {"--best", "give --fp16 or --bf16: element types are not chosen by speed"},
    {"--int8", "a model that is quantised is run as it is; there is no calibration"},
    {"--calib", "a model that is quantised is run as it is; there is no calibration"},
    {"--workspace", "memory is planned and needs no bound: leave it out"},
    {"--mem-pool-size", "memory is planned and needs no bound: leave it out"},
    {"--builder-optimization-level", "--budget SECONDS bounds the time a build tunes, --no-tune takes first offers"},
    {"--timing-cache-file", "PERI_CACHE names the folder of times, for all models; see peri cache"},
    {"--dump-profile", "peri bench ENGINE --layers"},
    {"--export-profile", "peri bench ENGINE --layers --json FILE"},
    {"--separate-profile-run", "peri bench ENGINE --layers times the steps in runs of their own: leave it out"},
    {"--export-times", "peri bench ENGINE --json FILE"},
    {"--dump-layer-info", "peri explain ENGINE --full"},
    {"--export-layer-info", "peri explain ENGINE --json FILE"},
    {"--load-inputs", "--input NAME=raw:TYPE:AxBxC:FILE"},
    {"--inputs", "--input NAME=FILE, once for each"},
    {"--export-output", "peri run ENGINE --output-dir DIR"},
    {"--dump-output", "peri run ENGINE --print"},
    {"--save-outputs", "--output-dir DIR"},
    {"--use-cuda-graph", "an engine on a GPU replays a graph where it can: leave it out"},
    {"--no-data-transfers", "of an engine on a GPU times with copies and without are both told: leave it out"},
    {"--use-spin-wait", "a wait for a GPU is short and spins as it is: leave it out"},
    {"--streams", "runs go one after another: leave it out; many at once are for peri serve"},
    {"--infer-streams", "runs go one after another: leave it out; many at once are for peri serve"},
    {"-nstreams", "runs go one after another: leave it out; many at once are for peri serve"},
    {"-nireq", "runs go one after another: leave it out; many at once are for peri serve"},
    {"-hint", "latency is what is measured: leave it out"},
    {"-d", "--backend cpu or --backend cuda"},
    {"-t", "--seconds N"},
    {"-niter", "--iterations N"},
    {"--runs", "--iterations N"},
    {"--avg-runs", "every run is a sample: leave it out"},
    {"-shape", "--shapes NAME:AxBxC"},
    {"-data_shape", "--shapes NAME:AxBxC"},
    {"--onnxrt", "peri verify MODEL --onnxruntime"},
    {"--seed", "--input NAME=random:SEED"},
    {"--batch", "--dims batch=N"},
};
// Flags whose value is the command's argument.
constexpr std::string_view kModels[] = {"--onnx", "--load-engine"};

std::string with_hyphens(const std::string& word) {
  if (!word.starts_with("--")) return word;
  std::string out;
  for (const char c : word) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isupper(byte)) out += '-';
    out += static_cast<char>(std::tolower(byte));
  }
  return out;
}

bool has_flag(const Command& c, std::string_view name) {
  return std::any_of(c.flags.begin(), c.flags.end(), [&](const Flag& f) { return f.name == name; });
}
}  // namespace

std::vector<std::string_view> words_in(std::string_view list) {
  std::vector<std::string_view> out;
  while (!list.empty()) {
    const size_t end = std::min(list.find(' '), list.size());
    if (end > 0) out.push_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return out;
}

Spelt our_spelling(const Command& command, const std::string& word) {
  Spelt out{with_hyphens(word), {}, false};
  for (const Flag& f : command.flags)
    for (const std::string_view other : words_in(f.also))
      if (out.word == other) return {std::string(f.name), {}, false};
  for (const Shorthand& s : kShorthands)
    if (out.word == s.word && has_flag(command, s.flag)) return {std::string(s.flag), std::string(s.value), false};
  for (const std::string_view model : kModels)
    out.positional =
        out.positional || (out.word == model && command.positional.find("MODEL") != std::string_view::npos);
  return out;
}

std::string advice_elsewhere(const std::string& word) {
  const std::string ours = with_hyphens(word);
  for (const auto& [other, advice] : kElsewhere)
    if (ours == other) return std::string(advice);
  return "";
}

}  // namespace peri::cli
