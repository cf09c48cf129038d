#include "src/files/sha256.h"

#include <openssl/evp.h>

#include "src/base/check.h"

namespace lockstep {
namespace {

void expect_done(int done) {
  require(done == 1, "libcrypto computes no SHA-256. Check the OpenSSL configuration.");
}

}  // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
  expect_done(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr));
}

void Sha256::add(std::string_view bytes) {
  expect_done(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()));
}

std::string Sha256::digest() {
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  expect_done(EVP_DigestFinal_ex(context_.get(), bytes, &size));
  return fmt::format("{:02x}", fmt::join(bytes, bytes + size, ""));
}

}  // namespace lockstep
