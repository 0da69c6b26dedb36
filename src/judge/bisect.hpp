// The steps of a run judged one by one, for verify().
#pragma once

#include "judge/verify.hpp"

namespace peri::judge {

// " at seed 3", of inputs that nobody gave.
std::string at_seed(const VerifyTerms& terms, size_t run);
// What is said of an output whose elements are NaN, as the wanted ones.
std::string proves_nothing(const VerifyTerms& terms, size_t run, const std::string& output, int64_t nan, int64_t all);

// Runs the engine once, as it runs, with every step judged, and unless the steps alone are to be, against the source's
// values too: behind a rounding, where a tie may go either way, value by value. False: a step is wrong.
Result<bool> bisect(const Subject& s, const VerifyTerms& terms, runtime::Session& session,
                    std::span<const Tensor> inputs, Verification* v);

}  // namespace peri::judge
