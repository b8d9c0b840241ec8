#include "client/cli/progress_line.h"

#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/number_text.h"
#include "client/cli/text_width.h"

namespace phitap::cli {
namespace {

constexpr absl::Duration kPatience = absl::Milliseconds(500);
constexpr absl::Duration kBetweenUpdates = absl::Milliseconds(100);
constexpr int64_t kPercent = 100;
// To the start of the line, and wipes out the rest of it.
constexpr char kStartOver[] = "\r\x1b[K";

}  // namespace

std::string ProgressText(const client::TraceProgress& progress) {
  std::string text;
  if (progress.total_bytes > 0) {
    text = absl::StrFormat(
        "%3d%%  %s of %s  %s",
        kPercent * progress.received_bytes / progress.total_bytes,
        BytesText(progress.received_bytes), BytesText(progress.total_bytes),
        RateText(progress.bytes_per_second));
  }
  if (!progress.server.has_value()) return text;
  const v1::Progress& server = *progress.server;
  if (server.queue_position() > 0) {
    absl::StrAppend(&text, "  ", server.queue_position(), " ahead of it");
  } else if (server.layers_total() > 0) {
    absl::StrAppend(&text, "  layer ", server.layers_done(), " of ",
                    server.layers_total());
  }
  return text;
}

ProgressLine::~ProgressLine() {
  if (shown_at_ > absl::ZeroDuration()) std::cerr << kStartOver << std::flush;
}

void ProgressLine::Update(const client::TraceProgress& progress) {
  Show(ProgressText(progress), progress.elapsed);
}

void ProgressLine::Show(const std::string& text, absl::Duration elapsed) {
  if (!terminal_.interactive || elapsed < kPatience ||
      elapsed < shown_at_ + kBetweenUpdates) {
    return;
  }
  shown_at_ = elapsed;
  std::cerr << kStartOver << CutTo(text, terminal_.width - 1) << std::flush;
}

}  // namespace phitap::cli
