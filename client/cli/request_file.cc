#include "client/cli/request_file.h"

#include <fstream>
#include <iostream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/json_util.h"
#include "server/base/field_error.h"

namespace phitap::cli {
namespace {

std::string ReadAll(std::istream& stream) {
  return {std::istreambuf_iterator<char>(stream), {}};
}

}  // namespace

absl::StatusOr<v1::TraceRequest> ReadRequestFile(const std::string& path) {
  std::string text;
  if (path == "-") {
    text = ReadAll(std::cin);
  } else {
    std::ifstream file(path);
    if (!file) {
      return absl::NotFoundError(absl::StrCat("--request: cannot read ", path));
    }
    text = ReadAll(file);
  }
  v1::TraceRequest request;
  const auto parsed =
      google::protobuf::util::JsonStringToMessage(text, &request);
  if (parsed.ok()) return request;
  return InvalidField({.field = absl::StrCat("--request ", path),
                       .problem = std::string(parsed.message()),
                       .valid = "a phitap.v1.TraceRequest as JSON"});
}

}  // namespace phitap::cli
