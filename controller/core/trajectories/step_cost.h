// Cost of a step of the rollouts' engines, by the number of responses that it advances.
//
// Owns a line through the workers' measurements: a step that advances n responses takes a + b n
// seconds. The line says how fast a replica would be at another load, so replicas with different
// loads can be compared. It also says what an empty place costs: on a GPU a is most of a step, on a
// CPU almost none of it.
#ifndef BATON_CONTROLLER_CORE_TRAJECTORIES_STEP_COST_H_
#define BATON_CONTROLLER_CORE_TRAJECTORIES_STEP_COST_H_

namespace baton::controller {

class StepCost {
 public:
  /// A step that advanced `rows` responses took so many seconds, on average over the steps of one
  /// response. False: the numbers are nonsense (not positive, or above a million) and are ignored.
  bool Note(double rows, double seconds);

  /// Seconds of a step of `rows` responses, by the line; 0: nothing is known yet.
  double Seconds(double rows) const;
  /// `seconds` of a step of `rows` responses, as they would be with as many as steps have on
  /// average: comparable among replicas.
  double AtMeanRows(double rows, double seconds) const;
  /// a / b: the number of responses that cost as much as a step itself. Infinite: the cost of a
  /// response is not known, for example because all steps had one size.
  double FixedRows() const;

 private:
  struct Line {
    double fixed = 0, per_row = 0;
  };
  Line Fit() const;

  // Least squares; older measurements count less and less.
  double count_ = 0, rows_ = 0, seconds_ = 0, rows_rows_ = 0, rows_seconds_ = 0;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_TRAJECTORIES_STEP_COST_H_
