// What a step of the rollouts' engines costs, by the responses that it advances.
//
// Owns a line through what workers measured: a step that advances n responses takes a + b n
// seconds. The line says how fast a replica would be with other responses beside it, so replicas
// with different loads can be compared; and what a place costs that generates nothing: on a GPU a
// is most of a step, on a CPU nearly nothing of it.
#ifndef BATON_CONTROLLER_CORE_TRAJECTORIES_STEP_COST_H_
#define BATON_CONTROLLER_CORE_TRAJECTORIES_STEP_COST_H_

namespace baton::controller {

class StepCost {
 public:
  /// A step that advanced `rows` responses took so many seconds, on average over the steps of one
  /// response. False: that is nonsense (not positive, or above a million), and counts for nothing.
  bool Note(double rows, double seconds);

  /// Seconds of a step of `rows` responses, by the line; 0: nothing is known yet.
  double Seconds(double rows) const;
  /// `seconds` of a step of `rows` responses, as they would be with as many as steps have on
  /// average: comparable among replicas.
  double AtMeanRows(double rows, double seconds) const;
  /// a / b: so many responses cost as much as a step itself. Infinite: what is known does not tell
  /// the cost of a response, as with steps that are all of one size.
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
