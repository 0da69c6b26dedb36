// The protocol between the build and its worker: JSON documents, each preceded by its length, on a stream socket.
#pragma once

#include "base/json.hpp"
#include "tune/judge.hpp"

namespace peri::tune {

// kIo if the other side is gone.
Status send_text(int socket, const std::string& text);
bool is_socket(int descriptor);
// The next document. kIo "closed" if the other side is gone, kCancelled if nothing arrived for `patience_s` (< 0:
// waits) or `stop` returns true; other kinds if what came is no document.
Result<Json> receive(int socket, double patience_s, const std::function<bool()>& stop = {});

// What both sides must agree on for a candidate to mean the same: version of the software, kernels with their versions
// and sources, libraries, instruction sets.
std::string signature();

struct Question {
  ir::Graph region;
  std::vector<bool> constant;
  std::vector<Candidate> candidates;
  Terms terms;
  bool resolve = false;  // asks for the choice of the candidate's library instead of a verdict
};
std::string question_text(const ir::Graph& region, const std::vector<bool>& constant,
                          std::span<const Candidate* const> candidates, const Terms& terms, bool resolve = false);
// An error if the text does not give the same problem here.
Result<Question> read_question(const Json& json);

// {"NAME":"VALUE"}
std::string one_field(std::string_view name, std::string_view value);
std::string verdict_text(size_t candidate, const Verdict& verdict);
Result<Verdict> read_verdict(const Json& json);
std::string samples_text(const SampleVerdict& verdict);
Result<SampleVerdict> read_samples(const Json& json);

}  // namespace peri::tune
