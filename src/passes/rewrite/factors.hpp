// A product read as scalar times factors, and a value read as a * f + b: activation patterns match in any association.
#pragma once

#include <vector>

#include "passes/rewrite/rewrite.hpp"

namespace peri::passes {

// v = scalar * factors[0] * factors[1] ... : multiplications and divisions by scalars are expanded as long as their
// results have no other use. All factors have the shape of v; else none is returned.
struct Product {
  double scalar = 1;
  std::vector<ir::Value*> factors;
  std::vector<const ir::Node*> nodes;
};
Product product_of(const Rewriter& w, ir::Value* v, bool open_first = true);

// v = slope * x + offset, expanded in the same way.
struct Affine {
  double slope = 1, offset = 0;
  ir::Value* x = nullptr;
  std::vector<const ir::Node*> nodes;
};
Affine affine_of(const Rewriter& w, ir::Value* v);

bool near(double a, double b, double relative = 1e-5);
// The other factor of a product of two; null if `one` is not a factor.
ir::Value* other_factor(const Product& p, const ir::Value* one);

}  // namespace peri::passes
