// The tensors of a load's requests: seeded by the model's metadata, or of files.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/dim.hpp"
#include "base/dtype.hpp"
#include "base/json.hpp"
#include "base/rng.hpp"
#include "base/shell_word.hpp"
#include "serve/load/data.hpp"
#include "serve/load/values.hpp"

namespace peri::serve {
namespace {

// Floats in [0, 1); integers 0 and 1, which are valid for any index input.
void add_element(std::string_view type, bool zero, Rng* rng, std::string* out) {
  if (type == "BYTES") {
    put<uint32_t>(8, out);
    for (int k = 0; k < 8; ++k) out->push_back(zero ? '0' : static_cast<char>('a' + rng->below(26)));
  } else if (type == "FP32") {
    put(zero ? 0.f : static_cast<float>(rng->uniform()), out);
  } else if (type == "FP64") {
    put(zero ? 0.0 : rng->uniform(), out);
  } else if (type == "FP16" || type == "BF16") {  // [0.5, 1): constant exponent, any fraction
    const int fraction = type == "FP16" ? 10 : 7;
    const int half = type == "FP16" ? 14 : 126;
    put<uint16_t>(zero ? uint16_t{0} : static_cast<uint16_t>(half << fraction | rng->below(int64_t{1} << fraction)),
                  out);
  } else {
    out->push_back(zero ? '\0' : static_cast<char>(rng->below(2)));
    out->append(bytes_of(type) - 1, '\0');
  }
}

// `source`: who gives the shape, for messages.
Result<std::vector<int64_t>> dims_of(const LoadSubject& subject, const Json& input, const std::string& name,
                                     const char* source) {
  PERI_ASSIGN(const auto* shape, input.get_array("shape"));
  std::vector<int64_t> dims;
  for (const Json& d : *shape) {
    PERI_ASSIGN(const int64_t v, d.as_int());
    dims.push_back(v);
  }
  const std::vector<int64_t> stated = dims;
  if (!dims.empty() && dims[0] < 0) dims[0] = subject.batch;
  const auto given = subject.shapes.find(name);
  if (given != subject.shapes.end()) {
    const bool without_batch = given->second.size() + 1 == dims.size();
    if (!without_batch && given->second.size() != dims.size())
      return usage("the shape given for '%s' has another rank than the model's", name.c_str())
          .expecting(std::to_string(dims.size()) + " dims, or one less, without the batch")
          .but_found(std::to_string(given->second.size()));
    std::copy(given->second.begin(), given->second.end(), dims.begin() + (without_batch ? 1 : 0));
    for (size_t axis = 0; axis < dims.size(); ++axis)
      if (stated[axis] >= 0 && dims[axis] != stated[axis])
        return usage("%s gives axis %zu of '%s' another size than the model has", source, axis, name.c_str())
            .expecting(shape_text(Shape(stated.begin(), stated.end())) + ", -1 for any size")
            .but_found(shape_text(Shape(dims.begin(), dims.end())));
    if (!without_batch && !dims.empty() && stated[0] < 0 && subject.batch_given && dims[0] != subject.batch)
      return usage("%s gives '%s' %lld rows, and --batch-size is %lld", source, name.c_str(),
                   static_cast<long long>(dims[0]), static_cast<long long>(subject.batch))
          .advise("leave one of them out");
  }
  for (const int64_t d : dims)
    if (d < 0)
      return usage("the input '%s' has open dims", name.c_str())
          .advise("give them: --shape " + shell_word(name + ":DIM,DIM,..."));
  return dims;
}

Result<bool> is_batched(const Json& input) {
  PERI_ASSIGN(const auto* shape, input.get_array("shape"));
  if (shape->empty()) return false;
  PERI_ASSIGN(const int64_t first, (*shape)[0].as_int());
  return first < 0;
}

}  // namespace

Result<LoadTensor> empty_tensor(const LoadSubject& subject, const Json& input, const char* source) {
  PERI_ASSIGN(const std::string_view name, input.get_string("name"));
  PERI_ASSIGN(const std::string_view type, input.get_string("datatype"));
  if (bytes_of(type) == 0 && type != "BYTES")
    return unsupported("the input '%s' is of a type that is not known: %s", std::string(name).c_str(),
                       std::string(type).c_str());
  LoadTensor made{std::string(name), std::string(type), {}, {}};
  PERI_ASSIGN(made.dims, dims_of(subject, input, made.name, source));
  PERI_ASSIGN(made.batched, is_batched(input));
  double elements = 1;
  for (const int64_t d : made.dims) elements *= static_cast<double>(d);
  if (elements > double{1 << 28}) return usage("the input '%s' would be larger than 2^28 elements", made.name.c_str());
  return made;
}

int64_t elements_of(const LoadTensor& t) {
  return std::accumulate(t.dims.begin(), t.dims.end(), int64_t{1}, std::multiplies<>());
}

namespace {
Result<std::vector<LoadTensor>> seeded_tensors(const LoadSubject& subject, const Json::Array& inputs) {
  Rng rng(subject.seed);
  std::vector<LoadTensor> out;
  for (const Json& input : inputs) {
    PERI_ASSIGN(LoadTensor made, empty_tensor(subject, input, "--shape"));
    for (int64_t k = 0; k < elements_of(made); ++k) add_element(made.type, subject.zeros, &rng, &made.bytes);
    out.push_back(std::move(made));
  }
  return out;
}

}  // namespace

Result<std::vector<LoadRequest>> requests_of(const LoadSubject& subject, std::string_view json) {
  PERI_ASSIGN(const Json model, parse_json(json));
  PERI_ASSIGN(const auto* inputs, model.get_array("inputs"));
  auto unused = subject.shapes;
  for (const Json& input : *inputs) {
    PERI_ASSIGN(const std::string_view name, input.get_string("name"));
    unused.erase(std::string(name));
  }
  if (!unused.empty())
    return usage("--shape names '%s', which is not an input of the model", unused.begin()->first.c_str());
  if (!subject.data_path.empty()) {
    auto made = requests_of_files(subject, *inputs, model.find("outputs"));
    if (!made.ok()) return std::move(made).error().in_file(subject.data_path);
    return made;
  }
  PERI_ASSIGN(std::vector<LoadTensor> out, seeded_tensors(subject, *inputs));
  if (subject.batch_given && subject.batch != 1 &&
      std::none_of(out.begin(), out.end(), [](const LoadTensor& t) { return t.batched; }))
    return usage("--batch-size is for models that take any number of rows, and this one has fixed sizes")
        .but_found(std::to_string(subject.batch))
        .advise("leave it out");
  std::vector<LoadRequest> one(1);
  one[0].inputs = std::move(out);
  return one;
}

LoadFacts facts_of(const std::vector<LoadRequest>& requests) {
  LoadFacts out;
  const std::vector<LoadTensor>& inputs = requests[0].inputs;
  const auto batched = std::find_if(inputs.begin(), inputs.end(), [](const LoadTensor& t) { return t.batched; });
  if (batched != inputs.end()) out.rows = batched->dims[0];
  out.checked = std::any_of(requests.begin(), requests.end(), [](const LoadRequest& q) { return !q.wanted.empty(); });
  out.steps = std::any_of(requests.begin(), requests.end(), [](const LoadRequest& q) { return q.step; });
  return out;
}

}  // namespace peri::serve
