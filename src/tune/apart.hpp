// A whole result is verified only against another one: candidates are tried in an order in which each finds one to be
// compared with, and cached ones are tried again if they never were compared, or if a new one needs them.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/thread_pool.hpp"
#include "tune/tuner.hpp"

namespace peri::tune {

// The index of the next candidate to try: for each provider its candidates until one passed, then the others. None: all
// were tried.
std::optional<size_t> next_apart(std::span<const Candidate* const> candidates, const std::vector<bool>& tried,
                                 FunctionRef<bool(size_t)> passed);

// Those among `all`, of which `fresh` are not known yet, that have to be tried together with them: cached ones that
// were correct at positions but never compared with another provider's result although there is one, or with any
// although there is another; and for these and the fresh ones the fastest, and the fastest of another provider.
std::vector<Candidate*> tried_apart(std::vector<Candidate>& all, std::span<Candidate* const> fresh);

}  // namespace peri::tune
