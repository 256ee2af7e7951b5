// SimulatedController: one job's turns and effects (controller/runtime/job_runtime*.cc).
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "controller/core/mutation.h"
#include "controller/runtime/tables.h"
#include "tests/simulation/simulated_controller.h"

namespace baton::simulation {

using namespace controller;  // NOLINT: this file is the controller's double

// ---- Turns ----------------------------------------------------------------------------------

void SimulatedController::Run(Job& job, const Event& event, std::function<void()> after) {
  world_.coverage().Met(job.core->state(), event);
  const auto* done = std::get_if<TaskDone>(&event);
  if (done != nullptr) {
    world_.Check(
        "StaleTokenChangesNothing",
        StaleTokenChangesNothing(world_.history().jobs[job.name], *job.core, *done, world_.now()));
  }
  const bool wanted = done != nullptr && job.core->Wants(done->worker, done->ref);
  if (wanted) world_.history().jobs[job.name].forgotten.erase(SubjectOf(done->ref, done->worker));
  if (world_.tracing() && !std::holds_alternative<controller::Tick>(event)) {
    world_.Trace(absl::StrCat(
        "  ", job.name.substr(job.name.rfind('/') + 1), " <- ", EventName(event),
        done == nullptr
            ? ""
            : absl::StrCat(" ", MethodName(done->ref.kind), " ", done->ref.subject, " of ",
                           done->worker, wanted ? "" : " (stale)", " ", done->status.ToString())));
  }
  Effects effects = job.core->Handle(event, world_.now());
  std::vector<store::Write> writes = RowsOf(job, effects);
  Finish(job, std::move(effects), std::move(writes), std::move(after),
         wanted ? &done->ref : nullptr);
}

std::vector<store::Write> SimulatedController::RowsOf(Job& job, const Effects& effects) {
  std::vector<store::Write> writes;
  bool put_job = false;
  for (const Effect& effect : effects) {
    if (std::holds_alternative<PutJob>(effect)) {
      put_job = true;
    } else if (const auto* put = std::get_if<PutTrajectory>(&effect)) {
      writes.push_back({kTrajectoryTable, NumberKey(job.name, put->serial),
                        ToRow(put->trajectory, put->step, put->incarnation).SerializeAsString()});
    } else if (const auto* emit = std::get_if<EmitEvent>(&effect)) {
      if (!emit->kept) continue;
      writes.push_back(
          {kEventTable, NumberKey(job.name, static_cast<uint64_t>(emit->event.revision())), ""});
      put_job = true;
    } else if (const auto* drop = std::get_if<DropTrajectories>(&effect)) {
      for (uint64_t serial = drop->begin; serial < drop->end; ++serial) {
        writes.push_back({kTrajectoryTable, NumberKey(job.name, serial), std::nullopt});
      }
    }
  }
  if (put_job) writes.push_back({kJobTable, job.name, job.core->Row().SerializeAsString()});
  return writes;
}

void SimulatedController::Finish(Job& job, Effects effects, std::vector<store::Write> writes,
                                 std::function<void()> after, const TaskRef* stored) {
  job.changed = true;
  Turn turn;
  turn.effects = std::move(effects);
  turn.state = job.core->state();
  turn.after = std::move(after);
  turn.committed = writes.empty() || Mutated(Mutation::kAckBeforeCommit);
  if (stored != nullptr && !writes.empty()) turn.stored.push_back(*stored);
  job.turns.push_back(std::move(turn));
  if (!writes.empty()) {
    Commit(std::move(writes), [this, &job] {
      if (Mutated(Mutation::kAckBeforeCommit)) return;
      OnStrand(job, [this, &job] {
        for (Turn& waiting : job.turns) {
          if (waiting.committed) continue;
          waiting.committed = true;
          break;
        }
        Flush(job);
      });
    });
  }
  Flush(job);
}

void SimulatedController::Flush(Job& job) {
  if (job.flushing) return;
  job.flushing = true;
  while (!job.turns.empty() && job.turns.front().committed) {
    Turn turn = std::move(job.turns.front());
    job.turns.pop_front();
    Leave(job, turn);
  }
  job.flushing = false;
}

void SimulatedController::Leave(Job& job, Turn& turn) {
  job.snapshot = turn.state;
  job.visible = true;  // before the effects: what they ask for comes back to a job that is found
  for (const TaskRef& ref : turn.stored) {
    // Its rows were in this turn: they are in the store now, or were overwritten by later ones.
    const store::v1::JobRow row = StoredRow(job.name);
    bool committed = row.incarnation() > ref.incarnation || row.job().step() > ref.step;
    if (ref.kind == TaskKind::kGenerate || ref.kind == TaskKind::kScore) {
      for (const auto& t : StoredTrajectories(job.name)) {
        committed |= t.id() == ref.subject && t.incarnation() == ref.incarnation &&
                     (ref.kind == TaskKind::kGenerate || (t.scored_nodes() >> ref.part & 1) != 0);
      }
      const TrajectoryInfo* now = job.core->Find(ref.subject);
      committed |= now != nullptr && now->losses > 0;  // its row went with its payload
    } else if (IsGroupCommand(ref.kind)) {
      const store::v1::GroupRow& group = row.groups(static_cast<int>(ref.part));
      committed |= !group.has_command() || group.command().sequence() != ref.subject;
    } else {
      committed = true;
    }
    const bool quiet = IsTerminal(job.core->state()) || !IsActive(job.core->state());
    const bool acks = std::any_of(turn.effects.begin(), turn.effects.end(), [&](const Effect& e) {
      const auto* ack = std::get_if<AckResult>(&e);
      return ack != nullptr && ack->ref == ref;
    });
    const bool puts = std::any_of(turn.effects.begin(), turn.effects.end(), [&](const Effect& e) {
      return std::holds_alternative<PutTrajectory>(e);
    });
    if (acks && !quiet && (puts || IsGroupCommand(ref.kind))) {
      world_.Check("AckedIsCommitted", AckedIsCommitted(committed, ref));
    }
  }
  for (const Effect& effect : turn.effects) {
    std::visit([this, &job](const auto& e) { Do(job, e); }, effect);
  }
  if (turn.after) turn.after();
}

// ---- What workers say -------------------------------------------------------------------------

void SimulatedController::OnProgress(Job& job, const std::string& worker, const TaskRef& ref,
                                     const WorkerMessage& message) {
  if (ref.kind != TaskKind::kGenerate || job.core->Find(ref.subject) == nullptr) return;
  if (!job.core->Wants(worker, ref)) return;
  auto& [tokens, content] = job.partials[ref.subject];
  if (message.offset != tokens) return;
  tokens += message.count;
  content = message.content;
  Run(job, TaskProgressed{worker, ref, tokens});
}

void SimulatedController::Refuse(Job& job, const std::string& worker, const TaskRef& ref) {
  Finish(job, {AckResult{worker, ref}}, {}, nullptr);
}

void SimulatedController::OnResult(Job& job, const std::string& worker, const TaskRef& ref,
                                   const Result& result) {
  TaskDone done;
  done.worker = worker;
  done.ref = ref;
  done.status = result.status;
  done.role_lost = IsRoleNotHeld(result.status);
  if (!job.core->Wants(worker, ref)) {
    world_.Check(
        "StaleTokenChangesNothing",
        StaleTokenChangesNothing(world_.history().jobs[job.name], *job.core, done, world_.now()));
    return Refuse(job, worker, ref);
  }
  if (ref.kind == TaskKind::kGenerate && result.status.ok()) {
    return StoreGenerated(job, worker, ref, result);
  }
  if (ref.kind == TaskKind::kScore && result.status.ok()) {
    if (job.core->dataflow().score(static_cast<int>(ref.part)).out() != "reward") {
      return StoreColumn(job, done);
    }
    done.output.error = result.error;
    done.output.infra_failed = !result.error.empty();
    if (result.error.empty()) done.output.metrics["reward"] = result.reward;
  }
  Run(job, done);
}

// Numbers of each token have a record of their own.
void SimulatedController::StoreColumn(Job& job, TaskDone done) {
  OnDisk(job, [this, &job, done]() mutable {
    Payload column;
    column.id = done.ref.subject;
    done.output.location = Append(job, column);
    OnStrand(job, [this, &job, done] {
      if (!job.core->Wants(done.worker, done.ref)) return Refuse(job, done.worker, done.ref);
      Run(job, done);
    });
  });
}

PayloadLocation SimulatedController::Append(Job& job, const Payload& payload) {
  return world_.disk().jobs[job.name].log.Append(payload, &job.log_file);
}

void SimulatedController::StoreGenerated(Job& job, const std::string& worker, const TaskRef& ref,
                                         const Result& result) {
  TaskDone done;
  done.worker = worker;
  done.ref = ref;
  done.output.tokens = result.payload.tokens;
  done.output.prompt_tokens = 2;
  done.output.finish_reason = "stop";
  OnDisk(job, [this, &job, done, payload = result.payload]() mutable {
    done.output.location = Append(job, payload);
    OnStrand(job, [this, &job, done, payload] {
      if (!job.core->Wants(done.worker, done.ref)) return Refuse(job, done.worker, done.ref);
      job.payloads[done.ref.subject] = payload;
      job.partials.erase(done.ref.subject);
      Run(job, done);
    });
  });
}

// JobRuntime::ReadWhole.
std::optional<Payload> SimulatedController::ReadWhole(const Job& job, const TrajectoryInfo& info) {
  const LogFiles& log = world_.disk().jobs[job.name].log;
  for (const auto& [node, column] : info.columns) {
    if (!log.Read(column, info.id).has_value()) return std::nullopt;
  }
  return log.Read(info.location, info.id);
}

// ---- Tasks ------------------------------------------------------------------------------------

void SimulatedController::Send(const std::string& worker, ControllerMessage message) {
  const auto it = directory_.find(worker);
  if (it != directory_.end()) world_.SendDown(it->second, std::move(message));
}

void SimulatedController::SendTask(Job& job, const std::string& worker, TaskMessage task) {
  ControllerMessage message;
  message.kind = ControllerMessage::Kind::kTask;
  message.epoch = epoch_;
  message.token = task.token;
  message.task = std::move(task);
  Send(worker, std::move(message));
}

TaskMessage SimulatedController::MakeTask(Job& job, const StartTask& effect) {
  TaskMessage task;
  task.token = EncodeToken({job.name, effect.ref});
  task.epoch = epoch_;
  task.job = job.name;
  task.role = effect.args.role;
  task.kind = effect.ref.kind;
  if (IsGroupCommand(effect.ref.kind)) {
    task.generation = effect.args.generation;
    task.sequence = effect.args.sequence;
  }
  task.rank = effect.args.rank;
  task.policy_version = effect.args.policy_version;
  task.step = effect.ref.step + (effect.ref.kind == TaskKind::kUpdate ? 1 : 0);
  const TrajectoryInfo& info = effect.args.trajectory;
  task.trajectory.id = info.id;
  task.trajectory.purpose = info.purpose;
  task.trajectory.draw = info.draw;
  task.prompt = info.prompt_id;
  task.sample = info.sample;
  return task;
}

void SimulatedController::CheckStart(Job& job, const StartTask& task) {
  JobHistory& history = world_.history().jobs[job.name];
  const std::string subject = SubjectOf(task.ref, task.worker);
  history.forgotten.erase(subject);
  history.current[subject] = absl::StrCat(EncodeToken({job.name, task.ref}), task.worker);
  world_.Check("NothingAfterTheEnd", NothingAfterTheEnd(job.snapshot, task));
  world_.Check("CreditsAreKept", CreditsAreKept(*job.core, history.current, task, 4));
  if (task.ref.kind == TaskKind::kGenerate) {
    world_.Check("ReadyIsNotLost", ReadyIsNotLost(StoredTrajectories(job.name), task));
  } else if (IsGroupCommand(task.ref.kind)) {
    world_.Check("CommandIsCommitted", CommandIsCommitted(StoredRow(job.name), task));
    world_.Check("VersionsOnlyGrow", VersionsOnlyGrow(history, task));
    const bool hands_over =
        task.ref.kind == TaskKind::kPublish || task.ref.kind == TaskKind::kToGeneration;
    if (hands_over) history.asked = task.args.policy_version;
  }
}

void SimulatedController::Do(Job& job, const StartTask& effect) {
  CheckStart(job, effect);
  if (world_.tracing()) {
    world_.Trace(absl::StrCat("  ", job.name.substr(job.name.rfind('/') + 1), " -> ",
                              MethodName(effect.ref.kind), " ", effect.ref.subject, " try ",
                              effect.ref.attempt, " to ", effect.worker));
  }
  TaskMessage task = MakeTask(job, effect);
  const std::string worker = effect.worker;
  switch (effect.ref.kind) {
    case TaskKind::kAssignRole:
      task.spec = job.core->effective_spec();
      task.checkpoint = effect.args.checkpoint_step;
      task.generation = effect.args.generation;
      task.hybrid = effect.args.hybrid;
      break;
    case TaskKind::kGenerate: {
      const auto partial = job.partials.find(effect.ref.subject);
      if (partial != job.partials.end() && partial->second.first != effect.args.trajectory.tokens) {
        job.partials.erase(partial);
      } else if (partial != job.partials.end()) {
        task.resume = partial->second.first;
        task.resume_content = partial->second.second;
      }
      break;
    }
    case TaskKind::kScore: {
      const auto known = job.payloads.find(effect.ref.subject);
      if (known != job.payloads.end()) {
        task.trajectory = known->second;
        break;
      }
      return OnDisk(job, [this, &job, effect, task, worker]() mutable {  // after a restart
        const auto payload = ReadWhole(job, effect.args.trajectory);
        OnStrand(job, [this, &job, effect, task, worker, payload]() mutable {
          if (!payload.has_value()) {
            const TrajectoryInfo& info = effect.args.trajectory;
            return Run(job, PayloadLost{{{info.id, info.serial}}, "no payload"});
          }
          if (!job.core->Wants(worker, effect.ref)) return;
          job.payloads[effect.ref.subject] = task.trajectory = *payload;
          SendTask(job, worker, std::move(task));
        });
      });
    }
    case TaskKind::kUpdate:
      task.batch = job.batch_id;
      task.batch_size = effect.args.batch_size;
      break;
    case TaskKind::kSaveCheckpoint:
      return OnDisk(job, [this, &job, task, worker]() mutable {  // CheckpointFiles::Prepare
        const uint64_t incarnation = DecodeToken(task.token)->ref.incarnation;
        auto& temporary = world_.disk().jobs[job.name].temporary;
        CheckpointFolder folder = temporary[{task.step, incarnation}];
        if (task.rank == 0) folder.trained.erase(task.role);
        temporary = {{{task.step, incarnation}, folder}};
        OnStrand(job,
                 [this, &job, task, worker]() mutable { SendTask(job, worker, std::move(task)); });
      });
    default:
      break;
  }
  SendTask(job, worker, std::move(task));
}

void SimulatedController::Do(Job& job, const StopTask& effect) {
  const std::string token = EncodeToken({job.name, effect.ref});
  auto& current = world_.history().jobs[job.name].current;
  const auto it = current.find(SubjectOf(effect.ref, effect.worker));
  if (it != current.end() && it->second == token + effect.worker) {
    world_.history().jobs[job.name].stopped.insert(it->first);
    current.erase(it);
  }
  ControllerMessage message;
  message.kind = ControllerMessage::Kind::kCancel;
  message.token = token;
  Send(effect.worker, std::move(message));
}

void SimulatedController::Do(Job& job, const AckResult& effect) {
  ControllerMessage message;
  message.kind = ControllerMessage::Kind::kAck;
  message.token = EncodeToken({job.name, effect.ref});
  Send(effect.worker, std::move(message));
}

// ---- Payloads, batches, checkpoints -------------------------------------------------------------

void SimulatedController::Do(Job& job, const DropTrajectories& effect) {
  if (effect.before_file == 0) return;
  OnDisk(job, [this, &job, before = effect.before_file] {
    world_.disk().jobs[job.name].log.DropFilesBefore(before);
  });
}

void SimulatedController::Do(Job& job, const DropPayloads& effect) {
  for (uint64_t id : effect.trajectories) {
    job.payloads.erase(id);
    job.partials.erase(id);
  }
}

void SimulatedController::Do(Job& job, const LoadData&) {
  OnDisk(job, [this, &job] {
    DataLoaded loaded;
    loaded.train_size = kTrainSize;
    if (job.core->effective_spec().kind() == v1::JOB_KIND_RL) {
      loaded.val_size = kValSize;
      loaded.val_sources.resize(kValSize);
    }
    OnStrand(job, [this, &job, loaded] {
      if (!IsTerminal(job.core->state())) Run(job, loaded);
    });
  });
}

void SimulatedController::Do(Job& job, const BuildBatch& effect) {
  world_.Check("BatchIsWhole",
               BatchIsWhole(job.core->effective_spec(), world_.history().jobs[job.name], effect));
  const bool sft = job.core->effective_spec().kind() == v1::JOB_KIND_SFT;
  std::vector<std::optional<Payload>> known;
  for (const TrajectoryInfo& info : effect.trajectories) {
    const auto it = job.payloads.find(info.id);
    if (it != job.payloads.end()) {
      known.emplace_back(it->second);
    } else if (sft) {
      known.emplace_back(Example(info.draw, info.prompt_id));
      known.back()->id = info.id;
    } else {
      known.emplace_back(std::nullopt);
    }
  }
  OnDisk(job, [this, &job, effect, known, is_rl = !sft]() mutable {
    BatchBuilt built;
    built.step = effect.step;
    built.incarnation = effect.incarnation;
    PayloadLost lost;
    std::vector<Payload> batch;
    for (size_t i = 0; i < known.size(); ++i) {
      if (!known[i].has_value()) known[i] = ReadWhole(job, effect.trajectories[i]);
      if (!known[i].has_value()) {
        lost.trajectories[effect.trajectories[i].id] = effect.trajectories[i].serial;
        lost.reason = "no payload";
        continue;
      }
      if (is_rl) {
        world_.Check(
            "EveryResponseHasItsReward",
            EveryResponseHasItsReward(job.core->effective_spec(), world_.history().jobs[job.name],
                                      effect.trajectories[i], *known[i]));
      }
      const auto reward = effect.trajectories[i].scores.find("reward");
      known[i]->reward = reward == effect.trajectories[i].scores.end() ? 0 : reward->second;
      batch.push_back(*known[i]);
    }
    batch = Filter(job.core->effective_spec(), batch);
    built.size = static_cast<uint32_t>(batch.size());
    OnStrand(job, [this, &job, built, batch, lost] {
      if (IsTerminal(job.core->state())) return;
      if (!lost.trajectories.empty()) return Run(job, lost);
      job.batch_id = absl::StrCat("step-", built.step, "-", built.incarnation);
      job.batch = batch;
      Run(job, built);
    });
  });
}

void SimulatedController::Do(Job& job, const CommitCheckpoint& effect) {
  auto rename = [this, &job, effect] {
    JobFolder& folder = world_.disk().jobs[job.name];
    CheckpointFolder checkpoint = folder.temporary[{effect.step, effect.incarnation}];
    checkpoint.row = effect.row;
    if (!world_.history().jobs[job.name].scored_by_error) {
      world_.Check("CheckpointBelongsTogether", CheckpointBelongsTogether(checkpoint, effect.step));
    }
    folder.temporary.erase({effect.step, effect.incarnation});
    folder.complete[effect.step] = checkpoint;
  };
  OnDisk(job, [this, &job, effect, rename] {
    rename();
    CheckpointCommitted committed;
    committed.incarnation = effect.incarnation;
    committed.checkpoint.set_step(effect.step);
    committed.checkpoint.set_path(absl::StrCat("step-", effect.step));
    OnStrand(job, [this, &job, committed] { Run(job, committed); });
  });
}

void SimulatedController::Do(Job& job, const DeleteCheckpoint& effect) {
  OnDisk(job, [this, &job, step = effect.checkpoint.step()] {
    world_.disk().jobs[job.name].complete.erase(step);
  });
}

void SimulatedController::Do(Job& job, const EmitEvent& effect) {
  if (world_.tracing() && effect.kept) {
    world_.Trace(absl::StrCat(
        "  ", job.name.substr(job.name.rfind('/') + 1), " == ", effect.event.type(), " ",
        effect.event.type() == "state" ? std::string(StateName(effect.event.state()))
                                       : absl::StrCat(effect.event.step()),
        " ", effect.event.message()));
  }
  if (effect.event.type() != "state" || !IsTerminal(effect.event.state())) return;
  job.batch.clear();
  job.batch_id.clear();
  job.payloads.clear();
  job.partials.clear();
}

void SimulatedController::Do(Job&, const PutMetrics& effect) {
  const auto count = [&](const char* metric, const char* what) {
    const auto it = effect.metrics.find(metric);
    if (it == effect.metrics.end() || it->second <= 0) return;
    world_.coverage().Happened(what, static_cast<uint64_t>(it->second));
  };
  count("reward/infra_failed", "responses without a reward, of steps");
  count("val/infra_failed", "responses without a reward, of evaluations");
  count("train/groups_drawn_anew", "groups drawn anew");
}

void SimulatedController::Do(Job& job, const NeedWorkers& effect) {
  OnCluster([this, &job, effect] {
    Apply(cluster_->OnNeed(job.name, job.priority, job.order, IsActive(job.snapshot),
                           effect.missing, world_.now(), effect.hints));
  });
}

void SimulatedController::Do(Job& job, const ReturnWorker& effect) {
  OnCluster([this, &job, effect] {
    Apply(cluster_->OnReturn(job.name, effect.worker, world_.now(), effect.conduct));
    if (effect.conduct != Conduct::kSlow) return;
    world_.coverage().DrainedAsSlow();
    world_.RestartLater(effect.worker);
  });
}

void SimulatedController::Do(Job& job, const LeaveQueue&) {
  OnCluster([this, &job] {
    cluster_->OnLeave(job.name);
    Apply(cluster_->OnTick(world_.now()));
  });
}

}  // namespace baton::simulation
