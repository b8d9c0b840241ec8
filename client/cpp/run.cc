#include "client/cpp/run.h"

#include <string>
#include <utility>

namespace phitap::client {
namespace {

v1::Run Labelled(absl::string_view label) {
  v1::Run run;
  run.set_label(std::string(label));
  return run;
}

}  // namespace

v1::Run TextRun(absl::string_view text, absl::string_view label) {
  v1::Run run = Labelled(label);
  run.mutable_prompt()->set_text(std::string(text));
  return run;
}

v1::Run TokensRun(absl::Span<const int32_t> ids, absl::string_view label) {
  v1::Run run = Labelled(label);
  run.mutable_prompt()->mutable_tokens()->mutable_ids()->Add(ids.begin(),
                                                             ids.end());
  return run;
}

v1::Run ChatRun(const v1::Chat& chat, absl::string_view label) {
  v1::Run run = Labelled(label);
  *run.mutable_prompt()->mutable_chat() = chat;
  return run;
}

v1::Run SameRun(absl::string_view as, absl::string_view label) {
  v1::Run run = Labelled(label);
  run.mutable_prompt()->set_same_as(std::string(as));
  return run;
}

v1::Run Edited(v1::Run run, absl::Span<const Edit> edits) {
  for (const Edit& edit : edits) *run.add_interventions() = ToMessage(edit);
  return run;
}

v1::Generation ToMessage(const Generate& generate) {
  v1::Generation message;
  message.set_max_tokens(generate.max_tokens);
  message.set_temperature(generate.temperature);
  message.set_top_k(generate.top_k);
  if (generate.top_p) message.set_top_p(*generate.top_p);
  message.set_seed(generate.seed);
  message.mutable_stop_ids()->Add(generate.stop_ids.begin(),
                                  generate.stop_ids.end());
  message.set_ignore_stop_ids(generate.ignore_stop_ids);
  message.mutable_forced_ids()->Add(generate.forced_ids.begin(),
                                    generate.forced_ids.end());
  return message;
}

v1::Run Generating(v1::Run run, const Generate& generate) {
  *run.mutable_generation() = ToMessage(generate);
  return run;
}

}  // namespace phitap::client
