#include "client/cli/generation_view.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/style.h"
#include "client/cli/text_width.h"

namespace phitap::cli {
namespace {

// A column narrower than this is not worth reading.
constexpr int kNarrowestColumn = 30;

}  // namespace

GenerationView::GenerationView(std::vector<std::string> runs,
                               const Terminal& terminal, Writer write)
    : runs_(std::move(runs)),
      terminal_(terminal),
      write_(std::move(write)),
      texts_(runs_.size()) {
  if (runs_.size() < 2 || !terminal_.interactive) return;
  // The last column of a terminal may wrap.
  auto columns =
      std::make_unique<GrowingColumns>(runs_.size(), terminal_.width - 1);
  if (columns->column_width() < kNarrowestColumn) return;
  columns_ = std::move(columns);
  WriteTitles();
}

void GenerationView::WriteTitles() {
  std::string line;
  for (const std::string& run : runs_) {
    absl::StrAppend(&line, line.empty() ? "" : "   ",
                    FitTo(run, columns_->column_width(), Align::kLeft));
  }
  write_(Painted(line, {.bold = true}, terminal_.colors) + "\n");
}

void GenerationView::Add(const v1::GeneratedToken& token) {
  const auto run = std::find(runs_.begin(), runs_.end(), token.run());
  if (run == runs_.end()) return;
  const auto index = static_cast<size_t>(run - runs_.begin());
  texts_[index] += token.text();
  if (columns_ != nullptr) {
    write_(columns_->Append(index, token.text()));
  } else if (runs_.size() == 1) {
    write_(terminal_.interactive ? PrintableText(token.text()) : token.text());
  }
}

void GenerationView::Finish() {
  if (columns_ != nullptr) {
    write_(columns_->Finish());
    return;
  }
  if (runs_.size() == 1) {
    if (!absl::EndsWith(texts_.front(), "\n")) write_("\n");
    return;
  }
  for (size_t i = 0; i < runs_.size(); ++i) {
    write_(absl::StrCat(
        i == 0 ? "" : "\n",
        Painted(runs_[i] + ":", {.bold = true}, terminal_.colors), "\n",
        terminal_.interactive ? PrintableText(texts_[i]) : texts_[i], "\n"));
  }
}

}  // namespace phitap::cli
