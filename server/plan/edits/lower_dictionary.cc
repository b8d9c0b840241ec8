#include "server/plan/edits/lower_dictionary.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/plan/edits/dictionary_rows.h"
#include "server/plan/edits/feature_edits.h"
#include "server/plan/program/dictionary_nodes.h"
#include "server/plan/program/run_value.h"
#include "server/spec/quote.h"

namespace phitap {
namespace {

// The hook point that is encoded: the edited one, or `encode_hook`'s.
absl::StatusOr<HookPoint> EncodedPoint(const PartNodes& nodes,
                                       const v1::DictionaryEdit& edit,
                                       const std::string& field) {
  const HookPoint edited = nodes.part().point;
  if (edit.encode_hook().empty()) return edited;
  if (!HasLayer(edited.hook)) {
    return InvalidField({.field = field,
                         .problem = "the edited hook point is of no layer",
                         .valid = "unset"});
  }
  ASSIGN_OR_RETURN(const HookPoint point,
                   ParseOneHookPoint(absl::StrCat("layers.", edited.layer, ".",
                                                  edit.encode_hook()),
                                     nodes.parts().context.spec, field));
  const std::string valid =
      absl::StrCat("the name of a hook point [seq, ...] that comes before ",
                   EntryOf(edited.hook).name);
  for (Hook hook : {point.hook, edited.hook}) {
    const auto& dimensions = EntryOf(hook).dimensions;
    if (dimensions.size() == 2 && dimensions[0] == Dimension::kSeq) continue;
    return InvalidField(
        {.field = field,
         .problem = absl::StrCat(EntryOf(hook).name, " is not [seq, ...]"),
         .valid = valid});
  }
  if (point.hook < edited.hook && point.layer == edited.layer) return point;
  return InvalidField({.field = field,
                       .problem = absl::StrCat(Quoted(edit.encode_hook()),
                                               " does not come before ",
                                               EntryOf(edited.hook).name),
                       .valid = valid});
}

// One dictionary edit of one part, whose value at `point` is encoded.
class DictionaryLowering {
 public:
  DictionaryLowering(PartNodes& nodes, const v1::DictionaryEdit& edit,
                     HookPoint point)
      : nodes_(nodes),
        edit_(edit),
        field_(nodes.Field("dictionary")),
        point_(point),
        edits_(nodes.builder(), edit, field_,
               [this](const std::string& label, absl::string_view field) {
                 return FeaturesOfRun(label, field);
               }),
        rows_(nodes.parts(), edit.dictionary(), edits_.features(),
              DictionaryField()) {}

  absl::StatusOr<int> Lower() {
    if (edit_.edits().empty() && !edit_.drop_error()) {
      return InvalidField({.field = field_ + ".edits",
                           .problem = "none given",
                           .valid = "at least one edit, or drop_error"});
    }
    ASSIGN_OR_RETURN(const int64_t feature_count, rows_.FeatureCount());
    RETURN_IF_ERROR(edits_.Check(feature_count));
    ASSIGN_OR_RETURN(const int encoded, EncodedValue());
    return edit_.drop_error() ? WithoutError(encoded) : WithError(encoded);
  }

 private:
  std::string DictionaryField() const { return field_ + ".dictionary"; }

  // x + (f′ − f) W_dec
  absl::StatusOr<int> WithError(int encoded) {
    ASSIGN_OR_RETURN(const int before, Features(encoded));
    ASSIGN_OR_RETURN(const int after, edits_.Apply(before));
    ASSIGN_OR_RETURN(const int change,
                     nodes_.Call(Function::kSubtract, {after, before}));
    ASSIGN_OR_RETURN(const int decoded, rows_.Decode(change));
    RETURN_IF_ERROR(CheckWidth(decoded));
    ASSIGN_OR_RETURN(const int x, nodes_.Current());
    return nodes_.Call(Function::kAdd, {x, decoded});
  }

  // decode(f′)
  absl::StatusOr<int> WithoutError(int encoded) {
    ASSIGN_OR_RETURN(int all, AddEncode(nodes_.parts(), edit_.dictionary(),
                                        encoded, DictionaryField()));
    if (!edit_.edits().empty()) {
      ASSIGN_OR_RETURN(const int before, Chosen(all));
      ASSIGN_OR_RETURN(const int after, edits_.Apply(before));
      ASSIGN_OR_RETURN(
          all, nodes_.builder().Add(
                   ScatterOp{.dimension = -1, .indices = edits_.features()},
                   {all, after}, field_));
    }
    ASSIGN_OR_RETURN(
        const int decoded,
        AddDecode(nodes_.parts(), edit_.dictionary(), all, DictionaryField()));
    RETURN_IF_ERROR(CheckWidth(decoded));
    return decoded;
  }

  absl::Status CheckWidth(int decoded) const {
    const int64_t width = nodes_.part().shape.back();
    const int64_t out = nodes_.builder().ShapeOf(decoded).back();
    if (out == width) return absl::OkStatus();
    return InvalidField(
        {.field = DictionaryField() + ".name",
         .problem = absl::StrCat("decodes to ", out, " elements"),
         .valid = absl::StrCat(width, ", as the edited part of ",
                               FullName(nodes_.part().point), " has")});
  }

  bool IsElsewhere() const { return point_ != nodes_.part().point; }

  // What is read of another hook point has the part's positions.
  absl::StatusOr<int> ReadOf(v1::RunValue value,
                             absl::string_view field) const {
    const EditedPart& part = nodes_.part();
    ResolvedSelection selection = part.selection;
    if (IsElsewhere()) selection = {.positions = part.selection.positions};
    ASSIGN_OR_RETURN(
        RunRead read,
        ResolveRunValue(
            nodes_.parts(), value,
            {.run = part.run, .point = point_, .selection = selection}, field));
    return nodes_.builder().AddRead(std::move(read), field);
  }

  // x, or the value of the hook point that stands for it.
  absl::StatusOr<int> EncodedValue() {
    if (!IsElsewhere()) return nodes_.Current();
    const std::string field = field_ + ".encode_hook";
    RETURN_IF_ERROR(CheckPromptAlone(field));
    return ReadOf(v1::RunValue(), field);
  }

  absl::Status CheckPromptAlone(const std::string& field) const {
    if (!nodes_.part().steps.has_generated()) return absl::OkStatus();
    return InvalidField({.field = field,
                         .problem = "is read in the prompt's pass, and tokens "
                                    "that are generated are edited too",
                         .valid = "selection.steps of 0 alone"});
  }

  absl::StatusOr<int> FeaturesOfRun(const std::string& label,
                                    absl::string_view field) const {
    const std::string path(field);
    RETURN_IF_ERROR(CheckPromptAlone(path));
    RETURN_IF_ERROR(FindRun(nodes_.parts().runs, label, path).status());
    v1::RunValue value;
    value.set_run(label);
    ASSIGN_OR_RETURN(const int read, ReadOf(std::move(value), path));
    return Features(read);
  }

  // The edited features of all: [..., m].
  absl::StatusOr<int> Chosen(int all) const {
    return nodes_.builder().Add(
        GatherOp{.dimension = -1, .indices = edits_.features()}, {all}, field_);
  }

  // The edited features of a value [..., in]: [..., m].
  absl::StatusOr<int> Features(int encoded) const {
    const bool needs_all =
        edit_.drop_error() ||
        edit_.dictionary().activation() == v1::DICTIONARY_ACTIVATION_TOP_K;
    if (!needs_all) return rows_.Encode(encoded);
    ASSIGN_OR_RETURN(const int all,
                     AddEncode(nodes_.parts(), edit_.dictionary(), encoded,
                               DictionaryField()));
    return Chosen(all);
  }

  PartNodes& nodes_;
  const v1::DictionaryEdit& edit_;
  const std::string field_;
  const HookPoint point_;
  const FeatureEdits edits_;
  const DictionaryRows rows_;
};

}  // namespace

absl::StatusOr<int> LowerDictionary(PartNodes& nodes,
                                    const v1::DictionaryEdit& edit) {
  ASSIGN_OR_RETURN(
      const HookPoint point,
      EncodedPoint(nodes, edit, nodes.Field("dictionary.encode_hook")));
  return DictionaryLowering(nodes, edit, point).Lower();
}

}  // namespace phitap
