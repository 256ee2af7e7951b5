#include "sdk/common/schema_spec/spec_fields.h"

#include "baton/v1/job_spec.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/schema/estimator_options.h"
#include "sdk/common/schema/loss_options.h"
#include "sdk/common/schema/optimizer_options.h"

namespace baton {
namespace {

using google::protobuf::FieldDescriptor;
using ::testing::HasSubstr;

template <class Spec>
void ExpectFieldsOfItsTypes(const std::vector<OptionField<Spec>>& table,
                            const google::protobuf::Message& message) {
  for (const auto& row : table) {
    const auto* field = message.GetDescriptor()->FindFieldByName(std::string(row.name));
    if (field == nullptr) continue;
    EXPECT_TRUE(HasOptionField(message, row.name)) << row.name;
    EXPECT_EQ(std::holds_alternative<bool>(DefaultOf(row)),
              field->cpp_type() == FieldDescriptor::CPPTYPE_BOOL)
        << row.name;
    EXPECT_EQ(std::holds_alternative<std::string>(DefaultOf(row)),
              field->cpp_type() == FieldDescriptor::CPPTYPE_STRING)
        << row.name;
  }
}

TEST(SpecFieldsTest, FieldsOfASpecHoldWhatTheTablesSay) {
  ExpectFieldsOfItsTypes(LossOptionTable(), v1::AlgorithmSpec());
  ExpectFieldsOfItsTypes(EstimatorOptionTable(), v1::AlgorithmSpec());
  ExpectFieldsOfItsTypes(OptimizerOptionTable(), v1::ActorSpec());
  for (const auto& row : OptimizerOptionTable()) {
    EXPECT_TRUE(HasOptionField(v1::ActorSpec(), row.name)) << row.name;
  }
}

TEST(SpecFieldsTest, ReadsWhatIsThereAndLeavesTheRest) {
  v1::ActorSpec actor;
  actor.set_lr(0.5);
  actor.set_lr_schedule("linear");
  actor.set_lr_warmup_steps(7);
  OptimizerSpec spec;
  ReadFields(OptimizerOptionTable(), actor, &spec);
  EXPECT_EQ(spec.lr, 0.5);
  EXPECT_EQ(spec.lr_schedule, "linear");
  EXPECT_EQ(spec.lr_warmup_steps, 7);
  EXPECT_EQ(spec.beta2, 0.999);
  EXPECT_EQ(GetField(actor, "beta2"), std::nullopt);
  EXPECT_EQ(GetField(actor, "parallel"), std::nullopt) << "a section is no option";
  EXPECT_FALSE(HasOptionField(actor, "parallel"));
  EXPECT_FALSE(HasOptionField(actor, "momentum"));
}

TEST(SpecFieldsTest, WritesWhatItReads) {
  v1::AlgorithmSpec algorithm;
  SetField("clip_ratio_low", 0.25, &algorithm);
  SetField("use_kl_loss", true, &algorithm);
  SetField("kl_loss_type", std::string("k2"), &algorithm);
  SetField("critic_warmup", 3.0, &algorithm);
  EXPECT_EQ(algorithm.clip_ratio_low(), 0.25);
  EXPECT_TRUE(algorithm.use_kl_loss());
  EXPECT_EQ(algorithm.kl_loss_type(), "k2");
  EXPECT_EQ(algorithm.critic_warmup(), 3);
  EXPECT_EQ(GetField(algorithm, "critic_warmup"), OptionValue(3.0));
}

TEST(SpecFieldsTest, OptionsOfAGraphComeAndGo) {
  google::protobuf::Struct graph;
  SetOption("a", 1.5, &graph);
  SetOption("b", true, &graph);
  SetOption("c", std::string("x"), &graph);
  const Options expected = {{"a", 1.5}, {"b", true}, {"c", std::string("x")}};
  EXPECT_EQ(ToOptions(graph).value(), expected);
  (*graph.mutable_fields())["d"].mutable_list_value();
  EXPECT_THAT(std::string(ToOptions(graph).status().message()), HasSubstr("d: is neither"));
}

}  // namespace
}  // namespace baton
