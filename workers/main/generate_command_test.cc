#include "workers/main/generate_command.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "sdk/common/base/test_folder.h"
#include "tests/support/workers/policy.h"
#include "workers/engine/model/hf_directory.h"
#include "workers/policy/policy_source.h"

namespace baton {
namespace {

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

using Json = nlohmann::ordered_json;

class GenerateCommandTest : public ::testing::Test {
 protected:
  GenerateCommandTest() {
    const auto source = policy::PolicySource::Open(policy::TinySpec().model(), "").value();
    const auto model = source->LoadModel(torch::kFloat32, torch::kCPU, 3).value();
    options_.model = folder_.path("model");
    engine::SaveOptions save;
    save.companions = source->companions();
    EXPECT_TRUE(engine::SaveModel(*model, options_.model, save).ok());
    options_.prompt = "1+2=";
    options_.max_new_tokens = 20;
  }
  absl::StatusOr<std::string> Run() {
    std::string text;
    const auto note = Generate(
        options_, [&text](absl::string_view piece) { text.append(piece.data(), piece.size()); });
    if (!note.ok()) return note.status();
    note_ = *note;
    return text;
  }
  // Saves a model that prefers the end of the response to all other tokens, or all other tokens to
  // it: with `sign` 1 the one, with -1 the other.
  void SaveModelThatEnds(float sign) {
    v1::JobSpec spec = policy::TinySpec();
    spec.mutable_model()->mutable_init()->set_tie_word_embeddings(false);
    const auto source = policy::PolicySource::Open(spec.model(), "").value();
    const auto model = source->LoadModel(torch::kFloat32, torch::kCPU, 3).value();
    {
      const torch::NoGradGuard no_grad;
      for (auto& [name, weight] : model->parameters()) {
        if (name != "lm_head.weight") continue;
        torch::Tensor(weight).fill_(-sign);
        torch::Tensor(weight)[0].fill_(0);  // <pad>, which is no text
        for (const int32_t id : source->stop_token_ids()) torch::Tensor(weight)[id].fill_(sign);
      }
    }
    engine::SaveOptions save;
    save.companions = source->companions();
    options_.model = folder_.path(sign > 0 ? "ends" : "goes-on");
    ASSERT_TRUE(engine::SaveModel(*model, options_.model, save).ok());
  }

  TestFolder folder_;
  std::string note_;  // of the last Run
  GenerateOptions options_;
};

TEST_F(GenerateCommandTest, ChatTemplatesGetTheirVariables) {
  const auto kwargs = ReadTemplateKwargs(R"({"thinking": false})");
  ASSERT_TRUE(kwargs.ok()) << kwargs.status();
  EXPECT_FALSE(ReadTemplateKwargs("thinking=false").ok());
  const auto refused = [](const char* json) {
    return std::string(ReadTemplateKwargs(json).status().message());
  };
  EXPECT_THAT(refused("[1]"), HasSubstr("enable_thinking"));
  EXPECT_THAT(refused(R"({"messages": 1})"), HasSubstr("`messages`"));
  std::ofstream(options_.model + "/chat_template.jinja")
      << "{% for m in messages %}{{ m.content }}{% endfor %}"
         "{% if add_generation_prompt and thinking is not false %}~{% endif %}";
  EXPECT_FALSE(Run().ok()) << "the model has no token for ~";
  options_.chat_template_kwargs = *kwargs;
  EXPECT_TRUE(Run().ok()) << Run().status();
  options_.chat_template_kwargs = *ReadTemplateKwargs(R"({"thinkin": false})");
  EXPECT_THAT(std::string(Run().status().message()), HasSubstr("`thinkin` is nowhere in"));
}

// Mistral's kind of tokenizer: what streams is Decode of all tokens, and a saved model goes on
// alike.
TEST_F(GenerateCommandTest, ASentencePieceTokenizersTextStreams) {
  const std::string folder = folder_.path("mistral"), saved = folder_.path("saved");
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(std::string(std::getenv("BATON_SOURCE_DIR")) +
                                 "/workers/tokenizer/testdata/tokenizer_mistral.json",
                             folder + "/tokenizer.json");
  ModelConfig config;
  config.vocab_size = tokenizer::Tokenizer::Load(folder).value()->vocab_size();
  config.hidden_size = config.intermediate_size = config.head_dim = 8;
  config.num_hidden_layers = config.num_attention_heads = config.num_key_value_heads = 1;
  config.max_position_embeddings = 128;
  std::ofstream(folder + "/config.json") << config.ToJson();
  v1::ModelSpec spec;
  spec.set_path(folder);
  const auto source = policy::PolicySource::Open(spec, "").value();
  const auto model =
      engine::CausalLM::Create(source->config(), torch::kFloat32, torch::kCPU).value();
  model->InitializeRandom(5);
  engine::SaveOptions save;
  save.companions = source->companions();
  ASSERT_TRUE(engine::SaveModel(*model, saved, save).ok());

  options_.model = saved;
  options_.prompt = "the relay";
  options_.max_new_tokens = 60;
  const std::string streamed = Run().value();
  options_.prompt.clear();
  options_.prompts = folder_.path("prompts.jsonl");
  std::ofstream(options_.prompts) << R"({"prompt": "the relay"})"
                                  << "\n";
  options_.out = folder_.path("out.jsonl");
  ASSERT_TRUE(GenerateFile(options_, [](const BatchProgress&, int64_t) {}).ok());
  std::ifstream out(options_.out);
  std::string line;
  std::getline(out, line);
  EXPECT_EQ(Json::parse(line)["responses"][0].get<std::string>(), streamed);
  EXPECT_GT(streamed.size(), 60u);
}

// A prompt to a chat model is a message of its user, as it was trained on; with the option for it,
// a text goes as it is.
TEST_F(GenerateCommandTest, APromptIsAMessageOfTheUserWhereTheModelHasATemplate) {
  options_.temperature = 0;
  const auto answer_to = [&](const std::string& line) {
    GenerateOptions file = options_;
    file.prompts = folder_.path("prompts.jsonl");
    file.out = folder_.path("out.jsonl");
    std::ofstream(file.prompts) << line << "\n";
    EXPECT_TRUE(GenerateFile(file, [](const BatchProgress&, int64_t) {}).ok());
    std::ifstream out(file.out);
    std::string written;
    std::getline(out, written);
    return Json::parse(written)["responses"][0].get<std::string>();
  };
  const std::string text = R"({"prompt": "1+2="})";
  const std::string message = R"({"prompt": [{"role": "user", "content": "1+2="}]})";
  EXPECT_EQ(Run().value(), answer_to(text));  // without a template
  std::ofstream(options_.model + "/chat_template.jinja")
      << "{% for m in messages %}7{{ m.content }}8{% endfor %}9+";
  ASSERT_NE(answer_to(message), answer_to(text));
  EXPECT_EQ(Run().value(), answer_to(message));
  options_.raw = true;
  EXPECT_EQ(Run().value(), answer_to(text));
  options_.raw = false;
  options_.chat_template = "none";
  EXPECT_EQ(Run().value(), answer_to(text));
}

// The sign of the hidden state decides which of the two models ends at once.
TEST_F(GenerateCommandTest, AnEmptyResponseIsToldWithWhatEndedIt) {
  options_.temperature = 0;
  int empty = 0;
  for (const float sign : {1.f, -1.f}) {
    SaveModelThatEnds(sign);
    const std::string text = Run().value();
    if (!text.empty()) {
      EXPECT_EQ(note_, "");
      continue;
    }
    ++empty;
    EXPECT_THAT(note_, HasSubstr("no visible text: 1 token, the last is \"<eos>\""));
    EXPECT_THAT(note_, Not(HasSubstr("--raw")));
    options_.raw = true;
    EXPECT_EQ(Run().value(), "");
    EXPECT_THAT(note_, HasSubstr("without --raw the model's chat template wraps the prompt"));
    options_.raw = false;
  }
  EXPECT_EQ(empty, 1);
}

TEST_F(GenerateCommandTest, TokensAreALineEachWithTheirLogProbs) {
  const std::string text = Run().value();
  options_.tokens = true;
  std::istringstream lines(Run().value());
  std::string pieces, piece;
  int32_t id = 0;
  double log_prob = 0;
  while (lines >> id >> log_prob && std::getline(lines >> std::ws, piece)) {
    EXPECT_LE(log_prob, 0);
    EXPECT_GE(log_prob, -50);
    const std::string bytes = Json::parse(piece).get<std::string>();
    if (bytes.size() == 1) pieces += bytes;  // "<eos>" is no text
  }
  EXPECT_EQ(pieces, text);
  EXPECT_EQ(note_, "");
}

TEST_F(GenerateCommandTest, TheKeyOfThePromptsMayBeNamed) {
  options_.prompts = folder_.path("prompts.jsonl");
  options_.out = folder_.path("out.jsonl");
  std::ofstream(options_.prompts) << R"({"question": "1+2="})"
                                  << "\n";
  const auto generate = [&] {
    return GenerateFile(options_, [](const BatchProgress&, int64_t) {});
  };
  EXPECT_FALSE(generate().ok());
  options_.keys.prompt_key = "question";
  EXPECT_TRUE(generate().ok());
}

TEST_F(GenerateCommandTest, LinesKeepTheirNumbersAsWritten) {
  options_.prompts = folder_.path("prompts.jsonl");
  options_.out = folder_.path("out.jsonl");
  const std::string line = R"({"prompt":"1+2=","answer":1.10,"x":[1e3,18446744073709551616])";
  std::ofstream(options_.prompts) << line << "}\n";
  ASSERT_TRUE(GenerateFile(options_, [](const BatchProgress&, int64_t) {}).ok());
  EXPECT_THAT(folder_.Read("out.jsonl"), ::testing::StartsWith(line + R"(,"responses":[)"));
}

TEST_F(GenerateCommandTest, IsAFunctionOfTheSeed) {
  const std::string first = Run().value();
  EXPECT_FALSE(first.empty());
  EXPECT_LE(first.size(), 20u);
  EXPECT_EQ(Run().value(), first);
  options_.seed = 2;
  EXPECT_NE(Run().value(), first);
}

TEST_F(GenerateCommandTest, StopsWhereTheModelsPositionsEnd) {
  options_.max_new_tokens = 100000;
  EXPECT_LE(Run().value().size(), 60u);  // 64 positions, 4 of them the prompt's.
}

TEST_F(GenerateCommandTest, NamesWhatIsWrong) {
  options_.chat_template = "vicuna";
  EXPECT_THAT(std::string(Run().status().message()), HasSubstr("vicuna"));
  options_.chat_template = "none";
  options_.temperature = -1;
  EXPECT_THAT(std::string(Run().status().message()), HasSubstr("temperature"));
  options_.model = "/no/such/model";
  EXPECT_THAT(std::string(Run().status().message()), HasSubstr("/no/such/model"));
}

class GenerateFileTest : public GenerateCommandTest {
 protected:
  GenerateFileTest() {
    options_.prompts = folder_.path("prompts.jsonl");
    options_.out = folder_.path("out.jsonl");
  }
  void WritePrompts(const std::string& text) const {
    std::ofstream(options_.prompts, std::ios::binary) << text;
  }
  /// `count` prompts: 0+0=, 1+1=, ...
  void WritePrompts(int count) const {
    std::string text;
    for (int i = 0; i < count; ++i) absl::StrAppend(&text, "{\"prompt\": \"", i, "+", i, "=\"}\n");
    WritePrompts(text);
  }
  std::string Written() const {
    std::ifstream in(options_.out, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  absl::StatusOr<std::string> RunFile() {
    const absl::Status status =
        GenerateFile(options_, [this](const BatchProgress& done, int64_t total) {
          reported_ = done;
          total_ = total;
        });
    if (!status.ok()) return status;
    return Written();
  }
  std::vector<Json> RunLines() {
    std::istringstream text(RunFile().value());
    std::vector<Json> lines;
    for (std::string line; std::getline(text, line);) lines.push_back(Json::parse(line));
    return lines;
  }
  std::string ErrorOf() { return std::string(RunFile().status().message()); }

  BatchProgress reported_;
  int64_t total_ = 0;
};

TEST_F(GenerateFileTest, AddsTheResponsesToEachLineInOrder) {
  std::ofstream(options_.model + "/chat_template.jinja")
      << "{% for message in messages %}{{ message.content }}{% endfor %}";
  WritePrompts(
      "{\"id\": 7, \"prompt\": \"1+2=\", \"extra\": {\"b\": [1], \"a\": null}}\r\n\n"
      "{\"prompt\": [{\"role\": \"system\", \"content\": \"3+\"}, "
      "{\"role\": \"user\", \"content\": \"4=\"}], \"responses\": \"old\"}");
  options_.samples = 3;
  const std::vector<Json> lines = RunLines();
  ASSERT_THAT(lines, SizeIs(2));
  for (const Json& line : lines) {
    ASSERT_THAT(line["responses"], SizeIs(3));
    ASSERT_THAT(line["finish_reasons"], SizeIs(3));
    for (const auto& reason : line["finish_reasons"]) {
      EXPECT_THAT(reason.get<std::string>(), AnyOf("stop", "length"));
    }
  }
  Json first = lines[0];
  first.erase("responses");
  first.erase("finish_reasons");
  EXPECT_EQ(first.dump(), R"({"id":7,"prompt":"1+2=","extra":{"b":[1],"a":null}})");
  EXPECT_EQ(lines[1]["prompt"][1]["content"], "4=");
  EXPECT_EQ(reported_.prompts, 2);
  EXPECT_EQ(total_, 2);
  EXPECT_GE(reported_.tokens, 6);
  EXPECT_LE(reported_.tokens, 6 * options_.max_new_tokens);
}

TEST_F(GenerateFileTest, LinesHaveTheTokensAndTheirLogProbsIfAsked) {
  WritePrompts(2);
  options_.samples = 2;
  EXPECT_FALSE(RunLines()[0].contains("response_tokens"));
  options_.tokens = true;
  const auto source = policy::PolicySource::Open({}, options_.model).value();
  for (const Json& line : RunLines()) {
    ASSERT_THAT(line["response_tokens"], SizeIs(2));
    ASSERT_THAT(line["response_log_probs"], SizeIs(2));
    for (size_t i = 0; i < 2; ++i) {
      const auto tokens = line["response_tokens"][i].get<std::vector<int32_t>>();
      EXPECT_EQ(source->tokenizer().Decode(tokens), line["responses"][i].get<std::string>());
      ASSERT_EQ(line["response_log_probs"][i].size(), tokens.size());
      for (const auto& log_prob : line["response_log_probs"][i]) EXPECT_LE(log_prob, 0);
    }
  }
}

TEST_F(GenerateFileTest, SeveralSamplesOfAModelThatIsGreedyDiffer) {
  std::ofstream(options_.model + "/generation_config.json") << "{\"do_sample\": false}";
  options_.temperature.reset();
  WritePrompts("{\"prompt\": \"1+2=\"}\n{\"prompt\": \"1+2=\"}\n");
  std::vector<Json> lines = RunLines();
  EXPECT_EQ(lines[0]["responses"], lines[1]["responses"]);  // one sample is greedy
  options_.samples = 8;
  lines = RunLines();
  std::set<std::string> different;
  for (const auto& response : lines[0]["responses"]) different.insert(response.get<std::string>());
  EXPECT_GT(different.size(), 4u);
  options_.temperature = 0;  // what is asked for holds
  lines = RunLines();
  different.clear();
  for (const auto& response : lines[0]["responses"]) different.insert(response.get<std::string>());
  EXPECT_EQ(different.size(), 1u);
}

TEST_F(GenerateFileTest, TheFirstResponseOfAllIsThatToTheOnePrompt) {
  WritePrompts("{\"prompt\": \"1+2=\"}\n{\"prompt\": \"1+2=\"}\n");
  options_.samples = 8;
  const std::vector<Json> lines = RunLines();
  EXPECT_EQ(lines[0]["responses"][0], Run().value());
  std::set<std::string> different;
  for (const Json& line : lines) {
    for (const auto& response : line["responses"]) different.insert(response.get<std::string>());
  }
  EXPECT_GE(different.size(), 15u);  // samples differ, and so do lines with one prompt
}

TEST_F(GenerateFileTest, ReportsAFailedResponseAndWritesTheOthers) {
  v1::JobSpec spec = policy::TinySpec();
  spec.mutable_model()->mutable_init()->set_tie_word_embeddings(false);
  const auto source = policy::PolicySource::Open(spec.model(), "").value();
  const auto model = source->LoadModel(torch::kFloat32, torch::kCPU, 3).value();
  const int32_t bad = source->EncodePrompt(tokenizer::RenderedText("9"), 0).value().back();
  {
    const torch::NoGradGuard no_grad;
    for (auto& [name, weight] : model->parameters()) {
      // Behind this token the state is along the first axis, and its logits are infinite.
      torch::Tensor values = weight;
      if (name == "model.embed_tokens.weight") values[bad][0] = 1e6;
      if (name == "lm_head.weight") values.select(1, 0).fill_(1.2e38);
    }
  }
  engine::SaveOptions save;
  save.companions = source->companions();
  options_.model = folder_.path("bad");
  ASSERT_TRUE(engine::SaveModel(*model, options_.model, save).ok());
  options_.max_new_tokens = 1;
  options_.samples = 2;
  WritePrompts("{\"prompt\": \"1+2=\"}\n{\"prompt\": \"2+9\"}\n{\"prompt\": \"3+2=\"}\n");
  EXPECT_THAT(ErrorOf(), HasSubstr("2 responses ended with an error, the first at " +
                                   options_.prompts + ":2: response token 0"));
  std::istringstream text(Written());
  std::vector<Json> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(Json::parse(line));
  ASSERT_THAT(lines, SizeIs(3));
  EXPECT_THAT(lines[1]["finish_reasons"], ElementsAre("error", "error"));
  EXPECT_THAT(lines[0]["finish_reasons"], Each(AnyOf("stop", "length")));
  EXPECT_THAT(lines[2]["finish_reasons"], Each(AnyOf("stop", "length")));
}

TEST_F(GenerateFileTest, APromptOfManyIsAnsweredAsItIsAlone) {
  WritePrompts(40);
  options_.samples = 2;
  const std::vector<Json> many = RunLines();
  ASSERT_THAT(many, SizeIs(40));
  for (const int line : {0, 17, 39}) {
    WritePrompts(absl::StrCat(std::string(static_cast<size_t>(line), '\n'), "{\"prompt\": \"", line,
                              "+", line, "=\"}"));
    EXPECT_THAT(RunLines(), ElementsAre(many[static_cast<size_t>(line)])) << line;
  }
}

TEST_F(GenerateFileTest, TheBatchAndItsWindowChangeNothing) {
  WritePrompts(150);
  options_.samples = 2;
  const std::string together = RunFile().value();
  options_.max_num_seqs = 1;
  EXPECT_EQ(RunFile().value(), together);
  EXPECT_EQ(reported_.prompts, 150);
  options_.max_num_seqs = 3;
  options_.kv_cache_bytes = 1 << 16;
  EXPECT_EQ(RunFile().value(), together);
  options_.seed = 2;
  EXPECT_NE(RunFile().value(), together);
}

TEST_F(GenerateFileTest, HoldsNoMoreResponsesThanItMay) {
  // The first response has 63 tokens, the others one each: they wait for it.
  std::string text = "{\"prompt\": \"1\"}\n";
  for (int i = 0; i < 30; ++i) {
    absl::StrAppend(&text, "{\"prompt\": \"", std::string(63, '2'), "\"}\n");
  }
  WritePrompts(text);
  const auto source = policy::PolicySource::Open({}, options_.model).value();
  const auto model = source->LoadModel(torch::kFloat32, torch::kCPU, 0).value();
  const auto generator = engine::Generator::Create(model.get(), nullptr, {}).value();
  BatchOptions batch;
  batch.prompts = options_.prompts;
  batch.params.max_new_tokens = 100;  // and no token that ends a response
  batch.in_flight = 4;
  std::set<std::string> written;
  for (const int64_t held : {10, 1000}) {
    batch.held = held;
    std::string lines;
    int64_t most_held = 0, most_in_flight = 0;
    const absl::Status status = GenerateBatch(
        *source, generator.get(), batch,
        [&lines](absl::string_view line) {
          lines.append(line.data(), line.size());
          return absl::OkStatus();
        },
        [&](const BatchProgress& done) {
          const engine::GeneratorStats stats = generator->stats();
          most_held = std::max(most_held, done.held);
          most_in_flight = std::max(most_in_flight, stats.running + stats.waiting);
        });
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(most_held, held == 10 ? 10 : 31);
    EXPECT_GT(most_in_flight, 0);
    EXPECT_LE(most_in_flight, 4);
    written.insert(lines);
  }
  EXPECT_THAT(written, ElementsAre(testing::ContainsRegex("^(.*\n){31}$")));
}

TEST_F(GenerateFileTest, ResponsesEndWhereThePositionsDo) {
  options_.max_new_tokens = 1000;
  WritePrompts(absl::StrCat("{\"prompt\": \"", std::string(63, '1'), "\"}"));
  EXPECT_LE(RunLines()[0]["responses"][0].get<std::string>().size(), 1u);
  WritePrompts(absl::StrCat("{\"prompt\": \"1\"}\n\n{\"prompt\": \"", std::string(64, '1'), "\"}"));
  EXPECT_EQ(ErrorOf(), absl::StrCat(options_.prompts,
                                    ":3: the prompt has 64 tokens; the model has 64 positions, for "
                                    "prompt and response together: shorten it"));
}

TEST_F(GenerateFileTest, NamesBadLinesAndLeavesWhatIsThere) {
  std::ofstream(options_.out) << "old";
  WritePrompts("{\"prompt\": \"1\"}\n{\"prompt\": 1}\n\n{\"prompt\": \"one\"}\nnonsense");
  const std::string error = ErrorOf();
  EXPECT_THAT(error, HasSubstr(options_.prompts + ":2: `prompt` is number, not a string\n"));
  EXPECT_THAT(error, HasSubstr(options_.prompts + ":4: "));
  EXPECT_THAT(error, HasSubstr(options_.prompts + ":5: column 1: not valid JSON"));
  EXPECT_EQ(Written(), "old");

  WritePrompts(3);
  options_.kv_cache_bytes = 5000;  // one block, for a prompt that needs two with its response
  EXPECT_THAT(ErrorOf(), AllOf(HasSubstr(options_.prompts + ":1: "), HasSubstr("kv_cache_bytes")));
  EXPECT_EQ(Written(), "old");
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    files += entry.is_regular_file() ? 1 : 0;
  }
  EXPECT_EQ(files, 2u);  // prompts and out: nothing half written stays
}

TEST_F(GenerateFileTest, NamesFilesThatAreNone) {
  WritePrompts(" \n\n");
  EXPECT_THAT(ErrorOf(), HasSubstr(options_.prompts + ": holds no prompt"));
  WritePrompts(1);
  options_.out = folder_.path();
  EXPECT_THAT(ErrorOf(), HasSubstr(folder_.path() + " is not a file"));
  options_.out = folder_.path("no/such/folder/out.jsonl");
  EXPECT_THAT(ErrorOf(), HasSubstr("/no/such/folder/out.jsonl"));
  options_.prompts = "/no/such/prompts.jsonl";
  EXPECT_THAT(ErrorOf(), HasSubstr("/no/such/prompts.jsonl: cannot be opened"));
  options_.temperature = -1;
  EXPECT_THAT(ErrorOf(), HasSubstr("temperature: "));
}

}  // namespace
}  // namespace baton
