#include "workers/engine/generation/generator_scheduler.h"

#include <algorithm>
#include <utility>

namespace baton::engine {
namespace {

int64_t Size(const std::vector<int32_t>& v) { return static_cast<int64_t>(v.size()); }

void AppendRun(absl::Span<const int32_t> tokens, int64_t position, CachedRows run, StepPlan* plan) {
  run.first_row = static_cast<int64_t>(plan->tokens.size());
  run.num_rows = static_cast<int64_t>(tokens.size());
  run.first_position = position;
  plan->runs.push_back(run);
  for (int32_t token : tokens) {
    plan->tokens.push_back(token);
    plan->positions.push_back(position++);
  }
}

// The first rows of a draft, which follow the token at `position` - 1.
void AppendDraft(const DraftTree& draft, int64_t rows, int64_t position, CachedRows run,
                 StepPlan* plan) {
  run.first_row = static_cast<int64_t>(plan->tokens.size());
  run.num_rows = rows;
  run.first_position = position;
  run.each_row_counts = true;
  const std::vector<int32_t> depths = DraftDepths(draft);
  const bool chain = depths[rows - 1] == rows - 1;
  if (!chain) run.parents = &draft.parents;
  plan->runs.push_back(run);
  for (int64_t i = 0; i < rows; ++i) {
    plan->tokens.push_back(draft.tokens[i]);
    plan->positions.push_back(position + depths[i]);
  }
}

CachedRows RunOfResponse(const Sequence& sequence) {
  CachedRows run;
  run.prompt_length = sequence.prompt->length();
  run.prompt_blocks = &sequence.prompt->blocks;
  run.own_blocks = &sequence.blocks;
  return run;
}

}  // namespace

absl::Span<const int32_t> Sequence::chain() const {
  const size_t passed = response.size() - request.resume.size();
  if (chain_failed || passed >= request.draft.size()) return {};
  return absl::MakeConstSpan(request.draft).subspan(passed);
}

Scheduler::Scheduler(KvCache* cache, int64_t max_running, int64_t prefill_chunk_tokens)
    : cache_(cache),
      max_running_(max_running),
      prefill_chunk_tokens_(prefill_chunk_tokens),
      prompts_(cache) {}

int64_t Scheduler::WorstCaseBlocks(const GenerateRequest& request) {
  // The last token of a response is drawn but never computed.
  const int64_t response =
      std::max({request.params.max_new_tokens - 1, Size(request.resume), int64_t{0}});
  return KvCache::BlocksFor(Size(request.prompt)) + KvCache::BlocksFor(response);
}

void Scheduler::Add(std::unique_ptr<Sequence> sequence) {
  const int64_t blocks = WorstCaseBlocks(sequence->request);
  worst_case_blocks_ += blocks;
  largest_worst_case_ = std::max(largest_worst_case_, blocks);
  waiting_.push_back(std::move(sequence));
}

bool Scheduler::memory_suffices() const {
  return std::min(worst_case_blocks_, max_running_ * largest_worst_case_) <= cache_->num_blocks();
}

StepPlan Scheduler::Plan(Proposals proposals) {
  StepPlan plan;
  int64_t budget = prefill_chunk_tokens_;
  // By index: finding room for one may end the run of those behind it.
  for (size_t i = 0; i < running_.size(); ++i) {
    Sequence* sequence = running_[i].get();
    if (!sequence->prompt->complete()) PlanPrompt(sequence->prompt, &budget, &plan);
    if (sequence->prompt->complete()) PlanResponse(sequence, &budget, &plan);
  }
  // Last, so that drafts get what the others leave.
  PlanDrafts(budget, std::move(proposals), &plan);
  return plan;
}

void Scheduler::PlanPrompt(CachedPrompt* prompt, int64_t* budget, StepPlan* plan) {
  const int64_t count = std::min(*budget, prompt->length() - prompt->computed);
  if (count == 0) return;
  CachedRows run;
  run.prompt_length = prompt->length();
  run.prompt_blocks = &prompt->blocks;
  AppendRun(absl::MakeConstSpan(prompt->tokens).subspan(prompt->computed, count), prompt->computed,
            run, plan);
  prompt->computed += count;
  *budget -= count;
  plan->prefilled_tokens += count;
  if (prompt->complete()) {
    plan->completed_prompts.push_back({prompt, static_cast<int64_t>(plan->tokens.size()) - 1});
  }
}

void Scheduler::PlanResponse(Sequence* sequence, int64_t* budget, StepPlan* plan) {
  const int64_t pending = sequence->pending();
  if (pending == 0) {
    plan->draws.push_back({sequence, -1});
    return;
  }
  const bool decoding = pending == 1;
  const int64_t count = decoding ? 1 : std::min(*budget, pending);
  if (count == 0 || !GrowTo(sequence, sequence->computed + count)) return;
  AppendRun(absl::MakeConstSpan(sequence->response).subspan(sequence->computed, count),
            sequence->prompt->length() + sequence->computed, RunOfResponse(*sequence), plan);
  sequence->computed += count;
  if (!decoding) {
    *budget -= count;
    plan->prefilled_tokens += count;
  }
  if (sequence->pending() == 0) {
    plan->draws.push_back({sequence, static_cast<int64_t>(plan->tokens.size()) - 1});
  }
}

// A draft's rows stand in a run of their own, behind all rows that their tokens attend to.
void Scheduler::PlanDrafts(int64_t budget, Proposals proposals, StepPlan* plan) {
  for (StepPlan::Draw& draw : plan->draws) {
    Sequence* sequence = draw.sequence;
    int64_t rows = budget;
    if (const absl::Span<const int32_t> chain = sequence->chain(); !chain.empty()) {
      rows = std::max<int64_t>(0, std::min(budget, sequence->most_to_compute()));
      // With the token behind the last row, which is drawn as well.
      draw.draft = ChainDraft(chain.subspan(0, rows + 1));
    } else if (const auto found = proposals.find(sequence->request.id); found != proposals.end()) {
      draw.draft = std::move(found->second);
    }
    rows = std::min(rows, draw.draft.size());
    if (rows == 0) continue;
    rows = std::min(rows,
                    GrowFromSpareBlocks(sequence, sequence->computed + rows) - sequence->computed);
    if (rows == 0) continue;
    draw.first_draft_row = static_cast<int64_t>(plan->tokens.size());
    draw.draft_rows = rows;
    // The draft stays where it is until the pass is over: there are no more draws to come.
    AppendDraft(draw.draft, rows, sequence->prompt->length() + sequence->computed,
                RunOfResponse(*sequence), plan);
    budget -= rows;
  }
}

void Scheduler::KeepDraftRows(Sequence* sequence, absl::Span<const int32_t> path,
                              std::vector<KvCache::Move>* moves) {
  const auto slot_of = [&](int64_t i) {
    const int64_t at = sequence->computed + i;
    return KvCache::Slot{sequence->blocks[at / KvCache::kBlockTokens], at % KvCache::kBlockTokens};
  };
  const auto kept = static_cast<int64_t>(path.size());
  for (int64_t i = 0; i < kept; ++i) {
    if (path[i] != i) moves->push_back({slot_of(path[i]), slot_of(i)});
  }
  sequence->computed += kept;
  // Without the others' blocks the sequence holds what it would hold without a draft.
  const auto unused = sequence->blocks.begin() + KvCache::BlocksFor(sequence->computed);
  std::vector<int32_t> spare(unused, sequence->blocks.end());
  sequence->blocks.erase(unused, sequence->blocks.end());
  cache_->Free(spare);
}

const Sequence* Scheduler::Find(uint64_t id) const {
  for (const auto& sequence : running_) {
    if (sequence->request.id == id) return sequence.get();
  }
  for (const auto& sequence : waiting_) {
    if (sequence->request.id == id) return sequence.get();
  }
  return nullptr;
}

std::vector<const Sequence*> Scheduler::Decoding() const {
  std::vector<const Sequence*> decoding;
  for (const auto& sequence : running_) {
    const bool draws = sequence->prompt->complete() && sequence->pending() <= 1;
    if (draws && sequence->most_to_compute() > 0) decoding.push_back(sequence.get());
  }
  return decoding;
}

void Scheduler::Admit() {
  while (!waiting_.empty() && running() < max_running_) {
    if (!Start(waiting_.front().get())) return;
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

// Takes the blocks of the prompt, if those and the ones of the response so far are free, and
// besides one for each running request, which may need it soon.
bool Scheduler::Start(Sequence* sequence) {
  const std::vector<int32_t>& tokens = sequence->request.prompt;
  CachedPrompt* prompt = prompts_.Acquire(tokens);
  const int64_t prompt_blocks = prompt == nullptr ? KvCache::BlocksFor(Size(tokens)) : 0;
  const int64_t reserve = running_.empty() ? 0 : running() + 1;
  const int64_t wanted = prompt_blocks + KvCache::BlocksFor(Size(sequence->response)) + reserve;
  if (wanted > cache_->num_free() + prompts_.unused_blocks()) {
    if (prompt != nullptr) prompts_.Release(prompt);
    return false;
  }
  if (prompt == nullptr) {
    prompt = prompts_.Insert(tokens, AllocatePromptBlocks(prompt_blocks));
  } else {
    shared_prompt_tokens_ += prompt->length();
  }
  sequence->prompt = prompt;
  return true;
}

std::vector<int32_t> Scheduler::AllocatePromptBlocks(int64_t count) {
  while (cache_->num_free() < count) prompts_.EvictOne();
  std::vector<int32_t> blocks;
  for (int64_t i = 0; i < count; ++i) blocks.push_back(*cache_->Allocate());
  return blocks;
}

// Gives `sequence` blocks for `tokens` response tokens; false if that has to wait.
bool Scheduler::GrowTo(Sequence* sequence, int64_t tokens) {
  while (Size(sequence->blocks) < KvCache::BlocksFor(tokens)) {
    const std::optional<int32_t> block = cache_->Allocate();
    if (block.has_value()) {
      sequence->blocks.push_back(*block);
    } else if (!MakeRoom(sequence)) {
      return false;
    }
  }
  return true;
}

// Gives `sequence` blocks for up to `tokens` response tokens, and returns for how many it has
// blocks then. Takes them from no request, and leaves one for each that runs, which may need it in
// the next step: it would otherwise have to take it from another.
int64_t Scheduler::GrowFromSpareBlocks(Sequence* sequence, int64_t tokens) {
  const int64_t reserve = running() == 1 ? 0 : running();
  while (Size(sequence->blocks) < KvCache::BlocksFor(tokens)) {
    if (cache_->num_free() + prompts_.unused_blocks() <= reserve) break;
    if (cache_->num_free() == 0) prompts_.EvictOne();
    sequence->blocks.push_back(*cache_->Allocate());
  }
  return Size(sequence->blocks) * KvCache::kBlockTokens;
}

bool Scheduler::has_begun() const {
  return std::any_of(waiting_.begin(), waiting_.end(), [](const auto& sequence) {
    return sequence->response.size() > sequence->request.resume.size();
  });
}

// Frees blocks for `sequence`: of unused prompts, else of the youngest request, which then waits
// as the first in the queue. False if `sequence` is the youngest itself.
bool Scheduler::MakeRoom(const Sequence* sequence) {
  if (prompts_.EvictOne()) return true;
  if (running_.back().get() == sequence) return false;
  Stop(running_.back().get());
  waiting_.push_front(std::move(running_.back()));
  running_.pop_back();
  ++preemptions_;
  return true;
}

void Scheduler::Stop(Sequence* sequence) {
  if (sequence->prompt == nullptr) return;
  prompts_.Release(sequence->prompt);
  sequence->prompt = nullptr;
  cache_->Free(sequence->blocks);
  sequence->computed = 0;
}

bool Scheduler::Remove(uint64_t id) {
  const auto has_id = [id](const auto& sequence) { return sequence->request.id == id; };
  const auto forget = [this](const Sequence& sequence) {
    worst_case_blocks_ -= WorstCaseBlocks(sequence.request);
    if (running() + waiting() == 1) largest_worst_case_ = 0;
  };
  const auto runs = std::find_if(running_.begin(), running_.end(), has_id);
  if (runs != running_.end()) {
    forget(**runs);
    Stop(runs->get());
    running_.erase(runs);
    return true;
  }
  const auto waits = std::find_if(waiting_.begin(), waiting_.end(), has_id);
  if (waits == waiting_.end()) return false;
  forget(**waits);
  waiting_.erase(waits);
  return true;
}

void Scheduler::Clear() {
  for (const auto& sequence : running_) Stop(sequence.get());
  running_.clear();
  waiting_.clear();
  worst_case_blocks_ = 0;
  largest_worst_case_ = 0;
  prompts_.EvictAll();
}

}  // namespace baton::engine
