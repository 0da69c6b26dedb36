// A list in the list of items is a sequence of perf_analyzer; a file without such lists is one sequence.
#include "serve/load/data.hpp"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "base/dim.hpp"
#include "base/file.hpp"
#include "serve/load/values.hpp"

namespace peri::serve {
namespace {

constexpr int64_t kMaxFileBytes = int64_t{1} << 28;
constexpr size_t kMaxValues = size_t{1} << 26;
constexpr size_t kMaxBytes = size_t{1} << 31;  // of all requests together

// Reads a list of values, or an object with content or b64, and returns how many elements they are; -1: bytes that are
// no whole elements.
Result<int64_t> read_values(const Json& value, LoadTensor* out) {
  int64_t count = 0;
  const Json* const b64 = value.find("b64");
  if (!b64) {
    const Json* const content = value.is_array() ? &value : value.find("content");
    if (!content) return invalid("the object has neither 'content' nor 'b64'");
    PERI_TRY(put_values(*content, out->type, &count, &out->bytes));
    return count;
  }
  PERI_ASSIGN(const std::string_view text, b64->as_string());
  PERI_ASSIGN(out->bytes, decoded_base64(text));
  if (const size_t each = bytes_of(out->type); each > 0)
    return out->bytes.size() % each == 0 ? static_cast<int64_t>(out->bytes.size() / each) : int64_t{-1};
  std::string size;
  put(static_cast<uint32_t>(out->bytes.size()), &size);
  out->bytes.insert(0, size);
  return 1;
}

// One input of an item: a list of values, or an object with content or b64, and a shape.
Result<LoadTensor> tensor_of_item(LoadSubject subject, const Json& input, const Json& value) {
  PERI_ASSIGN(const std::string_view name, input.get_string("name"));
  if (!value.is_array() && !value.is_object())
    return invalid("the value is neither a list nor an object").but_found(value.kind_name());
  if (const Json* const shape = value.find("shape")) {
    std::vector<int64_t>& dims = subject.shapes[std::string(name)];
    PERI_ASSIGN(const auto* list, shape->as_array());
    dims.clear();
    for (const Json& d : *list) {
      PERI_ASSIGN(const int64_t v, d.as_int());
      if (v < 0) return invalid("'shape' has a negative dimension");
      dims.push_back(v);
    }
  }
  subject.batch = 1;
  PERI_ASSIGN(LoadTensor out, empty_tensor(subject, input, "--input-data"));
  const int64_t wanted = elements_of(out);
  PERI_ASSIGN(const int64_t count, read_values(value, &out));
  if (count < 0)
    return invalid("'b64' holds other bytes than the input takes")
        .expecting(std::to_string(wanted * static_cast<int64_t>(bytes_of(out.type))))
        .but_found(std::to_string(out.bytes.size()));
  if (count != wanted)
    return invalid("the input takes other elements than these")
        .expecting(std::to_string(wanted) + " for " + shape_text(Shape(out.dims.begin(), out.dims.end())))
        .but_found(std::to_string(count));
  return out;
}

Result<std::vector<LoadTensor>> tensors_of_item(const LoadSubject& subject, const Json::Array& inputs,
                                                const Json& item) {
  PERI_ASSIGN(const auto* members, item.as_object());
  std::vector<LoadTensor> out;
  std::string names;
  for (const Json& input : inputs) {
    PERI_ASSIGN(const std::string_view name, input.get_string("name"));
    names += (names.empty() ? "" : ", ") + std::string(name);
    const Json* const value = item.find(name);
    if (!value) return invalid("the input '%s' is not given", std::string(name).c_str());
    auto made = tensor_of_item(subject, input, *value);
    if (!made.ok()) return std::move(made).error().at_node(std::string(name));
    out.push_back(std::move(*made));
  }
  for (const Json::Member& m : *members)
    if (std::none_of(out.begin(), out.end(), [&](const LoadTensor& t) { return t.name == m.key; }))
      return invalid("'%s' is not an input of the model", m.key.c_str()).expecting(names);
  return out;
}

// The values of the outputs that are wanted, in their order. Outputs that are not named are not compared.
Result<std::vector<LoadTensor>> wanted_of_item(const Json* outputs, const Json& item) {
  PERI_ASSIGN(const auto* members, item.as_object());
  std::vector<LoadTensor> out;
  for (const Json::Member& m : *members) {
    std::string names;
    const Json* port = nullptr;
    for (size_t k = 0; outputs && outputs->is_array() && k < outputs->items().size(); ++k) {
      PERI_ASSIGN(const std::string_view name, outputs->items()[k].get_string("name"));
      names += (names.empty() ? "" : ", ") + std::string(name);
      if (name == m.key) port = &outputs->items()[k];
    }
    if (!port) return invalid("'%s' is not an output of the model", m.key.c_str()).expecting(names);
    PERI_ASSIGN(const std::string_view type, port->get_string("datatype"));
    if (bytes_of(type) == 0 && type != "BYTES")
      return unsupported("the output '%s' is of a type that is not known: %s", m.key.c_str(),
                         std::string(type).c_str());
    LoadTensor made{m.key, std::string(type), {}, {}};
    if (!m.value.is_array() && !m.value.is_object())
      return invalid("the value is neither a list nor an object").at_node(m.key).but_found(m.value.kind_name());
    auto count = read_values(m.value, &made);
    if (!count.ok()) return std::move(count).error().at_node(m.key);
    if (*count < 0) return invalid("'b64' is not of whole elements").at_node(m.key);
    out.push_back(std::move(made));
  }
  std::sort(out.begin(), out.end(), [](const LoadTensor& a, const LoadTensor& b) { return a.name < b.name; });
  return out;
}

// The items of a list, each with its place in words; those of its sequences too. Errors: kInvalid: there is none.
struct Item {
  const Json* json;
  std::string place;
  bool step = false, first = true;
};
Result<std::vector<Item>> items_of(const Json& file, const std::string& key) {
  PERI_ASSIGN(const auto* list, file.get_array(key));
  std::vector<Item> out;
  const bool lists = std::any_of(list->begin(), list->end(), [](const Json& item) { return item.is_array(); });
  for (size_t k = 0; k < list->size(); ++k) {
    const Json& item = (*list)[k];
    if (!item.is_array()) out.push_back({&item, format("item %zu of '%s'", k, key.c_str()), false, lists || k == 0});
    for (size_t step = 0; item.is_array() && step < item.items().size(); ++step)
      out.push_back(
          {&item.items()[step], format("step %zu of item %zu of '%s'", step, k, key.c_str()), true, step == 0});
  }
  if (out.empty()) return invalid("'%s' is empty", key.c_str()).expecting("an object of tensors for each request");
  return out;
}

Result<std::vector<LoadRequest>> requests_of_json(const LoadSubject& subject, const Json::Array& inputs,
                                                  const Json* outputs) {
  PERI_ASSIGN(const std::string text, read_file(subject.data_path, kMaxFileBytes));
  PERI_ASSIGN(const Json file, parse_json(text, {64, static_cast<size_t>(kMaxFileBytes), kMaxValues, true}));
  PERI_ASSIGN(const std::vector<Item> items, items_of(file, "data"));
  std::vector<Item> wanted;
  if (file.find("validation_data")) {
    PERI_ASSIGN(wanted, items_of(file, "validation_data"));
    if (wanted.size() != items.size())
      return invalid("'validation_data' needs an item for each of 'data'")
          .expecting(std::to_string(items.size()))
          .but_found(std::to_string(wanted.size()));
  }
  const auto placed = [](Error e, const Item& item) {
    e.message = item.place + ": " + e.message;
    return e;
  };
  std::vector<LoadRequest> all;
  size_t bytes = 0;
  for (size_t k = 0; k < items.size(); ++k) {
    auto made = tensors_of_item(subject, inputs, *items[k].json);
    if (!made.ok()) return placed(std::move(made).error(), items[k]);
    for (const LoadTensor& t : *made) bytes += t.bytes.size() * static_cast<size_t>(subject.batch);
    if (bytes > kMaxBytes) return usage("the requests of --input-data take more than 2 GiB");
    all.push_back({std::move(*made), {}, items[k].step, items[k].first});
    if (wanted.empty()) continue;
    auto answer = wanted_of_item(outputs, *wanted[k].json);
    if (!answer.ok()) return placed(std::move(answer).error(), wanted[k]);
    all.back().wanted = std::move(*answer);
  }
  return all;
}

// One request: for each input the file of its name, its elements raw, or a line for each text.
Result<std::vector<LoadRequest>> request_of_folder(LoadSubject subject, const Json::Array& inputs) {
  subject.batch = 1;
  std::vector<LoadRequest> out(1);
  for (const Json& input : inputs) {
    PERI_ASSIGN(LoadTensor t, empty_tensor(subject, input, "--shape"));
    // The names are the server's: none leads out of the folder.
    if (t.name.empty() || t.name == "." || t.name == ".." ||
        t.name.find_first_of(std::string_view("/\0", 2)) != t.name.npos)
      return unsupported("no file has the name of the input '%s'", t.name.c_str()).advise("give the inputs in JSON");
    const std::string path = subject.data_path + "/" + t.name;
    PERI_ASSIGN(std::string bytes, read_file(path, kMaxFileBytes));
    const auto each = static_cast<int64_t>(bytes_of(t.type));
    const int64_t wanted = elements_of(t) * std::max<int64_t>(each, 1);  // bytes or lines
    int64_t found = std::ssize(bytes);
    if (each > 0) {
      t.bytes = std::move(bytes);
    } else {
      found = 0;
      for (size_t at = 0; at < bytes.size(); ++found) {
        const size_t end = std::min(bytes.find('\n', at), bytes.size());
        put(static_cast<uint32_t>(end - at), &t.bytes);
        t.bytes += bytes.substr(at, end - at);
        at = end + 1;
      }
    }
    if (found != wanted)
      return invalid("the file has other %s than the input takes", each > 0 ? "bytes" : "lines")
          .in_file(path)
          .expecting(std::to_string(wanted) + " for " + t.type + shape_text(Shape(t.dims.begin(), t.dims.end())))
          .but_found(std::to_string(found));
    out[0].inputs.push_back(std::move(t));
  }
  return out;
}
// Appends the rows of an item.
Status join_rows(const LoadRequest& item, LoadRequest* out) {
  const std::vector<LoadTensor>& more = item.inputs;
  for (size_t k = 0; k < more.size(); ++k) {
    LoadTensor& t = out->inputs[k];
    if (!t.batched)
      return usage("--batch-size is for models that take any number of rows, and '%s' has a fixed size", t.name.c_str())
          .advise("leave it out");
    if (!std::equal(t.dims.begin() + 1, t.dims.end(), more[k].dims.begin() + 1, more[k].dims.end()))
      return usage("the items of a batch give '%s' unlike shapes", t.name.c_str()).advise("leave --batch-size out");
    t.dims[0] += more[k].dims[0];
    t.bytes += more[k].bytes;
  }
  if (item.wanted.size() != out->wanted.size())
    return usage("the items of a batch want answers of unlike outputs").advise("leave --batch-size out");
  for (size_t k = 0; k < item.wanted.size(); ++k) {
    if (item.wanted[k].name != out->wanted[k].name)
      return usage("the items of a batch want answers of unlike outputs").advise("leave --batch-size out");
    out->wanted[k].bytes += item.wanted[k].bytes;
  }
  return Ok{};
}

}  // namespace

Result<std::vector<LoadRequest>> requests_of_files(const LoadSubject& subject, const Json::Array& inputs,
                                                   const Json* outputs) {
  std::error_code failed;
  const bool folder = std::filesystem::is_directory(subject.data_path, failed);
  PERI_ASSIGN(std::vector<LoadRequest> all,
              folder ? request_of_folder(subject, inputs) : requests_of_json(subject, inputs, outputs));
  if (subject.batch == 1) return all;
  const size_t batch = static_cast<size_t>(subject.batch), n = all.size();
  std::vector<LoadRequest> out;                       // each row as often as any other
  const size_t apart = subject.in_sequences ? 0 : 1;  // the items of the rows
  for (size_t k = 0; k < (apart ? n / std::gcd(n, batch) : n); ++k) {
    const size_t at = apart ? k * batch % n : k;
    out.push_back(all[at]);
    for (size_t row = 1; row < batch; ++row) PERI_TRY(join_rows(all[(at + apart * row) % n], &out.back()));
  }
  return out;
}

}  // namespace peri::serve
