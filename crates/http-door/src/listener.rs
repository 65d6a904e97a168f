//! The listening socket: TLS or plain, bounded headers, bounded time to send them, and a stop that lets running requests end.

use super::reached::{Reached, Scheme, TrustedProxies};
use super::stalled::Unstalled;
use crate::limits::{
    HEADER_BYTES_MAX, HEADER_READ_SECONDS, PEER_PROBED_AFTER_SECONDS, PEER_PROBED_EVERY_SECONDS, PEER_SILENT_SECONDS,
    TLS_HANDSHAKE_SECONDS, WRITE_STALL_SECONDS,
};
use axum::Router;
use axum::body::Body;
use host::Error;
use host::Tls;
use host::config::ProxyHeader;
use host::limits::CONNECTIONS_MAX;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use ipnet::IpNet;
use operations::App;
use operations::limits::SHUTDOWN_SECONDS;
use rustix::net::sockopt;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

pub async fn listen(address: &str) -> Result<TcpListener, Error> {
    TcpListener::bind(address).await.map_err(|error| Error::Listen { address: address.to_owned(), message: error.to_string() })
}

/// The address a listener really has, which differs from what was asked for when the port was 0.
pub fn address_of(listener: &TcpListener, asked: &str) -> String {
    listener.local_addr().map_or_else(|_| asked.to_owned(), |address| address.to_string())
}

/// An address at which a browser on this machine reaches the listener: one that listens everywhere is asked at the loopback address.
pub fn reachable(listener: &TcpListener, asked: &str, scheme: &str) -> String {
    match listener.local_addr() {
        Ok(address) if address.ip().is_unspecified() => format!("{scheme}://127.0.0.1:{}", address.port()),
        Ok(_) | Err(_) => format!("{scheme}://{}", address_of(listener, asked)),
    }
}

/// Whether other machines may reach it: what they send, tokens too, could be read on the way.
pub fn is_open_to_others(listener: &TcpListener) -> bool {
    listener.local_addr().is_ok_and(|address| !address.ip().to_canonical().is_loopback())
}

/// How requests come to the listener.
#[derive(Clone, Default)]
pub struct Way {
    /// The certificate to show; plain HTTP without one.
    pub tls: Option<Arc<Tls>>,
    /// The proxies whose word counts for who a client is and what it asked for.
    pub trusted_proxies: Vec<IpNet>,
    /// The headers that they write.
    pub proxy_headers: Vec<ProxyHeader>,
}

/// Serves plain HTTP to whoever connects, until `stop` resolves; also the routes of another door, which are beside ours.
pub async fn serve(listener: TcpListener, app: App, beside: Router<App>, stop: impl Future<Output = ()>) {
    serve_over(listener, Way::default(), (app, beside), stop).await;
}

/// Serves until `stop` resolves, then lets running requests end, for a bounded time.
pub async fn serve_over(listener: TcpListener, way: Way, (app, beside): (App, Router<App>), stop: impl Future<Output = ()>) {
    let router = super::router(app.clone(), beside);
    serve_routes(listener, way, (app, router), stop).await;
}

/// Serves only whether the process is alive and ready, and its metrics, until `stop` resolves.
pub async fn serve_health(listener: TcpListener, app: App, stop: impl Future<Output = ()>) {
    let router = super::health::router(app.clone());
    serve_routes(listener, Way::default(), (app, router), stop).await;
}

async fn serve_routes(listener: TcpListener, way: Way, (app, router): (App, Router), stop: impl Future<Output = ()>) {
    let acceptor = way.tls.as_ref().map(|tls| tls.acceptor());
    let door =
        Arc::new(Door { http: http(), router, app: app.clone(), trusted: TrustedProxies::new(way.trusted_proxies, way.proxy_headers) });
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut stop = std::pin::pin!(stop);
    loop {
        let place = tokio::select! {
            place = Arc::clone(&places).acquire_owned() => place,
            () = &mut stop => break,
        };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file descriptors, most likely: accepting at once again would only spin.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        if let Err(error) = attended(&stream) {
            // It serves without them: answers come a little later, and a peer that is gone is noticed later.
            tracing::debug!(%error, "a connection has not all of its options");
        }
        let (door, acceptor, watcher) = (Arc::clone(&door), acceptor.clone(), graceful.watcher());
        tokio::spawn(async move {
            match acceptor {
                None => door.converse(stream, peer, Scheme::Http, watcher).await,
                // Boxed, so that a connection without TLS, of which thousands may be idle streams, does not take the memory of one with it.
                Some(acceptor) => Box::pin(door.converse_over_tls(stream, peer, &acceptor, watcher)).await,
            }
            drop(place);
        });
    }
    drop(listener);
    tracing::info!("stopping: finishing what runs");
    app.pipeline().stop_waiting();
    let ended = async { tokio::join!(graceful.shutdown(), app.streams().close()) };
    if tokio::time::timeout(Duration::from_secs(SHUTDOWN_SECONDS), ended).await.is_err() {
        tracing::warn!("some requests did not end in time and were cut off");
    }
}

/// Sets what every accepted connection has: small answers do not wait for more bytes to fill a packet, and a peer that goes without a word, such
/// as a machine that lost its network, is noticed. Until then its caller counts as being there, and the same call made again is a second one.
fn attended(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, Duration::from_secs(PEER_PROBED_AFTER_SECONDS))?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(PEER_PROBED_EVERY_SECONDS))?;
    // It counts for what was sent and for probes.
    sockopt::set_tcp_user_timeout(stream, PEER_SILENT_SECONDS * 1_000)?;
    Ok(())
}

/// What every connection needs.
struct Door {
    http: Builder<TokioExecutor>,
    router: Router,
    app: App,
    trusted: TrustedProxies,
}

impl Door {
    async fn converse_over_tls(self: Arc<Self>, stream: TcpStream, peer: SocketAddr, acceptor: &TlsAcceptor, watcher: Watcher) {
        match tokio::time::timeout(Duration::from_secs(TLS_HANDSHAKE_SECONDS), acceptor.accept(stream)).await {
            Ok(Ok(stream)) => self.converse(stream, peer, Scheme::Https, watcher).await,
            Ok(Err(error)) => tracing::debug!(%error, "a connection ended in the TLS handshake"),
            Err(_elapsed) => tracing::debug!("a connection took too long for the TLS handshake"),
        }
    }

    /// Answers the requests of one connection until it ends.
    async fn converse<S>(self: Arc<Self>, stream: S, peer: SocketAddr, scheme: Scheme, watcher: Watcher)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let door = Arc::clone(&self);
        let service = hyper::service::service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
            let door = Arc::clone(&door);
            async move {
                let mut request = request.map(Body::new);
                let reached = Reached::new(peer, scheme, request.headers(), &door.trusted);
                request.extensions_mut().insert(reached);
                Ok::<_, Infallible>(super::trace::answer(&door.app, door.router.clone(), request).await)
            }
        });
        let stream = Unstalled::new(stream, Duration::from_secs(WRITE_STALL_SECONDS));
        let connection = self.http.serve_connection_with_upgrades(TokioIo::new(stream), service);
        if let Err(error) = watcher.watch(connection.into_owned()).await {
            tracing::debug!(%error, "a connection ended early");
        }
    }
}

/// HTTP/1.1 and HTTP/2, whichever the client speaks.
pub(super) fn http() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(HEADER_READ_SECONDS))
        .max_buf_size(HEADER_BYTES_MAX)
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(HEADER_BYTES_MAX as u32)
        .keep_alive_interval(Duration::from_secs(30));
    builder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_peer_that_goes_without_a_word_is_noticed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (client, accepted) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        let (_client, (ours, _)) = (client.unwrap(), accepted.unwrap());
        attended(&ours).unwrap();
        assert!(ours.nodelay().unwrap() && sockopt::socket_keepalive(&ours).unwrap());
        let probes = [sockopt::tcp_keepidle(&ours).unwrap(), sockopt::tcp_keepintvl(&ours).unwrap()].map(|wait| wait.as_secs());
        assert_eq!(probes, [PEER_PROBED_AFTER_SECONDS, PEER_PROBED_EVERY_SECONDS]);
        assert_eq!(sockopt::tcp_user_timeout(&ours).unwrap(), PEER_SILENT_SECONDS * 1_000);
    }
}
