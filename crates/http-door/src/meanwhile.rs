//! What the listening socket answers while the server cannot serve yet, because its database is away: it lives, and is not ready.

use super::health::healthz;
use super::listener::http;
use super::problem::{Refusal, with_trace};
use super::trace::drawn;
use crate::limits::TLS_HANDSHAKE_SECONDS;
use api::Code;
use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use host::OsRandom;
use host::Tls;
use host::limits::CONNECTIONS_MAX;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// Answers until it is dropped, and its connections with it.
pub async fn answer_meanwhile(listener: &TcpListener, tls: Option<&Tls>) -> Infallible {
    let acceptor = tls.map(Tls::acceptor);
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => accepted,
            Some(_) = connections.join_next() => continue,
        };
        match accepted {
            Ok((stream, _)) => {
                connections.spawn(converse(stream, acceptor.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn converse(stream: TcpStream, acceptor: Option<TlsAcceptor>) {
    match acceptor {
        None => answer(stream).await,
        Some(acceptor) => {
            if let Ok(Ok(stream)) = tokio::time::timeout(Duration::from_secs(TLS_HANDSHAKE_SECONDS), acceptor.accept(stream)).await {
                answer(stream).await;
            }
        }
    }
}

async fn answer<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(stream: S) {
    let router = Router::new().route("/healthz", get(healthz)).fallback(away);
    if let Err(error) = http().serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)).await {
        tracing::debug!(%error, "a connection ended early");
    }
}

async fn away() -> Response {
    let refusal =
        Refusal::new(Code::StoreUnavailable, "the server is starting and waits for its database; nothing was done, retrying is safe");
    with_trace(refusal.into_response(), &drawn(&OsRandom::default()))
}
