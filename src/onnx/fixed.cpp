// Values from text: one for all elements, or as many as there are.
#include "onnx/fixed.hpp"

#include <algorithm>
#include <charconv>

namespace peri::onnx {

namespace {
std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> out;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

bool set(Tensor* t, int64_t k, const std::string& word) {
  const char *first = word.data(), *last = first + word.size();
  if (t->dtype() == DType::kString) {
    t->mutable_strings()[static_cast<size_t>(k)] = word;
    return true;
  }
  if (is_float(t->dtype())) {
    double v = 0;
    const auto [end, code] = std::from_chars(first, last, v);
    if (code != std::errc() || end != last) return false;
    t->set_f64(k, v);
    return true;
  }
  if (t->dtype() == DType::kBool && (word == "true" || word == "false")) {
    t->set_i64(k, word == "true");
    return true;
  }
  int64_t v = 0;
  const auto [end, code] = std::from_chars(first, last, v);
  if (code != std::errc() || end != last) return false;
  t->set_i64(k, v);
  return t->i64(k) == v;  // it is in the range of the type
}

Result<Tensor> value_of(const PortInfo& port, const std::string& text) {
  const ir::Type& type = port.type;
  if (!type.shape || !is_const(*type.shape))
    return usage("input '%s' cannot be fixed: its shape is not", port.name.c_str())
        .but_found(ir::type_text(type))
        .advise("fix inputs of a fixed shape, as a sampling rate is");
  PERI_ASSIGN(const std::vector<int64_t> dims, eval(*type.shape, {}));
  PERI_ASSIGN(Tensor t, Tensor::zeros(type.dtype, dims));
  const std::vector<std::string> list = words(text);
  const auto wrong = [&](std::string expected) {
    return usage("the value that --fix gives input '%s' does not fit it", port.name.c_str())
        .expecting(std::move(expected))
        .but_found(text);
  };
  if (list.size() != 1 && static_cast<int64_t>(list.size()) != t.numel())
    return wrong(format("one value, or %lld", static_cast<long long>(t.numel())));
  for (int64_t k = 0; k < t.numel(); ++k)
    if (!set(&t, k, list[list.size() == 1 ? 0 : static_cast<size_t>(k)]))
      return wrong("numbers of type " + std::string(dtype_name(type.dtype)));
  return t;
}
}  // namespace

Status fix_inputs(const ImportOptions& options, Survey* survey) {
  std::vector<std::string>& notes = survey->report.notes;
  for (const auto& fix : options.fixed) {
    const std::string &name = fix.first, &text = fix.second;
    std::string known;
    bool found = false;
    for (std::vector<PortInfo>* ports : {&survey->report.inputs, &survey->defaults}) {
      const auto it = std::find_if(ports->begin(), ports->end(), [&](const PortInfo& p) { return p.name == name; });
      for (const PortInfo& p : *ports) known += (known.empty() ? "" : ", ") + p.name;
      if (it == ports->end()) continue;
      PERI_ASSIGN(Tensor value, value_of(*it, text));
      survey->fixed.emplace(name, std::move(value));
      std::erase(notes, default_note(name));
      notes.push_back("input '" + name + "' is fixed to " + text);
      ports->erase(it);
      found = true;
      break;
    }
    if (!found) return usage("--fix names '%s', which is not an input of the model", name.c_str()).expecting(known);
  }
  return Ok{};
}

void fix_sizes(const ImportOptions& options, Survey* survey) {
  std::map<std::string, Dim, std::less<>> same, from_zero;
  for (const auto& [name, to] : options.same) same.emplace(name, Dim::symbol(to.name));
  for (const std::string& name : options.from_zero) {
    const auto it = options.same.find(name);
    const std::string& kept = it == options.same.end() ? name : it->second.name;
    from_zero.emplace(kept, Dim::symbol_from_zero(kept));
  }
  for (auto* const list : {&survey->report.inputs, &survey->report.outputs})
    for (PortInfo& p : *list)
      for (size_t axis = 0; p.type.shape && axis < p.type.shape->size(); ++axis) {
        Dim& d = (*p.type.shape)[axis];
        if (list == &survey->report.inputs) d = d.substitute(options.sizes);
        d = d.substitute(same).substitute(from_zero);
      }
}

}  // namespace peri::onnx
