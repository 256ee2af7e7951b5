#include "workers/engine/generation/generator.h"

#include <torch/torch.h>

#include <algorithm>
#include <exception>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "sdk/common/base/status_macros.h"
#include "workers/engine/generation/cached_attention.h"
#include "workers/engine/generation/draft_verification.h"
#include "workers/engine/generation/generator_scheduler.h"
#include "workers/engine/generation/speculation.h"
#include "workers/engine/kernels/kv_cache.h"

namespace baton::engine {
namespace {

absl::Status ValidateTokens(absl::string_view field, const std::vector<int32_t>& tokens,
                            int64_t vocab_size) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= vocab_size) {
      return absl::InvalidArgumentError(absl::StrCat(field, "[", i, "]: token ", tokens[i],
                                                     " is not in the vocabulary of ", vocab_size));
    }
  }
  return absl::OkStatus();
}

// A guess may be any nonsense: it ends before the first token that is none.
void CutChain(int64_t vocab_size, std::vector<int32_t>* draft) {
  const auto wrong = std::find_if(draft->begin(), draft->end(),
                                  [&](int32_t token) { return token < 0 || token >= vocab_size; });
  draft->erase(wrong, draft->end());
}

// The number of rows that have logits at once, if a step without drafts may have fewer still.
constexpr int64_t kFewestLogitRows = 64;

torch::Tensor ViewOnDevice(std::vector<int64_t>& values, const torch::Device& device) {
  const torch::Tensor view =
      torch::from_blob(values.data(), {static_cast<int64_t>(values.size())}, torch::kInt64);
  return device.is_cpu() ? view : view.to(device);
}

}  // namespace

struct Generator::Impl {
  Impl(CausalLM* m, DecodeFunction d, const GeneratorOptions& o, std::unique_ptr<KvCache> c)
      : model(m),
        decode(std::move(d)),
        options(o),
        cache(std::move(c)),
        attention(cache.get()),
        scheduler(cache.get(), o.max_num_seqs, o.prefill_chunk_tokens),
        speculation(o.max_draft_nodes, m->config().vocab_size) {}

  // Rows of a draw, its own and then its draft rows, whose logits are computed together.
  struct Piece {
    const StepPlan::Draw* draw;
    Verification* drawn;
    int64_t first;
    int64_t count;
  };

  absl::Status Validate(const GenerateRequest& request) const;
  void AskForDrafts();
  void Propose(uint64_t id, DraftTree draft);
  absl::Status Advance(std::vector<GenerateUpdate>* updates);
  void Compute(StepPlan& plan, std::vector<GenerateUpdate>* updates);
  std::vector<Verification> DrawAll(const std::vector<StepPlan::Draw>& draws,
                                    const torch::Tensor& hidden);
  torch::Tensor Logits(const std::vector<Piece>& pieces, const torch::Tensor& hidden);
  void Account(const StepPlan::Draw& draw, const Verification& drawn,
               std::vector<KvCache::Move>* moves);
  void DropAll();
  void Note(GeneratorCall::Kind kind, GenerateRequest request) {
    if (announce) calls.push_back({kind, std::move(request), {}});
  }

  CausalLM* const model;
  const DecodeFunction decode;
  const GeneratorOptions options;
  const std::unique_ptr<KvCache> cache;
  CachedAttention attention;
  Scheduler scheduler;
  Sampler sampler;
  Speculation speculation;
  Proposals proposals;  // for the next step

  std::unordered_set<uint64_t> live;     // ids added and not yet reported as finished
  std::vector<GenerateUpdate> finished;  // without a step, to be reported by the next
  Announce announce;
  std::vector<GeneratorCall> calls;  // since the last step; kept for `announce` alone
  int64_t steps = 0;
  int64_t generated_tokens = 0;
  int64_t prefilled_tokens = 0;
};

Generator::Generator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Generator::~Generator() = default;

absl::StatusOr<std::unique_ptr<Generator>> Generator::Create(CausalLM* model, DecodeFunction decode,
                                                             const GeneratorOptions& options) {
  std::vector<std::string> errors;
  if (options.max_num_seqs < 1) {
    errors.push_back(absl::StrCat("max_num_seqs: ", options.max_num_seqs, " is not positive"));
  }
  if (options.prefill_chunk_tokens < 1) {
    errors.push_back(
        absl::StrCat("prefill_chunk_tokens: ", options.prefill_chunk_tokens, " is not positive"));
  }
  if (options.max_draft_nodes < 0) {
    errors.push_back(absl::StrCat("max_draft_nodes: ", options.max_draft_nodes,
                                  " is negative; 0 asks for no drafts"));
  }
  const bool as_trained = model->device().is_cpu() && model->dtype() == torch::kFloat32;
  if (options.deterministic && !as_trained) {
    errors.push_back(
        "deterministic: only a float32 model on a CPU computes what a trainer computes, bit for "
        "bit");
  }
  auto cache = KvCache::Create(model->local_config(), model->dtype(), model->device(),
                               options.kv_cache_bytes);
  if (!cache.ok()) {
    if (errors.empty()) return cache.status();
    errors.push_back(std::string(cache.status().message()));
  }
  if (!errors.empty()) return absl::InvalidArgumentError(absl::StrJoin(errors, "; "));
  return std::unique_ptr<Generator>(
      new Generator(std::make_unique<Impl>(model, std::move(decode), options, *std::move(cache))));
}

absl::Status Generator::Add(GenerateRequest request) {
  const uint64_t id = request.id;
  BATON_RETURN_IF_ERROR(Annotate(impl_->Validate(request), absl::StrCat("request ", id)));
  CutChain(impl_->model->config().vocab_size, &request.draft);
  impl_->live.insert(id);
  GenerateRequest noted = impl_->announce ? request : GenerateRequest();
  auto sequence = std::make_unique<Sequence>(std::move(request), &impl_->decode);
  bool stopped = false;
  for (int32_t token : sequence->request.resume) {
    if (stopped) {
      impl_->live.erase(id);
      return absl::InvalidArgumentError(
          absl::StrCat("request ", id, ": resume: goes on after token ", sequence->response.size(),
                       ", where the response ends"));
    }
    sequence->response.push_back(token);
    stopped = sequence->stops.Append(token);
  }
  impl_->Note(GeneratorCall::Kind::kAdd, std::move(noted));
  if (stopped || sequence->stops.length() >= sequence->request.params.max_new_tokens) {
    impl_->finished.push_back({id, {}, {}, {}, true, stopped ? "stop" : "length"});
    return absl::OkStatus();
  }
  impl_->speculation.Begin(sequence->request);
  impl_->scheduler.Add(std::move(sequence));
  return absl::OkStatus();
}

absl::Status Generator::Impl::Validate(const GenerateRequest& request) const {
  const ModelConfig& config = model->config();
  if (live.count(request.id) > 0) return absl::AlreadyExistsError("a request with this id is live");
  if (request.prompt.empty()) {
    return absl::InvalidArgumentError(
        "prompt: has no tokens; a response needs at least one to follow, such as the bos token");
  }
  BATON_RETURN_IF_ERROR(ValidateTokens("prompt", request.prompt, config.vocab_size));
  BATON_RETURN_IF_ERROR(ValidateTokens("resume", request.resume, config.vocab_size));
  BATON_RETURN_IF_ERROR(ValidateSamplingParams(request.params, config.vocab_size));
  if (!request.params.stop_strings.empty() && !decode) {
    return absl::InvalidArgumentError("stop_strings: this generator has no tokenizer");
  }
  const int64_t prompt_length = static_cast<int64_t>(request.prompt.size());
  if (prompt_length > config.positions() ||
      request.params.max_new_tokens > config.positions() - prompt_length) {
    return absl::InvalidArgumentError(absl::StrCat(
        "prompt of ", prompt_length, " tokens and max_new_tokens ", request.params.max_new_tokens,
        " exceed the model's ", config.positions(), " positions"));
  }
  const int64_t blocks = Scheduler::WorstCaseBlocks(request);
  if (blocks > cache->num_blocks()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "prompt of ", prompt_length, " tokens and max_new_tokens ", request.params.max_new_tokens,
        " may need ", blocks * cache->block_bytes(), " bytes of KV cache; kv_cache_bytes allows ",
        cache->num_blocks() * cache->block_bytes()));
  }
  return absl::OkStatus();
}

bool Generator::Cancel(uint64_t id) {
  if (!impl_->scheduler.Remove(id)) return false;
  impl_->finished.push_back({id, {}, {}, {}, true, "cancelled"});
  GenerateRequest cancelled;
  cancelled.id = id;
  impl_->Note(GeneratorCall::Kind::kCancel, std::move(cancelled));
  return true;
}

bool Generator::SetDraft(uint64_t id, DraftTree draft) {
  const Sequence* sequence = impl_->scheduler.Find(id);
  if (sequence == nullptr) return false;
  PruneDraft({impl_->model->config().vocab_size, sequence->most_to_compute()}, &draft);
  impl_->Propose(id, std::move(draft));
  return true;
}

// `draft` is within the limits of the request.
void Generator::Impl::Propose(uint64_t id, DraftTree draft) {
  if (announce) {
    GeneratorCall call = {GeneratorCall::Kind::kDraft, {}, draft};
    call.request.id = id;
    calls.push_back(std::move(call));
  }
  proposals[id] = std::move(draft);
}

void Generator::SetDrafter(Drafter* drafter) { impl_->speculation.SetDrafter(drafter); }

void Generator::Impl::AskForDrafts() {
  if (!scheduler.memory_suffices()) {
    return speculation.AskNothing();
  }
  for (auto& [id, draft] : speculation.Ask(scheduler.Decoding())) Propose(id, std::move(draft));
}

absl::StatusOr<std::vector<GenerateUpdate>> Generator::Step() {
  std::vector<GenerateUpdate> updates = std::move(impl_->finished);
  impl_->finished.clear();
  absl::Status status;
  try {
    impl_->scheduler.Admit();
    impl_->AskForDrafts();
    if (impl_->announce) impl_->announce(std::exchange(impl_->calls, {}));
    status = impl_->Advance(&updates);
  } catch (const CollectiveError& error) {
    status = Annotate(error.status(), "generation step failed");
  } catch (const c10::Error& error) {
    status = absl::InternalError(
        absl::StrCat("generation step failed: libtorch: ", error.what_without_backtrace()));
  } catch (const std::exception& error) {
    status = absl::InternalError(absl::StrCat("generation step failed: ", error.what()));
  }
  if (!status.ok()) {
    impl_->DropAll();
    return status;
  }
  impl_->speculation.Follow(updates);
  for (const GenerateUpdate& update : updates) {
    if (update.finished) impl_->live.erase(update.id);
  }
  return updates;
}

absl::Status Generator::Impl::Advance(std::vector<GenerateUpdate>* updates) {
  const Speculation::Clock::time_point began = Speculation::Clock::now();
  StepPlan plan = scheduler.Plan(std::exchange(proposals, {}));
  if (plan.tokens.empty() && plan.draws.empty()) {
    if (scheduler.running() + scheduler.waiting() == 0) return absl::OkStatus();
    return absl::InternalError("no request could advance");
  }
  // Requests whose logits come from their prompt have no row of their own, but cost one.
  const auto rows = static_cast<int64_t>(std::max(plan.tokens.size(), plan.draws.size()));
  Compute(plan, updates);
  int64_t draft_rows = 0;
  for (const StepPlan::Draw& draw : plan.draws) draft_rows += draw.draft_rows;
  speculation.CountPass(rows, draft_rows, Speculation::Clock::now() - began);
  return absl::OkStatus();
}

// Runs the pass and takes over what it yields.
void Generator::Impl::Compute(StepPlan& plan, std::vector<GenerateUpdate>* updates) {
  const torch::NoGradGuard no_grad;
  torch::Tensor hidden;
  if (!plan.tokens.empty()) {
    attention.Begin(std::move(plan.runs));
    hidden = model->Hidden(ViewOnDevice(plan.tokens, model->device()),
                           ViewOnDevice(plan.positions, model->device()), attention);
  }
  for (const StepPlan::CompletedPrompt& completed : plan.completed_prompts) {
    completed.prompt->last_hidden = hidden.narrow(0, completed.row, 1).clone();
  }
  ++steps;
  prefilled_tokens += plan.prefilled_tokens;
  if (plan.draws.empty()) return;

  std::vector<Verification> drawn = DrawAll(plan.draws, hidden);
  std::vector<KvCache::Move> moves;
  for (size_t i = 0; i < drawn.size(); ++i) {
    Account(plan.draws[i], drawn[i], &moves);
    updates->push_back(std::move(drawn[i].update));
  }
  cache->MoveTokens(moves);
}

// Draws from the rows in order, as many at once as a step without drafts may have: so drafts need
// no more memory for logits, and few rows off a draft's path get any.
std::vector<Verification> Generator::Impl::DrawAll(const std::vector<StepPlan::Draw>& draws,
                                                   const torch::Tensor& hidden) {
  const int64_t rows_at_once = std::max(options.max_num_seqs, kFewestLogitRows);
  std::vector<Verification> drawn(draws.size());
  size_t next = 0;        // the draw that the next row belongs to …
  int64_t row_of_it = 0;  // … as this one of its rows
  while (next < draws.size()) {
    std::vector<Piece> pieces;
    for (int64_t room = rows_at_once; room > 0 && next < draws.size();) {
      const int64_t left = 1 + draws[next].draft_rows - row_of_it;
      const int64_t count = std::min(room, left);
      pieces.push_back({&draws[next], &drawn[next], row_of_it, count});
      room -= count;
      row_of_it = count == left ? 0 : row_of_it + count;
      if (count == left) ++next;
    }
    const torch::Tensor logits =
        Logits(pieces, hidden).to(torch::kCPU).to(torch::kFloat32).contiguous();
    const int64_t vocab_size = logits.size(1);
    const float* numbers = logits.data_ptr<float>();
    for (const Piece& piece : pieces) {
      const bool more = DrawAndVerify(*piece.draw, piece.first,
                                      absl::MakeConstSpan(numbers, piece.count * vocab_size),
                                      vocab_size, sampler, piece.drawn);
      numbers += piece.count * vocab_size;
      if (next == draws.size() || piece.draw != &draws[next]) continue;
      // The draw's last piece. The rows before the next one to draw from have the wrong context.
      row_of_it = more ? piece.drawn->next_row() : 0;
      if (!more) ++next;
    }
  }
  return drawn;
}

// [rows of all pieces, vocab_size]
torch::Tensor Generator::Impl::Logits(const std::vector<Piece>& pieces,
                                      const torch::Tensor& hidden) {
  std::vector<torch::Tensor> sources;
  int64_t num_rows = 0;
  if (hidden.defined()) {
    sources.push_back(hidden);
    num_rows = hidden.size(0);
  }
  std::vector<int64_t> rows;
  bool in_place = hidden.defined();
  for (const Piece& piece : pieces) {
    for (int64_t i = piece.first; i < piece.first + piece.count; ++i) {
      int64_t row = i == 0 ? piece.draw->row : piece.draw->first_draft_row + i - 1;
      in_place = in_place && row == static_cast<int64_t>(rows.size());
      if (row < 0) {
        sources.push_back(piece.draw->sequence->prompt->last_hidden);
        row = num_rows++;
      }
      rows.push_back(row);
    }
  }
  if (in_place && static_cast<int64_t>(rows.size()) == num_rows) {
    return model->Logits(hidden);  // the usual step: every row decodes
  }
  const torch::Tensor all = sources.size() == 1 ? sources[0] : torch::cat(sources);
  return model->Logits(all.index_select(0, ViewOnDevice(rows, model->device())));
}

// Takes over what was drawn for a sequence; forgets the sequence if that ends it.
void Generator::Impl::Account(const StepPlan::Draw& draw, const Verification& drawn,
                              std::vector<KvCache::Move>* moves) {
  generated_tokens += static_cast<int64_t>(drawn.update.new_tokens.size());
  speculation.Count(draw, drawn);
  // Equal prompts that come later must not start from what may be bad already.
  if (!drawn.update.error.ok()) draw.sequence->prompt->spoiled = true;
  if (drawn.update.finished) {
    scheduler.Remove(drawn.update.id);
  } else if (draw.draft_rows > 0) {
    absl::Span<const int32_t> computed = drawn.path;
    if (!computed.empty() && computed.back() >= draw.draft_rows) computed.remove_suffix(1);
    scheduler.KeepDraftRows(draw.sequence, computed, moves);
  }
}

void Generator::Impl::DropAll() {
  scheduler.Clear();
  speculation.EndAll();
  proposals.clear();
  finished.clear();
  live.clear();
}

bool Generator::idle() const {
  return impl_->scheduler.running() + impl_->scheduler.waiting() == 0 && impl_->finished.empty();
}

absl::Status Generator::OnWeightsChanged() {
  if (impl_->scheduler.running() > 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("weights changed while ", impl_->scheduler.running(),
                     " requests run on keys and values of the old ones; finish or cancel them"));
  }
  if (impl_->scheduler.has_begun()) {
    return absl::FailedPreconditionError(
        "weights changed while a preempted request waits with tokens of the old ones; finish or "
        "cancel it");
  }
  impl_->scheduler.EvictPrompts();
  impl_->Note(GeneratorCall::Kind::kWeightsChanged, {});
  return absl::OkStatus();
}

void Generator::SetAnnounce(Announce announce) { impl_->announce = std::move(announce); }

GeneratorStats Generator::stats() const {
  GeneratorStats stats;
  stats.running = impl_->scheduler.running();
  stats.waiting = impl_->scheduler.waiting();
  stats.total_blocks = impl_->cache->num_blocks();
  stats.cached_blocks = impl_->scheduler.unused_prompt_blocks();
  stats.free_blocks = impl_->cache->num_free() + stats.cached_blocks;
  stats.block_bytes = impl_->cache->block_bytes();
  stats.steps = impl_->steps;
  stats.generated_tokens = impl_->generated_tokens;
  stats.prefilled_tokens = impl_->prefilled_tokens;
  stats.shared_prompt_tokens = impl_->scheduler.shared_prompt_tokens();
  stats.preemptions = impl_->scheduler.preemptions();
  stats.drafts = impl_->speculation.stats();
  return stats;
}

}  // namespace baton::engine
