#include "workers/engine/generation/cached_attention.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "workers/engine/kernels/cached_attention_kernel.h"

namespace baton::engine {
namespace {

constexpr int64_t kBlock = KvCache::kBlockTokens;

KvCache::Slot SlotOf(const CachedRows& run, int64_t position) {
  if (position < run.prompt_length) {
    return {(*run.prompt_blocks)[position / kBlock], position % kBlock};
  }
  const int64_t own = position - run.prompt_length;
  return {(*run.own_blocks)[own / kBlock], own % kBlock};
}

// The rows of a run that its row `row` attends to, in the order of the sequence.
std::vector<int64_t> PathOf(const CachedRows& run, int64_t row) {
  std::vector<int64_t> path;
  const bool tree = run.parents != nullptr;
  for (int64_t i = row; i >= 0; i = tree ? (*run.parents)[i] : i - 1) path.push_back(i);
  std::reverse(path.begin(), path.end());
  return path;
}

// As the kernel reads it.
torch::Tensor KernelInput(const torch::Tensor& x) {
  const torch::Tensor wide = x.to(torch::kFloat32);
  return wide.stride(2) == 1 ? wide : wide.contiguous();
}

}  // namespace

// Sequences whose blocks are gathered side by side: one query row each, or one sequence with any
// number of rows.
struct CachedAttention::GatherGroup {
  torch::Tensor rows;            // [S * n] int64: rows of the batch
  torch::Tensor blocks;          // [S * B] int64, padded with block 0
  torch::Tensor hidden;          // [S, 1, n, B * kBlock] bool: slots that a row does not attend to
  torch::Tensor empty;           // [S, 1, B * kBlock, 1] bool: slots that no row attends to
  bool each_row_counts = false;  // CachedRows.each_row_counts, where rows could spoil each other
  int64_t sequences = 0;
  int64_t rows_each = 0;

  static GatherGroup Of(const std::vector<const CachedRows*>& runs, int64_t window,
                        const torch::Device& device);
};

// The tokens that a row attends to. A token is in place if it is stored where it would be if the
// row and those that it follows were all there is.
struct CachedAttention::RowTokens {
  int64_t count = 0;         // itself included
  int64_t own_in_place = 0;  // in own_blocks; if `scattered` is not empty, a multiple of kBlock
  std::vector<int64_t> scattered;  // block * kBlock + offset of those behind

  static RowTokens Of(const CachedRows& run, int64_t row);
};

CachedAttention::RowTokens CachedAttention::RowTokens::Of(const CachedRows& run, int64_t row) {
  RowTokens tokens;
  if (run.parents == nullptr) {
    tokens.count = run.first_position + row + 1;
    return tokens;
  }
  const std::vector<int64_t> path = PathOf(run, row);
  const auto length = static_cast<int64_t>(path.size());
  tokens.count = run.first_position + length;
  if (length == row + 1) return tokens;  // it follows every row before it
  int64_t in_place = 0;
  while (path[in_place] == in_place) ++in_place;
  const int64_t first_own = run.first_position - run.prompt_length;
  tokens.own_in_place = (first_own + in_place) / kBlock * kBlock;
  for (int64_t own = tokens.own_in_place; own < first_own + length; ++own) {
    const int64_t beyond = own < first_own ? own - first_own : path[own - first_own];
    const KvCache::Slot slot = SlotOf(run, run.first_position + beyond);
    tokens.scattered.push_back(slot.block * kBlock + slot.offset);
  }
  return tokens;
}

CachedAttention::CachedAttention(KvCache* cache) : cache_(cache) {}

CachedAttention::~CachedAttention() = default;

void CachedAttention::Begin(std::vector<CachedRows> runs) {
  runs_ = std::move(runs);
  num_rows_ = runs_.empty() ? 0 : runs_.back().first_row + runs_.back().num_rows;
  planned_ = false;
  groups_.clear();
  rows_.clear();
  for (const CachedRows& run : runs_) {
    for (int64_t i = 0; i < run.num_rows; ++i) rows_.push_back(RowTokens::Of(run, i));
  }
}

torch::Tensor CachedAttention::Attend(const AttentionLayer& layer, const torch::Tensor& q,
                                      const torch::Tensor& k, const torch::Tensor& v) {
  TORCH_CHECK(q.size(0) == num_rows_, "attention over ", num_rows_, " rows: q ", q.sizes(),
              " does not fit");
  const bool kernel =
      q.device().is_cpu() && cache_->keys(layer.index).scalar_type() == torch::kFloat32;
  return kernel ? AttendWithKernel(layer, q, k, v) : AttendWithOperators(layer, q, k, v);
}

torch::Tensor CachedAttention::AttendWithKernel(const AttentionLayer& layer,
                                                const torch::Tensor& q_any,
                                                const torch::Tensor& k_any,
                                                const torch::Tensor& v_any) {
  const torch::Tensor q = KernelInput(q_any);
  const torch::Tensor k = KernelInput(k_any);
  const torch::Tensor v = KernelInput(v_any);
  KernelLayer shape;
  shape.num_heads = q.size(1);
  shape.num_kv_heads = k.size(1);
  shape.head_dim = q.size(2);
  shape.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.head_dim)));
  shape.window = layer.window;
  shape.keys = cache_->keys(layer.index).data_ptr<float>();
  shape.values = cache_->values(layer.index).data_ptr<float>();

  torch::Tensor out = torch::empty({q.size(0), q.size(1), q.size(2)}, q.options());
  std::vector<KernelRow> rows;
  rows.reserve(num_rows_);
  for (const CachedRows& run : runs_) {
    for (int64_t i = 0; i < run.num_rows; ++i) {
      const int64_t index = run.first_row + i;
      const RowTokens& tokens = rows_[rows.size()];
      const KvCache::Slot slot = SlotOf(run, run.first_position + i);
      KernelRow row;
      row.prompt_tokens = std::min(tokens.count, run.prompt_length);
      row.own_tokens = tokens.count - row.prompt_tokens;
      row.own_in_place = tokens.scattered.empty() ? row.own_tokens : tokens.own_in_place;
      row.scattered = tokens.scattered.data();
      row.prompt_blocks = run.prompt_blocks->data();
      row.own_blocks = run.own_blocks == nullptr ? nullptr : run.own_blocks->data();
      row.block = slot.block;
      row.offset = slot.offset;
      row.query = q.data_ptr<float>() + index * q.stride(0);
      row.query_stride = q.stride(1);
      row.key = k.data_ptr<float>() + index * k.stride(0);
      row.key_stride = k.stride(1);
      row.value = v.data_ptr<float>() + index * v.stride(0);
      row.value_stride = v.stride(1);
      row.out = out.data_ptr<float>() + index * q.size(1) * q.size(2);
      rows.push_back(row);
    }
  }
  const auto attend = [&](int64_t begin, int64_t end, bool store) {
    std::vector<float> scratch;
    for (int64_t i = begin; i < end; ++i) {
      if (i + 1 < end) PrefetchRow(shape, rows[i + 1]);
      if (store) StoreRow(shape, rows[i]);
      const size_t floats = ScratchFloats(shape, rows[i]);
      if (scratch.size() < floats) scratch.resize(floats);
      rows[i].scratch = scratch.data();
      AttendRow(shape, rows[i]);
    }
  };
  const int64_t count = static_cast<int64_t>(rows.size());
  if (at::get_num_threads() == 1) {
    attend(0, count, true);  // what a row reads is stored by itself and by rows before it
  } else {
    for (const KernelRow& row : rows) StoreRow(shape, row);
    at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) { attend(begin, end, false); });
  }
  return out.to(q_any.scalar_type());
}

// Plans the slots that each row writes.
void CachedAttention::PlanWrites(const torch::Device& device) {
  std::vector<int64_t> rows, blocks, offsets;
  for (const CachedRows& run : runs_) {
    for (int64_t i = 0; i < run.num_rows; ++i) {
      const KvCache::Slot slot = SlotOf(run, run.first_position + i);
      rows.push_back(run.first_row + i);
      blocks.push_back(slot.block);
      offsets.push_back(slot.offset);
    }
  }
  written_rows_ = torch::tensor(rows, torch::kInt64).to(device);
  written_blocks_ = torch::tensor(blocks, torch::kInt64).to(device);
  written_offsets_ = torch::tensor(offsets, torch::kInt64).to(device);
  planned_ = true;
}

// Plans the groups in which rows attend.
std::vector<CachedAttention::GatherGroup> CachedAttention::PlanGather(
    int64_t window, const torch::Device& device) const {
  std::vector<std::vector<const CachedRows*>> groups;
  std::vector<const CachedRows*> single_rows;
  for (const CachedRows& run : runs_) {
    if (run.num_rows == 1) {
      single_rows.push_back(&run);
    } else {
      groups.push_back({&run});
    }
  }
  if (!single_rows.empty()) groups.push_back(std::move(single_rows));
  std::vector<GatherGroup> planned;
  for (const auto& runs : groups) planned.push_back(GatherGroup::Of(runs, window, device));
  return planned;
}

torch::Tensor CachedAttention::AttendWithOperators(const AttentionLayer& layer,
                                                   const torch::Tensor& q, const torch::Tensor& k,
                                                   const torch::Tensor& v) {
  using torch::indexing::Slice;
  if (!planned_) PlanWrites(q.device());
  if (groups_.count(layer.window) == 0) {
    groups_[layer.window] = PlanGather(layer.window, q.device());
  }
  torch::Tensor& keys = cache_->keys(layer.index);
  torch::Tensor& values = cache_->values(layer.index);
  keys.index_put_({written_blocks_, Slice(), Slice(), written_offsets_},
                  k.index_select(0, written_rows_));
  values.index_put_({written_blocks_, Slice(), written_offsets_}, v.index_select(0, written_rows_));

  const int64_t heads = q.size(1), kv_heads = k.size(1), channels = q.size(2);
  const double scale = 1.0 / std::sqrt(static_cast<double>(channels));
  torch::Tensor out = torch::empty_like(q, q.options(), torch::MemoryFormat::Contiguous);
  for (const GatherGroup& group : groups_.at(layer.window)) {
    const int64_t S = group.sequences, n = group.rows_each;
    const int64_t slots = group.hidden.size(3);
    // [S, kv_heads, group * n, channels]
    const torch::Tensor queries = q.index_select(0, group.rows)
                                      .view({S, n, kv_heads, heads / kv_heads, channels})
                                      .permute({0, 2, 3, 1, 4})
                                      .reshape({S, kv_heads, -1, channels});
    const torch::Tensor gathered_keys = keys.index_select(0, group.blocks)
                                            .view({S, -1, kv_heads, channels, kBlock})
                                            .permute({0, 2, 3, 1, 4})
                                            .reshape({S, kv_heads, channels, slots});
    const torch::Tensor gathered_values = values.index_select(0, group.blocks)
                                              .view({S, -1, kv_heads, kBlock, channels})
                                              .permute({0, 2, 1, 3, 4})
                                              .reshape({S, kv_heads, slots, channels})
                                              .masked_fill(group.empty, 0);
    torch::Tensor bad_rows;  // [S * n, 1, 1] bool: rows that attend to a value of NaN or infinity
    if (group.each_row_counts) {
      const torch::Tensor bad = gathered_values.isfinite().all(3).all(1).logical_not();
      // Rows that do not attend to it give it the weight 0, and 0 times NaN is NaN.
      gathered_values.masked_fill_(bad.view({S, 1, slots, 1}), 0);
      bad_rows =
          (bad.view({S, 1, 1, slots}) & group.hidden.logical_not()).any(3).view({S * n, 1, 1});
    }
    const auto wide = q.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
    const torch::Tensor scores =
        torch::matmul(queries, gathered_keys)
            .to(wide)
            .mul(scale)
            .view({S, heads, n, slots})
            .masked_fill(group.hidden, -std::numeric_limits<float>::infinity());
    const torch::Tensor weights =
        torch::softmax(scores, -1).to(q.scalar_type()).view({S, kv_heads, -1, slots});
    torch::Tensor attended = torch::matmul(weights, gathered_values)
                                 .view({S, heads, n, channels})
                                 .permute({0, 2, 1, 3})
                                 .reshape({S * n, heads, channels});
    if (bad_rows.defined()) {
      attended = attended.masked_fill(bad_rows, std::numeric_limits<double>::quiet_NaN());
    }
    out.index_copy_(0, group.rows, attended);
  }
  return out;
}

CachedAttention::GatherGroup CachedAttention::GatherGroup::Of(
    const std::vector<const CachedRows*>& runs, int64_t window, const torch::Device& device) {
  GatherGroup group;
  group.sequences = static_cast<int64_t>(runs.size());
  group.rows_each = runs[0]->num_rows;
  group.each_row_counts = group.rows_each > 1 && runs[0]->each_row_counts;
  const auto blocks_of = [](const CachedRows& run) {
    const int64_t tokens = run.first_position + run.num_rows;
    const int64_t prompt = std::min(tokens, run.prompt_length);
    return std::pair<int64_t, int64_t>(KvCache::BlocksFor(prompt),
                                       KvCache::BlocksFor(tokens - prompt));
  };
  int64_t width = 0;
  for (const CachedRows* run : runs) {
    const auto [prompt, own] = blocks_of(*run);
    width = std::max(width, prompt + own);
  }
  const int64_t slots = width * kBlock;
  std::vector<int64_t> rows, blocks;
  torch::Tensor hidden = torch::ones({group.sequences, 1, group.rows_each, slots}, torch::kBool);
  torch::Tensor empty = torch::ones({group.sequences, 1, slots, 1}, torch::kBool);
  for (int64_t s = 0; s < group.sequences; ++s) {
    const CachedRows& run = *runs[s];
    const auto [prompt, own] = blocks_of(run);
    blocks.insert(blocks.end(), run.prompt_blocks->begin(), run.prompt_blocks->begin() + prompt);
    if (own > 0) {
      blocks.insert(blocks.end(), run.own_blocks->begin(), run.own_blocks->begin() + own);
    }
    blocks.resize((s + 1) * width, 0);
    bool* unseen = empty[s].data_ptr<bool>();
    for (int64_t i = 0; i < run.num_rows; ++i) {
      rows.push_back(run.first_row + i);
      bool* mask = hidden[s][0][i].data_ptr<bool>();
      const int64_t own_begin = prompt * kBlock;
      const auto attend = [&](int64_t position) {
        const int64_t beyond = position - run.prompt_length;
        const int64_t slot = beyond < 0 ? position : own_begin + beyond;
        mask[slot] = false;
        unseen[slot] = false;
      };
      const std::vector<int64_t> path = PathOf(run, i);
      const int64_t count = run.first_position + static_cast<int64_t>(path.size());
      for (int64_t t = window > 0 ? std::max<int64_t>(0, count - window) : 0; t < count; ++t) {
        const int64_t in_run = t - run.first_position;
        attend(in_run < 0 ? t : run.first_position + path[static_cast<size_t>(in_run)]);
      }
    }
  }
  group.rows = torch::tensor(rows, torch::kInt64).to(device);
  group.blocks = torch::tensor(blocks, torch::kInt64).to(device);
  group.hidden = hidden.to(device);
  group.empty = empty.to(device);
  return group;
}

}  // namespace baton::engine
