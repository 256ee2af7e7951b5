// CPU kernels of the decoder that libtorch has no single operator for: RMSNorm, rotary positions
// and gated linear units, forward and backward, in float and double.
//
// Each row is computed alone and in one order, so its result does not depend on the batch. All
// matrices are row-major; `row_stride`s count elements. The caller checks shapes.
#ifndef BATON_WORKERS_ENGINE_KERNELS_ROW_KERNELS_H_
#define BATON_WORKERS_ENGINE_KERNELS_ROW_KERNELS_H_

#include <cstdint>

namespace baton::engine::kernels {

/// y = x * scale * weight with scale = 1 / sqrt(mean(x^2) + eps), one scale per row.
/// Zhang and Sennrich, Root Mean Square Layer Normalization, 2019.
void RmsNorm(const float* x, const float* weight, float* y, float* scale, int64_t rows, int64_t dim,
             double eps);
void RmsNorm(const double* x, const double* weight, double* y, double* scale, int64_t rows,
             int64_t dim, double eps);

/// dx, and dweight += (dweight must hold a value). With g = dy * weight:
/// dx = scale * g - x * scale^3 * mean(g * x); dweight += sum over rows of dy * x * scale.
void RmsNormBackward(const float* dy, const float* x, const float* weight, const float* scale,
                     float* dx, float* dweight, int64_t rows, int64_t dim);
void RmsNormBackward(const double* dy, const double* x, const double* weight, const double* scale,
                     double* dx, double* dweight, int64_t rows, int64_t dim);

/// The place of `heads` vectors of `head_dim` elements in each row.
struct HeadLayout {
  int64_t rows = 0;
  int64_t heads = 0;
  int64_t head_dim = 0;
  int64_t rotary_dim = 0;   ///< Channels of a head, its first ones, that are rotated. Even.
  int64_t from_stride = 0;  ///< Elements from one row to the next; heads are adjacent.
  int64_t to_stride = 0;
};

/// Rotates each head by its row's position: with (a, b) the halves of its first rotary_dim
/// channels, (a cos - b sin, b cos + a sin); the other channels are copied. table [positions,
/// rotary_dim]: cos, then sin. `inverse` rotates back (the gradient). from == to is allowed. Su et
/// al., RoFormer, 2021, in the layout of HF Llama.
void Rotate(const float* from, float* to, const float* table, const int64_t* positions,
            const HeadLayout& layout, bool inverse);
void Rotate(const double* from, double* to, const double* table, const int64_t* positions,
            const HeadLayout& layout, bool inverse);

/// The function of the gate in a gated linear unit; both are g * sigmoid(a(g)).
enum class Gate {
  kSilu,      ///< g / (1 + exp(-g)).
  kGeluTanh,  ///< g / 2 * (1 + tanh(sqrt(2 / pi) (g + 0.044715 g^3))).
};

/// y[n, i] = f(gate) * up with gate = gate_up[n, i], up = gate_up[n, width + i] and f the function
/// that `kind` names. Shazeer, GLU Variants Improve Transformer, 2020 (SwiGLU and GEGLU).
void GatedUnit(const float* gate_up, float* y, int64_t rows, int64_t width, Gate kind);
void GatedUnit(const double* gate_up, double* y, int64_t rows, int64_t width, Gate kind);
void GatedUnitBackward(const float* dy, const float* gate_up, float* dgate_up, int64_t rows,
                       int64_t width, Gate kind);
void GatedUnitBackward(const double* dy, const double* gate_up, double* dgate_up, int64_t rows,
                       int64_t width, Gate kind);

}  // namespace baton::engine::kernels

#endif  // BATON_WORKERS_ENGINE_KERNELS_ROW_KERNELS_H_
