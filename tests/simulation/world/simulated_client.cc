#include "tests/simulation/world/simulated_client.h"

#include <utility>

#include "controller/core/job/job_state.h"

namespace baton::simulation {

SimulatedClient::SimulatedClient(World* world, JobPlan plan)
    : world_(*world), plan_(std::move(plan)), job_(JobNameOf(plan_)) {}

void SimulatedClient::Ask(Request request,
                          std::function<void(absl::StatusOr<v1::Job::State>)> done) {
  const uint64_t call = next_call_++;
  waiting_[call] = std::move(done);
  Send(call, request);
}

void SimulatedClient::Send(uint64_t call, const Request& request) {
  if (waiting_.count(call) == 0) return;
  const int loss = world_.scenario().lossy_calls ? 15 : 0;
  const int copies = world_.random().Percent(loss) ? 2 : 1;
  for (int copy = 0; copy < copies; ++copy) {
    if (world_.random().Percent(loss)) continue;
    world_.time().After(world_.Delay() * (1 + 10 * copy), kWorld, [this, call, request, loss] {
      SimulatedController* controller = world_.controller();
      if (controller == nullptr || !world_.time().alive(world_.controller_process())) return;
      request(*controller, [this, call, loss](absl::StatusOr<v1::Job::State> answer) {
        if (world_.random().Percent(loss)) return;
        world_.time().After(world_.Delay(), kWorld, [this, call, answer] {
          const auto it = waiting_.find(call);
          if (it == waiting_.end()) return;
          auto done = std::move(it->second);
          waiting_.erase(it);
          done(answer);
        });
      });
    });
  }
  world_.time().After(absl::Seconds(1), kWorld, [this, call, request] { Send(call, request); });
}

void SimulatedClient::Submit() {
  const std::string request_id = "request-" + plan_.id;
  Ask([plan = plan_, request_id](SimulatedController& controller,
                                 const Answer& done) { controller.Create(plan, request_id, done); },
      [this](const absl::StatusOr<v1::Job::State>& answer) {
        world_.Check("CreateJobAnswers", answer.ok() ? "" : answer.status().ToString());
        created_ = true;
        Look();
      });
}

void SimulatedClient::Look() {
  Ask([job = job_](SimulatedController& controller,
                   const Answer& done) { controller.Get(job, done); },
      // A late answer may be of before the job was resumed.
      [this, revived = revived_](const absl::StatusOr<v1::Job::State>& state) {
        world_.Check("AnsweredJobsAreStored", state.ok() ? "" : state.status().ToString());
        const bool over = state.ok() && controller::IsTerminal(*state);
        if (over && (*state == v1::Job::STATE_SUCCEEDED || !plan_.revived || revived)) {
          ended_ = true;
          return;
        }
        if (over && !std::exchange(asked_, true)) {
          world_.history().jobs[job_].revivable = true;
          Ask(
              [job = job_](SimulatedController& controller, const Answer& done) {
                controller.Steer(job, controller::ResumeRequested{}, done);
              },
              [this](const auto&) {
                world_.coverage().Happened("jobs resumed after their end");
                revived_ = true;
              });
        }
        const bool rests =
            state.ok() && (*state == v1::Job::STATE_PAUSED || *state == v1::Job::STATE_PAUSING);
        if (rests && pauses_ == 0) {
          Ask(
              [job = job_](SimulatedController& controller, const Answer& done) {
                controller.Steer(job, controller::ResumeRequested{}, done);
              },
              [](const auto&) {});
        }
        world_.time().After(absl::Seconds(2), kWorld, [this] { Look(); });
      });
}

void SimulatedClient::Pause(absl::Duration length) {
  if (!created_) return;
  ++pauses_;
  Ask(
      [job = job_](SimulatedController& controller, const Answer& done) {
        controller.Steer(job, controller::PauseRequested{}, done);
      },
      [this, length](const auto&) {
        world_.time().After(length, kWorld, [this] {
          --pauses_;
          Ask(
              [job = job_](SimulatedController& controller, const Answer& done) {
                controller.Steer(job, controller::ResumeRequested{}, done);
              },
              [](const auto&) {});
        });
      });
}

void SimulatedClient::Cancel() {
  if (!created_) return;
  world_.history().jobs[job_].cancelled = true;
  Ask(
      [job = job_](SimulatedController& controller, const Answer& done) {
        controller.Steer(job, controller::CancelRequested{}, done);
      },
      [](const auto&) {});
}

}  // namespace baton::simulation
