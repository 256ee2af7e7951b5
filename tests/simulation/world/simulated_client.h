// A job's user, who submits and steers it, asks again until answered, and resumes it if it rests.
#ifndef BATON_TESTS_SIMULATION_WORLD_SIMULATED_CLIENT_H_
#define BATON_TESTS_SIMULATION_WORLD_SIMULATED_CLIENT_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "tests/simulation/world/simulated_controller.h"
#include "tests/simulation/world/world.h"

namespace baton::simulation {

class SimulatedClient {
 public:
  SimulatedClient(World* world, JobPlan plan);
  void Submit();
  void Pause(absl::Duration length);
  void Cancel();
  const std::string& job() const { return job_; }
  /// Whether the client has heard that the job ended.
  bool ended() const { return ended_; }

 private:
  using Answer = SimulatedController::Answer;
  using Request = std::function<void(SimulatedController&, const Answer&)>;
  /// Sends `request` until one answer came; calls and answers may be lost, or come twice.
  void Ask(Request request, std::function<void(absl::StatusOr<v1::Job::State>)> done);
  void Send(uint64_t call, const Request& request);
  void Look();

  World& world_;
  const JobPlan plan_;
  const std::string job_;
  uint64_t next_call_ = 1;
  std::map<uint64_t, std::function<void(absl::StatusOr<v1::Job::State>)>> waiting_;
  int pauses_ = 0;        // it wants the job to rest
  bool asked_ = false;    // to resume the job after its end …
  bool revived_ = false;  // … and got an answer
  bool created_ = false;
  bool ended_ = false;
};

}  // namespace baton::simulation

#endif  // BATON_TESTS_SIMULATION_WORLD_SIMULATED_CLIENT_H_
