//! The protocol's requests, each handed to the file that answers it.

use super::caller::{Caller, caller_of};
use super::changes::{self, Changes};
use super::{call, passed_on, tasks, tools};
use crate::limits::MCP_DOOR_INSTRUCTIONS_CHARS_MAX;
use operations::App;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, DiscoverResult, GetPromptRequestParams, GetPromptResponse, GetTaskParams,
    GetTaskResult, Implementation, InitializeRequestParams, InitializeResult, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse,
    ServerCapabilities, ServerConfig, SubscriptionFilter, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};

/// What every agent is told.
const INSTRUCTIONS: &str = "Tools here are actions under control: some run at once, some wait for a person's approval, some are denied. A call \
that waits is answered when a person has decided, or with a reference: then call `get_invocation`, and do not repeat the call. If a call ended \
without any answer, by a timeout or a lost connection, make the same call again, with the same arguments: it goes on with the first one, and \
nobody is asked twice. Never repeat a call that is in doubt. A denial says which rule it was and what would help.";

/// What ends the words of a source that were too long, and how many of them are worth to be told.
const CUT: &str = " … (cut: it says more)";
const WORDS_CHARS_MIN: usize = 200;

/// The first revision that this door speaks.
const FIRST: &str = "2025-03-26";

/// One connection, or one request of the stateless revision.
pub(super) struct Handler {
    app: App,
    changes: Changes,
    /// Whether its connection is told of changes already. A client can say that it is initialized as often as it likes.
    is_followed: AtomicBool,
}

impl Handler {
    pub(super) fn new(app: App, changes: Changes) -> Self {
        Self { app, changes, is_followed: AtomicBool::new(false) }
    }

    /// What an agent of this session is told first: how things work here, and the guides of its sources.
    async fn instructions(&self, caller: &Caller) -> String {
        let mut text = INSTRUCTIONS.to_owned();
        for source in self.app.pipeline().catalogue().list(&caller.session).await {
            // A guide that is made from the definitions would repeat the list of tools.
            let Some(guide) = self.app.pipeline().catalogue().given_guide(&caller.session, &source.id).await else { continue };
            add(&mut text, &format!("\n\n# {} (`{}`)\n\n", source.title, source.id), guide.trim());
        }
        text
    }
}

/// Adds the words of a source as far as there is room for a part of them that says something.
fn add(text: &mut String, head: &str, words: &str) {
    let room = MCP_DOOR_INSTRUCTIONS_CHARS_MAX.saturating_sub(text.chars().count() + head.chars().count() + CUT.chars().count());
    let length = words.chars().count();
    if length <= room {
        text.push_str(&format!("{head}{words}"));
    } else if room >= WORDS_CHARS_MIN {
        text.push_str(head);
        text.extend(words.chars().take(room));
        text.push_str(CUT);
    }
}

fn cursor(request: Option<PaginatedRequestParams>) -> Option<String> {
    request.and_then(|request| request.cursor)
}

impl ServerHandler for Handler {
    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        let is_spoken = |version: &&ProtocolVersion| version.as_str() >= FIRST;
        Cow::Owned(ProtocolVersion::KNOWN_VERSIONS.iter().filter(is_spoken).cloned().collect())
    }

    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_tasks()
            .build();
        let info = Implementation::new("countersign", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(capabilities).with_server_info(info).with_instructions(INSTRUCTIONS)
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let caller = caller_of(&context.extensions)?;
        let mut answer = self.negotiate_initialize(&request)?;
        answer.instructions = Some(self.instructions(caller).await);
        context.peer.set_peer_info(request);
        Ok(answer)
    }

    async fn discover(&self, context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let caller = caller_of(&context.extensions)?;
        let info = self.get_info().with_instructions(self.instructions(caller).await);
        Ok(DiscoverResult::from_server_info(self.supported_protocol_versions().into_owned(), info))
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        tools::list(&self.app, caller_of(&context.extensions)?, cursor(request)).await
    }

    async fn call_tool(&self, request: CallToolRequestParams, context: RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
        call::call(&self.app, request, &context).await
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(passed_on::resources(&self.app, caller_of(&context.extensions)?, cursor(request)).await)
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(passed_on::templates(&self.app, caller_of(&context.extensions)?, cursor(request)).await)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        passed_on::read(&self.app, request, &context).await
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(passed_on::prompts(&self.app, caller_of(&context.extensions)?, cursor(request)).await)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        passed_on::prompt(&self.app, request, &context).await
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(changes::accepted(requested))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.changes.listen(&context).await
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        if !self.is_followed.swap(true, Ordering::Relaxed) {
            self.changes.announce(context);
        }
    }

    async fn get_task(&self, request: GetTaskParams, context: RequestContext<RoleServer>) -> Result<GetTaskResult, ErrorData> {
        tasks::get(&self.app, &request, &context).await
    }

    /// A task asks its client for nothing, so there is nothing to take up. A person's answer comes from the approval page.
    async fn update_task(&self, request: UpdateTaskParams, context: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        tasks::of_caller(&self.app, &request.task_id, &context).await.map(|_| ())
    }

    async fn cancel_task(&self, request: CancelTaskParams, context: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        tasks::cancel(&self.app, &request, &context).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_sources_are_added_one_after_another_within_bounds() {
        let mut text = INSTRUCTIONS.to_owned();
        add(&mut text, "\n\n# Kit (`kit`)\n\n", "Look first.");
        add(&mut text, "\n\n# Long (`long`)\n\n", &"word ".repeat(MCP_DOOR_INSTRUCTIONS_CHARS_MAX));
        add(&mut text, "\n\n# Last (`last`)\n\n", "It has no room left.");
        assert!(text.starts_with(INSTRUCTIONS) && text.contains("# Kit (`kit`)\n\nLook first.\n\n# Long (`long`)\n\nword "), "{text}");
        assert!(text.ends_with(CUT) && text.chars().count() <= MCP_DOOR_INSTRUCTIONS_CHARS_MAX, "{}", text.len());
    }
}
