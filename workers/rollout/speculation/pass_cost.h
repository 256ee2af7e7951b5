// The cost of a forward pass of the engine: a part that does not depend on the batch, and a part
// for each row. A row is a token whose logits or keys and values the pass computes.
#ifndef BATON_WORKERS_ROLLOUT_SPECULATION_PASS_COST_H_
#define BATON_WORKERS_ROLLOUT_SPECULATION_PASS_COST_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace baton::rollout {

/// seconds(rows) = fixed + per_row * rows, by least squares over the last passes. Older passes
/// count less, for contexts grow and machines get busy. While all passes have about as many rows,
/// the line keeps its shape and moves with their time: to learn a row's cost anew would cost passes
/// with drafts that do not pay.
class PassCost {
 public:
  /// A pass computed `rows` rows, at least one, in `seconds`. Senseless numbers are ignored.
  void Note(int64_t rows, double seconds);

  /// False: too few passes so far, or all had about as many rows. Once known it remains so.
  bool known() const { return level_ > 0; }
  /// Cost of a pass of so many rows, at least one; 0 while not known.
  double Seconds(int64_t rows) const;
  /// The line, in seconds; 0 while not known.
  double fixed() const { return level_ * fixed_; }
  double per_row() const { return level_ * per_row_; }

 private:
  // Sizes up to 64 rows each, then by steps of an eighth.
  static constexpr size_t kSizes = 256;
  static size_t SizeOf(int64_t rows);
  bool RowsDiffer() const;
  void Fit();

  struct Ratio {
    double count = 0, sum = 0;  // of measured over the line
  };
  std::array<Ratio, kSizes> ratios_;
  // Sums of weight, rows, seconds, and their products.
  double weight_ = 0, x_ = 0, y_ = 0, xx_ = 0, xy_ = 0;
  // The last line by least squares, and the factor that leads it through the mean of the passes.
  double fixed_ = 0, per_row_ = 0, level_ = 0;
};

}  // namespace baton::rollout

#endif  // BATON_WORKERS_ROLLOUT_SPECULATION_PASS_COST_H_
