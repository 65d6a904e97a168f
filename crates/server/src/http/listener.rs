//! The listening socket: bounded headers, bounded time to send them, and a stop that lets running requests end.

use super::stalled::Unstalled;
use crate::{App, Error};
use axum::body::Body;
use countersign_core::limits::{CONNECTIONS_MAX, HEADER_BYTES_MAX, HEADER_READ_SECONDS, SHUTDOWN_SECONDS, WRITE_STALL_SECONDS};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

pub async fn listen(address: &str) -> Result<TcpListener, Error> {
    TcpListener::bind(address).await.map_err(|error| Error::Listen { address: address.to_owned(), message: error.to_string() })
}

/// The address a listener really has, which differs from what was asked for when the port was 0.
pub fn address_of(listener: &TcpListener, asked: &str) -> String {
    listener.local_addr().map_or_else(|_| asked.to_owned(), |address| address.to_string())
}

/// An address at which a browser on this machine reaches the listener: one that listens everywhere is asked at the loopback address.
pub(crate) fn reachable(listener: &TcpListener, asked: &str) -> String {
    match listener.local_addr() {
        Ok(address) if address.ip().is_unspecified() => format!("http://127.0.0.1:{}", address.port()),
        Ok(_) | Err(_) => format!("http://{}", address_of(listener, asked)),
    }
}

/// Whether other machines may reach it: what they send, tokens too, could be read on the way.
pub fn is_open_to_others(listener: &TcpListener) -> bool {
    listener.local_addr().is_ok_and(|address| !address.ip().to_canonical().is_loopback())
}

/// Serves until `stop` resolves, then lets running requests end, for a bounded time.
pub async fn serve(listener: TcpListener, app: App, stop: impl Future<Output = ()>) {
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
    let router = super::router(app.clone());
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
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of file descriptors, most likely: accepting at once again would only spin.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        // Small answers should not wait for more bytes to fill a packet; if it cannot be set they merely do.
        let _slower = stream.set_nodelay(true);
        let (app, router) = (app.clone(), router.clone());
        let service = hyper::service::service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
            let (app, router) = (app.clone(), router.clone());
            async move { Ok::<_, Infallible>(super::trace::answer(&app, router, request.map(Body::new)).await) }
        });
        let stream = Unstalled::new(stream, Duration::from_secs(WRITE_STALL_SECONDS));
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).into_owned();
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended early");
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
