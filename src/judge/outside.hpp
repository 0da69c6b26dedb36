// What is asked about an output that is outside its budget before it is called wrong, the cheapest first.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "judge/rounded.hpp"
#include "judge/verify.hpp"

namespace peri::judge {

// One run for each seed: inputs, our answers, and those they are held against.
struct Runs {
  std::vector<std::vector<Tensor>> inputs, got, want;
  // ONNX Runtime's, as imported, where it is known to be the one that the engine was made of.
  std::optional<ir::Graph> model = std::nullopt;
};

// kRefused where the reference would take hours at the sizes of these inputs.
Status affordable(const Subject& s, std::span<const Tensor> inputs);

// Holds an output that is outside against the model with its weights rounded, as the engine keeps them, and gives it
// the room of what rounding moves it by; `beyond`: what it does not keep then.
Status hold_rounded(References& references, const Runs& r, size_t n, size_t k, const Budget& budget, double* allowed,
                    std::string* beyond, OutputVerdict* o);

// An answer that is outside because of a unit at a tie is held value by value; `why` where that does not prove it. A
// budget that was given is kept. Where the reference cannot follow, the answer stays outside. `exact`: the reference's
// answers of this run, kept for its other outputs; empty: not made yet.
Status follow_answer(const Subject& s, const VerifyTerms& terms, const Runs& r, size_t n, size_t k,
                     const Budget& budget, runtime::Session& session, std::vector<Tensor>* exact, OutputVerdict* o,
                     std::string* why);

// Where the model's own answer moves by one rounding of its inputs and weights as far as the engine's is off, the model
// cancels, and no float32 program is sure to be nearer: an answer that is no more than twice as far off is right if
// each value that the engine keeps on the way is within its own, finite error. Otherwise it is said how far it moves.
Status weigh_moves(const Subject& s, const VerifyTerms& terms, const Runs& r, size_t n, size_t k,
                   runtime::Session& session, OutputVerdict* o, std::string* why);

// Which of two answers that differ is off, if one is: each is held against the float64 reference of its own weights,
// within the same budget. The reference reads the model as the engine does: only an answer that means the same by its
// cosine, which no shift or factor of all elements lowers, or that is rounded to bytes and parts by a step of them here
// and there, is called inexact. A budget that was given stays one of their difference.
Status ask_reference(const Subject& s, const VerifyTerms& terms, const Runs& r, size_t n, size_t k,
                     const Budget& budget, References& references, OutputVerdict* o, std::string* why);

}  // namespace peri::judge
