// The server's log: lines of a message and named fields, to standard error.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_OBSERVE_LOG_H_
#define PHITAP_SERVER_OBSERVE_LOG_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <variant>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace phitap {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
enum class LogFormat { kText, kJson };

// Every field that a line may have. What a caller sent (prompts, ids, texts,
// labels) is logged where --log-prompts asks for it alone, what the model
// answered never.
namespace log_field {
inline constexpr absl::string_view kAddress = "address";
inline constexpr absl::string_view kBound = "bound";
inline constexpr absl::string_view kBytes = "bytes";
inline constexpr absl::string_view kCaller = "caller";
inline constexpr absl::string_view kCallerBytes = "caller_bytes";
inline constexpr absl::string_view kCode = "code";
inline constexpr absl::string_view kComputeSeconds = "compute_seconds";
inline constexpr absl::string_view kDeliverySeconds = "delivery_seconds";
inline constexpr absl::string_view kDigest = "weights_digest";
inline constexpr absl::string_view kDtype = "dtype";
inline constexpr absl::string_view kError = "error";
inline constexpr absl::string_view kField = "field";
inline constexpr absl::string_view kFingerprint = "numerics_fingerprint";
inline constexpr absl::string_view kFreeBytes = "free_bytes";
inline constexpr absl::string_view kIdentity = "identity";
inline constexpr absl::string_view kMethod = "method";
inline constexpr absl::string_view kMetricsAddress = "metrics_address";
inline constexpr absl::string_view kModel = "model";
inline constexpr absl::string_view kModelBytes = "model_bytes";
inline constexpr absl::string_view kPeer = "peer";
inline constexpr absl::string_view kPlanSeconds = "plan_seconds";
inline constexpr absl::string_view kPrompt = "prompt";
inline constexpr absl::string_view kQueueSeconds = "queue_seconds";
inline constexpr absl::string_view kReason = "reason";
inline constexpr absl::string_view kRefusal = "refusal";
inline constexpr absl::string_view kRequest = "request";
inline constexpr absl::string_view kRootBytes = "root_bytes";
inline constexpr absl::string_view kRun = "run";
inline constexpr absl::string_view kRuns = "runs";
inline constexpr absl::string_view kSeconds = "seconds";
inline constexpr absl::string_view kStage = "stage";
inline constexpr absl::string_view kTensorBytes = "tensor_bytes";
inline constexpr absl::string_view kTensors = "tensors";
inline constexpr absl::string_view kThreads = "threads";
inline constexpr absl::string_view kTokens = "tokens";
inline constexpr absl::string_view kTraceId = "trace_id";
inline constexpr absl::string_view kUndeliveredBytes = "undelivered_bytes";
inline constexpr absl::string_view kVersion = "version";
inline constexpr absl::string_view kWarning = "warning";
inline constexpr absl::string_view kWaveBytes = "wave_bytes";
inline constexpr absl::string_view kWorkspaceBytes = "workspace_bytes";
}  // namespace log_field

struct LogField {
  absl::string_view name;
  std::variant<std::string, int64_t, double> value;
};

struct LogOptions {
  // Lines below it are left out.
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kText;
};

// Call once, before other threads log. Until then lines are text from kInfo.
void SetUpLog(const LogOptions& options);

// From now on. Thread-safe.
void SetLogLevel(LogLevel level);

// Writes one line. Thread-safe.
void Log(LogLevel level, absl::string_view message,
         std::initializer_list<LogField> fields = {});

struct LogLine {
  absl::Time time;
  LogLevel level = LogLevel::kInfo;
  absl::string_view message;
  absl::Span<const LogField> fields;
};

// The line as it is written, without a newline: `TIME LEVEL MESSAGE name=value
// …` (values with spaces or quotes as JSON strings, empty ones left out), or
// one JSON object.
std::string Format(const LogLine& line, LogFormat format);

}  // namespace phitap

#endif  // PHITAP_SERVER_OBSERVE_LOG_H_
