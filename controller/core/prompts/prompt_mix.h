// Map from prompt indices to prompts, over all files of a job.
//
// Without data.train_mix the files are one list (prompt_source.h). With it each file is a list with
// epochs of its own, and each step of train_batch_size prompt indices takes prompts from the files
// of its phase (train_mix.h) in proportion to their weights (file_turns.h):
//
//   index --> step, place in it --> turn in its phase --> file, index in the file's list --> prompt
//
// With data.shuffle the places of a step are in random order. In the order of turns, a mini-batch
// or a data rank would get prompts of the same files at every step.
//
// So a prompt depends only on the spec, the sizes of the files and the prompt index: a job gets the
// same prompts after a restart, after a rollback, and in any order of its prompt indices.
#ifndef BATON_CONTROLLER_CORE_PROMPTS_PROMPT_MIX_H_
#define BATON_CONTROLLER_CORE_PROMPTS_PROMPT_MIX_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "baton/v1/job_spec.pb.h"
#include "controller/core/prompts/file_turns.h"
#include "controller/core/prompts/prompt_source.h"

namespace baton::controller {

class PromptMix {
 public:
  PromptMix() = default;
  /// `data`: of an effective spec. `sizes`: number of prompts in each of its train_files. With a
  /// mix none is 0; without one their sum is not 0.
  PromptMix(const v1::DataSpec& data, const std::vector<uint64_t>& sizes);

  /// The prompt of a prompt index: its place in the list of all files' prompts, the first file's
  /// first. Costs a table look-up, except for the first index of another step (then all prompts of
  /// that step are found) or of another epoch.
  uint64_t At(uint64_t prompt_index);

  /// Prompts of all files.
  uint64_t size() const { return size_; }
  /// Files of a mix; 0: the job has none.
  size_t files() const { return files_.size(); }
  /// The file that a prompt of a mix is in.
  size_t FileOf(uint64_t prompt) const;

 private:
  struct File {
    uint64_t first_prompt = 0;
    PromptSource order;
  };
  struct Phase {
    uint64_t first_prompt_index = 0;
    FileTurns turns;
    std::vector<size_t> files;   // of each index of `turns`
    std::vector<uint64_t> used;  // turns of each of these files in earlier phases
  };
  void MakePhases(const v1::DataSpec& data);
  /// Finds the prompts of a step, from 0.
  void Fill(uint64_t step);

  uint64_t size_ = 0;
  PromptSource one_list_;  // without a mix
  // With a mix.
  uint64_t per_step_ = 1;
  std::vector<File> files_;
  std::vector<Phase> phases_;
  PromptSource places_;           // of a step's indices in prompts_
  uint64_t step_ = ~uint64_t{0};  // of prompts_
  std::vector<uint64_t> prompts_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_PROMPTS_PROMPT_MIX_H_
