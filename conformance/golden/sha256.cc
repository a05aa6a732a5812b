#include "conformance/golden/sha256.h"

#include <algorithm>
#include <bit>
#include <fstream>
#include <vector>

#include "reference/base/error.h"
#include "reference/base/text.h"

namespace bdlm {
namespace {

/// The first 32 bits of the fractions of the cube roots of the first 64 primes.
constexpr std::array<uint32_t, 64> round_constants{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

}  // namespace

void Sha256::block(const uint8_t* bytes) {
  std::array<uint32_t, 64> w{};
  for (size_t i = 0; i < 16; ++i) {
    w[i] = uint32_t{bytes[4 * i]} << 24 | uint32_t{bytes[4 * i + 1]} << 16 |
           uint32_t{bytes[4 * i + 2]} << 8 | uint32_t{bytes[4 * i + 3]};
  }
  for (size_t i = 16; i < 64; ++i) {
    const uint32_t a = w[i - 15];
    const uint32_t b = w[i - 2];
    w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3)) + w[i - 7] +
           (std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10));
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (size_t i = 0; i < 64; ++i) {
    const uint32_t t1 = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                        ((e & f) ^ (~e & g)) + round_constants[i] + w[i];
    const uint32_t t2 =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  const std::array<uint32_t, 8> add{a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i) {
    state_[i] += add[i];
  }
}

void Sha256::add(const void* data, size_t bytes) {
  const auto* at = static_cast<const uint8_t*>(data);
  while (bytes > 0) {
    const size_t held = bytes_ % rest_.size();
    const size_t take = std::min(bytes, rest_.size() - held);
    std::copy_n(at, take, rest_.begin() + static_cast<std::ptrdiff_t>(held));
    bytes_ += take;
    at += take;
    bytes -= take;
    if (held + take == rest_.size()) {
      block(rest_.data());
    }
  }
}

std::string Sha256::hex() {
  const uint64_t bits = bytes_ * 8;
  const uint8_t one = 0x80;
  add(&one, 1);
  const uint8_t zero = 0;
  while (bytes_ % rest_.size() != 56) {
    add(&zero, 1);
  }
  for (int i = 7; i >= 0; --i) {
    const auto byte = static_cast<uint8_t>(bits >> (8 * i));
    add(&byte, 1);
  }
  std::string out;
  for (const uint32_t word : state_) {
    for (int i = 7; i >= 0; --i) {
      out += "0123456789abcdef"[word >> (4 * i) & 15];
    }
  }
  return out;
}

std::string sha256_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  require<FileError>(file.good(), printable(path, 400), ": cannot open");
  Sha256 digest;
  std::vector<char> chunk(size_t{1} << 16);
  while (file) {
    file.read(chunk.data(), static_cast<std::streamsize>(chunk.size()));
    digest.add(chunk.data(), static_cast<size_t>(file.gcount()));
  }
  require<FileError>(file.eof(), printable(path, 400), ": cannot be read to its end");
  return digest.hex();
}

}  // namespace bdlm
