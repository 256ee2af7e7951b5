// Compares the descriptors of baton.v1 and baton.store.v1 with golden.txt: a message, field,
// enum value or method that was removed, renumbered or retyped breaks programs that are already
// out there, or rows that are already on disk.
#include <cstdlib>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "baton/store/v1/rows.pb.h"
#include "baton/v1/access_service.pb.h"
#include "baton/v1/cluster_service.pb.h"
#include "baton/v1/error.pb.h"
#include "baton/v1/experience.pb.h"
#include "baton/v1/experience_service.pb.h"
#include "baton/v1/job_service.pb.h"
#include "baton/v1/job_spec.pb.h"
#include "baton/v1/relay_service.pb.h"
#include "baton/v1/replay_service.pb.h"
#include "baton/v1/setting.pb.h"
#include "baton/v1/worker_service.pb.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

namespace pb = google::protobuf;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// One line for each thing that others rely on, sorted. A line is "WHAT: HOW": `WHAT` names the
/// thing for ever, `HOW` may never change.
using Lines = std::set<std::string>;

std::string TypeOf(const pb::FieldDescriptor& field) {
  if (field.is_map()) {
    const pb::Descriptor& entry = *field.message_type();
    return absl::StrCat("map<", TypeOf(*entry.map_key()), ", ", TypeOf(*entry.map_value()), ">");
  }
  std::string type(field.type_name());
  if (field.message_type() != nullptr) type = field.message_type()->full_name();
  if (field.enum_type() != nullptr) type = field.enum_type()->full_name();
  if (field.is_repeated()) return absl::StrCat("repeated ", type);
  if (field.real_containing_oneof() != nullptr) {
    return absl::StrCat(type, " in oneof ", field.real_containing_oneof()->name());
  }
  return field.has_presence() && field.message_type() == nullptr ? absl::StrCat("optional ", type)
                                                                 : type;
}

void Describe(const pb::EnumDescriptor& type, Lines* lines) {
  for (int i = 0; i < type.value_count(); ++i) {
    lines->insert(absl::StrCat("enum ", type.full_name(), ".", type.value(i)->name(), ": ",
                               type.value(i)->number()));
  }
}

void Describe(const pb::Descriptor& type, Lines* lines) {
  if (type.options().map_entry()) return;
  lines->insert(absl::StrCat("message ", type.full_name(), ": exists"));
  for (int i = 0; i < type.field_count(); ++i) {
    const pb::FieldDescriptor& field = *type.field(i);
    lines->insert(
        absl::StrCat("field ", field.full_name(), ": ", field.number(), " ", TypeOf(field)));
  }
  // Reserved numbers and names of removed fields, which no other field may take.
  for (int i = 0; i < type.reserved_range_count(); ++i) {
    const auto& range = *type.reserved_range(i);
    for (int number = range.start; number < range.end; ++number) {
      lines->insert(absl::StrCat("reserved ", type.full_name(), ".", number, ": number"));
    }
  }
  for (int i = 0; i < type.reserved_name_count(); ++i) {
    lines->insert(
        absl::StrCat("reserved ", type.full_name(), ".", type.reserved_name(i), ": name"));
  }
  for (int i = 0; i < type.nested_type_count(); ++i) Describe(*type.nested_type(i), lines);
  for (int i = 0; i < type.enum_type_count(); ++i) Describe(*type.enum_type(i), lines);
}

void Describe(const pb::FileDescriptor& file, Lines* lines) {
  for (int i = 0; i < file.message_type_count(); ++i) Describe(*file.message_type(i), lines);
  for (int i = 0; i < file.enum_type_count(); ++i) Describe(*file.enum_type(i), lines);
  for (int i = 0; i < file.extension_count(); ++i) {
    const pb::FieldDescriptor& field = *file.extension(i);
    lines->insert(absl::StrCat("extension ", field.full_name(), ": ", field.number(), " of ",
                               field.containing_type()->full_name(), ", ", TypeOf(field)));
  }
  for (int i = 0; i < file.service_count(); ++i) {
    const pb::ServiceDescriptor& service = *file.service(i);
    for (int j = 0; j < service.method_count(); ++j) {
      const pb::MethodDescriptor& method = *service.method(j);
      lines->insert(absl::StrCat(
          "method ", method.full_name(), ": ", method.client_streaming() ? "stream " : "",
          method.input_type()->full_name(), " -> ", method.server_streaming() ? "stream " : "",
          method.output_type()->full_name()));
    }
  }
}

Lines Current() {
  Lines lines;
  for (const pb::Descriptor* type :
       {v1::Worker::descriptor(), v1::ErrorInfo::descriptor(), v1::Trajectory::descriptor(),
        v1::FetchBatchRequest::descriptor(), v1::Job::descriptor(), v1::JobSpec::descriptor(),
        v1::SegmentInfo::descriptor(), v1::Setting::descriptor(), v1::Task::descriptor(),
        v1::Replay::descriptor(), v1::Token::descriptor(), store::v1::JobRow::descriptor()}) {
    Describe(*type->file(), &lines);
  }
  return lines;
}

/// The lines of `golden` that do not hold any more, and those of `now` that are not recorded yet.
std::vector<std::string> Differences(const Lines& golden, const Lines& now) {
  std::vector<std::string> found;
  for (const std::string& line : golden) {
    if (now.count(line) != 0) continue;
    const std::string what = line.substr(0, line.find(": ") + 2);
    const auto same = now.lower_bound(what);
    const bool changed = same != now.end() && absl::StartsWith(*same, what);
    found.push_back(changed ? absl::StrCat("CHANGED ", line, "  ->  ", *same)
                            : absl::StrCat("REMOVED ", line));
  }
  std::set<std::string> names;
  for (const std::string& line : golden) names.insert(line.substr(0, line.find(": ")));
  for (const std::string& line : now) {
    if (names.count(line.substr(0, line.find(": "))) == 0) {
      found.push_back(absl::StrCat("NEW     ", line));
    }
  }
  return found;
}

std::string GoldenPath() {
  const char* source = std::getenv("BATON_SOURCE_DIR");
  return absl::StrCat(source == nullptr ? "." : source, "/tests/proto/golden.txt");
}

TEST(ProtoGoldenTest, TheProtoMatchesItsGoldenFile) {
  const Lines now = Current();
  if (std::getenv("BATON_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(GoldenPath()) << absl::StrJoin(now, "\n") << "\n";
  }
  std::ifstream file(GoldenPath());
  ASSERT_TRUE(file.good()) << GoldenPath() << " cannot be read; run in the repository's root";
  std::stringstream text;
  text << file.rdbuf();
  const Lines golden = absl::StrSplit(text.str(), '\n', absl::SkipEmpty());
  EXPECT_THAT(Differences(golden, now), IsEmpty())
      << "CHANGED or REMOVED breaks programs and stored rows: take it back, and reserve the "
         "numbers of what must go.\nNEW is fine once it is recorded:\n"
         "  BATON_UPDATE_GOLDEN=1 BATON_SOURCE_DIR=$PWD BUILD_DIR/tests/proto_golden_test\n"
         "and commit tests/proto/golden.txt with the proto.";
}

TEST(ProtoGoldenTest, EveryFileIsDescribed) {
  const Lines now = Current();
  EXPECT_EQ(now.count("field baton.v1.Job.step: 11 int64"), 1u);
  EXPECT_EQ(now.count("field baton.v1.Job.metrics: 15 map<string, double>"), 1u);
  EXPECT_EQ(now.count("enum baton.v1.Job.State.STATE_FAILED: 9"), 1u);
  EXPECT_EQ(now.count("field baton.v1.Task.update: 15 baton.v1.Update in oneof args"), 1u);
  EXPECT_EQ(now.count("field baton.v1.AcquireRequest.policy_version: 2 optional uint64"), 1u);
  EXPECT_EQ(now.count("method baton.v1.WorkerService.Attach: stream baton.v1.WorkerMessage -> "
                      "stream baton.v1.ControllerMessage"),
            1u);
  EXPECT_EQ(now.count("message baton.store.v1.JobRow: exists"), 1u);
}

// The comparison itself, on a schema of its own.
Lines LinesOf(const std::function<void(pb::DescriptorProto*)>& change) {
  pb::FileDescriptorProto file;
  file.set_name("t.proto");
  file.set_package("t");
  file.set_syntax("proto3");
  pb::DescriptorProto* message = file.add_message_type();
  message->set_name("M");
  pb::FieldDescriptorProto* field = message->add_field();
  field->set_name("a");
  field->set_number(1);
  field->set_type(pb::FieldDescriptorProto::TYPE_INT32);
  field->set_label(pb::FieldDescriptorProto::LABEL_OPTIONAL);
  change(message);
  pb::DescriptorPool pool;
  Lines lines;
  Describe(*pool.BuildFile(file), &lines);
  return lines;
}

TEST(ProtoGoldenTest, TheComparisonSeesEveryKindOfChange) {
  const Lines golden = LinesOf([](auto*) {});
  EXPECT_THAT(golden, ElementsAre("field t.M.a: 1 int32", "message t.M: exists"));
  EXPECT_THAT(Differences(golden, golden), IsEmpty());
  EXPECT_THAT(Differences(golden, LinesOf([](auto* m) { m->mutable_field(0)->set_number(2); })),
              ElementsAre("CHANGED field t.M.a: 1 int32  ->  field t.M.a: 2 int32"));
  EXPECT_THAT(Differences(golden, LinesOf([](auto* m) {
                            m->mutable_field(0)->set_type(pb::FieldDescriptorProto::TYPE_INT64);
                          })),
              ElementsAre("CHANGED field t.M.a: 1 int32  ->  field t.M.a: 1 int64"));
  EXPECT_THAT(
      Differences(golden, LinesOf([](auto* m) {
                    m->mutable_field(0)->set_label(pb::FieldDescriptorProto::LABEL_REPEATED);
                  })),
      ElementsAre("CHANGED field t.M.a: 1 int32  ->  field t.M.a: 1 repeated int32"));
  EXPECT_THAT(Differences(golden, LinesOf([](auto* m) { m->clear_field(); })),
              ElementsAre("REMOVED field t.M.a: 1 int32"));
  const Lines reserved = LinesOf([](auto* m) {
    m->clear_field();
    m->add_reserved_name("a");
    auto* range = m->add_reserved_range();
    range->set_start(1);
    range->set_end(2);
  });
  EXPECT_THAT(Differences(reserved, LinesOf([](auto* m) { m->clear_field(); })),
              ElementsAre("REMOVED reserved t.M.1: number", "REMOVED reserved t.M.a: name"));
  EXPECT_THAT(Differences(golden, LinesOf([](auto* m) {
                            *m->add_field() = m->field(0);
                            m->mutable_field(1)->set_name("b");
                            m->mutable_field(1)->set_number(2);
                          })),
              ElementsAre("NEW     field t.M.b: 2 int32"));
}

}  // namespace
}  // namespace baton
