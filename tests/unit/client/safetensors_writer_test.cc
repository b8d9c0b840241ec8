#include "client/cpp/safetensors_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "nlohmann/json.hpp"
#include "tests/support/status_matchers.h"
#include "tests/unit/client/small_streams.h"

namespace phitap::client {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

class SafetensorsFile : public testing::Test {
 protected:
  SafetensorsFile() {
    std::string name = testing::TempDir() + "/safetensors.XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~SafetensorsFile() override { std::filesystem::remove_all(folder_); }

  std::string path() const { return folder_ + "/trace.safetensors"; }

  std::string Bytes() const {
    std::ifstream file(path(), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

  json Header() const {
    const std::string bytes = Bytes();
    return json::parse(bytes.substr(8, HeaderBytes()));
  }

  uint64_t HeaderBytes() const {
    const std::string bytes = Bytes();
    uint64_t size = 0;
    std::memcpy(&size, bytes.data(), sizeof(size));
    return size;
  }

  std::string folder_;
};

TracedTensor TensorOf(const std::string& label, const std::string& hook_point,
                      const std::string& run, const std::string& part) {
  const std::string bytes = SmallBytes();
  TracedTensor tensor = {
      .value = CopyOf(
          DType::kF32, {3, 2},
          {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()})};
  tensor.descriptor.set_label(label);
  tensor.descriptor.set_hook_point(hook_point);
  tensor.descriptor.set_run(run);
  tensor.descriptor.set_part(part);
  return tensor;
}

TEST_F(SafetensorsFile, HoldsEveryTensorWhereItsHeaderSays) {
  const std::string bytes = SmallBytes();
  const HostTensor half = CopyOf(
      DType::kBF16, {2}, {reinterpret_cast<const std::byte*>(bytes.data()), 4});
  const HostTensor whole = TensorOf("", "", "", "").value;
  ASSERT_THAT(WriteSafetensors(path(), {{"half", half}, {"whole", whole}},
                               {{"model", "demo"}}),
              IsOk());
  const json header = Header();
  EXPECT_EQ(header["__metadata__"]["model"], "demo");
  EXPECT_EQ(header["half"], json::parse(R"({"dtype": "BF16", "shape": [2],
                                           "data_offsets": [0, 4]})"));
  EXPECT_EQ(header["whole"], json::parse(R"({"dtype": "F32", "shape": [3, 2],
                                            "data_offsets": [4, 28]})"));
  EXPECT_EQ(HeaderBytes() % 8, 0);
  EXPECT_EQ(Bytes().substr(8 + HeaderBytes()), bytes.substr(0, 4) + bytes);
}

TEST_F(SafetensorsFile, IsReplacedAsAWholeAndLeavesNothingBeside) {
  std::ofstream(path()) << "old";
  ASSERT_THAT(WriteSafetensors(path(), {}, {{"a", "b"}}), IsOk());
  EXPECT_NE(Bytes(), "old");
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    (void)entry;
    ++files;
  }
  EXPECT_EQ(files, 1);
}

TEST_F(SafetensorsFile, LeavesNothingBehindWhereItCannotTakeItsPlace) {
  const std::string taken = folder_ + "/taken";
  std::filesystem::create_directories(taken + "/inside");
  EXPECT_THAT(WriteSafetensors(taken, {}, {}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("cannot write " + taken)));
  std::filesystem::remove_all(taken);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(SafetensorsFile, NamesAPlaceWhereItCannotBeWritten) {
  EXPECT_THAT(WriteSafetensors(folder_ + "/missing/x", {}, {}),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("cannot write " + folder_ + "/missing/x")));
}

TEST_F(SafetensorsFile, TellsWhatWasTraced) {
  Trace trace;
  trace.header.set_model("demo");
  trace.header.set_weights_digest("d16e57");
  trace.runs = {{.label = "0", .ids = {7, 8}, .texts = {"When", "\xff"}}};
  trace.runs[0].generated = {{.id = 9}};
  trace.tensors = {TensorOf("logits", "logits", "0", "")};
  ASSERT_THAT(WriteTrace(path(), trace), IsOk());
  const json metadata = Header()["__metadata__"];
  EXPECT_EQ(metadata["weights_digest"], "d16e57");
  const json runs = json::parse(metadata["runs"].get<std::string>());
  EXPECT_EQ(runs[0]["ids"], json::parse("[7, 8]"));
  EXPECT_EQ(runs[0]["texts"][0], "When");
  EXPECT_EQ(runs[0]["generated_ids"], json::parse("[9]"));
  EXPECT_TRUE(Header().contains("logits"));
}

TEST(TensorNames, TellStepsAndNameNoRunWhereThereIsNone) {
  Trace trace;
  trace.runs.resize(2);
  TracedTensor step = TensorOf("logits", "logits", "a", "");
  step.descriptor.set_step(4);
  trace.tensors = {TensorOf("logits", "logits", "a", ""), step,
                   TensorOf("sweep", "", "", "kl"),
                   TensorOf("node", "", "", "")};
  const absl::StatusOr<std::vector<std::string>> names = TensorNames(trace);
  ASSERT_THAT(names, IsOk());
  EXPECT_THAT(*names, testing::ElementsAre("a/logits", "a/logits/step-4",
                                           "sweep/kl", "node"));
}

TEST(TensorNames, AreHookPointsWhereThereIsOneRun) {
  Trace trace;
  trace.runs.resize(1);
  trace.tensors = {TensorOf("layers.0.x", "layers.0.x", "0", ""),
                   TensorOf("end", "layers.1.x", "0", ""),
                   TensorOf("lens", "layers.0.y", "0", "indices"),
                   TensorOf("lens", "layers.1.y", "0", "indices")};
  const absl::StatusOr<std::vector<std::string>> names = TensorNames(trace);
  ASSERT_THAT(names, IsOk());
  EXPECT_THAT(*names,
              ElementsAre("layers.0.x", "end", "lens/layers.0.y/indices",
                          "lens/layers.1.y/indices"));
}

TEST(TensorNames, BeginWithTheRunWhereThereAreSeveral) {
  Trace trace;
  trace.runs.resize(2);
  trace.tensors = {TensorOf("logits", "logits", "a", ""),
                   TensorOf("logits", "logits", "b", "")};
  const absl::StatusOr<std::vector<std::string>> names = TensorNames(trace);
  ASSERT_THAT(names, IsOk());
  EXPECT_THAT(*names, ElementsAre("a/logits", "b/logits"));
}

TEST(TensorNames, RefusesTwoTensorsOfOneName) {
  Trace trace;
  trace.runs.resize(1);
  trace.tensors = {TensorOf("a", "logits", "0", ""),
                   TensorOf("a", "logits", "0", "")};
  EXPECT_THAT(TensorNames(trace),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("`a`")));
}

}  // namespace
}  // namespace phitap::client
