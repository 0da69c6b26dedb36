// The session reads and writes memory only: OpenSSL never blocks and uses no descriptor.
#include "serve/http/tls.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/file.hpp"
#include "base/shell_word.hpp"

namespace peri::serve {

namespace {
constexpr size_t kMaxPem = 1 << 20;

// Only the reason: OpenSSL's full text contains source positions.
std::string reason() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  const char* text = code ? ERR_reason_error_string(code) : nullptr;
  return text ? text : "no reason given";
}

struct Context final : TlsContext {
  explicit Context(const SSL_METHOD* method) : ctx(SSL_CTX_new(method)) {}
  ~Context() override { SSL_CTX_free(ctx); }
  SSL_CTX* const ctx;
};

// Only HTTP/1.1 is supported: a client that offers only other protocols is refused.
int choose_protocol(SSL*, const unsigned char** out, unsigned char* out_size, const unsigned char* in,
                    unsigned int in_size, void*) {
  static constexpr unsigned char kOurs[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
  unsigned char* chosen = nullptr;
  if (SSL_select_next_proto(&chosen, out_size, kOurs, sizeof kOurs, in, in_size) != OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

class Session final : public TlsSession {
 public:
  explicit Session(std::shared_ptr<Context> context) : context_(std::move(context)), ssl_(SSL_new(context_->ctx)) {
    in_ = BIO_new(BIO_s_mem());
    out_ = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl_, in_, out_);
    SSL_set_accept_state(ssl_);
  }
  // Configures a client session. False: OpenSSL refuses the name.
  bool call(const std::string& host, std::string_view protocol) {
    SSL_set_connect_state(ssl_);
    std::string list(1, static_cast<char>(protocol.size()));
    list += protocol;
    bool good = SSL_set_alpn_protos(ssl_, reinterpret_cast<const unsigned char*>(list.data()),
                                    static_cast<unsigned>(list.size())) == 0;
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_), host.c_str()) != 1) {  // a host name, not an address
      ERR_clear_error();
      good = good && SSL_set1_host(ssl_, host.c_str()) == 1 && SSL_set_tlsext_host_name(ssl_, host.c_str()) == 1;
    }
    return good;
  }
  bool ready() override {
    if (failed_ || SSL_is_init_finished(ssl_)) return !failed_;
    const int n = SSL_do_handshake(ssl_);
    return n == 1 || (went(n) && false);
  }
  std::string failure() const override { return why_; }
  std::string refusal() const override { return of_client_ ? why_ : ""; }
  ~Session() override { SSL_free(ssl_); }
  bool feed(std::span<const std::byte> bytes) override {
    return !failed_ && BIO_write(in_, bytes.data(), static_cast<int>(bytes.size())) == static_cast<int>(bytes.size());
  }
  int64_t read(std::span<std::byte> to) override {
    if (failed_) return -1;
    const int n = SSL_read(ssl_, to.data(), static_cast<int>(std::min<size_t>(to.size(), 1 << 30)));
    return n > 0 ? n : went(n) ? 0 : -1;
  }
  bool write(std::span<const std::byte> bytes) override {
    while (!failed_ && !bytes.empty()) {
      const int n = SSL_write(ssl_, bytes.data(), static_cast<int>(std::min<size_t>(bytes.size(), 1 << 30)));
      if (n <= 0) {
        (void)went(n);
        failed_ = true;  // a write to memory does not fail
        break;
      }
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
    return !failed_;
  }
  void end() override {
    if (!failed_ && SSL_is_init_finished(ssl_)) SSL_shutdown(ssl_);
    ERR_clear_error();
  }
  void take_output(std::string* out) override {
    char* bytes = nullptr;
    const long n = BIO_get_mem_data(out_, &bytes);
    if (n > 0) out->append(bytes, static_cast<size_t>(n));
    (void)BIO_reset(out_);
  }

 private:
  // Whether a call that made no progress may be repeated after more input.
  bool went(int n) {
    const int error = SSL_get_error(ssl_, n);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
      ERR_clear_error();
      return true;
    }
    failed_ = true;
    const long verdict = SSL_get_verify_result(ssl_);
    of_client_ = SSL_is_server(ssl_) &&
                 (verdict != X509_V_OK || ERR_GET_REASON(ERR_peek_error()) == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE);
    const std::string told = reason();
    why_ = verdict == X509_V_OK ? told : X509_verify_cert_error_string(verdict);
    return false;
  }
  const std::shared_ptr<Context> context_;
  SSL* const ssl_;
  BIO* in_ = nullptr;
  BIO* out_ = nullptr;
  bool failed_ = false, of_client_ = false;
  std::string why_ = {};
};

Status use_own(SSL_CTX* ctx, const TlsFiles& own) {
  struct stat status = {};
  PERI_ASSIGN(const Fd fd, open_file(own.key));
  if (fstat(fd.get(), &status) != 0) return os_error("open", own.key);
  if (status.st_mode & S_IRWXO)
    return refused("others may read the private key").in_file(own.key).advise("chmod 600 it");
  PERI_ASSIGN(const std::string pem, read_file(own.certificate, kMaxPem));
  if (pem.empty() || SSL_CTX_use_certificate_chain_file(ctx, own.certificate.c_str()) != 1)
    return invalid("the certificate cannot be used: %s", reason().c_str()).in_file(own.certificate).expecting("PEM");
  bool encrypted = false;  // a passphrase was asked for
  SSL_CTX_set_default_passwd_cb_userdata(ctx, &encrypted);
  SSL_CTX_set_default_passwd_cb(ctx, [](char*, int, int, void* asked) {
    *static_cast<bool*>(asked) = true;
    return -1;
  });
  const bool usable = SSL_CTX_use_PrivateKey_file(ctx, own.key.c_str(), SSL_FILETYPE_PEM) == 1;
  SSL_CTX_set_default_passwd_cb_userdata(ctx, nullptr);
  if (encrypted) {
    ERR_clear_error();
    return refused("the private key is encrypted, and its passphrase is not asked for")
        .in_file(own.key)
        .advise("decrypt it into a file that only its owner can read: umask 077; openssl pkey -in " +
                shell_word(own.key) + " -out PLAIN");
  }
  if (!usable && ERR_GET_LIB(ERR_peek_error()) != ERR_LIB_X509)
    return invalid("the private key cannot be used: %s", reason().c_str()).in_file(own.key).expecting("PEM");
  if (usable && SSL_CTX_check_private_key(ctx) == 1) return Ok{};
  return invalid("the private key is not that of the certificate: %s", reason().c_str())
      .in_file(own.key)
      .expecting("the key of the first certificate in " + own.certificate)
      .advise("give the two files of one pair");
}

Status use_authorities(SSL_CTX* ctx, const std::string& file) {
  PERI_ASSIGN(const std::string pem, read_file(file, kMaxPem));
  if (pem.empty() || SSL_CTX_load_verify_locations(ctx, file.c_str(), nullptr) != 1)
    return invalid("no certificates of authorities: %s", reason().c_str()).in_file(file).expecting("PEM");
  return Ok{};
}

// Clients are told the names of the authorities. A session that is resumed keeps what its first handshake verified.
Status ask_clients(SSL_CTX* ctx, const std::string& authorities) {
  static constexpr unsigned char kSessions[] = "peri";
  PERI_TRY(use_authorities(ctx, authorities));
  SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_client_CA_list(ctx, SSL_load_client_CA_file(authorities.c_str()));
  if (SSL_CTX_set_session_id_context(ctx, kSessions, sizeof kSessions - 1) != 1)
    return internal_error("TLS cannot be set up: %s", reason().c_str());
  return Ok{};
}
}  // namespace

Result<std::shared_ptr<TlsContext>> TlsContext::open(const TlsFiles& own, const std::string& clients) {
  auto out = std::make_shared<Context>(TLS_server_method());
  if (!out->ctx) return internal_error("TLS cannot be set up: %s", reason().c_str());
  SSL_CTX_set_min_proto_version(out->ctx, TLS1_2_VERSION);
  SSL_CTX_set_options(out->ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_mode(out->ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_AUTO_RETRY);
  SSL_CTX_set_alpn_select_cb(out->ctx, choose_protocol, nullptr);
  PERI_TRY(use_own(out->ctx, own));
  if (!clients.empty()) PERI_TRY(ask_clients(out->ctx, clients));
  return std::shared_ptr<TlsContext>(std::move(out));
}

Result<std::shared_ptr<TlsContext>> TlsContext::trust(const std::string& authorities, bool verify,
                                                      const TlsFiles& own) {
  auto out = std::make_shared<Context>(TLS_client_method());
  if (!out->ctx) return internal_error("TLS cannot be set up: %s", reason().c_str());
  SSL_CTX_set_min_proto_version(out->ctx, TLS1_2_VERSION);
  SSL_CTX_set_verify(out->ctx, verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
  if (!own.certificate.empty()) PERI_TRY(use_own(out->ctx, own));
  if (!authorities.empty()) {
    PERI_TRY(use_authorities(out->ctx, authorities));
  } else if (verify && SSL_CTX_set_default_verify_paths(out->ctx) != 1) {
    return invalid("the system's certificates of authorities cannot be read: %s", reason().c_str());
  }
  return std::shared_ptr<TlsContext>(std::move(out));
}

Result<std::unique_ptr<TlsSession>> TlsSession::call(const std::shared_ptr<TlsContext>& context,
                                                     const std::string& host, std::string_view protocol) {
  auto out = std::make_unique<Session>(std::static_pointer_cast<Context>(context));
  if (!out->call(host, protocol)) return invalid("'%s' is not a valid host name for TLS", host.c_str());
  return std::unique_ptr<TlsSession>(std::move(out));
}

Result<std::unique_ptr<TlsSession>> TlsSession::begin(const std::shared_ptr<TlsContext>& context) {
  return std::unique_ptr<TlsSession>(std::make_unique<Session>(std::static_pointer_cast<Context>(context)));
}

}  // namespace peri::serve
