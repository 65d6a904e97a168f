//! Tests of what passes between a server and the MCP library.

use super::*;
use crate::limits::SOURCE_EVENT_BYTES_MAX;
use countersign_core::effect::Progress;
use rmcp::model::{CallToolRequestParams, ClientResult, EmptyResult, ListToolsRequest, NumberOrString, Request, ServerResult};

fn wire() -> Arc<Wire> {
    Wire::new("kit", |_| {})
}

fn id(number: i64) -> RequestId {
    NumberOrString::Number(number)
}

fn sent(wire: &Wire, mut request: ClientRequest, number: i64, slot: Option<&Arc<Slot>>) {
    if let Some(slot) = slot {
        request.extensions_mut().insert(InSlot(Arc::clone(slot)));
    }
    request.get_meta_mut().set_progress_token(ProgressToken(NumberOrString::Number(number + 100)));
    assert_eq!(wire.outbound(&ClientJsonRpcMessage::request(request, id(number))), Some(id(number)));
}

fn call() -> ClientRequest {
    ClientRequest::CallToolRequest(Request::new(CallToolRequestParams::new("look")))
}

fn list() -> ClientRequest {
    ClientRequest::ListToolsRequest(ListToolsRequest::default())
}

fn unusable(wire: &Wire, text: &str, answers: Option<&RequestId>) -> String {
    wire.inbound(text, answers).unwrap_err().did
}

#[test]
fn an_answer_is_kept_as_it_was_written_and_the_library_gets_a_stub() {
    let (wire, slot) = (wire(), Slot::new(None));
    sent(&wire, call(), 1, Some(&slot));
    let Ok(Inbound::Pass(text)) = wire.inbound(r#"{"jsonrpc":"2.0","id":1,"result":{ "odd" : [1,  2] }}"#, None) else { panic!() };
    assert!(matches!(parsed(&text), Some(ServerJsonRpcMessage::Response(response)) if response.id == id(1)));
    let Some(Answer::Result(raw)) = slot.take() else { panic!() };
    assert_eq!(raw.text, r#"{ "odd" : [1,  2] }"#);
}

#[test]
fn a_late_answer_to_the_question_that_was_given_up_is_passed_over() {
    use rmcp::model::{InitializeRequest, InitializeRequestParams};
    let wire = wire();
    // Stands for the question whether a server speaks the later revision: the library asks it, and nobody else waits for the answer.
    sent(&wire, list(), 1, None);
    sent(&wire, ClientRequest::InitializeRequest(InitializeRequest::new(InitializeRequestParams::default())), 2, None);
    let late = wire.inbound(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"what?"}}"#, None).unwrap_err();
    assert!(late.is_stray, "{late:?}");
    assert!(matches!(wire.inbound(r#"{"jsonrpc":"2.0","id":2,"result":{}}"#, None), Ok(Inbound::Pass(_))));
}

#[test]
fn an_error_of_the_server_is_an_answer_too_even_without_an_id() {
    for reply in
        [r#"{"id":null,"error":{"code":-32602,"message":"no"}}"#, r#"{"id":"server-error","error":{"code":-32602,"message":"no"}}"#]
    {
        let (wire, slot) = (wire(), Slot::new(None));
        sent(&wire, call(), 1, Some(&slot));
        assert!(matches!(wire.inbound(reply, Some(&id(1))), Ok(Inbound::Pass(_))), "{reply}");
        assert!(matches!(slot.take(), Some(Answer::Error(raw)) if raw.text.contains("-32602")));
    }
}

#[test]
fn an_answer_to_another_request_is_not_taken() {
    let (wire, slot) = (wire(), Slot::new(None));
    sent(&wire, call(), 1, Some(&slot));
    assert_eq!(unusable(&wire, r#"{"id":2,"result":{}}"#, Some(&id(1))), "answered another request than the one it was asked");
    assert_eq!(unusable(&wire, r#"{"id":2,"result":{}}"#, None), "answered a request that it was not asked");
    assert_eq!(unusable(&wire, r#"{"result":{}}"#, Some(&id(1))), "sent an answer without an id");
    assert!(slot.take().is_none());
    assert!(wire.inbound(r#"{"id":"1","result":{}}"#, Some(&id(1))).is_ok(), "a number may be written as a text");
    assert_eq!(unusable(&wire, r#"{"id":1,"result":{}}"#, None), "answered a request that it was not asked", "once");
}

#[test]
fn what_is_no_message_is_not_taken() {
    let wire = wire();
    let nested = format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000));
    for text in ["", "x", "[]", "{", "{}", r#"{"id":1}"#, r#"{"id":1,"result":1,"error":{}}"#, "null", "1e999", "[null,\"ping\"]", &nested]
    {
        assert!(wire.inbound(text, Some(&id(1))).is_err(), "{text:.80}");
    }
    let bomb = format!(r#"{{"id":1,"result":[{}0]}}"#, "[],".repeat(MCP_MESSAGE_VALUES_MAX));
    assert_eq!(unusable(&wire, &bomb, None), format!("sent a message with more than {MCP_MESSAGE_VALUES_MAX} values"));
    let long = format!(r#"{{"id":1,"result":"{}"}}"#, "x".repeat(MCP_MESSAGE_BYTES_MAX));
    assert_eq!(unusable(&wire, &long, None), too_long().did);
}

#[test]
fn a_text_full_of_commas_is_one_value() {
    assert_eq!(values_in(&json!({ "a": ",,,[[[{{{\\\",,," }).to_string()), 2);
    assert_eq!(values_in("[1,2,[3,{}]]"), 7);
}

#[test]
fn progress_goes_to_the_request_that_it_is_about() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&lines);
    let (wire, slot) = (wire(), Slot::new(Some(Progress::new(move |line| heard.lock().push(line.to_owned())))));
    sent(&wire, call(), 1, Some(&slot));
    for (token, rest) in [("101", r#","total":4,"message":"half\nway""#), ("102", ""), ("\"x\"", ""), ("101", "")] {
        let text = format!(r#"{{"method":"notifications/progress","params":{{"progressToken":{token},"progress":2{rest}}}}}"#);
        assert_eq!(wire.inbound(&text, None), Ok(Inbound::Nothing));
    }
    assert_eq!(*lines.lock(), ["2 of 4: half\\nway", "2"]);
}

#[test]
fn notifications_end_here_and_what_they_tell_is_heard() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&heard);
    let wire = Wire::new("kit", move |told| keep.lock().push((told.event, told.data)));
    let long = "x".repeat(SOURCE_EVENT_BYTES_MAX);
    let long = json!({ "text": long });
    let log = json!({ "level": "warning", "logger": "disk", "data": { "free": 3 } });
    for (method, params, expected) in [
        ("notifications/tools/list_changed", json!({}), Some(("source.tools_changed", json!({})))),
        ("notifications/resources/list_changed", json!({}), Some(("source.resources_changed", json!({})))),
        ("notifications/prompts/list_changed", json!({}), Some(("source.prompts_changed", json!({})))),
        (
            "notifications/resources/updated",
            json!({ "uri": "file:///a" }),
            Some(("source.resource_updated", json!({ "uri": "file:///a" }))),
        ),
        ("notifications/resources/updated", json!({ "uri": 7 }), None),
        ("notifications/message", log, Some(("source.logged", json!({ "level": "warning", "logger": "disk", "message": { "free": 3 } })))),
        (
            "notifications/drive/file_added",
            json!({ "id": 3 }),
            Some(("source.notified", json!({ "method": "notifications/drive/file_added", "params": { "id": 3 } }))),
        ),
        (
            "notifications/drive/file_added",
            long,
            Some(("source.notified", json!({ "method": "notifications/drive/file_added", "params": {}, "cut": true }))),
        ),
    ] {
        let text = json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string();
        assert_eq!(wire.inbound(&text, None), Ok(Inbound::Nothing), "{method}");
        assert_eq!(heard.lock().drain(..).next(), expected, "{method}");
    }
    let cancelled = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}"#;
    assert_eq!(wire.inbound(cancelled, None), Ok(Inbound::Pass(cancelled.to_owned())));
    assert!(heard.lock().is_empty());
}

#[test]
fn a_server_that_asks_without_end_is_not_heard_until_we_have_answered() {
    let wire = wire();
    let ping = r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;
    for _ in 0..MCP_ASKED_AT_ONCE {
        assert!(matches!(wire.inbound(ping, None), Ok(Inbound::Pass(_))));
    }
    assert_eq!(wire.inbound(ping, None), Ok(Inbound::Nothing));
    for _ in 0..2 {
        wire.outbound(&ClientJsonRpcMessage::response(ClientResult::EmptyResult(EmptyResult {}), id(7)));
    }
    assert!(matches!(wire.inbound(ping, None), Ok(Inbound::Pass(_))));
}

#[test]
fn a_request_that_nobody_waits_for_is_forgotten() {
    let wire = wire();
    sent(&wire, call(), 1, Some(&Slot::new(None)));
    let slot = Slot::new(None);
    sent(&wire, call(), 2, Some(&slot));
    sent(&wire, call(), 2, Some(&slot));
    assert_eq!(wire.under_way.lock().len(), 1);
}

#[test]
fn a_request_that_is_given_up_says_why() {
    let (wire, slot, other) = (wire(), Slot::new(None), Slot::new(None));
    sent(&wire, call(), 1, Some(&slot));
    sent(&wire, call(), 2, Some(&other));
    let error = wire.broken(&too_long());
    assert!(wire.fail(&id(1), error.clone()).is_some_and(|text| parsed(&text).is_some()));
    assert!(matches!(slot.take(), Some(Answer::Failed(found)) if found == error));
    wire.fail_all(&error);
    assert!(matches!(other.take(), Some(Answer::Failed(found)) if found == error));
    assert_eq!((wire.trouble(), wire.ended()), (Some(error.clone()), Some(error)));
}

#[test]
fn the_library_learns_which_params_belong_in_headers_and_no_more() {
    let (wire, slot) = (wire(), Slot::new(None));
    sent(&wire, list(), 1, Some(&slot));
    let tools = json!([
        { "name": "plain", "inputSchema": { "type": "object" } },
        { "name": "routed", "description": "long", "inputSchema": { "type": "object", "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" } } } },
        { "name": 7, "x-mcp-header": "odd" },
    ]);
    let text = json!({ "jsonrpc": "2.0", "id": 1, "result": { "tools": tools } }).to_string();
    let Ok(Inbound::Pass(text)) = wire.inbound(&text, None) else { panic!() };
    let Some(ServerJsonRpcMessage::Response(response)) = parsed(&text) else { panic!("{text}") };
    let ServerResult::ListToolsResult(list) = response.result else { panic!("{text}") };
    assert_eq!(list.tools.iter().map(|tool| tool.name.as_ref()).collect::<Vec<_>>(), ["routed"]);
}
