#include "client/cpp/safetensors_writer.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "server/base/status_macros.h"

namespace phitap::client {
namespace {

// The data begins at a multiple of it, as the format's own writer has it.
constexpr size_t kHeaderAlignmentBytes = 8;

absl::string_view FormatName(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "F32";
    case DType::kF16:
      return "F16";
    case DType::kBF16:
      return "BF16";
    case DType::kI64:
      return "I64";
    case DType::kI32:
      return "I32";
    case DType::kBool:
      return "BOOL";
  }
  return "";
}

std::string HeaderOf(const std::vector<NamedTensor>& tensors,
                     const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header;
  if (!metadata.empty()) header["__metadata__"] = metadata;
  size_t offset = 0;
  for (const NamedTensor& tensor : tensors) {
    const size_t end = offset + tensor.value.bytes.size();
    header[tensor.name] = {
        {"dtype", std::string(FormatName(tensor.value.dtype))},
        {"shape", tensor.value.shape},
        {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump(
      -1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  const size_t padding =
      (kHeaderAlignmentBytes - text.size() % kHeaderAlignmentBytes) %
      kHeaderAlignmentBytes;
  return text.append(padding, ' ');
}

// A file that is deleted unless it is renamed into place.
class PendingFile {
 public:
  explicit PendingFile(absl::string_view path)
      : path_(path), pending_(absl::StrCat(path, ".", getpid(), ".part")) {
    file_ = std::fopen(pending_.c_str(), "wb");
  }
  ~PendingFile() {
    if (file_ != nullptr) std::fclose(file_);
    if (!pending_.empty()) std::remove(pending_.c_str());
  }
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;

  absl::Status Write(const void* bytes, size_t size) {
    if (file_ == nullptr || std::fwrite(bytes, 1, size, file_) != size) {
      return Failure();
    }
    return absl::OkStatus();
  }

  absl::Status MoveIntoPlace() {
    if (file_ == nullptr || std::fflush(file_) != 0 ||
        fsync(fileno(file_)) != 0 ||
        std::rename(pending_.c_str(), path_.c_str()) != 0) {
      return Failure();
    }
    pending_.clear();
    return absl::OkStatus();
  }

 private:
  absl::Status Failure() const {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path_));
  }

  const std::string path_;
  std::string pending_;
  std::FILE* file_ = nullptr;
};

// Labels that stand for more than one hook point.
std::set<std::string> SharedLabels(const Trace& trace) {
  std::map<std::string, std::set<std::string>> hook_points;
  for (const TracedTensor& tensor : trace.tensors) {
    hook_points[tensor.descriptor.label()].insert(
        tensor.descriptor.hook_point());
  }
  std::set<std::string> shared;
  for (const auto& [label, points] : hook_points) {
    if (points.size() > 1) shared.insert(label);
  }
  return shared;
}

std::string RunsAsJson(const Trace& trace) {
  nlohmann::ordered_json runs = nlohmann::ordered_json::array();
  for (const TracedRun& run : trace.runs) {
    nlohmann::ordered_json generated = nlohmann::ordered_json::array();
    for (const GeneratedToken& token : run.generated) {
      generated.push_back(token.id);
    }
    runs.push_back({{"label", run.label},
                    {"ids", run.ids},
                    {"texts", run.texts},
                    {"generated_ids", std::move(generated)}});
  }
  return runs.dump(-1, ' ', false,
                   nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

absl::StatusOr<std::vector<std::string>> TensorNames(const Trace& trace) {
  const std::set<std::string> shared = SharedLabels(trace);
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const TracedTensor& tensor : trace.tensors) {
    const v1::TensorDescriptor& key = tensor.descriptor;
    std::string name =
        trace.runs.size() > 1 && !key.run().empty() ? key.run() + "/" : "";
    absl::StrAppend(&name, key.label());
    if (shared.count(key.label()) != 0) {
      absl::StrAppend(&name, "/", key.hook_point());
    }
    if (!key.part().empty()) absl::StrAppend(&name, "/", key.part());
    if (key.step() > 0) absl::StrAppend(&name, "/step-", key.step());
    if (!seen.insert(name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("two tensors would both be named `", name, "`"));
    }
    names.push_back(std::move(name));
  }
  return names;
}

absl::Status WriteSafetensors(
    absl::string_view path, const std::vector<NamedTensor>& tensors,
    const std::map<std::string, std::string>& metadata) {
  const std::string header = HeaderOf(tensors, metadata);
  const uint64_t header_bytes = header.size();
  PendingFile file(path);
  RETURN_IF_ERROR(file.Write(&header_bytes, sizeof(header_bytes)));
  RETURN_IF_ERROR(file.Write(header.data(), header.size()));
  for (const NamedTensor& tensor : tensors) {
    RETURN_IF_ERROR(
        file.Write(tensor.value.bytes.data(), tensor.value.bytes.size()));
  }
  return file.MoveIntoPlace();
}

absl::Status WriteTrace(absl::string_view path, const Trace& trace) {
  ASSIGN_OR_RETURN(std::vector<std::string> names, TensorNames(trace));
  std::vector<NamedTensor> tensors;
  for (size_t i = 0; i < names.size(); ++i) {
    tensors.push_back(
        {.name = std::move(names[i]), .value = trace.tensors[i].value});
  }
  const v1::TraceHeader& header = trace.header;
  return WriteSafetensors(
      path, tensors,
      {{"format", "phitap-trace-v1"},
       {"model", header.model()},
       {"weights_digest", header.weights_digest()},
       {"numerics", v1::Numerics_Name(header.numerics())},
       {"attention", v1::Attention_Name(header.attention())},
       {"numerics_fingerprint", header.numerics_fingerprint()},
       {"request_id", header.request_id()},
       {"runs", RunsAsJson(trace)}});
}

}  // namespace phitap::client
