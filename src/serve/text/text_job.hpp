// Runs the texts of a request: each is a call of its own, so that its answer does not depend on the others; only a few
// are queued at a time, which leaves space for other requests.
#pragma once

#include <deque>

#include "serve/repository/repository.hpp"

namespace peri::serve {

// A text, or its token ids.
struct TextInput {
  std::string text;
  std::vector<int64_t> ids;
  bool is_ids = false;
};

struct TextResult {
  std::vector<std::vector<float>> rows;  // by text
  int64_t tokens = 0;                    // of all texts, including special tokens
};

class TextJob : public std::enable_shared_from_this<TextJob> {
 public:
  // Called once, on any thread.
  using Done = std::function<void(Result<TextResult>, int64_t retry_after_ns)>;
  TextJob(ServedPtr served, std::vector<TextInput> inputs, Done done);
  void set_times(int priority, int64_t timeout_ns) {
    priority_ = priority;
    timeout_ns_ = timeout_ns;
  }
  // One of the model's prompts, in place of its default one; if it has none of this name, or an input is ids, the job
  // ends with an error. Before start().
  void set_prompt(std::string_view name);
  // Starts the job, which then continues on the threads that deliver answers.
  void start() { pump(); }
  // Drops texts that have not begun; the job then ends with an error.
  void cancel();
  // The index of the output that answers a text. Errors: kUnsupported: the model does not take texts.
  static Result<size_t> answer_of(const Served& served);

 private:
  void pump();
  Status submit(size_t k);
  void take(size_t k, Answer answer);
  void fail(Error error, int64_t retry_after_ns);
  Result<std::vector<Tensor>> encode(const TextInput& input, int64_t* tokens) const;

  const ServedPtr served_;
  const std::vector<TextInput> inputs_;
  const Done done_;
  std::optional<std::string_view> prompt_;  // of the model
  int priority_ = 0;
  int64_t timeout_ns_ = 0;
  size_t answer_ = 0, window_ = 1;
  std::mutex mutex_;  // protects all members below
  size_t next_ = 0, open_ = 0;
  bool pumping_ = false, told_ = false;
  std::vector<CallPtr> calls_;
  TextResult result_;
  std::optional<Error> error_;
  int64_t retry_after_ns_ = 0;
};

}  // namespace peri::serve
