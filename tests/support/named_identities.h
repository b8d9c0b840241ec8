// A file of identities for tests, and calls in their names.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_SUPPORT_NAMED_IDENTITIES_H_
#define PHITAP_TESTS_SUPPORT_NAMED_IDENTITIES_H_

#include <grpcpp/client_context.h>
#include <sys/stat.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "server/identity/token.h"
#include "tests/support/checkpoint_files.h"

namespace phitap {

class NamedIdentities {
 public:
  // Adds one, or gives it other roles and quotas; it gets a token. `more` is
  // added as it is: {"quotas": …}, {"certificates": …}.
  void Add(const std::string& name, const std::vector<std::string>& roles,
           nlohmann::json more = nlohmann::json::object()) {
    if (tokens_.count(name) == 0) tokens_[name] = NewToken();
    more["name"] = name;
    more["roles"] = roles;
    more["tokens"] = {TokenHash::Of(tokens_[name])->text()};
    identities_[name] = more;
    Write();
  }
  void Remove(const std::string& name) {
    identities_.erase(name);
    Write();
  }

  std::string path() const { return folder_.File("tokens.json"); }
  const std::string& token(const std::string& name) const {
    return tokens_.at(name);
  }
  // Makes a call that of `name`.
  void Sign(const std::string& name, grpc::ClientContext& context) const {
    context.AddMetadata("authorization", "Bearer " + token(name));
  }

 private:
  void Write() {
    nlohmann::json list = nlohmann::json::array();
    for (const auto& [name, identity] : identities_) list.push_back(identity);
    folder_.Write("tokens.json", nlohmann::json{{"identities", list}}.dump());
    chmod(path().c_str(), 0600);
  }

  TempFolder folder_;
  std::map<std::string, std::string> tokens_;
  std::map<std::string, nlohmann::json> identities_;
};

}  // namespace phitap

#endif  // PHITAP_TESTS_SUPPORT_NAMED_IDENTITIES_H_
