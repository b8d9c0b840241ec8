#include "server/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "server/checkpoint/expected_tensors.h"
#include "tests/support/checkpoint_files.h"
#include "tests/support/status_matchers.h"

namespace phitap {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string Text(const HostTensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.bytes.data()),
          tensor.bytes.size()};
}

// The checkpoint has every tensor of `files` with its shape and bytes.
void ExpectHolds(const Checkpoint& checkpoint, const CheckpointFiles& files) {
  for (const RawTensor& raw : files.tensors) {
    const HostTensor& tensor = checkpoint.Tensor(raw.name);
    EXPECT_EQ(tensor.shape, raw.shape) << raw.name;
    EXPECT_EQ(Text(tensor), raw.bytes) << raw.name;
  }
}

class CheckpointKinds : public testing::TestWithParam<TinyKind> {};

INSTANTIATE_TEST_SUITE_P(Family, CheckpointKinds, testing::ValuesIn(kTinyKinds),
                         [](const auto& info) { return Name(info.param); });

TEST_P(CheckpointKinds, OpenInEveryElementTypeAndStorage) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    TempFolder folder;
    const CheckpointFiles files = TinyCheckpoint(GetParam(), {.dtype = dtype});
    files.Write(folder);
    for (const WeightStorage storage :
         {WeightStorage::kMap, WeightStorage::kCopy}) {
      const auto checkpoint = Checkpoint::Open(folder.path(), storage);
      ASSERT_THAT(checkpoint, IsOk());
      EXPECT_EQ((*checkpoint)->spec().dtype, dtype);
      EXPECT_THAT((*checkpoint)->warnings(), IsEmpty());
      ExpectHolds(**checkpoint, files);
    }
  }
}

TEST_P(CheckpointKinds, HoldWhatTheirPagesHeldThatAreGivenBack) {
  TempFolder folder;
  const CheckpointFiles files = TinyCheckpoint(GetParam());
  files.Write(folder);
  for (const WeightStorage storage :
       {WeightStorage::kMap, WeightStorage::kCopy}) {
    const auto checkpoint = Checkpoint::Open(folder.path(), storage);
    ASSERT_THAT(checkpoint, IsOk());
    for (const RawTensor& raw : files.tensors) {
      (*checkpoint)->GiveBackPages(raw.name);
    }
    ExpectHolds(**checkpoint, files);
  }
}

TEST_P(CheckpointKinds, OpenWhateverTheNumberOfShards) {
  const CheckpointFiles files = TinyCheckpoint(GetParam());
  std::string digest;
  for (const size_t shards : {1, 2, 5}) {
    TempFolder folder;
    files.WriteSharded(folder, shards);
    const auto checkpoint = Checkpoint::Open(folder.path());
    ASSERT_THAT(checkpoint, IsOk());
    EXPECT_THAT((*checkpoint)->warnings(), IsEmpty());
    ExpectHolds(**checkpoint, files);
    if (digest.empty()) digest = (*checkpoint)->digest();
    EXPECT_EQ((*checkpoint)->digest(), digest) << shards;
  }
}

TEST(Checkpoint, GivesTensorsThatOutliveIt) {
  const CheckpointFiles files = TinyCheckpoint(TinyKind::kWindow);
  HostTensor tensor;
  {
    TempFolder folder;
    files.Write(folder);
    const auto checkpoint = Checkpoint::Open(folder.path());
    ASSERT_THAT(checkpoint, IsOk());
    tensor = (*checkpoint)->Tensor(kFinalNormName);
  }
  EXPECT_EQ(Text(tensor), CheckpointFiles(files).Tensor(kFinalNormName).bytes);
}

TEST(Checkpoint, HasOneTensorForATiedHead) {
  TempFolder folder;
  TinyCheckpoint(TinyKind::kPartialTied).Write(folder);
  const auto checkpoint = Checkpoint::Open(folder.path());
  ASSERT_THAT(checkpoint, IsOk());
  EXPECT_TRUE((*checkpoint)->spec().tied_head);
  EXPECT_EQ((*checkpoint)->Tensor(kHeadName).bytes.data(),
            (*checkpoint)->Tensor(kEmbeddingName).bytes.data());
}

// A tied checkpoint that also stores a head: the embedding's bytes, changed at
// `changed_byte` if that is not negative.
CheckpointFiles TiedWithHead(int changed_byte) {
  CheckpointFiles files = TinyCheckpoint(TinyKind::kPartialTied);
  RawTensor head = files.Tensor(kEmbeddingName);
  head.name = kHeadName;
  if (changed_byte >= 0) head.bytes[changed_byte] ^= 1;
  files.tensors.push_back(head);
  return files;
}

TEST(Checkpoint, NamesAStoredHeadThatEqualsTheTiedEmbedding) {
  TempFolder folder;
  TiedWithHead(-1).Write(folder);
  const auto checkpoint = Checkpoint::Open(folder.path());
  ASSERT_THAT(checkpoint, IsOk());
  EXPECT_TRUE((*checkpoint)->spec().tied_head);
  EXPECT_EQ((*checkpoint)->Tensor(kHeadName).bytes.data(),
            (*checkpoint)->Tensor(kEmbeddingName).bytes.data());
  EXPECT_THAT((*checkpoint)->warnings(),
              ElementsAre("ignored stored tensors: \"lm_head.weight\""));
}

TEST(Checkpoint, UntiesAStoredHeadThatDiffersFromTheEmbedding) {
  const int last = TiedWithHead(-1).Tensor(kHeadName).bytes.size() - 1;
  TempFolder folder;
  const CheckpointFiles files = TiedWithHead(last);
  files.Write(folder);
  const auto checkpoint = Checkpoint::Open(folder.path());
  ASSERT_THAT(checkpoint, IsOk());
  EXPECT_FALSE((*checkpoint)->spec().tied_head);
  ExpectHolds(**checkpoint, files);
  EXPECT_THAT((*checkpoint)->warnings(),
              ElementsAre(AllOf(HasSubstr("tie_word_embeddings"),
                                HasSubstr("differ"))));
}

TEST(Checkpoint, EmbedsWithATiedHeadThatAloneIsStored) {
  TempFolder folder;
  CheckpointFiles files = TinyCheckpoint(TinyKind::kPartialTied);
  files.Write(folder);
  const std::string digest = (*Checkpoint::Open(folder.path()))->digest();
  files.Tensor(kEmbeddingName).name = kHeadName;
  files.Write(folder);
  const auto checkpoint = Checkpoint::Open(folder.path());
  ASSERT_THAT(checkpoint, IsOk());
  EXPECT_TRUE((*checkpoint)->spec().tied_head);
  EXPECT_EQ(Text((*checkpoint)->Tensor(kEmbeddingName)),
            files.Tensor(kHeadName).bytes);
  EXPECT_EQ((*checkpoint)->digest(), digest);
}

TEST(Checkpoint, NamesExtraTensorsOfAnyElementType) {
  TempFolder folder;
  CheckpointFiles files = TinyCheckpoint(TinyKind::kWindow);
  files.tensors.push_back(
      {"model.layers.0.self_attn.rotary_emb.inv_freq", "F64", {1}, "01234567"});
  files.tensors.push_back({"step", "U8", {1}, "0"});
  files.Write(folder);
  const auto checkpoint = Checkpoint::Open(folder.path());
  ASSERT_THAT(checkpoint, IsOk());
  EXPECT_THAT(
      (*checkpoint)->warnings(),
      ElementsAre(
          "ignored stored tensors: "
          "\"model.layers.0.self_attn.rotary_emb.inv_freq\", \"step\""));
}

TEST(Checkpoint, CountsExtraTensorsPastThoseItNames) {
  TempFolder folder;
  CheckpointFiles files = TinyCheckpoint(TinyKind::kWindow);
  for (int i = 0; i < 70; ++i) {
    files.tensors.push_back({"extra" + std::to_string(i), "U8", {0}, ""});
  }
  files.Write(folder);
  const auto checkpoint = Checkpoint::Open(folder.path());
  ASSERT_THAT(checkpoint, IsOk());
  EXPECT_THAT((*checkpoint)->warnings(),
              ElementsAre(testing::EndsWith("\"extra66\" and 6 more")));
}

TEST(Checkpoint, PrefersASingleFileToAnIndexAsTransformersDoes) {
  TempFolder folder;
  const CheckpointFiles files = TinyCheckpoint(TinyKind::kWindow);
  files.Write(folder);
  folder.Write("model.safetensors.index.json", "not even JSON");
  const auto checkpoint = Checkpoint::Open(folder.path());
  ASSERT_THAT(checkpoint, IsOk());
  ExpectHolds(**checkpoint, files);
  EXPECT_THAT((*checkpoint)->warnings(),
              ElementsAre(HasSubstr("model.safetensors.index.json: ignored")));
}

// The Hub's cache keeps its files elsewhere and links to them.
TEST(Checkpoint, FollowsLinksToItsFiles) {
  TempFolder blobs;
  const CheckpointFiles files = TinyCheckpoint(TinyKind::kWindow);
  files.Write(blobs);
  TempFolder folder;
  for (const char* name : {"config.json", "model.safetensors"}) {
    std::filesystem::create_symlink(blobs.File(name), folder.File(name));
  }
  const auto checkpoint = Checkpoint::Open(folder.path());
  ASSERT_THAT(checkpoint, IsOk());
  ExpectHolds(**checkpoint, files);
}

TEST(Checkpoint, TakesTheElementTypeOfTheTensorsWhereTheConfigHasNone) {
  TempFolder folder;
  CheckpointFiles files =
      TinyCheckpoint(TinyKind::kWindow, {.dtype = DType::kF16});
  files.config.erase("torch_dtype");
  files.Write(folder);
  EXPECT_EQ((*Checkpoint::Open(folder.path()))->spec().dtype, DType::kF16);
}

TEST(Checkpoint, LetsTensorsDifferInElementTypeWhereTheConfigHasOne) {
  TempFolder folder;
  CheckpointFiles files =
      TinyCheckpoint(TinyKind::kWindow, {.dtype = DType::kBF16});
  RawTensor& norm = files.Tensor(kFinalNormName);
  norm.dtype = "F32";
  norm.bytes.resize(norm.bytes.size() * 2);
  files.Write(folder);
  const auto checkpoint = Checkpoint::Open(folder.path());
  ASSERT_THAT(checkpoint, IsOk());
  EXPECT_EQ((*checkpoint)->spec().dtype, DType::kBF16);
  EXPECT_EQ((*checkpoint)->Tensor(kFinalNormName).dtype, DType::kF32);
}

TEST(Checkpoint, RefusesPlainTextInTheWeightsPlace) {
  TempFolder folder;
  TinyCheckpoint(TinyKind::kWindow).Write(folder);
  folder.Write("model.safetensors",
               "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
  EXPECT_THAT(Checkpoint::Open(folder.path()),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("model.safetensors: says its header has")));
}

}  // namespace
}  // namespace phitap
