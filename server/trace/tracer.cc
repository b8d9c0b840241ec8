#include "server/trace/tracer.h"

#include <algorithm>
#include <utility>

#include "server/model/weights.h"
#include "server/trace/host_view.h"
#include "server/trace/reduce.h"
#include "server/trace/select.h"

namespace phitap {
namespace {

bool IsPattern(Hook hook) {
  return hook == Hook::kAttentionScores ||
         hook == Hook::kAttentionProbabilities;
}

}  // namespace

Tracer::Tracer(const Phi3& model, absl::Span<const WaveRow> rows)
    : model_(model),
      rows_(rows),
      watches_(kHookCount * (model.spec().num_layers + 1)),
      pending_(rows.size(), 0),
      dropped_(rows.size(), false) {
  for (int row = 0; row < static_cast<int>(rows.size()); ++row) {
    for (const PlannedCapture& capture : rows[row].plan->captures) {
      if (capture.run != rows[row].run) continue;
      Watch watch{.row = row, .capture = &capture};
      if (IsPattern(capture.point.hook)) {
        watch.pattern = std::make_unique<PatternCapture>(
            capture, static_cast<int64_t>(RunOf(row).ids.size()));
      }
      watches_[IndexOf(capture.read_at)].push_back(std::move(watch));
      ++pending_[row];
    }
  }
}

size_t Tracer::IndexOf(HookPoint point) const {
  return static_cast<size_t>(point.layer + 1) * kHookCount +
         static_cast<size_t>(point.hook);
}

const PlannedRun& Tracer::RunOf(int row) const {
  return rows_[row].plan->runs[rows_[row].run];
}

bool Tracer::Wants(HookPoint point) const {
  return !watches_[IndexOf(point)].empty();
}

at::Tensor Tracer::Visit(HookPoint point, at::Tensor value,
                         const TokenLayout& layout) {
  for (const Watch& watch : watches_[IndexOf(point)]) {
    const auto row = std::find_if(
        layout.rows.begin(), layout.rows.end(),
        [&](const TokenLayout::Row& r) { return r.row == watch.row; });
    if (row == layout.rows.end()) continue;
    Deliver(watch, SelectRow(value, *row, *watch.capture));
  }
  return value;
}

bool Tracer::WantsPattern(HookPoint point, const PatternBlock& block) const {
  const std::vector<Watch>& watches = watches_[IndexOf(point)];
  return std::any_of(watches.begin(), watches.end(), [&](const Watch& watch) {
    return watch.row == block.row && watch.pattern->Wants(block);
  });
}

at::Tensor Tracer::VisitPattern(HookPoint point, const PatternBlock& block,
                                at::Tensor value) {
  for (const Watch& watch : watches_[IndexOf(point)]) {
    if (watch.row != block.row || !watch.pattern->Wants(block)) continue;
    watch.pattern->Add(block, value);
    if (watch.pattern->Complete()) Deliver(watch, watch.pattern->Take());
  }
  return value;
}

std::vector<int> Tracer::AfterLayer(int, const TokenLayout& layout) {
  std::vector<int> dropped;
  for (const TokenLayout::Row& row : layout.rows) {
    const WaveRow& wave_row = rows_[row.row];
    wave_row.sink->LayerDone(wave_row.run,
                             static_cast<int64_t>(row.positions.size()));
    if (!wave_row.sink->Cancelled(wave_row.run)) continue;
    dropped_[row.row] = true;
    dropped.push_back(row.row);
  }
  return dropped;
}

void Tracer::Deliver(const Watch& watch, const at::Tensor& selected) {
  const PlannedCapture& capture = *watch.capture;
  const WaveRow& row = rows_[watch.row];
  const bool plain = std::holds_alternative<std::monostate>(capture.reduction);
  const std::vector<at::Tensor> parts =
      Reduce(model_, plain ? selected : selected.contiguous(),
             capture.reduction, SeqDimension(capture.point.hook));
  for (size_t part = 0; part < parts.size(); ++part) {
    const int tensor = capture.first_tensor + static_cast<int>(part);
    const DType dtype = row.plan->tensors[tensor].dtype;
    row.sink->Deliver(tensor, ToHost(parts[part].to(ScalarTypeOf(dtype))));
  }
  --pending_[watch.row];
}

}  // namespace phitap
