// SHA-256, the hash that names the weights of a run.
#pragma once

#include <memory>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace lockstep {

/// The hash of bytes that arrive in parts, by libcrypto. Throws Error if libcrypto has no SHA-256.
class Sha256 {
 public:
  Sha256();

  void add(std::string_view bytes);
  /// 64 hexadecimal digits. Only once, as the last call.
  std::string digest();

 private:
  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> context_;
};

}  // namespace lockstep
