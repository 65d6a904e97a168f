//! A dry run of a plan: its templates are rendered over inputs, and over what the steps of an earlier run came to. Nothing is called.

use crate::engine::Engine;
use crate::limits::DRY_RUN_MS;
use crate::program::{Program, StepProgram};
use automation::template::{self, Context, Reason, RenderError, Template};
use countersign_core::OrgId;
use countersign_core::run::{Phase, Run, StepRecord};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// What is known before there is a run.
#[derive(Clone, Debug)]
pub struct Known {
    /// The facts that templates see as `run`. Only steps of `on_failure` see its failure.
    pub run: template::Run,
    /// Checked and complete; `None` if there are none that fit.
    pub inputs: Option<Value>,
    /// An earlier run with its steps: what they came to stands for what the steps of this one will come to.
    pub earlier: Option<(Run, Vec<StepRecord>)>,
}

/// A step as far as its templates can be rendered.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    /// Whether it has no `when`, or that holds; `None`: nobody knows.
    pub when: Option<bool>,
    /// SECURITY: with whatever the templates read. Whoever shows them takes out what nobody is to see.
    pub params: Option<Value>,
    /// The names that it reads and that have no value yet.
    pub needs: BTreeSet<String>,
    pub error: Option<RenderError>,
}

/// What a step can read.
struct Sight<'a> {
    known: &'a Known,
    phase: Phase,
    outputs: &'a Map<String, Value>,
    /// The outputs that there will not be, because their step is skipped.
    skipped: &'a BTreeSet<String>,
}

impl Engine {
    /// Renders the steps of a definition: the plan, then `on_failure`.
    pub async fn render_steps(&self, org: &OrgId, program: &Program, known: &Known) -> Vec<Rendered> {
        let until = Instant::now() + Duration::from_millis(DRY_RUN_MS);
        let (mut outputs, mut skipped) = (self.earlier_outputs(program, known).await, BTreeSet::new());
        let mut all = Vec::new();
        for phase in [Phase::Plan, Phase::OnFailure] {
            for step in program.steps(phase) {
                let sight = Sight { known, phase, outputs: &outputs, skipped: &skipped };
                let rendered = timeout_at(until, self.render_step(org, step, &sight)).await;
                let rendered = rendered.unwrap_or_else(|_| Rendered { error: Some(too_long()), ..Rendered::nothing() });
                if let (Some(false), Some(name)) = (rendered.when, &step.definition.output_as) {
                    outputs.remove(name);
                    skipped.insert(name.clone());
                }
                all.push(rendered);
            }
        }
        all
    }

    /// What the steps of the earlier run came to, by the names that this definition gives them. A step is the same one if its id and its
    /// action are.
    async fn earlier_outputs(&self, program: &Program, known: &Known) -> Map<String, Value> {
        let mut outputs = Map::new();
        let Some((run, records)) = &known.earlier else { return outputs };
        for phase in [Phase::Plan, Phase::OnFailure] {
            for step in program.steps(phase).iter().map(|step| &step.definition) {
                let is_it = |record: &&StepRecord| (record.phase, &record.step_id, &record.action) == (phase, &step.step_id, &step.action);
                let (Some(name), Some(record)) = (&step.output_as, records.iter().find(is_it)) else { continue };
                let output = match (&record.output, &record.artifact) {
                    (Some(output), _) => Some(output.clone()),
                    // What cannot be read now is not known.
                    (None, Some(artifact)) => self.read_output(run, artifact).await.unwrap_or_default(),
                    (None, None) => None,
                };
                outputs.extend(output.map(|output| (name.clone(), output)));
            }
        }
        outputs
    }

    async fn render_step(&self, org: &OrgId, step: &StepProgram, sight: &Sight<'_>) -> Rendered {
        let mut rendered = Rendered::nothing();
        let reads = step.params.reads();
        let context = match sight.context(reads.iter().chain(step.when.iter().flat_map(Template::reads))) {
            Ok(context) => context,
            Err(error) => return Rendered { error: Some(error), ..rendered },
        };
        let renderer = &self.0.ports.renderer;
        match &step.when {
            None => rendered.when = Some(true),
            Some(when) => {
                rendered.needs = sight.unknown(when.reads());
                if rendered.needs.is_empty() {
                    match renderer.evaluate_predicate(when, &context).await {
                        Ok(holds) => rendered.when = Some(holds),
                        Err(error) => return rendered.failed(error, when.reads(), sight),
                    }
                }
            }
        }
        if rendered.when == Some(false) {
            return rendered;
        }
        let lacking = sight.unknown(&reads);
        if !lacking.is_empty() {
            rendered.needs.extend(lacking);
            return rendered;
        }
        let action = self.action_of(org, step).await;
        match step.params.render(renderer, &context, action.as_ref().map(|action| &action.params_schema)).await {
            Ok(params) => {
                let misfit = self.0.ports.pipeline.catalogue().misfit(org, &step.definition.action, &params).await;
                // It may quote what the template was given.
                let error = misfit.map(|why| RenderError::new(Reason::Misfit, pipeline::redact_text(&why)));
                Rendered { params: Some(params), error, ..rendered }
            }
            Err(error) => rendered.failed(error, &reads, sight),
        }
    }
}

impl Rendered {
    const fn nothing() -> Self {
        Self { when: None, params: None, needs: BTreeSet::new(), error: None }
    }

    fn failed(mut self, error: RenderError, reads: &BTreeSet<String>, sight: &Sight<'_>) -> Self {
        // Why the plan fails is not known before it has failed.
        let is_of_failure = sight.failure().is_none() && error.reason == Reason::Undefined && reads.contains("run");
        if is_of_failure && sight.phase == Phase::OnFailure {
            self.needs.insert("run.error".to_owned());
        } else {
            self.error = Some(error);
        }
        self
    }
}

impl Sight<'_> {
    /// The part of what is known that these names read.
    fn context<'n>(&self, reads: impl Iterator<Item = &'n String>) -> Result<Context, RenderError> {
        let read = |name: &String| Some((name.clone(), self.outputs.get(name)?.clone()));
        let outputs = reads.filter_map(read).collect();
        let run = template::Run { failure: self.failure().cloned(), ..self.known.run.clone() };
        template::build_run_context(&run, self.known.inputs.clone().unwrap_or_default(), outputs)
    }

    fn failure(&self) -> Option<&template::Failure> {
        self.known.run.failure.as_ref().filter(|_| self.phase == Phase::OnFailure)
    }

    /// Those of the names that have no value yet.
    fn unknown(&self, reads: &BTreeSet<String>) -> BTreeSet<String> {
        let is_known = |name: &str| match name {
            "run" => true,
            "inputs" => self.known.inputs.is_some(),
            // What a skipped step would have come to is known: there is none.
            output => self.outputs.contains_key(output) || self.skipped.contains(output),
        };
        reads.iter().filter(|name| !is_known(name)).cloned().collect()
    }
}

fn too_long() -> RenderError {
    RenderError::new(Reason::Time, format!("the templates of the steps take more than {DRY_RUN_MS} ms together"))
}
