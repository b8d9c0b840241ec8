#include "server/plan/edits/dictionary_rows.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/plan/program/inline_tensor.h"
#include "server/plan/program/named_sources.h"
#include "server/spec/quote.h"

namespace phitap {
namespace {

// Those of the first dimension, in their order.
HostTensor RowsOf(const HostTensor& tensor,
                  const std::vector<int64_t>& indices) {
  const size_t row_bytes = tensor.bytes.size() / tensor.shape.front();
  std::vector<std::byte> bytes;
  bytes.reserve(row_bytes * indices.size());
  for (int64_t index : indices) {
    const auto row = tensor.bytes.subspan(index * row_bytes, row_bytes);
    bytes.insert(bytes.end(), row.begin(), row.end());
  }
  std::vector<int64_t> shape = tensor.shape;
  shape.front() = static_cast<int64_t>(indices.size());
  return CopyOf(tensor.dtype, std::move(shape), bytes);
}

}  // namespace

DictionaryRows::DictionaryRows(const PlanParts& parts,
                               const v1::Dictionary& dictionary,
                               std::vector<int64_t> features, std::string field)
    : parts_(parts),
      dictionary_(dictionary),
      features_(std::move(features)),
      field_(std::move(field)) {}

absl::StatusOr<HostTensor> DictionaryRows::Find(absl::string_view name) const {
  const std::string field = field_ + ".name";
  const std::string full = absl::StrCat(dictionary_.name(), ".", name);
  if (dictionary_.name().empty()) {
    return InvalidField({.field = field,
                         .problem = "is empty",
                         .valid = "the name of a dictionary"});
  }
  if (!parts_.context.find_tensor) {
    return InvalidField({.field = field,
                         .problem = absl::StrCat("tensor ", Quoted(full),
                                                 ": this server keeps none"),
                         .valid = "no dictionary"},
                        absl::StatusCode::kNotFound);
  }
  ASSIGN_OR_RETURN(HostTensor kept, parts_.context.find_tensor(full, field));
  return FloatingTensor(std::move(kept), field);
}

absl::StatusOr<int64_t> DictionaryRows::FeatureCount() const {
  ASSIGN_OR_RETURN(const HostTensor weight, Find("encoder_weight"));
  return weight.shape.empty() ? 0 : weight.shape.front();
}

absl::StatusOr<int> DictionaryRows::AddRows(absl::string_view name,
                                            size_t rank) const {
  const std::string field = field_ + ".name";
  const std::string full = absl::StrCat(dictionary_.name(), ".", name);
  const std::string key =
      absl::StrCat("rows ", full, " ", absl::StrJoin(features_, ","));
  const int known = parts_.builder.FindShared(key);
  if (known >= 0) return known;
  ASSIGN_OR_RETURN(const HostTensor whole, Find(name));
  ASSIGN_OR_RETURN(const int64_t count, FeatureCount());
  if (whole.shape.size() != rank || whole.shape.front() != count ||
      ElementCount(whole.shape) == 0) {
    return InvalidField(
        {.field = field,
         .problem = absl::StrCat("tensor ", Quoted(full), " is ",
                                 ShapeText(whole.shape)),
         .valid = absl::StrCat(rank, " dimensions, the first of ", count,
                               ", the dictionary's features")});
  }
  ASSIGN_OR_RETURN(const int node,
                   parts_.builder.AddKept(RowsOf(whole, features_), field));
  parts_.builder.Share(key, node);
  return node;
}

absl::StatusOr<int> DictionaryRows::AddRowsIfThere(
    absl::string_view name) const {
  absl::StatusOr<int> rows = AddRows(name, 1);
  if (absl::IsNotFound(rows.status())) return -1;
  return rows;
}

absl::StatusOr<int> DictionaryRows::WithoutDecoderBias(int x) const {
  if (!dictionary_.subtract_decoder_bias()) return x;
  ASSIGN_OR_RETURN(
      const int bias,
      AddKeptTensor(parts_, absl::StrCat(dictionary_.name(), ".decoder_bias"),
                    field_ + ".subtract_decoder_bias"));
  return parts_.builder.Add(FunctionOp{Function::kSubtract}, {x, bias}, field_);
}

absl::StatusOr<int> DictionaryRows::Activate(int activity) const {
  const v1::DictionaryActivation kind = dictionary_.activation();
  if (kind != v1::DICTIONARY_ACTIVATION_RELU) {
    ASSIGN_OR_RETURN(const int threshold, AddRowsIfThere("threshold"));
    if (threshold >= 0) {
      return parts_.builder.Add(FunctionOp{Function::kJumpRelu},
                                {activity, threshold}, field_);
    }
    if (kind == v1::DICTIONARY_ACTIVATION_JUMP_RELU) {
      return InvalidField(
          {.field = field_ + ".activation",
           .problem = absl::StrCat(
               "JUMP_RELU without a tensor ",
               Quoted(absl::StrCat(dictionary_.name(), ".threshold"))),
           .valid = "RELU or TOP_K"});
    }
  }
  return parts_.builder.Add(FunctionOp{Function::kRelu}, {activity}, field_);
}

absl::StatusOr<int> DictionaryRows::Encode(int x) const {
  if (dictionary_.k() != 0) {
    return InvalidField(
        {.field = field_ + ".k",
         .problem = absl::StrCat(dictionary_.k(), " without activation TOP_K"),
         .valid = "unset"});
  }
  ASSIGN_OR_RETURN(const int weight, AddRows("encoder_weight", 2));
  ASSIGN_OR_RETURN(const int bias, AddRowsIfThere("encoder_bias"));
  ASSIGN_OR_RETURN(const int centred, WithoutDecoderBias(x));
  std::vector<int> inputs = {centred, weight};
  if (bias >= 0) inputs.push_back(bias);
  ASSIGN_OR_RETURN(const int activity,
                   parts_.builder.Add(LinearOp{LinearOp::Weight::kOutIn},
                                      std::move(inputs), field_));
  return Activate(activity);
}

absl::StatusOr<int> DictionaryRows::Decode(int values) const {
  ASSIGN_OR_RETURN(const int weight, AddRows("decoder_weight", 2));
  return parts_.builder.Add(LinearOp{LinearOp::Weight::kInOut},
                            {values, weight}, field_);
}

}  // namespace phitap
