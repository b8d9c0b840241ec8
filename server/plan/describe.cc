#include "server/plan/describe.h"

#include "server/plan/wire_type.h"
#include "server/spec/hook_point.h"

namespace phitap {

v1::TensorDescriptor DescribeTensor(const TracePlan& plan, int tensor) {
  const PlannedTensor& planned = plan.tensors[tensor];
  v1::TensorDescriptor descriptor;
  descriptor.set_tensor(tensor);
  descriptor.set_label(planned.label);
  if (planned.run >= 0) descriptor.set_run(plan.runs[planned.run].label);
  if (planned.has_point) descriptor.set_hook_point(FullName(planned.point));
  descriptor.set_step(planned.step);
  descriptor.set_part(planned.part);
  descriptor.set_dtype(WireType(planned.dtype));
  descriptor.set_size_bytes(planned.size_bytes);
  descriptor.mutable_shape()->Add(planned.shape.begin(), planned.shape.end());
  for (const std::string& name : planned.dimension_names) {
    descriptor.add_dimension_names(name);
  }
  return descriptor;
}

v1::RunTokens DescribeTokens(const TracePlan& plan, int run) {
  const PlannedRun& planned = plan.runs[run];
  v1::RunTokens tokens;
  tokens.set_run(planned.label);
  tokens.mutable_ids()->Add(planned.ids.begin(), planned.ids.end());
  return tokens;
}

v1::PlanTraceResponse DescribePlan(const TracePlan& plan) {
  v1::PlanTraceResponse response;
  int64_t size_bytes = 0;
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    if (!plan.tensors[i].kept_as.empty()) continue;
    *response.add_tensors() = DescribeTensor(plan, static_cast<int>(i));
    size_bytes += plan.tensors[i].size_bytes;
  }
  for (size_t i = 0; i < plan.runs.size(); ++i) {
    if (plan.runs[i].sweep >= 0) continue;
    *response.add_runs() = DescribeTokens(plan, static_cast<int>(i));
  }
  response.set_size_bytes(size_bytes);
  response.set_token_layers(plan.token_layers);
  response.set_token_layers_full_depth(plan.token_layers_full_depth);
  response.set_numerics(WireNumerics(plan.numerics));
  response.set_attention(WireAttention(plan.attention));
  return response;
}

}  // namespace phitap
