#include "server/server_flags.h"

#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/core_count.h"
#include "server/flag_targets.h"
#include "server/observe_flags.h"
#include "server/security_flags.h"

namespace phitap {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 50;
// gRPC counts message sizes in an int.
constexpr int64_t kMaxMessageBytes = std::numeric_limits<int>::max();
constexpr int64_t kMaxCount = 1 << 30;

absl::StatusOr<std::string> ParseListen(const FlagText& given) {
  const size_t colon = given.text.rfind(':');
  const bool unix_socket = absl::StartsWith(given.text, "unix:");
  if (unix_socket && given.text.size() > 5) return given.text;
  if (given.text == kListenOnPassedSockets) return given.text;
  if (!unix_socket && colon != std::string::npos && colon > 0 &&
      ParseInt({given.flag, given.text.substr(colon + 1)},
               {.first = 0, .last = 65535})
          .ok()) {
    return given.text;
  }
  return InvalidFlag(given,
                     "HOST:PORT with port 0 (a free one) to 65535, "
                     "unix:PATH, or systemd (sockets that it has passed)");
}

absl::Status CheckDevice(const FlagText& given) {
  if (given.text == "cpu") return absl::OkStatus();
  if (given.text != "cuda") return InvalidFlag(given, "cpu");
  return InvalidField(
      {.field = given.flag,
       .problem = "\"cuda\": this version computes on the CPU only",
       .valid = "cpu"});
}

absl::Status AddModel(const FlagText& given, std::vector<ModelSource>& models) {
  const std::vector<std::string> parts =
      absl::StrSplit(given.text, absl::MaxSplits('=', 1));
  if (parts.size() != 2 || parts[0].empty() || parts[1].empty()) {
    return InvalidFlag(given, "NAME=PATH, e.g. phi=/models/phi");
  }
  for (const ModelSource& model : models) {
    if (model.name != parts[0]) continue;
    return InvalidField(
        {.field = given.flag,
         .problem = absl::StrCat("the name \"", parts[0], "\" is used twice"),
         .valid = "a different name for each model"});
  }
  models.push_back({.name = parts[0], .path = parts[1]});
  return absl::OkStatus();
}

// What is loaded, where it computes and where it listens.
void AddServingFlags(ServerConfig& config, std::deque<Flag>& flags) {
  flags.push_back({"--model",
                   "NAME=PATH",
                   "A checkpoint folder and what requests call it; repeatable",
                   {},
                   [&config](const FlagText& given) {
                     return AddModel(given, config.models);
                   }});
  flags.push_back({"--model-folder",
                   "FOLDER",
                   "Whose sub-folders administrators may load as models, and "
                   "unload, while the server runs; then --model may be left "
                   "out",
                   {""},
                   Into(config.model_folder, ParseAnything)});
  flags.push_back({"--listen",
                   "HOST:PORT|unix:PATH|systemd",
                   "Where to listen; port 0 takes a free one, systemd the "
                   "sockets that it passes",
                   {"127.0.0.1:7777"},
                   Into(config.rpc.listen, ParseListen)});
  flags.push_back({"--address-file",
                   "FILE",
                   "Where to write the address once the models are ready",
                   {""},
                   Into(config.address_file, ParseAnything)});
  flags.push_back({"--state-dir",
                   "FOLDER",
                   "Where named tensors are kept over a restart; without it "
                   "they are in memory alone",
                   {""},
                   Into(config.tensors.state_dir, ParseAnything)});
  flags.push_back(
      {"--device", "cpu|cuda", "Where to compute", {"cpu"}, CheckDevice});
  flags.push_back({"--dtype",
                   "auto|float32|float16|bfloat16",
                   "Element type to compute in; auto takes the checkpoint's",
                   {"auto"},
                   Into(config.dtype, OneOf<std::optional<DType>>(
                                          {{"auto", std::nullopt},
                                           {"float32", DType::kF32},
                                           {"float16", DType::kF16},
                                           {"bfloat16", DType::kBF16}}))});
  flags.push_back(
      {"--weights",
       "map|copy",
       "Use the files in place, or read them into memory",
       {"map"},
       Into(config.weights,
            OneOf<WeightStorage>({{"map", WeightStorage::kMap},
                                  {"copy", WeightStorage::kCopy}}))});
  flags.push_back(
      {"--pack-weights",
       "auto|on|off",
       "Hold bfloat16 matrices once more, as products read them fastest; auto: "
       "where they take at most half of the memory that is free",
       {"auto"},
       Into(config.packing, OneOf<std::optional<WeightPacking>>(
                                {{"auto", std::nullopt},
                                 {"on", WeightPacking::kPacked},
                                 {"off", WeightPacking::kNone}}))});
  flags.push_back({"--threads",
                   "N",
                   "Threads of the forward; default: the physical cores",
                   {absl::StrCat(PhysicalCoreCount())},
                   Into(config.threads, IntIn(1, 1024))});
}

void AddStopFlags(ServerConfig& config, std::deque<Flag>& flags) {
  flags.push_back({"--drain-grace",
                   "DURATION",
                   "How long requests are still accepted once the server has "
                   "been told to stop and says NOT_SERVING: give those who "
                   "send them the time to notice, in Kubernetes 5s to 10s",
                   {"0s"},
                   Into(config.stop.grace, ParseDurationOrZero)});
  flags.push_back({"--drain-timeout",
                   "DURATION",
                   "How long what was accepted may then go on; what is left "
                   "is cancelled",
                   {"1h"},
                   Into(config.stop.drain_timeout, ParseDuration)});
}

void AddLimitFlags(ServerConfig& config, std::deque<Flag>& flags) {
  flags.push_back({"--max-wave-tokens",
                   "N",
                   "Tokens of one forward pass",
                   {"8192"},
                   Into(config.schedule.max_wave_tokens, IntIn(1, kMaxCount))});
  flags.push_back(
      {"--max-queued-requests",
       "N",
       "Traces that wait; more are refused",
       {"256"},
       Into(config.schedule.queue.max_requests, IntIn(1, kMaxCount))});
  flags.push_back(
      {"--max-caller-requests",
       "N",
       "Of these, one caller's (an identity, else a connection); 0: half of "
       "them",
       {"0"},
       Into(config.schedule.queue.max_caller_requests, IntIn(0, kMaxCount))});
  flags.push_back(
      {"--share-across-callers",
       "on|off",
       "Whether runs of different callers share what they have in common: then "
       "counts and times tell one about another's prompts",
       {"off"},
       Into(config.schedule.sharing,
            OneOf<CallerSharing>({{"on", CallerSharing::kAcrossCallers},
                                  {"off", CallerSharing::kWithinCaller}}))});
  flags.push_back(
      {"--max-run-tokens",
       "N",
       "Tokens of one prompt",
       {"131072"},
       Into(config.limits.plan.max_run_tokens, IntIn(1, kMaxCount))});
  flags.push_back(
      {"--max-request-bytes",
       "SIZE",
       "Bytes of one request",
       {"64MiB"},
       Into(config.rpc.max_request_bytes, BytesUpTo(kMaxMessageBytes))});
  flags.push_back(
      {"--max-response-bytes",
       "SIZE",
       "Bytes of the tensors of one answer",
       {"4GiB"},
       Into(config.limits.plan.max_response_bytes, BytesUpTo(kMaxBytes))});
  flags.push_back(
      {"--max-working-bytes",
       "SIZE",
       "Bytes that one trace holds besides its answer: values that other runs "
       "read, keys and values of generation, a gradient's graph",
       {"8GiB"},
       Into(config.limits.plan.max_working_bytes, BytesUpTo(kMaxBytes))});
  flags.push_back(
      {"--max-sweep-cells",
       "N",
       "Runs that the sweeps of one trace stand for",
       {"16384"},
       Into(config.limits.plan.max_sweep_cells, IntIn(1, kMaxCount))});
  flags.push_back(
      {"--max-generated-tokens",
       "N",
       "Tokens that one run generates",
       {"32768"},
       Into(config.limits.plan.max_generated_tokens, IntIn(1, kMaxCount))});
  flags.push_back({"--default-deadline",
                   "DURATION",
                   "Of a trace whose client names none",
                   {"10m"},
                   Into(config.limits.default_deadline, ParseDuration)});
  flags.push_back({"--max-deadline",
                   "DURATION",
                   "The longest deadline that a trace gets",
                   {"1h"},
                   Into(config.limits.max_deadline, ParseDuration)});
  flags.push_back({"--stall-timeout",
                   "DURATION",
                   "A stream whose reader takes nothing, or an upload whose "
                   "writer sends nothing, for so long is ended",
                   {"60s"},
                   Into(config.limits.stall_timeout, ParseDuration)});
}

// What is `auto` is decided by the memory that is there: see DivideMemory.
void AddMemoryFlags(ServerConfig& config, std::deque<Flag>& flags) {
  MemoryLimits& memory = config.schedule.memory;
  flags.push_back({"--max-model-bytes",
                   "SIZE|auto",
                   "Bytes of the weights of all models; auto: those of --model "
                   "and, with --model-folder, half of what is free beside them",
                   {"auto"},
                   Into(config.max_model_bytes, BytesOrAuto(kMaxBytes))});
  flags.push_back({"--max-undelivered-bytes",
                   "SIZE|auto",
                   "Bytes of all answers that are queued, computed or not yet "
                   "sent, and of what traces hold between their waves",
                   {"auto"},
                   Into(memory.max_undelivered_bytes, BytesOrAuto(kMaxBytes))});
  flags.push_back({"--max-caller-bytes",
                   "SIZE|auto",
                   "Of these, one caller's; auto: half of them",
                   {"auto"},
                   Into(memory.max_caller_bytes, BytesOrAuto(kMaxBytes))});
  flags.push_back({"--max-workspace-bytes",
                   "SIZE|auto",
                   "Bytes that the forward passes under way work in",
                   {"auto"},
                   Into(memory.max_workspace_bytes, BytesOrAuto(kMaxBytes))});
  flags.push_back({"--max-wave-bytes",
                   "SIZE|auto",
                   "Of these, what one forward pass takes if it can be divided",
                   {"auto"},
                   Into(memory.max_wave_bytes, BytesOrAuto(kMaxBytes))});
  flags.push_back({"--max-root-bytes",
                   "SIZE|auto",
                   "Bytes of what is kept of prompts for later traces",
                   {"auto"},
                   Into(memory.max_root_bytes, BytesOrAuto(kMaxBytes))});
  flags.push_back({"--max-tensor-bytes",
                   "SIZE|auto",
                   "Bytes of all named tensors, and of those being uploaded",
                   {"auto"},
                   [&config](const FlagText& given) -> absl::Status {
                     ASSIGN_OR_RETURN(config.tensors.max_bytes,
                                      ParseBytesOrAuto(given, kMaxBytes));
                     config.limits.max_upload_bytes = config.tensors.max_bytes;
                     return absl::OkStatus();
                   }});
}

}  // namespace

std::deque<Flag> ServerFlags(ServerConfig& config) {
  std::deque<Flag> flags;
  AddServingFlags(config, flags);
  AddStopFlags(config, flags);
  AddSecurityFlags(config, flags);
  AddLimitFlags(config, flags);
  AddMemoryFlags(config, flags);
  AddObserveFlags(config, flags);
  return flags;
}

}  // namespace phitap
