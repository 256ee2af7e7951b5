// JobRuntime: what becomes of a job whose work throws.
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/runtime/job/job_runtime.h"
#include "controller/runtime/job/stand_in.h"
#include "controller/runtime/rows/tables.h"
#include "sdk/base/log.h"
#include "sdk/base/mutant.h"

namespace baton::controller {

void JobRuntime::TakeTurn(const std::function<void()>& work) {
  const auto mark = files_->MarkWork();
  try {
    work();
  } catch (const std::exception& thrown) {
    if (Mutant("throw-ends-the-process")) throw;
    SetAside(thrown.what());
  }
}

void JobRuntime::Guard(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& thrown) {
    OnStrand([this, what = std::string(thrown.what())] { SetAside(what); });
  }
}

// What the core holds after a throw is unknown: nothing of it is shown, written or sent any more.
// The rows stay as the last good turn left them, and the next start sets the job aside too.
void JobRuntime::SetAside(const std::string& reason) {
  if (set_aside_ || retired_) return;
  const std::string why = absl::StrCat("a turn of the job failed: ", reason);
  baton::Log(LogLevel::kError, "a job is set aside; the others go on",
             {{"job", name_}, {"reason", why}});
  store::v1::JobRow known;
  *known.mutable_job() = Brief();
  known.mutable_checkpoints()->Assign(core_.checkpoints().begin(), core_.checkpoints().end());
  set_aside_ = true;
  changed_ = nullptr;
  JobCore stand_in = StandIn(name_, known, SetAsideError(name_, why), *context_);
  std::destroy_at(&core_);
  std::construct_at(&core_, std::move(stand_in));
  {
    absl::MutexLock lock(&mu_);
    durable_ = std::make_shared<const v1::Job>(core_.Durable());
    progress_ = core_.Progress();
  }
  early_.TakeResults();
  saves_.clear();
  saved_files_.clear();
  DropWork();
  context_->queue->SetAside(name_);
  flushing_ = false;
  // What these turns had to answer is answered now, from the stand-in.
  for (Turn& turn : std::exchange(turns_, {})) {
    if (turn.after) TakeTurn(turn.after);
  }
  store::v1::RestoreRow row;
  row.set_quarantine(why);
  context_->store->Commit({{kRestoreTable, name_, row.SerializeAsString()}},
                          [self = shared_from_this()](const absl::Status& status) {
                            if (!status.ok()) return;
                            self->OnStrand([self] {
                              self->events_.Publish(SetAsideEvent(self->core_));
                              self->events_.End(absl::OkStatus());
                              self->logs_ended_ = true;
                              self->logs_.End(absl::OkStatus());
                            });
                          });
}

}  // namespace baton::controller
