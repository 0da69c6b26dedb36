// How the time of trials is spent, part by part, summed over the requests to a judge: it explains why a build is slow.
#pragma once

#include <string>
#include <utility>

#include "base/clock.hpp"
#include "base/json.hpp"

namespace peri::tune {

// Seconds.
struct Spent {
  double arguments = 0;  // values generated, converted to layouts and copied between guards
  double reference = 0;  // expected results
  double code = 0;       // waiting for the compilation of GPU kernels
  double ready = 0;      // candidates loaded, with their memory
  double checks = 0;     // their runs, compared with the reference
  double compared = 0;   // whole results compared with each other
  double timing = 0;
  double asked = 0;  // libraries' choices for a problem

  Spent& operator+=(const Spent& more);
  double sum() const { return arguments + reference + code + ready + checks + compared + timing + asked; }
  std::string text() const;  // "arguments 0.1 s, reference 0.2, code 0.5, made ready 1.0, checked 0.3, compared 0.1,
                             // timed 0.4, asked 0.2"
};
// Seconds since *since, which is set to now.
inline double lap(int64_t* since) {
  const int64_t before = std::exchange(*since, now_ns());
  return static_cast<double>(*since - before) * 1e-9;
}
// Adds the time of its own lifetime.
class Lap {
 public:
  explicit Lap(double* to) : to_(to), since_(now_ns()) {}
  Lap(const Lap&) = delete;
  ~Lap() { *to_ += seconds_since(since_); }

 private:
  double* to_;
  int64_t since_;
};

void write_spent(JsonWriter& w, const Spent& spent);
// Errors: kInvalid where a part is missing or negative.
Result<Spent> read_spent(const Json& json);

}  // namespace peri::tune
