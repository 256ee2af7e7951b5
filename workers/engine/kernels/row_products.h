// Products of rows with a weight matrix in which each row is computed alone.
#ifndef BATON_WORKERS_ENGINE_KERNELS_ROW_PRODUCTS_H_
#define BATON_WORKERS_ENGINE_KERNELS_ROW_PRODUCTS_H_

#include <cstdint>

namespace baton::engine {

/// out[m, n] = dot(x[m], weight[n]) (+ out[m, n] if `accumulate`), for m < rows, n < outs.
/// x [rows, depth], weight [outs, depth], out [rows, outs], row-major without gaps.
///
/// Every dot product is summed in one order, whatever the other rows and their number: unlike a
/// BLAS's product, whose kernels change with the shape (OpenBLAS differs in the last bits between 8
/// and 16 rows). Weights are read in place, so few rows cost no packing.
void RowProducts(const float* x, const float* weight, float* out, int64_t rows, int64_t outs,
                 int64_t depth, bool accumulate);

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_KERNELS_ROW_PRODUCTS_H_
