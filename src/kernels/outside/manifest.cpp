// Parses JSON text into a manifest, or an error that names the field and its accepted values.
#include "kernels/outside/manifest.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "base/json.hpp"
#include "base/spelling.hpp"
#include "ops/entry.hpp"

namespace peri::kernels::outside {

namespace {
// Limits of an untrusted file, far beyond what kernels need.
constexpr size_t kMaxNodes = 64, kMaxParameters = 64, kMaxName = 64, kMaxText = 1 << 16;
constexpr int64_t kMaxInlineElements = 16;  // of a constant of the pattern, as of a region
constexpr std::string_view kNeeded[] = {"name",  "version", "pattern", "source",   "chips",
                                        "entry", "grid",    "threads", "arguments"};
constexpr std::string_view kOptional[] = {"takes", "sizes", "tunables", "shared_bytes"};
constexpr std::string_view kReserved[] = {"reference", "sized"};  // of locks, payloads and reports
constexpr const char* kPage = "docs/outside-kernels.md says what each field holds";

Error bad(std::string_view field, const char* what) { return invalid("%s", what).at_node(field); }

bool is_name(std::string_view s) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !s.empty() && s.size() <= kMaxName && letter(s[0]) &&
         std::all_of(s.begin(), s.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

Result<std::string> name_of(const Json& j, std::string_view field) {
  auto text = j.get_string(field);
  if (!text.ok() || !is_name(*text))
    return bad(field, "not a name")
        .expecting("letters, digits and '_', up to 64, no digit first")
        .but_found(text.ok() ? "'" + std::string(*text) + "'" : std::string(j.find(field)->kind_name()));
  return std::string(*text);
}

// Text of an expression, or a number.
Result<Dim> expression(const Json& j, std::string_view field) {
  if (const auto number = j.as_int(); number.ok()) return Dim(*number);
  const auto text = j.as_string();
  auto dim = text.ok() ? Dim::parse(*text) : Result<Dim>(invalid("no text"));
  if (!dim.ok() || dim->is_poison())
    return bad(field, "not a size")
        .expecting("a whole number, or an expression of named dimensions as \"floordiv(n + 127, 128)\"")
        .but_found(text.ok() ? *text : j.kind_name());
  return dim;
}

Status read_pattern(const Json& j, Manifest* m) {
  PERI_ASSIGN(const std::string_view text, j.get_string("pattern"));
  if (text.size() > kMaxText) return bad("pattern", "too long");
  auto parsed = ir::parse_graph(text);
  if (!parsed.ok()) return bad("pattern", parsed.error().text().c_str());
  m->pattern = std::move(*parsed);
  ir::Graph& g = m->pattern;
  if (const Status s = g.sort(); !s.ok()) return bad("pattern", s.error().text().c_str());
  if (const Status s = ops::infer_graph(g); !s.ok()) return bad("pattern", s.error().text().c_str());
  g.erase_dead();
  if (g.nodes.empty() || g.nodes.size() > kMaxNodes || g.outputs.empty())
    return bad("pattern", "not a region").expecting("one to 64 nodes, and an output");
  for (const ir::Value* v : g.inputs) {
    if (!v->type.known() || v->type.dtype == DType::kString || v->users.empty())
      return bad("pattern", "an input without a type of numbers, or that nothing reads").but_found(v->name);
    if (!v->type.layout.row_major()) return bad("pattern", "an input is not row-major").but_found(v->name);
    for (const Dim& d : *v->type.shape)
      if (d.is_symbol()) m->sizes.emplace(d.symbol_name(), SizeRule{});
  }
  for (const ir::Value* v : g.constants())
    if (v->constant->numel() > kMaxInlineElements)
      return bad("pattern", "a constant of more than 16 elements").advise("make it an input");
  for (const ir::Value* v : g.outputs)
    if (!v->producer || !v->type.known()) return bad("pattern", "an output that no node makes").but_found(v->name);
  return Ok{};
}

// Every name in it is a dimension that an input has, or a tunable.
Status check_names(const Manifest& m, const Dim& d, std::string_view field) {
  std::set<std::string> used;
  d.collect_symbols(used);
  for (const std::string& name : used) {
    const bool tunable =
        std::any_of(m.tunables.begin(), m.tunables.end(), [&](const Choice& t) { return t.name == name; });
    if (m.sizes.contains(name) || tunable) continue;
    std::string known;
    for (const auto& [size, rule] : m.sizes) known += (known.empty() ? "" : ", ") + size;
    for (const Choice& t : m.tunables) known += (known.empty() ? "" : ", ") + t.name;
    return bad(field, "a name that is not a dimension of an input by itself, and no tunable")
        .expecting(known.empty() ? "a number" : known)
        .but_found(name);
  }
  return Ok{};
}

Status read_source(const Json& j, Manifest* m) {
  const Json* const source = j.find("source");
  using Form = cuda::KernelLaunch::Form;
  static constexpr std::pair<std::string_view, Form> kForms[] = {
      {"cuda", Form::kSource}, {"ptx", Form::kPtx}, {"cubin", Form::kCubin}};
  const auto wrong = [] {
    return bad("source", "not one source")
        .expecting("{\"ptx\": FILE}, {\"cubin\": FILE} or {\"cuda\": FILE}, a file below the manifest's folder");
  };
  if (!source->is_object() || source->members().size() != 1) return wrong();
  const Json::Member& one = source->members()[0];
  const auto file = one.value.as_string();
  const auto* form =
      std::find_if(std::begin(kForms), std::end(kForms), [&](const auto& f) { return f.first == one.key; });
  if (form == std::end(kForms) || !file.ok() || file->empty()) return wrong();
  m->form = form->second;
  m->source = *file;
  return Ok{};
}

Result<Chip> chip_of(const Json& one) {
  Chip out;
  const auto given = one.as_string();
  std::string_view text = given.ok() ? *given : "";
  const std::string found = given.ok() ? "'" + std::string(text) + "'" : std::string(one.kind_name());
  out.newer = text.ends_with('+');
  if (out.newer) text.remove_suffix(1);
  const char* const end = text.data() + text.size();
  const bool begins = text.starts_with("sm_");
  const auto [stop, code] = begins ? std::from_chars(text.data() + 3, end, out.number)
                                   : std::from_chars_result{end, std::errc::invalid_argument};
  if (code != std::errc() || stop != end || out.number < 80 || out.number > 999)
    return bad("chips", "not a chip")
        .expecting("\"sm_90\" for this one alone, \"sm_80+\" for newer ones too; from sm_80 on")
        .but_found(found);
  return out;
}

Status read_chips(const Json& j, Manifest* m) {
  PERI_ASSIGN(const Json::Array* const list, j.get_array("chips"));
  for (const Json& one : *list) {
    PERI_ASSIGN(const Chip chip, chip_of(one));
    if (chip.newer && m->form == cuda::KernelLaunch::Form::kCubin)
      return bad("chips", "a cubin runs on its own chip alone").but_found(*one.as_string());
    m->chips.push_back(chip);
  }
  if (m->chips.empty()) return bad("chips", "no chip that it is for");
  return Ok{};
}

Status read_sizes(const Json& j, Manifest* m) {
  const Json* const sizes = j.find("sizes");
  if (!sizes) return Ok{};
  if (!sizes->is_object())
    return bad("sizes", "not an object").expecting("{\"n\": {\"multiple_of\": 8, \"from\": 8, \"to\": 1024}}");
  for (const auto& [name, rule] : sizes->members()) {
    const std::string field = "sizes." + name;
    PERI_TRY(check_names(*m, Dim::symbol(name), field));
    const auto it = m->sizes.find(name);
    if (it == m->sizes.end() || !rule.is_object()) return bad(field, "not a rule of a dimension");
    for (const auto& [key, value] : rule.members()) {
      int64_t* const to = key == "multiple_of" ? &it->second.multiple_of
                          : key == "from"      ? &it->second.from
                          : key == "to"        ? &it->second.to
                                               : nullptr;
      const auto n = value.as_int();
      if (!to || !n.ok() || *n < 1 || *n > INT32_MAX)
        return bad(field, "not a rule").expecting("multiple_of, from, to: numbers from 1 to 2147483647").but_found(key);
      *to = *n;
    }
    if (!it->second.allows(it->second.at_least(1))) return bad(field, "no size obeys it");
  }
  return Ok{};
}

Status read_tunables(const Json& j, Manifest* m) {
  constexpr size_t kMaxValues = 64;  // each is a candidate
  const Json* const tunables = j.find("tunables");
  if (!tunables) return Ok{};
  if (m->form != cuda::KernelLaunch::Form::kSource)
    return bad("tunables", "they are macros of a CUDA source, and this is none").advise("give each variant a manifest");
  if (!tunables->is_object()) return bad("tunables", "not an object").expecting("{\"ROWS\": [1, 2, 4]}");
  for (const auto& [name, values] : tunables->members()) {
    const std::string field = "tunables." + name;
    if (!is_name(name) || name == "source" || m->sizes.contains(name)) return bad(field, "not a name that is free");
    Choice choice{name, {}};
    for (const Json& v : values.items()) {
      const auto n = v.as_int();
      if (!n.ok() || *n < 1 || *n > INT32_MAX || choice.values.size() == kMaxValues)
        return bad(field, "not a list of values").expecting("up to 64 numbers from 1 to 2147483647");
      choice.values.push_back(*n);
    }
    if (choice.values.empty()) return bad(field, "not a list of values");
    m->tunables.push_back(std::move(choice));
  }
  return Ok{};
}

Result<Parameter> parameter_of(const Manifest& m, std::string_view text, const std::string& field) {
  Parameter out;
  const ir::Graph& g = m.pattern;
  if (text == "null") return out;
  for (size_t k = 0; k < g.inputs.size(); ++k)
    if (g.inputs[k]->name == text) return Parameter{Parameter::Kind::kInput, k, {}, 0};
  for (size_t k = 0; k < g.outputs.size(); ++k)
    if (g.output_names[k] == text) return Parameter{Parameter::Kind::kOutput, k, {}, 0};
  const size_t space = text.find(' ');
  const std::string_view type = text.substr(0, space), rest = space == text.npos ? "" : text.substr(space + 1);
  if (type == "f32") {
    const auto [end, code] = std::from_chars(rest.data(), rest.data() + rest.size(), out.number);
    out.kind = Parameter::Kind::kF32;
    if (code == std::errc() && end == rest.data() + rest.size() && std::isfinite(out.number)) return out;
  } else if (type == "i32" || type == "i64") {
    out.kind = type == "i32" ? Parameter::Kind::kI32 : Parameter::Kind::kI64;
    const auto size = Dim::parse(rest);
    if (size.ok() && !size->is_poison()) {
      out.size = *size;
      PERI_TRY(check_names(m, out.size, field));
      const bool narrow = out.kind == Parameter::Kind::kI32 && size->is_const();
      if (narrow && (size->value() < INT32_MIN || size->value() > INT32_MAX))
        return bad(field, "a number that 32 bits do not hold").but_found(text);
      return out;
    }
  }
  return bad(field, "not an argument")
      .expecting("an input or output of the pattern, \"i32 SIZE\", \"i64 SIZE\", \"f32 NUMBER\" or \"null\"")
      .but_found(text);
}

Status read_arguments(const Json& j, Manifest* m) {
  PERI_ASSIGN(const Json::Array* const list, j.get_array("arguments"));
  if (list->size() > kMaxParameters) return bad("arguments", "more than 64");
  std::set<size_t> written;
  for (size_t k = 0; k < list->size(); ++k) {
    const auto text = (*list)[k].as_string();
    PERI_ASSIGN(const Parameter p, parameter_of(*m, text.ok() ? *text : "", format("arguments[%zu]", k)));
    if (p.kind == Parameter::Kind::kOutput) written.insert(p.index);
    m->parameters.push_back(p);
  }
  if (written.size() != m->pattern.outputs.size())
    return bad("arguments", "an output of the pattern is not among them");
  return Ok{};
}

// A block of the chip that gives most.
int64_t most_shared_bytes() {
  Target large;
  large.isas = {"sm_90"};
  return cuda::limits_of(large).shared_bytes;
}

// A size of the launch. A number that none can have is refused here, an expression where its sizes are at hand.
Result<Dim> launch_size(const Manifest& m, const Json& j, const std::string& field, int64_t low, int64_t high) {
  PERI_ASSIGN(const Dim d, expression(j, field));
  PERI_TRY(check_names(m, d, field));
  if (d.is_const() && (d.value() < low || d.value() > high))
    return bad(field, "a number that no launch has")
        .expecting(format("%lld to %lld", static_cast<long long>(low), static_cast<long long>(high)))
        .but_found(std::to_string(d.value()));
  return d;
}

Status read_launch(const Json& j, Manifest* m) {
  PERI_ASSIGN(const Json::Array* const grid, j.get_array("grid"));
  if (grid->empty() || grid->size() > 3) return bad("grid", "not one to three axes");
  for (size_t k = 0; k < grid->size(); ++k) {
    PERI_ASSIGN(m->grid.emplace_back(),
                launch_size(*m, (*grid)[k], format("grid[%zu]", k), 1, k == 0 ? INT32_MAX : kMaxOtherAxis));
  }
  PERI_ASSIGN(m->threads, launch_size(*m, *j.find("threads"), "threads", 1, kMaxThreads));
  if (const Json* const shared = j.find("shared_bytes")) {
    PERI_ASSIGN(m->shared_bytes, launch_size(*m, *shared, "shared_bytes", 0, most_shared_bytes()));
  }
  return Ok{};
}

Status check_fields(const Json& j) {
  if (!j.is_object()) return invalid("a manifest is an object").but_found(j.kind_name()).advise(kPage);
  std::vector<std::string_view> known(std::begin(kNeeded), std::end(kNeeded));
  known.insert(known.end(), std::begin(kOptional), std::end(kOptional));
  for (const auto& [key, value] : j.members()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string near = nearest(key, known);
    return bad(key, "no field of a manifest").advise(near.empty() ? kPage : "did you mean '" + near + "'?");
  }
  for (const std::string_view field : kNeeded)
    if (!j.find(field)) return bad(field, "the field is missing").advise(kPage);
  return Ok{};
}

Result<Manifest> read(std::string_view text) {
  auto parsed = parse_json(text);
  if (!parsed.ok())
    return std::move(parsed).error().advise("give a kernel's manifest, a file of JSON: docs/outside-kernels.md");
  const Json j = *std::move(parsed);
  PERI_TRY(check_fields(j));
  Manifest m;
  PERI_ASSIGN(m.name, name_of(j, "name"));
  if (std::find(std::begin(kReserved), std::end(kReserved), m.name) != std::end(kReserved))
    return bad("name", "choices have this name for what no kernel does").but_found(m.name).advise("take another one");
  PERI_ASSIGN(m.entry, name_of(j, "entry"));
  PERI_ASSIGN(const int64_t version, j.get_int("version"));
  if (version < 1 || version > INT32_MAX) return bad("version", "not a number from 1 to 2147483647");
  m.version = static_cast<int>(version);
  PERI_ASSIGN(const std::string_view takes, j.get_string("takes", ""));
  m.takes = takes;
  PERI_TRY(read_source(j, &m));
  PERI_TRY(read_pattern(j, &m));
  PERI_TRY(read_chips(j, &m));
  PERI_TRY(read_sizes(j, &m));
  PERI_TRY(read_tunables(j, &m));
  PERI_TRY(read_launch(j, &m));
  PERI_TRY(read_arguments(j, &m));
  return m;
}

// The names behind a word of a source: of the kernels that it has.
std::string names_behind(std::string_view source, std::string_view word) {
  std::string out;
  for (size_t at = source.find(word); at != source.npos; at = source.find(word, at + 1)) {
    const size_t from = source.find_first_not_of(" \t\r\n", at + word.size());
    size_t end = from;
    while (from != source.npos && end < source.size() && is_name("a" + std::string(source.substr(end, 1)))) ++end;
    if (from == source.npos || end == from || out.size() > kMaxText / 64) break;
    out += (out.empty() ? "" : ", ") + std::string(source.substr(from, end - from));
  }
  return out.empty() ? "none" : out;
}

// The widths of the parameters of an entry of PTX, in bytes.
Result<std::vector<int>> ptx_parameters(std::string_view ptx, std::string_view entry) {
  const std::string head = ".entry " + std::string(entry);
  size_t at = ptx.find(head);
  while (at != ptx.npos && is_name("a" + std::string(ptx.substr(at + head.size(), 1)))) at = ptx.find(head, at + 1);
  const size_t open = at == ptx.npos ? at : ptx.find_first_not_of(" \t\r\n", at + head.size());
  if (open == ptx.npos)
    return invalid("it has no entry of that name").expecting(head).but_found(names_behind(ptx, ".entry "));
  std::vector<int> out;
  if (ptx[open] != '(') return out;
  std::string_view list = ptx.substr(open + 1, ptx.substr(open).find(')') - 1);
  for (size_t p = list.find(".param"); p != list.npos; p = list.find(".param", p + 1)) {
    const std::string_view rest = list.substr(p + 6);
    const size_t type = rest.find('.');
    // ".u64": the letter may be missing in what is no PTX
    const std::string_view bits = type == rest.npos || type + 2 > rest.size() ? "" : rest.substr(type + 2, 2);
    out.push_back(bits == "64" ? 8 : bits == "32" ? 4 : 0);
  }
  return out;
}
}  // namespace

int64_t SizeRule::at_least(int64_t wanted) const {
  const int64_t low = (std::max(wanted, from) + multiple_of - 1) / multiple_of * multiple_of;
  return low <= to ? low : to / multiple_of * multiple_of;
}

Result<Manifest> parse_manifest(std::string_view text, std::string_view file) {
  auto out = read(text);
  if (!out.ok()) return std::move(out).error().in_file(file);
  return out;
}

Status check_source(const Manifest& m, std::string_view source, std::string_view file) {
  using Form = cuda::KernelLaunch::Form;
  if (m.form == Form::kCubin) {
    if (source.starts_with("\x7f"
                           "ELF"))
      return Ok{};
    return invalid("not a cubin").in_file(file).expecting("an ELF file").advise("of PTX say {\"ptx\": FILE}");
  }
  if (source.find('\0') != source.npos) return invalid("not a text").in_file(file);
  if (m.form == Form::kSource) {
    if (source.find(m.entry) != source.npos) return Ok{};
    return invalid("it has no entry of that name")
        .in_file(file)
        .expecting(m.entry)
        .but_found(names_behind(source, "__global__ void"));
  }
  auto widths = ptx_parameters(source, m.entry);
  if (!widths.ok()) return std::move(widths).error().in_file(file);
  const auto list = [](const auto& all, const auto& bytes) {
    std::string out = std::to_string(all.size()) + " of";
    for (const auto& one : all) out += " " + std::to_string(bytes(one));
    return out + " bytes";
  };
  const std::string wants = list(*widths, [](int b) { return b; });
  const std::string gives = list(m.parameters, [](const Parameter& p) { return p.bytes(); });
  if (wants != gives)
    return invalid("the manifest gives other arguments than the kernel takes")
        .in_file(file)
        .at_node("arguments")
        .expecting(wants)
        .but_found(gives)
        .advise(
            "pointers that a compiler adds for its own memory, as Triton does, are \"null\" where it asks for 0 bytes");
  return Ok{};
}

}  // namespace peri::kernels::outside
