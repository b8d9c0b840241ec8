#include "client/cpp/safetensors_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "client/cpp/float_values.h"
#include "client/cpp/safetensors_writer.h"
#include "tests/support/status_matchers.h"

namespace phitap::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ReadSafetensorTest : public testing::Test {
 protected:
  void TearDown() override { unlink(path_.c_str()); }

  // A file with this header and this many bytes of data.
  void Write(const std::string& header, size_t data_bytes) {
    const uint64_t size = header.size();
    std::ofstream file(path_, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&size), sizeof(size));
    file << header << std::string(data_bytes, '\0');
  }

  void WriteTwo() {
    const std::vector<float> values = {1, 2, 3};
    const absl::Span<const std::byte> bytes(
        reinterpret_cast<const std::byte*>(values.data()), 12);
    ASSERT_THAT(WriteSafetensors(
                    path_,
                    {{.name = "a", .value = CopyOf(DType::kF32, {3}, bytes)},
                     {.name = "b",
                      .value = CopyOf(DType::kF32, {1, 2}, bytes.subspan(4))}},
                    {{"format", "test"}}),
                IsOk());
  }

  const std::string path_ =
      testing::TempDir() + "/safetensors_reader." + std::to_string(getpid());
};

TEST_F(ReadSafetensorTest, FindsATensorByName) {
  WriteTwo();
  const absl::StatusOr<HostTensor> tensor = ReadSafetensor(path_, "b");
  ASSERT_THAT(tensor, IsOk());
  EXPECT_THAT(tensor->shape, ElementsAre(1, 2));
  EXPECT_THAT(ElementsAt(*tensor, 0, 2), ElementsAre(2, 3));
}

TEST_F(ReadSafetensorTest, TakesTheOnlyTensorUnasked) {
  Write(R"({"v": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}})", 4);
  const absl::StatusOr<HostTensor> tensor = ReadSafetensor(path_, "");
  ASSERT_THAT(tensor, IsOk());
  EXPECT_EQ(tensor->dtype, DType::kBF16);
}

TEST_F(ReadSafetensorTest, NamesWhatThereIs) {
  WriteTwo();
  EXPECT_THAT(*SafetensorNames(path_), ElementsAre("a", "b"));
  EXPECT_THAT(ReadSafetensor(path_, "c"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("it has a, b")));
  EXPECT_THAT(ReadSafetensor(path_, ""),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("2 tensors: name one of them, a, b")));
  EXPECT_THAT(ReadSafetensor("/nowhere", ""),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nowhere")));
}

TEST_F(ReadSafetensorTest, BelievesNoHeader) {
  const auto entry = [](const std::string& rest) {
    return R"({"v": {"dtype": "F32", )" + rest + "}}";
  };
  for (const std::string& header : {
           std::string("[]"),
           entry(R"("shape": [2], "data_offsets": [0, 12])"),
           entry(R"("shape": [2], "data_offsets": [8, 16])"),
           entry(R"("shape": [2], "data_offsets": [8, 0])"),
           entry(R"("shape": [-2], "data_offsets": [0, 8])"),
           entry(
               R"("shape": [4611686018427387904, 4], "data_offsets": [0, 0])"),
           entry(R"("shape": [2])"),
           entry(R"("shape": "2", "data_offsets": [0, 8])"),
           std::string(R"({"v": 3})"),
       }) {
    Write(header, 8);
    EXPECT_THAT(ReadSafetensor(path_, ""),
                StatusIs(absl::StatusCode::kInvalidArgument, testing::_))
        << header;
  }
  std::ofstream(path_, std::ios::binary) << "1234567";
  EXPECT_THAT(
      ReadSafetensor(path_, ""),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("too short")));
  std::ofstream(path_, std::ios::binary) << "\xff\xff\xff\xff\xff\xff\xff\xff{";
  EXPECT_THAT(ReadSafetensor(path_, ""),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("longer than the file")));
}

}  // namespace
}  // namespace phitap::client
