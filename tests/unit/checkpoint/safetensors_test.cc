#include "server/checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/checkpoint_files.h"
#include "tests/support/status_matchers.h"

namespace phitap {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

std::string Text(const HostTensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.bytes.data()),
          tensor.bytes.size()};
}

absl::StatusOr<SafetensorsFile> OpenBytes(
    absl::string_view bytes, WeightStorage storage = WeightStorage::kMap) {
  TempFolder folder;
  folder.Write("x.safetensors", bytes);
  return SafetensorsFile::Open(folder.File("x.safetensors"), storage);
}

class SafetensorsFileTest : public testing::TestWithParam<WeightStorage> {};

INSTANTIATE_TEST_SUITE_P(Storages, SafetensorsFileTest,
                         testing::Values(WeightStorage::kMap,
                                         WeightStorage::kCopy),
                         [](const auto& info) {
                           return info.param == WeightStorage::kMap ? "Map"
                                                                    : "Copy";
                         });

TEST_P(SafetensorsFileTest, GivesEveryTensorItsBytes) {
  const auto file =
      OpenBytes(SafetensorsBytes({{"a", "F32", {2}, "01234567"},
                                  {"b", "BF16", {1, 3}, "abcdef"},
                                  {"scalar", "I64", {}, "ABCDEFGH"},
                                  {"none", "F16", {4, 0}, ""},
                                  {"small", "U8", {3}, "xyz"},
                                  {"nibbles", "F4", {4}, "pq"}}),
                GetParam());
  ASSERT_THAT(file, IsOk());
  EXPECT_EQ(file->name(), "x.safetensors");
  ASSERT_EQ(file->tensors().size(), 6u);

  const HostTensor a = file->Tensor(*file->Find("a"));
  EXPECT_EQ(a.dtype, DType::kF32);
  EXPECT_THAT(a.shape, ElementsAre(2));
  EXPECT_EQ(Text(a), "01234567");
  const HostTensor b = file->Tensor(*file->Find("b"));
  EXPECT_EQ(b.dtype, DType::kBF16);
  EXPECT_THAT(b.shape, ElementsAre(1, 3));
  EXPECT_EQ(Text(b), "abcdef");
  const HostTensor scalar = file->Tensor(*file->Find("scalar"));
  EXPECT_THAT(scalar.shape, IsEmpty());
  EXPECT_EQ(Text(scalar), "ABCDEFGH");
  EXPECT_EQ(Text(file->Tensor(*file->Find("none"))), "");
  EXPECT_EQ(file->Find("small")->dtype, std::nullopt);
  EXPECT_EQ(file->Find("small")->stored_dtype, "U8");
  EXPECT_EQ(file->Find("nibbles")->size_bytes, 2);
  EXPECT_EQ(file->Find("absent"), nullptr);
}

TEST_P(SafetensorsFileTest, OutlivesTheFileOnDiskAndTheObject) {
  HostTensor tensor;
  {
    const auto file =
        OpenBytes(SafetensorsBytes({{"a", "F32", {1}, "0123"}}), GetParam());
    ASSERT_THAT(file, IsOk());
    tensor = file->Tensor(*file->Find("a"));
  }
  EXPECT_EQ(Text(tensor), "0123");
}

// float32 results depend on the weight's address modulo 16.
TEST_P(SafetensorsFileTest, KeepsEachOffsetModulo64) {
  const auto file =
      OpenBytes(SafetensorsBytes({{"a", "F32", {3}, std::string(12, 'a')},
                                  {"b", "F32", {5}, std::string(20, 'b')},
                                  {"c", "F32", {1}, "cccc"}}),
                GetParam());
  ASSERT_THAT(file, IsOk());
  for (const StoredTensor& tensor : file->tensors()) {
    const auto address =
        reinterpret_cast<uintptr_t>(file->Tensor(tensor).bytes.data());
    EXPECT_EQ(address % 64, tensor.offset_bytes % 64u) << tensor.name;
  }
}

TEST_P(SafetensorsFileTest, CopiesOnlyWhatIsNotAligned) {
  // A header of odd length, as the format allows.
  std::string header =
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  while (header.size() % 4 != 1) header += ' ';
  const auto file = OpenBytes(SafetensorsBytes(header, "0123"), GetParam());
  ASSERT_THAT(file, IsOk());
  const HostTensor tensor = file->Tensor(*file->Find("a"));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.bytes.data()) % 4, 0u);
  EXPECT_EQ(Text(tensor), "0123");
}

TEST_P(SafetensorsFileTest, ReadsAFileWithoutTensors) {
  const auto file = OpenBytes(SafetensorsBytes("{}", ""), GetParam());
  ASSERT_THAT(file, IsOk());
  EXPECT_THAT(file->tensors(), IsEmpty());
}

TEST(SafetensorsFile, ReadsCopiedBytesOnlyOnce) {
  TempFolder folder;
  folder.Write("x.safetensors", SafetensorsBytes({{"a", "F32", {1}, "0123"}}));
  const auto copied =
      SafetensorsFile::Open(folder.File("x.safetensors"), WeightStorage::kCopy);
  ASSERT_THAT(copied, IsOk());
  folder.Write("x.safetensors", SafetensorsBytes({{"a", "F32", {1}, "9999"}}));
  EXPECT_EQ(Text(copied->Tensor(*copied->Find("a"))), "0123");
}

TEST(SafetensorsFile, RefusesWhatIsNoFile) {
  TempFolder folder;
  EXPECT_THAT(SafetensorsFile::Open(folder.path(), WeightStorage::kMap),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("is not a regular file")));
  ASSERT_EQ(mkfifo(folder.File("pipe").c_str(), 0600), 0);
  EXPECT_THAT(SafetensorsFile::Open(folder.File("pipe"), WeightStorage::kMap),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("is not a regular file")));
  EXPECT_THAT(SafetensorsFile::Open(folder.File("none"), WeightStorage::kMap),
              StatusIs(StatusCode::kNotFound, HasSubstr("/none: No such")));
}

TEST(SafetensorsFile, RefusesEveryTruncation) {
  const std::string whole = SafetensorsBytes(
      {{"a", "F32", {2}, "01234567"}, {"b", "F32", {1}, "abcd"}});
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_THAT(OpenBytes(whole.substr(0, length)),
                StatusIs(StatusCode::kDataLoss, StartsWith("x.safetensors: ")))
        << length;
  }
  EXPECT_THAT(OpenBytes(whole), IsOk());
}

struct LyingHeader {
  std::string header;
  std::string problem;
};

void PrintTo(const LyingHeader& lie, std::ostream* out) { *out << lie.header; }

class SafetensorsHeaderRefuses : public testing::TestWithParam<LyingHeader> {};

// The file has 8 bytes of data.
TEST_P(SafetensorsHeaderRefuses, NamesTheFileAndTheFault) {
  EXPECT_THAT(OpenBytes(SafetensorsBytes(GetParam().header, "01234567")),
              StatusIs(StatusCode::kDataLoss,
                       StartsWith("x.safetensors: " + GetParam().problem)));
}

std::string Entry(absl::string_view name, absl::string_view dtype,
                  absl::string_view shape, absl::string_view offsets) {
  return absl::StrCat("\"", name, "\":{\"dtype\":\"", dtype,
                      "\",\"shape\":", shape, ",\"data_offsets\":", offsets,
                      "}");
}

LyingHeader Lie(absl::string_view entries, std::string problem) {
  return {absl::StrCat("{", entries, "}"), std::move(problem)};
}

INSTANTIATE_TEST_SUITE_P(
    Headers, SafetensorsHeaderRefuses,
    testing::Values(
        Lie("", "has 8 bytes that belong to no tensor"),
        Lie(Entry("a", "F32", "[1]", "[0,4]"),
            "has 4 bytes that belong to no tensor"),
        Lie(Entry("a", "F32", "[1]", "[4,8]"), "\"a\": comes after a hole"),
        Lie(Entry("a", "F32", "[2]", "[0,8]") + "," +
                Entry("b", "F32", "[1]", "[4,8]"),
            "\"b\": overlaps the tensor before it"),
        Lie(Entry("a", "F32", "[2]", "[0,8]") + "," +
                Entry("a", "F32", "[2]", "[0,8]"),
            "key \"a\" appears twice"),
        Lie(Entry("a", "F32", "[3]", "[0,12]"),
            "\"a\": data_offsets 0 to 12 are not within the file"),
        Lie(Entry("a", "F32", "[2]", "[8,0]"),
            "\"a\": data_offsets 8 to 0 are not within the file"),
        Lie(Entry("a", "F32", "[3]", "[0,8]"),
            "\"a\": data_offsets hold 8 bytes, dtype and shape need 12"),
        Lie(Entry("a", "F16", "[2]", "[0,8]"),
            "\"a\": data_offsets hold 8 bytes, dtype and shape need 4"),
        Lie(Entry("a", "F32", "[4294967296,4294967296]", "[0,8]"),
            "\"a\": has more bytes than 64 bits count"),
        Lie(Entry("a", "F32", "[4611686018427387906]", "[0,8]"),
            "\"a\": has more bytes than 64 bits count"),
        Lie(Entry("a", "F4", "[3]", "[0,2]"),
            "\"a\": does not fill its last byte"),
        Lie(Entry("a", "F32", "[-2]", "[0,8]"), "\"a\": shape holds -2"),
        Lie(Entry("a", "F32", "[2.0]", "[0,8]"), "\"a\": shape holds 2.0"),
        Lie(Entry("a", "F32", "[18446744073709551615]", "[0,8]"),
            "\"a\": shape holds 18446744073709551615"),
        Lie(Entry("a", "F32", "2", "[0,8]"), "\"a\": has no list shape"),
        Lie(Entry("a", "F32", "[2]", "[0,4,8]"), "\"a\": has 3 data_offsets"),
        Lie(Entry("a", "F32", "[2]", "[8]"), "\"a\": has 1 data_offsets"),
        Lie(Entry("a", "F32", "[2]", "[0,-8]"), "\"a\": data_offsets holds -8"),
        Lie(Entry("a", "F32", "[2]", "null"),
            "\"a\": has no list data_offsets"),
        Lie(Entry("a", "FLOAT", "[2]", "[0,8]"),
            "\"a\": dtype \"FLOAT\" is not one of the format's"),
        Lie(R"("a":{"shape":[2],"data_offsets":[0,8]})", "\"a\": has no dtype"),
        Lie(R"("a":{"dtype":"F32","data_offsets":[0,8]})",
            "\"a\": has no list shape"),
        Lie(R"("a":[0,8])", "\"a\": [0,8]; valid: an object"),
        Lie(R"("__metadata__":{"format":3})",
            "\"__metadata__\": \"format\" is 3"),
        Lie(R"("__metadata__":"pt")", "\"__metadata__\": \"pt\""),
        LyingHeader{"[]", "has a header that does not begin with an object"},
        LyingHeader{" {}", "has a header that does not begin with an object"},
        LyingHeader{"", "has a header that does not begin with an object"},
        LyingHeader{"{}x", "is not JSON from byte 3"}));

TEST(SafetensorsFile, RefusesAHeaderLengthPastTheFormatsLimit) {
  for (const uint64_t length :
       {uint64_t{100'000'001}, uint64_t{1} << 63, UINT64_MAX}) {
    EXPECT_THAT(
        OpenBytes(absl::StrCat(
            absl::string_view(reinterpret_cast<const char*>(&length), 8),
            "{}")),
        StatusIs(StatusCode::kDataLoss,
                 AllOf(HasSubstr(absl::StrCat("header has ", length)),
                       HasSubstr("at most 100000000"))));
  }
}

}  // namespace
}  // namespace phitap
