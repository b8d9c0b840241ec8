#include "server/trace/tracer.h"

#include <algorithm>
#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "server/model/torch_guard.h"
#include "server/model/weights.h"
#include "server/spec/quote.h"
#include "server/trace/host_view.h"
#include "server/trace/part_values.h"
#include "server/trace/reduce.h"
#include "server/trace/select.h"

namespace phitap {
namespace {

// What a write sets a part to.
struct PartEdit {
  at::Tensor value;
  at::Tensor condition;
};

// `take` is the part as it stands; asked for only where it counts.
PartEdit EditOf(const WrittenPart& part, NodeValues& values,
                absl::FunctionRef<at::Tensor()> take) {
  const PlannedWrite& write = *part.write;
  const std::vector<ProgramNode>& nodes = values.plan().nodes;
  const bool conditional = write.condition >= 0;
  const bool needs_current = nodes[write.value].in_write ||
                             (conditional && nodes[write.condition].in_write);
  PartValues scope(values, part, needs_current ? take() : at::Tensor());
  PartEdit edit{.value = scope.Value(write.value)};
  if (conditional) edit.condition = scope.Value(write.condition);
  return edit;
}

}  // namespace

Tracer::Tracer(const Phi3& model, absl::Span<const RowPass> passes)
    : model_(model),
      passes_(passes),
      table_(model.spec(), passes),
      logits_(passes.size()),
      statuses_(passes.size()) {
  for (int row = 0; row < static_cast<int>(passes.size()); ++row) {
    captures_left_.push_back(table_.capture_count(row));
    row_of_run_[{&passes[row].values->memory(), passes[row].row.run}] = row;
  }
}

void Tracer::ForRow(int row, absl::FunctionRef<void()> work) {
  if (!statuses_[row].ok()) return;
  const absl::Status status = RunGuarded([&] {
    work();
    return absl::OkStatus();
  });
  if (!status.ok()) statuses_[row] = status;
}

Tracer::PointVisit Tracer::Begin(HookPoint point, at::Tensor value,
                                 const TokenLayout& layout) {
  PointVisit visit{.visits = table_.At(point),
                   .matrix = EditedMatrix(std::move(value))};
  visit.waiting.assign(visit.visits.size(), nullptr);
  for (const TokenLayout::Row& lines : layout.rows) {
    const auto found = std::lower_bound(
        visit.visits.begin(), visit.visits.end(), lines.row,
        [](const RowVisit& v, int row) { return v.row < row; });
    if (found == visit.visits.end() || found->row != lines.row) continue;
    if (!statuses_[lines.row].ok()) continue;
    visit.waiting[found - visit.visits.begin()] = &lines;
  }
  return visit;
}

at::Tensor Tracer::Visit(HookPoint point, at::Tensor value,
                         const TokenLayout& layout) {
  PointVisit visit = Begin(point, std::move(value), layout);
  for (size_t v = 0; v < visit.visits.size(); ++v) {
    if (visit.waiting[v] == nullptr) continue;
    const RowVisit& row = visit.visits[v];
    ForRow(row.row, [&] {
      for (const Watch& watch : row.before) {
        Watched(watch, row.row,
                SelectRow(visit.matrix.value(), *visit.waiting[v],
                          watch.point.hook, *watch.selection));
      }
    });
  }
  for (size_t v = 0; v < visit.visits.size(); ++v) TakeInOrder(visit, v);
  return visit.matrix.value();
}

void Tracer::TakeInOrder(PointVisit& point, size_t visit) {
  std::vector<size_t> chain = {visit};
  while (!chain.empty()) {
    const size_t next = chain.back();
    const int sooner =
        point.waiting[next] == nullptr ? -1 : SoonerThan(point, next);
    // Longer than there are visits: they wait for each other, and the first
    // that is taken fails for want of what it reads.
    if (sooner >= 0 && chain.size() <= point.visits.size()) {
      chain.push_back(sooner);
      continue;
    }
    Take(point, next);
    chain.pop_back();
  }
}

int Tracer::SoonerThan(const PointVisit& point, size_t visit) const {
  const RowVisit& row = point.visits[visit];
  NodeValues& values = *passes_[row.row].values;
  for (const int write : row.writes) {
    for (const int read :
         values.MissingReads(values.memory().index().external_inputs(write))) {
      const auto& planned =
          std::get<RunRead>(values.plan().nodes[read].operation);
      const auto other = row_of_run_.find({&values.memory(), planned.run});
      if (other == row_of_run_.end() || other->second == row.row) continue;
      const auto found = std::lower_bound(
          point.visits.begin(), point.visits.end(), other->second,
          [](const RowVisit& v, int r) { return v.row < r; });
      if (found == point.visits.end() || found->row != other->second) continue;
      const auto index = found - point.visits.begin();
      if (point.waiting[index] != nullptr) return static_cast<int>(index);
    }
  }
  return -1;
}

void Tracer::Take(PointVisit& point, size_t visit) {
  const TokenLayout::Row* lines = std::exchange(point.waiting[visit], nullptr);
  if (lines == nullptr) return;
  const RowVisit& row = point.visits[visit];
  const RowPass& pass = passes_[row.row];
  if (!HasInputs(row.row, row.writes)) return;
  ForRow(row.row, [&] {
    for (const int write : row.writes) {
      Apply(write, pass, *lines, point.matrix);
    }
    for (const Watch& watch : row.after) {
      Watched(watch, row.row,
              SelectRow(point.matrix.value(), *lines, watch.point.hook,
                        *watch.selection));
    }
    if (row.chooses_token && !lines->positions.empty()) {
      const auto last = static_cast<int64_t>(lines->positions.size()) - 1;
      logits_[row.row] =
          point.matrix.value().select(0, lines->begin + last).clone();
    }
  });
}

void Tracer::Apply(int write, const RowPass& pass,
                   const TokenLayout::Row& lines, EditedMatrix& matrix) const {
  const PlannedWrite& planned = pass.row.plan->writes[write];
  for (const WrittenPart& part : PartsOf(planned, lines, pass.sequence)) {
    const PartEdit edit =
        EditOf(part, *pass.values, [&] { return matrix.Take(part); });
    matrix.Put(part, edit.value, edit.condition);
  }
}

void Tracer::Apply(int write, const RowPass& pass, const PatternBlock& block,
                   EditedPattern& pattern) const {
  const PlannedWrite& planned = pass.row.plan->writes[write];
  for (const WrittenPart& part : PartsOf(planned, block, pass.sequence)) {
    const PartEdit edit =
        EditOf(part, *pass.values, [&] { return pattern.Take(part); });
    pattern.Put(part, pass.sequence, edit.value, edit.condition);
  }
}

bool Tracer::WantsPattern(HookPoint point, const PatternBlock& block) const {
  const std::vector<RowVisit>& visits = table_.At(point);
  const auto visit =
      std::lower_bound(visits.begin(), visits.end(), block.row,
                       [](const RowVisit& v, int row) { return v.row < row; });
  if (visit == visits.end() || visit->row != block.row) return false;
  if (!statuses_[block.row].ok()) return false;
  if (!visit->writes.empty()) return true;
  const auto wants = [&](const Watch& watch) {
    return watch.pattern->Wants(block);
  };
  return std::any_of(visit->before.begin(), visit->before.end(), wants) ||
         std::any_of(visit->after.begin(), visit->after.end(), wants);
}

at::Tensor Tracer::VisitPattern(HookPoint point, const PatternBlock& block,
                                at::Tensor value) {
  std::vector<RowVisit>& visits = table_.At(point);
  RowVisit& row =
      *std::lower_bound(visits.begin(), visits.end(), block.row,
                        [](const RowVisit& v, int r) { return v.row < r; });
  EditedPattern pattern(std::move(value));
  ForRow(row.row, [&] { WatchBlock(row.before, block, pattern.value()); });
  if (!HasInputs(row.row, row.writes)) return pattern.value();
  ForRow(row.row, [&] {
    for (const int write : row.writes) {
      Apply(write, passes_[row.row], block, pattern);
    }
    WatchBlock(row.after, block, pattern.value());
  });
  return pattern.value();
}

void Tracer::WatchBlock(std::vector<Watch>& watches, const PatternBlock& block,
                        const at::Tensor& value) {
  for (Watch& watch : watches) {
    if (!watch.pattern->Wants(block)) continue;
    watch.pattern->Add(block, value);
    if (watch.pattern->Complete()) {
      Watched(watch, block.row, watch.pattern->Take());
    }
  }
}

std::vector<int> Tracer::AfterLayer(int, const TokenLayout& layout) {
  std::vector<int> dropped;
  for (const TokenLayout::Row& lines : layout.rows) {
    const WaveRun& row = passes_[lines.row].row;
    absl::Status& status = statuses_[lines.row];
    row.sink->LayerDone(row.run, static_cast<int64_t>(lines.positions.size()));
    if (status.ok() && row.sink->Cancelled(row.run)) {
      status = absl::CancelledError("nobody waits for the run any more");
    }
    if (!status.ok()) dropped.push_back(lines.row);
  }
  return dropped;
}

void Tracer::Watched(const Watch& watch, int row, const at::Tensor& selected) {
  if (watch.node >= 0) {
    passes_[row].values->PutRead(watch.node, ToKeep(selected));
  } else {
    Deliver(watch, row, selected);
  }
}

void Tracer::Deliver(const Watch& watch, int row, const at::Tensor& selected) {
  const PlannedCapture& capture = *watch.capture;
  const RowPass& pass = passes_[row];
  const bool plain = std::holds_alternative<std::monostate>(capture.reduction);
  const std::vector<at::Tensor> parts =
      Reduce(model_, plain ? selected : selected.contiguous(),
             capture.reduction, SeqDimension(capture.point.hook));
  for (size_t part = 0; part < parts.size(); ++part) {
    const int tensor = watch.first_tensor + static_cast<int>(part);
    const DType dtype = pass.row.plan->tensors[tensor].dtype;
    pass.values->memory().Deliver(*pass.row.sink, tensor,
                                  ToHost(parts[part].to(ScalarTypeOf(dtype))));
  }
  --captures_left_[row];
}

bool Tracer::HasInputs(int row, absl::Span<const int> writes) {
  if (!statuses_[row].ok()) return false;
  const NodeValues& values = *passes_[row].values;
  for (const int write : writes) {
    const std::vector<int> missing = values.MissingReads(
        passes_[row].values->memory().index().external_inputs(write));
    if (missing.empty()) continue;
    statuses_[row] = WhyMissing(row, missing.front());
    return false;
  }
  return true;
}

absl::Status Tracer::WhyMissing(int row, int read) const {
  NodeValues& values = *passes_[row].values;
  const ProgramNode& node = values.plan().nodes[read];
  const int run = std::get<RunRead>(node.operation).run;
  const std::string label = Quoted(values.plan().runs[run].label);
  const auto other = row_of_run_.find({&values.memory(), run});
  if (other != row_of_run_.end() && !statuses_[other->second].ok()) {
    const absl::Status& why = statuses_[other->second];
    return absl::IsCancelled(why)
               ? absl::CancelledError(absl::StrCat(
                     "run ", label, ", which it reads, was cancelled"))
               : absl::FailedPreconditionError(absl::StrCat(
                     "run ", label,
                     ", which it reads, failed: ", std::string(why.message())));
  }
  return absl::InternalError(
      absl::StrCat(node.field, ": the value of run ", label,
                   " that a write needs was not there in time"));
}

}  // namespace phitap
