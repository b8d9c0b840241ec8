#include "server/checkpoint/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/checkpoint/config.h"
#include "server/checkpoint/expected_tensors.h"
#include "server/checkpoint/json.h"
#include "server/checkpoint/stored_weights.h"
#include "server/checkpoint/weight_digest.h"

namespace phitap {
namespace {

constexpr char kWeightDTypes[] = "float32, float16 or bfloat16";
// Names that a message lists before it only counts.
constexpr size_t kMaxListedNames = 64;
// Beyond so many names, comparing spellings takes longer than loading.
constexpr size_t kMaxComparedNames = 4096;

bool IsWeightDType(const std::optional<DType>& dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

std::string ShapeText(absl::Span<const int64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

absl::Status WrongTensor(const StoredWeights& stored, absl::string_view name,
                         std::string problem, std::string valid) {
  return InvalidField({.field = stored.Field(name),
                       .problem = std::move(problem),
                       .valid = std::move(valid)},
                      absl::StatusCode::kFailedPrecondition);
}

bool Equal(const HostTensor& a, const HostTensor& b) {
  return a.dtype == b.dtype && a.shape == b.shape &&
         std::memcmp(a.bytes.data(), b.bytes.data(), a.bytes.size()) == 0;
}

// Under which names embedding and head are stored.
struct HeadNames {
  std::string embedding = kEmbeddingName;
  std::string head = kHeadName;

  const std::string& StoredName(const std::string& name) const {
    if (name == kHeadName) return head;
    return name == kEmbeddingName ? embedding : name;
  }
};

// transformers' rule for a config that ties head and embedding: whichever is
// stored is both; two that differ stay two.
HeadNames ResolveHead(const StoredWeights& stored, ModelSpec& spec,
                      std::vector<std::string>& warnings) {
  HeadNames names;
  if (!spec.tied_head) return names;
  if (!stored.Has(kHeadName)) {
    names.head = kEmbeddingName;
    return names;
  }
  if (!stored.Has(kEmbeddingName)) {
    names.embedding = kHeadName;
    return names;
  }
  const bool comparable = IsWeightDType(stored.Find(kEmbeddingName)->dtype) &&
                          IsWeightDType(stored.Find(kHeadName)->dtype);
  if (comparable &&
      Equal(stored.Tensor(kEmbeddingName), stored.Tensor(kHeadName))) {
    names.head = kEmbeddingName;
    return names;
  }
  spec.tied_head = false;
  warnings.push_back(absl::StrCat(
      "config.json: tie_word_embeddings: true is ignored, as transformers "
      "does: ",
      kHeadName, " and ", kEmbeddingName, " are both stored, and differ"));
  return names;
}

// A stored name that may be another spelling of a missing one.
std::string NearestExtra(const std::vector<std::string>& extras,
                         const std::string& name) {
  if (extras.empty() || extras.size() > kMaxComparedNames) return "";
  return absl::StrCat(" (nearest stored name: ",
                      QuotedName(NearestNames(name, extras, 1)[0]), ")");
}

absl::Status CheckTensor(const StoredWeights& stored,
                         const std::vector<std::string>& extras,
                         const std::string& name,
                         const ExpectedTensor& expected) {
  const StoredTensor* tensor = stored.Find(name);
  const std::string valid =
      absl::StrCat(ShapeText(expected.shape), " in ", kWeightDTypes);
  if (tensor == nullptr) {
    const bool untied_head = name == kHeadName && stored.Has(kEmbeddingName);
    return WrongTensor(
        stored, name,
        absl::StrCat("is missing",
                     untied_head ? ", and config.json's tie_word_embeddings "
                                   "is not true"
                                 : NearestExtra(extras, name)),
        valid);
  }
  if (!IsWeightDType(tensor->dtype)) {
    return WrongTensor(stored, name,
                       absl::StrCat("is stored as ", tensor->stored_dtype),
                       valid);
  }
  if (tensor->shape != expected.shape) {
    return WrongTensor(stored, name,
                       absl::StrCat("has shape ", ShapeText(tensor->shape)),
                       absl::StrCat(valid, ", by config.json"));
  }
  return absl::OkStatus();
}

// Stored tensors that are not `used`: biases would change the forward and are
// refused, others are only named in a warning.
absl::StatusOr<std::vector<std::string>> FindExtras(
    const StoredWeights& stored, const std::set<std::string>& used,
    std::vector<std::string>& warnings) {
  std::vector<std::string> extras;
  for (const std::string& name : stored.Names()) {
    if (used.count(name) > 0) continue;
    if (absl::EndsWith(name, ".bias")) {
      return WrongTensor(stored, name, "is a bias", "weights without biases");
    }
    extras.push_back(name);
  }
  if (extras.empty()) return extras;
  const size_t listed = std::min(extras.size(), kMaxListedNames);
  std::string warning = "ignored stored tensors: ";
  absl::StrAppend(&warning,
                  absl::StrJoin(extras.begin(), extras.begin() + listed, ", ",
                                [](std::string* out, const std::string& name) {
                                  absl::StrAppend(out, QuotedName(name));
                                }));
  if (listed < extras.size()) {
    absl::StrAppend(&warning, " and ", extras.size() - listed, " more");
  }
  warnings.push_back(std::move(warning));
  return extras;
}

// The element type of a checkpoint whose config names none.
absl::StatusOr<DType> CommonDType(const StoredWeights& stored,
                                  const std::set<std::string>& used) {
  const std::string& first = *used.begin();
  for (const std::string& name : used) {
    if (stored.Find(name)->dtype == stored.Find(first)->dtype) continue;
    return InvalidField(
        {.field = "config.json: dtype",
         .problem = absl::StrCat(
             "is missing, and tensors differ: ", QuotedName(first), " is ",
             stored.Find(first)->stored_dtype, ", ", QuotedName(name), " is ",
             stored.Find(name)->stored_dtype),
         .valid = kWeightDTypes});
  }
  return *stored.Find(first)->dtype;
}

std::string DigestOf(const Checkpoint& checkpoint) {
  WeightDigest digest(checkpoint.spec());
  for (const ExpectedTensor& expected : ExpectedTensors(checkpoint.spec())) {
    // A tied head is the embedding again.
    if (checkpoint.spec().tied_head && expected.name == kHeadName) continue;
    digest.Add(expected.name, checkpoint.Tensor(expected.name));
  }
  return digest.Finish();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Checkpoint>> Checkpoint::Open(
    absl::string_view folder, WeightStorage storage) {
  ASSIGN_OR_RETURN(CheckpointConfig config, ReadConfig(folder));
  ASSIGN_OR_RETURN(WeightFiles files, FindWeights(folder));
  ASSIGN_OR_RETURN(const StoredWeights stored,
                   StoredWeights::Open(folder, files, storage));
  std::shared_ptr<Checkpoint> checkpoint(new Checkpoint());
  checkpoint->storage_ = storage;
  std::vector<std::string>& warnings = checkpoint->warnings_;
  warnings = std::move(config.warnings);
  warnings.insert(warnings.end(), files.warnings.begin(), files.warnings.end());
  ModelSpec& spec = checkpoint->spec_;
  spec = std::move(config.spec);

  const HeadNames head_names = ResolveHead(stored, spec, warnings);
  const std::vector<ExpectedTensor> expected_tensors = ExpectedTensors(spec);
  std::set<std::string> used;
  for (const ExpectedTensor& expected : expected_tensors) {
    used.insert(head_names.StoredName(expected.name));
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> extras,
                   FindExtras(stored, used, warnings));
  for (const ExpectedTensor& expected : expected_tensors) {
    const std::string& name = head_names.StoredName(expected.name);
    RETURN_IF_ERROR(CheckTensor(stored, extras, name, expected));
    checkpoint->tensors_.emplace(expected.name, stored.Tensor(name));
  }
  if (!config.dtype) {
    ASSIGN_OR_RETURN(spec.dtype, CommonDType(stored, used));
  }
  checkpoint->digest_ = DigestOf(*checkpoint);
  return std::shared_ptr<const Checkpoint>(std::move(checkpoint));
}

const HostTensor& Checkpoint::Tensor(absl::string_view name) const {
  return tensors_.at(name);
}

void Checkpoint::GiveBackPages(absl::string_view name) const {
  if (storage_ != WeightStorage::kMap) return;
  phitap::GiveBackPages(Tensor(name).bytes);
}

}  // namespace phitap
