// Inputs from files, pictures and seeds.
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>

#include "base/dtype_names.hpp"
#include "base/file.hpp"
#include "base/npy.hpp"
#include "base/npz.hpp"
#include "base/plural.hpp"
#include "base/shell_word.hpp"
#include "base/spelling.hpp"
#include "cli/console/answers.hpp"
#include "cli/console/model.hpp"
#include "cli/console/named.hpp"
#include "cli/console/pictures.hpp"
#include "judge/seeded.hpp"
#include "onnx/tensor_file.hpp"

namespace peri::cli {

namespace {
constexpr size_t kMaxRaw = size_t{1} << 36;
constexpr std::string_view kForms =
    "NAME=FILE (.npy, .npz, .pb, .png, .jpg), NAME=FILE.npz:ARRAY, NAME=raw:TYPE:AxBxC:FILE or NAME=random:SEED";

// The parsed value after NAME=.
struct Source {
  std::string file;   // "": random numbers
  std::string array;  // of an .npz
  DType type = DType::kInvalid;
  std::vector<int64_t> dims = {};  // of a raw file
  bool raw() const { return type != DType::kInvalid; }
};

std::string npz_file(const std::string& what) {
  const size_t at = what.find(".npz:");
  return at == std::string::npos ? what : what.substr(0, at + 4);
}

// raw:TYPE:AxBxC:FILE; a scalar has no sizes: raw:TYPE::FILE.
Result<Source> raw_source(const std::string& what) {
  const size_t type = 4, shape = what.find(':', type), file = what.find(':', shape + 1);
  Source out;
  if (shape == std::string::npos || file == std::string::npos || file + 1 == what.size())
    return usage("a raw input has a type, a shape and a file").expecting("raw:TYPE:AxBxC:FILE").but_found(what);
  const auto named = dtype_of_any_name(what.substr(type, shape - type));
  if (!named.ok() || dtype_size(*named) < 1)
    return usage("raw elements are numbers of one byte or more").expecting("f32, f16, i64, u8, ...").but_found(what);
  out.type = *named;
  for (const char *at = what.data() + shape + 1, *end = what.data() + file; file != shape + 1 && at <= end;) {
    int64_t size = 0;
    const auto [stop, code] = std::from_chars(at, end, size);
    if (code != std::errc() || size < 0 || (stop != end && *stop != 'x'))
      return usage("the shape of a raw input is not AxBxC").but_found(what);
    out.dims.push_back(size);
    at = stop + 1;
  }
  const auto count = checked_numel(out.dims);
  if (!count.ok() || !dtype_bytes(out.type, *count).ok())
    return usage("the shape of a raw input is too large: its bytes pass 64 bits").but_found(what);
  out.file = what.substr(file + 1);
  return out;
}

Result<Source> source_of(const std::string& what) {
  if (what.starts_with("raw:")) return raw_source(what);
  Source out{what.starts_with("random:") ? "" : npz_file(what), {}, DType::kInvalid};
  if (out.file.size() < what.size() && !out.file.empty()) {
    out.array = what.substr(out.file.size() + 1);
    if (out.array.empty())
      return usage("the array has no name").expecting("FILE.npz:ARRAY or FILE.npz").but_found(what);
  }
  return out;
}

Result<Tensor> read_raw(const Source& source) {
  PERI_ASSIGN(const int64_t count, checked_numel(source.dims));
  PERI_ASSIGN(const int64_t want, dtype_bytes(source.type, count));
  const auto other_size = [&](uint64_t found) {
    return usage("the raw file has the wrong size")
        .in_file(source.file)
        .expecting(counted(want, "byte"))
        .but_found(std::to_string(found))
        .advise("state the type and the shape that the file was written with: raw:TYPE:AxBxC:FILE");
  };
  PERI_ASSIGN(const Fd file, open_file(source.file));
  struct stat st = {};
  if (::fstat(file.get(), &st) == 0 && st.st_size != want) return other_size(static_cast<uint64_t>(st.st_size));
  PERI_ASSIGN(const std::string bytes, read_file(file, source.file, kMaxRaw));
  if (static_cast<uint64_t>(want) != bytes.size()) return other_size(bytes.size());
  PERI_ASSIGN(Tensor out, Tensor::uninitialized(source.type, source.dims));
  __builtin_memcpy(out.mutable_data(), bytes.data(), bytes.size());
  return out;
}

bool is_tensor_file(const std::string& file) {
  return file.ends_with(".npy") || file.ends_with(".npz") || file.ends_with(".pb");
}

Error no_input_file(const std::string& file) {
  return usage("unknown type of input file")
      .in_file(file)
      .expecting(".npy, .npz, .pb, .png or .jpg")
      .advise("numpy.save writes a .npy; bytes alone are raw:TYPE:AxBxC:FILE, random numbers random:SEED");
}

// Of an .npz: the named array, else the one with the input's name, else the only one.
Result<Tensor> read_tensor(const Source& source, const std::string& input) {
  if (source.raw()) return read_raw(source);
  const std::string& file = source.file;
  if (file.ends_with(".npy")) return read_npy(file);
  if (file.ends_with(".npz")) {
    if (!source.array.empty()) return read_npz(file, source.array);
    PERI_ASSIGN(const auto names, npz_names(file));
    const bool own = std::find(names.begin(), names.end(), input) != names.end();
    return read_npz(file, own || names.size() != 1 ? input : "");
  }
  if (file.ends_with(".pb")) {
    PERI_ASSIGN(auto named, onnx::read_tensor_file(file));
    return std::move(named.tensor);
  }
  return no_input_file(file);
}

using Given = std::map<std::string, std::string>;  // values after NAME=, by name

// The seed of "random:SEED".
Result<uint64_t> seed_of(const std::string& what) {
  uint64_t seed = 0;
  const auto [end, code] = std::from_chars(what.data() + 7, what.data() + what.size(), seed);
  if (code != std::errc() || end != what.data() + what.size())
    return usage("the seed is not a whole number from 0 to 18446744073709551615").but_found(what);
  return seed;
}

// What a reading of --input's word says by itself: its source can be parsed, its file read.
Status check_source(const Named& reading) {
  if (reading.value.empty()) return usage("--input names no file").at_node(reading.name).expecting(std::string(kForms));
  PERI_ASSIGN(const Source source, source_of(reading.value));
  if (reading.value.starts_with("random:")) PERI_TRY(seed_of(reading.value));
  if (source.file.empty()) return Ok{};
  if (!source.raw() && !is_picture(source.file) && !is_tensor_file(source.file)) return no_input_file(source.file);
  PERI_TRY(open_file(source.file));
  return Ok{};
}

Result<std::vector<Named>> readings_of_input(const std::string& word) {
  std::vector<Named> out = readings(word);
  if (out.empty()) return usage("--input is not NAME=FILE").expecting(std::string(kForms)).but_found(word);
  return out;
}

std::string known_inputs(const plan::Program& program) {
  std::string known;
  for (const plan::Port& p : program.inputs)
    known += (known.empty() ? "" : ", ") + p.name + " " + std::string(dtype_name(p.dtype)) + shape_text(p.shape);
  return known;
}

Error not_given(const plan::Port& port, const std::string& known) {
  return usage("input '%s' is not given", port.name.c_str())
      .expecting("--input " + shell_word(port.name + "=FILE"))
      .advise("the inputs are: " + known);
}

Error given_twice(const std::string& name) {
  return usage("input '%s' is given twice", name.c_str()).advise("give it once");
}

// Parses --input. Errors: kUsage: the program has no such input, or one is given twice.
Result<Given> given_inputs(const Arguments& arguments, const plan::Program& program, const std::string& known) {
  std::vector<std::string_view> names;
  for (const plan::Port& p : program.inputs) names.push_back(p.name);
  Given given;
  for (const std::string& word : arguments.all("--input")) {
    PERI_ASSIGN(const std::vector<Named> all, readings_of_input(word));
    const auto& [name, what] = reading_of(all, names);
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      const std::string near = nearest(name, names);
      return usage("the model has no input '%s'", name.c_str())
          .advise(names.empty()  ? "it has none: leave --input out"
                  : near.empty() ? "its inputs are: " + known
                                 : "did you mean '" + near + "'?");
    }
    if (what.empty()) return usage("--input names no file").at_node(name).expecting(std::string(kForms));
    if (!given.emplace(name, what).second) return given_twice(name);
  }
  return given;
}

// State of reading the inputs of one run.
struct Reader {
  const Arguments& arguments;
  const plan::Program& program;
  bool silent = false;  // without messages, for checks
  std::optional<DimBinding> dims = {};
  bool sizes_used = false;
  DimBinding of_files = {};  // open sizes of the inputs read so far, for those that are made

  Result<const DimBinding*> sizes() {
    sizes_used = true;
    if (!dims) {
      PERI_ASSIGN(dims, program_dims(arguments, program, of_files));
    }
    return &*dims;
  }

  void note_sizes(const plan::Port& p, const Tensor& t) {
    for (size_t axis = 0; axis < p.shape.size() && p.shape.size() == t.dims().size(); ++axis)
      if (p.shape[axis].is_symbol()) of_files.emplace(p.shape[axis].symbol_name(), t.dims()[axis]);
  }

  void tell(const std::string& what) const {
    if (!silent) say("note: " + what);
  }

  Result<Tensor> random(size_t index, const std::string& what, uint64_t seed) {
    if (!what.empty()) {
      PERI_ASSIGN(seed, seed_of(what));
    }
    PERI_ASSIGN(const DimBinding* const at, sizes());
    auto made = judge::random_input(program, index, *at, seed);
    if (!made.ok()) return std::move(made).error().at_node(program.inputs[index].name);
    return made;
  }

  Result<Tensor> picture(const plan::Port& p, const std::string& file) {
    const bool given = arguments.has("--dims") || arguments.has("--shapes");
    std::vector<int64_t> wanted;
    for (const Dim& d : p.shape) {
      if (!d.is_const() && given) {
        PERI_ASSIGN(const DimBinding* const at, sizes());
        PERI_ASSIGN(wanted.emplace_back(), d.eval(*at));
      } else {
        wanted.push_back(d.is_const() ? d.value() : -1);
      }
    }
    PERI_ASSIGN(const PictureTerms terms, picture_terms(arguments));
    auto made = read_picture(file, p.dtype, wanted, terms);
    if (!made.ok()) return std::move(made).error().at_node(p.name);
    tell("input '" + p.name + "' is the picture " + file + ": " + made->done);
    return std::move(made->tensor);
  }

  Result<Tensor> file(const plan::Port& p, const Source& source) const {
    auto read = read_tensor(source, p.name);
    if (!read.ok()) return std::move(read).error().at_node(p.name);
    Tensor t = std::move(read).value();
    if (t.dtype() != p.dtype && arguments.has("--cast")) {
      const std::string had = tensor_type_text(t);
      auto made = cast(t, p.dtype);
      if (!made.ok()) return std::move(made).error().in_file(source.file).at_node(p.name);
      t = std::move(made).value();
      tell("input '" + p.name + "' is cast from " + had + " to " + tensor_type_text(t));
    }
    if (t.dtype() != p.dtype)
      return usage("input '%s' has the wrong type", p.name.c_str())
          .in_file(source.file)
          .expecting(std::string(dtype_name(p.dtype)) + shape_text(p.shape))
          .but_found(tensor_type_text(t))
          .advise(can_cast(t.dtype(), p.dtype) ? "save it in that type, or let --cast convert it"
                                               : "save it in that type");
    return t;
  }
};
}  // namespace

std::vector<std::string> input_files(const std::string& word) {
  std::vector<std::string> out;
  for (const Named& reading : readings(word)) {
    const auto source = source_of(reading.value);
    const std::string& file = source.ok() ? source->file : reading.value;
    std::error_code unknown;
    if (out.empty() || std::filesystem::exists(file, unknown)) out.push_back(file);
  }
  return out;
}

Status check_input_words(const Arguments& arguments) {
  const std::vector<std::string> words = arguments.all("--input");
  if (words.empty() && arguments.has("--cast"))
    return usage("--cast is for the files of --input, and none is given").advise("leave it out");
  std::set<std::string> certain;
  for (const std::string& word : words) {
    PERI_ASSIGN(const std::vector<Named> all, readings_of_input(word));
    if (all.size() == 1 && !certain.insert(all[0].name).second) return given_twice(all[0].name);
    if (std::none_of(all.begin(), all.end(), [](const Named& r) { return check_source(r).ok(); }))
      if (Status read = check_source(all[0]); !read.ok()) return std::move(read).error().at_node(all[0].name);
  }
  return Ok{};
}

Status check_inputs(const Arguments& arguments, const ir::Graph& graph, bool all) {
  plan::Program program;  // only its inputs are used
  for (const ir::Value* v : graph.inputs) {
    if (!v->type.shape) return Ok{};
    program.inputs.push_back({v->name, -1, v->type.dtype, *v->type.shape});
  }
  const std::string known = known_inputs(program);
  PERI_ASSIGN(const Given given, given_inputs(arguments, program, known));
  const Reader reader{.arguments = arguments, .program = program, .silent = true};
  std::vector<std::vector<int64_t>> sizes;
  std::map<std::string, std::string> files;
  for (const plan::Port& p : program.inputs) {
    const auto it = given.find(p.name);
    if (it == given.end() && all) return not_given(p, known);
    if (it == given.end()) continue;
    PERI_ASSIGN(const Source source, source_of(it->second));
    if (source.file.empty() || is_picture(source.file)) continue;
    PERI_ASSIGN(const Tensor t, reader.file(p, source));
    sizes.push_back(t.dims());
    files[p.name] = source.file;
  }
  if (sizes.size() < program.inputs.size()) return Ok{};  // missing inputs get sizes from the others
  const auto bound = plan::bind_dims(program, sizes);
  return bound.ok() ? Status(Ok{}) : Status(Error(bound.error()).in_file(files[bound.error().node]));
}

std::vector<compile::InputShape> input_shapes(const Arguments& arguments) {
  std::vector<compile::InputShape> out;
  for (const std::string& word : arguments.all("--input"))
    for (const Named& reading : readings(word)) {
      const auto source = source_of(reading.value);
      if (!source.ok() || source->file.empty() || is_picture(source->file)) continue;
      if (const auto t = read_tensor(*source, reading.name); t.ok()) out.push_back({reading.name, t->dims()});
    }
  return out;
}

Result<std::vector<Tensor>> read_inputs(const Arguments& arguments, const plan::Program& program,
                                        std::optional<uint64_t> fill_seed) {
  const std::string known = known_inputs(program);
  PERI_ASSIGN(const Given given, given_inputs(arguments, program, known));
  Reader reader{arguments, program};
  std::vector<Source> sources;
  for (const plan::Port& p : program.inputs) {
    const auto it = given.find(p.name);
    if (it == given.end() && !fill_seed) return not_given(p, known);
    PERI_ASSIGN(sources.emplace_back(), source_of(it == given.end() ? "" : it->second));
  }
  std::vector<Tensor> out(sources.size());
  for (const bool made : {false, true}) {  // first what has sizes of its own
    reader.dims.reset();
    for (size_t k = 0; k < sources.size(); ++k) {
      const plan::Port& p = program.inputs[k];
      if (sources[k].file.empty() != made) continue;
      const auto it = given.find(p.name);
      PERI_ASSIGN(out[k], made ? reader.random(k, it == given.end() ? "" : it->second, fill_seed.value_or(0) + k)
                          : is_picture(sources[k].file) ? reader.picture(p, sources[k].file)
                                                        : reader.file(p, sources[k]));
      if (!made) reader.note_sizes(p, out[k]);
    }
  }
  std::vector<std::vector<int64_t>> sizes;
  std::map<std::string, std::string> files;
  for (size_t k = 0; k < out.size(); ++k) {
    sizes.push_back(out[k].dims());
    files[program.inputs[k].name] = sources[k].file;
  }
  if (const auto bound = plan::bind_dims(program, sizes); !bound.ok()) {
    const std::string& file = files[bound.error().node];
    return Error(bound.error()).in_file(file);
  }
  PERI_TRY(check_sizes_used(arguments, reader.sizes_used || program.inputs.empty()));
  return out;
}

}  // namespace peri::cli
