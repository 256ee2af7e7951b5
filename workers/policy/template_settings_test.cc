#include "workers/policy/template_settings.h"

#include "gtest/gtest.h"

namespace baton::policy {
namespace {

// A Struct has doubles alone: {{ budget }} must not become 1024.0.
TEST(TemplateSettings, NumbersAreWrittenAsInTheSpec) {
  v1::ModelSpec spec;
  EXPECT_EQ(TemplateSettingsOf(spec).kwargs_json, "");
  spec.set_chat_template_date("2026-02-03");
  auto& fields = *spec.mutable_chat_template_kwargs()->mutable_fields();
  fields["budget"].set_number_value(1024);
  fields["a"].set_number_value(-0.5);
  fields["large"].set_number_value(1e300);
  fields["off"].set_bool_value(false);
  fields["none"].set_null_value(google::protobuf::NULL_VALUE);
  auto& list = *fields["list"].mutable_list_value();
  list.add_values()->set_string_value("x");
  (*list.add_values()->mutable_struct_value()->mutable_fields())["n"].set_number_value(2);
  const tokenizer::TemplateSettings settings = TemplateSettingsOf(spec);
  EXPECT_EQ(
      settings.kwargs_json,
      R"({"a":-0.5,"budget":1024,"large":1e+300,"list":["x",{"n":2}],"none":null,"off":false})");
  EXPECT_EQ(settings.date, "2026-02-03");
}

}  // namespace
}  // namespace baton::policy
