// Methods whose request is read once the caller is known.
//
// gRPC reads the request of a unary or server-streaming method before its handler runs, and keeps
// the whole of it, however long, before it looks at its size: a limit of the server bounds no
// memory. It reads nothing of a stream before it is asked to. So these methods are streams to the
// server (nothing of that shows on the wire): the caller is asked about first, then the request is
// read, measured and given to the method's own handler. Of a call that is not read, gRPC takes no
// more than its window (LimitConnections).
#ifndef BATON_SDK_COMMON_RPC_GUARDED_SERVICE_H_
#define BATON_SDK_COMMON_RPC_GUARDED_SERVICE_H_

#include <cstddef>
#include <functional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/impl/codegen/server_callback_handlers.h"
#include "sdk/common/rpc/error.h"

namespace baton {

/// Bound of a request that names things and carries nothing.
inline constexpr size_t kSmallRequestBytes = 64 << 10;

/// The check before a method. Called on gRPC's threads, must not block.
struct MethodGuard {
  std::string method;  ///< "JobService.CreateJob".
  size_t max_bytes = kSmallRequestBytes;
  /// OK, or with what the caller is refused.
  std::function<absl::Status(const grpc::ServerContextBase& context, const std::string& method)>
      may;

  /// RESOURCE_EXHAUSTED (MESSAGE_TOO_LARGE): `bytes` are more than this method takes.
  [[nodiscard]] absl::Status CheckSize(size_t bytes) const;
};

/// The place of `method` in `service`, a full name of generated code. There is such a method.
int MethodIndex(absl::string_view service, absl::string_view method);

/// A call before and after its request is read; then `Inner`, the method's own reactor, goes on
/// with it. OnSendInitialMetadataDone is not passed on. Deletes itself.
template <typename Request, typename Response, typename Inner>
class GuardedCall : public grpc::ServerBidiReactor<grpc::ByteBuffer, Response> {
 public:
  GuardedCall(const MethodGuard& guard, grpc::CallbackServerContext* context)
      : guard_(guard), context_(context) {
    if (const absl::Status allowed = guard.may(*context, guard.method); !allowed.ok()) {
      this->Finish(ToGrpc(allowed));
    } else {
      this->StartRead(&bytes_);
    }
  }

  void OnReadDone(bool ok) final {
    if (!ok) {  // it is gone, or gRPC has told it already what was wrong
      return this->Finish({grpc::StatusCode::INVALID_ARGUMENT, guard_.method + ": no request"});
    }
    if (const absl::Status fits = guard_.CheckSize(bytes_.Length()); !fits.ok()) {
      return this->Finish(ToGrpc(fits));
    }
    if (!grpc::SerializationTraits<Request>::Deserialize(&bytes_, &request_).ok()) {
      return this->Finish({grpc::StatusCode::INVALID_ARGUMENT,
                           guard_.method + ": the request is no " + request_.GetTypeName()});
    }
    Inner* const inner = Begin(context_, &request_);
    {
      absl::MutexLock lock(&mu_);
      inner_ = inner;
    }
    Bind(inner);  // what it has started already goes out, and may be done at once
    bool cancelled = false;
    {
      absl::MutexLock lock(&mu_);
      bound_ = true;
      cancelled = cancelled_;
    }
    if (cancelled) inner->OnCancel();
  }

  void OnCancel() final {
    Inner* inner = nullptr;
    {
      absl::MutexLock lock(&mu_);
      cancelled_ = true;
      if (bound_) inner = inner_;
    }
    if (inner != nullptr) inner->OnCancel();
  }

  void OnDone() final {
    if (Inner* const one = inner(); one != nullptr) one->OnDone();
    delete this;
  }

 protected:
  /// Calls the method's handler.
  virtual Inner* Begin(grpc::CallbackServerContext* context, Request* request) = 0;
  /// The handler's reactor acts on this call from now on.
  virtual void Bind(Inner* inner) = 0;
  Inner* inner() {
    absl::MutexLock lock(&mu_);
    return inner_;
  }

 private:
  const MethodGuard& guard_;  // of the service
  grpc::CallbackServerContext* const context_;
  grpc::ByteBuffer bytes_;
  Request request_;
  absl::Mutex mu_;
  Inner* inner_ ABSL_GUARDED_BY(mu_) = nullptr;  // null until the request is read
  bool bound_ ABSL_GUARDED_BY(mu_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
};

template <typename Request, typename Response>
class GuardedUnary final : public GuardedCall<Request, Response, grpc::ServerUnaryReactor> {
 public:
  using Handler = std::function<grpc::ServerUnaryReactor*(grpc::CallbackServerContext*,
                                                          const Request*, Response*)>;

  GuardedUnary(const MethodGuard& guard, const Handler& handler,
               grpc::CallbackServerContext* context)
      : GuardedCall<Request, Response, grpc::ServerUnaryReactor>(guard, context),
        handler_(handler) {}

 private:
  // The call as the handler's reactor sees it.
  class Call final : public grpc::ServerCallbackUnary {
   public:
    explicit Call(GuardedUnary* outer) : outer_(outer) {}
    void Bind(grpc::ServerUnaryReactor* reactor) { this->BindReactor(reactor); }
    void SendInitialMetadata() override { outer_->StartSendInitialMetadata(); }
    void Finish(grpc::Status status) override {
      if (!status.ok()) return outer_->Finish(std::move(status));
      outer_->StartWriteAndFinish(&outer_->response_, grpc::WriteOptions(), std::move(status));
    }

   private:
    grpc::internal::ServerReactor* reactor() override { return outer_->inner(); }
    void CallOnDone() override {}
    GuardedUnary* const outer_;
  };

  grpc::ServerUnaryReactor* Begin(grpc::CallbackServerContext* context, Request* request) override {
    return handler_(context, request, &response_);
  }
  void Bind(grpc::ServerUnaryReactor* inner) override { call_.Bind(inner); }

  const Handler& handler_;  // of the service
  Response response_;
  Call call_{this};
};

template <typename Request, typename Response>
class GuardedWriter final
    : public GuardedCall<Request, Response, grpc::ServerWriteReactor<Response>> {
 public:
  using Handler = std::function<grpc::ServerWriteReactor<Response>*(grpc::CallbackServerContext*,
                                                                    const Request*)>;

  GuardedWriter(const MethodGuard& guard, const Handler& handler,
                grpc::CallbackServerContext* context)
      : GuardedCall<Request, Response, grpc::ServerWriteReactor<Response>>(guard, context),
        handler_(handler) {}

  void OnWriteDone(bool ok) override { this->inner()->OnWriteDone(ok); }

 private:
  class Call final : public grpc::ServerCallbackWriter<Response> {
   public:
    explicit Call(GuardedWriter* outer) : outer_(outer) {}
    void Bind(grpc::ServerWriteReactor<Response>* reactor) { this->BindReactor(reactor); }
    void SendInitialMetadata() override { outer_->StartSendInitialMetadata(); }
    void Write(const Response* message, grpc::WriteOptions options) override {
      outer_->StartWrite(message, options);
    }
    void WriteAndFinish(const Response* message, grpc::WriteOptions options,
                        grpc::Status status) override {
      outer_->StartWriteAndFinish(message, options, std::move(status));
    }
    void Finish(grpc::Status status) override { outer_->Finish(std::move(status)); }

   private:
    grpc::internal::ServerReactor* reactor() override { return outer_->inner(); }
    void CallOnDone() override {}
    GuardedWriter* const outer_;
  };

  grpc::ServerWriteReactor<Response>* Begin(grpc::CallbackServerContext* context,
                                            Request* request) override {
    return handler_(context, request);
  }
  void Bind(grpc::ServerWriteReactor<Response>* inner) override { call_.Bind(inner); }

  const Handler& handler_;  // of the service
  Call call_{this};
};

/// `Base` is a CallbackService of generated code. Its constructor guards each method that takes one
/// request; those that take a stream of them ask about their caller themselves, before they read.
template <typename Base>
class GuardedService : public Base {
 protected:
  using Context = grpc::CallbackServerContext;

  /// `service`: its full name, as generated code gives it.
  GuardedService(absl::string_view service, decltype(MethodGuard::may) may)
      : service_(service), may_(std::move(may)) {}

  template <typename Self, typename Request, typename Response>
  void Guard(absl::string_view name,
             grpc::ServerUnaryReactor* (Self::*method)(Context*, const Request*, Response*),
             size_t max_bytes = kSmallRequestBytes) {
    typename GuardedUnary<Request, Response>::Handler handler =
        [self = static_cast<Self*>(this), method](Context* context, const Request* request,
                                                  Response* response) {
          return (self->*method)(context, request, response);
        };
    Install<GuardedUnary<Request, Response>, Response>(name, max_bytes, std::move(handler));
  }

  template <typename Self, typename Request, typename Response>
  void Guard(absl::string_view name,
             grpc::ServerWriteReactor<Response>* (Self::*method)(Context*, const Request*),
             size_t max_bytes = kSmallRequestBytes) {
    typename GuardedWriter<Request, Response>::Handler handler =
        [self = static_cast<Self*>(this), method](Context* context, const Request* request) {
          return (self->*method)(context, request);
        };
    Install<GuardedWriter<Request, Response>, Response>(name, max_bytes, std::move(handler));
  }

 private:
  template <typename Call, typename Response>
  void Install(absl::string_view name, size_t max_bytes, typename Call::Handler handler) {
    MethodGuard guard{ShortName(name), max_bytes, may_};
    this->MarkMethodStreamed(
        MethodIndex(service_, name),
        new grpc::internal::CallbackBidiHandler<grpc::ByteBuffer, Response>(
            [guard = std::move(guard), handler = std::move(handler)](Context* context) {
              return new Call(guard, handler, context);
            }));
  }

  // "JobService.CreateJob", as the audit log names it.
  std::string ShortName(absl::string_view method) const {
    const size_t dot = service_.rfind('.');
    return service_.substr(dot == std::string::npos ? 0 : dot + 1) + "." + std::string(method);
  }

  const std::string service_;
  const decltype(MethodGuard::may) may_;
};

}  // namespace baton

#endif  // BATON_SDK_COMMON_RPC_GUARDED_SERVICE_H_
