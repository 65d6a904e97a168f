//! The smallest server that does the parts of a call and nothing else: HTTP, signatures, rows and effect, one after the other.
//! Measured alone, each part runs warm in a loop. Here each part waits for the one before, as in a real call.

use crate::child::Call;
use crate::effect;
use crate::place::Database;
use crate::raw::{Raw, Rows, Step};
use anyhow::{Context, Result, bail};
use axum::Router;
use axum::body::Bytes;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use countersign_core::Secret;
use receipt::key::SealingKey;
use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

struct Bare {
    call: Call,
    answer: Vec<u8>,
    effects: PathBuf,
    effects_made: AtomicU64,
    key: SealingKey,
    payload: String,
    rows: Rows,
}

/// Serves until it is killed. Arguments: the call, the size of the answer, the folder for effects, the data folder, the database URL.
pub(crate) async fn serve(mut arguments: impl Iterator<Item = String>) -> Result<()> {
    let mut next = |what: &str| arguments.next().with_context(|| format!("{what} is missing"));
    let named = next("the call")?;
    let Some(call) = Call::ALL.into_iter().find(|call| call.as_str() == named) else { bail!("there is no call `{named}`") };
    let answer = vec![b'x'; next("the size of the answer")?.parse()?];
    let effects = PathBuf::from(next("the folder of the effects")?);
    let sampled = Database { data: PathBuf::from(next("the data folder")?), url: arguments.next() };
    let Raw { rows, payload, .. } = Raw::start(&sampled, None).await?;
    let effects_made = AtomicU64::new(effect::prepare(&effects)?);
    let key = SealingKey::from_seed(&Secret::new([7; 32]));
    let bare = Arc::new(Bare { call, answer, effects, effects_made, key, payload, rows });
    let answer = move |body: Bytes| {
        let bare = Arc::clone(&bare);
        async move { bare.answer(&body).await }
    };
    crate::echo::listen(Router::new().route("/", post(answer))).await
}

impl Bare {
    async fn answer(self: Arc<Self>, body: &Bytes) -> Response {
        black_box(body);
        let called = match self.call {
            Call::Read => self.read().await,
            Call::Write => Arc::clone(&self).write().await,
        };
        match called {
            Ok(()) => ([(header::CONTENT_TYPE, "application/json")], self.answer.clone()).into_response(),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}")).into_response(),
        }
    }

    async fn read(&self) -> Result<()> {
        self.perform()?;
        self.sign();
        self.rows.submit(Step::Ended, self.rows.next_call()).await
    }

    async fn write(self: Arc<Self>) -> Result<()> {
        let number = self.rows.next_call();
        self.sign();
        self.rows.submit(Step::Begun, number).await?;
        let bare = Arc::clone(&self);
        tokio::task::spawn_blocking(move || bare.perform()).await??;
        self.sign();
        self.rows.submit(Step::Finished, number).await
    }

    fn perform(&self) -> Result<()> {
        effect::perform(&self.effects, self.call, self.effects_made.fetch_add(1, Ordering::Relaxed))
    }

    fn sign(&self) {
        black_box(receipt::envelope::sign(&self.key, black_box(&self.payload)));
    }
}
