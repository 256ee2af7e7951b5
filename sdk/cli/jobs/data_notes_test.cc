#include "sdk/cli/jobs/data_notes.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Lists = google::protobuf::RepeatedPtrField<v1::DataFilesSummary>;

v1::DataFilesSummary* AddList(const char* list, Lists* lists) {
  v1::DataFilesSummary* summary = lists->Add();
  summary->set_list(list);
  summary->set_examples(4);
  return summary;
}

TEST(DataNotesTest, KeysThatAreNotUsedAreListedOnce) {
  Lists lists;
  for (const char* list : {"train_files", "val_files"}) {
    v1::DataFilesSummary* summary = AddList(list, &lists);
    summary->add_unused_keys("solution");
    summary->add_unused_keys("reward_model.style");
  }
  EXPECT_THAT(DataNotes({}, lists),
              ElementsAre("data.train_files and data.val_files: the job does not use these keys of "
                          "the lines: `solution`, `reward_model.style`"));
  lists.Mutable(1)->mutable_unused_keys()->RemoveLast();
  EXPECT_THAT(DataNotes({}, lists), testing::SizeIs(2));
}

TEST(DataNotesTest, LinesWithoutAnAnswerAreCountedAndNamed) {
  Lists lists;
  v1::DataFilesSummary* summary = AddList("train_files", &lists);
  summary->set_unanswered(1);
  summary->set_unanswered_place("/data/files/default/abc/prompts.jsonl:3");
  summary->set_unanswered_keys("`prompt`, `solution`");
  summary->set_answer_reader("spec.reward.rules[0] (numeric)");
  EXPECT_THAT(
      DataNotes({}, lists),
      ElementsAre("warning: data.train_files: of 4 examples 1 line has no `answer`, which "
                  "spec.reward.rules[0] (numeric) gets: a rule that compares with it gives them no "
                  "reward, and code of your own gets an empty one. The first is prompts.jsonl:3, "
                  "with `prompt`, `solution`; if one of its keys is the answer, name it with "
                  "data.answer_key"));
}

TEST(DataNotesTest, ResponsesThatAreCutAreAWarning) {
  Lists lists;
  AddList("train_files", &lists)->set_cut_responses(2);
  v1::JobSpec spec;
  spec.mutable_data()->set_max_response_length(8);
  EXPECT_THAT(
      DataNotes(spec, lists),
      ElementsAre("warning: data.train_files: 2 examples have a response of more than "
                  "data.max_response_length = 8 tokens, which is trained on without its "
                  "end; raise it, or set data.filter_overlong_responses: true to leave such "
                  "lines out"));
}

TEST(DataNotesTest, TokensThatDifferFromTransformersAreAWarning) {
  Lists lists;
  AddList("train_files", &lists)->set_joined_turns(1);
  EXPECT_THAT(DataNotes({}, lists),
              ElementsAre(testing::HasSubstr("1 conversation has other tokens here than by "
                                             "transformers' apply_chat_template")));
}

TEST(DataNotesTest, NothingIsSaidOfGoodLines) {
  Lists lists;
  AddList("train_files", &lists);
  EXPECT_THAT(DataNotes({}, lists), IsEmpty());
}

}  // namespace
}  // namespace baton::cli
