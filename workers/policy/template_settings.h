// What a model's spec gives to its chat template.
#ifndef BATON_WORKERS_POLICY_TEMPLATE_SETTINGS_H_
#define BATON_WORKERS_POLICY_TEMPLATE_SETTINGS_H_

#include <string>

#include "baton/v1/job_spec.pb.h"
#include "google/protobuf/struct.pb.h"
#include "workers/tokenizer/chat/model_template.h"

namespace baton::policy {

/// chat_template_kwargs and chat_template_date. A Struct has neither integers nor an order: a
/// number without a fraction is an integer, as YAML and JSON write one, and keys are sorted.
tokenizer::TemplateSettings TemplateSettingsOf(const v1::ModelSpec& spec);

/// Today (UTC), as chat_template_date has a day.
std::string TemplateDateOfToday();

}  // namespace baton::policy

#endif  // BATON_WORKERS_POLICY_TEMPLATE_SETTINGS_H_
