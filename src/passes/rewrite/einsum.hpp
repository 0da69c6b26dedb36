// Sums over named axes as matrix products.
#pragma once

#include "passes/rewrite/rewrite.hpp"

namespace peri::passes {

// Types that a matmul has.
bool multiplies(DType t);

// An einsum as transposes, reshapes, matmul, mul and reduce_sum: of more than two operands the two first whose product
// multiplies least, and so on; of axes that one term names by one letter the diagonal. False: two numbers differ as
// extents of a letter, neither 1, those of one term are not known to be equal, or a shape on the way has several sizes
// that the data decide. Extents of two names are those of a matmul: along a summed axis they are equal, along others
// one may be 1 in a run.
Result<bool> open_einsum(Rewriter& w, ir::Node* n);

// A matmul whose batch axes are broadcast from one side and from the other in more than two groups, as queries beside
// documents: one batched product, whose rows and columns are those of all. False: any other.
Result<bool> open_batches(Rewriter& w, ir::Node* n);

}  // namespace peri::passes
