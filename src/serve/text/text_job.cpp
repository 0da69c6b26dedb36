// One thread at a time submits; answers that arrive meanwhile are processed by that thread.
#include "serve/text/text_job.hpp"

#include <algorithm>

#include "base/fault.hpp"

namespace peri::serve {

TextJob::TextJob(ServedPtr served, std::vector<TextInput> inputs, Done done)
    : served_(std::move(served)), inputs_(std::move(inputs)), done_(std::move(done)) {
  window_ = 2 + 2 * static_cast<size_t>(served_->model->servable().slots());
  if (const auto answer = answer_of(*served_); answer.ok())
    answer_ = *answer;
  else
    error_ = answer.error();
  calls_.resize(inputs_.size());
  result_.rows.resize(inputs_.size());
}

void TextJob::set_prompt(std::string_view name) {
  if (error_) return;
  const bool ids = std::any_of(inputs_.begin(), inputs_.end(), [](const TextInput& t) { return t.is_ids; });
  const auto prompt = served_->text->prompt_named(name);
  if (!prompt.ok())
    error_ = Error(prompt.error()).at_node("prompt_name");
  else if (ids)
    error_ = invalid("a prompt stands before texts, and an input is token ids").at_node("prompt_name");
  else
    prompt_ = *prompt;
}

Result<size_t> TextJob::answer_of(const Served& served) {
  if (!served.text)
    return unsupported("the model '%s' has no tokenizer: it takes tensors, by /infer", served.model->name().c_str());
  const auto ports = served.model->outputs();
  for (size_t k = 0; k < ports.size(); ++k)
    if (ports[k].name == served.text->spec().output && ports[k].dtype == DType::kF32 && ports[k].shape.size() == 2)
      return k;
  return unsupported("the model '%s' has no output that answers a text as a whole", served.model->name().c_str());
}

Result<std::vector<Tensor>> TextJob::encode(const TextInput& input, int64_t* tokens) const {
  const text::TextPipeline& pipeline = *served_->text;
  std::vector<std::pair<std::string, Tensor>> named;
  if (input.is_ids) {
    if (input.ids.size() > static_cast<size_t>(pipeline.spec().max_length))
      return invalid("a text of %zu tokens", input.ids.size())
          .expecting(format("at most %lld", static_cast<long long>(pipeline.spec().max_length)));
    for (const int64_t id : input.ids)
      if (id < 0 || id > static_cast<int64_t>(pipeline.tokenizer().max_id()))
        return invalid("%lld is not a token of the model", static_cast<long long>(id));
    const std::vector<int64_t> dims = {1, static_cast<int64_t>(input.ids.size())};
    const std::vector<int64_t> ones(input.ids.size(), 1), zeros(input.ids.size(), 0);
    named.emplace_back(pipeline.spec().ids, Tensor::of_i64(dims, input.ids));
    named.emplace_back(pipeline.spec().mask, Tensor::of_i64(dims, ones));
    named.emplace_back(pipeline.spec().types, Tensor::of_i64(dims, zeros));
  } else {
    PERI_ASSIGN(named, pipeline.inputs({&input.text, 1}, prompt_));
  }
  *tokens = named.front().second.numel();
  std::vector<Tensor> out;
  for (const plan::Port& port : served_->model->inputs()) {
    const auto it = std::find_if(named.begin(), named.end(), [&](const auto& n) { return n.first == port.name; });
    if (it == named.end()) return invalid("no text answers to the input '%s'", port.name.c_str());
    out.push_back(it->second);
  }
  return out;
}

Status TextJob::submit(size_t k) {
  int64_t tokens = 0;
  auto encoded = encode(inputs_[k], &tokens);
  if (!encoded.ok())
    return inputs_.size() == 1 ? encoded.error() : Error(encoded.error()).at_node(format("index %zu", k));
  std::vector<Tensor> inputs = *std::move(encoded);
  const auto call = std::make_shared<Call>();
  call->inputs = std::move(inputs);
  call->priority = priority_;
  call->timeout_ns = timeout_ns_;
  call->done = [job = shared_from_this(), k](Answer a) { job->take(k, std::move(a)); };
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    result_.tokens += tokens;
    calls_[k] = call;
  }
  served_->model->submit(call);
  return Ok{};
}

// REQUIRES: the mutex is held.
void TextJob::fail(Error error, int64_t retry_after_ns) {
  if (error_) return;
  error_ = std::move(error);
  retry_after_ns_ = retry_after_ns;
}

void TextJob::pump() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (pumping_) return;
  pumping_ = true;
  while (!error_ && next_ < inputs_.size() && open_ < window_) {
    const size_t k = next_++;
    ++open_;
    lock.unlock();
    const Status begun = contained([&] { return submit(k); });
    lock.lock();
    if (begun.ok()) continue;
    --open_;
    fail(begun.error(), 0);
  }
  pumping_ = false;
  if (open_ > 0 || (!error_ && next_ < inputs_.size()) || std::exchange(told_, true)) return;
  lock.unlock();
  if (error_)
    done_(*error_, retry_after_ns_);
  else
    done_(std::move(result_), 0);
}

void TextJob::take(size_t k, Answer a) {
  std::vector<CallPtr> over;
  CallPtr mine;  // released without the mutex
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    --open_;
    mine = std::move(calls_[k]);
    if (a.error) {
      fail(std::move(*a.error), a.retry_after_ns);
      over = calls_;
    } else {
      const Tensor& t = a.outputs[answer_];
      result_.rows[k].assign(t.as<float>().begin(), t.as<float>().end());
    }
  }
  for (const CallPtr& call : over)
    if (call) served_->model->cancel(call);
  pump();
}

void TextJob::cancel() {
  std::vector<CallPtr> over;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    fail(Error(ErrorKind::kCancelled, "the client went away"), 0);
    over = calls_;
  }
  for (const CallPtr& call : over)
    if (call) served_->model->cancel(call);
  pump();
}

}  // namespace peri::serve
