//! The bare echo: axum as the server uses it, with nothing behind it. It shows what HTTP alone costs for the same body and answer size.

use anyhow::{Context, Result};
use axum::Router;
use axum::body::Bytes;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::post;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;

/// The argument that makes this program the echo.
pub(crate) const ARGUMENT: &str = "__echo";

/// Serves until the process is killed.
pub(crate) async fn serve(bytes: Option<String>) -> Result<()> {
    let bytes: usize = bytes.context("the size of the answer is missing")?.parse()?;
    let echo = move |body: Bytes| async move {
        let answer: Vec<u8> = body.iter().copied().cycle().take(bytes).collect();
        ([(header::CONTENT_TYPE, "application/json")], answer).into_response()
    };
    listen(Router::new().route("/", post(echo))).await
}

/// Serves on a free port of this machine and prints its URL.
pub(crate) async fn listen(router: Router) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    crate::say(&format!("url: http://{}", listener.local_addr()?));
    let listener = listener.tap_io(|stream| {
        // As the server does. Without it, the kernel would delay small packets of both.
        let _refused = stream.set_nodelay(true);
    });
    Ok(axum::serve(listener, router).await?)
}
