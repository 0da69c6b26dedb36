// Form: a model's ports as its clients see them, where they differ from its own: other dims, tensors that the server
// makes (a request's position in its sequence, states, properties of a batch), concatenated rows of different lengths.
#pragma once

#include <memory>
#include <span>

#include "plan/program.hpp"
#include "serve/config/model_config.hpp"
#include "serve/queue/sequences.hpp"

namespace peri::serve {

class Form {
 public:
  // Null: clients see the model's own ports. `folder`: of the model, for states that are initialised from a file.
  // Errors: kInvalid, kUnsupported, by port: what the configuration requires and the model lacks.
  static Result<std::shared_ptr<const Form>> make(const ModelConfig& config, std::span<const plan::Port> inputs,
                                                  std::span<const plan::Port> outputs, const std::string& folder);

  std::span<const plan::Port> inputs() const { return seen_inputs_; }
  std::span<const plan::Port> outputs() const { return seen_outputs_; }
  bool ragged() const { return ragged_; }
  bool batches() const { return batch_; }  // the first axis is the batch

  // A request's tensors by the model's ports, without those that join() makes. `step`: null where the model has no
  // sequences; `states`: as from take(), empty at first.
  Result<std::vector<Tensor>> rows_of(std::vector<Tensor> seen, const SequenceStep* step,
                                      std::span<const Tensor> states) const;
  // Requests of one key may share a run.
  uint64_t key(std::span<const Tensor> rows) const;
  // The model's inputs for these requests, as returned by rows_of().
  Result<std::vector<Tensor>> join(std::span<const std::vector<Tensor>* const> requests) const;
  // Each request's part of a result, by the ports of clients, and its states, which are copies.
  struct Part {
    std::vector<Tensor> outputs, states;
  };
  Result<std::vector<Part>> take(std::span<const Tensor> whole, std::span<const std::vector<Tensor>* const> requests,
                                 std::span<const int64_t> rows) const;

 private:
  struct In {
    enum class Kind : uint8_t { kClient, kControl, kState, kBatch } kind = Kind::kClient;
    size_t at = 0;  // of what clients give, or of the list below
    bool ragged = false;
    std::optional<std::vector<int64_t>> seen_dims, own_dims;  // where they differ
  };
  struct Out {
    std::optional<size_t> state;
    bool seen = true;
    std::optional<size_t> scatter;  // as this input
    std::optional<std::vector<int64_t>> seen_dims, own_dims;
  };
  struct State {
    size_t input = 0;
    Tensor initial;
  };
  struct BatchInput {
    BatchInputConfig::Kind kind = BatchInputConfig::Kind::kCount;
    size_t source = 0;  // of the model's inputs
  };
  friend class FormMaker;
  Result<Tensor> control(const ControlConfig& control, const plan::Port& port, const SequenceStep& step) const;
  Result<Tensor> batch_input(const BatchInput& made, const plan::Port& port,
                             std::span<const std::vector<Tensor>* const> requests) const;
  Result<Tensor> part_of(const Tensor& whole, const Out& out, std::span<const std::vector<Tensor>* const> requests,
                         std::span<const int64_t> rows, size_t request) const;

  std::vector<plan::Port> own_inputs_, own_outputs_, seen_inputs_, seen_outputs_;
  std::vector<In> in_;    // by the model's inputs
  std::vector<Out> out_;  // by its outputs
  std::vector<ControlConfig> controls_;
  std::vector<State> states_;
  std::vector<BatchInput> batch_inputs_;
  bool batch_ = false, ragged_ = false, one_row_ = false;
};

}  // namespace peri::serve
