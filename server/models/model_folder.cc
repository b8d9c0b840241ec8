#include "server/models/model_folder.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/field_error.h"
#include "server/spec/quote.h"

namespace phitap {
namespace {

namespace fs = std::filesystem;

constexpr int kNamesToOffer = 5;
constexpr char kField[] = "path";

absl::Status Refuse(absl::string_view relative, absl::string_view problem) {
  return InvalidField(
      {.field = kField,
       .problem = absl::StrCat(Quoted(relative), " ", problem),
       .valid = "a folder below the server's model folder, relative to it"});
}

// Whether `path` is below `folder`; both without `..` and symbolic links.
bool IsBelow(const fs::path& path, const fs::path& folder) {
  const auto [in_folder, in_path] =
      std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return in_folder == folder.end() && in_path != path.end();
}

}  // namespace

absl::Status ModelFolder::Check() const {
  std::error_code error;
  if (path_.empty() || fs::is_directory(path_, error)) return absl::OkStatus();
  return InvalidField({.field = absl::StrCat("--model-folder ", path_),
                       .problem = error ? error.message() : "is no folder",
                       .valid = "a folder of checkpoint folders"});
}

absl::StatusOr<std::string> ModelFolder::Resolve(
    absl::string_view relative) const {
  if (path_.empty()) {
    return InvalidField(
        {.field = kField,
         .problem = "the server was started without --model-folder, so that "
                    "nothing can be loaded"},
        absl::StatusCode::kFailedPrecondition);
  }
  const fs::path asked{std::string(relative)};
  if (relative.find('\0') != absl::string_view::npos || asked.empty() ||
      asked.is_absolute()) {
    return Refuse(relative, "is not relative");
  }
  for (const fs::path& part : asked) {
    if (part == "..") return Refuse(relative, "is not below the model folder");
  }
  std::error_code error;
  const fs::path folder = fs::canonical(path_, error);
  const fs::path path =
      error ? fs::path() : fs::canonical(folder / asked, error);
  if (!error && !IsBelow(path, folder)) {
    return Refuse(relative, "is not below the model folder");
  }
  if (!error && fs::is_directory(path, error)) return path.string();
  std::vector<std::string> names;
  for (const ModelSource& source : List()) names.push_back(source.name);
  return InvalidField({.field = kField,
                       .problem = absl::StrCat(
                           "the model folder has no folder ", Quoted(relative)),
                       .valid = absl::StrJoin(
                           NearestNames(relative, names, kNamesToOffer), ", ")},
                      absl::StatusCode::kNotFound);
}

std::vector<ModelSource> ModelFolder::List() const {
  std::vector<ModelSource> sources;
  if (path_.empty()) return sources;
  std::error_code error;
  const fs::path folder = fs::canonical(path_, error);
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code own;
    const fs::path path = fs::canonical(entry->path(), own);
    if (own || !IsBelow(path, folder) ||
        !fs::is_regular_file(path / "config.json", own)) {
      continue;
    }
    sources.push_back(
        {.name = entry->path().filename().string(), .path = path.string()});
  }
  std::sort(sources.begin(), sources.end(),
            [](const ModelSource& a, const ModelSource& b) {
              return a.name < b.name;
            });
  return sources;
}

}  // namespace phitap
