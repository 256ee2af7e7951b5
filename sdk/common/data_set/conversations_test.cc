// Lines as the ecosystem writes them: TRL's dataset formats, OpenAI's messages, verl's columns.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"
#include "sdk/common/data_set/data_set.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

DataSetOptions Sft() { return OptionsOf(v1::JOB_KIND_SFT); }
DataSetOptions Rl() { return OptionsOf(v1::JOB_KIND_RL); }
DataSetOptions Pairs() { return OptionsOf(v1::JOB_KIND_REWARD_MODEL); }

Example Parse(const std::string& line, const DataSetOptions& options) {
  const auto example = ParseExample(line, options);
  EXPECT_TRUE(example.ok()) << line << ": " << example.status();
  return example.ok() ? *example : Example();
}
std::string Problem(const std::string& line, const DataSetOptions& options) {
  const auto example = ParseExample(line, options);
  return example.ok() ? "none" : std::string(example.status().message());
}
// "user: Hi", "assistant: Hello", …
std::vector<std::string> Turns(const Example& example) {
  std::vector<std::string> out;
  for (const auto& turn : example.messages) {
    out.push_back(absl::StrCat(turn.role(), ": ", turn.content()));
  }
  return out;
}

constexpr char kTalk[] =
    R"({"messages": [{"role": "system", "content": "Be brief."},
                     {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"},
                     {"role": "user", "content": "Bye"}, {"role": "assistant", "content": "Ciao"},
                     {"role": "user", "content": "Wait"}]})";

TEST(ConversationsTest, SftTakesTheLastAssistantTurnAsTheResponse) {
  const Example example = Parse(kTalk, Sft());
  EXPECT_THAT(Turns(example),
              ElementsAre("system: Be brief.", "user: Hi", "assistant: Hello", "user: Bye"));
  EXPECT_EQ(example.response, "Ciao");
}

TEST(ConversationsTest, RlPromptsEndWithTheLastUserTurn) {
  EXPECT_THAT(Turns(Parse(kTalk, Rl())).back(), "user: Wait");
  const Example answered = Parse(
      R"({"messages": [{"role": "user", "content": "1+1"}, {"role": "assistant", "content": "2"}],)"
      R"( "answer": 2})",
      Rl());
  EXPECT_THAT(Turns(answered), ElementsAre("user: 1+1"));
  EXPECT_TRUE(answered.cut_turns);
  EXPECT_FALSE(Parse(kTalk, Rl()).cut_turns);
  EXPECT_EQ(answered.response, "");
  EXPECT_EQ(answered.answer, "2");
}

TEST(ConversationsTest, SaysWhatAConversationLacks) {
  EXPECT_THAT(Problem(R"({"messages": [{"role": "user", "content": "x"}]})", Sft()),
              HasSubstr("no turn of the assistant"));
  EXPECT_THAT(Problem(R"({"messages": [{"role": "assistant", "content": "x"}]})", Sft()),
              HasSubstr("it needs a prompt before it"));
  EXPECT_THAT(Problem(R"({"messages": [{"role": "assistant", "content": "x"}]})", Rl()),
              HasSubstr("no turn of the user"));
  EXPECT_THAT(Problem(R"({"messages": "Hi"})", Rl()), HasSubstr("not a list of messages"));
  EXPECT_THAT(Problem(R"({"messages": []})", Rl()), HasSubstr("`messages` is an empty list"));
  EXPECT_THAT(
      Problem(R"({"question": "x", "solution": "y"})", Rl()),
      AllOf(HasSubstr("`prompt` is missing, and so is `messages`"),
            HasSubstr("the line has `question`, `solution`"), HasSubstr("spec.data.prompt_key")));
}

TEST(ConversationsTest, ATextPromptStandsBesideMessages) {  // HuggingFaceH4/ultrachat_200k
  const std::string line = R"({"prompt": "Hi", "messages": [{"role": "user", "content": "Hi"},)"
                           R"( {"role": "assistant", "content": "Hello"}]})";
  EXPECT_EQ(Parse(line, Rl()).prompt, "Hi");
  const Example trained = Parse(line, Sft());
  EXPECT_THAT(Turns(trained), ElementsAre("user: Hi"));
  EXPECT_EQ(trained.response, "Hello");
}

TEST(ConversationsTest, AcceptsTheFieldNamesOfTrl) {
  const Example texts = Parse(R"({"prompt": "The sky is", "completion": " blue."})", Sft());
  EXPECT_EQ(texts.prompt + texts.response, "The sky is blue.");
  const Example turns =
      Parse(R"({"prompt": [{"role": "user", "content": "What color is the sky?"}],)"
            R"( "completion": [{"role": "assistant", "content": "It is blue."}]})",
            Sft());
  EXPECT_THAT(Turns(turns), ElementsAre("user: What color is the sky?"));
  EXPECT_EQ(turns.response, "It is blue.");
  EXPECT_EQ(Parse(R"({"prompt": "p", "response": "a", "completion": "b"})", Sft()).response, "a");
}

TEST(ConversationsTest, AResponseIsOneTurnOfTheAssistant) {
  EXPECT_THAT(
      Problem(R"({"prompt": "p", "completion": [{"role": "user", "content": "x"}]})", Sft()),
      HasSubstr("`completion` is not one turn of the assistant"));
  EXPECT_THAT(Problem(R"({"prompt": "p", "response": [{"role": "assistant", "content": "x"},)"
                      R"( {"role": "user", "content": "y"}]})",
                      Sft()),
              HasSubstr("`response` is not one turn"));
  EXPECT_THAT(Problem(R"({"messages": [{"role": "user", "content": "x"},)"
                      R"( {"role": "assistant", "content": "", "name": "a"}]})",
                      Sft()),
              HasSubstr("a turn that says nothing"));
}

TEST(ConversationsTest, AResponseMayCallToolsAndThink) {
  const Example calls =
      Parse(R"({"messages": [{"role": "user", "content": "x"}, {"role": "assistant",)"
            R"( "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}]})",
            Sft());
  EXPECT_TRUE(calls.has_response());
  EXPECT_EQ(calls.response, "");
  ASSERT_THAT(calls.response_messages, SizeIs(1));
  EXPECT_THAT(calls.response_messages[0].tool_calls_json(), HasSubstr("\"name\":\"f\""));
  EXPECT_THAT(Turns(calls), ElementsAre("user: x"));
  const Example thinks =
      Parse(R"({"prompt": [{"role": "user", "content": "2+2?"}], "completion":)"
            R"( [{"role": "assistant", "content": "4", "reasoning": "2 and 2", "id": null}]})",
            Sft());
  EXPECT_EQ(thinks.response, "4");
  ASSERT_THAT(thinks.response_messages, SizeIs(1));
  EXPECT_EQ(thinks.response_messages[0].other_fields_json(), R"({"reasoning":"2 and 2"})");
  // A text says all of it.
  EXPECT_THAT(Parse(kTalk, Sft()).response_messages, IsEmpty());
  // Of a pair both.
  const Example pair = Parse(
      R"({"prompt": [{"role": "user", "content": "x"}],)"
      R"( "chosen": [{"role": "assistant", "content": "", "tool_calls": [{"name": "f"}]}],)"
      R"( "rejected": [{"role": "assistant", "content": "", "tool_calls": [{"name": "g"}]}]})",
      Pairs());
  ASSERT_THAT(pair.response_messages, SizeIs(1));
  ASSERT_TRUE(pair.rejected_message.has_value());
  EXPECT_THAT(pair.rejected_message->tool_calls_json(), HasSubstr("\"g\""));
  v1::Trajectory sent;
  SetResponse(pair, &sent);
  EXPECT_THAT(sent.response_messages(0).tool_calls_json(), HasSubstr("\"f\""));
  EXPECT_THAT(sent.rejected_message().tool_calls_json(), HasSubstr("\"g\""));
}

// data.loss_on: all_assistant.
TEST(ConversationsTest, AllTurnsOfTheAssistantMayBeTheResponse) {
  v1::DataSpec data;
  data.set_loss_on("all_assistant");
  const DataSetOptions all = OptionsOf(v1::JOB_KIND_SFT, data);
  const auto turns = [](const Example& example) {
    std::vector<std::string> out;
    for (const auto& turn : example.response_messages) {
      out.push_back(absl::StrCat(turn.role(), ": ", turn.content(), turn.untrained() ? " -" : ""));
    }
    return out;
  };
  const Example talk = Parse(kTalk, all);
  EXPECT_THAT(Turns(talk), ElementsAre("system: Be brief.", "user: Hi"));
  EXPECT_THAT(turns(talk), ElementsAre("assistant: Hello", "user: Bye", "assistant: Ciao"));
  EXPECT_EQ(talk.response, "assistant: Hello\nuser: Bye\nassistant: Ciao");
  const auto line = [](int first, int second, int third) {
    return absl::StrCat(
        R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b",)",
        R"( "weight": )", first, R"(}, {"role": "assistant", "content": "c", "weight": )", second,
        R"(}, {"role": "assistant", "content": "d", "weight": )", third, "}]}");
  };
  EXPECT_THAT(turns(Parse(line(1, 0, 1), all)),
              ElementsAre("assistant: b", "assistant: c -", "assistant: d"));
  const Example middle = Parse(line(0, 1, 0), all);
  EXPECT_THAT(Turns(middle), ElementsAre("user: a", "assistant: b"));
  EXPECT_EQ(middle.response, "c");
  EXPECT_THAT(middle.response_messages, IsEmpty());
  EXPECT_TRUE(Parse(line(0, 0, 0), all).weightless);
  // A completion of several turns, as TRL has it.
  const std::string completion =
      R"({"prompt": [{"role": "user", "content": "a"}], "completion": [{"role": "assistant",)"
      R"( "content": "b"}, {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}]})";
  EXPECT_THAT(turns(Parse(completion, all)),
              ElementsAre("assistant: b", "user: c", "assistant: d"));
  EXPECT_THAT(Problem(completion, Sft()), HasSubstr("data.loss_on: all_assistant"));
  EXPECT_FALSE(OptionsOf(v1::JOB_KIND_RL, data).all_turns) << "a prompt ends with the user";
}

TEST(ConversationsTest, TheChatTemplateGetsTheLinesSettings) {
  const auto kwargs = [](const std::string& keys) {
    return Parse(R"({"prompt": [{"role": "user", "content": "hi"}], )" + keys + "}", Rl())
        .chat_template_kwargs_json;
  };
  EXPECT_EQ(kwargs(R"("chat_template_kwargs": {"enable_thinking": false, "a": null})"),
            R"({"enable_thinking":false})");
  EXPECT_EQ(kwargs(R"("chat_template_kwargs": "{\"b\": 1.5}")"), R"({"b":1.5})") << "of a table";
  EXPECT_EQ(kwargs(R"("documents": [{"title": "t", "text": "x"}])"),
            R"({"documents":[{"title":"t","text":"x"}]})");
  EXPECT_EQ(kwargs(R"("documents": [], "chat_template_kwargs": null)"), "");
  const auto problem = [](const std::string& keys) {
    return Problem(R"({"prompt": "hi", )" + keys + "}", Rl());
  };
  EXPECT_THAT(problem(R"("chat_template_kwargs": [1])"), HasSubstr("is not an object"));
  EXPECT_THAT(problem(R"("chat_template_kwargs": {"tools": []})"), HasSubstr("`tools`"));
  EXPECT_THAT(problem(R"("documents": ["text"])"), HasSubstr("give the key another name"));
  EXPECT_THAT(problem(R"("documents": [{}], "chat_template_kwargs": {"documents": [{}]})"),
              HasSubstr("remove one"));
  v1::Generate task;
  SetPrompt(Parse(R"({"prompt": "p", "chat_template_kwargs": {"a": 1}})", Rl()), &task);
  EXPECT_EQ(task.chat_template_kwargs_json(), R"({"a":1})");
  v1::Trajectory trajectory;
  SetPrompt(Parse(R"({"prompt": "p", "chat_template_kwargs": {"a": 1}})", Rl()), &trajectory);
  EXPECT_EQ(trajectory.chat_template_kwargs_json(), R"({"a":1})");
}

TEST(ConversationsTest, ATurnKeepsTheKeysThatATemplateMayRead) {
  const Example example =
      Parse(R"({"prompt": [{"role": "developer", "content": "d", "name": "n", "weight": 1},)"
            R"( {"role": "user", "content": "u", "tool_calls": null, "x": {"b": 1, "a": null}}]})",
            Rl());
  EXPECT_EQ(example.messages[0].role(), "developer");
  EXPECT_EQ(example.messages[0].other_fields_json(), R"({"name":"n"})");
  EXPECT_EQ(example.messages[1].other_fields_json(), R"({"x":{"b":1,"a":null}})");
}

// Parquet has the keys of all rows in each.
TEST(ConversationsTest, NullInsideToolsIsCounted) {
  const TestFolder folder;
  folder.Write("a.jsonl",
               R"({"prompt": "a", "tools": [{"name": "f", "properties": {"a": {}, "b": null}}]})"
               "\n"
               R"({"messages": [{"role": "user", "content": "b"}, {"role": "assistant", "content":)"
               R"( "c", "tool_calls": [{"name": "f", "arguments": {"x": [null]}}]},)"
               R"( {"role": "user", "content": "d"}]})"
               "\n"
               R"({"prompt": "e", "tools": null, "extra": {"a": null}})"
               "\n");
  const DataSet read = ReadDataSet({folder.path("a.jsonl")}, Rl());
  EXPECT_THAT(read.problems, IsEmpty());
  EXPECT_EQ(read.nulls_in_tools, 2u);
}

TEST(ConversationsTest, KeysMayHaveOtherNames) {  // openai/gsm8k; verl's parquet files
  DataSetOptions options = Sft();
  options.prompt_key = "question";
  options.response_key = "answer";
  const Example gsm = Parse(R"({"question": "1+1?", "answer": "It is 2. #### 2"})", options);
  EXPECT_EQ(gsm.prompt, "1+1?");
  EXPECT_EQ(gsm.response, "It is 2. #### 2");
  DataSetOptions verl = Rl();
  verl.answer_key = "reward_model.ground_truth";
  const Example nested = Parse(
      R"({"prompt": [{"role": "user", "content": "1+1?"}], "reward_model": {"ground_truth": "2"}})",
      verl);
  EXPECT_EQ(nested.answer, "2");
  EXPECT_EQ(Parse(R"({"prompt": "p", "reward_model.ground_truth": 3})", verl).answer, "3");
}

TEST(ConversationsTest, AKeyThatALineLacksIsNamedWithItsField) {
  DataSetOptions options = Sft();
  options.prompt_key = "question";
  EXPECT_THAT(Problem(R"({"prompt": "p", "response": "r"})", options),
              AllOf(HasSubstr("`question` is missing (spec.data.prompt_key)"),
                    HasSubstr("the line has `prompt`, `response`")));
  options.response_key = "text";
  EXPECT_THAT(Problem(R"({"question": "p", "response": "r"})", options),
              HasSubstr("`text` is missing (spec.data.response_key); kind sft trains on it"));
}

// What lines without an answer mean is for the list as a whole to say (line_counts_test.cc).
TEST(ConversationsTest, AnEmptyAnswerIsAnAnswer) {
  EXPECT_FALSE(Parse(R"({"prompt": "p", "answer": null})", Rl()).has_answer);
  EXPECT_FALSE(Parse(R"({"prompt": "p"})", Rl()).has_answer);
  EXPECT_TRUE(Parse(R"({"prompt": "p", "answer": ""})", Rl()).has_answer);
  EXPECT_TRUE(Parse(R"({"prompt": "p", "answer": 0})", Rl()).has_answer);
  DataSetOptions named = Rl();
  named.answer_key = "solution";
  EXPECT_EQ(Parse(R"({"prompt": "p", "solution": "4"})", named).answer, "4");
  EXPECT_FALSE(Parse(R"({"prompt": "p", "answer": 1})", named).has_answer);
}

// As in OpenAI's files: the turn is context, and not to be learned.
TEST(ConversationsTest, ATurnOfWeightZeroIsNotTrainedOn) {
  const std::string ask = R"({"messages": [{"role": "user", "content": "2+2?"}, )";
  const std::string four = R"({"role": "assistant", "content": "4")";
  const std::string doubt = R"(, {"role": "user", "content": "Sure?"}, )";
  const std::string no = R"({"role": "assistant", "content": "no")";
  const Example first =
      Parse(absl::StrCat(ask, four, R"(, "weight": 1})", doubt, no, R"(, "weight": 0}]})"), Sft());
  EXPECT_EQ(first.response, "4");
  EXPECT_THAT(Turns(first), ElementsAre("user: 2+2?"));
  const Example last = Parse(
      absl::StrCat(ask, four, R"(, "weight": 0.0})", doubt, no, R"(, "weight": null}]})"), Sft());
  EXPECT_EQ(last.response, "no");
  EXPECT_THAT(Turns(last), ElementsAre("user: 2+2?", "assistant: 4", "user: Sure?"));
  const std::string none = absl::StrCat(ask, four, R"(, "weight": 0}]})");
  EXPECT_TRUE(Parse(none, Sft()).weightless);
  EXPECT_FALSE(Parse(none, Rl()).weightless) << "a prompt is not trained on";
  const std::string completion =
      R"({"prompt": "2+2?", "completion": [{"role": "assistant", "content": "5", "weight": 0}]})";
  EXPECT_TRUE(Parse(completion, Sft()).weightless);
  EXPECT_FALSE(Parse(completion, Rl()).weightless);
  EXPECT_THAT(Problem(R"({"prompt": "p", "chosen": [{"role": "assistant", "content": "4"}],)"
                      R"( "rejected": [{"role": "assistant", "content": "5", "weight": 0}]})",
                      Pairs()),
              AllOf(HasSubstr("`rejected`"), HasSubstr("weight")));
}

TEST(ConversationsTest, AWeightIsZeroOrOne) {
  for (const char* wrong : {"0.5", "2", "-1", "true", "\"0\"", "[0]"}) {
    for (const DataSetOptions& options : {Sft(), Rl()}) {
      EXPECT_THAT(
          Problem(absl::StrCat(R"({"messages": [{"role": "user", "content": "2+2?"}, )",
                               R"({"role": "assistant", "content": "4", "weight": )", wrong, "}]}"),
                  options),
          AllOf(HasSubstr("`messages[1].weight` is "), HasSubstr(wrong),
                HasSubstr("neither 0 (the turn is not trained on) nor 1")));
    }
  }
}

TEST(ConversationsTest, LinesWhoseConversationGoesOnAfterThePromptAreCounted) {
  const TestFolder folder;
  const std::string question = R"({"messages": [{"role": "user", "content": "2+2?"})";
  folder.Write("some.jsonl", question + "]}\n" + question +
                                 R"(, {"role": "assistant", "content": "4"}]})" + "\n");
  EXPECT_EQ(ReadDataSet({folder.path("some.jsonl")}, Rl()).cut_turns, 1u);
  EXPECT_EQ(ReadDataSet({folder.path("some.jsonl")}, Rl()).examples.size(), 2u);
}

TEST(ConversationsTest, LinesOfWeightZeroAreLeftOutAndCounted) {
  const TestFolder folder;
  const auto line = [](const char* reply, int weight) {
    return absl::StrCat(R"({"messages": [{"role": "user", "content": "2+2?"}, )",
                        R"({"role": "assistant", "content": ")", reply, R"(", "weight": )", weight,
                        "}]}\n");
  };
  folder.Write("some.jsonl", line("5", 0) + line("4", 1) + line("6", 0));
  const DataSet some = ReadDataSet({folder.path("some.jsonl")}, Sft());
  EXPECT_THAT(some.problems, IsEmpty());
  ASSERT_THAT(some.examples, SizeIs(1));
  EXPECT_EQ(some.examples[0].response, "4");
  EXPECT_EQ(some.weightless, 2u);
  folder.Write("none.jsonl", line("5", 0));
  EXPECT_THAT(ReadDataSet({folder.path("none.jsonl")}, Sft()).problems,
              ElementsAre(AllOf(HasSubstr("no line is left"), HasSubstr("\"weight\": 0"))));
  folder.Write("wrong.jsonl", line("4", 1) + line("5", 3));
  EXPECT_THAT(ReadDataSet({folder.path("wrong.jsonl")}, Sft()).problems,
              ElementsAre(HasSubstr("wrong.jsonl:2: `messages[1].weight` is 3")));
}

TEST(ConversationsTest, PreferencesMayBeTextsOrMessages) {
  const Example texts =
      Parse(R"({"prompt": "The sky is", "chosen": " blue.", "rejected": " green."})", Pairs());
  EXPECT_EQ(texts.prompt + texts.response + texts.rejected, "The sky is blue. green.");
  const Example turns = Parse(R"({"prompt": [{"role": "user", "content": "Color?"}],)"
                              R"( "chosen": [{"role": "assistant", "content": "Blue."}],)"
                              R"( "rejected": [{"role": "assistant", "content": "Green."}]})",
                              Pairs());
  EXPECT_THAT(Turns(turns), ElementsAre("user: Color?"));
  EXPECT_EQ(turns.response + turns.rejected, "Blue.Green.");
}

TEST(ConversationsTest, TheSharedFirstTurnsOfAPairAreThePrompt) {
  const std::string talks =
      R"("chosen": [{"role": "system", "content": "s"}, {"role": "user", "content": "Color?"},)"
      R"(            {"role": "assistant", "content": "Blue."}],)"
      R"( "rejected": [{"role": "system", "content": "s"}, {"role": "user", "content": "Color?"},)"
      R"(              {"role": "assistant", "content": "Green."}]})";
  // Without a prompt, with its text (HuggingFaceH4/ultrafeedback_binarized), with its messages.
  for (
      const char* prompt :
      {"{", R"({"prompt": "Color?", )",
       R"({"prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "Color?"}], )"}) {
    const Example example = Parse(prompt + talks, Pairs());
    EXPECT_THAT(Turns(example), ElementsAre("system: s", "user: Color?")) << prompt;
    EXPECT_EQ(example.prompt, "");
    EXPECT_EQ(example.response + example.rejected, "Blue.Green.");
  }
}

TEST(ConversationsTest, TheSharedFirstCharactersOfAPairAreThePrompt) {
  const Example example =
      Parse(R"({"chosen": "The sky is blue.", "rejected": "The sky is green."})", Pairs());
  EXPECT_EQ(example.prompt, "The sky is");  // TRL: the space belongs to the responses
  EXPECT_EQ(example.response, " blue.");
  EXPECT_EQ(example.rejected, " green.");
  // é is C3 A9 and è is C3 A8: a character is not cut apart.
  const Example accents = Parse(R"({"chosen": "xé", "rejected": "xè"})", Pairs());
  EXPECT_EQ(accents.prompt, "x");
  EXPECT_EQ(accents.response, "é");
}

TEST(ConversationsTest, SaysWhatIsWrongWithAPair) {
  EXPECT_THAT(Problem(R"({"prompt": "p", "chosen": "a"})", Pairs()),
              HasSubstr("`rejected` is missing"));
  EXPECT_THAT(Problem(R"({"prompt": "p", "chosen": "a", "rejected": "a"})", Pairs()),
              HasSubstr("equal; remove the line"));
  EXPECT_THAT(Problem(R"({"chosen": "same", "rejected": "same"})", Pairs()), HasSubstr("equal"));
  EXPECT_THAT(Problem(R"({"chosen": "a", "rejected": "b"})", Pairs()),
              HasSubstr("begin with different texts"));
  EXPECT_THAT(Problem(R"({"chosen": "ab", "rejected": "abc"})", Pairs()),
              AllOf(HasSubstr("`chosen` has no text"), HasSubstr("give `prompt`")));
  EXPECT_THAT(Problem(R"({"prompt": "p", "chosen": "a",)"
                      R"( "rejected": [{"role": "assistant", "content": "b"}]})",
                      Pairs()),
              HasSubstr("one is a text and the other messages"));
  const std::string user = R"({"role": "user", "content": "x"})";
  const std::string other = R"({"role": "user", "content": "y"})";
  EXPECT_THAT(Problem("{\"chosen\": [" + user + "], \"rejected\": [" + other + "]}", Pairs()),
              HasSubstr("begin with different turns"));
  EXPECT_THAT(
      Problem("{\"chosen\": [" + user + "], \"rejected\": [" + user + "," + other + "]}", Pairs()),
      HasSubstr("`chosen` has no turn after"));
  EXPECT_THAT(Problem("{\"chosen\": [" + user + "], \"rejected\": [" + user + "]}", Pairs()),
              HasSubstr("equal"));
}

TEST(ToolsTest, ToolsAndCallsGoToTheTemplate) {  // TRL's example
  const Example example = Parse(
      R"({"messages": [{"role": "user", "content": "Turn on the lights."},)"
      R"( {"role": "assistant", "tool_calls": [{"type": "function", "function":)"
      R"(  {"name": "control_light", "arguments": {"state": "on"}}}]},)"
      R"( {"role": "tool", "name": "control_light", "tool_call_id": "c1", "content": "They are on."},)"
      R"( {"role": "assistant", "content": "Done!"}],)"
      R"( "tools": [{"type": "function", "function": {"name": "control_light"}}]})",
      Sft());
  EXPECT_EQ(example.response, "Done!");
  ASSERT_THAT(example.messages, SizeIs(3));
  EXPECT_EQ(example.messages[1].content(), "");
  EXPECT_EQ(
      example.messages[1].tool_calls_json(),
      R"([{"type":"function","function":{"name":"control_light","arguments":{"state":"on"}}}])");
  EXPECT_EQ(example.messages[2].name(), "control_light");
  EXPECT_EQ(example.messages[2].tool_call_id(), "c1");
  EXPECT_EQ(example.tools_json, R"([{"type":"function","function":{"name":"control_light"}}])");
  v1::Generate generate;
  SetPrompt(example, &generate);
  EXPECT_EQ(generate.tools_json(), example.tools_json);
  EXPECT_EQ(generate.messages(1).tool_calls_json(), example.messages[1].tool_calls_json());
  v1::Trajectory trajectory;
  SetPrompt(example, &trajectory);
  EXPECT_EQ(trajectory.tools_json(), example.tools_json);
}

TEST(ToolsTest, ParsesToolsAndArgumentsGivenAsText) {
  // OpenAI's API writes a call's arguments as a text, and flat tables write `tools` as one; they
  // write null where a turn has no such key.
  const Example example =
      Parse(R"({"prompt": [{"role": "user", "content": "x", "tool_calls": null, "name": null},)"
            R"( {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f",)"
            R"(  "arguments": "{\"a\": 1}"}}]}, {"role": "tool", "content": "1"}],)"
            R"( "tools": "[{\"name\": \"f\"}]"})",
            Rl());
  EXPECT_EQ(example.messages[1].tool_calls_json(),
            R"([{"function":{"name":"f","arguments":{"a":1}}}])");
  EXPECT_EQ(example.tools_json, R"([{"name":"f"}])");
  for (const char* none : {"null", "[]", "\"\"", "\"null\"", "\"[]\""}) {
    EXPECT_EQ(Parse(absl::StrCat(R"({"prompt": "p", "tools": )", none, "}"), Rl()).tools_json, "");
  }
  for (const char* wrong : {"3", "\"x\"", "[1]", "{}", "\"{}\""}) {
    EXPECT_THAT(Problem(absl::StrCat(R"({"prompt": "p", "tools": )", wrong, "}"), Rl()),
                HasSubstr("`tools` is not a list"));
  }
}

// Chat templates can tell these apart.
TEST(ToolsTest, AnEmptyTextIsNotNull) {
  const auto turn = [](const std::string& keys) {
    return Parse(absl::StrCat(R"({"prompt": [{"role": "user", "content": "x"},)",
                              R"( {"role": "assistant")", keys,
                              R"(}, {"role": "user", "content": "y"}]})"),
                 Rl())
        .messages[1];
  };
  const std::string calls = R"(, "tool_calls": [{"function": {"name": "f"}}])";
  EXPECT_FALSE(turn(calls).has_content());
  EXPECT_FALSE(turn(R"(, "content": null)" + calls).has_content());
  EXPECT_TRUE(turn(R"(, "content": "")" + calls).has_content());
  EXPECT_TRUE(turn(R"(, "content": [])" + calls).has_content());
  EXPECT_TRUE(turn(R"(, "content": "")").has_content());
  EXPECT_EQ(turn(R"(, "content": "a", "tool_calls": null)").tool_calls_json(), "");
  EXPECT_EQ(turn(R"(, "content": "a", "tool_calls": [])").tool_calls_json(), "[]");
  // Null stays in what a call is given.
  EXPECT_EQ(turn(R"(, "tool_calls": [{"function": {"name": "f", "arguments": {"a": null}}}])")
                .tool_calls_json(),
            R"([{"function":{"name":"f","arguments":{"a":null}}}])");
  const auto result = [](const std::string& keys) {
    return Parse(absl::StrCat(R"({"prompt": [{"role": "tool", "content": "x")", keys, "}]}"), Rl())
        .messages[0];
  };
  EXPECT_FALSE(result("").has_name());
  EXPECT_FALSE(result(R"(, "name": null, "tool_call_id": null)").has_tool_call_id());
  EXPECT_TRUE(result(R"(, "name": "")").has_name());
  EXPECT_TRUE(result(R"(, "tool_call_id": "")").has_tool_call_id());
  EXPECT_EQ(result(R"(, "tool_call_id": 7)").tool_call_id(), "7");
}

TEST(ToolsTest, ATurnThatSaysNothingIsRefused) {
  for (const char* keys :
       {"", R"(, "content": null)", R"(, "tool_calls": [])", R"(, "tool_calls": null)"}) {
    EXPECT_THAT(Problem(absl::StrCat(R"({"prompt": [{"role": "assistant")", keys, "}]}"), Rl()),
                HasSubstr("`prompt[0]` is not {"))
        << keys;
  }
  // Only the assistant calls.
  EXPECT_THAT(Problem(R"({"prompt": [{"role": "user", "tool_calls": [{"name": "f"}]}]})", Rl()),
              HasSubstr("`prompt[0]` is not {"));
}

TEST(ConversationsTest, APromptOfARolloutEndsWithTheTurnThatIsAnswered) {
  const auto prompt = [](const char* last) {
    return absl::StrCat(R"({"prompt": [{"role": "user", "content": "Hi"}, {"role": ")", last,
                        R"(", "content": "So"}], "response": "x"})");
  };
  EXPECT_THAT(Problem(prompt("assistant"), Rl()),
              AllOf(HasSubstr("`prompt` ends with a turn of the assistant"),
                    HasSubstr("name the conversation `messages`")));
  EXPECT_EQ(Problem(prompt("tool"), Rl()), "none");
  EXPECT_EQ(Problem(prompt("assistant"), Sft()), "none");
}

TEST(ConversationsTest, MessagesThatWereWrittenIntoATextAreRefused) {
  for (const char* text : {R"([{\"role\": \"user\", \"content\": \"Hi\"}])",
                           R"( [{'role': 'user', 'content': 'Hi'}])", R"([{'content': 'Hi'}])"}) {
    EXPECT_THAT(Problem(absl::StrCat(R"({"prompt": ")", text, R"("})"), Rl()),
                HasSubstr("write the list itself"))
        << text;
  }
  for (const char* text : {R"([{\"role\": \"user\"}, 3])", "[1, 2]", R"(say [{\"role\": 1}])"}) {
    EXPECT_EQ(Problem(absl::StrCat(R"({"prompt": ")", text, R"("})"), Rl()), "none") << text;
  }
}

TEST(ToolsTest, AResponseWithAnEmptyListOfCallsIsAText) {
  EXPECT_EQ(Parse(R"({"messages": [{"role": "user", "content": "x"}, {"role": "assistant",)"
                  R"( "content": "y", "tool_calls": []}]})",
                  Sft())
                .response,
            "y");
}

TEST(ToolsTest, TextPartsAreOneText) {
  const Example example =
      Parse(R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi "},)"
            R"( {"type": "text", "text": "you"}]}]})",
            Rl());
  EXPECT_THAT(Turns(example), ElementsAre("user: Hi you"));
  EXPECT_THAT(
      Problem(R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})", Rl()),
      AllOf(HasSubstr("`messages[0].content[0]`"), HasSubstr("text alone")));
}

}  // namespace
}  // namespace baton
