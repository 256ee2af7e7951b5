// Numbers that name the trajectories of a job, so that no task of one is taken for another's.
//
// Owns the next number, and which numbers the work in progress (a step or an evaluation) has. The
// trajectory at place i of the work has the number first + i. Its place follows from its draw and
// its sample, so a restarted controller gives each trajectory of the work the number that it had:
// tasks that workers still run stay known.
//
//   numbers:  ... | first ... first + taken | next ...
//                   the work in progress      never given yet
//
// A draw that is begun anew, after a rollback, gets new numbers. Numbers are taken before they
// leave: the turn that takes some puts the job's row. So none is given twice, whatever dies.
#ifndef BATON_CONTROLLER_CORE_PROMPTS_BIRTH_NUMBERS_H_
#define BATON_CONTROLLER_CORE_PROMPTS_BIRTH_NUMBERS_H_

#include <cstdint>

#include "baton/store/v1/rows.pb.h"
#include "controller/core/job/effect_sink.h"

namespace baton::controller {

class BirthNumbers {
 public:
  void Restore(const store::v1::JobRow& row);
  void Save(store::v1::JobRow* row) const;

  /// A step or an evaluation begins. One that an earlier controller began in this incarnation keeps
  /// its numbers, the first time that this one begins it.
  void Begin(bool evaluates, const EffectSink& out);
  /// The work has trajectories at the places [0, places).
  void Take(uint64_t places, EffectSink& out);
  /// Takes `count` numbers for trajectories of an async job; returns the first.
  uint64_t Give(uint64_t count, EffectSink& out);
  /// The number of the trajectory at `place`, which was taken.
  uint64_t At(uint64_t place) const { return work_.first() + place; }
  /// The work in progress has that number: it was begun in this incarnation, after as many steps.
  bool Has(uint64_t birth, const EffectSink& out) const;

 private:
  bool Current(const EffectSink& out) const;

  uint64_t next_ = 1;  // 0 is no number
  store::v1::BirthsRow work_;
  bool restored_ = false;  // work_ is of an earlier controller
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_PROMPTS_BIRTH_NUMBERS_H_
