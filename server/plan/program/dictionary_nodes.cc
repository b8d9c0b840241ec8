#include "server/plan/program/dictionary_nodes.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/plan/program/named_sources.h"
#include "server/spec/quote.h"

namespace phitap {
namespace {

// The nodes of one dictionary.
class DictionaryNodes {
 public:
  DictionaryNodes(const PlanParts& parts, const v1::Dictionary& dictionary,
                  absl::string_view field)
      : parts_(parts), dictionary_(dictionary), field_(field) {}

  absl::StatusOr<int> Encode(int x) {
    RETURN_IF_ERROR(CheckName());
    ASSIGN_OR_RETURN(const int weight, Matrix("encoder_weight"));
    const Shape& size = parts_.builder.ShapeOf(weight);  // [features, in]
    const int64_t features = size[0];
    const int64_t in = size[1];
    RETURN_IF_ERROR(CheckLast(x, in, "encoder_weight"));
    ASSIGN_OR_RETURN(const int centred, WithoutDecoderBias(x, in));
    ASSIGN_OR_RETURN(const int activity,
                     Product(centred, weight, LinearOp::Weight::kOutIn,
                             "encoder_bias", features));
    return Activate(activity, features);
  }

  absl::StatusOr<int> Decode(int features) {
    RETURN_IF_ERROR(CheckName());
    ASSIGN_OR_RETURN(const int weight, Matrix("decoder_weight"));
    const Shape size = parts_.builder.ShapeOf(weight);  // [features, out]
    RETURN_IF_ERROR(CheckLast(features, size[0], "decoder_weight"));
    return Product(features, weight, LinearOp::Weight::kInOut, "decoder_bias",
                   size[1]);
  }

 private:
  absl::Status Invalid(absl::string_view field, std::string problem,
                       std::string valid) const {
    return InvalidField({.field = absl::StrCat(field_, ".", field),
                         .problem = std::move(problem),
                         .valid = std::move(valid)});
  }

  absl::Status CheckName() const {
    if (!dictionary_.name().empty()) return absl::OkStatus();
    return Invalid("name", "is empty", "the name of a dictionary");
  }

  std::string TensorName(absl::string_view part) const {
    return absl::StrCat(dictionary_.name(), ".", part);
  }
  std::string NameField() const { return absl::StrCat(field_, ".name"); }

  absl::StatusOr<int> Matrix(absl::string_view part) const {
    ASSIGN_OR_RETURN(const int node,
                     AddKeptTensor(parts_, TensorName(part), NameField()));
    const Shape& shape = parts_.builder.ShapeOf(node);
    if (shape.size() == 2) return node;
    return Invalid("name",
                   absl::StrCat("tensor ", Quoted(TensorName(part)), " is ",
                                ShapeText(shape)),
                   "a matrix");
  }

  // A vector of that size; −1 where there is none.
  absl::StatusOr<int> Vector(absl::string_view part, int64_t size) const {
    ASSIGN_OR_RETURN(
        const int node,
        AddKeptTensorIfThere(parts_, TensorName(part), NameField()));
    if (node < 0 || parts_.builder.ShapeOf(node) == Shape{size}) return node;
    return Invalid("name",
                   absl::StrCat("tensor ", Quoted(TensorName(part)), " is ",
                                ShapeText(parts_.builder.ShapeOf(node))),
                   absl::StrCat("[", size, "]"));
  }

  absl::Status CheckLast(int node, int64_t size, absl::string_view part) const {
    const Shape& shape = parts_.builder.ShapeOf(node);
    if (!shape.empty() && shape.back() == size) return absl::OkStatus();
    return Invalid("name",
                   absl::StrCat("a value ", ShapeText(shape), " for tensor ",
                                Quoted(TensorName(part))),
                   absl::StrCat("values [..., ", size, "]"));
  }

  absl::StatusOr<int> WithoutDecoderBias(int x, int64_t in) const {
    if (!dictionary_.subtract_decoder_bias()) return x;
    ASSIGN_OR_RETURN(const int bias, Vector("decoder_bias", in));
    if (bias >= 0) {
      return parts_.builder.Add(FunctionOp{Function::kSubtract}, {x, bias},
                                field_);
    }
    return Invalid(
        "subtract_decoder_bias",
        absl::StrCat("there is no tensor ", Quoted(TensorName("decoder_bias"))),
        "false");
  }

  // x · weight + bias, where there is a bias of this name.
  absl::StatusOr<int> Product(int x, int weight, LinearOp::Weight layout,
                              absl::string_view bias_part, int64_t out) const {
    ASSIGN_OR_RETURN(const int bias, Vector(bias_part, out));
    std::vector<int> inputs = {x, weight};
    if (bias >= 0) inputs.push_back(bias);
    return parts_.builder.Add(LinearOp{layout}, std::move(inputs), field_);
  }

  absl::StatusOr<int> Activate(int activity, int64_t features) const {
    const v1::DictionaryActivation kind = dictionary_.activation();
    if (kind == v1::DICTIONARY_ACTIVATION_TOP_K) {
      return parts_.builder.Add(TopKActivationOp{.k = dictionary_.k()},
                                {activity}, absl::StrCat(field_, ".k"));
    }
    if (dictionary_.k() != 0) {
      return Invalid("k",
                     absl::StrCat(dictionary_.k(), " without activation TOP_K"),
                     "unset");
    }
    if (kind == v1::DICTIONARY_ACTIVATION_RELU) return Relu(activity);
    ASSIGN_OR_RETURN(const int threshold, Vector("threshold", features));
    if (threshold >= 0) {
      return parts_.builder.Add(FunctionOp{Function::kJumpRelu},
                                {activity, threshold}, field_);
    }
    if (kind == v1::DICTIONARY_ACTIVATION_UNSPECIFIED) return Relu(activity);
    return Invalid("activation",
                   absl::StrCat("JUMP_RELU without a tensor ",
                                Quoted(TensorName("threshold"))),
                   "RELU or TOP_K");
  }

  absl::StatusOr<int> Relu(int activity) const {
    return parts_.builder.Add(FunctionOp{Function::kRelu}, {activity}, field_);
  }

  const PlanParts& parts_;
  const v1::Dictionary& dictionary_;
  const std::string field_;
};

}  // namespace

absl::StatusOr<int> AddEncode(const PlanParts& parts,
                              const v1::Dictionary& dictionary, int x,
                              absl::string_view field) {
  return DictionaryNodes(parts, dictionary, field).Encode(x);
}

absl::StatusOr<int> AddDecode(const PlanParts& parts,
                              const v1::Dictionary& dictionary, int features,
                              absl::string_view field) {
  return DictionaryNodes(parts, dictionary, field).Decode(features);
}

}  // namespace phitap
