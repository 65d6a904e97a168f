//! What the words beside a number say about it, in the languages people write to agents in.

use crate::words;
use std::collections::HashSet;
use std::sync::LazyLock;

/// What a key or the words before say of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::redact) enum Says {
    Nothing,
    /// That it is dialled.
    Telephone,
    /// That it counts, pays or identifies something.
    Other,
}

impl Says {
    /// What a key says of the text under it.
    pub(in crate::redact) fn of_key(key: &str) -> Self {
        let words = words::split(key);
        let says: Vec<Self> = words.iter().map(|word| of_word(word)).collect();
        match says.last() {
            Some(Self::Other) => Self::Other,
            Some(Self::Nothing | Self::Telephone) if says.contains(&Self::Telephone) => Self::Telephone,
            Some(Self::Nothing | Self::Telephone) | None => Self::Nothing,
        }
    }

    /// What a key says of the members below it: a telephone has a number, and an order may have anything.
    pub(in crate::redact) fn below(self) -> Self {
        match self {
            Self::Telephone => Self::Telephone,
            Self::Nothing | Self::Other => Self::Nothing,
        }
    }

    /// What is nearer to a number is heard first: the words beside it, its key, the key above.
    pub(in crate::redact) fn and(self, nearer: Self) -> Self {
        match nearer {
            Self::Telephone | Self::Other => nearer,
            Self::Nothing => self,
        }
    }
}

/// How far to the left of a number its words are read.
const CHARS_MAX: usize = 48;
/// How many of them.
const WORDS_MAX: usize = 4;

/// What the words before a number say: the nearest that says something, as long as only small words lie between.
pub(super) fn before(chars: &[char], begin: usize) -> Says {
    let from = begin.saturating_sub(CHARS_MAX);
    let mut rest = &chars[from..begin];
    let mut is_number = false;
    for _ in 0..WORDS_MAX {
        let gap = rest.iter().rev().take_while(|character| GAP.contains(character)).count();
        rest = &rest[..rest.len() - gap];
        let length = rest.iter().rev().take_while(|character| is_word(**character)).count();
        if length == 0 {
            break;
        }
        let word: String = rest[rest.len() - length..].iter().flat_map(|character| character.to_lowercase()).collect();
        let is_owned = is_number && OWNERS.contains(word.as_str());
        is_number = NUMBER.contains(word.as_str());
        match of_text(&word) {
            Says::Nothing if is_owned => return Says::Telephone,
            Says::Nothing if SMALL.contains(word.as_str()) => rest = &rest[..rest.len() - length],
            said @ (Says::Nothing | Says::Telephone | Says::Other) => return said,
        }
    }
    Says::Nothing
}

/// Whether a currency or a unit follows, after a space.
pub(super) fn is_unit(chars: &[char], end: usize) -> bool {
    if chars.get(end) != Some(&' ') {
        return false;
    }
    let word: String =
        chars[end + 1..].iter().take(12).take_while(|character| !character.is_whitespace()).flat_map(|c| c.to_lowercase()).collect();
    UNITS.contains(word.trim_end_matches(['.', ',', ';', ')', '!', '?']))
}

const GAP: [char; 14] = [' ', ':', '.', '=', '(', ')', '"', '\'', '-', '/', '*', '\t', '[', ','];

fn is_word(character: char) -> bool {
    character.is_alphabetic()
        || character == '_'
        || matches!(character, '\u{300}'..='\u{36F}' | '\u{900}'..='\u{DFF}' | '\u{E31}'..='\u{E4E}')
}

/// A word of a text may be a key, such as `phone_number`, or end without a space before it.
fn of_text(word: &str) -> Says {
    if CALLING.contains(word) {
        return Says::Telephone;
    }
    if word.is_ascii() {
        return Says::of_key(word);
    }
    if ENDINGS.iter().any(|ending| word.ends_with(ending)) { Says::Telephone } else { of_word(word) }
}

fn of_word(word: &str) -> Says {
    if TELEPHONE.contains(word) {
        Says::Telephone
    } else if OTHER.contains(word) {
        Says::Other
    } else {
        Says::Nothing
    }
}

/// Where words are not divided, or change their endings.
const ENDINGS: &[&str] = &[
    "电话",
    "電話",
    "手机",
    "手機",
    "手机号",
    "电话号码",
    "電話番号",
    "携帯",
    "致电",
    "전화",
    "전화번호",
    "연락처",
    "휴대폰",
    "휴대전화",
    "โทร",
    "เบอร์",
    "โทรศัพท์",
    "फोन",
    "फ़ोन",
    "मोबाइल",
    "هاتف",
    "جوال",
    "الهاتف",
    "الجوال",
    "טלפון",
    "נייד",
    "τηλέφωνο",
    "τηλ",
    "κινητό",
    "телефон",
    "телефону",
    "телефона",
    "тел",
    "моб",
    "мобильный",
    "мобільний",
    "звоните",
    "thoại",
    "đt",
];

type Words = LazyLock<HashSet<&'static str>>;

fn words_of(list: &'static str) -> HashSet<&'static str> {
    list.split_ascii_whitespace().collect()
}

/// What such a number is called, in keys and in texts.
static TELEPHONE: Words = Words::new(|| {
    words_of(
        "
    phone phones telephone telephones tel tels telno ph mobile mob mobiles cell cellphone fax faxes whatsapp sms msisdn landline hotline
    helpline handy telefon telefonnummer handynummer mobil mobilnummer rufnummer festnetz rückruf telefono teléfono tlf tfno celular
    móvil movil fono téléphone telefone telemóvel telemovel cellulare telefoon mobiel gsm puhelin puh matkapuhelin telefonnr mobilnr
    komórka komorka telefonszám telefonu telp telepon sđt phonenumber mobilephone homephone workphone viber imessage callto
",
    )
});

/// What is done with it; these are names of keys for other things too.
static CALLING: Words = Words::new(|| {
    words_of(
        "
    call calling called callback caller text texted txt ring rang dial wa anruf cel llamar llame llama portable appelez appeler joindre
    ligar ligue chiamare chiama bel telefonisch soita ringe zadzwoń hívjon cep ara hp hubungi nomor số signal
",
    )
});

static OTHER: Words = Words::new(|| {
    words_of(
        "
    id ids uuid guid order orders invoice ticket ref reference isbn issn iban bic account acct konto kontonummer sku sn serial tracking
    case zip postcode plz part version build port pid commit lot batch ean upc gtin vat siret siren tax ssn passport licence license
    card row line page amount price total balance qty quantity count epoch timestamp ts date time bytes size offset length seq sequence
    hash checksum digest index key code otp pin pins customer member membership policy contract booking reservation flight po rma bug issue
    pr job run task build_number bestellnummer bestellung rechnung rechnungsnummer kundennummer auftrag vorgang aktenzeichen pedido
    factura commande facture bon sendung paket parcel shipment barcode asset inventory meter poll polls population views likes revenue
    budget cost salary sum score earned width height latitude longitude lat lon lng nr_zamowienia zamówienie siret nip regon pesel ico
    asin oclc lccn npi ein duns ref_no doi pmid arxiv imei imsi iccid mac vin plate patent trademark docket matter chassis model catalog article artikel fatura
    заказ счет инн снилс
",
    )
});

/// They may stand between a word that says something and the number.
static SMALL: Words = Words::new(|| {
    words_of(
        "
    at on is no nr num number numbers numbered numéro numero número nummer nº номер me us him her them my our your his their the a an via
    to or and by under unter auf an bei am au en sur le la el al il lo de du des mein meine unser sein ist es est und y o ou et e
    direct new neue nueva nouveau alt now today please bitte work home office private privat büro free toll line desk reach line
    uk us de fr gb sms_ whatsapp_ su tu mi по на мне нам или and/or på till meg oss
",
    )
});

/// People have one number by which they are reached.
static NUMBER: Words = Words::new(|| words_of("number nummer numéro numero número номер"));
static OWNERS: Words = Words::new(|| words_of("my your his her our their mein meine meiner deine unsere mon votre mi su tu mio il мой"));

static UNITS: Words = Words::new(|| {
    words_of(
        "
    eur euro euros usd gbp chf jpy cny inr sek nok dkk pln czk huf rub uah brl mxn dollars pounds kr zł kč ft kg km mb gb tb kb bytes ms
    sec seconds minutes hours days px rows views users items units people pcs stück requests tokens lines records inhabitants
",
    )
});
