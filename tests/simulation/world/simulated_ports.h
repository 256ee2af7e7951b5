// The ports of controller/ports in virtual time: what a simulated controller stands on.
//
// Everything runs on the world's one thread. Strands and disks take random time, and keep their
// order as the real ones do. The world's Disk survives the controller.
#ifndef BATON_TESTS_SIMULATION_WORLD_SIMULATED_PORTS_H_
#define BATON_TESTS_SIMULATION_WORLD_SIMULATED_PORTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "controller/ports/executor.h"
#include "controller/ports/job_files.h"
#include "controller/store/store.h"
#include "sdk/common/base/clock.h"
#include "tests/simulation/world/world.h"

namespace baton::simulation {

/// Counts the calls by which a controller touches the world. A controller that is to die between
/// two of them touches nothing from there on: the rest of its turn runs into the void.
class PortCalls {
 public:
  /// Lets so many more calls have an effect.
  void DieAfter(uint64_t calls) { left_ = calls; }
  /// False: the controller is dead, and the call has no effect.
  bool Take() {
    if (left_ == 0) dead_ = true;
    if (!dead_ && left_.has_value()) --*left_;
    return !dead_;
  }
  bool dead() const { return dead_; }

 private:
  std::optional<uint64_t> left_;
  bool dead_ = false;
};

class SimulatedClock : public baton::Clock {
 public:
  explicit SimulatedClock(World* world) : world_(*world) {}
  absl::Time Now() const override { return world_.now(); }

 private:
  World& world_;
};

class SimulatedExecutors : public controller::Executors {
 public:
  SimulatedExecutors(World* world, PortCalls* calls) : world_(*world), calls_(*calls) {}
  std::unique_ptr<controller::Executor> NewStrand() override;
  std::unique_ptr<controller::Executor> NewDiskStrand() override;
  void PostRead(controller::Executor::Work work) override;
  void PostDataRead(const std::string& job, std::function<uint64_t()> bytes,
                    controller::Executor::Work work) override;

 private:
  World& world_;
  PortCalls& calls_;
};

/// Commits what waits together, later, in order. A commit may be applied and its answer lost with
/// the controller. While the world's disk refuses, everything waits.
class SimulatedStore : public store::Store {
 public:
  SimulatedStore(World* world, PortCalls* calls) : world_(*world), calls_(*calls) {}
  using Store::Commit;
  void Commit(std::vector<store::Write> writes, store::Durability durability, Done done) override;
  absl::StatusOr<std::optional<std::string>> Get(absl::string_view table,
                                                 absl::string_view key) override;
  absl::StatusOr<std::vector<store::Row>> Scan(absl::string_view table,
                                               const store::ScanOptions& options) override;
  absl::Status health() const override;

  /// As a store that shuts down: what waits, and what comes, is answered Cancelled, and no write of
  /// it is kept.
  void ShutDown();

 private:
  struct Waiting {
    std::vector<store::Write> writes;
    store::Durability durability;
    Done done;
  };
  void PumpLater(absl::Duration delay);
  void Pump();

  World& world_;
  PortCalls& calls_;
  std::vector<Waiting> waiting_;
  bool pumping_ = false;
  bool shut_down_ = false;
};

class SimulatedFiles : public controller::Files {
 public:
  SimulatedFiles(World* world, PortCalls* calls) : world_(*world), calls_(*calls) {}
  std::unique_ptr<controller::JobFiles> FilesOf(const std::string& job) override;

 private:
  World& world_;
  PortCalls& calls_;
};

}  // namespace baton::simulation

#endif  // BATON_TESTS_SIMULATION_WORLD_SIMULATED_PORTS_H_
