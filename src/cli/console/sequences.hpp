// Loads of sequences: the flags of `peri bench --endpoint` for stateful models.
#pragma once

#include "cli/entry.hpp"
#include "serve/load/load.hpp"

namespace peri::cli {

std::vector<Flag> sequence_flags();
Result<serve::SequenceTerms> sequences_of(const Arguments& a);
// Makes the loads ones of sequences where the requests are of them: each connection has one at a time. Errors: kUsage.
Status take_sequences(const Arguments& a, const serve::SequenceTerms& ids, const serve::LoadFacts& facts,
                      std::vector<serve::LoadTerms>* points);

}  // namespace peri::cli
