//! E-mail: a mail for a call that waits, in plain text and as HTML, with the link that answers it; and one for how it ended.

use super::kind::{Kind, Parts};
use super::{DeliveryError, Notice, Wire, secret, unfit};
use countersign_core::channel::{Channel, ChannelSetting, Moment, SettingShape};
use countersign_core::ports::Secrets;
use countersign_core::{Clock, Future, Invocation, OrgId, clean, source};
use serde::Deserialize;
use serde_json::{Value, json};
use sources::limits::{EMAIL_SUBJECT_CHARS_MAX, MAIL_SEND_MS};
use sources::mail::{Mail, MailAddress, MailLogin, MailServer, Mailer, Route, Security, Sender, Senders, Subject};
use sources::oauth::Own;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const KIND: Kind = Kind {
    name: "email",
    title: "mail",
    settings: &[
        ChannelSetting {
            name: "to",
            label: "To",
            help: "Mail to this address",
            example: "robin@example.com",
            shape: SettingShape::Recipients,
            is_required: true,
            value: "ADDRESS",
            ..ChannelSetting::TEXT
        },
        ChannelSetting {
            name: "from",
            label: "From",
            help: "The address that mail comes from, with a server for this channel alone",
            example: "countersign@example.com",
            needs: Some("server"),
            value: "ADDRESS",
            ..ChannelSetting::TEXT
        },
        ChannelSetting {
            name: "server",
            label: "Mail server",
            help: "A mail server for this channel alone, such as smtps://mail.example.com; else that of the org's mail connection, or the operator's",
            example: "smtps://mail.example.com",
            needs: Some("from"),
            value: "URL",
            ..ChannelSetting::TEXT
        },
        ChannelSetting {
            name: "username",
            label: "User name there",
            help: "Who we are to the mail server",
            needs: Some("server"),
            value: "NAME",
            ..ChannelSetting::TEXT
        },
        ChannelSetting {
            name: "password",
            label: "Secret with the password",
            help: "The secret that has our password there",
            is_required: false,
            needs: Some("username"),
            ..ChannelSetting::SECRET
        },
    ],
    wire: |parts| Arc::new(SmtpWire::of(parts)),
};

struct SmtpWire {
    secrets: Arc<dyn Secrets>,
    mailer: Arc<Mailer>,
    senders: Arc<dyn Senders>,
    clock: Arc<dyn Clock>,
    /// Where people reach this server.
    address: Own,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    to: Vec<String>,
    #[serde(default)]
    from: Option<String>,
    /// Absent: the org's mail connection, or the operator's setting.
    #[serde(default)]
    server: Option<String>,
    #[serde(default)]
    username: Option<String>,
    /// The name of a secret.
    #[serde(default)]
    password: Option<String>,
}

/// Settings that name addresses, and a server if the channel has its own.
struct Checked {
    to: Vec<MailAddress>,
    own: Option<Named>,
}

/// A server that a channel names.
struct Named {
    from: MailAddress,
    server: MailServer,
    /// The user, and the name of the secret with the password.
    login: Option<(String, String)>,
}

impl Wire for SmtpWire {
    fn deliver<'a>(
        &'a self,
        channel: &'a Channel,
        notice: &'a Notice,
        earlier: Option<&'a Value>,
    ) -> Future<'a, Result<Option<Value>, DeliveryError>> {
        Box::pin(self.tell(channel, notice, earlier))
    }

    fn refusal(&self, settings: &Value) -> Option<source::Error> {
        let checked = match Settings::deserialize(settings).map_err(|error| error.to_string()).and_then(Settings::checked) {
            Ok(checked) => checked,
            Err(wrong) => return Some(unfit(wrong)),
        };
        let own = checked.own?;
        self.mailer.check(&own.server).err()
    }
}

impl SmtpWire {
    fn of(parts: &Parts) -> Self {
        let Parts { secrets, mailer, senders, clock, address, .. } = parts;
        let (secrets, mailer, senders, clock) = (Arc::clone(secrets), Arc::clone(mailer), Arc::clone(senders), Arc::clone(clock));
        Self { secrets, mailer, senders, clock, address: address.clone() }
    }

    async fn tell(&self, channel: &Channel, notice: &Notice, earlier: Option<&Value>) -> Result<Option<Value>, DeliveryError> {
        let settings = Settings::deserialize(&channel.settings).map_err(|error| DeliveryError::Never(error.to_string()))?;
        let checked = settings.checked().map_err(DeliveryError::Never)?;
        let (id, answers) = match (notice.moment, earlier) {
            (Moment::Pending, _) | (Moment::InDoubt, None) => (notice.invocation.id.to_string(), None),
            (Moment::InDoubt, Some(_)) => (format!("{}.doubted", notice.invocation.id), Some(notice.invocation.id.to_string())),
            // Who was asked is told how it ended. That somebody else has approved it is no reason for a mail.
            (Moment::Ended, Some(_)) => (format!("{}.ended", notice.invocation.id), Some(notice.invocation.id.to_string())),
            (Moment::Decided, _) | (Moment::Ended, None) => return Ok(earlier.cloned()),
        };
        let Sender { route, from } = self.sender(channel, checked.own).await?;
        let Written { subject, text, html } = written(notice, &self.address);
        let subject = Subject::new(&subject).ok_or_else(|| DeliveryError::Never("the mail has no subject".to_owned()))?;
        let mail = Mail { from, to: checked.to, subject, text, html: Some(html), id, answers, at: self.clock.now() };
        self.mailer.send(&route, &mail, Duration::from_millis(MAIL_SEND_MS)).await.map_err(|error| DeliveryError::outside(&error))?;
        Ok(Some(json!({ "message_id": notice.invocation.id })))
    }

    /// The server that the channel names, else the org's.
    async fn sender(&self, channel: &Channel, own: Option<Named>) -> Result<Sender, DeliveryError> {
        match own {
            Some(Named { from, server, login }) => {
                let route = Route { server, login: self.login(&channel.org, login).await? };
                Ok(Sender { route, from })
            }
            None => self.senders.sender_of(&channel.org, channel.space.as_ref()).await.map_err(|error| DeliveryError::outside(&error)),
        }
    }

    async fn login(&self, org: &OrgId, login: Option<(String, String)>) -> Result<Option<MailLogin>, DeliveryError> {
        match login {
            Some((username, password)) => {
                let password = secret::open(&*self.secrets, org, &password).await?;
                Ok(Some(MailLogin { username, password }))
            }
            None => Ok(None),
        }
    }
}

impl Settings {
    fn checked(self) -> Result<Checked, String> {
        if self.server.is_some() != self.from.is_some() {
            return Err("`server` and `from` are given together; without both the org's mail connection is used".to_owned());
        }
        if self.username.is_some() && self.server.is_none() {
            return Err("`username` needs a `server`".to_owned());
        }
        if self.password.is_some() && self.username.is_none() {
            return Err("`password` needs a `username`".to_owned());
        }
        let address = |text: &String| text.parse::<MailAddress>().map_err(|error| error.to_string());
        let to = self.to.iter().map(address).collect::<Result<_, _>>()?;
        let (Some(server), Some(from)) = (self.server, self.from) else { return Ok(Checked { to, own: None }) };
        let server: MailServer = server.parse().map_err(|error: sources::Error| error.to_string())?;
        let login = match (self.username, self.password) {
            (Some(username), Some(password)) => Some((username, password)),
            (Some(_), None) => return Err("`username` and `password` are given together".to_owned()),
            (None, _) => None,
        };
        if login.is_some() && server.security() == Security::None {
            return Err("a password is sent over TLS only: leave `?tls=none` out".to_owned());
        }
        Ok(Checked { to, own: Some(Named { from: address(&from)?, server, login }) })
    }
}

/// What mail programs take: they drop a style sheet, and keep what stands at the element.
const BODY: &str = "font:16px/1.5 system-ui,sans-serif;max-width:44em";
const LABEL: &str = "text-align:left;vertical-align:top;font-weight:normal;color:#71717a;padding:0 1em .3em 0;white-space:nowrap";
const BLOCK: &str = "background:#f4f4f5;color:#18181b;padding:.75em;border-radius:.5em;white-space:pre-wrap";

/// The words of a mail.
struct Written {
    subject: String,
    text: String,
    html: String,
}

/// SECURITY: text of others is cleaned, stands in lines of its own, and in HTML is escaped. The address is ours.
fn written(notice: &Notice, address: &Own) -> Written {
    let invocation = &*notice.invocation;
    if notice.is_test {
        return test(notice, address);
    }
    let became = match notice.moment {
        Moment::Pending => "waits for an approval".to_owned(),
        Moment::Decided => "is approved".to_owned(),
        Moment::InDoubt => "is in doubt: nobody knows whether it happened".to_owned(),
        Moment::Ended => format!("has ended: {}", invocation.status),
    };
    let title = format!("{} {became}", invocation.action);
    let facts = notice.facts();
    let params = clean::json(&serde_json::to_string_pretty(&invocation.call.params).unwrap_or_default());
    let cut = if pipeline::is_truncated(&invocation.call.params) { "This is not all that would be sent.\n" } else { "" };
    let (how, url) = match (&notice.link, notice.moment) {
        (Some(link), Moment::Pending) => ("Answer it here. Whoever has this link answers in your name.", link.clone()),
        (None, Moment::Pending) => ("Answer it here, after a login.", page(invocation, address)),
        (_, Moment::Decided | Moment::InDoubt | Moment::Ended) => ("See it here, after a login.", page(invocation, address)),
    };
    let lines: String = facts.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
    let text = format!("{title}\n\n{lines}\n{params}\n{cut}\n{how}\n{url}\n");
    let row = |(name, value): &(&str, String)| format!("<tr><th style=\"{LABEL}\">{name}</th><td>{}</td></tr>\n", escaped(value));
    let rows: String = facts.iter().map(row).collect();
    let html = framed(&format!(
        "<h1 style=\"font-size:1.2em\">{}</h1>\n<table>\n{rows}</table>\n<pre style=\"{BLOCK}\">{}</pre>\n<p>{cut}</p>\n\
         <p>{how}<br><a href=\"{url}\">{url}</a></p>",
        escaped(&title),
        escaped(&params),
        url = escaped(&url)
    ));
    // Only the name of an action can be long.
    let subject = title.chars().take(EMAIL_SUBJECT_CHARS_MAX).collect();
    Written { subject, text, html }
}

/// A mail that only tries the channel. It has nothing that looks like a call.
fn test(notice: &Notice, address: &Own) -> Written {
    let subject = "This is a test: no call waits".to_owned();
    let reason = notice.invocation.call.reason.as_deref().map(clean::line).unwrap_or_default();
    let text = format!("{reason}\n\nSent by: {}\nServer: {}\n", clean::line(&notice.who.requester), address.address());
    let html = framed(&format!("<pre style=\"{BLOCK}\">{}</pre>", escaped(&text)));
    Written { subject, text, html }
}

fn framed(body: &str) -> String {
    // Lines stay short: mail servers break long ones.
    format!("<!doctype html>\n<html lang=\"en\"><body style=\"{BODY}\">\n{body}\n</body></html>\n")
}

fn page(invocation: &Invocation, address: &Own) -> String {
    format!("{}/inbox/{}", address.address(), invocation.id)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").replace('\'', "&#39;")
}

#[cfg(test)]
#[path = "smtp_tests.rs"]
mod tests;
