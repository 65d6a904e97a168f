//! Our own side: the release binary, with automations that are saved and run over HTTP. What a run took is read from its row and from those of
//! its steps, so that nobody's asking is in it.

use crate::child::Server;
use crate::cpu::Watched;
use crate::http::Connection;
use crate::place::Place;
use anyhow::{Context, Result, bail};
use countersign_core::{Clock as _, Timestamp};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

/// A step that computes next to nothing: a call like any other, with its decision and its signed receipt.
const ACTION: &str = "builtin.transform_data";
/// How long the runs of a repetition may take in all.
const ENDED_MAX: Duration = Duration::from_secs(60);

/// A server that automations run on.
pub(crate) struct Ours {
    server: Server,
    owner: String,
    watched: Watched,
}

/// What the steps of an automation have in them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Steps {
    /// The value as it stands.
    Plain,
    /// A template that takes the output of the step before.
    Templates,
}

/// A run that has ended, in microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// When it was fired, and when its end was written.
    pub(crate) created: i64,
    pub(crate) ended: i64,
    /// From when to when each of its steps took.
    pub(crate) steps: Vec<(i64, i64)>,
}

/// Many runs at once.
pub(crate) struct Many {
    pub(crate) per_second: f64,
    pub(crate) cpu_us: f64,
}

impl Ours {
    pub(crate) async fn start(place: &Place, data: &Path) -> Result<Self> {
        let database = place.fresh(data).await?;
        let server = Server::start(&database.data, database.url.as_deref()).await?;
        let owner = std::fs::read_to_string(data.join("owner.token")).context("the owner's token")?.trim().to_owned();
        let watched = Watched::process(server.id()).and_children_of(place.parent());
        let ours = Self { server, owner, watched };
        ours.ask("PUT", &format!("modes/{ACTION}"), &json!({ "mode": "allow" })).await?;
        Ok(ours)
    }

    pub(crate) fn stop(self) -> Result<()> {
        self.server.stop()
    }

    /// Saves an automation with so many steps; its id.
    pub(crate) async fn save(&self, name: &str, count: usize, steps: Steps) -> Result<String> {
        let saved = self.ask("POST", "automations", &json!({ "definition": definition(name, count, steps) })).await?;
        text(saved.get("automation").context("no automation was saved")?, "id").map(str::to_owned)
    }

    /// Runs an automation once, and waits for its end.
    pub(crate) async fn run(&self, automation: &str) -> Result<Run> {
        let mut connection = self.connect().await?;
        let run = self.fire(&mut connection, automation).await?;
        self.ended(&mut connection, &run).await
    }

    /// Runs an automation so often, one at a time, each time after a pause in which the server has nothing to do: how long it was from the
    /// request and from the firing to the start of the first step, in ms.
    pub(crate) async fn singles(&self, automation: &str, runs: usize, pause: Duration) -> Result<Vec<[f64; 2]>> {
        let mut connection = self.connect().await?;
        let mut fired = Vec::new();
        for _ in 0..runs {
            tokio::time::sleep(pause).await;
            let sent = server::SystemClock.now().as_micros();
            fired.push((sent, self.fire(&mut connection, automation).await?));
        }
        let mut waits = Vec::new();
        for (sent, run) in fired {
            let run = self.ended(&mut connection, &run).await?;
            let (started, _) = run.steps.first().context("the run has no step")?;
            waits.push([started - sent, started - run.created].map(in_ms));
        }
        Ok(waits)
    }

    /// Runs an automation so often as fast as callers can ask for it. The time is from the first firing to the last end.
    pub(crate) async fn many(&self, automation: &str, runs: usize, callers: usize) -> Result<Many> {
        let each = runs / callers;
        let earlier = self.watched.read()?;
        futures_util::future::try_join_all((0..callers).map(|_| self.fire_often(automation, each))).await?;
        let (first, last) = self.all_ended(automation, each * callers).await?;
        let cpu_us = self.watched.read()?.micros_since(&earlier);
        let ended = (each * callers) as f64;
        Ok(Many { per_second: ended / (in_ms(last - first) / 1e3), cpu_us: cpu_us / ended })
    }

    async fn fire_often(&self, automation: &str, runs: usize) -> Result<()> {
        let mut connection = self.connect().await?;
        for _ in 0..runs {
            self.fire(&mut connection, automation).await?;
        }
        Ok(())
    }

    /// Waits until so many runs of an automation have ended: the first firing and the last end.
    async fn all_ended(&self, automation: &str, runs: usize) -> Result<(i64, i64)> {
        let (mut connection, began) = (self.connect().await?, Instant::now());
        while began.elapsed() < ENDED_MAX {
            if let Some(times) = self.times(&mut connection, automation, runs).await? {
                return Ok(times);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        bail!("{runs} runs have not ended within {} s", ENDED_MAX.as_secs());
    }

    /// `None` while one of them has not ended.
    async fn times(&self, connection: &mut Connection, automation: &str, runs: usize) -> Result<Option<(i64, i64)>> {
        let (mut after, mut seen, mut first, mut last) = (String::new(), 0, i64::MAX, i64::MIN);
        loop {
            let path = format!("/api/v1/runs?automation={automation}&limit=100{after}");
            let page = connection.ask("GET", &path, &self.owner, &Value::Null).await?;
            for run in page.get("items").and_then(Value::as_array).into_iter().flatten() {
                if run.get("ended_at").is_none_or(Value::is_null) {
                    return Ok(None);
                }
                let run = Run::read(run)?;
                (seen, first, last) = (seen + 1, first.min(run.created), last.max(run.ended));
            }
            match page.get("next").and_then(Value::as_str) {
                Some(next) => after = format!("&after={next}"),
                None => break,
            }
        }
        anyhow::ensure!(seen == runs, "{seen} of {runs} runs were found");
        Ok(Some((first, last)))
    }

    async fn fire(&self, connection: &mut Connection, automation: &str) -> Result<String> {
        let fired = connection.ask("POST", &format!("/api/v1/automations/{automation}/run"), &self.owner, &json!({})).await?;
        text(&fired, "run_id").map(str::to_owned)
    }

    async fn ended(&self, connection: &mut Connection, run: &str) -> Result<Run> {
        Run::read(&connection.ask("GET", &format!("/api/v1/runs/{run}?wait=30s"), &self.owner, &Value::Null).await?)
    }

    async fn connect(&self) -> Result<Connection> {
        Connection::open(self.server.address()).await
    }

    async fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        self.connect().await?.ask(method, &format!("/api/v1/{path}"), &self.owner, body).await
    }
}

impl Run {
    /// Reads a run that has succeeded. Lists have no steps.
    fn read(view: &Value) -> Result<Self> {
        anyhow::ensure!(text(view, "status")? == "succeeded", "a run came to {view}");
        let steps = view.get("steps").and_then(Value::as_array).into_iter().flatten();
        let steps: Result<Vec<_>> = steps.map(|step| Ok((micros(step, "started_at")?, micros(step, "ended_at")?))).collect();
        Ok(Self { created: micros(view, "created_at")?, ended: micros(view, "ended_at")?, steps: steps? })
    }

    pub(crate) fn total_ms(&self) -> f64 {
        in_ms(self.ended - self.created)
    }

    /// From the firing to the start of its first step.
    pub(crate) fn assignment_ms(&self) -> f64 {
        in_ms(self.steps.first().map_or(0, |(started, _)| started - self.created))
    }

    pub(crate) fn execution_ms(&self) -> f64 {
        in_ms(self.steps.iter().map(|(started, ended)| ended - started).sum())
    }

    /// Between its steps, and from the last of them to the end.
    pub(crate) fn transition_ms(&self) -> f64 {
        self.total_ms() - self.assignment_ms() - self.execution_ms()
    }
}

fn definition(name: &str, count: usize, steps: Steps) -> Value {
    let step = |number: usize| {
        let value = match (steps, number.checked_sub(1)) {
            (Steps::Templates, Some(before)) => json!(format!("{{{{ out{before}.n }}}}")),
            (Steps::Templates, None) | (Steps::Plain, _) => json!(number),
        };
        let (id, output) = (format!("step{number}"), format!("out{number}"));
        json!({ "step_id": id, "action": ACTION, "output_as": output, "config": { "value": { "n": value } } })
    };
    let plan: Vec<Value> = (0..count).map(step).collect();
    json!({ "schema_version": "1.0", "name": name, "plan": plan, "execution": { "concurrency": "allow_parallel" } })
}

fn text<'v>(value: &'v Value, name: &str) -> Result<&'v str> {
    value.get(name).and_then(Value::as_str).with_context(|| format!("there is no `{name}` in {value}"))
}

fn micros(value: &Value, name: &str) -> Result<i64> {
    let at = text(value, name)?;
    Ok(Timestamp::parse(at).with_context(|| format!("`{at}` is no time"))?.as_micros())
}

fn in_ms(micros: i64) -> f64 {
    micros as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_its_assignment_its_steps_and_what_is_between_them() {
        let at = |micros: i64| json!(Timestamp::from_micros(micros).to_string());
        let step = |from, to| json!({ "started_at": at(from), "ended_at": at(to) });
        let mut view = json!({ "status": "succeeded", "created_at": at(1_000), "ended_at": at(9_000),
            "steps": [step(2_500, 4_000), step(4_500, 8_000)] });
        let run = Run::read(&view).unwrap();
        assert_eq!((run.total_ms(), run.assignment_ms(), run.execution_ms(), run.transition_ms()), (8.0, 1.5, 5.0, 1.5));
        view["status"] = json!("failed");
        assert!(Run::read(&view).is_err(), "a run that failed has no time");
    }

    #[test]
    fn a_template_takes_what_the_step_before_gave() {
        let plan = definition("x", 2, Steps::Templates)["plan"].clone();
        assert_eq!((&plan[0]["config"]["value"]["n"], &plan[1]["config"]["value"]["n"]), (&json!(0), &json!("{{ out0.n }}")));
        let plan = definition("x", 2, Steps::Plain)["plan"].clone();
        assert_eq!(plan[1]["config"]["value"]["n"], json!(1));
    }
}
