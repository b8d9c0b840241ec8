#include "client/cli/strip_view.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/heatmap.h"
#include "client/cli/number_text.h"
#include "client/cli/table.h"
#include "client/cli/tensor_stats.h"
#include "client/cpp/float_values.h"
#include "server/base/dtype.h"

namespace phitap::cli {
namespace {

using client::TracedTensor;

constexpr int kWidestStrip = 48;
constexpr int kNarrowestStrip = 8;
// Room for the columns beside the strip.
constexpr int kOtherColumns = 60;
// More numbers than this are shown as a strip.
constexpr int64_t kMostNumbers = 6;

// The axis of positions, or −1.
int PositionAxis(const v1::TensorDescriptor& tensor) {
  const auto& names = tensor.dimension_names();
  const auto found = std::find(names.begin(), names.end(), "seq");
  return found == names.end() ? -1 : static_cast<int>(found - names.begin());
}

std::string NumbersText(const HostTensor& tensor, int64_t count) {
  return absl::StrJoin(client::ElementsAt(tensor, 0, count), " ",
                       [](std::string* out, double value) {
                         absl::StrAppend(out, absl::StrFormat("%.4g", value));
                       });
}

// What the strip of a tensor shows.
std::vector<double> StripValues(const TracedTensor& tensor) {
  const int axis = PositionAxis(tensor.descriptor);
  const HostTensor& value = tensor.value;
  if (axis < 0 || value.shape.size() == 1) {
    return client::ElementsAt(value, 0, ElementCount(value.shape));
  }
  return NormsAlong(value, axis);
}

struct StripTexts {
  std::string strip;
  std::string ends;
};

StripTexts StripOf(const TracedTensor& tensor, int width) {
  const int64_t count = ElementCount(tensor.value.shape);
  if (count <= kMostNumbers) return {.strip = NumbersText(tensor.value, count)};
  const std::vector<double> values = StripValues(tensor);
  const ValueRange range = RangeOf(values);
  return {.strip = RenderStrip(values, range, width),
          .ends = absl::StrFormat("%.3g to %.3g", range.low, range.high)};
}

Table TableOf(const TracedGroup& group) {
  Table table = {.columns = {{.title = "tensor", .may_shrink = true},
                             {.title = "shape"},
                             {.title = "type"},
                             {.title = "norms or values"},
                             {.title = "from, to"}}};
  if (group.run != nullptr && group.run->label != "0") {
    table.columns[0].title = absl::StrCat("tensor of run ", group.run->label);
  }
  return table;
}

}  // namespace

std::string RenderStrips(const TracedGroup& group, const Terminal& terminal) {
  Table table = TableOf(group);
  for (const TracedTensor* tensor : group.tensors) {
    const v1::TensorDescriptor& descriptor = tensor->descriptor;
    std::string name = descriptor.hook_point().empty()
                           ? descriptor.label()
                           : descriptor.hook_point();
    if (descriptor.step() > 0) {
      absl::StrAppend(&name, " at step ", descriptor.step());
    }
    if (!descriptor.part().empty()) {
      absl::StrAppend(&name, " ", descriptor.part());
    }
    const StripTexts texts =
        StripOf(*tensor, std::clamp(terminal.width - kOtherColumns,
                                    kNarrowestStrip, kWidestStrip));
    table.rows.push_back(
        {{.text = name},
         {.text = ShapeText(tensor->value.shape)},
         {.text = std::string(Name(tensor->value.dtype))},
         {.text = texts.strip, .style = {.foreground = RampColor(0.65)}},
         {.text = texts.ends, .style = {.dim = true}}});
  }
  return Render(table, terminal);
}

}  // namespace phitap::cli
