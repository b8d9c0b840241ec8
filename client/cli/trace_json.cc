#include "client/cli/trace_json.h"

#include "client/cli/proto_json.h"
#include "client/cli/tensor_stats.h"
#include "client/cpp/float_values.h"

namespace phitap::cli {
namespace {

bool IsInteger(DType dtype) {
  return dtype == DType::kI32 || dtype == DType::kI64 || dtype == DType::kBool;
}

// The values of dimension `axis` on, from element `*next` on. JSON itself
// writes what is not finite as null.
Json NestedValues(const HostTensor& tensor, size_t axis, int64_t* next) {
  if (axis == tensor.shape.size()) {
    const double value = client::ElementAt(tensor, (*next)++);
    if (IsInteger(tensor.dtype)) return static_cast<int64_t>(value);
    return value;
  }
  Json list = Json::array();
  for (int64_t i = 0; i < tensor.shape[axis]; ++i) {
    list.push_back(NestedValues(tensor, axis + 1, next));
  }
  return list;
}

Json StatsJson(const HostTensor& tensor) {
  const TensorStats stats = StatsOf(tensor);
  return {{"min", stats.low},
          {"max", stats.high},
          {"mean", stats.mean},
          {"norm", stats.norm},
          {"not_finite", stats.not_finite}};
}

Json GeneratedJson(const client::TracedRun& run) {
  Json tokens = Json::array();
  for (const client::GeneratedToken& token : run.generated) {
    tokens.push_back({{"id", token.id},
                      {"text", token.text},
                      {"log_probability", token.log_probability}});
  }
  return tokens;
}

Json TensorJson(const client::TracedTensor& tensor, const std::string& name,
                Values values) {
  Json json = {{"name", name}};
  json.update(ToJson(tensor.descriptor));
  json["stats"] = StatsJson(tensor.value);
  if (values == Values::kIncluded) {
    json["values"] = ValuesJson(tensor.value);
  }
  return json;
}

}  // namespace

Json ValuesJson(const HostTensor& tensor) {
  int64_t next = 0;
  return NestedValues(tensor, 0, &next);
}

Json TraceJson(const client::Trace& trace,
               const std::vector<std::string>& names, Values values) {
  Json runs = Json::array();
  for (const client::TracedRun& run : trace.runs) {
    runs.push_back({{"label", run.label},
                    {"ids", run.ids},
                    {"texts", run.texts},
                    {"generated", GeneratedJson(run)},
                    {"status", ToJson(run.status)}});
  }
  Json tensors = Json::array();
  for (size_t i = 0; i < trace.tensors.size(); ++i) {
    tensors.push_back(TensorJson(trace.tensors[i], names[i], values));
  }
  return {{"header", ToJson(trace.header)},
          {"runs", std::move(runs)},
          {"tensors", std::move(tensors)},
          {"summary", ToJson(trace.summary)}};
}

}  // namespace phitap::cli
