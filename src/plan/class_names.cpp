// Names of outputs that a program does not have are left out, so that a section cannot name what is not there.
#include "plan/class_names.hpp"

#include <algorithm>

namespace peri::plan {

constexpr size_t kMaxClassNameBytes = size_t{4} << 20;

namespace {
void write_names(const ClassNames& names, JsonWriter* w) {
  w->begin_object();
  for (const auto& [output, list] : names) {
    w->key(output).begin_array();
    for (const std::string& name : list) w->value(name);
    w->end_array();
  }
  w->end_object();
}
}  // namespace

std::string class_names_text(const ClassNames& names) {
  JsonWriter w;
  write_names(names, &w);
  std::string out = w.take();
  return names.empty() || out.size() > kMaxClassNameBytes ? "" : out;
}

Result<ClassNames> read_class_names(std::string_view text) {
  const auto read = [&]() -> Result<ClassNames> {
    PERI_ASSIGN(const Json json, parse_json(text, {.max_depth = 3, .max_bytes = kMaxClassNameBytes}));
    PERI_ASSIGN(const auto* outputs, json.as_object());
    ClassNames out;
    for (const Json::Member& m : *outputs) {
      PERI_ASSIGN(const auto* list, m.value.as_array());
      for (const Json& name : *list) {
        PERI_ASSIGN(const std::string_view one, name.as_string());
        out[m.key].emplace_back(one);
      }
    }
    return out;
  };
  auto out = read();
  if (out.ok()) return out;
  return invalid("the section '%s' is not as expected: %s", std::string(kClassNamesSection).c_str(),
                 out.error().text().c_str());
}

Result<ClassNames> class_names_of(const Program& program) {
  const Section* const section = program.section(kClassNamesSection);
  if (!section) return ClassNames();
  PERI_ASSIGN(ClassNames out, read_class_names(section->bytes));
  std::erase_if(out, [&](const auto& row) {
    return std::none_of(program.outputs.begin(), program.outputs.end(),
                        [&](const Port& p) { return p.name == row.first; });
  });
  return out;
}

void write_class_names(const Program& program, JsonWriter* w) {
  const auto names = class_names_of(program);
  if (!names.ok() || names->empty()) return;
  w->key(kClassNamesSection);
  write_names(*names, w);
}

}  // namespace peri::plan
