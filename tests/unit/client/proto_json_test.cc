#include "client/cli/proto_json.h"

#include <gtest/gtest.h>

#include "phitap/v1/model.pb.h"
#include "phitap/v1/trace.pb.h"

namespace phitap::cli {
namespace {

TEST(ToJson, WritesNumbersAsNumbersAndEnumsByName) {
  v1::TensorDescriptor tensor;
  tensor.set_label("x");
  tensor.set_dtype(v1::DATA_TYPE_BF16);
  tensor.add_shape(int64_t{1} << 40);
  tensor.set_size_bytes(7);
  EXPECT_EQ(ToJson(tensor).dump(),
            R"({"tensor":0,"label":"x","run":"","hook_point":"",)"
            R"("step":0,"dtype":"bf16","shape":[1099511627776],)"
            R"("dimension_names":[],"size_bytes":7,"part":""})");
}

TEST(ToJson, WritesDurationsAsSecondsAndLeavesOutWhatIsUnset) {
  v1::TraceSummary summary;
  summary.mutable_queue_time()->set_seconds(1);
  summary.mutable_queue_time()->set_nanos(500000000);
  const Json json = ToJson(summary);
  EXPECT_EQ(json["queue_time"], 1.5);
  EXPECT_FALSE(json.contains("compute_time"));
}

TEST(ToJson, TellsAnUnsetOptionalFieldFromAZero) {
  v1::ModelConfig config;
  EXPECT_FALSE(ToJson(config).contains("sliding_window"));
  config.set_sliding_window(0);
  EXPECT_EQ(ToJson(config)["sliding_window"], 0);
}

TEST(ToJson, KeepsTheNumberOfAnEnumValueItDoesNotKnow) {
  v1::TraceHeader header;
  header.set_numerics(static_cast<v1::Numerics>(77));
  EXPECT_EQ(ToJson(header)["numerics"], 77);
}

}  // namespace
}  // namespace phitap::cli
