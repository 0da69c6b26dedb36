// Checks a configuration against a model's ports: a requirement that the graph does not meet is refused with the port's
// name.
#include <algorithm>

#include "base/file.hpp"
#include "serve/kserve/datatype.hpp"
#include "serve/queue/form.hpp"
#include "serve/repository/scan.hpp"

namespace peri::serve {
namespace {

size_t place(std::span<const plan::Port> ports, const std::string& name) {
  const auto it = std::find_if(ports.begin(), ports.end(), [&](const plan::Port& p) { return p.name == name; });
  return static_cast<size_t>(it - ports.begin());
}

Result<size_t> find(std::span<const plan::Port> ports, const std::string& name, const char* what) {
  const size_t at = place(ports, name);
  std::string names;
  for (const plan::Port& p : ports) names += (names.empty() ? "" : ", ") + p.name;
  if (at == ports.size()) return invalid("%s '%s' is none of the model's", what, name.c_str()).expecting(names);
  return at;
}

Status check_type(const plan::Port& port, const std::string& said, const char* what) {
  if (said.empty() || said == config_datatype(port.dtype)) return Ok{};
  return invalid("%s '%s' is of another type than the model's", what, port.name.c_str())
      .expecting(config_datatype(port.dtype))
      .but_found(said);
}

std::string dims_text(const std::vector<int64_t>& dims) {
  std::string out = "[";
  for (size_t k = 0; k < dims.size(); ++k) out += (k ? "," : "") + std::to_string(dims[k]);
  return out + "]";
}

// The same number of elements between free dims, of which both have the same number.
bool same_elements(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  const auto segments = [](const std::vector<int64_t>& dims) {
    std::vector<int64_t> out = {1};
    for (const int64_t d : dims) {
      if (d < 0)
        out.push_back(1);
      else if (__builtin_mul_overflow(out.back(), d, &out.back()))
        out.back() = -1;
    }
    return out;
  };
  return segments(a) == segments(b);
}

bool may_have(const Shape& shape, size_t skip, const std::vector<int64_t>& dims) {
  if (shape.size() != dims.size() + skip) return false;
  for (size_t k = 0; k < dims.size(); ++k)
    if (dims[k] >= 0 && shape[k + skip].is_const() && shape[k + skip].value() != dims[k]) return false;
  return true;
}

Shape shape_of(const PortConfig& c, bool batch) {
  Shape out;
  if (batch) out.push_back(Dim::symbol("batch"));
  for (size_t k = 0; k < c.dims.size(); ++k)
    out.push_back(c.dims[k] < 0 ? Dim::symbol(c.name + "." + std::to_string(k)) : Dim(c.dims[k]));
  return out;
}

Status check_reshape(const PortConfig& c, const plan::Port& port, bool batch) {
  if (!same_elements(c.dims, *c.reshape))
    return invalid("reshape of '%s' has other elements than its dims", c.name.c_str())
        .expecting("as many between free dims as " + dims_text(c.dims))
        .but_found(dims_text(*c.reshape));
  if (!may_have(port.shape, batch ? 1 : 0, *c.reshape))
    return invalid("reshape of '%s' gives other dims than the model's%s", c.name.c_str(),
                   batch ? ", of which the first is the batch" : "")
        .expecting(shape_text(port.shape))
        .but_found(dims_text(*c.reshape));
  return Ok{};
}
}  // namespace

class FormMaker {
 public:
  FormMaker(const ModelConfig& config, std::span<const plan::Port> inputs, std::span<const plan::Port> outputs,
            const std::string& folder)
      : config_(config), folder_(folder), form_(std::make_shared<Form>()) {
    form_->own_inputs_.assign(inputs.begin(), inputs.end());
    form_->own_outputs_.assign(outputs.begin(), outputs.end());
    form_->in_.resize(inputs.size());
    form_->out_.resize(outputs.size());
    form_->batch_ = config.max_batch_size > 0;
  }

  Result<std::shared_ptr<const Form>> make() {
    if (config_.sequences) PERI_TRY(add_sequences(*config_.sequences));
    PERI_TRY(add_batch_inputs());
    PERI_TRY(add_client_inputs());
    PERI_TRY(add_outputs());
    if (!changed_) return std::shared_ptr<const Form>();
    return std::shared_ptr<const Form>(std::move(form_));
  }

 private:
  using Kind = Form::In::Kind;

  Status take(size_t port, Kind kind, size_t at) {
    Form::In& in = form_->in_[port];
    if (in.kind != Kind::kClient)
      return invalid("input '%s' is made in two ways", form_->own_inputs_[port].name.c_str());
    in.kind = kind;
    in.at = at;
    changed_ = true;
    return Ok{};
  }

  Status add_sequences(const SequenceConfig& s) {
    for (const ControlConfig& c : s.controls) {
      PERI_ASSIGN(const size_t at, find(form_->own_inputs_, c.input, "control_input"));
      const plan::Port& port = form_->own_inputs_[at];
      PERI_TRY(check_type(port, c.data_type, "control_input"));
      const size_t skip = config_.max_batch_size > 0 ? 1 : 0;
      bool one = port.shape.size() >= skip;
      for (size_t k = skip; k < port.shape.size(); ++k)
        one = one && (!port.shape[k].is_const() || port.shape[k].is_const(1));
      if (!one)
        return invalid("control_input '%s' must be one element for each request", c.input.c_str())
            .expecting(skip ? "[batch,1]" : "[1]")
            .but_found(shape_text(port.shape));
      PERI_TRY(take(at, Kind::kControl, form_->controls_.size()));
      form_->controls_.push_back(c);
    }
    for (const StateConfig& state : s.states) PERI_TRY(add_state(state));
    return Ok{};
  }

  Status add_state(const StateConfig& s) {
    PERI_ASSIGN(const size_t in, find(form_->own_inputs_, s.input, "the state's input_name"));
    PERI_ASSIGN(const size_t out, find(form_->own_outputs_, s.output, "the state's output_name"));
    const plan::Port& port = form_->own_inputs_[in];
    PERI_TRY(check_type(port, s.data_type, "the state"));
    PERI_TRY(check_type(form_->own_outputs_[out], config_datatype(port.dtype), "the state's output_name"));
    const bool batch = config_.max_batch_size > 0;
    if (!s.dims.empty() && !may_have(port.shape, batch ? 1 : 0, s.dims))
      return invalid("the state '%s' has other dims than the model's%s", s.input.c_str(),
                     batch ? ", of which the first is the batch" : "")
          .expecting(shape_text(port.shape))
          .but_found(dims_text(s.dims));
    std::vector<int64_t> dims = s.initial_dims.empty() ? s.dims : s.initial_dims;
    if (dims.empty())
      for (size_t k = batch ? 1 : 0; k < port.shape.size(); ++k)
        dims.push_back(port.shape[k].is_const() ? port.shape[k].value() : 1);
    for (int64_t& d : dims) d = d < 0 ? 1 : d;
    if (!may_have(port.shape, batch ? 1 : 0, dims))
      return invalid("the initial_state of '%s' has other dims than the model's", s.input.c_str())
          .expecting(shape_text(port.shape))
          .but_found(dims_text(dims));
    if (batch) dims.insert(dims.begin(), 1);
    PERI_ASSIGN(Tensor initial, Tensor::zeros(port.dtype, dims));
    if (!s.initial_file.empty()) PERI_TRY(fill(s, &initial));
    if (form_->out_[out].state) return invalid("output '%s' is the next of two states", s.output.c_str());
    form_->out_[out].state = form_->states_.size();
    form_->out_[out].seen = place_of(config_.outputs, s.output);
    PERI_TRY(take(in, Kind::kState, form_->states_.size()));
    form_->states_.push_back({in, std::move(initial)});
    return Ok{};
  }

  static bool place_of(const std::vector<PortConfig>& list, const std::string& name) {
    return std::any_of(list.begin(), list.end(), [&](const PortConfig& c) { return c.name == name; });
  }

  Status fill(const StateConfig& s, Tensor* initial) const {
    if (!plain_name(s.initial_file))
      return invalid("data_file of the initial_state must be a plain file name").but_found(s.initial_file);
    if (initial->dtype() == DType::kString)
      return unsupported("the initial_state of '%s' is of strings: they begin as zero_data", s.input.c_str());
    PERI_ASSIGN(const std::string bytes, read_file(folder_ + "/initial_state/" + s.initial_file, int64_t{1} << 30));
    if (bytes.size() != initial->bytes().size())
      return invalid("the initial_state of '%s' takes %zu bytes", s.input.c_str(), initial->bytes().size())
          .but_found(format("%zu", bytes.size()))
          .in_file(s.initial_file);
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(initial->mutable_data()));
    return Ok{};
  }

  Status add_batch_inputs() {
    using BKind = BatchInputConfig::Kind;
    for (const BatchInputConfig& b : config_.batch_inputs) {
      PERI_ASSIGN(const size_t at, find(form_->own_inputs_, b.target, "target_name"));
      PERI_ASSIGN(const size_t source, find(form_->own_inputs_, b.source, "source_input"));
      const plan::Port& port = form_->own_inputs_[at];
      PERI_TRY(check_type(port, b.data_type, "batch_input"));
      const size_t rank = b.kind == BKind::kItemShape ? 2 : 1;
      if (port.shape.size() != rank || port.shape[0].is_const() || port.dtype == DType::kString)
        return invalid("%s gives input '%s' numbers, as many as the batch needs",
                       std::string(batch_input_name(b.kind)).c_str(), b.target.c_str())
            .expecting(rank == 2 ? "a tensor [batch,rank]" : "a tensor of one free axis")
            .but_found(shape_text(port.shape));
      form_->one_row_ =
          form_->one_row_ || b.kind == BKind::kCount || b.kind == BKind::kSum || b.kind == BKind::kSumWithZero;
      PERI_TRY(take(at, Kind::kBatch, form_->batch_inputs_.size()));
      form_->batch_inputs_.push_back({b.kind, source});
      form_->ragged_ = true;
    }
    for (const Form::BatchInput& b : form_->batch_inputs_)
      if (form_->in_[b.source].kind != Kind::kClient)
        return invalid("source_input '%s' is given by no client", form_->own_inputs_[b.source].name.c_str());
    return Ok{};
  }

  Status add_client_inputs() {
    for (size_t k = 0; k < form_->in_.size(); ++k) {
      Form::In& in = form_->in_[k];
      if (in.kind != Kind::kClient) continue;
      plan::Port seen = form_->own_inputs_[k];
      const auto c = std::find_if(config_.inputs.begin(), config_.inputs.end(),
                                  [&](const PortConfig& p) { return p.name == seen.name; });
      if (c != config_.inputs.end() && c->ragged) {
        if (seen.shape.size() != 1 || seen.shape[0].is_const())
          return unsupported(
                     "allow_ragged_batch puts the elements of all requests end to end, along one axis; input "
                     "'%s' of the model is %s, whose rows are of one length",
                     seen.name.c_str(), shape_text(seen.shape).c_str())
              .advise("take allow_ragged_batch out, or make the graph take '" + seen.name +
                      "' as one axis, and where each request begins as a batch_input");
        if (c->reshape) return invalid("input '%s' has both reshape and allow_ragged_batch", seen.name.c_str());
        in.ragged = form_->ragged_ = changed_ = true;
        seen.shape = shape_of(*c, true);
      } else if (c != config_.inputs.end() && c->reshape) {
        PERI_TRY(check_reshape(*c, seen, form_->batch_));
        in.seen_dims = c->dims;
        in.own_dims = c->reshape;
        seen.shape = shape_of(*c, form_->batch_);
        changed_ = true;
      }
      in.at = form_->seen_inputs_.size();
      form_->seen_inputs_.push_back(std::move(seen));
    }
    for (const PortConfig& c : config_.inputs) {
      const size_t at = place(form_->own_inputs_, c.name);
      if (at < form_->in_.size() && form_->in_[at].kind != Kind::kClient)
        return invalid("input '%s' is made by the server, and given by clients", c.name.c_str())
            .advise("take it out of 'input'");
    }
    return Ok{};
  }

  Status add_outputs() {
    for (const BatchOutputConfig& b : config_.batch_outputs) {
      PERI_ASSIGN(const size_t at, find(form_->own_outputs_, b.target, "batch_output"));
      PERI_ASSIGN(const size_t source, find(form_->own_inputs_, b.source, "source_input"));
      const plan::Port& port = form_->own_outputs_[at];
      if (form_->in_[source].kind != Kind::kClient || !form_->in_[source].ragged)
        return invalid("batch_output '%s' follows the dims of '%s', which is not a ragged input", b.target.c_str(),
                       b.source.c_str());
      if (port.shape.size() != 1)
        return invalid("batch_output '%s' must be one axis, of as many elements as '%s'", b.target.c_str(),
                       b.source.c_str())
            .but_found(shape_text(port.shape));
      form_->out_[at].scatter = source;
    }
    for (size_t k = 0; k < form_->out_.size(); ++k) {
      Form::Out& out = form_->out_[k];
      if (!out.seen) continue;
      plan::Port seen = form_->own_outputs_[k];
      const auto c = std::find_if(config_.outputs.begin(), config_.outputs.end(),
                                  [&](const PortConfig& p) { return p.name == seen.name; });
      if (out.scatter) {
        seen.shape = form_->seen_inputs_[form_->in_[*out.scatter].at].shape;
      } else if (form_->ragged_ && (seen.shape.empty() || seen.shape[0].is_const())) {
        return unsupported("a ragged batch needs a row for each request: output '%s' of the model is %s",
                           seen.name.c_str(), shape_text(seen.shape).c_str())
            .advise("say by batch_output how it is taken apart, or take allow_ragged_batch out");
      } else if (c != config_.outputs.end() && c->reshape) {
        PERI_TRY(check_reshape(*c, seen, form_->batch_));
        out.seen_dims = c->dims;
        out.own_dims = c->reshape;
        seen.shape = shape_of(*c, form_->batch_);
        changed_ = true;
      }
      form_->seen_outputs_.push_back(std::move(seen));
    }
    return Ok{};
  }

  const ModelConfig& config_;
  const std::string& folder_;
  std::shared_ptr<Form> form_;
  bool changed_ = false;
};

Result<std::shared_ptr<const Form>> Form::make(const ModelConfig& config, std::span<const plan::Port> inputs,
                                               std::span<const plan::Port> outputs, const std::string& folder) {
  return FormMaker(config, inputs, outputs, folder).make();
}

}  // namespace peri::serve
