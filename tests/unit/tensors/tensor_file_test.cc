#include "server/tensors/tensor_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/checkpoint_files.h"
#include "tests/support/status_matchers.h"

namespace phitap {
namespace {

using ::testing::HasSubstr;

HostTensor Counting(DType dtype, std::vector<int64_t> shape) {
  std::vector<std::byte> bytes(ElementCount(shape) * SizeInBytes(dtype));
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(i * 7);
  }
  return CopyOf(dtype, std::move(shape), bytes);
}

std::string ReadBytes(const std::string& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

class TensorFileTest : public ::testing::Test {
 protected:
  std::string Path() const { return folder_.File("a.safetensors"); }

  NamedTensor tensor_ = {
      .name = "means/layer_2",
      .value = Counting(DType::kBF16, {3, 5}),
      .create_time = absl::UnixEpoch() + absl::Milliseconds(1700000000123)};
  TempFolder folder_;
};

TEST_F(TensorFileTest, ComesBackAsItWas) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kI64,
                      DType::kI32, DType::kBool}) {
    tensor_.value = Counting(dtype, {2, 1, 3});
    ASSERT_THAT(WriteTensorFile(Path(), tensor_), IsOk());
    const absl::StatusOr<NamedTensor> read = ReadTensorFile(Path());
    ASSERT_THAT(read, IsOk());
    EXPECT_EQ(read->name, tensor_.name);
    EXPECT_EQ(read->create_time, tensor_.create_time);
    EXPECT_TRUE(read->persistent);
    EXPECT_EQ(read->value.dtype, dtype);
    EXPECT_EQ(read->value.shape, tensor_.value.shape);
    EXPECT_EQ(read->value.bytes, tensor_.value.bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(read->value.bytes.data()) % 64, 0u);
  }
}

TEST_F(TensorFileTest, KeepsAScalar) {
  tensor_.value = Counting(DType::kF32, {});
  ASSERT_THAT(WriteTensorFile(Path(), tensor_), IsOk());
  const absl::StatusOr<NamedTensor> read = ReadTensorFile(Path());
  ASSERT_THAT(read, IsOk());
  EXPECT_TRUE(read->value.shape.empty());
  EXPECT_EQ(read->value.bytes.size(), 4u);
}

TEST_F(TensorFileTest, OutlivesTheFileThatItWasReadFrom) {
  ASSERT_THAT(WriteTensorFile(Path(), tensor_), IsOk());
  const absl::StatusOr<NamedTensor> read = ReadTensorFile(Path());
  ASSERT_THAT(read, IsOk());
  std::filesystem::remove(Path());
  EXPECT_EQ(read->value.bytes, tensor_.value.bytes);
}

TEST_F(TensorFileTest, SaysWhatTheSystemSaysWhereItCannotWrite) {
  const absl::Status status =
      WriteTensorFile(folder_.File("no/such/folder"), tensor_);
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no/such")));
}

struct BrokenFile {
  std::string name;
  std::function<std::string(std::string)> spoil;
  std::string says;
};

// The same file with another text of the same length in place of `from`.
std::function<std::string(std::string)> Replacing(const std::string& from,
                                                  const std::string& to) {
  return [=](std::string bytes) {
    EXPECT_EQ(from.size(), to.size());
    const size_t begin = bytes.find(from);
    EXPECT_NE(begin, std::string::npos) << from;
    return bytes.replace(begin, from.size(), to);
  };
}

// A file of this header, aligned, and nothing else.
std::function<std::string(std::string)> Header(std::string header) {
  header.append((120 - header.size() % 64) % 64, ' ');
  return [=](std::string) { return SafetensorsBytes(header, ""); };
}

class BrokenFiles : public TensorFileTest,
                    public ::testing::WithParamInterface<BrokenFile> {};

TEST_P(BrokenFiles, AreRefusedByName) {
  ASSERT_THAT(WriteTensorFile(Path(), tensor_), IsOk());
  folder_.Write("a.safetensors", GetParam().spoil(ReadBytes(Path())));
  EXPECT_THAT(ReadTensorFile(Path()),
              StatusIs(GetParam().name == "NameThatIsNone"
                           ? absl::StatusCode::kInvalidArgument
                           : absl::StatusCode::kDataLoss,
                       ::testing::AllOf(HasSubstr("a.safetensors"),
                                        HasSubstr(GetParam().says))));
}

INSTANTIATE_TEST_SUITE_P(
    TensorFileTest, BrokenFiles,
    ::testing::ValuesIn(std::vector<BrokenFile>{
        {"Empty", [](std::string) { return ""; }, "cut short"},
        {"CutInTheHeader",
         [](std::string bytes) { return bytes.substr(0, 40); },
         "longer than it can be"},
        {"CutInTheData",
         [](std::string bytes) { return bytes.substr(0, bytes.size() - 1); },
         "not as many"},
        {"Longer", [](std::string bytes) { return bytes + "x"; },
         "not as many"},
        {"HugeHeader",
         [](std::string bytes) { return std::string(8, '\xFF') + bytes; },
         "longer than it can be"},
        {"HeaderThatIsNoJson", Replacing("{\"__", "{}__"), "no JSON"},
        {"UnknownDtype", Replacing("\"BF16\"", "\"BF15\""), "dtype"},
        {"DtypeOfAnotherSize", Replacing("\"BF16\"", "\"F32\" "),
         "not as many"},
        {"ShapeOfAnotherSize", Replacing("[3,5]", "[3,6]"), "not as many"},
        {"NegativeShape", Replacing("[3,5]", "[3,-]"), "no JSON"},
        {"ShapeInWords", Replacing("[3,5]", "\"abc\""), "shape"},
        {"OverflowingShape",
         Header(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296,4],)"
                R"("data_offsets":[0,0]}})"),
         "shape"},
        {"Offsets", Replacing("[0,30]", "[1,30]"), "not as many"},
        {"NoTensor", Header("{}"), "exactly one"},
        {"TwoTensors",
         Header(R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},)"
                R"("b":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})"),
         "exactly one"},
        {"NameThatIsNone", Replacing("means/layer_2", "/eans/layer_2"),
         "no name of a tensor"},
    }),
    [](const auto& info) { return info.param.name; });

TEST(TensorFileName, IsSafeAndAnotherForEachName) {
  std::set<std::string> files;
  std::vector<std::string> names = {"a",   "a/b", "a.b", "a_b",
                                    "a-b", "A",   "a/.", "a/../b"};
  for (char last : {'x', 'y', '/'}) {
    names.push_back(std::string(255, 'a') + last);
    names.push_back(std::string(199, 'a') + last);
    names.push_back(std::string(200, 'a') + last);
  }
  for (const std::string& name : names) {
    const std::string file = TensorFileName(name);
    EXPECT_EQ(file.find('/'), std::string::npos);
    EXPECT_NE(file[0], '.');
    EXPECT_LE(file.size(), 255u);
    EXPECT_TRUE(files.insert(file).second) << name;
  }
}

}  // namespace
}  // namespace phitap
