//! Finds text that gives orders to a model: to drop its instructions, to hide something from the person, or a turn of a conversation that
//! never took place. An article about such texts contains them too, so these findings only label and never block.

use super::findings::{Findings, Rule, Severity};
use super::{hidden, text};
use regex::{RegexSet, RegexSetBuilder};
use serde_json::Value;
use std::sync::LazyLock;

const INSTRUCTION_OVERRIDE: Rule =
    Rule { id: "safety.instruction_override", severity: Severity::Labels, message: "a text tells the reader to drop its instructions" };
const INSTRUCTION_CONCEALMENT: Rule = Rule {
    id: "safety.instruction_concealment",
    severity: Severity::Labels,
    message: "a text tells the reader to keep something from the person it works for",
};
const FAKE_TURN: Rule =
    Rule { id: "safety.fake_turn", severity: Severity::Labels, message: "a text is made up as a turn of the system or of the assistant" };

pub(super) fn scan(value: &Value, findings: &mut Findings) {
    text::each(value, &mut |path, _, text| {
        for rule in look(text) {
            findings.add(rule, || path.pointer());
        }
    });
}

/// The rules that a text breaks, each once.
pub(super) fn look(text: &str) -> Vec<&'static Rule> {
    if text.len() < INSTRUCTION_BYTES_MIN {
        return Vec::new();
    }
    let Ok(patterns) = &*PATTERNS else {
        // Without the patterns, any text could be an order.
        return vec![&INSTRUCTION_OVERRIDE];
    };
    let seen = hidden::seen(text);
    let mut rules: Vec<&'static Rule> = Vec::new();
    for index in patterns.matches(&seen) {
        if let Some((rule, _)) = TABLE.get(index).filter(|(rule, _)| !rules.iter().any(|found| found.id == rule.id)) {
            rules.push(rule);
        }
    }
    rules
}

/// The length of the shortest order, in the language that needs the fewest bytes.
const INSTRUCTION_BYTES_MIN: usize = 6;

static PATTERNS: LazyLock<Result<RegexSet, regex::Error>> = LazyLock::new(|| {
    // Word boundaries by ASCII only: Unicode boundaries are many times slower in any text that is not English.
    let patterns = TABLE.iter().map(|(_, pattern)| pattern.replace(r"\b", r"(?-u:\b)"));
    RegexSetBuilder::new(patterns).case_insensitive(true).build()
});

type Row = (&'static Rule, &'static str);

/// One row per language and order. Only phrases that nobody says to a person: people write "ignore my earlier message", but only an attack
/// speaks of a model's earlier instructions.
const TABLE: &[Row] = &[
    (
        &INSTRUCTION_OVERRIDE,
        r"\b(?:ignore|disregard|forget|override|bypass|(?:do not|don['’]t|stop) (?:follow|following|obey|obeying))\s+(?:(?:all|any|every|each|of|the|your|my|our|these|those|and)\s+){0,4}(?:previous|prior|above|earlier|preceding|former|foregoing|existing|original|initial|system|safety)\s+(?:(?:and|or|system|safety|given|user|developer|security)\s+){0,2}(?:instructions?|prompts?|rules|directions|guidelines|directives?|commands|programming|training|constraints|polic(?:y|ies))\b",
    ),
    (
        &INSTRUCTION_OVERRIDE,
        r"\b(?:ignore|disregard|forget)\s+(?:everything|all|anything)\s+(?:(?:that\s+)?(?:you\s+(?:were|have\s+been|are)\s+told|you\s+know|written\s+above|said\s+(?:above|before)|(?:that\s+)?came\s+before)|(?:your|the)\s+instructions)\b",
    ),
    (
        &INSTRUCTION_OVERRIDE,
        r"\byou\s+are\s+(?:now|no\s+longer)\s+(?:in\s+developer\s+mode|in\s+god\s+mode|jailbroken|unrestricted|DAN\b|bound\s+by|restricted\s+by|an?\s+unrestricted)",
    ),
    (
        &INSTRUCTION_OVERRIDE,
        r"\b(?:ignorier(?:e|en|t)|missacht(?:e|en|et)|vergiss|vergesst|vergessen)\s+(?:sie\s+)?(?:(?:all(?:e|en)?|die|deine|ihre|eure|sämtliche)\s+){0,2}(?:vorherigen?|vorigen?|bisherigen?|obigen?|früheren?|vorangegangenen?)\s+(?:anweisungen|instruktionen|regeln|befehle|vorgaben|prompts?)\b",
    ),
    (
        &INSTRUCTION_OVERRIDE,
        r"\b(?:ignor(?:e|es|ez|er)|oubli(?:e|es|ez|er))\s+(?:toutes\s+)?(?:les|tes|vos|ces)\s+(?:instructions|consignes|règles|directives)\s+(?:précédentes|antérieures|ci-dessus|initiales)",
    ),
    (
        &INSTRUCTION_OVERRIDE,
        r"\b(?:ignor(?:a|e|en|ar|ad)|olvid(?:a|e|en|ar|ad))\s+(?:todas\s+)?(?:las|tus|sus|estas)\s+(?:instrucciones|reglas|indicaciones|órdenes|directrices)\s+(?:anteriores|previas|iniciales)",
    ),
    (
        &INSTRUCTION_OVERRIDE,
        r"\b(?:ignor(?:e|a|em|ar)|esqueç(?:a|am)|desconsider(?:e|em|ar))\s+(?:todas\s+)?(?:as\s+)?(?:suas\s+)?(?:instruções|regras|orientações|diretrizes)\s+(?:anteriores|prévias|acima|iniciais)",
    ),
    (
        &INSTRUCTION_OVERRIDE,
        r"\b(?:ignor(?:a|are|ate|i)|dimentic(?:a|are|ate|hi))\s+(?:tutte\s+)?(?:le|tue|le\s+tue)\s+(?:istruzioni|regole|indicazioni|direttive)\s+(?:precedenti|iniziali)",
    ),
    (
        &INSTRUCTION_OVERRIDE,
        r"\b(?:negeer|vergeet)\s+(?:alle\s+)?(?:de\s+|je\s+|jouw\s+)?(?:vorige|eerdere|voorgaande|bovenstaande)\s+(?:instructies|opdrachten|regels|aanwijzingen)",
    ),
    (
        &INSTRUCTION_OVERRIDE,
        r"\b(?:zignoruj|ignoruj|zapomnij)\s+(?:o\s+)?(?:wszystkie\s+|wszystkich\s+)?(?:poprzednie|poprzednich|wcześniejsze|powyższe)\s+(?:instrukcje|instrukcjach|polecenia|poleceniach|zasady)",
    ),
    (
        &INSTRUCTION_OVERRIDE,
        r"(?:игнорируй|проигнорируй|забудь)(?:те)?\s+(?:обо?\s+)?(?:все(?:х)?\s+)?(?:предыдущи[ех]|прежни[ех]|прошлы[ех]|вышеуказанны[ех])\s+(?:инструкци(?:и|ях)|указани(?:я|ях)|правила(?:х)?|команд(?:ы|ах))",
    ),
    (
        &INSTRUCTION_OVERRIDE,
        r"(?:忽略|无视|無視|忘记|忘記|忽视|不要理会)(?:你)?(?:所有|全部|一切)?(?:的)?(?:之前|以前|先前|以上|前面|上面|此前|上述)(?:的)?(?:所有|全部|一切)?(?:的)?(?:系统|系統)?(?:指令|指示|提示词|提示|命令|规则|規則|说明|說明)",
    ),
    (
        &INSTRUCTION_OVERRIDE,
        r"(?:以前|これまで|今まで|前|上記|先)の(?:すべて|全て|全)?の?(?:システム)?(?:指示|命令|プロンプト|ルール|指令)(?:を|は)(?:すべて|全て)?(?:無視|忘れ)",
    ),
    (
        &INSTRUCTION_OVERRIDE,
        r"(?:이전|앞선|위)(?:의)?\s*(?:모든\s*)?(?:지시|명령|지침|프롬프트|규칙)(?:\s*사항)?(?:들)?(?:을|를|은|는)?\s*(?:모두\s*|전부\s*)?(?:무시|잊)",
    ),
    (&INSTRUCTION_OVERRIDE, r"تجاهل\s+(?:جميع\s+|كل\s+)?(?:التعليمات|الأوامر|الإرشادات)\s+(?:السابقة|أعلاه)"),
    (
        &INSTRUCTION_CONCEALMENT,
        r"\b(?:do\s+not|don['’]t|never|must\s+not|without)\s+(?:ever\s+)?(?:tell(?:ing)?|inform(?:ing)?|notify(?:ing)?|alert(?:ing)?|(?:mention|reveal|disclos|admit)(?:e|ing)?\s+(?:(?:this|it|that|any\s+of\s+this)\s+)?to)\s+(?:the\s+|your\s+|any\s+)?(?:users?|humans?|operators?)\b",
    ),
    (
        &INSTRUCTION_CONCEALMENT,
        r"\b(?:do\s+not|don['’]t|never)\s+let\s+(?:the\s+|your\s+)?(?:user|human|operator)\s+(?:know|see|notice|find\s+out)\b",
    ),
    (
        &INSTRUCTION_CONCEALMENT,
        r"\b(?:keep|hide|conceal)\s+(?:this|it)\s+(?:(?:a\s+)?secret\s+)?(?:hidden\s+)?from\s+(?:the\s+|your\s+)?(?:user|human|operator)\b",
    ),
    (
        &INSTRUCTION_CONCEALMENT,
        r"\b(?:sag(?:e|en)?|erzähl(?:e|en)?|verrat(?:e|en)?|teile?)\s+(?:sie\s+)?(?:es\s+|das\s+|davon\s+)?(?:dem|der|den)\s+(?:benutzer(?:in|n)?|nutzer(?:in|n)?|anwender(?:in|n)?)\s+(?:nichts|nicht)",
    ),
    (
        &INSTRUCTION_CONCEALMENT,
        r"\bne\s+(?:le\s+|la\s+)?(?:dis|dites|révèle|révélez|mentionne|mentionnez)\s+(?:rien|pas|jamais)\s+(?:cela\s+|ceci\s+)?à\s+l['’]utilisateur",
    ),
    (
        &INSTRUCTION_CONCEALMENT,
        r"\bno\s+(?:se\s+lo\s+|le\s+|lo\s+)?(?:digas|diga|informes|informe|menciones|reveles)\s+(?:nada\s+|esto\s+)?al\s+usuario",
    ),
    (&INSTRUCTION_CONCEALMENT, r"\bnão\s+(?:diga|conte|informe|revele|mencione)\s+(?:nada\s+|isso\s+|isto\s+)?ao\s+usuário"),
    (&INSTRUCTION_CONCEALMENT, r"не\s+(?:говори|сообщай|рассказывай)(?:те)?\s+(?:об\s+этом\s+)?пользовател(?:ю|ям)"),
    (&INSTRUCTION_CONCEALMENT, r"(?:不要|别|請勿|请勿|不得)(?:把这)?(?:告诉|告訴|告知|通知|透露给)(?:用户|用戶|使用者)"),
    (&INSTRUCTION_CONCEALMENT, r"ユーザー(?:に|には)(?:は)?(?:知らせ|伝え|言わ|教え)(?:ない|ず)"),
    (&INSTRUCTION_CONCEALMENT, r"사용자에게\s*(?:는\s*)?(?:이를\s*|이것을\s*)?(?:알리지|말하지|밝히지)\s*(?:마|말|않)"),
    (
        &FAKE_TURN,
        r"<\|(?:im_start|im_end|system|user|assistant|start_header_id|end_header_id|eot_id|endoftext|begin_of_text)\|>|<start_of_turn>|<<SYS>>|\[/?INST\]|<(?:system[_-](?:prompt|reminder|message|instruction)|important_instructions?)>",
    ),
    (&FAKE_TURN, r"(?m)^\s{0,3}(?:#{1,4}\s*|\*\*)?(?:system|developer)\s+(?:prompt|message|instructions?|override)(?:\*\*)?\s*:"),
    (
        &FAKE_TURN,
        r"(?m)^\s*(?:human|user)\s*:\s*\S+[ ]\S[^\n]*\n\s*assistant\s*:|^\s*assistant\s*:\s*\S+[ ]\S[^\n]*\n\s*(?:human|user)\s*:",
    ),
    (&FAKE_TURN, r"<(?:important|critical|secret|hidden)>\s"),
];
