#include "server/rpc/model_messages.h"

#include <string>
#include <utility>

#include "server/plan/describe_model.h"
#include "server/spec/printout.h"

namespace phitap {

v1::ModelSummary SummarizeModel(const ServedModel& model) {
  v1::ModelSummary summary;
  summary.set_name(model.name);
  *summary.mutable_config() = DescribeConfig(model.spec, model.compute_dtype);
  summary.set_weights_digest(model.weights_digest);
  summary.set_weight_bytes(model.weight_bytes);
  summary.set_parameter_count(model.parameter_count);
  summary.set_has_tokenizer(model.tokenizer != nullptr);
  summary.set_has_chat_template(model.tokenizer != nullptr &&
                                model.tokenizer->chat_status().ok());
  return summary;
}

v1::Model DescribeModel(const ServedModel& model) {
  v1::Model described;
  *described.mutable_summary() = SummarizeModel(model);
  for (v1::HookPoint& point :
       DescribeHookPoints(model.spec, model.compute_dtype)) {
    *described.add_hook_points() = std::move(point);
  }
  described.set_printout(Printout(model.spec));
  described.set_batch_invariant(model.batch_invariant);
  described.set_row_rule(model.row_rule);
  described.set_numerics_fingerprint(model.numerics_fingerprint);
  for (const std::string& warning : model.warnings) {
    described.add_warnings(warning);
  }
  return described;
}

}  // namespace phitap
