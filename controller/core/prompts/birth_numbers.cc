#include "controller/core/prompts/birth_numbers.h"

#include <algorithm>
#include <utility>

#include "sdk/base/mutant.h"

namespace baton::controller {

void BirthNumbers::Restore(const store::v1::JobRow& row) {
  // A job that goes on from a checkpoint has given none yet; 0 names nothing.
  next_ = std::max<uint64_t>(row.next_birth(), 1);
  work_ = row.births();
  restored_ = true;
}

void BirthNumbers::Save(store::v1::JobRow* row) const {
  row->set_next_birth(next_);
  *row->mutable_births() = work_;
}

bool BirthNumbers::Current(const EffectSink& out) const {
  return work_.first() != 0 && work_.step() == out.step() &&
         work_.incarnation() == out.incarnation();
}

void BirthNumbers::Begin(bool evaluates, const EffectSink& out) {
  // The very work that an earlier controller began: its tasks carry these numbers already.
  const bool restored = std::exchange(restored_, Mutant("births-named-twice"));
  if (restored && Current(out) && work_.evaluates() == evaluates) return;
  work_.set_step(out.step());
  work_.set_evaluates(evaluates);
  work_.set_incarnation(out.incarnation());
  work_.set_first(next_);
}

void BirthNumbers::Take(uint64_t places, EffectSink& out) {
  const uint64_t end = work_.first() + places;
  if (end <= next_) return;  // taken before a restart
  next_ = end;
  out.Do(PutJob{});
}

uint64_t BirthNumbers::Give(uint64_t count, EffectSink& out) {
  out.Do(PutJob{});
  return std::exchange(next_, next_ + count);
}

bool BirthNumbers::Has(uint64_t birth, const EffectSink& out) const {
  return Current(out) && birth >= work_.first() && birth < next_;
}

}  // namespace baton::controller
